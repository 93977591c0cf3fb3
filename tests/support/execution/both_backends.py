"""One launch on the interpreter and on the JIT, compared bit by bit."""

import ctypes
import functools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from support.execution import native_launch
from support.execution.shared_code import SharingCompiler
from support.kept import interpreter_results
from vgpu_sim.exec import interp, jit
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.hal.compute.tensor_memory import TENSOR_END_BYTE
from vgpu_sim.isa import Module

Shape = tuple[int, int, int]


@functools.cache
def compiler() -> SharingCompiler:
    return SharingCompiler()


@functools.lru_cache(maxsize=8)
def _loaded(module: Module, block: Shape, plan: jit.Plan | None) -> jit.Loaded:
    """Return native code of a module's first function; tests run it on several inputs."""
    code = compiler().compile_for_values(module, module.functions[0], block, plan)
    return compiler().load(code)


class Bench:
    """Memory of a test: buffers at the same addresses for both backends.

    The interpreter's memory is one piece with holes of zeros; the native one has real gaps.
    """

    def __init__(self, *buffers: bytes) -> None:
        self.aperture = native_launch.Aperture()
        self.buffers = [self.aperture.allocate(data) for data in buffers]
        self._initial = [bytes(data) for data in buffers]

    def close(self) -> None:
        self.aperture.close()

    def begin_with(self, index: int, data: bytes) -> None:
        """Overwrite the start of a buffer, for example with the addresses of buffers."""
        self._initial[index] = data

    def addresses(self) -> list[int]:
        return [buffer.address for buffer in self.buffers]

    def interpret(
        self,
        module: Module,
        grid: Shape,
        block: Shape,
        parameters: bytes,
        segment: int = 0,
        dynamic: int = 0,
        cluster: Shape | None = None,
    ) -> list[bytes]:
        """Return the buffers after the interpreter has run the kernel."""
        launch = grid, block, parameters, segment, dynamic, cluster
        before = [
            (buffer.address, initial + bytes(len(buffer.view) - len(initial)))
            for buffer, initial in zip(self.buffers, self._initial, strict=True)
        ]
        chosen = *launch, native_launch.GRID_ID, native_launch.MULTIPROCESSORS
        return interpreter_results.run(
            module, chosen, before, lambda: self._interpret(module, *launch)
        )

    def _interpret(
        self,
        module: Module,
        grid: Shape,
        block: Shape,
        parameters: bytes,
        segment: int,
        dynamic: int,
        cluster: Shape | None,
    ) -> list[bytes]:
        base = min(self.addresses())
        end = max(buffer.address + len(buffer.view) for buffer in self.buffers)
        data = bytearray(end - base)
        for buffer, initial in zip(self.buffers, self._initial, strict=True):
            data[buffer.address - base : buffer.address - base + len(initial)] = initial
        memory = interp.BufferMemory(base, data)
        function = module.functions[0]
        surroundings = interp.Surroundings(native_launch.GRID_ID, native_launch.MULTIPROCESSORS)
        interp.run(
            module,
            function,
            grid,
            block,
            parameters,
            memory,
            segment,
            dynamic,
            surroundings,
            cluster=cluster,
        )
        return [
            bytes(data[b.address - base : b.address - base + len(b.view)]) for b in self.buffers
        ]

    def execute(
        self,
        module: Module,
        grid: Shape,
        block: Shape,
        parameters: bytes,
        plan: jit.Plan | None,
        segment: int = 0,
        ranges: Iterable[tuple[int, int]] | None = None,
        dynamic: int = 0,
        cluster: Shape | None = None,
    ) -> list[bytes]:
        """Return the buffers after native code has run the kernel."""
        for buffer, initial in zip(self.buffers, self._initial, strict=True):
            buffer.view[:] = np.frombuffer(initial, dtype=np.uint8)
        image = module.functions[0].parameter_image
        if image:
            place = segment + next(v.offset for v in module.variables if v.name == image)
            ctypes.memmove(place, parameters, len(parameters))
        loaded = _loaded(module, block, plan)
        cluster = cluster or module.functions[0].required_cluster
        blocks = math.prod(grid) // math.prod(cluster or (1,))
        each = local_bytes(module.functions[0])
        launch = native_launch.context(self.aperture, grid, block, segment, dynamic, each, cluster)
        shared_bytes = module.functions[0].shared_bytes + dynamic
        if module.functions[0].tensor_memory:
            shared_bytes = TENSOR_END_BYTE
        ended = native_launch.run(loaded, launch, parameters, ranges or [(0, blocks)], shared_bytes)
        assert (ended.status, ended.signal) == (0, 0), f"{plan}: {ended}"
        return [bytes(buffer.view) for buffer in self.buffers]


def compare(
    module: Module,
    buffers: Sequence[bytes],
    grid: Shape,
    block: Shape,
    plans: Iterable[jit.Plan | None],
    extra: Sequence[int] = (),
    symbols: int | None = None,
    dynamic: int = 0,
    agreed: Sequence[int] | None = None,
    cluster: Shape | None = None,
) -> list[bytes]:
    """Assert bit equality of the buffers ``agreed`` (default: all) for every plan.

    The kernel's parameters are the buffers' addresses, then ``extra``. ``symbols`` is the buffer
    that holds the module's variables, ``dynamic`` the launch's dynamic shared memory in bytes.
    ``cluster`` is the size of clusters, if the kernel does not state it. Returns the buffers.
    """
    bench = Bench(*buffers)
    try:
        function = module.functions[0]
        values = [*bench.addresses(), *extra]
        parameters = native_launch.pack(function.parameters, function.parameter_bytes, values)
        segment = 0 if symbols is None else bench.buffers[symbols].address
        expected = bench.interpret(module, grid, block, parameters, segment, dynamic, cluster)
        for plan in [*plans, *compiler().first_tier(module, block)]:
            found = bench.execute(
                module, grid, block, parameters, plan, segment, dynamic=dynamic, cluster=cluster
            )
            for index, (want, have) in enumerate(zip(expected, found, strict=True)):
                if want != have and (agreed is None or index in agreed):
                    raise AssertionError(_difference(index, want, have, plan))
        return expected
    finally:
        bench.close()


def _difference(index: int, want: bytes, have: bytes, plan: jit.Plan | None) -> str:
    a, b = (np.frombuffer(d[: len(d) // 4 * 4], dtype="<u4") for d in (want, have))
    places = np.flatnonzero(a != b)
    shown = ", ".join(f"[{p}] {a[p]:#010x} not {b[p]:#010x}" for p in places[:6])
    return f"{plan}: buffer {index}: {len(places)} words differ: {shown}"
