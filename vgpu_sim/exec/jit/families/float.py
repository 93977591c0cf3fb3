"""Float family. binary32 and binary64 to nearest are native; the rest goes through ``soft_float``.

No fast-math flag anywhere, and no contraction: results are the same for every plan. APPROX and
FULL forms are computed as RN. NaNs of native results are not canonical; ``nans`` says where they
become so.
"""

from typing import Final

from vgpu_sim.exec.errors import CodeGenerationError
from vgpu_sim.exec.jit.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.floats import NATIVE, ONE, flush, flush_bits, operand_type, saturate
from vgpu_sim.exec.jit.masks import Mask
from vgpu_sim.exec.jit.soft_float import SoftFloat
from vgpu_sim.exec.jit.ssa import Operation
from vgpu_sim.exec.jit.support import DIRECTED
from vgpu_sim.exec.jit.text import BITS, Text, integer
from vgpu_sim.exec.jit.values import Form
from vgpu_sim.isa import DataType, Instruction, Op, Rounding

_BINARY = {Op.FADD: "fadd", Op.FSUB: "fsub", Op.FMUL: "fmul", Op.FDIV: "fdiv"}


def _lower(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    scalar = operand_type(node.instruction.type)

    def compute(form: Form, strip: int) -> tuple[str, str]:
        args = [emitter.values.read(s, scalar, form, strip) for s in node.sources]
        vector = form is Form.VECTOR
        return _arithmetic(emitter.text, node.instruction, args, vector), scalar

    emitter.define(node, compute)


def _lower_sign(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    scalar = integer(node.instruction.type.bits)

    def compute(form: Form, strip: int) -> tuple[str, str]:
        clean = node in emitter.nans.cleaning
        bits = emitter.values.read(node.sources[0], scalar, form, strip, clean=clean)
        vector = form is Form.VECTOR
        return _changed_sign(emitter.text, node.instruction, bits, vector), scalar

    emitter.define(node, compute)


def _arithmetic(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    """Return the result, as ``operand_type(instruction.type)``."""
    type_ = instruction.type
    if instruction.ftz:
        args = [flush(text, arg, type_, vector) for arg in args]
    if type_ in NATIVE and (
        instruction.rounding not in DIRECTED or instruction.op in (Op.FMIN, Op.FMAX)
    ):
        result = _native(text, instruction, args, vector)
    elif instruction.op in (Op.FMIN, Op.FMAX):
        result = _small_extremum(text, instruction, args, vector)
    else:
        result = _soft(text, instruction, args, vector)
    if instruction.ftz:
        result = flush(text, result, type_, vector)
    return saturate(text, result, type_, vector) if instruction.saturate else result


def _changed_sign(text: Text, instruction: Instruction, bits: str, vector: bool) -> str:
    """FNEG and FABS, on patterns: they change the sign bit of NaNs too."""
    type_ = instruction.type
    scalar = integer(type_.bits)
    whole = text.type_of(scalar, vector)
    if instruction.ftz:
        bits = flush_bits(text, bits, type_, vector)
    sign = 1 << (type_.bits - 1)
    if instruction.op is Op.FNEG:
        bits = text.let(f"xor {whole} {bits}, {text.const(sign, scalar, vector)}")
    else:
        bits = text.let(f"and {whole} {bits}, {text.const(sign - 1, scalar, vector)}")
    if not instruction.saturate:
        return bits
    if type_ not in NATIVE:
        return saturate(text, bits, type_, vector)
    held = text.type_of(NATIVE[type_], vector)
    value = saturate(text, text.let(f"bitcast {whole} {bits} to {held}"), type_, vector)
    return text.let(f"bitcast {held} {value} to {whole}")


def _native(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    scalar = NATIVE[instruction.type]
    type_ = text.type_of(scalar, vector)
    match instruction.op:
        case Op.FMA:
            return text.intrinsic("fma", scalar, vector, *args)
        case Op.FSQRT:
            return text.intrinsic("sqrt", scalar, vector, *args)
        case Op.FMIN | Op.FMAX:
            return _extremum(text, instruction.op, scalar, args, vector)
        case Op.FRCP:
            one = text.const(ONE[instruction.type], scalar, vector)
            return text.let(f"fdiv {type_} {one}, {args[0]}")
        case _:
            return text.let(f"{_BINARY[instruction.op]} {type_} {args[0]}, {args[1]}")


def _extremum(text: Text, op: Op, scalar: str, args: list[str], vector: bool) -> str:
    """Return the number among a number and a NaN; -0 is less than +0.

    Not LLVM's minimumnum and maximumnum: for x86 it takes the NaN where the other operand was
    converted from an integer (seen with LLVM 22.1).
    """
    a, b = args
    type_, whole = text.type_of(scalar, vector), text.type_of(integer(BITS[scalar]), vector)
    relation, joint = ("olt", "or") if op is Op.FMIN else ("ogt", "and")
    better = text.let(f"fcmp {relation} {type_} {a}, {b}")
    result = text.select(better, a, b, scalar, vector)
    # Equal numbers have equal bits, except for zeros of two signs.
    patterns = [text.let(f"bitcast {type_} {value} to {whole}") for value in args]
    both = text.let(f"{joint} {whole} {patterns[0]}, {patterns[1]}")
    both = text.let(f"bitcast {whole} {both} to {type_}")
    equal = text.let(f"fcmp oeq {type_} {a}, {b}")
    result = text.select(equal, both, result, scalar, vector)
    is_nan = text.let(f"fcmp uno {type_} {b}, {b}")
    return text.select(is_nan, a, result, scalar, vector)


def _small_extremum(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    soft = SoftFloat(text, vector)
    wide = [soft.widen(arg, instruction.type) for arg in args]
    result = _extremum(text, instruction.op, "double", wide, vector)
    return soft.narrow(result, instruction.type, Rounding.RN)


def _soft(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
    type_ = instruction.type
    if type_ is DataType.F64:
        raise CodeGenerationError(f"{instruction.op.name} F64 {instruction.rounding.name}")
    soft = SoftFloat(text, vector)
    wide = [soft.widen(arg, type_) for arg in args]
    double = text.type_of("double", vector)
    one = text.const(ONE[DataType.F64], "double", vector)
    match instruction.op:
        case Op.FADD:
            result = soft.sum_to_odd(wide[0], wide[1])
        case Op.FSUB:
            result = soft.sum_to_odd(wide[0], text.let(f"fneg {double} {wide[1]}"))
        case Op.FMUL:
            result = text.let(f"fmul {double} {wide[0]}, {wide[1]}")
        case Op.FMA:
            product = text.let(f"fmul {double} {wide[0]}, {wide[1]}")
            result = soft.sum_to_odd(product, wide[2])
        case Op.FDIV:
            result = soft.quotient_to_odd(wide[0], wide[1])
        case Op.FRCP:
            result = soft.quotient_to_odd(one, wide[0])
        case _:
            result = soft.root_to_odd(wide[0])
    rounding = instruction.rounding if instruction.rounding in DIRECTED else Rounding.RN
    if rounding is Rounding.RM and instruction.op in (Op.FADD, Op.FSUB, Op.FMA):
        result = _minus_zero_sum(text, instruction.op, wide, result, vector)
    pattern = soft.narrow(result, type_, rounding)
    if type_ not in NATIVE:
        return pattern
    whole = text.type_of(integer(type_.bits), vector)
    return text.let(f"bitcast {whole} {pattern} to {text.type_of(NATIVE[type_], vector)}")


def _minus_zero_sum(text: Text, op: Op, wide: list[str], result: str, vector: bool) -> str:
    """Rounding down, a sum of numbers that cancel is -0; binary64 to nearest made it +0."""
    double, word = text.type_of("double", vector), text.type_of("i64", vector)
    a, b = wide[0], wide[1]
    if op is Op.FMA:
        a, b = text.let(f"fmul {double} {wide[0]}, {wide[1]}"), wide[2]
    elif op is Op.FSUB:
        b = text.let(f"fneg {double} {wide[1]}")
    zero = text.const(0, "double", vector)
    vanished = text.let(f"fcmp oeq {double} {result}, {zero}")
    signs = [text.let(f"bitcast {double} {v} to {word}") for v in (a, b)]
    either = text.let(f"or {word} {signs[0]}, {signs[1]}")
    some = text.let(f"icmp slt {word} {either}, {text.const(0, 'i64', vector)}")
    flags = text.type_of("i1", vector)
    flip = text.let(f"and {flags} {vanished}, {some}")
    minus = text.const(1 << 63, "double", vector)
    return text.select(flip, minus, result, "double", vector)


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
}
