"""A client's memory: segments that hcad made, and the regions registered in them."""

import errno
import os
from contextlib import ExitStack
from ctypes import byref, memmove, sizeof
from dataclasses import field

from hca.binding.engine import Engine, EngineRegion, EngineSegment
from hca.contract import hca
from hca.contract.hca import HCA_PAGE_BYTES, HcaHandle
from hca.contract.verbs import VerbsAccess
from hca.daemon.common import shared_memory
from hca.daemon.common.handover_state import HandoverState, Row, from_base64, to_base64
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.checks import check_range, check_room, get, os_error
from hca.daemon.objects.domains import Domains
from hca.daemon.objects.providers import ImportedMemory
from vgpu_sim.records import dataclass

_ACCESS = (
    VerbsAccess.LOCAL_WRITE
    | VerbsAccess.REMOTE_WRITE
    | VerbsAccess.REMOTE_READ
    | VerbsAccess.REMOTE_ATOMIC
    | VerbsAccess.MW_BIND
)
_REMOTE_CHANGE = VerbsAccess.REMOTE_WRITE | VerbsAccess.REMOTE_ATOMIC


@dataclass(slots=True)
class Segment:
    engine: EngineSegment | None
    """The engine's segment; None if revoked memory has been released."""
    descriptor: int
    size: int
    keys: set[int] = field(default_factory=set)
    """The keys of the regions with a piece in the segment."""
    imported: ImportedMemory | None = None
    """The imported memory of the segment; None: hcad made the memory itself."""
    is_revoked: bool = False
    """Whether an exporter has revoked the imported memory: no request reaches it any more."""


@dataclass(slots=True)
class _Region:
    engine: EngineRegion | None
    """The engine's region; None if the exporter has revoked part of the region's memory."""
    pd: int
    size: int
    segments: tuple[int, ...]
    wanted: bytes
    """The request that created the region, without its unused pieces."""


class Regions(Domains):
    """A client's memory: its segments and regions."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Add the client to the engine. It has no memory yet. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._segments: dict[int, Segment] = {}
        self._regions: dict[int, _Region] = {}

    def create_segment(self, request: hca.HcaSegmentCreate) -> tuple[HcaHandle, int]:
        """Make a segment of shared memory for the client; return the segment's handle and
        descriptor.

        Raises OSError.
        """
        check_room(self._segments, hca.HCA_MAX_SEGMENTS)
        if request.bytes == 0 or request.bytes % HCA_PAGE_BYTES:
            raise os_error(errno.EINVAL)
        if request.bytes > self._room:
            raise os_error(errno.ENOMEM)
        with ExitStack() as undo:
            self.share.charge(1)
            undo.callback(self.share.refund, 1)
            descriptor = shared_memory.new_shared_memory("hca-memory", request.bytes)
            undo.callback(os.close, descriptor)
            client_descriptor = os.dup(descriptor)
            undo.callback(os.close, client_descriptor)
            engine_segment = self._engine.add_segment(descriptor, request.bytes)
            undo.pop_all()
        self._room -= request.bytes
        handle = self._handle()
        self._segments[handle] = Segment(engine_segment, descriptor, request.bytes)
        return HcaHandle(handle), client_descriptor

    def destroy_segment(self, handle: int) -> None:
        """Remove a segment that contains no regions. Raises OSError."""
        segment = get(self._segments, handle)
        if segment.keys:
            raise os_error(errno.EBUSY)
        del self._segments[handle]
        self._end_segment(segment)

    def _end_segment(self, segment: Segment) -> None:
        assert segment.engine is not None
        self._engine.remove_segment(segment.engine)
        os.close(segment.descriptor)
        self.share.refund(1)
        self._room += segment.size

    def create_region(self, request: hca.HcaMrCreate) -> HcaHandle:
        """Register a memory region, or replace one; the returned handle is the region's key. Raises
        OSError.

        If a check fails, the region that was to be replaced stays.
        """
        get(self._pds, request.pd)
        self._check_region(request)
        used = tuple(request.pieces[i].segment for i in range(request.piece_count))
        if not request.replaced:
            check_room(self._regions, hca.HCA_MAX_MRS)
        self._guard.charge_bytes(request.bytes)
        if request.replaced:
            try:
                self._remove_region(request.replaced)
            except OSError:
                self._guard.release_bytes(request.bytes)
                raise
        key = request.replaced or self._numbers.new_key()
        try:
            self._add_region(key, request, used)
        except OSError:
            self._numbers.free_key(key)
            self._guard.release_bytes(request.bytes)
            raise
        return HcaHandle(key)

    def _add_region(self, key: int, request: hca.HcaMrCreate, used: tuple[int, ...]) -> None:
        listed = [
            engine_segment for n in used if (engine_segment := self._segments[n].engine) is not None
        ]
        engine_region = None
        with self.share.charging(_object_bytes(used)):
            if len(listed) == len(used):
                engine_request = hca.HcaMrCreate.from_buffer_copy(request)
                if all(self._segments[n].imported is not None for n in used):
                    engine_request.access |= hca.HCA_ACCESS_DEVICE
                engine_region = self._engine.add_region(self._client, key, engine_request, listed)
        length = hca.HcaMrCreate.pieces.offset + len(used) * sizeof(hca.HcaPiece)
        self._regions[key] = _Region(
            engine_region, request.pd, request.bytes, used, bytes(request)[:length]
        )
        self._pds[request.pd] += 1
        for handle in used:
            self._segments[handle].keys.add(key)

    def destroy_region(self, key: int) -> None:
        """Deregister a memory region. Raises OSError."""
        self._remove_region(key)
        self._numbers.free_key(key)

    def _remove_region(self, key: int) -> None:
        region = get(self._regions, key)
        del self._regions[key]
        if region.engine is not None:
            self._engine.remove_region(region.engine)
        self._guard.release_bytes(region.size)
        self.share.refund(0, 0, _object_bytes(region.segments))
        self._pds[region.pd] -= 1
        for handle in region.segments:
            self._segments[handle].keys.discard(key)

    def _check_region(self, request: hca.HcaMrCreate) -> None:
        check_range(request.piece_count, 1, hca.HCA_MAX_PIECES)
        check_range(request.bytes, 1, hca.HCA_MAX_MR_BYTES)
        if request.iova + request.bytes > 1 << 64:
            raise os_error(errno.EINVAL)
        if request.access & ~_ACCESS:
            raise os_error(errno.EOPNOTSUPP)
        if request.access & _REMOTE_CHANGE and not request.access & VerbsAccess.LOCAL_WRITE:
            raise os_error(errno.EINVAL)
        total = 0
        for piece in request.pieces[: request.piece_count]:
            segment = get(self._segments, piece.segment)
            if segment.is_revoked:
                raise os_error(errno.EFAULT)
            inside = piece.offset <= segment.size and piece.bytes <= segment.size - piece.offset
            if not inside or piece.bytes == 0:
                raise os_error(errno.EINVAL)
            if not shared_memory.is_backed(segment.descriptor, segment.size):
                raise OSError(
                    errno.ENOMEM, "the memory has pages that its owner has not been charged for"
                )
            total += piece.bytes
        if total != request.bytes:
            raise os_error(errno.EINVAL)

    def save_segment(self, handle: int, handover_state: HandoverState) -> Row:
        """Return the segment's record for a successor."""
        segment = self._segments[handle]
        return {
            "handle": handle,
            "size": segment.size,
            "file": handover_state.add_descriptor(segment.descriptor),
        }

    def load_segment(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a predecessor's segment. Raises OSError, ValueError."""
        size, descriptor = int(row["size"]), handover_state.take_descriptor(row["file"])
        with ExitStack() as undo:
            undo.callback(os.close, descriptor)
            self.share.charge(1)
            undo.callback(self.share.refund, 1)
            engine_segment = self._engine.add_segment(descriptor, size)
            undo.pop_all()
        self._segments[int(row["handle"])] = Segment(engine_segment, descriptor, size)

    def save_region(self, key: int, handover_state: HandoverState) -> Row:
        """Return the memory region's record for a successor."""
        del handover_state
        return {"handle": key, "request": to_base64(self._regions[key].wanted)}

    def load_region(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a predecessor's memory region. Raises OSError, ValueError, KeyError."""
        del handover_state
        request = hca.HcaMrCreate()
        request_bytes = from_base64(row["request"])
        memmove(byref(request), request_bytes, min(len(request_bytes), sizeof(request)))
        used = tuple(piece.segment for piece in request.pieces[: request.piece_count])
        self._numbers.adopt_key(int(row["handle"]))
        self._guard.charge_adopted(region_bytes=request.bytes)
        self._add_region(int(row["handle"]), request, used)


def _object_bytes(segments: tuple[int, ...]) -> int:
    """Return the bytes that a region with pieces in these segments uses in hcad and in the
    engine.
    """
    return 1024 + 2 * sizeof(hca.HcaPiece) * len(segments)
