"""Which bits of a value may be set, by the words that made it: a field that was cut is short."""

from typing import Final

from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, Source, SsaFunction, Value
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.isa import DataType, Instruction, Literal, Op, SpecialRegister

_DEPTH: Final = 8
_LANES_MASK: Final = 31


def possible(ssa: SsaFunction, source: Source, bits: int, depth: int = _DEPTH) -> int:
    """Return a mask of the low ``bits`` of ``source`` that may be set, read as zero-extended."""
    ones = (1 << bits) - 1
    if isinstance(source, Literal):
        return source.bits & ones
    if not isinstance(source, Value):
        return ones
    ones &= (1 << source.bits) - 1
    node = ssa.definition.get(source)
    if not depth:
        return ones
    if isinstance(node, Merge):
        return ones & _either(ssa, (node.new, node.old), bits, depth)
    if not isinstance(node, Operation) or len(node.results) != 1:
        return ones
    type_ = fold.result_type(node.instruction)
    if not type_.is_integer or (type_.is_signed and type_.bits < source.bits):
        return ones
    return ones & _of_word(ssa, node, type_, depth)


def _either(ssa: SsaFunction, sources: tuple[Source, ...], bits: int, depth: int) -> int:
    found = 0
    for source in sources:
        found |= possible(ssa, source, bits, depth - 1)
    return found


def _of_word(ssa: SsaFunction, node: Operation, type_: DataType, depth: int) -> int:
    instruction, sources, bits = node.instruction, node.sources, type_.bits
    ones = (1 << bits) - 1
    match instruction.op:
        case Op.MOV:
            return possible(ssa, sources[0], bits, depth - 1)
        case Op.AND:
            first, second = (possible(ssa, source, bits, depth - 1) for source in sources)
            return first & second
        case Op.OR | Op.XOR:
            return _either(ssa, sources, bits, depth)
        case Op.SELP:
            return _either(ssa, sources[:2], bits, depth)
        case Op.SHR | Op.SHL if isinstance(sources[1], Literal):
            return _shifted(instruction, possible(ssa, sources[0], bits, depth - 1), sources[1])
        case Op.BFE if not type_.is_signed and isinstance(sources[2], Literal):
            return ones & (1 << (sources[2].bits & 0xFF)) - 1
        case Op.CVT if instruction.source_type is not None:
            origin = instruction.source_type
            if origin.is_integer and not origin.is_signed and not instruction.saturate:
                return ones & possible(ssa, sources[0], origin.bits, depth - 1)
            return ones
        case Op.S2R if instruction.sreg is SpecialRegister.LANEID:
            return _LANES_MASK
        case _:
            return ones


def _shifted(instruction: Instruction, value: int, by: Literal) -> int:
    bits, count = instruction.type.bits, min(by.bits & 0xFFFF_FFFF, instruction.type.bits)
    if instruction.op is Op.SHL:
        return value << count & (1 << bits) - 1
    negative = instruction.type.is_signed and value >> (bits - 1) & 1
    return (1 << bits) - 1 if negative else value >> count
