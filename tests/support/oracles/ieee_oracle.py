"""IEEE 754 arithmetic on rational numbers: slow, simple, and independent of the executors.

A pattern is decoded to a ``Fraction`` or to one of "nan", "+inf", "-inf"; operations are done on
fractions and rounded by the definition of each rounding direction.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Format:
    bits: int
    precision: int
    nan: int

    @property
    def emax(self) -> int:
        return (1 << (self.bits - self.precision - 1)) - 1

    @property
    def emin(self) -> int:
        return 1 - self.emax

    @property
    def infinity(self) -> int:
        return ((1 << (self.bits - self.precision)) - 1) << (self.precision - 1)

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    def corners(self) -> list[int]:
        """Return corner cases of both signs, including three kinds of NaN."""
        hidden = 1 << (self.precision - 1)
        one = self.emax * hidden
        positive = [
            0,
            1,
            2,
            3,
            hidden - 1,
            hidden,
            hidden + 1,
            one - 1,
            one,
            one + 1,
            one + hidden // 2,
            one + hidden,
            one + hidden + hidden // 2,
            self.infinity - 1,
            self.infinity,
            self.infinity + 1,
            self.infinity + hidden // 2,
            self.sign - 1,
        ]
        return positive + [self.sign | pattern for pattern in positive]


F16 = Format(16, 11, 0x7FFF)
BF16 = Format(16, 8, 0x7FFF)
F32 = Format(32, 24, 0x7FFF_FFFF)
F64 = Format(64, 53, 0x7FF8_0000_0000_0000)
BY_NAME = {"F16": F16, "BF16": BF16, "F32": F32, "F64": F64}


def decode(pattern: int, format_: Format) -> Fraction | str:
    """Return the value of a pattern; zeros lose their sign here."""
    negative = bool(pattern & format_.sign)
    magnitude = pattern & (format_.sign - 1)
    if magnitude > format_.infinity:
        return "nan"
    if magnitude == format_.infinity:
        return "-inf" if negative else "+inf"
    hidden = 1 << (format_.precision - 1)
    field, fraction = divmod(magnitude, hidden)
    significand = fraction + (hidden if field else 0)
    exponent = max(field, 1) + format_.emin - 1 - (format_.precision - 1)
    value = significand * Fraction(2) ** exponent
    return -value if negative else value


def encode(value: Fraction, format_: Format, rounding: str = "RN") -> int:
    """Round a number that is not zero."""
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    exponent = max(exponent, format_.emin)
    units = value / Fraction(2) ** (exponent - format_.precision + 1)
    steps = {
        "RN": lambda: round(units),  # Python rounds fractions half to even
        "RZ": lambda: math.trunc(units),
        "RM": lambda: math.floor(units),
        "RP": lambda: math.ceil(units),
    }[rounding]()
    sign = format_.sign if value < 0 else 0
    rounded = abs(steps) * Fraction(2) ** (exponent - format_.precision + 1)
    if rounded >= Fraction(2) ** (format_.emax + 1):
        away = {"RN": True, "RZ": False, "RM": value < 0, "RP": value > 0}[rounding]
        return sign | (format_.infinity if away else format_.infinity - 1)
    hidden = 1 << (format_.precision - 1)
    if rounded >= 2 * hidden * Fraction(2) ** (exponent - format_.precision + 1):
        exponent += 1
        steps = steps // 2
    if abs(steps) < hidden:
        return sign | abs(steps)
    return sign | ((exponent - format_.emin + 1) * hidden + abs(steps) - hidden)


def operate(op: str, patterns: tuple[int, ...], format_: Format, rounding: str = "RN") -> int:
    """Return op(patterns) for FADD, FSUB, FMUL, FMA, FDIV, FRCP or FSQRT."""
    if op == "FSUB":
        first, second = patterns
        return operate("FADD", (first, second ^ format_.sign), format_, rounding)
    if op == "FRCP":
        return operate(
            "FDIV", (format_.emax << (format_.precision - 1), *patterns), format_, rounding
        )
    values = [decode(pattern, format_) for pattern in patterns]
    special = _special(op, values, patterns, format_)
    if special is not None:
        return special
    numbers = [value for value in values if isinstance(value, Fraction)]
    if op == "FSQRT":
        return _root(numbers[0], format_, rounding) if numbers[0] else patterns[0]
    exact = {
        "FADD": lambda a, b: a + b,
        "FMUL": lambda a, b: a * b,
        "FMA": lambda a, b, c: a * b + c,
        "FDIV": lambda a, b: a / b,
    }[op](*numbers)
    if exact:
        return encode(exact, format_, rounding)
    negative = [bool(pattern & format_.sign) for pattern in patterns]
    if op in ("FMUL", "FDIV"):
        return format_.sign if negative[0] != negative[1] else 0
    terms = negative if op == "FADD" else [negative[0] != negative[1], negative[2]]
    zero_negative = terms[0] if terms[0] == terms[1] else rounding == "RM"
    return format_.sign if zero_negative else 0


def _special(
    op: str, values: list[Fraction | str], patterns: tuple[int, ...], format_: Format
) -> int | None:
    """Return results with NaN, infinity, a zero divisor or a negative root; None for other
    operands.
    """
    by_zero = op == "FDIV" and values[1] == 0
    bad_root = op == "FSQRT" and isinstance(values[0], Fraction) and values[0] < 0
    if not by_zero and not bad_root and all(isinstance(value, Fraction) for value in values):
        return None
    stand_ins = []
    for value, pattern in zip(values, patterns, strict=True):
        size = float(value) if isinstance(value, str) else float(bool(value))
        stand_ins.append(np.float64(math.copysign(abs(size), -1 if pattern & format_.sign else 1)))
    with np.errstate(all="ignore"):
        result = {
            "FADD": lambda a, b: a + b,
            "FMUL": lambda a, b: a * b,
            "FMA": lambda a, b, c: a * b + c,
            "FDIV": lambda a, b: a / b,
            "FSQRT": np.sqrt,
        }[op](*stand_ins)
    if np.isnan(result):
        return format_.nan
    sign = format_.sign if np.signbit(result) else 0
    assert np.isinf(result) or result == 0
    return sign | (format_.infinity if np.isinf(result) else 0)


def _root(value: Fraction, format_: Format, rounding: str) -> int:
    """Return the square root to far more digits than any format has, with a mark if it is
    inexact.
    """
    scale = 4 ** (2 * format_.precision + format_.emax)
    scaled = value * scale * scale
    root = math.isqrt(scaled.numerator // scaled.denominator)
    exact = Fraction(root * root) == scaled
    bits = Fraction(root, scale) if exact else Fraction(2 * root + 1, 2 * scale)
    return encode(bits, format_, rounding)
