"""Completes a kernel's code: places its local variables, and replaces marks and symbols."""

from collections.abc import Collection
from dataclasses import field, replace

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.stack.program import Program
from vgpu_sim.compiler.lower.stack.promotion import promote, symbol_of_access
from vgpu_sim.compiler.lower.stack.saves import expand_saves
from vgpu_sim.compiler.lower.stack.stack import ALIGNMENT_BYTES, STACK_SYMBOL
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.frames import MAX_STACK_ALIGNMENT_BYTES, Frame, LocalVariable
from vgpu_sim.hal.compute.limits import MAX_LOCAL_BYTES_PER_THREAD, STACK_BYTES_PER_THREAD
from vgpu_sim.isa import DataType, Instruction, Literal, Op, Register, Symbol
from vgpu_sim.records import dataclass

_LONGEST_VECTOR_BYTES = 128
UNSIGNED_TYPES = {32: DataType.U32, 64: DataType.U64}


@dataclass(slots=True)
class _Places:
    """The values of symbols: offsets of variables, for variables on the stack with the base
    register, and sizes of frames.
    """

    fixed: dict[str, int] = field(default_factory=dict)
    relative: dict[str, tuple[Register, int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.fixed or name in self.relative or name in self.sizes


def link(builder: Builder, program: Program) -> int:
    """Place a kernel's local variables in memory, and complete the code that depends on their
    addresses.

    The marks in the code are replaced by instructions that save and restore registers. Return
    the size of the local memory in bytes.

    Raises:
        Invalid: the local variables need more memory than a thread can have.
        Unsupported: the code becomes too long.
    """
    frames, stack = program.frames, program.stack
    builder.drop_jumps()
    promote(builder, [variable for frame in frames for variable in _variables(frame)])
    named = {
        source.name
        for instruction in builder.code
        for source in instruction.srcs
        if isinstance(source, Symbol)
    }
    places = _Places()
    end = 0
    for frame in frames:
        if frame.pointer is None:
            end = _place(frame, end, named, places.fixed)
        else:
            relative: dict[str, int] = {}
            size = _place(frame, 0, named, relative)
            _check_alignment(frame, relative)
            places.relative.update({name: (frame.pointer, at) for name, at in relative.items()})
            places.sizes[frame.name] = -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    begin = -(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    places.sizes[STACK_SYMBOL.name] = begin
    end = begin + STACK_BYTES_PER_THREAD if stack.used else end
    if end > MAX_LOCAL_BYTES_PER_THREAD:
        limit = f"the limit is {MAX_LOCAL_BYTES_PER_THREAD}"
        raise Invalid(f"a thread needs {end} bytes of local memory; {limit}")
    expand_saves(builder, stack)
    start = []
    if stack.used:
        start = [Instruction(Op.MOV, DataType.B32, (stack.pointer,), (STACK_SYMBOL,))]

    def expand(word: int, instruction: Instruction) -> list[Instruction]:
        words = [instruction] if word else start
        return [placed for original in words for placed in _resolve(original, places)]

    builder.rewrite(expand)
    return begin if stack.used else end


def _check_alignment(frame: Frame, placed: Collection[str]) -> None:
    """Refuse alignments that the stack cannot provide.

    Raises:
        Unsupported: a variable on the stack has too large an alignment.
    """
    for variable in _variables(frame):
        if variable.name in placed and variable.align > MAX_STACK_ALIGNMENT_BYTES:
            raise Unsupported(
                f"an alignment of more than {MAX_STACK_ALIGNMENT_BYTES} bytes on the stack"
            )


def _variables(frame: Frame) -> list[LocalVariable]:
    variables, pending = [], [frame]
    while pending:
        inner_frame = pending.pop()
        variables += inner_frame.variables
        pending += inner_frame.inner
    return variables


def _place(frame: Frame, start: int, named: set[str], places: dict[str, int]) -> int:
    """Place the variables of a frame that the code still uses, from ``start`` on; return the
    end.
    """
    end = start
    for variable in frame.variables:
        if variable.name in named:
            offset = -(-end // variable.align) * variable.align
            places[variable.name] = offset
            # A vector access may extend beyond the variable in which it begins, up to the
            # variable's alignment.
            whole = min(variable.align, _LONGEST_VECTOR_BYTES)
            end = offset + -(-variable.size // whole) * whole
    return max([end, *(_place(inner, end, named, places) for inner in frame.inner)])


def _resolve(instruction: Instruction, places: _Places) -> list[Instruction]:
    """Replace symbols by numbers or by places on the stack."""
    symbol = next((s for s in instruction.srcs if isinstance(s, Symbol) and s.name in places), None)
    if symbol is None:
        return [instruction]
    name, addend = symbol.name, symbol.addend
    if name in places.relative:
        return _on_stack(instruction, symbol, *places.relative[name])
    number = places.sizes[name] if name in places.sizes else places.fixed[name] + addend
    bits = 32 if symbol_of_access(instruction) is not None else instruction.type.bits
    literal = Literal(number & ((1 << bits) - 1))
    return [
        replace(instruction, srcs=tuple(literal if s is symbol else s for s in instruction.srcs))
    ]


def _on_stack(
    instruction: Instruction, symbol: Symbol, pointer: Register, place: int
) -> list[Instruction]:
    """Return an access to, or the address of, a variable ``place`` bytes after a pointer."""
    offset = place + symbol.addend
    if symbol_of_access(instruction) is not None:
        displacement = signed_32(offset + instruction.displacement)
        srcs = (pointer, *instruction.srcs[1:])
        return [replace(instruction, srcs=srcs, displacement=displacement)]
    guard, type_ = instruction.guard, UNSIGNED_TYPES[instruction.type.bits]
    distance = Literal(offset & ((1 << type_.bits) - 1))
    if type_.bits == 32:
        return [Instruction(Op.ADD, type_, instruction.dsts, (pointer, distance), guard)]
    to = instruction.dsts[0]
    assert isinstance(to, Register)
    wide = Instruction(Op.CVT, type_, (to,), (pointer,), guard, source_type=DataType.U32)
    return [wide, Instruction(Op.ADD, type_, (to,), (to, distance), guard)]


def signed_32(number: int) -> int:
    """Return the low 32 bits of a number as a signed number."""
    return ((number + (1 << 31)) & ((1 << 32) - 1)) - (1 << 31)
