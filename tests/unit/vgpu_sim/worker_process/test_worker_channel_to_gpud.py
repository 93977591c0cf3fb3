"""The worker's end of its channel to a gpud that reads slowly, or not at all."""

import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from vgpu_sim.hal.compute import spawn
from vgpu_sim.worker import channel as channel_module
from vgpu_sim.worker.channel import Channel

Pair = tuple[Channel, socket.socket, int]


@pytest.fixture
def pair() -> Iterator[Pair]:
    mine, gpud = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    interrupt = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    with mine, gpud:
        yield Channel(mine, interrupt, lambda _: None, lambda *_: None), gpud, interrupt
    os.close(interrupt)


def test_a_gpud_that_reads_later_misses_nothing(pair: Pair) -> None:
    channel, gpud, _ = pair
    sent, got = 3000, []

    def read() -> None:
        time.sleep(0.5)  # gpud throttles a worker that sends a lot: it reads on in the next second
        while len(got) < sent:
            got.append(spawn.decode(gpud.recv(4096))["bytes"])

    reader = threading.Thread(target=read)
    reader.start()
    for size in range(sent):
        channel.release(size)
    reader.join(60)
    assert channel.alive
    assert got == list(range(sent))


def test_a_gpud_that_never_reads_is_given_up(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "_ANSWER_TIMEOUT_S", 0.2)
    channel, _, _ = pair
    for size in range(3000):
        channel.release(size)
    assert not channel.alive


def test_a_fault_does_not_wait_for_a_gpud_that_does_not_read(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "_ANSWER_TIMEOUT_S", 3600.0)
    channel, _, interrupt = pair
    os.eventfd_write(interrupt, 1)
    for size in range(3000):
        channel.release(size)
    assert not channel.alive


def test_a_late_answer_to_leave_is_counted_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "_ANSWER_TIMEOUT_S", 0.1)
    channel, gpud, _ = pair
    gpud.send(spawn.encode({"type": "charged", "bytes": 5000}))
    channel.read()
    assert channel.leave(3) == (True, False), "gpud will act on it"
    request = spawn.decode(gpud.recv(4096))["request"]
    answer = {"type": "left", "request": request, "known": True, "last": True, "bytes": 4096}
    gpud.send(spawn.encode(answer))
    channel.read()
    channel.release_all()
    assert spawn.decode(gpud.recv(4096)) == {"type": "release", "bytes": 904}
    channel.release_all()
    gpud.close()
    assert channel.leave(3) == (False, False)
