"""The link to the command that owns a private gpud, and the cleanup after the command's death."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from vgpu_sim.gpud import owner
from vgpu_sim.gpud.owner import OwnerWatch
from vgpu_sim.system import processes

TOKEN = b"\xab\xcd" * 8


def watch_owner(act: Callable[[socket.socket, OwnerWatch], None]) -> tuple[bool, int]:
    """Let an owner act; return whether gpud considers it dead, and how often ``on_end`` was
    called.
    """

    async def scenario() -> tuple[bool, int]:
        ours, theirs = socket.socketpair()
        ended = asyncio.Event()
        calls = 0

        def on_end() -> None:
            nonlocal calls
            calls += 1
            ended.set()

        watch = OwnerWatch(ours.detach(), on_end)
        assert not watch.owner_died
        try:
            act(theirs, watch)
            await asyncio.wait_for(ended.wait(), 60)
            for _ in range(5):
                await asyncio.sleep(0)
            return watch.owner_died, calls
        finally:
            theirs.close()
            watch._socket.close()

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("words", "died"), [(owner.DONE, False), (owner.DONE + b"x", False), (b"x", True), (b"", True)]
)
def test_an_owner_that_ends_without_its_word_has_died(words: bytes, died: bool) -> None:
    def end(theirs: socket.socket, watch: OwnerWatch) -> None:
        theirs.send(words)
        theirs.close()

    assert watch_owner(end) == (died, 1)


def test_an_owner_that_dies_before_it_reads_that_gpud_serves_has_died() -> None:
    """The kernel returns ECONNRESET if there are unread bytes."""

    def die(theirs: socket.socket, watch: OwnerWatch) -> None:
        watch.send_ready()
        theirs.close()

    assert watch_owner(die) == (True, 1)


def test_an_owner_reads_that_gpud_serves_and_one_that_is_gone_harms_nothing() -> None:
    read = []

    def serve(theirs: socket.socket, watch: OwnerWatch) -> None:
        watch.send_ready()
        read.append(theirs.recv(8))
        theirs.close()
        watch.send_ready()

    assert watch_owner(serve) == (True, 1)
    assert read == [owner.READY]


@pytest.mark.parametrize(
    ("found", "scans"),
    [([0, 0], 2), ([1, 0, 0], 3), ([0, 2, 0, 0], 4), ([1, 0, 1, 0, 0], 5), ([1] * 40, 40)],
)
def test_processes_are_sought_until_two_scans_in_turn_find_none(
    monkeypatch: pytest.MonkeyPatch, found: list[int], scans: int
) -> None:
    """A child that has not called exec yet still has another environment."""
    results, tokens, pauses = iter(found), [], []

    def scan(token: str) -> int:
        tokens.append(token)
        return next(results)

    monkeypatch.setattr(owner, "_kill_holders_of", scan)
    monkeypatch.setattr(owner.time, "sleep", pauses.append)
    owner.end_what_is_left(TOKEN)
    assert tokens == [TOKEN.hex()] * scans
    assert len(pauses) == (scans if scans == 40 else scans - 1)


def test_only_processes_with_the_token_are_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_token = f"A=b\0TESSERA_RUN={TOKEN.hex()}\0".encode()
    environments = {
        "101": with_token,
        "102": b"A=b\0",
        "103": with_token,  # it has ended when it is to be killed
        "104": with_token,
        "self": with_token,
        str(os.getpid()): with_token,
    }
    for name, text in environments.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "environ").write_bytes(text)
    (tmp_path / "105").mkdir()  # it has ended since the listing
    killed = []

    def kill(pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        if pid == 103:
            raise ProcessLookupError
        killed.append(pid)

    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(owner.os, "kill", kill)
    assert owner._kill_holders_of(TOKEN.hex()) == 2
    assert sorted(killed) == [101, 104]
