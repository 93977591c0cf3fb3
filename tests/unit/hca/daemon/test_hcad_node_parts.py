"""The start of a node's hcad: its lock, existing listeners, the ready file, the wait for others."""

import asyncio
import fcntl
import math
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hca.daemon.common.handover_state import HandoverState
from hca.daemon.serving import handover, node
from hca.daemon.serving.handover import HandoverFailed
from vgpu_sim.hal import direct
from vgpu_sim.system import seqpacket


def test_the_probe_s_file_is_empty_until_this_hcad_is_ready(tmp_path: Path) -> None:
    """Even if its predecessor wrote to it; a probe of any user can read it, and no child inherits
    it.
    """
    path = tmp_path / "ready"
    before = os.umask(0)
    try:
        os.close(node._open_ready_file(path))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644
    path.write_text("1 and more")
    opened = node._open_ready_file(path)
    assert path.read_bytes() == b""
    assert not os.get_inheritable(opened)
    assert fcntl.fcntl(opened, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
    node._say_ready(options(tmp_path, ready_fd=opened))
    assert path.read_bytes() == b"1"
    node._say_ready(options(tmp_path))  # no probe reads it
    os.close(opened)


def options(directory: Path, ready_fd: int | None = None, patience: float = 60.0) -> Any:
    return node._Options(directory, 1 << 30, False, False, True, None, ready_fd, patience)


def test_a_lock_is_had_by_one_until_it_ends(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert node._is_free(first)
    assert node._is_free(first), "its own"
    assert not node._is_free(second)
    os.close(first)
    assert node._is_free(second)
    os.close(second)


def test_only_a_listening_socket_answers_even_with_a_full_backlog(tmp_path: Path) -> None:
    path = tmp_path / "direct.sock"
    assert not node._answers(path), "no file"
    listener = seqpacket.bind(path, 0o600)
    assert not node._answers(path), "bound, and not listening"
    listener.listen(0)
    assert node._answers(path)
    assert node._answers(path), "by now its backlog is full"
    listener.close()
    assert not node._answers(path), "a file that was left behind"


class StandIn:
    """Replaces time, and the hcad that serves."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory, self.now, self.slept = directory, 100.0, list[float]()
        self.answers: Iterator[Any] = iter(())
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        monkeypatch.setattr(node, "time", clock)
        monkeypatch.setattr(handover, "receive_state", self.ask)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def ask(self, directory: Path) -> Any:
        assert directory == self.directory
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return StandIn(tmp_path, monkeypatch)


def test_without_a_serving_hcad_it_starts_and_locks_others_out(stand_in: StandIn) -> None:
    lock, predecessor = node._lock_or_take_over(options(stand_in.directory))
    assert predecessor is None
    assert stand_in.slept == []
    assert not os.get_inheritable(lock)
    assert (stand_in.directory / "hcad.lock").stat().st_mode & 0o777 == 0o600
    other = os.open(stand_in.directory / "hcad.lock", os.O_RDWR)
    assert not node._is_free(other)
    os.close(other)
    os.close(lock)


def test_the_serving_hcad_gets_requests_until_it_hands_over(
    stand_in: StandIn, tmp_path: Path
) -> None:
    """Requests are sent twice a second; after the patience hcad reports ready, so that the other
    ends.
    """
    serving = os.open(stand_in.directory / "hcad.lock", os.O_RDWR | os.O_CREAT)
    assert node._is_free(serving)
    ready = tmp_path / "ready"
    said: list[bytes] = []

    def refusals() -> Iterator[Any]:
        for _ in range(5):
            said.append(ready.read_bytes())
            yield HandoverFailed("it is busy")
        said.append(ready.read_bytes())
        yield "successor", {}, HandoverState()

    stand_in.answers = refusals()
    opened = node._open_ready_file(ready)
    lock, handed = node._lock_or_take_over(
        options(stand_in.directory, ready_fd=opened, patience=1.5)
    )
    assert handed is not None
    assert handed[0] == "successor"
    assert stand_in.slept == [0.5] * 5
    # Refusals are at 0, 0.5, 1, 1.5 and 2 s; those from 1.5 s on write to the ready file.
    assert said == [b"", b"", b"", b"", b"1", b"11"]
    for descriptor in (lock, serving, opened):
        os.close(descriptor)


def test_one_that_cannot_hand_over_is_waited_for_with_the_lock(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old hcad holds no lock, and would remove the new sockets when it ends."""
    listener = seqpacket.bind(stand_in.directory / direct.SOCKET_NAME, 0o600)
    listener.listen(8)

    def sleep(seconds: float) -> None:
        stand_in.slept.append(seconds)
        if len(stand_in.slept) == 3:
            listener.close()

    monkeypatch.setattr(node, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep))
    lock, predecessor = node._lock_or_take_over(options(stand_in.directory))
    assert predecessor is None
    assert stand_in.slept == [0.5] * 3
    os.close(lock)


def test_what_one_hcad_listens_on_goes_to_the_next_each_under_its_name(tmp_path: Path) -> None:
    opened = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3)]
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    providers: Any = type("Providers", (), {"listener": opened[2]})()
    handover_state = HandoverState()
    saved = node._Listening(lock, opened[0], opened[1], providers).save(handover_state)
    names = ("lock", "successors", "administration", "direct")
    assert [handover_state.descriptors[saved[name]] for name in names] == [
        lock,
        *(one.fileno() for one in opened),
    ]
    assert saved.keys() == set(names)
    for one in opened:
        one.close()
    os.close(lock)


@pytest.mark.parametrize("weak", [False, True])
def test_the_engine_s_library_is_loaded_before_the_sandbox_and_started_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(node, "preload", lambda: begun.append("library"))
    monkeypatch.setattr(
        node.sandbox, "enter_on_node", lambda directory, *, weak: begun.append((directory, weak))
    )
    monkeypatch.setattr(node, "Engine", lambda: begun.append("engine") or "it")
    chosen = node._Options(tmp_path, 1, False, False, weak, None, None, 0.0)
    assert node._confined_engine(chosen) == "it"
    assert begun == ["library", (tmp_path, weak), "engine"]


def test_the_engine_is_ready_before_a_predecessor_hands_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of a predecessor wait only while their objects are restored."""
    steps: list[str] = []
    monkeypatch.setattr(node, "_confined_engine", lambda _: steps.append("engine") or "it")

    def take_over(_: Any) -> Any:
        steps.append("handover")
        return os.open(tmp_path, os.O_RDONLY), ("predecessor", {}, HandoverState())

    async def succeed(_options: Any, _shares: Any, engine: Any, *_: Any) -> None:
        steps.append(f"{engine} serves")

    monkeypatch.setattr(node, "_lock_or_take_over", take_over)
    monkeypatch.setattr(node, "_succeed", succeed)
    shares: Any = "shares"
    asyncio.run(node._main(options(tmp_path), shares))
    assert steps == ["engine", "handover", "it serves"]


def test_the_pause_is_the_time_since_the_predecessor_suspended_its_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handover, "time", SimpleNamespace(monotonic=lambda: 100.25))
    assert handover.pause_ms({"suspended": 100.0}) == 250.0
    assert math.isnan(handover.pause_ms({})), "a predecessor of an older version"


@pytest.mark.parametrize("wire", [False, True])
def test_sockets_in_pods_are_requested_if_wires_are_enabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire: bool
) -> None:
    made: list[tuple[Any, ...]] = []

    def server(*values: Any, **named: Any) -> Any:
        made.append((*values, named["shares"], named["netd"]))
        return SimpleNamespace()

    monkeypatch.setattr(node, "NodeServer", server)
    monkeypatch.setattr(node, "Netd", lambda *values: values)
    listening: Any = SimpleNamespace(providers="providers")
    chosen = node._Options(tmp_path, 77, wire, True, False, None, None, 0.0)
    engine: Any = "engine"
    shares: Any = "shares"
    assert node._server(chosen, engine, shares, listening).providers == "providers"
    assert made == [(tmp_path, "engine", 77, "shares", (tmp_path if wire else None, True))]
