"""Finds the thread of a block that caused a fault of native code.

Native code executes many lanes at once and does not record the current one. This module
therefore executes the block's threads again, one after the other, with Python numbers. It
executes integer, address and branch instructions only, and makes no stores. Values that depend
on anything else (floating point, shared memory, other lanes) are unknown, and so is a thread
whose path or address depends on such a value.
"""

import time
from collections.abc import Callable, Collection
from ctypes import string_at
from typing import Final

from vgpu_sim.exec.jit.analysis.operand_widths import operand_widths
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.hal.compute.abi import FaultKind
from vgpu_sim.hal.compute.address_map import (
    APERTURE_BYTES,
    CLAMP_BOUND_BYTES,
    GPU_WINDOW_BYTES,
    LOCAL_OFFSET,
    SHARED_OFFSET,
)
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.hal.compute.ports import FaultedLaunch, NativeFault
from vgpu_sim.isa import (
    EFFECTS,
    BoolOp,
    Function,
    Guard,
    Instruction,
    Literal,
    Module,
    Op,
    Operand,
    Predicate,
    Register,
    Space,
    SpecialRegister,
)
from vgpu_sim.records import dataclass

_LONGEST_S: Final = 1.0
_MOST_STEPS: Final = 100_000  # per thread
_LOOK_STEPS: Final = 1024
_WORD: Final = (1 << 64) - 1
_NARROW: Final = (1 << 32) - 1

Thread = tuple[int, int, int]
Known = int | None


class _Unknown(Exception):
    """Raised if a thread's path depends on an unknown value or is too long."""


@dataclass(frozen=True, slots=True)
class Found:
    """A thread that causes the fault; ``address`` is the address that the thread requests."""

    thread: Thread
    word: int
    address: int


def find(
    module: Module, function: Function, words: Collection[int], fault: NativeFault
) -> Found | None:
    """Return a thread of the faulting block that faults at one of the instructions ``words``; None
    if no such thread can be determined.

    The result is the thread whose access contains the faulting address. If the faulting address
    is lost because native code clamps addresses (see ``jit_faults``), the result is the first
    thread with an invalid access.
    """
    launch = fault.launch
    if launch is None:
        return None
    search = _Search(module, function, words, fault, launch)
    first: Found | None = None
    x, y, z = launch.block
    for number in range(x * y * z):
        if search.late:
            break
        try:
            thread_fault = search.run(number)
        except _Unknown:
            continue
        if thread_fault is not None:
            if search.holds(thread_fault):
                return thread_fault
            first = first or thread_fault
    return first if search.address_is_lost else None


class _Search:
    def __init__(
        self,
        module: Module,
        function: Function,
        words: Collection[int],
        fault: NativeFault,
        launch: FaultedLaunch,
    ) -> None:
        self._code = function.code
        self._bits = function.register_bits
        self._predicates = function.predicate_count
        self._words = words
        self._fault = fault
        self._launch = launch
        self._offsets = {variable.name: variable.offset for variable in module.variables}
        window = launch.segment_base - launch.segment_base % GPU_WINDOW_BYTES
        self._private = {window + SHARED_OFFSET >> 32, window + LOCAL_OFFSET >> 32}
        self._special = _block_registers(launch, window)
        self._functions: dict[int, Callable[..., int] | None] = {}
        self._until = time.monotonic() + _LONGEST_S

    @property
    def late(self) -> bool:
        return time.monotonic() > self._until

    @property
    def address_is_lost(self) -> bool:
        """Return whether native code faulted at an address that results from clamping."""
        offset = self._fault.address - self._fault.aperture_base
        return not self._fault.shared and not 0 <= offset < APERTURE_BYTES - CLAMP_BOUND_BYTES

    def holds(self, thread_fault: Found) -> bool:
        """Return whether a thread's access contains the byte at which native code faulted; False
        for a trap.
        """
        if self._fault.trap_word or self._fault.local:
            return True
        instruction = self._code[thread_fault.word]
        return 0 <= self._fault.address - thread_fault.address < _size_of(instruction)

    def run(self, number: int) -> Found | None:
        """Run thread ``number`` until it faults at one of the words; return None if it does not
        fault there.

        Raises:
            _Unknown: whether the thread faults cannot be determined.
        """
        x, y, _ = self._launch.block
        thread = number % x, number // x % y, number // (x * y)
        special = self._special | dict(zip(_TID, thread, strict=True))
        special[SpecialRegister.LANEID] = number % WARP_THREADS
        registers: list[Known] = [0] * len(self._bits)
        predicates: list[Known] = [0] * self._predicates
        word = 0
        for step in range(_MOST_STEPS):
            if step % _LOOK_STEPS == _LOOK_STEPS - 1 and self.late:
                raise _Unknown
            instruction = self._code[word]
            allowed = _passes(instruction.guard, predicates)
            effects = EFFECTS[instruction.op]
            if effects.leaves and word not in self._words:
                if allowed is None:
                    raise _Unknown
                if allowed and effects.ends:
                    return None  # the thread may also end at a trap other than the reported one
                target = instruction.target if allowed else None
                word = word + 1 if target is None else target
                continue
            values = [
                self._value(source, bits, registers, predicates)
                for source, bits in self._sources(instruction)
            ]
            if allowed is not False and word in self._words:
                address = self._faults(instruction, values)
                if address is not None:
                    if allowed is None:
                        raise _Unknown
                    return Found(thread, word, address)
            if allowed is not False:
                results = self._results(word, instruction, values, special)
                if allowed is None:
                    results = [None] * len(results)
                self._assign(instruction, results, registers, predicates)
            word += 1
        raise _Unknown

    def _sources(self, instruction: Instruction) -> list[tuple[Operand, int]]:
        return list(zip(instruction.srcs, operand_widths(instruction), strict=True))

    def _value(
        self, source: Operand, bits: int, registers: list[Known], predicates: list[Known]
    ) -> Known:
        match source:
            case Register(index):
                value = registers[index]
            case Predicate(index):
                value = predicates[index]
            case Literal(pattern):
                value = pattern
            case _:
                value = self._launch.segment_base + self._offsets[source.name] + source.addend
        return None if value is None else value & (1 << bits) - 1

    def _faults(self, instruction: Instruction, values: list[Known]) -> Known:
        """Return the address of an instruction's access if the access is invalid; 0 for a trap;
        None if the access is valid.

        Raises:
            _Unknown: the address is not known.
        """
        fault = self._fault
        if fault.trap_word:
            return 0
        if not EFFECTS[instruction.op].accesses or instruction.space is Space.PARAM:
            return None
        address = _address(instruction, values)
        if address is None:
            raise _Unknown
        size = _size_of(instruction)
        if fault.kind == FaultKind.MISALIGNED:
            return address if address % size else None
        if fault.local:
            if instruction.space is not Space.LOCAL:
                raise _Unknown
            return address if address + size > self._launch.local_bytes else None
        if fault.shared:
            if instruction.space is not Space.SHARED:
                raise _Unknown
            return address if address + size > fault.shared_bytes else None
        if instruction.space is Space.GENERIC and address >> 32 in self._private:
            return None
        return None if self._is_mapped(address, size) else address

    def _is_mapped(self, address: int, size: int) -> bool:
        # An access may extend from one mapped piece into the next.
        end = address + size
        while address < end:
            ends = [at + length for at, length in self._fault.mapped if at <= address < at + length]
            if not ends:
                return False
            address = max(ends)
        return True

    def _assign(
        self,
        instruction: Instruction,
        results: list[Known],
        registers: list[Known],
        predicates: list[Known],
    ) -> None:
        type_ = fold.result_type(instruction)
        for destination, result in zip(instruction.dsts, results, strict=True):
            if isinstance(destination, Predicate):
                predicates[destination.index] = result
            elif destination is not None:
                bits = self._bits[destination.index]
                extended = None if result is None else fold.extend(result, type_, bits)
                registers[destination.index] = extended

    def _results(
        self,
        word: int,
        instruction: Instruction,
        values: list[Known],
        special: dict[SpecialRegister, Known],
    ) -> list[Known]:
        """Return an instruction's results before extension to the register's width; None for each
        unknown result.
        """
        unknown: list[Known] = [None] * len(instruction.dsts)
        match instruction.op:
            case Op.LD:
                return self._load(instruction, values) or unknown
            case Op.S2R:
                assert instruction.sreg is not None
                return [special.get(instruction.sreg)]
            case Op.MOV:
                return [values[0]]
            case Op.SELP:
                chosen = values[2]
                return [None if chosen is None else values[0] if chosen else values[1]]
            case Op.SETP:
                return self._compare(word, instruction, values)
            case _:
                pass
        function = self._function(word, instruction)
        known_values = [value for value in values if value is not None]
        if function is None or instruction.saturate or len(unknown) != 1:
            return unknown
        return [function(*known_values)] if len(known_values) == len(values) else unknown

    def _function(self, word: int, instruction: Instruction) -> Callable[..., int] | None:
        if word not in self._functions:
            self._functions[word] = fold.integer_function(instruction)
        return self._functions[word]

    def _compare(self, word: int, instruction: Instruction, values: list[Known]) -> list[Known]:
        function = self._function(word, instruction)
        a, b = values[:2]
        if function is None or a is None or b is None:
            return [None] * len(instruction.dsts)
        holds: Known = function(a, b)
        truths = [holds, int(not holds)][: len(instruction.dsts)]
        if instruction.combine is BoolOp.NONE:
            return truths
        with_ = values[2]
        combine = _COMBINE.get(instruction.combine)
        if with_ is None or combine is None:
            return [None] * len(truths)
        return [None if truth is None else combine(truth, with_) for truth in truths]

    def _load(self, instruction: Instruction, values: list[Known]) -> list[Known] | None:
        size, count = instruction.type.bytes, len(instruction.dsts)
        if instruction.space is Space.PARAM:
            at = instruction.displacement
            data = self._fault.parameters[at : at + size * count]
        else:
            address = _address(instruction, values)
            if address is None or instruction.space in (Space.SHARED, Space.LOCAL):
                return None
            if not self._is_mapped(address, size * count):
                return None
            data = string_at(address, size * count)
        return [int.from_bytes(data[i * size : (i + 1) * size], "little") for i in range(count)]


_TID: Final = (SpecialRegister.TID_X, SpecialRegister.TID_Y, SpecialRegister.TID_Z)
_NTID: Final = (SpecialRegister.NTID_X, SpecialRegister.NTID_Y, SpecialRegister.NTID_Z)
_CTAID: Final = (SpecialRegister.CTAID_X, SpecialRegister.CTAID_Y, SpecialRegister.CTAID_Z)
_NCTAID: Final = (SpecialRegister.NCTAID_X, SpecialRegister.NCTAID_Y, SpecialRegister.NCTAID_Z)
_COMBINE: Final[dict[BoolOp, Callable[[int, int], int]]] = {
    BoolOp.AND: lambda a, b: a & b,
    BoolOp.OR: lambda a, b: a | b,
    BoolOp.XOR: lambda a, b: a ^ b,
}


def _block_registers(launch: FaultedLaunch, window: int) -> dict[SpecialRegister, Known]:
    """Return the special registers that are the same in all threads of the block."""
    x, y, _ = launch.grid
    index = launch.block_index
    registers: dict[SpecialRegister, Known] = {
        SpecialRegister.WARPSIZE: WARP_THREADS,
        SpecialRegister.SHARED_WINDOW: window + SHARED_OFFSET >> 32,
        SpecialRegister.DYNAMIC_SHARED: launch.dynamic_shared_bytes,
        SpecialRegister.NSMID: launch.multiprocessors,
    }
    registers |= dict(zip(_NTID, launch.block, strict=True))
    registers |= dict(zip(_CTAID, (index % x, index // x % y, index // (x * y)), strict=True))
    registers |= dict(zip(_NCTAID, launch.grid, strict=True))
    return registers


def _passes(guard: Guard | None, predicates: list[Known]) -> bool | None:
    if guard is None:
        return True
    value = predicates[guard.predicate.index]
    return None if value is None else bool(value) != guard.negated


def _address(instruction: Instruction, values: list[Known]) -> Known:
    base = values[0]
    if base is None:
        return None
    narrow = instruction.space in (Space.SHARED, Space.LOCAL)
    return base + instruction.displacement & (_NARROW if narrow else _WORD)


def _size_of(instruction: Instruction) -> int:
    return instruction.vector * instruction.type.bytes
