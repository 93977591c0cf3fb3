"""What a worker notes in tables of events when another worker ends."""

import os

import pytest

from vgpu_sim.system import descriptors, seqpacket
from vgpu_sim.worker.peers import Peers

CHUNK = 1 << 21


class Runtime:
    def __init__(self) -> None:
        self.ended: list[tuple[int, ...]] = []

    def end_events(self, offset: int) -> None:
        self.ended.append((offset,))

    def end_participant(self, offset: int, participant: int) -> None:
        self.ended.append((offset, participant))
        raise FileNotFoundError  # the table may have been freed


@pytest.fixture
def setup():
    runtime = Runtime()
    ours, theirs = seqpacket.pair()
    yield runtime, Peers(runtime), ours, theirs
    ours.close()
    theirs.close()


def read_all(peers: Peers) -> None:
    for descriptor in peers.descriptors():
        peers.read(descriptor)


def test_a_participant_that_ends_is_noted(setup):
    runtime, peers, ours, theirs = setup
    peers.keep_opener(ours, CHUNK)
    read_all(peers)
    descriptors.send(theirs, [(77).to_bytes(8, "little")], (), 0)
    read_all(peers)
    assert runtime.ended == []
    theirs.close()
    read_all(peers)
    assert runtime.ended == [(CHUNK, 77)]
    assert peers.descriptors() == set()


def test_a_worker_that_opened_other_memory_is_not_noted(setup):
    runtime, peers, ours, theirs = setup
    peers.keep_opener(ours, CHUNK)
    theirs.close()
    read_all(peers)
    assert runtime.ended == []
    assert peers.descriptors() == set()


def test_the_end_of_the_maker_is_noted(setup):
    runtime, peers, ours, theirs = setup
    peers.keep_maker(ours, CHUNK, 77)
    assert int.from_bytes(theirs.recv(9), "little") == 77
    theirs.close()
    read_all(peers)
    assert runtime.ended == [(CHUNK,)]


@pytest.mark.parametrize("sent", [b"", b"1234567", b"123456789"])
def test_a_peer_that_sends_something_else_is_left(setup, sent):
    runtime, peers, ours, theirs = setup
    peers.keep_opener(ours, CHUNK)
    passed = os.dup(theirs.fileno())
    descriptors.send(theirs, [sent], (passed,), 0)
    os.close(passed)
    read_all(peers)
    assert runtime.ended == []
    assert peers.descriptors() == set()


def test_a_freed_chunk_has_no_connections(setup):
    runtime, peers, ours, theirs = setup
    peers.keep_opener(ours, CHUNK)
    peers.leave(2 * CHUNK)
    assert peers.descriptors()
    peers.leave(CHUNK)
    assert peers.descriptors() == set()
    assert theirs.recv(1) == b""
    assert runtime.ended == []
