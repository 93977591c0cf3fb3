"""Products of small floats with block scales in rational numbers, by the order that isa.md states.

It shares no code with the compiler: numbers are decoded by the formulas of the OCP's formats, and
each rounding is that of a fraction.
"""

import ctypes
import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
FIELDS: Final = {"e4m3": (4, 3), "e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1)}
CANONICAL: Final = 0x7FFF_FFFF


def number(pattern: int, kind: str) -> float:
    """Return the number that a pattern of a small format stands for."""
    exponent_bits, fraction_bits = FIELDS[kind]
    bias = (1 << (exponent_bits - 1)) - 1
    sign = -1.0 if pattern >> (exponent_bits + fraction_bits) & 1 else 1.0
    field, rest = divmod(pattern & ((1 << (exponent_bits + fraction_bits)) - 1), 1 << fraction_bits)
    last = (1 << exponent_bits) - 1
    if kind == "e4m3" and field == last and rest == 7:
        return math.nan
    if kind == "e5m2" and field == last:
        return math.nan if rest else sign * math.inf
    if field == 0:
        return sign * math.ldexp(rest, 1 - bias - fraction_bits)
    return sign * math.ldexp((1 << fraction_bits) + rest, field - bias - fraction_bits)


def scale(code: int, kind: str) -> float:
    """Return the number that a scale's code stands for."""
    if kind == "ue4m3":
        return number(code & 0x7F, "e4m3")
    return math.nan if code == 255 else math.ldexp(1.0, code - 127)


def container_byte(pattern: int, kind: str) -> int:
    """Return the byte in which mma holds a pattern of ``kind``."""
    return pattern << 2 if kind == "e2m1" else pattern


def _rounded(exact: Fraction, precision: int, least: int, most: int) -> float:
    """Round a fraction other than 0 to a binary format, to nearest even."""
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    rounded = round(size / unit) * unit
    if rounded >= Fraction(2) ** (most + 1):
        return math.copysign(math.inf, exact)
    return math.copysign(float(rounded), exact)


def _single(exact: Fraction) -> float:
    return _rounded(exact, 24, -126, 127)


def _double(exact: Fraction) -> float:
    return _rounded(exact, 53, -1022, 1023)


def _fused(factors: tuple[float, ...], addend: float, *, double: bool) -> float:
    """Return the product of ``factors`` plus ``addend``, rounded once."""
    product = math.prod(factors)
    rough = product + addend  # right if an operand is not finite, or the sum is zero
    if not all(map(math.isfinite, (*factors, addend))):
        return rough
    if _is_exact(product, factors):
        if double:
            return rough  # an addition rounds once
        part = rough - product
        if (product - (rough - part)) + (addend - part) == 0:  # Knuth's TwoSum: nothing was rounded
            return ctypes.c_float(rough).value
    exact = Fraction(addend)
    exact += math.prod(map(Fraction, factors), start=Fraction(1))
    if exact == 0:
        return rough
    return (_double if double else _single)(exact)


def _is_exact(product: float, factors: tuple[float, ...]) -> bool:
    """Return whether a product of two finite numbers is what multiplying them in binary64 gives."""
    if len(factors) != 2 or not math.isfinite(product):
        return False
    (a, b), (c, d) = (one.as_integer_ratio() for one in factors)
    n, m = product.as_integer_ratio()
    return a * c * m == n * b * d


def chain(row: list[float], column: list[float], start: float) -> float:
    """Return ``start`` plus the products, added one by one in binary32."""
    total = start
    for x, y in zip(row, column, strict=True):
        total = _fused((x, y), total, double=False)
    return total


def scaled_product(
    a: list[list[float]],
    b: list[list[float]],
    scales_a: list[list[float]],
    scales_b: list[list[float]],
    c: Array,
) -> Array:
    """Return the patterns of A x B + C, of rows ``a`` and columns ``b`` with a scale per block."""
    found = np.zeros(c.shape, np.uint32)
    for r, n in np.ndindex(c.shape):
        total, blocks = float(c[r, n]), len(scales_a[r])
        each = len(a[r]) // blocks
        for j in range(blocks):
            part = slice(j * each, (j + 1) * each)
            sum_ = chain(a[r][part], b[n][part], 0.0)
            both = scales_a[r][j] * scales_b[n][j]  # exact: at most 16 bits, and no overflow
            total = _fused((sum_, both), total, double=True)
        found[r, n] = _bits(total)
    return found


def _bits(value: float) -> int:
    if math.isnan(value):
        return CANONICAL
    if math.isfinite(value) and value != 0:
        value = _single(Fraction(value))
    with np.errstate(over="ignore"):
        return int(np.float32(value).view(np.uint32))
