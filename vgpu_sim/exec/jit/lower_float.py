"""Float family. binary32 and binary64 to nearest are native; the rest goes through ``soft_float``.

No fast-math flag anywhere, and no contraction: results are the same for every plan. APPROX and
FULL forms are computed as RN. NaNs of native results are not canonical; ``nans`` says where they
become so.
"""

from vgpu_sim.exec.errors import CodeGenerationError
from vgpu_sim.exec.jit.soft_float import SoftFloat
from vgpu_sim.exec.jit.support import DIRECTED
from vgpu_sim.exec.jit.text import BITS, Text, integer
from vgpu_sim.isa import DataType, Instruction, Op, Rounding

NATIVE = {DataType.F32: "float", DataType.F64: "double"}
ONE = {DataType.F32: 0x3F80_0000, DataType.F64: 0x3FF << 52}
_ONE_SMALL = {DataType.F16: 0x3C00, DataType.BF16: 0x3F80}
_BINARY = {Op.FADD: "fadd", Op.FSUB: "fsub", Op.FMUL: "fmul", Op.FDIV: "fdiv"}
_INFINITY = {DataType.F16: 0x7C00, DataType.BF16: 0x7F80}


def operand_type(type_: DataType) -> str:
    """Return the LLVM type in which a float operand is read: its pattern where it is not native."""
    return NATIVE.get(type_, integer(type_.bits))


def lower(text: Text, instruction: Instruction, args: list[str], vector: bool) -> str:
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


def lower_sign(text: Text, instruction: Instruction, bits: str, vector: bool) -> str:
    """FNEG and FABS, on patterns: they change the sign bit of NaNs too."""
    type_ = instruction.type
    scalar = integer(type_.bits)
    whole = text.type_of(scalar, vector)
    if instruction.ftz:
        bits = _flush_bits(text, bits, type_, vector)
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


def flush(text: Text, value: str, type_: DataType, vector: bool) -> str:
    """Subnormal numbers become a zero of the same sign."""
    if type_ not in NATIVE:
        return _flush_bits(text, value, type_, vector)
    held, whole = text.type_of(NATIVE[type_], vector), text.type_of(integer(type_.bits), vector)
    bits = text.let(f"bitcast {held} {value} to {whole}")
    flushed = _flush_bits(text, bits, type_, vector)
    return text.let(f"bitcast {whole} {flushed} to {held}")


def _flush_bits(text: Text, bits: str, type_: DataType, vector: bool) -> str:
    scalar = integer(type_.bits)
    whole = text.type_of(scalar, vector)
    infinity = _INFINITY.get(type_) or (0x7F80_0000 if type_ is DataType.F32 else 0x7FF << 52)
    exponent = text.let(f"and {whole} {bits}, {text.const(infinity, scalar, vector)}")
    small = text.let(f"icmp eq {whole} {exponent}, {text.const(0, scalar, vector)}")
    sign = text.const(1 << (type_.bits - 1), scalar, vector)
    zero = text.let(f"and {whole} {bits}, {sign}")
    return text.select(small, zero, bits, scalar, vector)


def saturate(text: Text, value: str, type_: DataType, vector: bool) -> str:
    """Clamp to [0, 1]; NaN, -0 and negative numbers become +0."""
    if type_ in NATIVE:
        scalar = NATIVE[type_]
        zero, one = text.const(0, scalar, vector), text.const(ONE[type_], scalar, vector)
        whole = text.type_of(scalar, vector)
        positive = text.let(f"fcmp ogt {whole} {value}, {zero}")
        value = text.select(positive, value, zero, scalar, vector)
        small = text.let(f"fcmp olt {whole} {value}, {one}")
        return text.select(small, value, one, scalar, vector)
    scalar = integer(type_.bits)
    whole = text.type_of(scalar, vector)
    infinity = text.const(_INFINITY[type_], scalar, vector)
    # As unsigned numbers all negative patterns, and NaNs, lie above infinity.
    dropped = text.let(f"icmp ugt {whole} {value}, {infinity}")
    one = text.const(_ONE_SMALL[type_], scalar, vector)
    clamped = text.intrinsic("umin", scalar, vector, value, one)
    return text.select(dropped, text.const(0, scalar, vector), clamped, scalar, vector)


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
