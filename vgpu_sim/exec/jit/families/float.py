"""Float family: binary32 and binary64 natively, smaller formats through ``small_floats``.

No operation has fast-math flags or is contracted: results are the same under every plan. APPROX
and FULL forms are computed as RN. NaNs of native results are not canonical; ``nans`` determines
where they become so.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from vgpu_sim.exec import approximations
from vgpu_sim.exec.jit.analysis.nans import CANONICAL, INFINITY, reads_number
from vgpu_sim.exec.jit.arithmetic.directed_rounding import round_directed
from vgpu_sim.exec.jit.arithmetic.doubles import TextDoubles, TextSingles
from vgpu_sim.exec.jit.arithmetic.floats import (
    DIRECTED,
    NATIVE,
    ONE,
    canonical_bits,
    flush,
    flush_bits,
    operand_type,
    relu,
    saturate,
)
from vgpu_sim.exec.jit.arithmetic.small_floats import SmallFloats
from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.isa import DataType, Instruction, Op, Rounding

_SIGNS = (Op.FNEG, Op.FABS)
_OPERATIONS = {
    Op.FADD: "fadd",
    Op.FSUB: "fsub",
    Op.FMUL: "fmul",
    Op.FMA: "fma",
    Op.FDIV: "fdiv",
    Op.FRCP: "fdiv",
    Op.FRSQRT: "fdiv",
    Op.FSQRT: "sqrt",
}

_APPROXIMATIONS: Final[dict[Op, Callable[[TextDoubles, str], str]]] = {
    Op.FLG2: approximations.logarithm,
    Op.FSIN: approximations.sine,
    Op.FCOS: approximations.cosine,
    Op.FTANH: approximations.hyperbolic_tangent,
}


def _is_coarse(instruction: Instruction) -> bool:
    """Return whether only the upper half of a binary64 reciprocal is requested."""
    if instruction.op not in (Op.FRCP, Op.FRSQRT):
        return False
    return instruction.type is DataType.F64 and instruction.ftz


def _lower(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    type_ = node.instruction.type
    scalar = operand_type(type_)

    def compute(form: Form, part: int) -> tuple[str, str]:
        # All bits are significant in a wider register, or one that is also read as packed numbers;
        # if the sign goes into the result, so does that of a NaN.
        sign = node.instruction.xorsign
        args = [
            emitter.values.read(s, scalar, form, part, clean=sign or not reads_number(s, type_))
            for s in node.sources
        ]
        vector = form is Form.VECTOR
        return _result(emitter.text, node.instruction, args, vector), scalar

    emitter.define(node, compute)


def _lower_sign(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    type_ = node.instruction.type
    scalar = integer(type_.bits)

    def compute(form: Form, part: int) -> tuple[str, str]:
        source = node.sources[0]
        clean = node in emitter.nans.cleaning or not reads_number(source, type_)
        bits = emitter.values.read(source, scalar, form, part, clean=clean)
        vector = form is Form.VECTOR
        if type_.element is type_:
            return _changed_sign(emitter.text, node.instruction, bits, vector), scalar
        return _apply_packed(
            emitter.text, node.instruction, [bits], vector, _changed_sign_of
        ), scalar

    emitter.define(node, compute)


def _result(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    if instruction.type.element is instruction.type:
        return _arithmetic(text, instruction, args, vector)
    return _apply_packed(text, instruction, args, vector, _arithmetic)


def _apply_packed(
    text: Text,
    instruction: Instruction,
    args: list[str],
    vector: bool,
    compute: Callable[[Text, Instruction, list[str], bool], str],
) -> str:
    """Compute on both halves of each lane as on adjacent lanes; operands and result are
    patterns.
    """
    type_, whole = instruction.type.element, text.type_of(integer(instruction.type.bits), vector)
    with text.in_pairs(vector):
        word = text.type_of(integer(type_.bits), vector=True)
        half_type = (
            word if instruction.op in _SIGNS else text.type_of(operand_type(type_), vector=True)
        )
        halves = [text.let(f"bitcast {whole} {arg} to {half_type}") for arg in args]
        result = compute(text, replace(instruction, type=type_), halves, True)
        if half_type != word:
            result = canonical_bits(text, result, type_, vector=True)
    return text.let(f"bitcast {word} {result} to {whole}")


def _arithmetic(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    """Return the result, as ``operand_type(instruction.type)``."""
    type_ = instruction.type
    if instruction.ftz:
        args = [flush(text, arg, type_, vector) for arg in args]
    if instruction.op in (Op.FMIN, Op.FMAX):
        result = _extremum(text, instruction, args, vector)
    elif instruction.op is Op.FEX2 or instruction.op in _APPROXIMATIONS:
        result = _approximation(text, instruction, args[0], vector)
    elif _is_coarse(instruction):
        result = _coarse(text, instruction.op, args[0], vector)
    elif type_ in NATIVE:
        result = _native(text, instruction, args, vector)
    else:
        result = _small(text, instruction, args, vector)
    if instruction.ftz:
        result = flush(text, result, type_, vector)
    if instruction.relu:
        return relu(text, result, type_, vector)
    return saturate(text, result, type_, vector) if instruction.saturate else result


def _changed_sign_of(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    return _changed_sign(text, instruction, args[0], vector)


def _changed_sign(text: Text, instruction: Instruction, bits: str, vector: bool) -> str:
    """Emit FNEG or FABS on patterns: they change the sign bit of NaNs too."""
    type_ = instruction.type
    scalar = integer(type_.bits)
    whole = text.type_of(scalar, vector)
    if instruction.ftz:
        bits = flush_bits(text, bits, type_, vector)
    sign = 1 << (type_.bits - 1)
    if instruction.op is Op.FNEG:
        return text.let(f"xor {whole} {bits}, {text.const(sign, scalar, vector)}")
    return text.let(f"and {whole} {bits}, {text.const(sign - 1, scalar, vector)}")


def _native(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    scalar, op = NATIVE[instruction.type], instruction.op
    type_ = text.type_of(scalar, vector)
    operation = _OPERATIONS[op]
    if op in (Op.FRCP, Op.FRSQRT):
        if op is Op.FRSQRT:
            args = [text.intrinsic("sqrt", scalar, vector, *args)]
        args = [text.const(ONE[instruction.type], scalar, vector), *args]
    if instruction.rounding in DIRECTED:
        return round_directed(text, operation, scalar, instruction.rounding, args, vector)
    if operation in ("fma", "sqrt"):
        return text.intrinsic(operation, scalar, vector, *args)
    if operation == "fdiv" and args[0] == args[1]:
        return _divided_by_itself(text, instruction.type, args[0], vector)
    if operation == "fdiv" and vector and op is Op.FDIV:
        # LLVM (22.1) replaces a division that becomes a constant 0 / 0, however late, by a vector
        # of zeros.
        args = [text.intrinsic("arithmetic.fence", scalar, vector, args[0]), *args[1:]]
    return text.let(f"{operation} {type_} {args[0]}, {args[1]}")


def _divided_by_itself(text: Text, type_: DataType, value: str, vector: bool) -> str:
    """Return 1, or NaN for zeros, infinities and NaN.

    LLVM's code generator (22.1, x86) replaces ``fdiv x, x`` of a constant 0 by zero bits.
    """
    scalar, kind = NATIVE[type_], text.type_of(NATIVE[type_], vector)
    size = text.intrinsic("fabs", scalar, vector, value)
    is_positive = text.let(f"fcmp ogt {kind} {size}, {text.const(0, scalar, vector)}")
    infinity = text.const(INFINITY[type_], scalar, vector)
    finite = text.let(f"fcmp olt {kind} {size}, {infinity}")
    number = text.let(f"and {text.type_of('i1', vector)} {is_positive}, {finite}")
    quotient, nan = (text.const(v[type_], scalar, vector) for v in (ONE, CANONICAL))
    return text.select(number, quotient, nan, scalar, vector)


def _approximation(text: Text, instruction: Instruction, value: str, vector: bool) -> str:
    small, type_ = SmallFloats(text, vector), instruction.type
    single, double = text.type_of("float", vector), text.type_of("double", vector)
    if type_ is not DataType.F32:
        value = small.to_single(value, type_)
    if instruction.op is Op.FEX2:
        result = approximations.exponential(TextSingles(text, vector), value)
    else:
        result = _APPROXIMATIONS[instruction.op](TextDoubles(text, vector), small.to_double(value))
        result = text.let(f"fptrunc {double} {result} to {single}")
    return result if type_ is DataType.F32 else small.round_to_small(result, type_, Rounding.RN)


def _coarse(text: Text, op: Op, value: str, vector: bool) -> str:
    """Return 1 / a or 1 / sqrt(a) for the upper half of a binary64, truncated to its upper half."""
    double, word = text.type_of("double", vector), text.type_of("i64", vector)
    upper = text.const(0xFFFF_FFFF << 32, "i64", vector)

    def cut(number: str) -> str:
        bits = text.let(f"bitcast {double} {number} to {word}")
        bits = text.let(f"and {word} {bits}, {upper}")
        return text.let(f"bitcast {word} {bits} to {double}")

    is_nan = text.let(f"fcmp uno {double} {value}, {value}")
    value = text.select(is_nan, value, cut(value), "double", vector)
    if op is Op.FRSQRT:
        value = text.intrinsic("sqrt", "double", vector, value)
    numerator = text.const(ONE[DataType.F64], "double", vector)
    return cut(text.let(f"fdiv {double} {numerator}, {value}"))


def _extremum(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    """Return the minimum or maximum; of a number and a NaN, the number (NAN: the NaN). -0 < +0.

    LLVM's minimumnum and maximumnum are not used: for x86 they return the NaN if the other
    operand was converted from an integer (observed in LLVM 22.1).
    """
    type_ = instruction.type
    word, held_type = integer(type_.bits), operand_type(type_)
    whole = text.type_of(word, vector)

    def cast(value: str, from_: str, to: str) -> str:
        if from_ == to:
            return value
        operands = text.type_of(from_, vector), text.type_of(to, vector)
        return text.let(f"bitcast {operands[0]} {value} to {operands[1]}")

    patterns = [cast(arg, held_type, word) for arg in args]
    signs = text.let(f"xor {whole} {patterns[0]}, {patterns[1]}")
    if instruction.xorsign:
        cleared = text.const((1 << (type_.bits - 1)) - 1, word, vector)
        patterns = [text.let(f"and {whole} {pattern}, {cleared}") for pattern in patterns]
    if type_ in NATIVE:
        scalar, numbers = held_type, [cast(pattern, word, held_type) for pattern in patterns]
    else:
        small = SmallFloats(text, vector)
        scalar, numbers = "float", [small.to_single(pattern, type_) for pattern in patterns]
    compared = text.type_of(scalar, vector)
    a, b = numbers
    relation, joint = ("olt", "or") if instruction.op is Op.FMIN else ("ogt", "and")
    better = text.let(f"fcmp {relation} {compared} {a}, {b}")
    if type_ in NATIVE:  # on numbers: a single x86 instruction
        result = cast(text.select(better, a, b, scalar, vector), scalar, word)
    else:
        result = text.select(better, patterns[0], patterns[1], word, vector)
    # Equal numbers have equal bits, except for zeros of two signs.
    joined = text.let(f"{joint} {whole} {patterns[0]}, {patterns[1]}")
    equal = text.let(f"fcmp oeq {compared} {a}, {b}")
    result = text.select(equal, joined, result, word, vector)
    is_nan = text.let(f"fcmp uno {compared} {b}, {b}")
    result = text.select(is_nan, patterns[0], result, word, vector)
    canonical = text.const(CANONICAL[type_], word, vector)
    one_nan = text.let(f"fcmp uno {compared} {a}, {b}")
    if instruction.xorsign:
        sign = text.let(f"and {whole} {signs}, {text.const(1 << (type_.bits - 1), word, vector)}")
        result = text.let(f"or {whole} {result}, {sign}")
    if instruction.nan:
        result = text.select(one_nan, canonical, result, word, vector)
    elif type_ not in NATIVE:
        a_nan = text.let(f"fcmp uno {compared} {a}, {a}")
        neither = text.let(f"and {text.type_of('i1', vector)} {a_nan}, {is_nan}")
        result = text.select(neither, canonical, result, word, vector)
    return cast(result, word, held_type)


def _small(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    """Compute on binary16 or bfloat16 in binary32, which holds every operand and binary16's
    products.

    Rounding sums, and binary16's products, to binary32 and then again is equivalent to rounding
    once: 24 bits are at least 2 * 11 + 2 (S. Figueroa, "When is double rounding innocuous?",
    1995), and subnormal results are exact. All other results are first rounded to odd.
    """
    small, type_, op = SmallFloats(text, vector), instruction.type, instruction.op
    numbers = [small.to_single(arg, type_) for arg in args]
    operation = _OPERATIONS[op]
    if op in (Op.FADD, Op.FSUB) or (op is Op.FMUL and type_ is DataType.F16):
        single_type = text.type_of("float", vector)
        result = text.let(f"{operation} {single_type} {numbers[0]}, {numbers[1]}")
    else:
        result = small.computed_to_odd(operation, numbers)
    return small.round_to_small(result, type_, Rounding.RN)


LOWERING: Final[dict[Op, Lowering]] = {
    Op.FADD: _lower,
    Op.FSUB: _lower,
    Op.FMUL: _lower,
    Op.FMA: _lower,
    Op.FNEG: _lower_sign,
    Op.FABS: _lower_sign,
    Op.FMIN: _lower,
    Op.FMAX: _lower,
    Op.FDIV: _lower,
    Op.FRCP: _lower,
    Op.FSQRT: _lower,
    Op.FRSQRT: _lower,
    **dict.fromkeys((Op.FEX2, *_APPROXIMATIONS), _lower),
}
