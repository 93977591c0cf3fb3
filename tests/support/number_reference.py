"""Arithmetic on bit patterns in exact Python numbers: what instructions must yield.

Written from the definitions, with none of the simulator's code.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary interchange format: its width and the bits of its significand, hidden one included."""

    bits: int
    precision: int

    @property
    def emax(self) -> int:
        return (1 << (self.bits - self.precision - 1)) - 1

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return np.dtype(f"<f{self.bits // 8}")


FORMATS = {"f16": Format(16, 11), "f32": Format(32, 24), "f64": Format(64, 53)}


def bits_of(type_: str) -> int:
    return int(type_.lstrip("abcdefghijklmnopqrstuvwxyz"))


def as_integer(pattern: int, type_: str) -> int:
    """Read a pattern as a number of an integer type."""
    bits = bits_of(type_)
    pattern &= (1 << bits) - 1
    return pattern - (1 << bits) if type_[0] == "s" and pattern >> (bits - 1) else pattern


def as_float(pattern: int, type_: str) -> float:
    """Read a pattern as a float; Python's hold every binary16, 32 and 64 exactly."""
    size = bits_of(type_) // 8
    data = (pattern & ((1 << size * 8) - 1)).to_bytes(size, "little")
    return float(np.frombuffer(data, FORMATS[type_].dtype)[0])


def float_pattern(value: float, type_: str) -> int:
    """Return the pattern of a float that the format holds (or rounds it to nearest)."""
    with np.errstate(all="ignore"):
        data = np.array([value]).astype(FORMATS[type_].dtype).tobytes()
    return int.from_bytes(data, "little")


def round_fraction(value: Fraction, type_: str, mode: str) -> float:
    """Round a number that is not zero to a format: rn, rz, rm or rp."""
    format_ = FORMATS[type_]
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    exponent = max(exponent, 1 - format_.emax)
    unit = Fraction(2) ** (exponent - format_.precision + 1)
    steps = round_integral(value / unit, mode)
    result = steps * unit
    largest = (2 - Fraction(2) ** (1 - format_.precision)) * Fraction(2) ** format_.emax
    if abs(result) > largest:
        away = mode == "rn" or ((mode == "rp") == (value > 0) and mode != "rz")
        return math.copysign(math.inf if away else float(largest), value)
    return math.copysign(float(abs(result)), value)


def round_integral(value: Fraction, mode: str) -> int:
    """Round to an integer: rn(i) to even, rz(i), rm(i), rp(i)."""
    match mode[:2]:
        case "rn":
            return round(value)
        case "rz":
            return math.trunc(value)
        case "rm":
            return math.floor(value)
        case _:
            return math.ceil(value)


def square_root_is(value: Fraction, result: float, type_: str, mode: str) -> bool:
    """Whether ``result`` is the rounded square root of a positive number."""
    format_ = FORMATS[type_].dtype.type
    exact = Fraction(result)
    below = Fraction(float(np.nextafter(format_(result), format_(0))))
    above = Fraction(float(np.nextafter(format_(result), format_(np.inf))))
    match mode:
        case "rz" | "rm":
            return exact**2 <= value < above**2
        case "rp":
            return below**2 < value <= exact**2
        case _:
            return ((below + exact) / 2) ** 2 <= value <= ((exact + above) / 2) ** 2


def flush(pattern: int) -> int:
    """Subnormal binary32 to a zero of its sign."""
    return pattern & 0x8000_0000 if pattern & 0x7F80_0000 == 0 else pattern


def saturate(value: float) -> float:
    """Clamp to [0, 1]; NaN and -0 become +0."""
    return min(max(value, 0.0), 1.0) if value > 0 else 0.0
