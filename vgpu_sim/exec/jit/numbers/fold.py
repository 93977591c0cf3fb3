"""Integer semantics of one lane on Python integers, for constant folding.

Operands and results are bit patterns (unsigned). The emitted code must agree with it; the
conformance tests compare both with the interpreter.
"""

from collections.abc import Callable

from vgpu_sim.exec.jit.numbers import fold_bitwise
from vgpu_sim.exec.jit.shapes.lane_shapes import to_signed
from vgpu_sim.isa import Compare, DataType, Family, Instruction, MulMode, Op

_TWICE = {
    DataType.U16: DataType.U32,
    DataType.S16: DataType.S32,
    DataType.U32: DataType.U64,
    DataType.S32: DataType.S64,
    DataType.B16: DataType.U32,
    DataType.B32: DataType.U64,
}


_COUNTS = frozenset([Op.S2R, Op.BFIND, Op.POPC, Op.CLZ])  # 32 bits for every instruction type


def result_type(instruction: Instruction) -> DataType:
    """Return the type of an instruction's result. Its width and signedness determine how the result
    is extended to the width of a register.
    """
    if instruction.op is Op.SETP:
        return DataType.PRED
    if instruction.op in _COUNTS:
        return DataType.U32
    if instruction.op is Op.S2R:
        return DataType.U64 if instruction.type.bits == 64 else DataType.U32
    if instruction.op in (Op.MUL, Op.MAD) and instruction.mode is MulMode.WIDE:
        return _TWICE[instruction.type]
    return instruction.type


def extend(pattern: int, type_: DataType, bits: int) -> int:
    """Extend the bit pattern of a result of type ``type_`` to a register of ``bits`` bits."""
    pattern &= (1 << type_.bits) - 1
    if type_.is_signed:
        pattern = to_signed(pattern, type_.bits)
    return pattern & ((1 << bits) - 1)


def integer_function(instruction: Instruction) -> Callable[..., int] | None:
    """Return a function that computes an instruction's result from the operands' patterns. Each
    pattern is truncated to the operand width.

    The caller truncates the result. For SETP the function computes the first result. Return None
    if the instruction cannot be folded.
    """
    type_ = instruction.type
    if instruction.op is Op.CVT:
        return _conversion(instruction)
    if not type_.is_integer and type_ is not DataType.PRED:
        return None
    bits = type_.bits
    number = (lambda v: to_signed(v, bits)) if type_.is_signed else (lambda v: v)
    if instruction.op in (Op.MUL, Op.MAD):
        shift = bits if instruction.mode is MulMode.HI else 0
        if instruction.op is Op.MUL:
            return lambda a, b: number(a) * number(b) >> shift
        return lambda a, b, c: (number(a) * number(b) >> shift) + c
    if instruction.op is Op.SETP:
        compare = _COMPARES.get(instruction.compare)
        if compare is None:
            return None
        return lambda a, b: int(compare(number(a), number(b)))
    if instruction.op.family is Family.BITWISE:
        return fold_bitwise.function(instruction)
    simple = _SIMPLE.get(instruction.op)
    if simple is not None:
        return lambda *operands: simple(*map(number, operands))
    if instruction.op is Op.SHL:
        return lambda a, b: a << b if b < bits else 0
    if instruction.op is Op.SHR:
        return lambda a, b: number(a) >> min(b, bits)
    return None


def _divide(a: int, b: int) -> int:
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    return -1 if b == 0 else a - b * _divide(a, b)


LOGIC: dict[Op, Callable[[int, int], int]] = {
    Op.AND: lambda a, b: a & b,
    Op.OR: lambda a, b: a | b,
    Op.XOR: lambda a, b: a ^ b,
}

_SIMPLE: dict[Op, Callable[..., int]] = {
    **LOGIC,
    Op.MOV: lambda a: a,
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.NEG: lambda a: -a,
    Op.ABS: abs,
    Op.MIN: min,
    Op.MAX: max,
    Op.DIV: _divide,
    Op.REM: _remainder,
    Op.NOT: lambda a: ~a,
}

_COMPARES: dict[Compare | None, Callable[[int, int], bool]] = {
    Compare.EQ: lambda a, b: a == b,
    Compare.NE: lambda a, b: a != b,
    Compare.LT: lambda a, b: a < b,
    Compare.LE: lambda a, b: a <= b,
    Compare.GT: lambda a, b: a > b,
    Compare.GE: lambda a, b: a >= b,
}


def _conversion(instruction: Instruction) -> Callable[[int], int] | None:
    target, source = instruction.type, instruction.source_type
    if source is None or not target.is_integer or not source.is_integer:
        return None
    low, high = integer_range(target)

    def convert(value: int) -> int:
        number = to_signed(value, source.bits) if source.is_signed else value
        return min(max(number, low), high) if instruction.saturate else number

    return convert


def integer_range(type_: DataType) -> tuple[int, int]:
    """Return the smallest and largest integer of a type."""
    if type_.is_signed:
        return -(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1
    return 0, (1 << type_.bits) - 1
