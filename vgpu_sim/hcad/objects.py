"""The objects of one client: what it asked for, checked, and given to the engine.

A client is hostile: every number is looked up or bounded before it is used, and whatever it has is
removed with it. A refusal is an ``OSError`` whose errno the client's verb answers.
"""

import errno
import os
from collections.abc import Iterator, Sized
from contextlib import contextmanager, suppress
from ctypes import sizeof
from dataclasses import dataclass, field
from typing import TypeVar

from vgpu_sim.fabric import qp_state
from vgpu_sim.fabric.engine import (
    Engine,
    EngineCq,
    EngineQp,
    EngineRegion,
    EngineSegment,
)
from vgpu_sim.hal import hca
from vgpu_sim.hal.hca import (
    HCA_PAGE_BYTES,
    HcaCreated,
    HcaHandle,
    HcaQpAttributes,
)
from vgpu_sim.hal.verbs import VerbsAccess, VerbsMask, VerbsQpType, VerbsState
from vgpu_sim.hcad import memory
from vgpu_sim.hcad.numbers import Numbers

_ACCESS = VerbsAccess.LOCAL_WRITE | VerbsAccess.REMOTE_WRITE | VerbsAccess.REMOTE_READ
_REMOTE_CHANGE = VerbsAccess.REMOTE_WRITE | VerbsAccess.REMOTE_ATOMIC

_T = TypeVar("_T")


@dataclass(slots=True)
class _Channel:
    writing_fd: int
    queues: int = 0


@dataclass(slots=True)
class _Cq:
    engine: EngineCq
    channel: int
    queue_pairs: int = 0


@dataclass(slots=True)
class _Segment:
    engine: EngineSegment
    descriptor: int
    size: int
    regions: int = 0


@dataclass(slots=True)
class _Region:
    engine: EngineRegion
    pd: int
    segments: tuple[int, ...]


@dataclass(slots=True)
class _QueuePair:
    engine: EngineQp
    index: int
    pd: int
    cqs: tuple[int, int]
    attributes: HcaQpAttributes = field(default_factory=HcaQpAttributes)


class Objects:
    """A client's objects in the engine, until ``close``."""

    def __init__(
        self,
        engine: Engine,
        numbers: Numbers,
        gids: tuple[bytes, ...],
        memory_bytes: int,
        mtu: int = hca.HCA_MAX_MTU,
    ) -> None:
        """Add the client to the engine; ``mtu`` is its port's, of verbs. Raises OSError."""
        self._mtu = mtu
        self._engine = engine
        self._numbers = numbers
        self._room = memory_bytes
        self._next = 1
        self._pds: dict[int, int] = {}
        """Protection domains, and how many objects each has."""
        self._channels: dict[int, _Channel] = {}
        self._cqs: dict[int, _Cq] = {}
        self._segments: dict[int, _Segment] = {}
        self._regions: dict[int, _Region] = {}
        self._qps: dict[int, _QueuePair] = {}
        self._free_indices = list(range(hca.HCA_MAX_QPS - 1, -1, -1))
        self.page_fd = memory.shared("hca-client", HCA_PAGE_BYTES)
        doorbell, self.doorbell_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.async_fd, events = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._client = engine.add_client(self.page_fd, doorbell, events, gids)
        finally:
            os.close(doorbell)
            os.close(events)

    def close(self) -> None:
        """Remove everything that the client has."""
        for number in list(self._qps):
            self.destroy_qp(number)
        for key in list(self._regions):
            self.destroy_region(key)
        for handle in list(self._segments):
            self.destroy_segment(handle)
        for handle in list(self._cqs):
            self.destroy_cq(handle)
        for handle in list(self._channels):
            self.destroy_channel(handle)
        self._engine.remove_client(self._client)
        for descriptor in (self.page_fd, self.doorbell_fd, self.async_fd):
            with suppress(OSError):
                os.close(descriptor)

    def create_pd(self) -> HcaHandle:
        """Allocate a protection domain. Raises OSError."""
        _limit(self._pds, hca.HCA_MAX_PDS)
        # Every client draws from the same numbers: in the engine they mean one domain each.
        number = self._numbers.new_pd()
        self._pds[number] = 0
        return HcaHandle(number)

    def destroy_pd(self, handle: int) -> None:
        """Free one that nothing uses. Raises OSError."""
        if _get(self._pds, handle):
            raise _refused(errno.EBUSY)
        del self._pds[handle]

    def create_channel(self) -> tuple[HcaHandle, int]:
        """Make a completion channel; return its pipe's reading end, too. Raises OSError."""
        _limit(self._channels, hca.HCA_MAX_CHANNELS)
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writing, False)  # this end alone: the client chooses for its own
        handle = self._handle()
        self._channels[handle] = _Channel(writing)
        return HcaHandle(handle), reading

    def destroy_channel(self, handle: int) -> None:
        """Close one that no completion queue has. Raises OSError."""
        if _get(self._channels, handle).queues:
            raise _refused(errno.EBUSY)
        os.close(self._channels.pop(handle).writing_fd)

    def create_cq(self, wanted: hca.HcaCqCreate) -> tuple[HcaCreated, int]:
        """Make a completion queue; return its page's descriptor, too. Raises OSError."""
        _limit(self._cqs, hca.HCA_MAX_CQS)
        _range(wanted.entries, 1, hca.HCA_MAX_CQE)
        channel = _get(self._channels, wanted.channel) if wanted.channel else None
        entries = _power_of_two(wanted.entries)
        size = _pages(sizeof(hca.HcaCqPage) + entries * sizeof(hca.HcaCqe))
        handle = self._handle()
        with _descriptor("hca-cq", size) as page:
            notify = channel.writing_fd if channel is not None else -1
            made = self._engine.add_cq(self._client, handle, page, size, entries, notify)
            self._cqs[handle] = _Cq(made, wanted.channel)
            if channel is not None:
                channel.queues += 1
            return HcaCreated(handle, 0, size, entries, 0), page

    def destroy_cq(self, handle: int) -> None:
        """Remove one that no queue pair has. Raises OSError."""
        cq = _get(self._cqs, handle)
        if cq.queue_pairs:
            raise _refused(errno.EBUSY)
        del self._cqs[handle]
        self._engine.remove_cq(cq.engine)
        if cq.channel:
            self._channels[cq.channel].queues -= 1

    def create_segment(self, wanted: hca.HcaSegmentCreate) -> tuple[HcaHandle, int]:
        """Make memory for the client's pages; return its descriptor, too. Raises OSError."""
        _limit(self._segments, hca.HCA_MAX_SEGMENTS)
        if wanted.bytes == 0 or wanted.bytes % HCA_PAGE_BYTES:
            raise _refused(errno.EINVAL)
        if wanted.bytes > self._room:
            raise _refused(errno.ENOMEM)
        descriptor = memory.shared("hca-memory", wanted.bytes)
        try:
            made = self._engine.add_segment(descriptor, wanted.bytes)
        except OSError:
            os.close(descriptor)
            raise
        self._room -= wanted.bytes
        handle = self._handle()
        self._segments[handle] = _Segment(made, descriptor, wanted.bytes)
        return HcaHandle(handle), os.dup(descriptor)

    def destroy_segment(self, handle: int) -> None:
        """Remove memory that no region lies in. Raises OSError."""
        segment = _get(self._segments, handle)
        if segment.regions:
            raise _refused(errno.EBUSY)
        del self._segments[handle]
        self._engine.remove_segment(segment.engine)
        os.close(segment.descriptor)
        self._room += segment.size

    def create_region(self, wanted: hca.HcaMrCreate) -> HcaHandle:
        """Register memory; the handle is its key. Raises OSError."""
        _limit(self._regions, hca.HCA_MAX_MRS)
        _get(self._pds, wanted.pd)
        self._check_region(wanted)
        used = tuple(wanted.pieces[i].segment for i in range(wanted.piece_count))
        key = self._numbers.new_key()
        try:
            listed = [self._segments[handle].engine for handle in used]
            made = self._engine.add_region(self._client, key, wanted, listed)
        except OSError:
            self._numbers.free_key(key)
            raise
        self._regions[key] = _Region(made, wanted.pd, used)
        self._pds[wanted.pd] += 1
        for handle in used:
            self._segments[handle].regions += 1
        return HcaHandle(key)

    def destroy_region(self, key: int) -> None:
        """Deregister memory. Raises OSError."""
        region = _get(self._regions, key)
        del self._regions[key]
        self._engine.remove_region(region.engine)
        self._numbers.free_key(key)
        self._pds[region.pd] -= 1
        for handle in region.segments:
            self._segments[handle].regions -= 1

    def create_qp(self, wanted: hca.HcaQpCreate) -> tuple[HcaCreated, int]:
        """Make a queue pair; return its page's descriptor, too. Raises OSError."""
        _limit(self._qps, hca.HCA_MAX_QPS)
        if wanted.type != VerbsQpType.RC:
            raise _refused(errno.EOPNOTSUPP)
        _get(self._pds, wanted.pd)
        send_cq, recv_cq = _get(self._cqs, wanted.send_cq), _get(self._cqs, wanted.recv_cq)
        _range(wanted.send_wr, 0, hca.HCA_MAX_WR)
        _range(wanted.recv_wr, 0, hca.HCA_MAX_WR)
        sends, receives = _power_of_two(wanted.send_wr), _power_of_two(wanted.recv_wr)
        size = _pages(
            sizeof(hca.HcaQpPage)
            + sends * sizeof(hca.HcaSendSlot)
            + receives * sizeof(hca.HcaRecvSlot)
        )
        number, index = self._numbers.new_qpn(), self._free_indices[-1]
        created = HcaCreated(number, index, size, sends, receives)
        try:
            with _descriptor("hca-qp", size) as page:
                made = self._engine.add_qp(
                    self._client, wanted, created, page, send_cq.engine, recv_cq.engine
                )
        except OSError:
            self._numbers.free_qpn(number)
            raise
        self._free_indices.pop()
        self._qps[number] = _QueuePair(made, index, wanted.pd, (wanted.send_cq, wanted.recv_cq))
        self._pds[wanted.pd] += 1
        send_cq.queue_pairs += 1
        recv_cq.queue_pairs += 1
        return created, page

    def modify_qp(self, wanted: hca.HcaQpModify) -> HcaQpAttributes:
        """Change a queue pair by the rules of its state. Raises OSError."""
        qp = self._refreshed(wanted.handle)
        if wanted.mask & VerbsMask.PATH_MTU and wanted.attributes.path_mtu > self._mtu:
            raise OSError(errno.EINVAL, f"path MTU {wanted.attributes.path_mtu}, of {self._mtu}")
        try:
            changed = qp_state.change(qp.attributes, wanted.mask, wanted.attributes)
        except qp_state.InvalidChange as err:
            raise OSError(errno.EINVAL, str(err)) from err
        if not self._engine.set_qp(qp.engine, qp.attributes.state, changed):
            raise OSError(errno.EINVAL, "the queue pair has failed meanwhile")
        qp.attributes = changed
        return changed

    def query_qp(self, number: int) -> HcaQpAttributes:
        """Return the attributes of a queue pair as they are now. Raises OSError."""
        return self._refreshed(number).attributes

    def destroy_qp(self, number: int) -> None:
        """Remove a queue pair. Raises OSError."""
        qp = _get(self._qps, number)
        del self._qps[number]
        self._engine.remove_qp(qp.engine)
        self._numbers.free_qpn(number)
        self._free_indices.append(qp.index)
        self._pds[qp.pd] -= 1
        for handle in qp.cqs:
            self._cqs[handle].queue_pairs -= 1

    def _refreshed(self, number: int) -> _QueuePair:
        qp = _get(self._qps, number)
        state = self._engine.state_of(qp.engine)
        if state == VerbsState.ERR:  # the one state that the engine chooses
            qp.attributes.state = state
        return qp

    def _check_region(self, wanted: hca.HcaMrCreate) -> None:
        _range(wanted.piece_count, 1, hca.HCA_MAX_PIECES)
        _range(wanted.bytes, 1, hca.HCA_MAX_MR_BYTES)
        if wanted.iova + wanted.bytes > 1 << 64:
            raise _refused(errno.EINVAL)
        if wanted.access & ~_ACCESS:
            raise _refused(errno.EOPNOTSUPP)
        if wanted.access & _REMOTE_CHANGE and not wanted.access & VerbsAccess.LOCAL_WRITE:
            raise _refused(errno.EINVAL)
        total = 0
        for piece in wanted.pieces[: wanted.piece_count]:
            segment = _get(self._segments, piece.segment)
            inside = piece.offset <= segment.size and piece.bytes <= segment.size - piece.offset
            if not inside or piece.bytes == 0:
                raise _refused(errno.EINVAL)
            if not memory.is_backed(segment.descriptor, segment.size):
                raise OSError(errno.ENOMEM, "memory that its owner has not been charged for")
            total += piece.bytes
        if total != wanted.bytes:
            raise _refused(errno.EINVAL)

    def _handle(self) -> int:
        handle = self._next
        self._next += 1
        return handle


@contextmanager
def _descriptor(name: str, size: int) -> Iterator[int]:
    """Make shared memory that is the caller's unless something goes wrong."""
    descriptor = memory.shared(name, size)
    try:
        yield descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _refused(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _limit(table: Sized, most: int) -> None:
    if len(table) >= most:
        raise _refused(errno.ENOMEM)


def _range(value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise OSError(errno.EINVAL, f"{value}: must be {least} to {most}")


def _get(table: dict[int, _T], handle: int) -> _T:
    try:
        return table[handle]
    except KeyError:
        raise _refused(errno.EINVAL) from None


def _power_of_two(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


def _pages(size: int) -> int:
    return -(-size // HCA_PAGE_BYTES) * HCA_PAGE_BYTES
