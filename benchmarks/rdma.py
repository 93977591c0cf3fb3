"""Writes between two queue pairs of one node, beside memcpy: ``python -m benchmarks.rdma``.

Both move 64 KiB at a time through the same two 32 MiB working sets, by turns; the best of each is
reported, and their ratio. The engine is in this process, its requests lie ready in
the ring: what is measured is the engine and its thread, not a program that posts.
"""

import ctypes
import mmap
import os
import sys
import time

from benchmarks.report import Row, Section, machine, table
from vgpu_sim.fabric.addresses import address_of
from vgpu_sim.fabric.engine import Engine
from vgpu_sim.hal import hca
from vgpu_sim.hal.verbs import VerbsAccess, VerbsMask, VerbsOpcode, VerbsSend, VerbsState
from vgpu_sim.hcad.numbers import Numbers
from vgpu_sim.hcad.objects import Objects

BLOCK = 64 << 10
WORKING_SET = 32 << 20
BLOCKS = WORKING_SET // BLOCK
ROUNDS = 15
ACCESS = VerbsAccess.LOCAL_WRITE | VerbsAccess.REMOTE_WRITE


class _End:
    """One program's side of a connection, with memory."""

    def __init__(self, engine: Engine, numbers: Numbers, index: int) -> None:
        self.address = address_of(index)
        self.objects = Objects(engine, numbers, self.address.gids, 1 << 30)
        self.page = hca.HcaClientPage.from_buffer(_map(self.objects.page_fd, hca.HCA_PAGE_BYTES))
        pd = self.objects.create_pd().handle
        cq, cq_fd = self.objects.create_cq(hca.HcaCqCreate(1024, 0))
        self.cq = hca.HcaCqPage.from_buffer(_map(cq_fd, cq.page_bytes))
        wanted = hca.HcaQpCreate(pd, cq.handle, cq.handle, 2, BLOCKS, 1, 0)
        self.qp, qp_fd = self.objects.create_qp(wanted)
        self.rings = _map(qp_fd, self.qp.page_bytes)
        segment, fd = self.objects.create_segment(hca.HcaSegmentCreate(WORKING_SET))
        self.memory = _map(fd, WORKING_SET)
        self.memory[:] = b"x" * WORKING_SET
        region = hca.HcaMrCreate(pd, ACCESS, 0, WORKING_SET, 1)
        region.pieces[0] = hca.HcaPiece(segment.handle, 0, 0, WORKING_SET)
        self.key = self.objects.create_region(region).handle

    def connect(self, peer: "_End") -> None:
        """Go to RTS."""
        attributes = hca.HcaQpAttributes(
            access=ACCESS, port=1, is_global=1, av_port=1, path_mtu=5, dest_qpn=peer.qp.handle
        )
        ctypes.memmove(attributes.dgid, peer.address.gids[1], 16)
        mask = VerbsMask
        for state, given in (
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
            wanted = hca.HcaQpModify(self.qp.handle, mask.STATE | given, attributes)
            self.objects.modify_qp(wanted)

    def fill(self, key: int) -> hca.HcaQpPage:
        """Lay a write of every block into the ring; return the ring's counters."""
        page = hca.HcaQpPage.from_buffer(self.rings)
        slots = (hca.HcaSendSlot * BLOCKS).from_buffer(self.rings, ctypes.sizeof(hca.HcaQpPage))
        for i, slot in enumerate(slots):
            slot.remote_address, slot.remote_key = i * BLOCK, key
            slot.opcode, slot.sge_count = VerbsOpcode.RDMA_WRITE, 1
            slot.payload.sges[0] = hca.HcaSge(i * BLOCK, BLOCK, self.key)
        slots[-1].flags = VerbsSend.SIGNALED
        return page


def _map(fd: int, size: int) -> mmap.mmap:
    """Map a descriptor that nobody else needs."""
    return mmap.mmap(fd, size)


def _write_s(end: _End, ring: hca.HcaQpPage) -> float:
    before = end.cq.head
    started = time.perf_counter()
    ring.send_head += BLOCKS
    end.page.dirty[end.qp.index // 64] = 1 << end.qp.index % 64
    os.write(end.objects.doorbell_fd, b"x")
    while end.cq.head == before:
        time.sleep(0.0002)  # the engine is to have a CPU
    taken = time.perf_counter() - started
    end.cq.tail = end.cq.head
    return taken


def _copy_s(source: _End, target: _End) -> float:
    first = ctypes.addressof(ctypes.c_char.from_buffer(source.memory))
    second = ctypes.addressof(ctypes.c_char.from_buffer(target.memory))
    started = time.perf_counter()
    for at in range(0, WORKING_SET, BLOCK):
        ctypes.memmove(second + at, first + at, BLOCK)
    return time.perf_counter() - started


def measure() -> Section:
    """Measure it. Raises OSError."""
    engine, numbers = Engine(), Numbers()
    source, target = _End(engine, numbers, 0), _End(engine, numbers, 1)
    source.connect(target)
    target.connect(source)
    ring = source.fill(target.key)
    pairs = [(_write_s(source, ring), _copy_s(source, target)) for _ in range(ROUNDS + 1)][1:]
    written, copied = (WORKING_SET / 1e9 / min(times) for times in zip(*pairs, strict=True))
    source.objects.close()
    target.objects.close()
    engine.close()
    name = f"same node, writes of {BLOCK >> 10} KiB"
    return Section(
        "rdma",
        (
            Row("rdma", name, written, "GB/s", 8.0, at_least=True),
            Row("rdma", "memcpy of as much", copied, "GB/s"),
            Row("rdma", "writes / memcpy", written / copied, "", 0.5, at_least=True),
        ),
    )


if __name__ == "__main__":
    print(machine(), flush=True)
    section = measure()
    print(table([section]))
    sys.exit(any(row.verdict == "MISSED" for row in section.rows))
