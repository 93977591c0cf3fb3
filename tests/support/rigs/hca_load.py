"""A program that keeps the HCA's engine as busy as its quota permits, and a neighbour to measure.

Loads are pure data: kinds of work and numbers of objects. ``Attacker`` executes them without
waiting for completions.
"""

import mmap
import os
import random
from contextlib import suppress
from dataclasses import dataclass, replace

from hca.binding.engine import Engine
from hca.contract import hca
from hca.contract.hca_engine import HcaWorkCounts
from hca.contract.verbs import VerbsOpcode as Op, VerbsQpType, VerbsState
from hca.daemon.common.numbers import Numbers
from support.rigs.hca_rig import ALL_ACCESS, BASE, Client, Cq, Pair, Qp, Srq

QUANTUM = 256 << 10
"""Work that the engine does for one function per turn, in units of work (HCA_QUANTUM)."""

TURN = QUANTUM + (160 << 10)
"""Maximum of one turn: a quantum, the last queue pair's turn, the last word of bits in a walk,
and indivisible work, like a datagram to all members of a function.
"""

PASS = 2 * TURN
"""Maximum between two looks for work: a turn that ends just before a quantum, and another turn."""

EVERY_BIT = (1 << 64) - 1


@dataclass(frozen=True)
class Load:
    """An attacker's work in each round."""

    clients: int = 1
    pairs: int = 8  # queue pairs of each client, each connected to itself
    writes: int = 1  # requests posted on each
    size: int = 8
    elements: int = 1  # elements of each request's list
    pieces: int = 1  # pieces of the region
    waiting: int = 0  # queue pairs of each client that wait for a shared receive queue
    shared: int = 1  # shared receive queues for these
    armed: int = 0  # completion queues with an entry, which are armed
    storms: int = 0  # how often all bits of all pages are set
    flushed: int = 0  # receive requests of a queue pair that fails


MOST = Load(4, 32, 16, 1 << 20, 16, 128, 32, 32, 64, 16, 512)
"""The largest value of each part in a search."""


def mutate(load: Load, choose: random.Random) -> Load:
    """Return a load that differs in one or two parts."""
    for name in choose.sample(list(Load.__dataclass_fields__), choose.choice((1, 2))):
        most = getattr(MOST, name)
        least = 0 if getattr(Load(), name) == 0 else 1
        load = replace(load, **{name: choose.choice((least, most, choose.randint(least, most)))})
    return load


class Attacker:
    """All programs of one function, at the address of ``index``."""

    def __init__(self, engine: Engine, load: Load, numbers: Numbers, index: int = 20) -> None:
        self.load = load
        self.clients = [Client(engine, numbers, index) for _ in range(load.clients)]
        self.pairs: list[tuple[Qp, int]] = []
        self.shared: list[tuple[Srq, int]] = []
        self.waiting: list[Qp] = []
        self.armed: list[Cq] = []
        self.doomed: list[Qp] = []
        for client in self.clients:
            cq = client.cq(4096)
            key = _pieces(client, max(load.size, 4096), load.pieces)
            for _ in range(load.pairs):
                qp = client.qp(cq, cq, depth=max(load.writes, 1))
                qp.connect(qp)
                self.pairs.append((qp, key))
            self._share(client, cq, key)
            self._arm(client)
            if load.flushed:
                self.doomed.append(client.qp(cq, client.cq(4096), depth=load.flushed))

    def _share(self, client: Client, cq: Cq, key: int) -> None:
        if not self.load.waiting:
            return
        queues = [Srq(client) for _ in range(self.load.shared)]
        self.shared += [(srq, key) for srq in queues]
        for place in range(self.load.waiting):
            srq = queues[place % len(queues)]
            qp = client.qp(cq, cq, srq=srq.handle)
            qp.connect(qp, min_rnr_timer=0, rnr_retry=7)
            self.waiting.append(qp)

    def _arm(self, client: Client) -> None:
        for _ in range(self.load.armed):
            channel, end = client.objects.create_channel()
            os.close(end)
            cq = client.cq(1, channel.handle)
            qp = client.qp(cq, cq, kind=VerbsQpType.UD)
            qp.listen()
            qp.send(Op.SEND, address_handle=12345)  # no such handle: it fails with a completion
            self.armed.append(cq)

    def attack(self) -> None:
        """Write a round's requests into the rings, and set all bits in the pages."""
        load = self.load
        for qp, key in self.pairs:
            sges = [(BASE, load.size // load.elements, key)] * load.elements
            if qp.page.send_head != qp.page.send_tail:
                continue
            for _ in range(load.writes):
                qp.send(Op.RDMA_WRITE, sges, flags=0, remote_address=BASE, remote_key=key)
        for qp in self.waiting:
            if qp.page.send_head == qp.page.send_tail:
                qp.send(Op.SEND, flags=0)
        for qp in self.doomed:
            with suppress(OSError):
                qp.modify(1, state=VerbsState.RESET)
            with suppress(OSError):
                qp.connect(qp)
            for _ in range(load.flushed):
                qp.receive()
            with suppress(OSError):
                qp.modify(1, state=VerbsState.ERR)
        for _ in range(load.storms + 1):
            for cq in self.armed:
                cq.page.armed = 1
            for client in self.clients:
                client.page.armed = 1
                for words in (client.page.dirty, client.page.dirty_srqs):
                    words[:] = [EVERY_BIT] * len(words)
                with suppress(BlockingIOError):
                    os.write(client.objects.doorbell_fd, b"x")

    def close(self) -> None:
        """Remove all programs."""
        for client in self.clients:
            client.objects.close()


def _pieces(client: Client, size: int, count: int) -> int:
    """Register memory that consists of many pieces; return its key."""
    piece = -(-size // count // 4096) * 4096
    segment, fd = client.objects.create_segment(hca.HcaSegmentCreate(piece))
    with mmap.mmap(fd, piece) as view:
        view[:] = bytes(piece)  # its owner is charged for it
    os.close(fd)
    wanted = hca.HcaMrCreate(client.pd, ALL_ACCESS, BASE, piece * count, count)
    for place in range(count):
        wanted.pieces[place] = hca.HcaPiece(segment.handle, 0, 0, piece)
    return client.objects.create_region(wanted).handle


def measure(engine: Engine, load: Load, writes: int = 8) -> HcaWorkCounts:
    """Execute a load while a neighbour writes 8 bytes repeatedly; return the neighbour's counts."""
    neighbour = Pair(engine, first=2)
    attacker = Attacker(engine, load, neighbour.numbers)
    engine.restart_work()
    for _ in range(writes):
        attacker.attack()
        neighbour.qa.send(
            *(Op.RDMA_WRITE, [(BASE, 8, neighbour.here.key)]),
            remote_address=BASE,
            remote_key=neighbour.there.key,
        )
        status = neighbour.a_send.poll().status
        assert status == 0, (status, neighbour.qb.state, neighbour.b.events())
    counts = engine.work_of(neighbour.a.gid)
    attacker.close()
    neighbour.close()
    return counts
