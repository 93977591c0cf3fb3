"""Memory of a client: segments that hcad made, and the regions registered in them."""

import errno
import os
from dataclasses import dataclass

from vgpu_sim.fabric.engine import Engine, EngineRegion, EngineSegment
from vgpu_sim.hal import hca
from vgpu_sim.hal.hca import HCA_PAGE_BYTES, HcaHandle
from vgpu_sim.hal.verbs import VerbsAccess
from vgpu_sim.hcad import memory
from vgpu_sim.hcad.checks import check_range, get, limit, refused
from vgpu_sim.hcad.domains import Domains
from vgpu_sim.hcad.numbers import Numbers

_ACCESS = (
    VerbsAccess.LOCAL_WRITE
    | VerbsAccess.REMOTE_WRITE
    | VerbsAccess.REMOTE_READ
    | VerbsAccess.REMOTE_ATOMIC
    | VerbsAccess.MW_BIND
)
_REMOTE_CHANGE = VerbsAccess.REMOTE_WRITE | VerbsAccess.REMOTE_ATOMIC


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


class Regions(Domains):
    """A client's memory."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Begin with none. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self._segments: dict[int, _Segment] = {}
        self._regions: dict[int, _Region] = {}

    def create_segment(self, wanted: hca.HcaSegmentCreate) -> tuple[HcaHandle, int]:
        """Make memory for the client's pages; return its descriptor, too. Raises OSError."""
        limit(self._segments, hca.HCA_MAX_SEGMENTS)
        if wanted.bytes == 0 or wanted.bytes % HCA_PAGE_BYTES:
            raise refused(errno.EINVAL)
        if wanted.bytes > self._room:
            raise refused(errno.ENOMEM)
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
        segment = get(self._segments, handle)
        if segment.regions:
            raise refused(errno.EBUSY)
        del self._segments[handle]
        self._engine.remove_segment(segment.engine)
        os.close(segment.descriptor)
        self._room += segment.size

    def create_region(self, wanted: hca.HcaMrCreate) -> HcaHandle:
        """Register memory, maybe in another region's place; the handle is its key. Raises OSError.

        Until everything is checked the region that is to be replaced stays.
        """
        get(self._pds, wanted.pd)
        self._check_region(wanted)
        used = tuple(wanted.pieces[i].segment for i in range(wanted.piece_count))
        if wanted.replaced:
            self._remove_region(wanted.replaced)
        else:
            limit(self._regions, hca.HCA_MAX_MRS)
        key = wanted.replaced or self._numbers.new_key()
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
        self._remove_region(key)
        self._numbers.free_key(key)

    def _remove_region(self, key: int) -> None:
        region = get(self._regions, key)
        del self._regions[key]
        self._engine.remove_region(region.engine)
        self._pds[region.pd] -= 1
        for handle in region.segments:
            self._segments[handle].regions -= 1

    def _check_region(self, wanted: hca.HcaMrCreate) -> None:
        check_range(wanted.piece_count, 1, hca.HCA_MAX_PIECES)
        check_range(wanted.bytes, 1, hca.HCA_MAX_MR_BYTES)
        if wanted.iova + wanted.bytes > 1 << 64:
            raise refused(errno.EINVAL)
        if wanted.access & ~_ACCESS:
            raise refused(errno.EOPNOTSUPP)
        if wanted.access & _REMOTE_CHANGE and not wanted.access & VerbsAccess.LOCAL_WRITE:
            raise refused(errno.EINVAL)
        total = 0
        for piece in wanted.pieces[: wanted.piece_count]:
            segment = get(self._segments, piece.segment)
            inside = piece.offset <= segment.size and piece.bytes <= segment.size - piece.offset
            if not inside or piece.bytes == 0:
                raise refused(errno.EINVAL)
            if not memory.is_backed(segment.descriptor, segment.size):
                raise OSError(errno.ENOMEM, "memory that its owner has not been charged for")
            total += piece.bytes
        if total != wanted.bytes:
            raise refused(errno.EINVAL)
