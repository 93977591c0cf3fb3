"""Float values as LLVM operations: representation, flushing, clamping to [0, 1]."""

from vgpu_sim.exec.jit.analysis.nans import CANONICAL, INFINITY
from vgpu_sim.exec.jit.arithmetic import nan_fixups
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.isa import DataType, Rounding

DIRECTED = (Rounding.RZ, Rounding.RM, Rounding.RP)
NATIVE = {DataType.F32: "float", DataType.F64: "double"}
ONE = {DataType.F32: 0x3F80_0000, DataType.F64: 0x3FF << 52}
_ONE_SMALL = {DataType.F16: 0x3C00, DataType.BF16: 0x3F80}


def operand_type(type_: DataType) -> str:
    """Return the LLVM type in which a float operand is read.

    A format that LLVM does not support natively is read as an integer that holds its bit
    pattern.
    """
    return NATIVE.get(type_, integer(type_.bits))


def flush(text: Text, value: str, type_: DataType, vector: bool) -> str:
    """Replace subnormal numbers by a zero of the same sign."""
    if type_ not in NATIVE:
        return flush_bits(text, value, type_, vector)
    float_type, whole = (
        text.type_of(NATIVE[type_], vector),
        text.type_of(integer(type_.bits), vector),
    )
    bits = text.let(f"bitcast {float_type} {value} to {whole}")
    flushed = flush_bits(text, bits, type_, vector)
    return text.let(f"bitcast {whole} {flushed} to {float_type}")


def flush_bits(text: Text, bits: str, type_: DataType, vector: bool) -> str:
    """Replace subnormal numbers by a zero of the same sign, like ``flush``, but in bit patterns."""
    scalar = integer(type_.bits)
    whole = text.type_of(scalar, vector)
    infinity = INFINITY[type_]
    exponent = text.let(f"and {whole} {bits}, {text.const(infinity, scalar, vector)}")
    small = text.let(f"icmp eq {whole} {exponent}, {text.const(0, scalar, vector)}")
    sign = text.const(1 << (type_.bits - 1), scalar, vector)
    zero = text.let(f"and {whole} {bits}, {sign}")
    return text.select(small, zero, bits, scalar, vector)


def saturate(text: Text, value: str, type_: DataType, vector: bool) -> str:
    """Clamp to [0, 1]; NaN, -0 and negative numbers become +0."""
    if type_ in NATIVE:
        scalar = NATIVE[type_]
        zero, upper_bound = text.const(0, scalar, vector), text.const(ONE[type_], scalar, vector)
        whole = text.type_of(scalar, vector)
        positive = text.let(f"fcmp ogt {whole} {value}, {zero}")
        value = text.select(positive, value, zero, scalar, vector)
        small = text.let(f"fcmp olt {whole} {value}, {upper_bound}")
        return text.select(small, value, upper_bound, scalar, vector)
    scalar = integer(type_.bits)
    whole = text.type_of(scalar, vector)
    infinity = text.const(INFINITY[type_], scalar, vector)
    # As unsigned integers, all negative patterns and all NaNs are above infinity.
    dropped = text.let(f"icmp ugt {whole} {value}, {infinity}")
    upper_bound = text.const(_ONE_SMALL[type_], scalar, vector)
    clamped = text.intrinsic("umin", scalar, vector, value, upper_bound)
    return text.select(dropped, text.const(0, scalar, vector), clamped, scalar, vector)


def relu(text: Text, value: str, type_: DataType, vector: bool) -> str:
    """Replace negative numbers and -0 by +0. ``value`` is a pattern of a format that LLVM does not
    support natively.
    """
    scalar = integer(type_.bits)
    whole = text.type_of(scalar, vector)
    zero = text.const(0, scalar, vector)
    # A NaN is canonical and therefore positive.
    negative = text.let(f"icmp slt {whole} {value}, {zero}")
    return text.select(negative, zero, value, scalar, vector)


def canonical_bits(text: Text, value: str, type_: DataType, vector: bool) -> str:
    """Return the bit pattern of ``value``, a native float; a NaN becomes canonical.

    A value of another format is returned unchanged.
    """
    if type_ not in NATIVE:
        return value
    float_type, scalar = text.type_of(NATIVE[type_], vector), integer(type_.bits)
    if vector and nan_fixups.is_available(text.width, type_):
        return nan_fixups.canonicalise_nans(text, value, type_)
    bits = text.let(f"bitcast {float_type} {value} to {text.type_of(scalar, vector)}")
    is_nan = text.let(f"fcmp uno {float_type} {value}, {value}")
    return text.select(is_nan, text.const(CANONICAL[type_], scalar, vector), bits, scalar, vector)
