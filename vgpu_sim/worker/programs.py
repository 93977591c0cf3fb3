"""Loaded modules: image → container → backend, and the registration of kernels with the runtime."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from time import monotonic_ns
from typing import Any, Final

from vgpu_sim.hal.compute.ports import Backend, NativeBackend, ProgramHandle
from vgpu_sim.kernel_names.title import title_of
from vgpu_sim.records import dataclass
from vgpu_sim.worker import descriptors
from vgpu_sim.worker.chunks import OutOfBudgetError
from vgpu_sim.worker.modules import module_table
from vgpu_sim.worker.modules.images import MAX_LOG_BYTES, Image, Images, LazyImage
from vgpu_sim.worker.modules.module_summary import FunctionSummary, ModuleSummary, name_only
from vgpu_sim.worker.observing.observer import Observer
from vgpu_sim.worker.runtime.binding import Kernel, KernelHandle, NativeRuntime
from vgpu_sim.worker.segments import Segment, Segments
from vgpu_sim.worker.usage import Timed, Usage

# A module's handle, its table and the log of what is refused.
Loaded = tuple[int, bytes, str]
NOT_LOADED: Final = KernelHandle(0)


@dataclass(frozen=True, slots=True)
class KernelSite:
    """The kernel that a handle identifies."""

    program: ProgramHandle
    function: str


class NoKernelError(Exception):
    """A handle and an index that denote no kernel of a lazy module, which may be unloaded."""


@dataclass(frozen=True, slots=True)
class LazyKernel:
    """A kernel of a lazy module that has not been loaded."""

    image: LazyImage
    name: str


@dataclass(slots=True)
class _Program:
    """A loaded module. One that is lazy has a handle for each of its kernels that has been loaded,
    and a table for each that was requested, loaded or refused.
    """

    segment: Segment
    handles: list[ProgramHandle] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)  # of variables of single kernels
    kernels: list[KernelHandle] = field(default_factory=list)
    image: LazyImage | None = None
    tables: dict[str, bytes] = field(default_factory=dict)


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

    def record_allocation(self, offset: int, size: int) -> None:
        """Report an allocation at an offset in the aperture to the observer; size 0 ends it."""
        if self.observer is not None:
            self.observer.record_allocation(self._aperture_base + offset, size)

    def load(self, data: bytes) -> Loaded:
        """Load an image; return the module's handle, its table, and a log of the kernels and
        variables that are not supported.

        Raises:
            ImageError: the image cannot be loaded; its log has the reason.
            OutOfBudgetError: there is no room for its variables or its kernels.
        """
        return self._usage.modules.measure(lambda: self._place(self._images.read(data)))

    def load_quickly(self, data: bytes, *, lazily: bool = False) -> Loaded | None:
        """Load an image as ``load`` does; return None, without effect, if it must be compiled. With
        ``lazily``, large texts are among these.
        """
        if self._lazily(data, lazily):
            return None
        begin_ns = monotonic_ns()
        image = self._images.read_quickly(data)
        self._usage.modules.add(0, monotonic_ns() - begin_ns)
        return self.load_image(image) if image is not None else None

    def compile(self, data: bytes, *, lazily: bool = False) -> Image | LazyImage:
        """Compile an image for which ``load_quickly`` returned None; ``load_image`` then loads the
        result. Callable on any thread.

        Raises:
            ImageError: as ``load``.
        """
        begin_ns = monotonic_ns()
        try:
            if self._lazily(data, lazily):
                return self._images.open_lazily(data) or self._images.read(data)
            return self._images.compile(data)
        finally:
            self._usage.modules.add(0, monotonic_ns() - begin_ns)

    def _lazily(self, data: bytes, lazily: bool) -> bool:
        # An observer adds variables of its own to a whole module.
        return lazily and self.observer is None and self._images.may_be_lazy(data)

    def load_image(self, image: Image | LazyImage) -> Loaded:
        """Load an image that has already been read or compiled. Like ``load``, this is called on
        the main thread.
        """
        if isinstance(image, LazyImage):
            return self._usage.modules.measure(lambda: self._place_lazily(image))
        return self._usage.modules.measure(lambda: self._place(image))

    def _place(self, image: Image) -> Loaded:
        running = image if self.observer is None else self.observer.instrument(image)
        segment = self._segments.create(running)
        program = _Program(segment)
        with ExitStack() as undo:
            undo.callback(self._segments.destroy, segment)
            kernels = self._load_kernels(program, running, image.summary.functions)
            undo.pop_all()
        if self.observer is not None:
            base = self._aperture_base + segment.offset
            self.observer.record_load(kernels, image.container, base)
        log = image.summary.log(MAX_LOG_BYTES)
        return self._keep(program), self._table(program, image.summary, kernels, log), log

    def _place_lazily(self, image: LazyImage) -> Loaded:
        self._segments.charge(image.size)
        try:
            segment = self._segments.create(image.shared)
        except BaseException:
            self._segments.refund(image.size)
            raise
        program = _Program(segment, image=image)
        summary = replace(image.shared.summary, functions=tuple(map(name_only, image.file.names)))
        log = summary.log(MAX_LOG_BYTES)
        kernels = dict.fromkeys(image.file.names, NOT_LOADED)
        return self._keep(program), self._table(program, summary, kernels, log), log

    def find_kernel(self, module: int, index: int) -> bytes | LazyKernel:
        """Return the table of a lazy module's kernel that has been requested before; else the
        kernel, for ``compile_kernel``.

        Raises:
            NoKernelError: there is no such module or kernel.
        """
        program = self._live.get(module)
        image = program.image if program is not None else None
        if program is None or image is None or index >= len(image.file.names):
            raise NoKernelError
        name = image.file.names[index]
        return program.tables.get(name) or LazyKernel(image, name)

    def compile_kernel(self, kernel: LazyKernel) -> Image:
        """Compile a kernel of a lazy module; ``load_kernel`` then loads the result. Callable on any
        thread.

        Raises:
            ImageError: as ``load``.
        """
        begin_ns = monotonic_ns()
        try:
            return self._images.compile_kernel(kernel.image, kernel.name)
        finally:
            self._usage.modules.add(0, monotonic_ns() - begin_ns)

    def load_kernel(self, module: int, index: int, image: Image) -> tuple[bytes, str]:
        """Load a compiled kernel of a lazy module, unless it has been loaded meanwhile; return its
        table and a log with the reasons if it is not supported.

        Raises:
            NoKernelError: as ``find_kernel``.
            OutOfBudgetError: as ``load``.
        """
        kernel = self.find_kernel(module, index)
        if isinstance(kernel, bytes):
            return kernel, ""
        program = self._live[module]
        summary = replace(
            image.summary,
            variables=image.summary.variables[len(kernel.image.shared.summary.variables) :],
            refused=tuple(refusal for refusal in image.summary.refused if refusal.is_kernel),
        )
        loaded = self._load_beside(program, kernel, image) if summary.functions else {}
        log = summary.log(MAX_LOG_BYTES)
        program.tables[kernel.name] = table = self._table(program, summary, loaded, log)
        return table, log

    def _load_beside(
        self, program: _Program, kernel: LazyKernel, image: Image
    ) -> dict[str, KernelHandle]:
        placed = len(kernel.image.shared.summary.variables)
        with ExitStack() as undo:
            if len(image.summary.variables) > placed:
                segment, module = self._segments.create_above(
                    program.segment, image.decode(), placed
                )
                undo.callback(self._segments.destroy, segment)
                image = self._images.with_module(image, module)
                loaded = self._load_kernels(program, image, image.summary.functions)
                program.segments.append(segment)
            else:
                loaded = self._load_kernels(program, image, image.summary.functions)
            undo.pop_all()
        return loaded

    def _load_kernels(
        self, program: _Program, image: Image, functions: Sequence[FunctionSummary]
    ) -> dict[str, KernelHandle]:
        """Load a container as a part of a program, whose segment has its variables."""
        base = self._aperture_base + program.segment.offset
        places = descriptors.find(image.summary.variables)
        kernels: dict[str, KernelHandle] = {}
        with ExitStack() as undo:
            handle = self._backend.load(image.container, base, image.module)
            undo.callback(self._backend.unload, handle)
            undo.callback(self._take_back, kernels)
            for function in functions:
                kernels[function.name] = self._add_kernel(handle, function, base, places)
            for function in functions:
                self._describe(function, kernels[function.name], base, places)
            undo.pop_all()
        program.handles.append(handle)
        program.kernels += kernels.values()
        return kernels

    def _keep(self, program: _Program) -> int:
        self._modules_loaded += 1
        self._live[self._modules_loaded] = program
        return self._modules_loaded

    def _table(
        self,
        program: _Program,
        summary: ModuleSummary,
        kernels: Mapping[str, KernelHandle],
        log: str,
    ) -> bytes:
        base = self._aperture_base + program.segment.offset
        max_threads = self._max_threads_per_block
        return module_table.of_module(
            summary, dict(kernels), base, self._capability, max_threads, log
        )

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
        for handle in program.handles:
            self._backend.unload(handle)
        for segment in (*program.segments, program.segment):
            self._segments.destroy(segment)
        if program.image is not None:
            self._segments.refund(program.image.size)

    def usage(self) -> Usage:
        """Return the context's usage so far, including that of modules that are still loaded."""
        total = Usage(
            {name: Timed(timing.count, timing.ns) for name, timing in self._usage.kernels.items()},
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
        title = title_of(self._sites[kernel].function)
        usage.add_kernel(title, *self._runtime.kernel_usage(kernel))

    def site(self, kernel: int) -> KernelSite:
        """Return the kernel that a live handle identifies."""
        return self._sites[kernel]

    def _take_back(self, kernels: dict[str, KernelHandle]) -> None:
        """Unregister kernels whose handles the client has not received."""
        for kernel in kernels.values():
            self._runtime.remove_kernel(kernel)
            del self._sites[kernel]

    def _add_kernel(
        self,
        program: ProgramHandle,
        function: FunctionSummary,
        base: int,
        places: descriptors.Places,
    ) -> KernelHandle:
        x, y, z = function.maximum_block or (0, 0, 0)
        kernel = Kernel(
            title=title_of(function.name),
            segment_base=base,
            parameter_bytes=function.parameter_bytes,
            max_threads=x * y * z,
            required_block=function.required_block,
            required_cluster=function.required_cluster,
            interpreted=not self._native,
            shared_bytes=function.shared_bytes,
            local_bytes=function.local_bytes,
            has_stack=function.has_stack,
            registers=function.registers,
            tensor_memory=function.tensor_memory,
            pipes=function.pipes,
            parameter_image=0
            if function.parameter_image is None
            else base + function.parameter_image,
            launch_buffer=base + places.launches if function.launches else 0,
        )
        try:
            handle = self._runtime.add_kernel(kernel)
        except MemoryError as err:
            raise OutOfBudgetError(str(err)) from err
        self._sites[handle] = KernelSite(program, function.name)
        return handle

    def _describe(
        self,
        function: FunctionSummary,
        kernel: KernelHandle,
        base: int,
        places: descriptors.Places,
    ) -> None:
        """Fill the descriptor through which kernels launch a kernel, if it has one."""
        offset = places.kernels.get(function.name)
        if offset is not None:
            threads = descriptors.most_threads(function.maximum_block, self._max_threads_per_block)
            content = descriptors.describe(
                kernel, function.parameter_bytes, threads, function.shared_bytes
            )
            self._runtime.write(base + offset, content)
