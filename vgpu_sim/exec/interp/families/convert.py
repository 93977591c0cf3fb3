"""Conversion between all numeric types (CVT).

Integer to integer truncates, or clamps under ``saturate``; float to integer always clamps; the
rest rounds once. ``ftz`` flushes a binary32 source, and a binary32 result.
"""

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers import softfloat
from vgpu_sim.exec.interp.numbers.bits import Bits, Mask, unsigned_dtype
from vgpu_sim.exec.interp.numbers.formats import (
    FORMATS,
    Doubles,
    canonical,
    flush,
    is_nan,
    narrow,
    relu,
    saturate,
    widen,
)
from vgpu_sim.exec.interp.operands import read_bits, signed_view, write_bits
from vgpu_sim.isa import DataType, Instruction, Op, Rounding

_INTEGRAL = {
    Rounding.RNI: np.rint,
    Rounding.RZI: np.trunc,
    Rounding.RMI: np.floor,
    Rounding.RPI: np.ceil,
}
_TWO_63 = float(1 << 63)


def _limits(type_: DataType) -> tuple[int, int]:
    if type_.is_signed:
        return -(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1
    return 0, (1 << type_.bits) - 1


def _extend(bits: Bits, type_: DataType) -> Bits:
    """Extend patterns to 64 bits: with the sign if ``type_`` is signed, else with zeros."""
    if type_.is_signed:
        return signed_view(bits).astype(np.int64).view(np.uint64)
    return bits.astype(np.uint64)


def _integer_to_integer(bits: Bits, source: DataType, to: DataType, clamp: bool) -> Bits:
    wide = _extend(bits, source)
    if clamp:
        lowest, highest = _limits(to)
        source_lowest, source_highest = _limits(source)
        lowest, highest = max(lowest, source_lowest), min(highest, source_highest)
        if source.is_signed:
            wide = np.clip(wide.view(np.int64), lowest, highest).view(np.uint64)
        else:
            wide = np.minimum(wide, np.uint64(highest))
    return wide.astype(unsigned_dtype(to.bits))


def _of_nan(source: DataType, to: DataType) -> int:
    """Return the integer to which NaN is converted (PTX ISA, "cvt").

    It is 0, but has only the top bit set if the source is F64 or the result has 64 bits.
    """
    return 1 << (to.bits - 1) if source is DataType.F64 or to.bits == 64 else 0


def _float_to_integer(values: Doubles, source: DataType, to: DataType) -> Bits:
    """Convert integral values (or infinities and NaNs)."""
    lowest, highest = _limits(to)
    too_low, too_high = values < float(lowest), values >= float(highest + 1)
    inside = np.where(too_low | too_high | np.isnan(values), 0.0, values)
    above = inside >= _TWO_63  # only unsigned 64-bit results do not fit int64
    low_part = np.where(above, inside - _TWO_63, inside).astype(np.int64).view(np.uint64)
    wide = np.where(above, low_part + np.uint64(1 << 63), low_part)
    wide = np.where(too_low, np.uint64(lowest & 0xFFFF_FFFF_FFFF_FFFF), wide)
    wide = np.where(too_high, np.uint64(highest), wide)
    wide = np.where(np.isnan(values), np.uint64(_of_nan(source, to)), wide)
    result: Bits = wide.astype(unsigned_dtype(to.bits))
    return result


def _integer_to_float(bits: Bits, source: DataType, to: DataType, rounding: Rounding) -> Bits:
    wide = _extend(bits, source)
    negative = wide.view(np.int64) < 0 if source.is_signed else np.zeros(wide.shape, np.bool_)
    magnitude = np.where(negative, ~wide + np.uint64(1), wide)
    if to is DataType.F64:
        if rounding in (Rounding.RZ, Rounding.RM, Rounding.RP):
            return _integer_to_double(magnitude, negative, rounding)
        nearest = (wide.view(np.int64) if source.is_signed else wide).astype(np.float64)
        return nearest.view(np.uint64)
    # Below 2^53 float64 is exact; above, the low 11 bits become one sticky bit (round to odd).
    low = magnitude & np.uint64(0x7FF)
    sticky = np.where(low != 0, np.uint64(0x800), np.uint64(0))
    odd = np.where(magnitude < np.uint64(1 << 53), magnitude, magnitude - low | sticky)
    values = odd.astype(np.float64)
    return narrow(np.where(negative, -values, values), to, rounding)


def _integer_to_double(magnitude: NDArray[np.uint64], negative: Mask, rounding: Rounding) -> Bits:
    format_ = FORMATS[DataType.F64]
    pairs = zip(magnitude.tolist(), negative.tolist(), strict=True)
    patterns = [softfloat.encode(sign, value, 0, format_, rounding) for value, sign in pairs]
    # A zero has no sign: encode() gives -0 only to negative numbers, and zero is not one.
    return np.array(patterns, dtype=np.uint64)


def _float_to_float(bits: Bits, instruction: Instruction) -> Bits:
    to, source, rounding = instruction.type, instruction.source_type, instruction.rounding
    assert source is not None
    if source is DataType.UE8M0:
        return _from_powers(bits)
    if to is DataType.UE8M0:
        upward = rounding is Rounding.RP
        return _to_powers(widen(bits, source), upward=upward, finite=instruction.finite)
    values = widen(bits, source)
    if rounding in _INTEGRAL:
        values = _INTEGRAL[rounding](values)
        rounding = Rounding.RN  # same format: the integral value is representable
    if to is DataType.F64:
        return canonical(values.view(np.uint64), FORMATS[to])
    result = narrow(values, to, rounding, finite=instruction.finite)
    return _finish_float(result, instruction)


def _finish_float(result: Bits, instruction: Instruction) -> Bits:
    """Return a result of ``narrow`` as it is held in its register; RELU clears the sign."""
    to, format_ = instruction.type, FORMATS[instruction.type]
    if instruction.relu:
        result = relu(result, format_)
    if to is not DataType.TF32:
        return result
    stored: Bits = result << np.uint32(13)
    return np.where(is_nan(result, format_), np.uint32(0x7FFF_FFFF), stored)


def _from_powers(bits: Bits) -> Bits:
    """Convert UE8M0, where e is 2^(e - 127), to bfloat16: its exponent field, except for e = 0."""
    wide: Bits = bits.astype(np.uint16)
    result: Bits = np.where(wide == 0, np.uint16(0x40), wide << np.uint16(7))
    return np.where(wide == 0xFF, np.uint16(FORMATS[DataType.BF16].canonical_nan), result)


def _to_powers(values: Doubles, *, upward: bool, finite: bool) -> Bits:
    """Convert |values| to UE8M0: the adjacent power of two; for 0 the smallest, NaN if out of
    range.
    """
    fraction, exponent = np.frexp(np.abs(values))  # between 1/2 and 1
    power = exponent.astype(np.int64) + 126
    if upward:
        power += fraction > 0.5
    power = np.where((values == 0) | (power < 0), 0, power)
    power = np.where(np.isinf(values) | (power > 254), 254 if finite else 255, power)
    return np.where(np.isnan(values), 255, power).astype(np.uint8)


def _cvt(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    to, source, rounding = instruction.type, instruction.source_type, instruction.rounding
    if source is None:
        raise TypeError("CVT has no source type")
    bits = read_bits(warp, instruction.srcs[0], source.bits)
    if instruction.ftz and source is DataType.F32:
        bits = flush(bits, FORMATS[source])
    if source.is_float and to.is_float:
        value = _float_to_float(bits, instruction)
    elif source.is_float:
        value = _float_to_integer(_INTEGRAL[rounding](widen(bits, source)), source, to)
    elif to.is_float:
        value = _integer_to_float(bits, source, to, rounding)
    else:
        value = _integer_to_integer(bits, source, to, instruction.saturate)
    if to.is_float:
        if instruction.ftz and to is DataType.F32:
            value = flush(value, FORMATS[to])
        if instruction.saturate:
            value = saturate(value, FORMATS[to])
    write_bits(warp, instruction.dsts[0], value, to, mask)


def _cvt_rs(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    to = instruction.type
    values = widen(read_bits(warp, instruction.srcs[0], 32), DataType.F32)
    chance_bits = 13 if to is DataType.F16 else 16
    chance = read_bits(warp, instruction.srcs[1], 32).astype(np.int64) & ((1 << chance_bits) - 1)
    result = narrow(values, to, finite=instruction.finite, chance=chance, chance_bits=chance_bits)
    write_bits(warp, instruction.dsts[0], _finish_float(result, instruction), to, mask)


SEMANTICS = {Op.CVT: _cvt, Op.CVT_RS: _cvt_rs}
