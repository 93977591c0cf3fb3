"""IEEE 754 on bit patterns, by Python integers alone: every result is exact, then rounded once.

Results that the standard leaves open follow the instruction set (docs/isa.md): NaNs are
canonical, approximate forms round to nearest.
"""

import math
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Format:
    """A binary interchange format: its width, the bits of its significand, its canonical NaN."""

    bits: int
    precision: int
    nan: int

    @cached_property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @cached_property
    def hidden(self) -> int:
        return 1 << (self.precision - 1)

    @cached_property
    def infinity(self) -> int:
        return self.sign - self.hidden

    @cached_property
    def unit(self) -> int:
        """The exponent of the smallest subnormal number."""
        return 3 - (1 << (self.bits - self.precision - 1)) - self.precision

    @cached_property
    def one(self) -> int:
        return (self.infinity >> 1) & ~(self.hidden - 1)

    def is_nan(self, pattern: int) -> bool:
        return pattern & (self.sign - 1) > self.infinity

    def is_infinite(self, pattern: int) -> bool:
        return pattern & (self.sign - 1) == self.infinity

    def flush(self, pattern: int) -> int:
        """Replace a subnormal number by a zero of its sign."""
        return pattern & self.sign if pattern & (self.sign - 1) < self.hidden else pattern

    def saturate(self, pattern: int) -> int:
        """Clamp to [0, 1]; a NaN becomes +0."""
        if self.is_nan(pattern) or pattern & self.sign:
            return 0
        return min(pattern, self.one)

    def parts(self, pattern: int) -> tuple[int, int]:
        """Return (significand, exponent) of the magnitude of a finite number."""
        field, fraction = divmod(pattern & (self.sign - 1), self.hidden)
        return (fraction + self.hidden, field + self.unit - 1) if field else (fraction, self.unit)


F16 = Format(16, 11, 0x7FFF)
F32 = Format(32, 24, 0x7FFF_FFFF)
F64 = Format(64, 53, 0x7FF8_0000_0000_0000)


def encode(
    format_: Format, negative: bool, value: int, exponent: int, mode: str, sticky: bool = False
) -> int:
    """Round ``value * 2**exponent`` (and a little more, if ``sticky``) by ``mode``.

    With ``sticky``, ``value`` must have at least two bits more than the format's significand.
    """
    sign = format_.sign if negative else 0
    if not value:
        return sign
    place = max(exponent + value.bit_length() - format_.precision, format_.unit)
    dropped = place - exponent
    if dropped <= 0:
        kept = value << -dropped
    else:
        kept = value >> dropped
        rest, half = value & ((1 << dropped) - 1), 1 << (dropped - 1)
        if mode == "rn":
            kept += rest > half or (rest == half and (sticky or kept & 1 == 1))
        elif (mode == "rm" and negative) or (mode == "rp" and not negative):
            kept += rest > 0 or sticky
    pattern = (place - format_.unit) * format_.hidden + kept
    if pattern < format_.infinity:
        return sign | pattern
    away = mode == "rn" or mode == ("rm" if negative else "rp")
    return sign | (format_.infinity - (not away))


def add(format_: Format, a: int, b: int, mode: str) -> int:
    """Return a + b."""
    return fma(format_, a, format_.one, b, mode)


def subtract(format_: Format, a: int, b: int, mode: str) -> int:
    """Return a - b."""
    return fma(format_, a, format_.one, b ^ format_.sign, mode)


def fma(format_: Format, a: int, b: int, c: int, mode: str) -> int:
    """Return a * b + c, rounded once."""
    if format_.is_nan(a) or format_.is_nan(b) or format_.is_nan(c):
        return format_.nan
    magnitude = format_.sign - 1
    product_sign = (a ^ b) & format_.sign
    c_sign = c & format_.sign
    if format_.is_infinite(a) or format_.is_infinite(b):
        zero = not a & magnitude or not b & magnitude
        if zero or (format_.is_infinite(c) and c_sign != product_sign):
            return format_.nan
        return product_sign | format_.infinity
    if format_.is_infinite(c):
        return c
    (x, x_exponent), (y, y_exponent) = format_.parts(a), format_.parts(b)
    z, z_exponent = format_.parts(c)
    product, exponent = x * y, x_exponent + y_exponent
    least = min(exponent, z_exponent)
    product <<= exponent - least
    z <<= z_exponent - least
    total = (-product if product_sign else product) + (-z if c_sign else z)
    if total:
        return encode(format_, total < 0, abs(total), least, mode)
    if product_sign == c_sign:
        return product_sign
    return format_.sign if mode == "rm" else 0


def multiply(format_: Format, a: int, b: int, mode: str) -> int:
    """Return a * b."""
    zero_of_its_sign = (a ^ b) & format_.sign
    return fma(format_, a, b, zero_of_its_sign, mode)


def divide(format_: Format, a: int, b: int, mode: str) -> int:
    """Return a / b."""
    if format_.is_nan(a) or format_.is_nan(b):
        return format_.nan
    sign = (a ^ b) & format_.sign
    (x, x_exponent), (y, y_exponent) = format_.parts(a), format_.parts(b)
    if format_.is_infinite(a):
        return format_.nan if format_.is_infinite(b) else sign | format_.infinity
    if format_.is_infinite(b):
        return sign
    if not y:
        return sign | format_.infinity if x else format_.nan
    shift = 2 * format_.precision + 4
    quotient, rest = divmod(x << shift, y)
    return encode(
        format_, bool(sign), quotient, x_exponent - y_exponent - shift, mode, sticky=rest > 0
    )


def square_root(format_: Format, a: int, mode: str) -> int:
    """Return the square root of a."""
    if format_.is_nan(a):
        return format_.nan
    if not a & (format_.sign - 1):
        return a
    if a & format_.sign:
        return format_.nan
    if format_.is_infinite(a):
        return a
    value, exponent = format_.parts(a)
    shift = 2 * format_.precision + 6
    shift += (exponent - shift) & 1
    root = math.isqrt(value << shift)
    return encode(
        format_,
        False,
        root,
        (exponent - shift) // 2,
        mode,
        sticky=root * root != value << shift,
    )


def least(format_: Format, a: int, b: int, larger: bool) -> int:
    """Return the smaller (``larger``: the larger) of a and b; -0 < +0, and a number wins over a
    NaN.
    """
    if format_.is_nan(a):
        return format_.nan if format_.is_nan(b) else b
    if format_.is_nan(b):
        return a

    def rank(pattern: int) -> int:
        size = pattern & (format_.sign - 1)
        return -size - 1 if pattern & format_.sign else size

    return max(a, b, key=rank) if larger else min(a, b, key=rank)


def compare(format_: Format, a: int, b: int) -> int | None:
    """Return -1, 0 or 1; None when one is a NaN."""
    if format_.is_nan(a) or format_.is_nan(b):
        return None

    def rank(pattern: int) -> int:
        size = pattern & (format_.sign - 1)
        return -size if pattern & format_.sign else size

    return (rank(a) > rank(b)) - (rank(a) < rank(b))


def integral(value: int, exponent: int, negative: bool, mode: str) -> int:
    """Round a magnitude ``value * 2**exponent`` to an integer's magnitude (rni, rzi, rmi, rpi)."""
    if exponent >= 0:
        return value << exponent
    kept, rest = value >> -exponent, value & ((1 << -exponent) - 1)
    half = 1 << (-exponent - 1)
    if mode == "rni":
        return kept + (rest > half or (rest == half and kept & 1 == 1))
    if (mode == "rmi" and negative) or (mode == "rpi" and not negative):
        return kept + (rest > 0)
    return kept


def to_integer(format_: Format, a: int, mode: str, bits: int, signed: bool) -> int:
    """Convert to an integer of ``bits``, clamped; returns its pattern."""
    if format_.is_nan(a):
        return 1 << (bits - 1) if bits == 64 or format_ is F64 else 0
    lowest = -(1 << (bits - 1)) if signed else 0
    highest = (1 << (bits - signed)) - 1
    negative = bool(a & format_.sign)
    if format_.is_infinite(a):
        number = lowest if negative else highest
    else:
        value, exponent = format_.parts(a)
        number = integral(value, exponent, negative, mode)
        number = max(lowest, min(highest, -number if negative else number))
    return number & ((1 << bits) - 1)


def to_integral(format_: Format, a: int, mode: str) -> int:
    """Round to an integral value of the same format."""
    if format_.is_nan(a):
        return format_.nan
    if format_.is_infinite(a):
        return a
    value, exponent = format_.parts(a)
    number = integral(value, exponent, bool(a & format_.sign), mode)
    return encode(format_, bool(a & format_.sign), number, 0, "rn")


def to_format(source: Format, a: int, to: Format, mode: str) -> int:
    """Convert between formats."""
    if source.is_nan(a):
        return to.nan
    negative = bool(a & source.sign)
    if source.is_infinite(a):
        return (to.sign if negative else 0) | to.infinity
    return encode(to, negative, *source.parts(a), mode)
