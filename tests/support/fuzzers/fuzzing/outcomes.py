"""One kernel on the scalar evaluator, the interpreter and the JIT, at the same addresses."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from support.execution import native_launch
from support.fuzzers.fuzzing import child
from support.kernels.random_kernels.kernels import Kernel
from support.kernels.random_kernels.program import SLOT_BYTES
from support.oracles.scalar_ptx import machine, text
from vgpu_sim.exec import interp, jit
from vgpu_sim.exec.errors import AddressFault, BadAddress, KernelError, Trap
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.isa import Module

_PAGE = 4096
_IMAGE_BYTES = native_launch.MISALIGNED_OFFSET_BYTES


@dataclass(frozen=True)
class Outcome:
    """``codes`` are the possible results of the launch, as CUDA numbers; ``slots`` are the
    stored bytes.
    """

    codes: frozenset[int] = frozenset()
    slots: bytes = b""
    note: str = ""


class Unordered(Exception):
    """The kernel's results depend on the order of its threads, or it does not end."""


class World:
    """Memory for one kernel: whole pages, so that absent memory is absent for all three
    executors.
    """

    def __init__(self, kernel: Kernel, module: Module) -> None:
        self._kernel = kernel
        self._module = module
        self.aperture = native_launch.Aperture()
        table, slots = kernel.table(), bytes(kernel.threads * SLOT_BYTES)
        self._initial = [_at_end(table), _at_end(slots), _at_start(_segment(module))]
        self._slots_from = len(self._initial[1]) - len(slots)
        self._buffers = [self.aperture.allocate(data) for data in self._initial]
        starts = [buffer.address for buffer in self._buffers]
        self.segment = starts[2]
        pointers = starts[0] + len(self._initial[0]) - len(table), starts[1] + self._slots_from
        function = module.functions[0]
        self._parameters = native_launch.pack(
            function.parameters, function.parameter_bytes, [*pointers, *kernel.words]
        )

    def close(self) -> None:
        self.aperture.close()

    def evaluate(self, max_steps: int = 20_000) -> Outcome:
        """Execute the text itself, thread by thread.

        Raises:
            Unordered: the text has several possible results, or does not end.
            scalar_ptx.text.SyntaxFault: the evaluator does not support the text.
        """
        read = text.read(self._kernel.code)
        symbols = {v.name: self.segment + v.offset for v in self._module.variables}
        data = [bytearray(initial) for initial in self._initial]
        for name, address in symbols.items():  # as the evaluator's own reader found them
            offset = address - self.segment
            data[2][offset : offset + len(read.variables[name])] = read.variables[name]
        starts = [buffer.address for buffer in self._buffers]
        regions = [machine.Region(start, d) for start, d in zip(starts, data, strict=True)]
        regions[1].share_bytes, regions[1].shares_from = SLOT_BYTES, self._slots_from
        # The parameter block is laid out independently: both compilers must follow the same rules.
        packed = bytearray(read.parameter_bytes)
        addresses = starts[0] + len(data[0]) - len(self._kernel.table()), starts[1]
        values = (addresses[0], addresses[1] + self._slots_from, *self._kernel.words)
        for (offset, size), value in zip(read.parameters.values(), values, strict=True):
            packed[offset : offset + size] = (value & ((1 << 8 * size) - 1)).to_bytes(
                size, "little"
            )
        evaluator = machine.Machine(
            read, regions, bytes(packed), symbols, aligned=True, max_steps=max_steps
        )
        try:
            evaluator.run(self._kernel.grid, self._kernel.block)
        except machine.Fault as fault:
            return Outcome(fault.codes, note=str(fault))
        except (machine.Race, machine.Endless) as error:
            raise Unordered(type(error).__name__) from error
        return Outcome(slots=bytes(data[1]))

    def interpret(self) -> Outcome:
        """Run the compiled kernel on the interpreter."""
        kernel = self._kernel
        memory = _Pieces(
            [(b.address, bytearray(d)) for b, d in zip(self._buffers, self._initial, strict=True)]
        )
        try:
            interp.run(
                self._module,
                self._module.functions[0],
                kernel.grid,
                kernel.block,
                self._parameters,
                memory,
                self.segment,
            )
        except Trap:
            return Outcome(frozenset({719}))
        except KernelError as error:
            code = 700 if isinstance(error, AddressFault) else 716
            return Outcome(frozenset({code}), note=str(error))
        return Outcome(slots=bytes(memory.pieces[1][1]))

    def _fault_code(self, address: int) -> int:
        base = self.aperture.base
        if _near(address, base):
            return 700
        return 716 if _near(address, base + _IMAGE_BYTES) else 0

    def execute(self, loaded: jit.Loaded, ranges: Iterable[tuple[int, int]]) -> Outcome:
        """Run native code in a child.

        A fault outside of the aperture's reserved range, and any other crash, yields code 0,
        which is wrong for every kernel.
        """
        kernel = self._kernel
        for buffer, initial in zip(self._buffers, self._initial, strict=True):
            buffer.view[:] = np.frombuffer(initial, np.uint8)
        function = self._module.functions[0]
        launch = native_launch.context(
            self.aperture,
            kernel.grid,
            kernel.block,
            self.segment,
            local_bytes=local_bytes(function),
        )
        shared_bytes = function.shared_bytes
        ended = child.run(loaded, launch, self._parameters, ranges, shared_bytes)
        if ended.signal:
            code = self._fault_code(ended.address)
            note = f"signal {ended.signal}, address {ended.address:#x}"
            return Outcome(frozenset({code}), note=note)
        if ended.status:
            return Outcome(frozenset({ended.status}), note=f"status {ended.status}")
        for index in (0, 2):
            if bytes(self._buffers[index].view) != self._initial[index]:
                return Outcome(frozenset({0}), note="wrote where the kernel did not")
        return Outcome(slots=bytes(self._buffers[1].view))


def _near(address: int, base: int) -> bool:
    """Return whether an address is in the aperture that begins at ``base``, or in its guard
    zones.
    """
    end = base + native_launch.APERTURE_BYTES + native_launch.AFTER_BYTES
    return base - native_launch.BEFORE_BYTES <= address < end


def difference(want: Outcome, have: Outcome) -> str:
    """Return a description of how ``have`` differs from ``want``; empty if it does not."""
    if want.codes or have.codes:
        if have.codes <= want.codes and want.codes and have.codes:
            return ""
        names = [sorted(o.codes) or "no fault" for o in (want, have)]
        return f"ends with {names[1]}, not {names[0]} ({have.note}; {want.note})"
    if want.slots == have.slots:
        return ""
    a, b = (np.frombuffer(o.slots, "<u4") for o in (want, have))
    places = np.flatnonzero(a != b)
    shown = ", ".join(f"[{p}] {b[p]:#010x} not {a[p]:#010x}" for p in places[:4])
    return f"{len(places)} words differ: {shown}"


class _Pieces:
    """Memory of several pieces with nothing between them."""

    def __init__(self, pieces: list[tuple[int, bytearray]]) -> None:
        self.pieces = pieces
        self._memories = [interp.BufferMemory(base, data) for base, data in pieces]

    def load(self, addresses: np.ndarray, width_bytes: int) -> np.ndarray:
        values = np.zeros(len(addresses), np.uint64)
        for memory, inside in self._split(addresses, width_bytes):
            values[inside] = memory.load(addresses[inside], width_bytes)
        return values

    def store(self, addresses: np.ndarray, values: np.ndarray, width_bytes: int) -> None:
        for memory, inside in self._split(addresses, width_bytes):
            memory.store(addresses[inside], values[inside], width_bytes)

    def extents(self) -> list[tuple[int, int]]:
        return [extent for memory in self._memories for extent in memory.extents()]

    def _split(
        self, addresses: np.ndarray, width_bytes: int
    ) -> list[tuple[interp.BufferMemory, np.ndarray]]:
        absent = np.full(len(addresses), True)
        parts = []
        for (base, data), memory in zip(self.pieces, self._memories, strict=True):
            offsets = addresses - np.uint64(base)
            inside = offsets <= np.uint64(len(data) - width_bytes)
            absent &= ~inside
            parts.append((memory, inside))
        if absent.any():
            raise BadAddress(int(addresses[absent.argmax()]))
        return parts


def _at_end(data: bytes) -> bytes:
    return bytes(-len(data) % _PAGE) + data


def _at_start(data: bytes) -> bytes:
    return data + bytes(-len(data) % _PAGE)


def _segment(module: Module) -> bytes:
    data = bytearray(1)
    for variable in module.variables:
        data.extend(bytes(max(variable.offset + variable.size - len(data), 0)))
        data[variable.offset : variable.offset + len(variable.initial)] = variable.initial
    return bytes(data)
