"""Floats of 8 bits: numbers of codes, and the code nearest to a number.

The rules are those of PyTorch's types in C++ (``torch/headeronly/util/Float8_*.h``). A number is
compared with all numbers of a format here, so that nothing is shared with a kernel's arithmetic.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

EIGHTS = (
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
_EXPONENTS = "float8_e8m0fnu"
_NAN = 0xFF  # of exponents alone
_ONE = 127  # the exponent of 1
_SIGN = 0x80


@dataclass(frozen=True)
class _Format:
    """A format with a sign: its widths, and the codes without a sign that are no numbers."""

    mantissa: int
    bias: int
    largest: int
    infinity: int  # code for infinity
    overflow: int  # code for a finite number that is too large
    nan: int
    has_negative_zero: bool = True


_FORMATS = {
    "float8_e4m3fn": _Format(3, 7, 0x7E, 0x7E, 0x7E, 0x7F),
    "float8_e5m2": _Format(2, 15, 0x7B, 0x7C, 0x7C, 0x7F),
    "float8_e4m3fnuz": _Format(3, 8, 0x7F, _SIGN, _SIGN, _SIGN, False),
    "float8_e5m2fnuz": _Format(2, 16, 0x7F, _SIGN, _SIGN, _SIGN, False),
}


def codes() -> Array:
    """Return all codes of 8 bits."""
    return np.arange(256, dtype="uint8")


def decode(coded: Array, dtype: str) -> Array:
    """Return the numbers of codes, in float32."""
    if dtype == _EXPONENTS:
        powers = np.ldexp(np.float64(1), coded.astype("int32") - _ONE)
        return np.where(coded == _NAN, np.nan, powers).astype("float32")
    layout = _FORMATS[dtype]
    sizes = coded & 0x7F
    numbers = _magnitudes(layout)[sizes]
    numbers = np.where(coded & _SIGN, -numbers, numbers)
    if not layout.has_negative_zero:
        numbers = np.where(coded == layout.nan, np.nan, numbers)
    return np.asarray(numbers, dtype="float32")


def encode(numbers: Array, dtype: str) -> Array:
    """Return the codes nearest to float32 numbers; a tie has the even code."""
    values = np.asarray(numbers, dtype="float32").astype("float64")
    if dtype == _EXPONENTS:
        return _nearest_exponent(np.abs(values))
    layout = _FORMATS[dtype]
    finite = _magnitudes(layout)[: layout.largest + 1]
    # The number after the largest decides from where on a number is too large.
    steps = np.append(finite, 2 * finite[-1] - finite[-2])
    sizes = np.where(np.isfinite(values), np.abs(values), 0)
    above = np.clip(np.searchsorted(steps, sizes), 1, len(steps) - 1)
    middle = (steps[above - 1] + steps[above]) / 2
    is_even = above % 2 == 0
    goes_up = (sizes > middle) | ((sizes == middle) & is_even)
    coded = np.where(goes_up, above, above - 1)
    coded = np.where((coded > layout.largest) | (sizes > steps[-1]), layout.overflow, coded)
    coded = np.where(np.isinf(values), layout.infinity, coded)
    coded = np.where(np.isnan(values), layout.nan, coded)
    has_sign = np.signbit(values) & ~np.isnan(values)
    if not layout.has_negative_zero:
        has_sign &= (coded != 0) & (coded != layout.nan)
    return (coded | np.where(has_sign, _SIGN, 0)).astype("uint8")


def _magnitudes(layout: _Format) -> Array:
    """Return what the codes without a sign stand for, in float64."""
    sizes = np.arange(_SIGN)
    exponents, fractions = sizes >> layout.mantissa, sizes & ((1 << layout.mantissa) - 1)
    normal = np.where(exponents > 0, 1 << layout.mantissa, 0) + fractions
    powers = np.maximum(exponents, 1) - layout.bias - layout.mantissa
    magnitudes = np.ldexp(normal.astype("float64"), powers)
    if layout.has_negative_zero:
        magnitudes[layout.largest + 1 :] = np.nan
        if layout.infinity > layout.largest:
            magnitudes[layout.infinity] = np.inf
    return np.asarray(magnitudes)


def _nearest_exponent(sizes: Array) -> Array:
    """Return the exponents of powers of two; a number between two has the larger from 1.5 on.

    Below the smallest normal number of float32, every number above the least power has the next.
    """
    fractions, exponents = np.frexp(np.where(np.isfinite(sizes), sizes, 0))
    coded = exponents - 1 + _ONE + (fractions >= 0.75)
    coded = np.where(sizes < 2.0**-126, sizes > 2.0**-127, coded)
    return np.where(np.isfinite(sizes), np.minimum(coded, _NAN), _NAN).astype("uint8")
