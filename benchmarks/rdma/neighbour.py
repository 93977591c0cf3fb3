"""The cost of a malicious pod for its neighbours: ``python -m benchmarks.rdma.neighbour``.

A neighbour writes 8 bytes to another function of its node, one at a time, while a process uses its
function's full quota in the most harmful way. Each attack is measured after a quiet period; the
median is compared with that of the quiet period. The engine is in a separate process, as hcad's is.
``--library FILE`` measures another build of the engine, ``--seconds`` sets the duration of each
attack. ``HCA_LOAD_SEARCHES=1000 pytest tests/unit/hca/engine/test_hca_turns.py`` searches for the
worst load by units of work.
"""

import argparse
import ctypes
import mmap
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchmarks.report import Row, Section, machine, table
from hca.binding.addresses import address_of
from hca.binding.engine import Engine
from hca.binding.engine_library import LIBRARY_PATH
from hca.contract import hca, hca_objects
from hca.contract.verbs import VerbsAccess, VerbsMask as Mask, VerbsOpcode, VerbsState
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.client_objects import Objects

ACCESS = VerbsAccess.LOCAL_WRITE | VerbsAccess.REMOTE_WRITE
PIECE, PIECES, MESSAGE = 8 << 20, 128, 1 << 30
SHIFT = 1 << 20  # offset between source and target: copying memory to itself costs nothing
QPS, PROGRAMS = 1800, 4
SRQS_OF_A_PROGRAM = 256
EVERY_BIT = (1 << 64) - 1
GOAL_TIMES, GOAL_MS = 2.0, 2.0


class Program:
    """A client of the engine: its page, one completion queue, one region with many parts."""

    def __init__(self, engine: Engine, numbers: Numbers, index: int, piece: int, pieces: int):
        self.address = address_of(index)
        self.objects = Objects(engine, numbers, self.address.gids, 1 << 30)
        self.page = hca.HcaClientPage.from_buffer(
            mmap.mmap(self.objects.page_fd, hca.HCA_PAGE_BYTES)
        )
        self.pd = self.objects.create_pd().handle
        created_cq, fd = self.objects.create_cq(hca.HcaCqCreate(1024, 0))
        self.cq, self.cq_page = (
            created_cq.handle,
            hca.HcaCqPage.from_buffer(_map(fd, created_cq.page_bytes)),
        )
        segment, fd = self.objects.create_segment(hca.HcaSegmentCreate(piece))
        _map(fd, piece)[:] = bytes(piece)
        region_request = hca.HcaMrCreate(self.pd, ACCESS, 0, piece * pieces, pieces)
        for place in range(pieces):
            region_request.pieces[place] = hca.HcaPiece(segment.handle, 0, 0, piece)
        self.key = self.objects.create_region(region_request).handle

    def queue_pair(self, depth: int = 1, srq: int = 0) -> "_QueuePair":
        """Make a queue pair."""
        created_qp, fd = self.objects.create_qp(
            hca.HcaQpCreate(self.pd, self.cq, self.cq, 2, depth, depth, 0, srq)
        )
        return _QueuePair(self, created_qp, _map(fd, created_qp.page_bytes), depth)

    def ring(self) -> None:
        """Wake the engine."""
        with suppress(BlockingIOError):
            os.write(self.objects.doorbell_fd, b"x")

    def set_all_bits(self) -> None:
        """Set all doorbell bits, used or not."""
        for words in (self.page.dirty, self.page.dirty_srqs):
            words[:] = [EVERY_BIT] * len(words)
        self.page.armed = 1
        self.ring()


class _QueuePair:
    def __init__(self, owner: Program, created_qp: hca.HcaCreated, rings: mmap.mmap, depth: int):
        self.owner, self.number, self.index, self.depth = (
            owner,
            created_qp.handle,
            created_qp.index,
            depth,
        )
        self.page = hca.HcaQpPage.from_buffer(rings)
        first = ctypes.sizeof(hca.HcaQpPage)
        self.slots = (hca.HcaSendSlot * created_qp.first_count).from_buffer(rings, first)

    def connect(self, peer: "_QueuePair") -> "_QueuePair":
        """Move to RTS, with the longest RNR delay and unlimited retries."""
        attributes = hca.HcaQpAttributes(
            access=ACCESS, port=1, is_global=1, av_port=1, path_mtu=5, dest_qpn=peer.number,
            rnr_retry=7, timeout=18, retry_count=7,
        )  # fmt: skip
        ctypes.memmove(attributes.dgid, peer.owner.address.gids[1], 16)
        to_rtr = Mask.AV | Mask.PATH_MTU | Mask.DEST_QPN | Mask.RQ_PSN
        to_rtr |= Mask.MAX_DEST_RD_ATOMIC | Mask.MIN_RNR_TIMER
        to_rts = Mask.TIMEOUT | Mask.RETRY_CNT | Mask.RNR_RETRY | Mask.SQ_PSN
        for state, mask in (
            (VerbsState.INIT, Mask.PKEY_INDEX | Mask.PORT | Mask.ACCESS_FLAGS),
            (VerbsState.RTR, to_rtr),
            (VerbsState.RTS, to_rts | Mask.MAX_QP_RD_ATOMIC),
        ):
            attributes.state = state
            self.owner.objects.modify_qp(
                hca.HcaQpModify(self.number, Mask.STATE | mask, attributes)
            )
        return self

    def post(
        self, opcode: int, key: int, size: int, signaled: bool = False, remote: int = 0
    ) -> None:
        """Write a request into the ring, without ringing the doorbell."""
        slot = self.slots[self.page.send_head % len(self.slots)]
        slot.opcode, slot.sge_count, slot.flags = opcode, int(size > 0), 2 if signaled else 0
        slot.payload.sges[0] = hca.HcaSge(0, size, self.owner.key)
        slot.remote_address, slot.remote_key = remote, key
        self.page.send_head += 1
        self.owner.page.dirty[self.index // 64] |= 1 << self.index % 64


def _map(fd: int, size: int) -> mmap.mmap:
    mapped = mmap.mmap(fd, size)
    os.close(fd)
    return mapped


class _Attack:
    """All programs of one function, whose queue pairs are connected to themselves."""

    def __init__(self, engine: Engine, numbers: Numbers, pieces: int) -> None:
        piece = PIECE if pieces == PIECES else 1 << 16
        self.programs = [Program(engine, numbers, 9, piece, pieces) for _ in range(PROGRAMS)]
        self.qps: list[_QueuePair] = []

    def connect(self, count: int, srqs: list[list[int]] | None = None, depth: int = 1) -> None:
        """Create and connect ``count`` more queue pairs."""
        for place in range(count):
            which = place % PROGRAMS
            srq = srqs[which][place % len(srqs[which])] if srqs else 0
            qp = self.programs[which].queue_pair(depth, srq)
            self.qps.append(qp.connect(qp))


def _large(engine: Engine, numbers: Numbers) -> Callable[[], None]:
    attack = _Attack(engine, numbers, PIECES)
    attack.connect(QPS)

    def again() -> None:
        for qp in attack.qps:
            if qp.page.send_head == qp.page.send_tail:
                qp.post(VerbsOpcode.RDMA_WRITE, qp.owner.key, MESSAGE - SHIFT, remote=SHIFT)
        attack.programs[0].ring()

    return again


def _small(engine: Engine, numbers: Numbers) -> Callable[[], None]:
    attack = _Attack(engine, numbers, 1)
    attack.connect(64, depth=4096)

    def again() -> None:
        for qp in attack.qps:  # the same requests repeatedly
            if qp.page.send_head < len(qp.slots):
                for _ in range(len(qp.slots)):
                    qp.post(VerbsOpcode.RDMA_WRITE, qp.owner.key, 8)
            elif qp.page.send_head == qp.page.send_tail:
                qp.page.send_head += len(qp.slots)
        attack.programs[0].set_all_bits()

    return again


def _srqs_rung(engine: Engine, numbers: Numbers) -> Callable[[], None]:
    attack = _Attack(engine, numbers, 1)
    srqs = []
    for program in attack.programs:
        own = []
        for _ in range(SRQS_OF_A_PROGRAM):
            created_srq, fd = program.objects.create_srq(hca_objects.HcaSrqCreate(program.pd, 1, 0))
            os.close(fd)
            own.append(created_srq.handle)
        srqs.append(own)
    attack.connect(QPS, srqs)
    for qp in attack.qps:
        qp.post(VerbsOpcode.SEND, 0, 0)

    def again() -> None:
        for program in attack.programs:
            program.set_all_bits()

    return again


def _cqs_armed(engine: Engine, numbers: Numbers) -> Callable[[], None]:
    attack = _Attack(engine, numbers, 1)
    pages = []
    for program in attack.programs:
        for _ in range(1000):
            created_cq, fd = program.objects.create_cq(hca.HcaCqCreate(1, 0))
            page = hca.HcaCqPage.from_buffer(_map(fd, created_cq.page_bytes))
            page.tail = 1  # each completion queue is marked as non-empty, so each is notified again
            pages.append(page)

    def again() -> None:
        for page in pages:
            page.armed = 1
        for program in attack.programs:
            program.set_all_bits()

    return again


ATTACKS: dict[str, Callable[[Engine, Numbers], Callable[[], None]]] = {
    f"{QPS} queue pairs with a WRITE of 1 GiB each": _large,
    "WRITEs of 8 bytes from 64 full rings": _small,
    f"{QPS} wait for {SRQS_OF_A_PROGRAM * PROGRAMS} shared receive queues, all rung": _srqs_rung,
    f"{1000 * PROGRAMS} completion queues armed": _cqs_armed,
}


def _latencies_ms(source: _QueuePair, key: int, seconds: float) -> list[float]:
    """Write 8 bytes repeatedly; return the time of each write."""
    page, latencies_ms = source.owner.cq_page, []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        start_head = page.head
        source.post(VerbsOpcode.RDMA_WRITE, key, 8, signaled=True)
        source.owner.ring()
        while page.head == start_head:
            time.sleep(0)
        page.tail = page.head
        latencies_ms.append((time.perf_counter() - started) * 1e3)
        time.sleep(0.0005)
    return latencies_ms


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def _attacker(make: Callable[[Engine, Numbers], Callable[[], None]], engine: Engine,
              numbers: Numbers) -> int:  # fmt: skip
    """Create an attack's objects here, then continue it in a child process; return the child's
    id.
    """
    again = make(engine, numbers)
    again()
    child = os.fork()
    if child:
        return child
    while os.getppid() != 1:
        again()
        time.sleep(0.0002)
    os._exit(0)


def _measure_one(
    make: Callable[[Engine, Numbers], Callable[[], None]], library: Path, seconds: float
) -> tuple[float, ...]:
    """Return the median and the 99th percentile without and with an attack, in milliseconds."""
    engine, numbers = Engine(library), Numbers()
    ends = [Program(engine, numbers, index, 1 << 16, 1) for index in (0, 1)]
    pairs = [end.queue_pair(16) for end in ends]
    pairs[0].connect(pairs[1])
    pairs[1].connect(pairs[0])
    quiet = _latencies_ms(pairs[0], ends[1].key, seconds)
    child = _attacker(make, engine, numbers)
    try:
        attacked = _latencies_ms(pairs[0], ends[1].key, seconds)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    return tuple(f(values) for values in (quiet, attacked) for f in (statistics.median, _p99))


def measure(library: Path = LIBRARY_PATH, seconds: float = 3.0) -> Section:
    """Measure all attacks, each in a separate process. Raises OSError."""
    rows = []
    for name, make in ATTACKS.items():
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            figures = _measure_one(make, library, seconds)
            os.write(writing, repr(figures).encode())
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe:
            quiet, quiet_p99, median, p99 = map(float, pipe.read().decode().strip("()").split(","))
        os.waitpid(child, 0)
        rows += [
            Row("neighbour", f"{name}: median in quiet", quiet, "ms"),
            Row("neighbour", "  99th percentile in quiet", quiet_p99, "ms"),
            Row("neighbour", "  its median beside it", median, "ms"),
            Row("neighbour", "  times that in quiet", median / quiet, "", GOAL_TIMES),
            Row("neighbour", "  its 99th percentile", p99, "ms", GOAL_MS),
        ]
    return Section("neighbour", tuple(rows))


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, default=LIBRARY_PATH)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    print(machine(), flush=True)
    section = measure(options.library, options.seconds)
    print(table([section]))
    return int(any(row.verdict == "MISSED" for row in section.rows))


if __name__ == "__main__":
    sys.exit(main())
