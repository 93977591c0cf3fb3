"""IEEE 754 formats on bit patterns, vectorised: classify, widen to float64, round to narrower.

Patterns are arrays of unsigned integers as wide as the format. bfloat16, which numpy lacks, is
therefore not a special case.
"""

import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.numbers.bits import Bits, Mask, unsigned_dtype
from vgpu_sim.isa import DataType, Rounding
from vgpu_sim.records import dataclass

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format; its ``precision`` includes the hidden bit.

    ``largest`` is set only for a format without infinity; it is the pattern of the format's largest
    number. In other formats, the pattern of the largest number is the one below infinity.
    """

    bits: int
    precision: int
    canonical_nan: int
    largest: int | None = None

    @property
    def stored_bits(self) -> int:
        """The width in bits of the integers in which patterns are held."""
        return max(8, 1 << (self.bits - 1).bit_length())

    @property
    def maximum_exponent(self) -> int:
        return int((1 << (self.bits - self.precision - 1)) - 1)

    @property
    def minimum_exponent(self) -> int:
        """The exponent of the smallest normal number of the format."""
        return 1 - self.maximum_exponent

    @property
    def infinity(self) -> int:
        return ((1 << (self.bits - self.precision)) - 1) << (self.precision - 1)

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def one(self) -> int:
        return self.maximum_exponent << (self.precision - 1)


FORMATS: Final = {
    DataType.F16: Format(16, 11, 0x7FFF),
    DataType.BF16: Format(16, 8, 0x7FFF),
    DataType.F32: Format(32, 24, 0x7FFF_FFFF),
    DataType.F64: Format(64, 53, 0x7FF8_0000_0000_0000),
    DataType.TF32: Format(19, 11, 0x3_FFFF),
    DataType.E4M3: Format(8, 4, 0x7F, 0x7E),
    DataType.E5M2: Format(8, 3, 0x7F),
    DataType.E2M3: Format(6, 4, 0x1F, 0x1F),
    DataType.E3M2: Format(6, 3, 0x1F, 0x1F),
    DataType.E2M1: Format(4, 2, 0x7, 0x7),
}
"""TF32's pattern is the upper part of the 32 bits; E2M3, E3M2 and E2M1 have no NaN."""


def is_nan(bits: Bits, format_: Format) -> Mask:
    """Return a mask of the patterns that are NaNs."""
    result: Mask = bits & bits.dtype.type(format_.sign - 1) > bits.dtype.type(format_.infinity)
    return result


def flush(bits: Bits, format_: Format) -> Bits:
    """Replace subnormal numbers by a zero of the same sign."""
    subnormal = bits & bits.dtype.type(format_.infinity) == 0
    result: Bits = np.where(subnormal, bits & bits.dtype.type(format_.sign), bits)
    return result


def saturate(bits: Bits, format_: Format) -> Bits:
    """Clamp to [0, 1]; NaN, and numbers not greater than zero, become +0."""
    zero, upper_bound = bits.dtype.type(0), bits.dtype.type(format_.one)
    dropped = is_nan(bits, format_) | (bits >= bits.dtype.type(format_.sign))
    result: Bits = np.where(dropped, zero, np.minimum(bits, upper_bound))
    return result


def relu(bits: Bits, format_: Format) -> Bits:
    """Replace negative numbers and -0 by +0.

    All NaNs must be canonical. A canonical NaN is positive, so it is kept.
    """
    result: Bits = np.where(bits >= bits.dtype.type(format_.sign), bits.dtype.type(0), bits)
    return result


def canonical(bits: Bits, format_: Format) -> Bits:
    """Replace every NaN by the canonical one."""
    result: Bits = np.where(is_nan(bits, format_), bits.dtype.type(format_.canonical_nan), bits)
    return result


def widen(bits: Bits, type_: DataType) -> Doubles:
    """Return the values of bit patterns as float64, which holds all of them exactly."""
    if type_ is DataType.BF16:
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    native = {DataType.F16: np.float16, DataType.F32: np.float32, DataType.F64: np.float64}
    if type_ not in native:
        values: Doubles = _values(type_)[bits & bits.dtype.type((1 << FORMATS[type_].bits) - 1)]
        return values
    return bits.view(native[type_]).astype(np.float64)


def widen_scales(codes: Bits, type_: DataType) -> Doubles:
    """Return the values of codes of block scales: UE8M0, or E4M3 without a sign."""
    if type_ is DataType.E4M3:
        return widen((codes & codes.dtype.type(0x7F)).astype(np.uint8), type_)
    powers: Doubles = np.ldexp(1.0, codes.astype(np.int64) - 127)
    return np.where(codes == 0xFF, np.nan, powers)


@functools.cache
def _values(type_: DataType) -> Doubles:
    """Return the value of each pattern of a format of 8 bits or fewer."""
    format_ = FORMATS[type_]
    pattern = np.arange(1 << format_.bits)
    magnitude = pattern & (format_.sign - 1)
    field, fraction = np.divmod(magnitude, 1 << (format_.precision - 1))
    hidden = np.where(field > 0, 1 << (format_.precision - 1), 0)
    exponent = np.maximum(field, 1) - format_.maximum_exponent - (format_.precision - 1)
    values = np.ldexp((fraction + hidden).astype(np.float64), exponent)
    if format_.largest is None:
        values = np.where(magnitude == format_.infinity, np.inf, values)
    last = format_.infinity if format_.largest is None else format_.largest
    values = np.where(magnitude > last, np.nan, values)
    return np.where(pattern >= format_.sign, -values, values)


def narrow(
    values: Doubles,
    type_: DataType,
    rounding: Rounding = Rounding.RN,
    *,
    finite: bool = False,
    chance: NDArray[np.int64] | None = None,
    chance_bits: int = 0,
) -> Bits:
    """Round float64 values to a narrower format; NaNs become canonical.

    Overflow is handled as in IEEE 754. With ``finite``, overflow and infinity become the largest
    number, as in formats without infinity. ``chance`` holds random integers, ``chance_bits``
    bits wide, by which the values are rounded stochastically (see CVT_RS). The result is also
    correct for values that were rounded to odd (see ``round_to_odd``): the 29 or more spare bits
    of float64 separate the sticky bit from the rounding position.
    """
    format_ = FORMATS[type_]
    pattern = values.view(np.uint64)
    negative = pattern >> np.uint64(63) != 0
    magnitude = pattern & np.uint64((1 << 63) - 1)
    field = (magnitude >> np.uint64(52)).astype(np.int64)
    fraction = (magnitude & np.uint64((1 << 52) - 1)).astype(np.int64)
    significand = np.where(field > 0, fraction | np.int64(1 << 52), fraction)
    exponent = np.maximum(field, 1) - 1023
    lowest = np.maximum(exponent, format_.minimum_exponent)
    # Beyond 54 bits, all that remains of the significand is whether it was zero.
    distance = lowest - exponent + (53 - format_.precision)
    shift = np.minimum(distance, 62)
    truncated = significand >> shift
    remainder = significand - (truncated << shift)
    if chance is not None:
        cut = remainder >> np.minimum(distance - chance_bits, 62)
        up: NDArray[np.int64] | Mask = (cut + chance) >> chance_bits
    else:
        up = _rounds_up(truncated, remainder, np.int64(1) << (shift - 1), negative, rounding)
    biased = (lowest - format_.minimum_exponent) << (format_.precision - 1)
    result = biased + truncated + up  # the hidden bit, and a carry, increment the exponent field
    infinity = format_.infinity
    last = infinity - 1 if format_.largest is None else format_.largest
    beyond: int | NDArray[np.int64] = last
    if not finite and format_.largest is None:
        beyond = np.where(_overflows_to_infinity(negative, rounding), infinity, last)
    result = np.where(result > last, beyond, result)
    clamped = finite or format_.largest is not None
    result = np.where(np.isinf(values), last if clamped else infinity, result)
    result = np.where(negative, result | format_.sign, result)
    result = np.where(np.isnan(values), format_.canonical_nan, result)
    return result.astype(unsigned_dtype(format_.stored_bits))


def round_to_odd(rounded: Doubles, error: Doubles) -> Doubles:
    """Turn nearest-rounded values and their exact errors into values rounded to odd.

    If such a value is rounded again, to a format at least two bits narrower, the result is the
    same as if the exact value had been rounded once (S. Boldo, G. Melquiond, "Emulation of FMA
    and correctly rounded sums", 2008).
    """
    pattern = rounded.view(np.int64)
    inexact = np.isfinite(rounded) & np.isfinite(error) & (error != 0)
    even = pattern & np.int64(1) == 0
    outward = np.signbit(error) == np.signbit(rounded)
    moved = pattern + np.where(outward, np.int64(1), np.int64(-1))
    return np.where(inexact & even, moved, pattern).view(np.float64)


def sum_to_odd(a: Doubles, b: Doubles) -> Doubles:
    """Return a + b rounded to odd. The sum must not overflow.

    The rounding error is computed by D. Knuth's TwoSum.
    """
    total: Doubles = a + b
    virtual = total - a
    error: Doubles = (a - (total - virtual)) + (b - virtual)
    return round_to_odd(total, error)


def _rounds_up(
    truncated: NDArray[np.int64],
    remainder: NDArray[np.int64],
    half: NDArray[np.int64],
    negative: Mask,
    rounding: Rounding,
) -> Mask:
    result: Mask
    if rounding is Rounding.RZ:
        result = np.zeros(truncated.shape, dtype=np.bool_)
    elif rounding is Rounding.RM:
        result = negative & (remainder > 0)
    elif rounding is Rounding.RP:
        result = ~negative & (remainder > 0)
    elif rounding is Rounding.RNA:
        result = remainder >= half
    else:
        result = (remainder > half) | ((remainder == half) & (truncated & 1 == 1))
    return result


def _overflows_to_infinity(negative: Mask, rounding: Rounding) -> Mask:
    if rounding is Rounding.RZ:
        return np.zeros(negative.shape, dtype=np.bool_)
    if rounding is Rounding.RM:
        return negative
    if rounding is Rounding.RP:
        return ~negative
    return np.ones(negative.shape, dtype=np.bool_)
