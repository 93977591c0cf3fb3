"""Distances between floats, in units of the last place."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FLOATS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "f16x2": 16, "bf16x2": 16}
_EXPONENT = {"f64": 0x7FF << 52, "f32": 0xFF << 23, "f16": 0x7C00, "bf16": 0x7F80}


def float_type(spelling: str) -> str:
    """Return the type of the results of an instruction; empty if they are not floats."""
    types = [word for word in re.split(r"\.", spelling) if word in _FLOATS]
    return types[0] if types and not spelling.startswith(("set", "testp")) else ""


def distances(type_: str, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distance of each pair of finite numbers, and which pairs are finite."""
    bits, kind = _FLOATS[type_], type_.removesuffix("x2")
    a, b = (np.ascontiguousarray(x).view(f"<u{bits // 8}") for x in (a, b))
    mask = np.array(_EXPONENT[kind], a.dtype)
    finite = ((a & mask) != mask) & ((b & mask) != mask)
    sign = np.array(1 << (bits - 1), a.dtype)
    ordered = [
        np.where(x & sign, -(x & ~sign).astype(np.int64), (x & ~sign).astype(np.int64))
        for x in (a, b)
    ]
    return np.abs(ordered[0] - ordered[1]), finite


def describe(spelling: str, a: NDArray[Any], b: NDArray[Any]) -> str:
    """Return the greatest and the mean distance as text; empty for other types than floats."""
    type_ = float_type(spelling)
    if not type_ or a.dtype.itemsize * 8 < _FLOATS[type_]:
        return ""
    ulp_distances, finite = distances(type_, a, b)
    if not finite.any():
        return ""
    special = int((~finite & (ulp_distances != 0)).sum())
    ulp_distances = ulp_distances[finite]
    greatest, mean = ulp_distances.max(), ulp_distances.mean()
    return f"(ulp: max {greatest}, mean {mean:.3g}; {special} not both finite)"
