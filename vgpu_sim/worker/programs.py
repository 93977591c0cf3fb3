"""Loaded modules: image → container → backend, and the registration of kernels with the runtime."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

from vgpu_sim.hal.compute.ports import Backend, NativeBackend, ProgramHandle
from vgpu_sim.worker.chunks import OutOfBudgetError
from vgpu_sim.worker.modules import module_table
from vgpu_sim.worker.modules.images import MAX_LOG_BYTES, Image, Images
from vgpu_sim.worker.modules.module_summary import FunctionSummary
from vgpu_sim.worker.observing.observer import Observer
from vgpu_sim.worker.runtime.binding import Kernel, KernelHandle, NativeRuntime
from vgpu_sim.worker.segments import Segment, Segments
from vgpu_sim.worker.usage import Timed, Usage

# A module's handle, its table and the log of what is refused.
Loaded = tuple[int, bytes, str]


@dataclass(frozen=True, slots=True)
class KernelSite:
    """The kernel that a handle identifies."""

    program: ProgramHandle
    function: str


@dataclass(frozen=True, slots=True)
class _Program:
    handle: ProgramHandle
    segment: Segment
    kernels: tuple[KernelHandle, ...]


class Programs:
    """The modules of this context. Handles are never reused.

    Threads of the runtime may read ``site`` while the main thread loads a module. This is safe,
    because the dictionary's own operations are atomic, and a kernel is registered here before
    any client can name it.
    """

    def __init__(
        self,
        runtime: NativeRuntime,
        backend: Backend,
        images: Images,
        segments: Segments,
        *,
        aperture_base: int,
        capability: tuple[int, int],
        max_threads_per_block: int,
        usage: Usage,
    ) -> None:
        self._runtime = runtime
        self._usage = usage
        self._backend = backend
        self._images = images
        self._segments = segments
        self._aperture_base = aperture_base
        self._capability = capability
        self._max_threads_per_block = max_threads_per_block
        self._native = isinstance(backend, NativeBackend)
        self._live: dict[int, _Program] = {}
        self._sites: dict[int, KernelSite] = {}
        self._modules_loaded = 0
        self.observer: Observer | None = None

    def modelled_records(self) -> Iterator[dict[str, Any]]:
        """Yield the records of the modelled clock; none if the clock is the wall clock."""
        if self.observer is not None:
            yield from self.observer.report()

    def load(self, data: bytes) -> Loaded:
        """Load an image; return the module's handle, its table, and a log of the kernels and
        variables that are not supported.

        Raises:
            ImageError: the image cannot be loaded; its log has the reason.
            OutOfBudgetError: there is no room for its variables or its kernels.
        """
        return self._usage.modules.measure(lambda: self._place(self._images.read(data)))

    def load_quickly(self, data: bytes) -> Loaded | None:
        """Load an image as ``load`` does; return None, without effect, if it must be compiled."""
        begin_ns = monotonic_ns()
        image = self._images.read_quickly(data)
        self._usage.modules.add(0, monotonic_ns() - begin_ns)
        return self.load_image(image) if image is not None else None

    def compile(self, data: bytes) -> Image:
        """Compile an image for which ``load_quickly`` returned None; ``load_image`` then loads the
        result. Callable on any thread.

        Raises:
            ImageError: as ``load``.
        """
        begin_ns = monotonic_ns()
        try:
            return self._images.compile(data)
        finally:
            self._usage.modules.add(0, monotonic_ns() - begin_ns)

    def load_image(self, image: Image) -> Loaded:
        """Load an image that has already been read or compiled. Like ``load``, this is called on
        the main thread.
        """
        return self._usage.modules.measure(lambda: self._place(image))

    def _place(self, image: Image) -> Loaded:
        running = image if self.observer is None else self.observer.instrument(image)
        segment = self._segments.create(running)
        base = self._aperture_base + segment.offset
        kernels: dict[str, KernelHandle] = {}
        with ExitStack() as undo:
            undo.callback(self._segments.destroy, segment)
            handle = self._backend.load(running.container, base, running.module)
            undo.callback(self._backend.unload, handle)
            undo.callback(self._take_back, kernels)
            for function in image.summary.functions:
                kernels[function.name] = self._add_kernel(handle, function, base)
            undo.pop_all()
        if self.observer is not None:
            self.observer.record_load(kernels, image.container, base)
        self._modules_loaded += 1
        self._live[self._modules_loaded] = _Program(handle, segment, tuple(kernels.values()))
        log = image.summary.log(MAX_LOG_BYTES)
        table = module_table.of_module(
            image.summary, dict(kernels), base, self._capability, self._max_threads_per_block, log
        )
        return self._modules_loaded, table, log

    def unload(self, module: int, attend: Callable[[], None]) -> None:
        """Unload a module. If a launch of one of its kernels runs, wait for its end, and call
        ``attend`` repeatedly while waiting.

        Raises:
            KeyError: there is no such module.
        """
        program = self._live.pop(module)
        if self.observer is not None:
            self.observer.record_unload(program.kernels)
        for kernel in program.kernels:
            self._runtime.remove_kernel(kernel)
        for kernel in program.kernels:
            while self._runtime.kernel_runs(kernel):
                attend()
            self._count(self._usage, kernel)
            del self._sites[kernel]
        self._backend.unload(program.handle)
        self._segments.destroy(program.segment)

    def usage(self) -> Usage:
        """Return the context's usage so far, including that of modules that are still loaded."""
        total = Usage(
            {name: Timed(one.count, one.ns) for name, one in self._usage.kernels.items()},
            self._usage.modules,
            self._usage.shapes,
            self._usage.compiled,
            self._usage.cached,
            self._usage.provisional,
            self._usage.improved,
            self._usage.swapped,
            self._usage.refused,
        )
        for program in self._live.values():
            for kernel in program.kernels:
                self._count(total, kernel)
        return total

    def _count(self, usage: Usage, kernel: KernelHandle) -> None:
        usage.add_kernel(self._sites[kernel].function, *self._runtime.kernel_usage(kernel))

    def site(self, kernel: int) -> KernelSite:
        """Return the kernel that a live handle identifies."""
        return self._sites[kernel]

    def _take_back(self, kernels: dict[str, KernelHandle]) -> None:
        """Unregister kernels whose handles the client has not received."""
        for kernel in kernels.values():
            self._runtime.remove_kernel(kernel)
            del self._sites[kernel]

    def _add_kernel(
        self, program: ProgramHandle, function: FunctionSummary, base: int
    ) -> KernelHandle:
        x, y, z = function.maximum_block or (0, 0, 0)
        kernel = Kernel(
            name=function.name,
            segment_base=base,
            parameter_bytes=function.parameter_bytes,
            max_threads=x * y * z,
            required_block=function.required_block,
            interpreted=not self._native,
            shared_bytes=function.shared_bytes,
            local_bytes=function.local_bytes,
            has_stack=function.has_stack,
            registers=function.registers,
            pipes=function.pipes,
            parameter_image=0
            if function.parameter_image is None
            else base + function.parameter_image,
        )
        try:
            handle = self._runtime.add_kernel(kernel)
        except MemoryError as err:
            raise OutOfBudgetError(str(err)) from err
        self._sites[handle] = KernelSite(program, function.name)
        return handle
