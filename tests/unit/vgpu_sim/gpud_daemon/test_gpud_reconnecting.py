"""Reconnect sockets: gpud alone can send to one, and its holder can only receive."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from vgpu_sim.gpud.contexts import reconnecting
from vgpu_sim.hal.compute import spawn
from vgpu_sim.system import seqpacket
from vgpu_sim.worker.channel import Channel


@dataclass
class Rig:
    """A worker's end of its channel, gpud's end, and the worker's reconnect socket."""

    run_dir: Path
    open_sockets: ExitStack

    def __post_init__(self) -> None:
        self.gpud, self.its = map(self.open_sockets.enter_context, seqpacket.pair())
        path = reconnecting.offer(self.run_dir, self.gpud)
        assert path is not None
        self.path = path

    def worker(self) -> Channel:
        interrupt = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.open_sockets.callback(os.close, interrupt)
        channel = Channel(self.its, interrupt, lambda *_: None, lambda *_: None)
        self.open_sockets.callback(channel.close)
        return channel

    def reconnect(self) -> socket.socket:
        later = reconnecting.reconnect(self.path)
        assert later is not None
        return self.open_sockets.enter_context(later[0])


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as open_sockets:
        yield Rig(tmp_path, open_sockets)


def test_a_worker_goes_on_with_each_gpud_that_comes(rig: Rig) -> None:
    channel, gpud = rig.worker(), rig.gpud
    channel.start({"seccomp": True})
    for _ in range(3):
        gpud.close()
        channel.read()
        assert not channel.alive
        gpud = rig.reconnect()
        assert channel.accept_reconnect()
        channel.resume(launches=3)
        assert spawn.decode(gpud.recv(4096)) == {
            "type": "resume",
            "sandbox": {"seccomp": True},
            "held_bytes": 0,
            "allocations": 0,
            "launches": 3,
        }
    assert not channel.accept_reconnect()


def test_a_worker_whose_gpud_ended_before_it_read_anything_is_reconnected(rig: Rig) -> None:
    rig.gpud.close()
    channel = rig.worker()
    channel.start({})
    assert not channel.alive
    rig.reconnect()
    assert channel.accept_reconnect()
    assert channel.alive


def test_its_holder_cannot_send(rig: Rig, tmp_path: Path) -> None:
    _, (descriptor,), _, _ = socket.recv_fds(rig.its, 4096, 1)
    victim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    victim.bind(str(tmp_path / "victim"))
    with socket.socket(fileno=descriptor) as held, victim, pytest.raises(BrokenPipeError):
        held.sendto(b"x", str(tmp_path / "victim"))


@pytest.mark.parametrize("why", ["path", "directory"])
def test_a_worker_starts_without_one_where_none_can_be_made(tmp_path: Path, why: str) -> None:
    run_dir = tmp_path / ("n" * 108) if why == "path" else tmp_path
    run_dir.mkdir(exist_ok=True)
    if why == "directory":
        (run_dir / reconnecting.DIRECTORY_NAME).write_text("")
    gpud, its = seqpacket.pair()
    with gpud, its:
        assert reconnecting.offer(run_dir, gpud) is None


def test_only_gpud_s_user_reaches_one(rig: Rig) -> None:
    assert rig.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_worker_that_is_no_more_is_not_reconnected(rig: Rig) -> None:
    rig.its.close()
    assert reconnecting.reconnect(rig.path) is None
    reconnecting.remove_others(rig.run_dir, set())
    assert not rig.path.exists()
    assert reconnecting.reconnect(rig.path) is None


def test_a_worker_cannot_send_a_descriptor_as_soon_as_it_has_its_end(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gpud's loop would have to close one sent before the socket refused descriptors."""
    sent: list[bool] = []

    def receiver_is_quick(
        sender: socket.socket, messages: list[bytes], descriptors: list[int]
    ) -> int:
        with socket.socket(fileno=os.dup(descriptors[0])) as its, open(os.devnull) as file:
            try:
                real(its, [b"x"], [file.fileno()])
            except PermissionError:
                sent.append(False)
            else:
                sent.append(True)
        return real(sender, messages, descriptors)

    real = socket.send_fds
    monkeypatch.setattr(socket, "send_fds", receiver_is_quick)
    found = reconnecting.reconnect(rig.path)
    assert found is not None
    channel, refusing = found
    channel.close()
    assert sent == [not refusing]


@pytest.mark.parametrize("name", ["", "../gpud.sock", "a" * 15, "A" * 16, "0123456789abcde/"])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="does not name"):
        reconnecting.address(tmp_path, name)
