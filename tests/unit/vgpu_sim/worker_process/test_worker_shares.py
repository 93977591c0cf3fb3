"""The memory that a worker accepts from another worker of its slice."""

import fcntl
import os
import socket

import pytest

from vgpu_sim.hal.messages import SharedMemory, ShareGrant
from vgpu_sim.system import descriptors, seqpacket
from vgpu_sim.worker.exports import Exports
from vgpu_sim.worker.memory import create_populated
from vgpu_sim.worker.peers import Peers
from vgpu_sim.worker.shares import Leaving, Opened, Shares

SIZE = 2 << 20


class Gpud:
    """Answers as gpud's channel does, with a connection on which the test has put a grant."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._own, self._other = seqpacket.pair()
        self.alive = True
        self.last = False
        self.left: list[int] = []

    def open(self, key: str):
        return 7, SIZE, self._connection

    def leave(self, share: int):
        self.left.append(share)
        return True, self.last

    def fileno(self) -> int:
        return self._own.fileno()

    def close(self) -> None:
        self._own.close()
        self._other.close()


def memory(**changes: int) -> SharedMemory:
    fields = {"offset": 512, "bytes": 1000, "chunk_units": 1, "kind": 0}
    return SharedMemory(**{**fields, **changes})


def open_memory(grant: ShareGrant, passed: int | None) -> tuple[int | None, list[int]]:
    ours, theirs = seqpacket.pair()
    sent = () if passed is None else (passed,)
    descriptors.send(theirs, [bytes(grant)], sent, 0)
    gpud = Gpud(ours)
    try:
        opened = Shares(gpud, Exports(), Peers(None)).open(memory())
        return opened and opened.descriptor, gpud.left
    except LookupError:
        return None, gpud.left
    finally:
        theirs.close()
        gpud.close()


@pytest.fixture
def sealed_memory():
    descriptor = create_populated("test", SIZE)
    yield descriptor
    os.close(descriptor)


def test_sealed_memory_is_accepted(sealed_memory):
    descriptor, left = open_memory(ShareGrant(0, 0, memory()), sealed_memory)
    assert os.fstat(descriptor).st_size == SIZE
    assert left == []
    os.close(descriptor)


@pytest.mark.parametrize("seals", [0, fcntl.F_SEAL_GROW, fcntl.F_SEAL_SHRINK])
def test_memory_that_may_shrink_is_refused(seals):
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, SIZE)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    assert open_memory(ShareGrant(0, 0, memory()), descriptor) == (None, [7])
    os.close(descriptor)


def test_other_memory_than_the_handle_names_is_refused(sealed_memory):
    for wrong in ({"offset": 0}, {"bytes": 1001}, {"chunk_units": 2}, {"kind": 1}):
        assert open_memory(ShareGrant(0, 0, memory(**wrong)), sealed_memory) == (None, [7])
    assert open_memory(ShareGrant(2, 0, memory()), None) == (None, [7])
    short = create_populated("test", SIZE // 2)
    assert open_memory(ShareGrant(0, 0, memory()), short) == (None, [7])
    os.close(short)


@pytest.mark.parametrize("last", [False, True])
def test_only_the_last_context_that_leaves_releases_the_pages(sealed_memory, last):
    ours, theirs = seqpacket.pair()
    gpud = Gpud(ours)
    gpud.last = last
    Shares(gpud, Exports(), Peers(None)).abandon(Opened(7, os.dup(sealed_memory)))
    assert gpud.left == [7]
    assert (os.fstat(sealed_memory).st_blocks == 0) is last
    for one in (ours, theirs, gpud):
        one.close()


class Successor(Gpud):
    """A gpud that knows only the shares that were offered since ``started``."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.last = True
        self.offers: list[tuple[str, int, int]] = []
        self.started = 0

    def offer(self, key: str, share: int, size: int) -> int:
        self.offers.append((key, share, size))
        return 0 if share and share <= self.started else share or self.started + len(self.offers)


def test_keys_are_offered_again_when_gpud_has_been_restarted(sealed_memory):
    ours, theirs = seqpacket.pair()
    gpud, exports = Successor(ours), Exports()
    exports.keep(SIZE, SIZE, sealed_memory)
    shares = Shares(gpud, exports, Peers(None))
    key = bytes(shares.offer(SIZE, SIZE, 0, 512, 1000).key).hex()
    name = bytes(shares.offer_name().key).hex()
    gpud.started, gpud.offers = 100, []
    shares.renew()
    assert gpud.offers == [(key, 0, SIZE), (name, 0, 0)]
    shares.offer(SIZE, SIZE, 0, 0, 8)
    assert gpud.offers[-1][1] == 101, "the chunk has a share of the later gpud"
    # Contexts that opened it before are not known, so nothing is emptied.
    assert shares.leave(SIZE) == Leaving(last=False, charged=False)
    assert gpud.left == [101]
    exports.revoke(SIZE)
    for one in (ours, theirs, gpud):
        one.close()


def test_a_chunk_that_a_later_gpud_refuses_is_not_emptied(sealed_memory, monkeypatch):
    ours, theirs = seqpacket.pair()
    gpud, exports = Successor(ours), Exports()
    exports.keep(SIZE, SIZE, sealed_memory)
    shares = Shares(gpud, exports, Peers(None))
    shares.offer(SIZE, SIZE, 0, 512, 1000)
    monkeypatch.setattr(gpud, "offer", lambda *_: 0)
    shares.renew()
    assert shares.leave(SIZE) == Leaving(last=False, charged=True)
    assert shares.leave(SIZE) is None
    exports.revoke(SIZE)
    for one in (ours, theirs, gpud):
        one.close()
