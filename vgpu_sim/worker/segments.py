"""Memory for module variables. The worker manages a range of the aperture, in which each module has
a segment.
"""

import os
from dataclasses import dataclass

from vgpu_sim.hal.compute.address_map import (
    GPU_WINDOW_BYTES,
    MODULE_BYTES_PER_CONTEXT,
    MODULE_OFFSET,
    PAGE_BYTES,
)
from vgpu_sim.isa import Module
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
        size = -(-image.summary.segment_bytes // PAGE_BYTES) * PAGE_BYTES
        if size == 0:
            return Segment(self._begin, 0)
        if self._channel is None:
            raise OutOfBudgetError("module variables need a connection to gpud")
        segment = Segment(self._find_room(size, image.summary.segment_align), size)
        reserve(self._channel, size)
        try:
            self._back(segment, image.decode())
        except BaseException:
            self._channel.release(size)
            raise
        self._live.append(segment)
        self._live.sort(key=lambda live: live.offset)
        return segment

    def destroy(self, segment: Segment) -> None:
        """Release a segment's memory."""
        if segment.size == 0 or self._channel is None:
            return
        self._runtime.unmap_chunk(segment.offset, segment.size)
        self._live.remove(segment)
        self._channel.release(segment.size)

    def _find_room(self, size: int, align: int) -> int:
        at = self._begin
        for live in self._live:
            if live.offset - at >= size:
                return at
            at = -(-(live.offset + live.size) // align) * align
        if at + size > self._begin + MODULE_BYTES_PER_CONTEXT:
            raise OutOfBudgetError(
                f"no room for {size} bytes of module variables in the context's range"
            )
        return at

    def _back(self, segment: Segment, module: Module) -> None:
        try:
            descriptor = create_populated("tessera-module", segment.size)
        except MemoryError as err:
            raise OutOfBudgetError(str(err)) from err
        try:
            contents = module.contents(self._aperture_base + segment.offset)
            for variable, data in zip(module.variables, contents, strict=True):
                write_all(descriptor, data, variable.offset)
            self._runtime.map_chunk(segment.offset, segment.size, descriptor)
        finally:
            os.close(descriptor)
