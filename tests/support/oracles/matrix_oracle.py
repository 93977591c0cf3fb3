"""Fragments of mma by PTX ISA's formulas, and products of matrices in numpy.

Written from "Matrix Fragments for mma..."; it shares no code with the compiler.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
LANES = 32
NUMPY = {
    "f16": np.float16,
    "bf16": np.uint16,  # its patterns
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "e4m3": np.uint8,
    "e5m2": np.uint8,
    "s8": np.int8,
    "u8": np.uint8,
    "s4": np.int8,
    "u4": np.uint8,
    "b1": np.uint8,
    "s32": np.int32,
}
BITS = {"s4": 4, "u4": 4, "b1": 1}


def bits_of(type_: str) -> int:
    return BITS.get(type_, np.dtype(NUMPY[type_]).itemsize * 8)


def place_in_a(type_: str, rows: int, lane: int, i: int) -> tuple[int, int]:
    """Return row and column of element ``i`` of a lane's fragment of A."""
    group, thread = lane >> 2, lane % 4
    if bits_of(type_) >= 32:
        upper = rows == 16 and i % 2 == 1
        return group + 8 * upper, thread + 4 * (i // 2 if rows == 16 else i)
    each = 32 // bits_of(type_)
    register, inside = divmod(i, each)
    upper = rows == 16 and register % 2 == 1
    return group + 8 * upper, thread * each + inside + 4 * each * (register // (rows // 8))


def place_in_b(type_: str, lane: int, i: int) -> tuple[int, int]:
    """Return row and column of element ``i`` of a lane's fragment of B."""
    each = max(1, 32 // bits_of(type_))
    register, inside = divmod(i, each)
    return (lane % 4) * each + inside + 4 * each * register, lane >> 2


def place_in_c(lane: int, i: int) -> tuple[int, int]:
    """Return row and column of element ``i`` of a lane's accumulators."""
    return (lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)


def fragment(matrix: Array, type_: str, place: Callable[[int, int], tuple[int, int]]) -> Array:
    """Return the registers of each lane: (32, registers)."""
    bits = bits_of(type_)
    count = matrix.size // LANES
    own = np.array([[matrix[place(lane, i)] for i in range(count)] for lane in range(LANES)])
    if bits < 8:
        each = 32 // bits
        numbers = (own.astype(np.int64) & ((1 << bits) - 1)).reshape(LANES, -1, each)
        return (numbers << (bits * np.arange(each))).sum(axis=-1).astype(np.uint32)
    return np.ascontiguousarray(own).view(np.uint64 if bits == 64 else np.uint32)


def matrix_of(registers: Array, type_: str, shape: tuple[int, int]) -> Array:
    """Return the accumulators of a warp as a matrix."""
    own = np.ascontiguousarray(registers).view(NUMPY[type_])
    found = np.zeros(shape, NUMPY[type_])
    for lane in range(LANES):
        for i in range(own.shape[1]):
            found[place_in_c(lane, i)] = own[lane, i]
    return found


def values(matrix: Array, type_: str) -> Array:
    """Return the numbers of a matrix of patterns; TF32 has 10 bits of fraction."""
    if type_ == "tf32":
        return (matrix.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if type_ == "bf16":
        return (matrix.astype(np.uint32) << 16).view(np.float32)
    if type_ not in ("e4m3", "e5m2"):
        return matrix
    fraction = 3 if type_ == "e4m3" else 2
    scale, bias = 1 << fraction, 7 if type_ == "e4m3" else 15
    magnitude = matrix.astype(np.int64) & 0x7F
    exponent, rest = magnitude // scale, magnitude % scale
    number = (1 + rest / scale) * 2.0 ** (exponent - bias)
    number = np.where(exponent == 0, rest / scale * 2.0 ** (1 - bias), number)
    if type_ == "e4m3":
        number = np.where(magnitude == 0x7F, np.nan, number)
    else:
        number = np.where(exponent == 31, np.where(rest == 0, np.inf, np.nan), number)
    return np.where(matrix & 0x80 != 0, -number, number).astype(np.float32)


def _fused(x: Array, y: Array, addend: Array) -> Array:
    """Return x * y + addend in binary32, rounded once; the product is exact in binary64."""
    with np.errstate(all="ignore"):
        product, addend = x.astype(np.float64) * y.astype(np.float64), addend.astype(np.float64)
        total = product + addend
        back = total - product
        lost = (product - (total - back)) + (addend - back)
        odd = total.view(np.uint64) & np.uint64(1) == 1
        move = np.isfinite(total) & (lost != 0) & ~odd  # round to odd, then once to binary32
        total = np.where(move, np.nextafter(total, np.where(lost > 0, np.inf, -np.inf)), total)
        result = total.astype(np.float32)
    return np.where(np.isnan(result), np.uint32(0x7FFFFFFF).view(np.float32), result)


def _flushed(number: float) -> float:
    return math.copysign(0.0, number) if abs(number) < 2.0**-126 else number


def _paired(x: float, y: float, total: float) -> float:
    """Return x * y + total, one step of bf16: exact, rounded to 24 bits, then flushed."""
    x, y, total = map(_flushed, (x, y, total))
    rough = x * y + total  # correct if it is zero or not finite; its sign is correct
    if not all(map(math.isfinite, (x, y, total))):
        return rough
    exact = Fraction(x) * Fraction(y) + Fraction(total)
    if exact == 0:
        return rough
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (exponent - 23)
    rounded = round(size / unit) * unit  # ties to even
    if rounded >= Fraction(2) ** 128:
        return math.copysign(math.inf, exact)
    return math.copysign(0.0 if rounded < Fraction(2) ** -126 else float(rounded), exact)


def paired_product(a: Array, b: Array, c: Array) -> Array:
    """Return a x b + c of bf16 factors: the second step of each pair comes before the first."""
    found = np.zeros(c.shape, np.float32)
    for row, column in np.ndindex(c.shape):
        total = float(c[row, column])
        for k in range(a.shape[1]):
            total = _paired(float(a[row, k ^ 1]), float(b[k ^ 1, column]), total)
        found[row, column] = total
    return np.where(np.isnan(found), np.uint32(0x7FFFFFFF).view(np.float32), found)


def product(a: Array, b: Array, c: Array, kind: str, clamp: bool = False) -> Array:
    """Return a x b + c, in order of depth; floats by fused steps in binary32, integers exactly."""
    if kind == "s32":
        exact = a.astype(np.int64) @ b.astype(np.int64) + c.astype(np.int64)
        return (np.clip(exact, -(1 << 31), (1 << 31) - 1) if clamp else exact).astype(np.int32)
    if kind == "f64":
        raise AssertionError("a fused step in binary64 is not numpy's")
    total = c.astype(np.float32)
    for k in range(a.shape[1]):
        total = _fused(a[:, k : k + 1], b[k : k + 1, :], total)
    return total


def mma(a: Array, b: Array, c: Array, factor: str, total: str, clamp: bool = False) -> Array:
    """Return a x b + c as MMA computes it for factors of a type and a sum of type ``total``."""
    if factor == "bf16":
        found = paired_product(a, b, c)
    else:
        found = product(a, b, c, "s32" if total == "s32" else "f32", clamp)
    if total == "f16":
        with np.errstate(over="ignore"):
            found = found.astype(np.float16)
        found = np.where(np.isnan(found), np.uint16(0x7FFF).view(np.float16), found)
    return found


def doubles(a: Array, b: Array, c: Array, rounding: str) -> Array:
    """Return a x b + c of doubles: FMAs in the order of k from c on, each rounded as ``rounding``
    states, to nearest if it is none of ``rz``, ``rm`` and ``rp``.
    """
    found = c.copy()
    for row, column in np.ndindex(*c.shape):
        total = float(c[row, column])
        for left, right in zip(a[row], b[:, column], strict=True):
            exact = Fraction(float(left)) * Fraction(float(right)) + Fraction(total)
            down = rounding == "rm" or (rounding == "rz" and exact > 0)
            up = rounding == "rp" or (rounding == "rz" and exact < 0)
            total = float(exact)
            if down and Fraction(total) > exact:
                total = math.nextafter(total, -math.inf)
            elif up and Fraction(total) < exact:
                total = math.nextafter(total, math.inf)
        found[row, column] = total
    return found


def patterns(type_: str, shape: tuple[int, int], dice: np.random.Generator, tame: bool) -> Array:
    """Return a matrix of ordinary numbers (``tame``) or of any patterns."""
    kind = np.dtype(NUMPY[type_])
    if type_ == "b1":
        return dice.integers(0, 2, shape, np.uint8)
    if type_ in ("s4", "u4"):
        return (
            dice.integers(-8, 8, shape, np.int8)
            if type_ == "s4"
            else dice.integers(0, 16, shape, np.uint8)
        )
    if tame and type_ == "bf16":
        single = (dice.normal(size=shape) * 4).astype(np.float32)
        return (single.view(np.uint32) >> 16).astype(np.uint16)
    if tame and type_ in ("e4m3", "e5m2"):
        return dice.integers(0, 0x78, shape, np.uint8) | dice.integers(0, 2, shape, np.uint8) << 7
    if tame and type_[0] not in "su":
        return (dice.normal(size=shape) * 4).astype(kind)
    raw = dice.integers(0, 256, (*shape, kind.itemsize), np.uint8)
    found: Array = raw.view(kind)[..., 0]
    return found
