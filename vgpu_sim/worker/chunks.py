"""Chunks of allocated memory. The client chooses the address, and the worker allocates within the
slice's budget.

The order matters. First gpud reserves the budget. Then the worker allocates the pages, which are
charged to its control group, and creates the mapping. Only then does the client receive the
descriptor.
"""

import os
from typing import Final

from vgpu_sim.hal.compute.address_map import (
    CHUNK_ALIGN_BYTES,
    DEVICE_BYTES,
    DEVICE_OFFSET,
    GPU_WINDOW_BYTES,
    HOST_BYTES,
    HOST_OFFSET,
)
from vgpu_sim.hal.messages import ChunkKind, SharedMemory
from vgpu_sim.records import dataclass
from vgpu_sim.worker.channel import Channel, GpudGoneError
from vgpu_sim.worker.exports import Exports
from vgpu_sim.worker.memory import create_populated
from vgpu_sim.worker.peers import Peers
from vgpu_sim.worker.runtime.binding import NativeRuntime
from vgpu_sim.worker.shares import ShareRefusedError, Shares

_RANGES: Final = {
    ChunkKind.DEVICE: (DEVICE_OFFSET, DEVICE_BYTES),
    ChunkKind.HOST: (HOST_OFFSET, HOST_BYTES),
}


class BadChunkError(Exception):
    """A request to allocate or free a chunk is invalid: it is malformed, the new chunk would
    overlap a live chunk, or the chunk to free does not exist.
    """


class OutOfBudgetError(Exception):
    """The slice or the machine has no memory left for the request."""


@dataclass(frozen=True, slots=True)
class ChunkRequest:
    """A requested memory range: ``offset`` from the aperture's base, and size in bytes."""

    offset: int
    size: int
    kind: int


class Chunks:
    """The live chunks of this context."""

    def __init__(self, runtime: NativeRuntime, channel: Channel, gpu_index: int) -> None:
        self._runtime = runtime
        self._channel = channel
        self._window = gpu_index * GPU_WINDOW_BYTES
        self._live: dict[int, ChunkRequest] = {}
        self._views: dict[int, tuple[int, int]] = {}
        """By offset: the offset of the view's chunk, and the view's size."""
        self.exports = Exports()
        self.peers = Peers(runtime)
        self.shares = Shares(channel, self.exports, self.peers)

    def allocate(self, request: ChunkRequest) -> int:
        """Allocate a chunk of memory and return its descriptor, which the caller sends and closes.

        Pinned host memory is charged to the slice like device memory: its pages are in the
        slice's cgroup.

        Raises:
            BadChunkError: the request is malformed or overlaps a live chunk.
            OutOfBudgetError: the slice or the machine has no memory left.
        """
        self._check(request)
        reserve(self._channel, request.size)
        try:
            return self._back(request)
        except BaseException:
            self._channel.release(request.size)
            raise

    def free(self, request: ChunkRequest) -> None:
        """Release a chunk's pages and its reservation.

        Raises:
            BadChunkError: the request does not exactly match a live chunk.
        """
        if self._live.get(request.offset) != request:
            raise BadChunkError("no such chunk")
        if any(chunk == request.offset for chunk, _ in self._views.values()):
            raise BadChunkError("a chunk has views")
        self.exports.revoke(request.offset)
        del self._live[request.offset]
        leaving = self.shares.leave(request.offset)
        if leaving is None or leaving.last:
            self._runtime.unmap_chunk(request.offset, request.size)
        else:  # the pages remain those of the other holders
            self._runtime.unmap_view(request.offset, request.size)
        if leaving is None or leaving.charged:
            self._channel.release(request.size)

    def share(self, request: ChunkRequest) -> SharedMemory:
        """Let other contexts of the slice open a range of a chunk; a range without bytes is a name
        without memory.

        Raises:
            BadChunkError: no chunk contains the range.
            OutOfBudgetError: gpud refuses, or the chunk's descriptor was not kept.
        """
        try:
            return self._share(request)
        except ShareRefusedError as err:
            raise OutOfBudgetError(str(err)) from err

    def _share(self, request: ChunkRequest) -> SharedMemory:
        if request.size == 0:
            return self.shares.offer_name()
        for chunk in self._live.values():
            begin = request.offset - chunk.offset
            if begin >= 0 and begin + request.size <= chunk.size and chunk.kind == request.kind:
                return self.shares.offer(chunk.offset, chunk.size, chunk.kind, begin, request.size)
        raise BadChunkError("no chunk contains the range")

    def open_shared(self, memory: SharedMemory, offset: int) -> int | None:
        """Map memory that another context shares, at ``offset``, which is in another GPU's window
        for peer access. Return its descriptor, which the caller closes; None for a name without
        memory.

        Raises:
            BadChunkError: the request is malformed, or there is no such memory.
            OutOfBudgetError: the memory cannot be mapped.
        """
        request = ChunkRequest(offset, memory.chunk_units * CHUNK_ALIGN_BYTES, memory.kind)
        if memory.chunk_units:
            self._check(request, offset // GPU_WINDOW_BYTES * GPU_WINDOW_BYTES)
            self._check_free(request)
        try:
            opened = self.shares.open(memory)
        except LookupError as err:
            raise BadChunkError(str(err)) from err
        if opened is None:
            return None
        try:
            self._runtime.map_chunk(offset, request.size, opened.descriptor)
        except OSError as err:
            self.shares.abandon(opened)
            if isinstance(err, FileExistsError):
                raise BadChunkError("a chunk overlaps another chunk") from err
            raise OutOfBudgetError(f"a chunk cannot be mapped: {err}") from err
        self.shares.enter(offset, opened, memory)
        self._live[offset] = request
        return opened.descriptor

    def map_view(self, offset: int, source: int, size: int) -> None:
        """Map a part of a device chunk at a second address. The memory is already charged.

        Raises:
            BadChunkError: the request is malformed, no device chunk contains the part, or the view
                overlaps a chunk or a view.
            OutOfBudgetError: the system has no room for the mapping.
        """
        self._check(ChunkRequest(offset, size, ChunkKind.DEVICE))
        if source % CHUNK_ALIGN_BYTES:
            raise BadChunkError("a view's source is not aligned")
        for chunk in self._live.values():
            inside = chunk.offset <= source and source + size <= chunk.offset + chunk.size
            if inside and chunk.kind == ChunkKind.DEVICE:
                break
        else:
            raise BadChunkError("no device chunk contains the view's source")
        try:
            self._runtime.map_view(offset, source, size)
        except FileExistsError as err:
            raise BadChunkError("a view overlaps a chunk or a view") from err
        except OSError as err:
            raise OutOfBudgetError(f"a view cannot be mapped: {err}") from err
        self._views[offset] = (chunk.offset, size)

    def unmap_view(self, offset: int, size: int) -> None:
        """Remove a view.

        Raises:
            BadChunkError: the request does not exactly match a view.
        """
        if self._views.get(offset, (0, 0))[1] != size or size == 0:
            raise BadChunkError("no such view")
        self._runtime.unmap_view(offset, size)
        del self._views[offset]

    def _check(self, request: ChunkRequest, window: int | None = None) -> None:
        """Refuse a range that is not one of the window's; None: this context's GPU's window."""
        if request.kind not in _RANGES:
            raise BadChunkError("unknown kind of chunk")
        begin, size = _RANGES[ChunkKind(request.kind)]
        begin += self._window if window is None else window
        if request.offset % CHUNK_ALIGN_BYTES or request.size % CHUNK_ALIGN_BYTES:
            raise BadChunkError("a chunk's offset or size is not aligned")
        if not 0 < request.size <= size:
            raise BadChunkError("a chunk's size is out of range")
        if not begin <= request.offset <= begin + size - request.size:
            raise BadChunkError("a chunk is outside the address range of its kind")

    def _check_free(self, request: ChunkRequest) -> None:
        """Refuse a range that overlaps a chunk or a view."""
        used = [(chunk.offset, chunk.size) for chunk in self._live.values()]
        used += [(offset, size) for offset, (_, size) in self._views.items()]
        end = request.offset + request.size
        if any(offset < end and request.offset < offset + size for offset, size in used):
            raise BadChunkError("a chunk overlaps another chunk")

    def _back(self, request: ChunkRequest) -> int:
        try:
            descriptor = create_populated("tessera-chunk", request.size)
        except MemoryError as err:
            raise OutOfBudgetError(str(err)) from err
        try:
            self._runtime.map_chunk(request.offset, request.size, descriptor)
        except FileExistsError as err:
            os.close(descriptor)
            raise BadChunkError("a chunk overlaps another chunk") from err
        except OSError as err:
            os.close(descriptor)
            raise OutOfBudgetError(f"a chunk cannot be mapped: {err}") from err
        self._live[request.offset] = request
        self.exports.keep(request.offset, request.size, descriptor)
        return descriptor


def reserve(channel: Channel, size: int) -> None:
    """Request ``size`` bytes of the slice's memory budget from gpud.

    Raises:
        OutOfBudgetError: gpud refuses the request, or gpud has ended. Without gpud, no new memory
            can be reserved.
    """
    try:
        granted = channel.reserve(size)
    except GpudGoneError as err:
        raise OutOfBudgetError(f"cannot reserve {size} bytes: {err}") from err
    if not granted:
        raise OutOfBudgetError(f"{size} bytes are more than the slice has free")
