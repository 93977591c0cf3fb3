"""Floating point on Python integers, one value at a time: exact and slow, with every rounding mode.

This is used where numpy has no correctly rounded operation: the directed roundings and float64's
FMA. A finite number is ``(-1)^sign * magnitude * 2^exponent``.
"""

import math
from typing import NamedTuple

from vgpu_sim.exec.interp.numbers.formats import Format
from vgpu_sim.isa import Rounding


class Number(NamedTuple):
    """A decoded pattern; ``magnitude`` is meaningless for infinities and NaNs."""

    negative: bool
    magnitude: int
    exponent: int
    infinite: bool = False
    nan: bool = False


def decode(bits: int, format_: Format) -> Number:
    """Return the number that a bit pattern of ``format_`` represents."""
    negative = bits & format_.sign != 0
    stored = format_.precision - 1
    field = (bits & (format_.sign - 1)) >> stored
    fraction = bits & ((1 << stored) - 1)
    if bits & format_.infinity == format_.infinity:
        return Number(negative, 0, 0, infinite=fraction == 0, nan=fraction != 0)
    lowest = format_.minimum_exponent - stored
    if field == 0:
        return Number(negative, fraction, lowest)
    return Number(negative, fraction | 1 << stored, lowest + field - 1)


def encode(
    negative: bool, magnitude: int, exponent: int, format_: Format, rounding: Rounding
) -> int:
    """Round a finite number to ``format_`` and return its bit pattern.

    The lowest bit of ``magnitude`` may be sticky if ``magnitude`` has at least two bits more
    than the format's precision.
    """
    sign = format_.sign if negative else 0
    if magnitude == 0:
        return sign
    quantum = max(
        exponent + magnitude.bit_length() - format_.precision,
        format_.minimum_exponent - (format_.precision - 1),
    )
    shift = quantum - exponent
    if shift <= 0:
        rounded = magnitude << -shift
    else:
        rounded = magnitude >> shift
        remainder = magnitude & ((1 << shift) - 1)
        rounded += _rounds_up(rounded, remainder, 1 << (shift - 1), negative, rounding)
    lowest = format_.minimum_exponent - (format_.precision - 1)
    result = ((quantum - lowest) << (format_.precision - 1)) + rounded
    if result >= format_.infinity:
        outward = {Rounding.RZ: False, Rounding.RM: negative, Rounding.RP: not negative}
        result = format_.infinity if outward.get(rounding, True) else format_.infinity - 1
    return sign | result


def fma(a: int, b: int, c: int, format_: Format, rounding: Rounding) -> int:
    """Return the pattern of a * b + c, rounded once."""
    x, y, z = decode(a, format_), decode(b, format_), decode(c, format_)
    if x.nan or y.nan or z.nan:
        return format_.canonical_nan
    negative = x.negative != y.negative
    if x.infinite or y.infinite:
        zero_times = 0 in (
            x.magnitude if not x.infinite else 1,
            y.magnitude if not y.infinite else 1,
        )
        if zero_times or (z.infinite and z.negative != negative):
            return format_.canonical_nan
        return _infinity(negative, format_)
    if z.infinite:
        return _infinity(z.negative, format_)
    exponent = min(x.exponent + y.exponent, z.exponent)
    product = x.magnitude * y.magnitude << (x.exponent + y.exponent - exponent)
    addend = z.magnitude << (z.exponent - exponent)
    total = (-product if negative else product) + (-addend if z.negative else addend)
    if total == 0:
        is_negative = negative if negative == z.negative else rounding is Rounding.RM
        return format_.sign if is_negative else 0
    return encode(total < 0, abs(total), exponent, format_, rounding)


def add(a: int, b: int, format_: Format, rounding: Rounding) -> int:
    """Return the pattern of a + b, rounded once."""
    return fma(a, format_.one, b, format_, rounding)


def subtract(a: int, b: int, format_: Format, rounding: Rounding) -> int:
    """Return the pattern of a - b, rounded once.

    It is computed as a + (-b). If b is NaN, the inverted sign does not matter.
    """
    return add(a, b ^ format_.sign, format_, rounding)


def multiply(a: int, b: int, format_: Format, rounding: Rounding) -> int:
    """Return the pattern of a * b, rounded once."""
    x, y = decode(a, format_), decode(b, format_)
    # Adding a zero of the product's sign changes nothing, not even the sign of a zero.
    zero = format_.sign if x.negative != y.negative else 0
    return fma(a, b, zero, format_, rounding)


def divide(a: int, b: int, format_: Format, rounding: Rounding) -> int:
    """Return the pattern of a / b, rounded once."""
    x, y = decode(a, format_), decode(b, format_)
    negative = x.negative != y.negative
    x_zero = not x.infinite and x.magnitude == 0
    y_zero = not y.infinite and y.magnitude == 0
    if x.nan or y.nan or (x.infinite and y.infinite) or (x_zero and y_zero):
        return format_.canonical_nan
    if x.infinite or y_zero:
        return _infinity(negative, format_)
    if y.infinite:
        return format_.sign if negative else 0
    extra = 2 * format_.precision + 4
    quotient, remainder = divmod(x.magnitude << extra, y.magnitude)
    sticky = quotient << 1 | (remainder != 0)
    return encode(negative, sticky, x.exponent - y.exponent - extra - 1, format_, rounding)


def reciprocal(a: int, format_: Format, rounding: Rounding) -> int:
    """Return the pattern of 1 / a, rounded once."""
    return divide(format_.one, a, format_, rounding)


def square_root(a: int, format_: Format, rounding: Rounding) -> int:
    """Return the pattern of the square root of ``a``, rounded once. The square root of -0 is -0."""
    x = decode(a, format_)
    if x.nan or (x.negative and (x.infinite or x.magnitude)):
        return format_.canonical_nan
    if x.infinite or x.magnitude == 0:
        return a
    extra = 2 * format_.precision + 4
    extra += (x.exponent - extra) % 2
    scaled = x.magnitude << extra
    root = math.isqrt(scaled)
    sticky = root << 1 | (root * root != scaled)
    return encode(False, sticky, (x.exponent - extra) // 2 - 1, format_, rounding)


def _infinity(negative: bool, format_: Format) -> int:
    return format_.infinity | (format_.sign if negative else 0)


def _rounds_up(
    truncated: int, remainder: int, half: int, negative: bool, rounding: Rounding
) -> bool:
    if rounding is Rounding.RZ:
        return False
    if rounding is Rounding.RM:
        return negative and remainder > 0
    if rounding is Rounding.RP:
        return not negative and remainder > 0
    return remainder > half or (remainder == half and truncated & 1 == 1)
