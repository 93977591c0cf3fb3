"""Clients of the HCA's engine in this process, which can write anything into their rings."""

import ctypes
import mmap
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hca.binding.addresses import Address, address_of
from hca.binding.engine import Engine
from hca.contract import hca, hca_objects
from hca.contract.verbs import (
    VerbsAccess,
    VerbsMask as Mask,
    VerbsOpcode,
    VerbsQpType,
    VerbsSend,
    VerbsState,
)
from hca.daemon.common.numbers import Numbers
from hca.daemon.common.quotas import Share
from hca.daemon.objects.client_objects import Objects
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.guard import Guard
from hca.daemon.policy.parties import Party
from support.kept import native_parts

ALL_ACCESS = (
    VerbsAccess.LOCAL_WRITE
    | VerbsAccess.REMOTE_WRITE
    | VerbsAccess.REMOTE_READ
    | VerbsAccess.REMOTE_ATOMIC
    | VerbsAccess.MW_BIND
)
QP_ACCESS = ALL_ACCESS & ~VerbsAccess.MW_BIND
LIBRARY_VARIABLE = "HCA_ENGINE"
"""Environment variable with the path of another build of the engine, such as one with
sanitizers.
"""

BASE = 0x10000
"""The address at which regions begin for their owners by default."""

TO_INIT = Mask.STATE | Mask.PKEY_INDEX | Mask.PORT | Mask.ACCESS_FLAGS
TO_RTR = (
    Mask.STATE
    | Mask.AV
    | Mask.PATH_MTU
    | Mask.DEST_QPN
    | Mask.RQ_PSN
    | Mask.MAX_DEST_RD_ATOMIC
    | Mask.MIN_RNR_TIMER
)
TO_RTS = (
    Mask.STATE
    | Mask.TIMEOUT
    | Mask.RETRY_CNT
    | Mask.RNR_RETRY
    | Mask.SQ_PSN
    | Mask.MAX_QP_RD_ATOMIC
)


MASKS = {
    VerbsQpType.RC: (TO_INIT, TO_RTR, TO_RTS),
    VerbsQpType.UC: (
        TO_INIT,
        Mask.STATE | Mask.AV | Mask.PATH_MTU | Mask.DEST_QPN | Mask.RQ_PSN,
        Mask.STATE | Mask.SQ_PSN,
    ),
    VerbsQpType.UD: (
        Mask.STATE | Mask.PKEY_INDEX | Mask.PORT | Mask.QKEY,
        Mask.STATE,
        Mask.STATE | Mask.SQ_PSN,
    ),
}


def until(happens: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait for a condition; return whether it became true in time."""
    end = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > end:
            return False
        time.sleep(0.0002)
    return True


def sleeps_on(engine: Engine) -> bool:
    """Return whether the engine makes no iteration for a while."""
    turns = engine.counters()[1]
    time.sleep(0.005)
    return engine.counters()[1] == turns


OPCODES = {
    "Send": VerbsOpcode.SEND,
    "Write": VerbsOpcode.RDMA_WRITE,
    "WriteImm": VerbsOpcode.RDMA_WRITE_WITH_IMM,
    "Read": VerbsOpcode.RDMA_READ,
    "AtomicCAS": VerbsOpcode.ATOMIC_CMP_AND_SWP,
    "AtomicFAA": VerbsOpcode.ATOMIC_FETCH_AND_ADD,
}
"""Request opcodes by the verbs of policies."""


@dataclass
class Region:
    """Registered memory from its owner's view."""

    key: int
    view: mmap.mmap
    segment: int


class Cq:
    """A completion queue from its owner's view."""

    def __init__(self, made: hca.HcaCreated, fd: int) -> None:
        self.handle, self.count = made.handle, made.first_count
        self.map = mmap.mmap(fd, made.page_bytes)
        os.close(fd)
        self.page = hca.HcaCqPage.from_buffer(self.map)
        self.entries = (hca.HcaCqe * self.count).from_buffer(self.map, ctypes.sizeof(hca.HcaCqPage))
        self.tail = 0

    def poll(self, seconds: float = 60.0) -> hca.HcaCqe:
        """Return the next completion; fail if none arrives in time."""
        assert until(lambda: self.page.head != self.tail, seconds), "no completion came"
        taken = hca.HcaCqe.from_buffer_copy(self.entries[self.tail % self.count])
        self.tail += 1
        self.page.tail = self.tail
        return taken

    def statuses(self, count: int) -> list[int]:
        """Wait for some completions; return their statuses."""
        return [self.poll().status for _ in range(count)]


class Qp:
    """A queue pair from its owner's view."""

    def __init__(
        self, client: "Client", made: hca.HcaCreated, fd: int, kind: VerbsQpType = VerbsQpType.RC
    ) -> None:
        self.client, self.kind = client, kind
        self.number, self.index = made.handle, made.index
        self.sends, self.receives = made.first_count, made.second_count
        self.map = mmap.mmap(fd, made.page_bytes)
        os.close(fd)
        self.page = hca.HcaQpPage.from_buffer(self.map)
        first = ctypes.sizeof(hca.HcaQpPage)
        self.send_slots = (hca.HcaSendSlot * self.sends).from_buffer(self.map, first)
        first += ctypes.sizeof(self.send_slots)
        self.recv_slots = (hca.HcaRecvSlot * self.receives).from_buffer(self.map, first)

    def modify(self, mask: int, **values: object) -> hca.HcaQpAttributes:
        """Change attributes. Raises OSError."""
        wanted = hca.HcaQpAttributes()
        for name, value in values.items():
            if name == "dgid":
                ctypes.memmove(wanted.dgid, value, 16)  # type: ignore[arg-type]
            else:
                setattr(wanted, name, value)
        return self.client.objects.modify_qp(hca.HcaQpModify(self.number, mask, wanted))

    def connect(self, peer: "Qp", *, last: VerbsState = VerbsState.RTS, **other: int) -> None:
        """Change to RTS, or to ``last``, with a queue pair as peer; ``other`` replaces
        attributes.
        """
        values: dict[str, object] = {
            "access": QP_ACCESS,
            "port": 1,
            "is_global": 1,
            "av_port": 1,
            "dgid": peer.client.gid,
            "path_mtu": 3,
            "dest_qpn": peer.number,
            "rq_psn": 5,
            "sq_psn": 5,
            "min_rnr_timer": 1,
            "timeout": 6,
            "retry_count": 1,
            "rnr_retry": 1,
            "max_rd_atomic": 1,
            "max_dest_rd_atomic": 1,
            **other,
        }
        for state, mask in enumerate(MASKS[self.kind][:last], 1):
            self.modify(mask, **{**values, "state": state})

    def listen(self, qkey: int = 0x1234, pkey_index: int = 0) -> None:
        """Change to RTS as a datagram queue pair."""
        for state, mask in enumerate(MASKS[VerbsQpType.UD], 1):
            self.modify(mask, state=state, port=1, qkey=qkey, pkey_index=pkey_index, sq_psn=1)

    @property
    def state(self) -> VerbsState:
        """Return the state as ibv_query_qp shows it."""
        return VerbsState(self.client.objects.query_qp(self.number).state)

    def send(
        self,
        opcode: int,
        sges: Sequence[tuple[int, int, int]] = (),
        inline: bytes | None = None,
        flags: int = VerbsSend.SIGNALED,
        **values: int,
    ) -> None:
        """Post a send request whose elements are (address, bytes, key)."""
        slot = self.send_slots[self.page.send_head % self.sends]
        ctypes.memset(ctypes.byref(slot), 0, ctypes.sizeof(slot))
        slot.id, slot.opcode, slot.flags = self.page.send_head, opcode, flags
        slot.sge_count = len(sges)
        for i, (address, size, key) in enumerate(sges):
            slot.payload.sges[i] = hca.HcaSge(address, size, key)
        if inline is not None:
            slot.flags |= VerbsSend.INLINE
            slot.inline_bytes = len(inline)
            ctypes.memmove(slot.payload.data, inline, min(len(inline), 256))
        for name, value in values.items():
            setattr(slot, name, value)
        self.page.send_head += 1
        self.ring()

    def receive(self, *sges: tuple[int, int, int], **values: int) -> None:
        """Post a receive request."""
        slot = self.recv_slots[self.page.recv_head % self.receives]
        slot.id, slot.sge_count = self.page.recv_head, len(sges)
        for i, (address, size, key) in enumerate(sges):
            slot.sges[i] = hca.HcaSge(address, size, key)
        for name, value in values.items():
            setattr(slot, name, value)
        self.page.recv_head += 1
        self.ring()

    def ring(self) -> None:
        """Notify the engine, always by the doorbell, as Python has no atomic operations."""
        self.client.page.dirty[self.index // 64] |= 1 << self.index % 64
        os.write(self.client.objects.doorbell_fd, b"x")


class Srq:
    """A shared receive queue from its owner's view."""

    def __init__(self, client: "Client", entries: int = 16, limit: int = 0) -> None:
        self.client = client
        made, fd = client.objects.create_srq(hca_objects.HcaSrqCreate(client.pd, entries, limit))
        self.handle, self.index, self.count = made.handle, made.index, made.second_count
        self.map = mmap.mmap(fd, made.page_bytes)
        os.close(fd)
        self.page = hca_objects.HcaSrqPage.from_buffer(self.map)
        self.slots = (hca.HcaRecvSlot * self.count).from_buffer(
            self.map, ctypes.sizeof(hca_objects.HcaSrqPage)
        )

    def receive(self, *sges: tuple[int, int, int], **values: int) -> None:
        """Post a receive request."""
        slot = self.slots[self.page.head % self.count]
        slot.id, slot.sge_count = self.page.head, len(sges)
        for i, (address, size, key) in enumerate(sges):
            slot.sges[i] = hca.HcaSge(address, size, key)
        for name, value in values.items():
            setattr(slot, name, value)
        self.page.head += 1
        self.ring()

    def ring(self) -> None:
        """Notify the engine."""
        self.client.page.dirty_srqs[self.index // 64] |= 1 << self.index % 64
        os.write(self.client.objects.doorbell_fd, b"x")


class Client:
    """A program on the fabric, at the address of ``index``."""

    def __init__(
        self,
        engine: Engine,
        numbers: Numbers,
        index: int,
        enforcer: Enforcer | None = None,
        address: Address | None = None,
        share: Share | None = None,
    ) -> None:
        """``share``: the quota of its function; None: unlimited."""
        self.engine = engine
        address = address or address_of(index)
        self.gid, self.link_local = address.gids[1], address.gids[0]
        self.party = Party.of(f"f{index}", address)
        guard = None
        if enforcer is not None:
            enforcer.parties.add(self.party)
            guard = Guard(enforcer, self.party)
        self.objects = Objects(engine, numbers, address.gids, 1 << 30, guard)
        if share is not None:
            self.objects.share = share
        self.map = mmap.mmap(self.objects.page_fd, hca.HCA_PAGE_BYTES)
        self.page = hca.HcaClientPage.from_buffer(self.map)
        self.pd = self.objects.create_pd().handle

    def cq(self, entries: int = 64, channel: int = 0) -> Cq:
        """Make a completion queue."""
        return Cq(*self.objects.create_cq(hca.HcaCqCreate(entries, channel)))

    def qp(
        self,
        send_cq: Cq,
        recv_cq: Cq,
        pd: int | None = None,
        depth: int = 16,
        kind: VerbsQpType = VerbsQpType.RC,
        srq: int = 0,
    ) -> Qp:
        """Make a queue pair."""
        wanted = hca.HcaQpCreate(
            *(self.pd if pd is None else pd, send_cq.handle, recv_cq.handle, kind),
            *(depth, depth, 0, srq),
        )
        return Qp(self, *self.objects.create_qp(wanted), kind)

    def ah(self, gid: bytes, pd: int | None = None, **values: int) -> int:
        """Make an address handle for a GID."""
        wanted = hca_objects.HcaAhCreate(
            pd=self.pd if pd is None else pd,
            **{"is_global": 1, "port": 1, "sgid_index": 1, **values},
        )
        ctypes.memmove(wanted.dgid, gid, 16)
        return self.objects.create_ah(wanted).handle

    def region(
        self, size: int = 8192, access: int = ALL_ACCESS, pd: int | None = None, iova: int = BASE
    ) -> Region:
        """Register new, zeroed memory."""
        handle, fd = self.objects.create_segment(hca.HcaSegmentCreate(-(-size // 4096) * 4096))
        view = mmap.mmap(fd, -(-size // 4096) * 4096)
        os.close(fd)
        view[:] = bytes(len(view))  # its owner is charged for it
        wanted = hca.HcaMrCreate(self.pd if pd is None else pd, access, iova, size, 1)
        wanted.pieces[0] = hca.HcaPiece(handle.handle, 0, 0, size)
        return Region(self.objects.create_region(wanted).handle, view, handle.handle)

    def events(self) -> list[tuple[int, int]]:
        """Return the pending asynchronous events: type and object."""
        found = []
        os.set_blocking(self.objects.async_fd, False)  # as programs may do with their own ends
        try:
            while True:
                raw = os.read(self.objects.async_fd, ctypes.sizeof(hca.HcaEvent))
                event = hca.HcaEvent.from_buffer_copy(raw)
                found.append((event.type, event.handle))
        except BlockingIOError:
            return found


class Pair:
    """Two clients with a connected queue pair each, and a region each."""

    def __init__(
        self,
        engine: Engine,
        first: int = 0,
        enforcer: Enforcer | None = None,
        kind: VerbsQpType = VerbsQpType.RC,
        **attributes: int,
    ) -> None:
        self.numbers = numbers = Numbers()
        self.a, self.b = (Client(engine, numbers, first + i, enforcer) for i in (0, 1))
        self.a_send, self.a_recv, self.b_send, self.b_recv = (
            client.cq() for client in (self.a, self.a, self.b, self.b)
        )
        self.qa = self.a.qp(self.a_send, self.a_recv, kind=kind)
        self.qb = self.b.qp(self.b_send, self.b_recv, kind=kind)
        self.qa.connect(self.qb, **attributes)
        self.qb.connect(self.qa, **attributes)
        self.here, self.there = self.a.region(), self.b.region()

    def close(self) -> None:
        """Remove both clients."""
        self.a.objects.close()
        self.b.objects.close()


def write(
    pair: Pair,
    size: int = 8,
    local: int = 0,
    key: int | None = None,
    remote: int = BASE,
    remote_key: int | None = None,
    opcode: int = VerbsOpcode.RDMA_WRITE,
) -> None:
    """Post a write, or another ``opcode``, from the pair's first region to its second."""
    pair.qa.send(
        *(opcode, [(BASE + local, size, pair.here.key if key is None else key)]),
        remote_address=remote,
        remote_key=pair.there.key if remote_key is None else remote_key,
    )


@contextmanager
def running_engine() -> Iterator[Engine]:
    """A freshly built engine."""
    library = os.environ.get(LIBRARY_VARIABLE)
    if library is None:
        native_parts.build_once("libtessera_hca.so")
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # as hcad does
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(least, min(most, 1 << 14)), most))
    engine = Engine(Path(library)) if library else Engine()
    yield engine
    engine.close()
