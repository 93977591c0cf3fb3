"""PyTorch's types of elements in NumPy: groups, rounding, type promotion and distances.

A tensor of ``bfloat16`` or of an 8-bit float is held as an array of ``float32`` whose elements are
exact in the type; all other types are NumPy's own. ``opmath`` is the type in which CUDA's functors
compute: float32 for the half types, otherwise the type itself (ATen/OpMathType.h).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.torch.rules.eight_bits import EIGHTS, codes, decode, encode

Array = NDArray[Any]

HALVES = ("float16", "bfloat16")
FLOATS = (*HALVES, "float32", "float64")
INTS = ("uint8", "int8", "int16", "int32", "int64")
COMPLEXES = ("complex64", "complex128")
REALS = (*INTS, *FLOATS)
REALS_AND_BOOL = ("bool", *REALS)
ALL = (*REALS_AND_BOOL, *COMPLEXES)

_CATEGORIES = ("bool", "integer", "float", "complex")
_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", *FLOATS, *COMPLEXES)
_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_SMALLEST = {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}


def storage(dtype: str) -> np.dtype[Any]:
    """Return NumPy's type that holds elements of a type."""
    return np.dtype("float32" if dtype in ("bfloat16", *EIGHTS) else dtype)


def opmath(dtype: str) -> str:
    """Return the type in which CUDA computes with elements of a type."""
    return "float32" if dtype in HALVES else dtype


def category(dtype: str) -> str:
    """Return ``bool``, ``integer``, ``float`` or ``complex``."""
    if dtype == "bool":
        return "bool"
    if dtype in INTS:
        return "integer"
    return "float" if dtype in FLOATS else "complex"


def is_float(dtype: str) -> bool:
    """Report whether a type has real numbers with an exponent."""
    return dtype in FLOATS


def cast(values: Array, dtype: str) -> Array:
    """Convert as c10::convert does: to half types by way of float32, integers by truncation.

    Numbers that a narrower integer type does not hold keep their low bits.
    """
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            return round_to_bfloat16(np.asarray(values).astype("float32"))
        if dtype in EIGHTS:
            return decode(encode(np.asarray(values).astype("float32"), dtype), dtype)
        if dtype == "float16":
            return np.asarray(values).astype("float32").astype("float16")
        return np.asarray(values).astype(dtype)


def round_to_bfloat16(values: Array) -> Array:
    """Round float32 to the nearest bfloat16, ties to even, and return it as float32."""
    bits = np.ascontiguousarray(values, dtype="float32").view("uint32").astype("uint64")
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype("uint32").view("float32")
    return np.where(np.isnan(values), np.float32("nan"), rounded.reshape(np.shape(values)))


def promote(first: str, second: str) -> str:
    """Return the common type of two types (c10/core/ScalarType.h: promoteTypes)."""
    if first == second:
        return first
    low, high = sorted((first, second), key=_ORDER.index)
    if low == "uint8" and high == "int8":
        return "int16"
    if high in COMPLEXES:
        return "complex128" if "float64" in (low, high) or "complex128" in (low, high) else high
    if (low, high) == HALVES:
        return "float32"
    return high


def special_values(dtype: str) -> Array:
    """Return numbers at which implementations differ; of 8-bit floats all numbers."""
    if dtype in EIGHTS:
        return decode(codes(), dtype)
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTS:
        info = np.iinfo(dtype)
        negative = [info.min, info.min + 1, -7, -2, -1] if info.min else []
        return np.array([*negative, 0, 1, 2, 3, 7, info.max - 1, info.max], dtype=dtype)
    if dtype in COMPLEXES:
        parts = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan])
        real, imaginary = np.meshgrid(parts, parts)
        numbers = np.empty(real.size, dtype=dtype)
        numbers.real, numbers.imag = real.ravel(), imaginary.ravel()
        return numbers
    positive = [0.0, smallest(dtype), 3 * smallest(dtype), smallest_normal(dtype), 0.1, 0.5, 1.0]
    positive += [1.7, 2.5, 3.0, 7.3, 100.3, largest(dtype), np.inf]
    return cast(np.array([*positive, *(-x for x in positive), np.nan]), dtype)


def smallest(dtype: str) -> float:
    """Return the smallest subnormal number."""
    return float(2.0 ** _SMALLEST[dtype])


def smallest_normal(dtype: str) -> float:
    """Return the smallest normal number."""
    return float(2.0 ** (_SMALLEST[dtype] + _DIGITS[dtype] - 1))


def largest(dtype: str) -> float:
    """Return the largest finite number."""
    if dtype == "bfloat16":
        return float(2.0**127 * (2 - 2.0**-7))
    return float(np.finfo(dtype).max)


def spacing(values: Array, dtype: str) -> Array:
    """Return the distance from each number to the next larger one of a type, in absolute terms."""
    wide = np.abs(np.asarray(values, dtype="longdouble"))
    finite = np.where(np.isfinite(wide), wide, 0)
    _, exponents = np.frexp(finite)
    low = _SMALLEST[dtype]
    powers = np.maximum(exponents - _DIGITS[dtype], low)
    powers = np.where(finite == 0, low, powers)
    return np.asarray(np.ldexp(np.longdouble(1), powers.astype("int32")))
