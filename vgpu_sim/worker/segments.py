"""Memory for module variables. The worker manages a range of the aperture, in which each module has
a segment.
"""

import os
from collections.abc import Callable
from dataclasses import replace

from vgpu_sim.hal.compute.address_map import (
    GPU_WINDOW_BYTES,
    MODULE_BYTES_PER_CONTEXT,
    MODULE_OFFSET,
    PAGE_BYTES,
)
from vgpu_sim.isa import Module
from vgpu_sim.records import dataclass
from vgpu_sim.worker.channel import Channel
from vgpu_sim.worker.chunks import OutOfBudgetError, reserve
from vgpu_sim.worker.memory import create_populated, write_all
from vgpu_sim.worker.modules.images import Image
from vgpu_sim.worker.runtime.binding import NativeRuntime


@dataclass(frozen=True, slots=True)
class Segment:
    """The memory of one module's variables. ``offset`` is from the aperture's base; ``size`` is 0
    for a module without variables.
    """

    offset: int
    size: int


class Segments:
    """Allocates segments in this context's part of the module range. A segment consists of whole
    pages, at the first address with enough room.
    """

    def __init__(
        self,
        runtime: NativeRuntime,
        channel: Channel | None,
        *,
        aperture_base: int,
        gpu_index: int,
        context_index: int,
    ) -> None:
        self._runtime = runtime
        self._aperture_base = aperture_base
        self._channel = channel
        self._begin = (
            gpu_index * GPU_WINDOW_BYTES + MODULE_OFFSET + context_index * MODULE_BYTES_PER_CONTEXT
        )
        self._live: list[Segment] = []

    def create(self, image: Image) -> Segment:
        """Allocate and initialise the segment of a module's variables.

        Raises:
            OutOfBudgetError: the slice or the range has no room.
        """
        size = _whole_pages(image.summary.segment_bytes)
        if size == 0:
            return Segment(self._begin, 0)
        segment = Segment(self._find_room(size, image.summary.segment_align, self._begin), size)
        self._allocate(segment, segment.offset, image.decode_variables)
        return segment

    def create_above(self, base: Segment, module: Module, placed: int) -> tuple[Segment, Module]:
        """Allocate and initialise a segment for a module's variables after the first ``placed``,
        which are in the segment ``base``. Return the segment, and the module with the variables'
        new offsets from ``base``.

        Raises:
            OutOfBudgetError: as ``create``.
        """
        own = module.variables[placed:]
        align = max([PAGE_BYTES, *(variable.align for variable in own)])
        first = min(variable.offset for variable in own) // align * align
        size = _whole_pages(max(variable.offset + variable.size for variable in own) - first)
        segment = Segment(self._find_room(size, align, base.offset + base.size), size)
        shift = segment.offset - base.offset - first
        moved = tuple(replace(variable, offset=variable.offset + shift) for variable in own)
        module = replace(module, variables=(*module.variables[:placed], *moved))
        self._allocate(segment, base.offset, lambda: module, placed)
        return segment, module

    def charge(self, size: int) -> None:
        """Reserve memory of the slice for ``size`` bytes that the worker keeps for the client.

        Raises:
            OutOfBudgetError: the slice has no room.
        """
        if self._channel is None:
            raise OutOfBudgetError("large modules need a connection to gpud")
        reserve(self._channel, _whole_pages(size))

    def refund(self, size: int) -> None:
        """Release memory that was reserved by ``charge``."""
        if self._channel is not None:
            self._channel.release(_whole_pages(size))

    def destroy(self, segment: Segment) -> None:
        """Release a segment's memory."""
        if segment.size == 0 or self._channel is None:
            return
        self._runtime.unmap_chunk(segment.offset, segment.size)
        self._live.remove(segment)
        self._channel.release(segment.size)

    def _find_room(self, size: int, align: int, begin: int) -> int:
        at = -(-begin // align) * align
        for live in self._live:
            if live.offset - at >= size:
                return at
            at = max(at, -(-(live.offset + live.size) // align) * align)
        if at + size > self._begin + MODULE_BYTES_PER_CONTEXT:
            raise OutOfBudgetError(
                f"no room for {size} bytes of module variables in the context's range"
            )
        return at

    def _allocate(
        self, segment: Segment, base: int, decode: Callable[[], Module], placed: int = 0
    ) -> None:
        """Create a segment for the variables after the first ``placed``, whose offsets count from
        ``base``.
        """
        if self._channel is None:
            raise OutOfBudgetError("module variables need a connection to gpud")
        reserve(self._channel, segment.size)
        try:
            self._back(segment, base, decode(), placed)
        except BaseException:
            self._channel.release(segment.size)
            raise
        self._live.append(segment)
        self._live.sort(key=lambda live: live.offset)

    def _back(self, segment: Segment, base: int, module: Module, placed: int) -> None:
        try:
            descriptor = create_populated("tessera-module", segment.size)
        except MemoryError as err:
            raise OutOfBudgetError(str(err)) from err
        try:
            contents = module.contents(self._aperture_base + base)[placed:]
            for variable, data in zip(module.variables[placed:], contents, strict=True):
                write_all(descriptor, data, base + variable.offset - segment.offset)
            self._runtime.map_chunk(segment.offset, segment.size, descriptor)
        finally:
            os.close(descriptor)


def _whole_pages(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES
