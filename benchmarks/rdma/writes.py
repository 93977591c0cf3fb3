"""Writes between two queue pairs of one node, and memcpy: ``python -m benchmarks.rdma.writes``.

Both move 64 KiB at a time through the same two 32 MiB working sets, alternately; the best of
each is reported, and their ratio. The cost of policy is the difference between writes of 8 bytes
on a fabric without policies, and on one where a rule allows and counts them. The engine is in
this process and its requests are in the ring beforehand, so that the engine and its thread are
measured, not a program that posts.
"""

import ctypes
import mmap
import os
import sys
import time

from benchmarks.report import Row, Section, machine, table
from hca.binding.addresses import address_of
from hca.binding.engine import Engine
from hca.contract import hca
from hca.contract.verbs import VerbsAccess, VerbsMask, VerbsOpcode, VerbsSend, VerbsState
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.client_objects import Objects
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.guard import Guard
from hca.daemon.policy.parties import Parties, Party
from rdma.compiling.compiler import Compiler
from rdma.objects import NamespaceFacts, PodFacts
from rdma.reading import manifests

BLOCK = 64 << 10
WORKING_SET = 32 << 20
BLOCKS = WORKING_SET // BLOCK
ROUNDS = 100  # rounds of 4 ms: the best one was not interrupted
SMALL = 8
SMALL_WRITES = 16384
SMALL_ROUNDS = 100
MANY, EACH = 1000, 100
ACCESS = VerbsAccess.LOCAL_WRITE | VerbsAccess.REMOTE_WRITE


class _End:
    """One program's side of a connection, with memory."""

    def __init__(
        self, engine: Engine, numbers: Numbers, index: int, enforcer: Enforcer | None = None
    ) -> None:
        self.address = address_of(index)
        guard = None
        if enforcer is not None:
            party = Party.of(f"f{index}", self.address)
            enforcer.parties.add(party)
            guard = Guard(enforcer, party)
        self.objects = Objects(engine, numbers, self.address.gids, 1 << 30, guard)
        self.page = hca.HcaClientPage.from_buffer(_map(self.objects.page_fd, hca.HCA_PAGE_BYTES))
        pd = self.objects.create_pd().handle
        cq, cq_fd = self.objects.create_cq(hca.HcaCqCreate(1024, 0))
        self.cq = hca.HcaCqPage.from_buffer(_map(cq_fd, cq.page_bytes))
        qp_request = hca.HcaQpCreate(pd, cq.handle, cq.handle, 2, SMALL_WRITES, 1, 0)
        self.qp, qp_fd = self.objects.create_qp(qp_request)
        self.rings = _map(qp_fd, self.qp.page_bytes)
        segment, fd = self.objects.create_segment(hca.HcaSegmentCreate(WORKING_SET))
        self.memory = _map(fd, WORKING_SET)
        self.memory[:] = b"x" * WORKING_SET
        region = hca.HcaMrCreate(pd, ACCESS, 0, WORKING_SET, 1)
        region.pieces[0] = hca.HcaPiece(segment.handle, 0, 0, WORKING_SET)
        self.key = self.objects.create_region(region).handle

    def connect(self, peer: "_End") -> None:
        """Move to RTS."""
        attributes = hca.HcaQpAttributes(
            access=ACCESS, port=1, is_global=1, av_port=1, path_mtu=5, dest_qpn=peer.qp.handle
        )
        ctypes.memmove(attributes.dgid, peer.address.gids[1], 16)
        mask = VerbsMask
        for state, attribute_mask in (
            (VerbsState.INIT, mask.PKEY_INDEX | mask.PORT | mask.ACCESS_FLAGS),
            (
                VerbsState.RTR,
                mask.AV
                | mask.PATH_MTU
                | mask.DEST_QPN
                | mask.RQ_PSN
                | mask.MAX_DEST_RD_ATOMIC
                | mask.MIN_RNR_TIMER,
            ),
            (
                VerbsState.RTS,
                mask.TIMEOUT
                | mask.RETRY_CNT
                | mask.RNR_RETRY
                | mask.SQ_PSN
                | mask.MAX_QP_RD_ATOMIC,
            ),
        ):
            attributes.state = state
            modification = hca.HcaQpModify(self.qp.handle, mask.STATE | attribute_mask, attributes)
            self.objects.modify_qp(modification)

    def crowd(self, count: int) -> int:
        """Create ``count`` more queue pairs, each connected to itself, and regions; return how
        many.
        """
        pd, cq = next(iter(self.objects._pds)), next(iter(self.objects._cqs))
        own, pair_count = self.qp, 0
        for place in range(count):
            self.qp, fd = self.objects.create_qp(hca.HcaQpCreate(pd, cq, cq, 2, 16, 16, 0))
            os.close(fd)
            self.connect(self)
            pair_count += 1
            region = hca.HcaMrCreate(pd, ACCESS, place * hca.HCA_PAGE_BYTES, 64, 1)
            segment = next(iter(self.objects._segments))
            region.pieces[0] = hca.HcaPiece(segment, 0, 0, 64)
            self.objects.create_region(region)
        self.qp = own
        return pair_count

    def fill(self, key: int, count: int = BLOCKS, size: int = BLOCK) -> hca.HcaQpPage:
        """Write adjacent writes into the ring; return the ring's counters."""
        page = hca.HcaQpPage.from_buffer(self.rings)
        first = ctypes.sizeof(hca.HcaQpPage)
        slots = (hca.HcaSendSlot * SMALL_WRITES).from_buffer(self.rings, first)
        for i, slot in enumerate(slots):
            place = i % count * size
            slot.remote_address, slot.remote_key = place, key
            slot.opcode, slot.sge_count = VerbsOpcode.RDMA_WRITE, 1
            slot.payload.sges[0] = hca.HcaSge(place, size, self.key)
            slot.flags = VerbsSend.SIGNALED if i % count == count - 1 else 0
        return page


def _map(fd: int, size: int) -> mmap.mmap:
    """Map a descriptor, and close it."""
    return mmap.mmap(fd, size)


def _write_s(end: _End, ring: hca.HcaQpPage, count: int = BLOCKS) -> float:
    start_head = end.cq.head
    started = time.perf_counter()
    ring.send_head += count
    end.page.dirty[end.qp.index // 64] = 1 << end.qp.index % 64
    os.write(end.objects.doorbell_fd, b"x")
    while end.cq.head == start_head:
        time.sleep(0.0002)  # the engine needs a CPU
    elapsed_s = time.perf_counter() - started
    end.cq.tail = end.cq.head
    return elapsed_s


def _copy_s(source: _End, target: _End) -> float:
    first = ctypes.addressof(ctypes.c_char.from_buffer(source.memory))
    second = ctypes.addressof(ctypes.c_char.from_buffer(target.memory))
    started = time.perf_counter()
    for at in range(0, WORKING_SET, BLOCK):
        ctypes.memmove(second + at, first + at, BLOCK)
    return time.perf_counter() - started


def _new_enforcer(engine: Engine) -> Enforcer:
    """Return an enforcer with a rule that allows two ends to write to each other."""
    compiler = Compiler()
    compiler.upsert_namespace(NamespaceFacts("default"))
    for index in (0, 1):
        address = str(address_of(index).ip)
        compiler.upsert_pod(PodFacts(address, "default", f"p{index}", addresses=(address,)))
    open_to_all = {"podSelector": {}, "ingress": [{}]}
    compiler.upsert_policy(manifests.policy_of("default", "p", open_to_all))
    enforcer = Enforcer(engine, Parties())
    enforcer.replace_tables(compiler.tables("", 1))
    return enforcer


def _policy_ns(engine: Engine) -> tuple[float, float]:
    """Return the best time of a small write without and with policy, in nanoseconds."""
    fabrics = []
    for enforcer in (None, _new_enforcer(engine)):
        numbers = Numbers()
        ends = [_End(engine, numbers, index, enforcer) for index in (0, 1)]
        ends[0].connect(ends[1])
        ends[1].connect(ends[0])
        fabrics.append((ends, ends[0].fill(ends[1].key, SMALL_WRITES, SMALL)))
    rounds = [
        [_write_s(ends[0], ring, SMALL_WRITES) for ends, ring in fabrics]
        for _ in range(SMALL_ROUNDS + 1)
    ][1:]
    for ends, _ in fabrics:
        for end in ends:
            end.objects.close()
    bare, policed = (min(times) / SMALL_WRITES * 1e9 for times in zip(*rounds, strict=True))
    return bare, policed


def _many(engine: Engine) -> tuple[int, int]:
    """Return how many queue pairs and regions one node has, up to MANY; 0 if the last fail."""
    numbers = Numbers()
    ends = [_End(engine, numbers, index) for index in range(MANY // EACH)]
    qps = sum(end.crowd(EACH) for end in ends)
    regions = sum(len(end.objects._regions) for end in ends)
    first, last = ends[0], ends[-1]
    first.connect(last)
    last.connect(first)
    first.memory[:SMALL] = b"the last"
    _write_s(first, first.fill(last.key, 1, SMALL), 1)
    works = last.memory[:SMALL] == b"the last"
    for end in ends:
        end.objects.close()
    return (qps + len(ends), regions) if works else (0, 0)


def measure() -> Section:
    """Measure. Raises OSError."""
    engine, numbers = Engine(), Numbers()
    source, target = _End(engine, numbers, 0), _End(engine, numbers, 1)
    source.connect(target)
    target.connect(source)
    ring = source.fill(target.key)
    pairs = [(_write_s(source, ring), _copy_s(source, target)) for _ in range(ROUNDS + 1)][1:]
    written, copied = (WORKING_SET / 1e9 / min(times) for times in zip(*pairs, strict=True))
    source.objects.close()
    target.objects.close()
    bare, policed = _policy_ns(engine)
    object_counts = _many(engine)
    engine.close()
    name = f"same node, writes of {BLOCK >> 10} KiB"
    return Section(
        "rdma",
        (
            Row("rdma", name, written, "GB/s", 8.0, at_least=True),
            Row("rdma", "memcpy of as much", copied, "GB/s"),
            Row("rdma", "writes / memcpy", written / copied, "", 0.5, at_least=True),
            Row("rdma", f"write of {SMALL} bytes, no policy", bare, "ns"),
            Row("rdma", "what policy adds to it", max(policed - bare, 0.0), "ns", 50.0),
            Row(
                "rdma", "queue pairs of one node, in RTS", object_counts[0], "", 1000, at_least=True
            ),
            Row("rdma", "regions of one node", object_counts[1], "", 1000, at_least=True),
        ),
    )


if __name__ == "__main__":
    print(machine(), flush=True)
    section = measure()
    print(table([section]))
    sys.exit(any(row.verdict == "MISSED" for row in section.rows))
