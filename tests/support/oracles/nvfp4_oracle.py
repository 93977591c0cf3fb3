"""A transformer block in NVFP4 by NumPy, with the order and the rounding of each operation.

Sums and products of binary32 are rounded one by one. Products of elements and scales are exact in
binary64: an element has 2 bits, a scale 4, and a sum of 16 products is a multiple of 1/4 up to 576.
Quantisation is that of Transformer Engine's recipe: scales of 16 numbers and of the whole matrix,
a random Hadamard transform in the direction of the sum, and stochastic rounding.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
GROUP, STEP, SEQUENCE, HEADS = 16, 64, 32, 2
LARGEST = np.finfo(np.float32).max


@dataclass(frozen=True)
class Quantised:
    """A matrix of elements with a scale for each 16 of a row, and the largest magnitude."""

    elements: Array
    scales: Array
    largest: np.float32

    @property
    def codes(self) -> bytes:
        """Return the elements, two in a byte."""
        codes = self.elements.astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15
        return (codes[:, ::2] | codes[:, 1::2] << 4).tobytes()

    @property
    def scale_bytes(self) -> bytes:
        """Return the scales in E4M3."""
        return self.scales.astype(ml_dtypes.float8_e4m3fn).tobytes()


@np.errstate(divide="ignore", over="ignore")
def encode(largest: np.float32) -> np.float32:
    """Return the factor of a matrix: 448 * 6 / its largest magnitude, or 1 for zeros."""
    return np.float32(1) if largest == 0 else min(np.float32(2688) / largest, LARGEST)


def rotate(groups: Array, signs: int) -> Array:
    """Return the random Hadamard transform of groups of 16 numbers (in the last dimension)."""
    flips = np.array([-1 if signs >> n & 1 else 1 for n in range(GROUP)], np.float32)
    found = groups * flips
    for half in (1, 2, 4, 8):
        pairs = found.reshape(*found.shape[:-1], GROUP // (2 * half), 2, half)
        x, y = pairs[..., 0, :], pairs[..., 1, :]
        found = np.stack([x + y, x - y], -2).reshape(found.shape)
    return found * np.float32(0.25)


def _round_by_chance(numbers: Array, chances: Array) -> Array:
    """Round to E2M1: a fraction of the last place, cut to 16 bits, is that of rounding up."""
    size = np.minimum(np.abs(numbers), np.float32(7.75)).astype(np.float64)
    unit = np.where(size < 2, 0.5, np.where(size < 4, 1.0, 2.0))
    whole = np.floor(size / unit)
    fraction = np.floor((size / unit - whole) * 65536).astype(np.int64)
    whole += fraction + chances >= 65536
    return np.copysign(np.minimum(whole * unit, 6), numbers)


def _chances(words: Array) -> Array:
    """Return 16 bits for each of the four numbers of a word, the lowest number first.

    The first two of ``{a, b, e, f}``, which are the highest two, share bytes 3 and 1.
    """
    high = words >> 24 << 8 | words >> 8 & 0xFF
    low = (words >> 16 & 0xFF) << 8 | words & 0xFF
    return np.stack([low, low, high, high], -1).astype(np.int64)


def quantise(matrix: Array, signs: int | None = None, random: Array | None = None) -> Quantised:
    """Quantise rows: rotated if there are signs, stochastically if there are random words."""
    rows, columns = matrix.shape
    groups = matrix.reshape(rows, columns // GROUP, GROUP)
    if signs is not None:
        groups = rotate(groups, signs)
    largest = np.abs(groups).max()
    factor = encode(largest)
    wanted = np.abs(groups).max(-1) / np.float32(6) * factor
    scales = wanted.clip(max=448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    with np.errstate(divide="ignore"):
        inverse = np.minimum(factor / scales, LARGEST)
    numbers = groups * inverse[..., None]
    if random is None:
        nearest = numbers.clip(-6, 6).astype(ml_dtypes.float4_e2m1fn)
        elements = nearest.astype(np.float64)
    else:
        elements = _round_by_chance(numbers, _chances(random).reshape(groups.shape))
    return Quantised(elements.reshape(rows, columns), scales.astype(np.float64), largest)


def multiply(a: Quantised, b: Quantised) -> Array:
    """Return A x B transposed in binary32: each step of depth 64 is rounded once."""
    total = np.zeros((len(a.elements), len(b.elements)), np.float32)
    for first in range(0, a.elements.shape[1], STEP):
        exact = total.astype(np.float64)
        for n in range(first // GROUP, (first + STEP) // GROUP):
            part = slice(n * GROUP, (n + 1) * GROUP)
            sums = a.elements[:, part] @ b.elements[:, part].T
            exact = exact + sums * (a.scales[:, n, None] * b.scales[None, :, n])
        total = exact.astype(np.float32)
    return total * (np.float32(1) / (encode(a.largest) * encode(b.largest)))


def _sum(terms: Array) -> Array:
    """Add the terms of the last dimension one by one, from +0."""
    total = np.zeros(terms.shape[:-1], np.float32)
    for n in range(terms.shape[-1]):
        total = total + terms[..., n]
    return total


def normalise(matrix: Array, gains: Array) -> Array:
    mean = _sum(matrix * matrix) * np.float32(1 / 64)
    return matrix / np.sqrt(mean + np.float32(1e-6))[:, None] * gains


def _power(x: Array, coefficients: Array) -> Array:
    """Return e^x: the fraction of x / ln 2 by a polynomial, the rest in the exponent."""
    x = np.maximum(x * np.float32(np.log2(np.e)), np.float32(-120))
    whole = np.rint(x)
    x, found = x - whole, np.full(x.shape, coefficients[0])
    for coefficient in coefficients[1:]:
        found = found * x + coefficient
    return found * np.exp2(whole)


def attend(numbers: Array, coefficients: Array) -> Array:
    """Return causal attention in sequences of 32 rows of queries, keys and values."""
    rows, width = len(numbers), numbers.shape[1] // 3 // HEADS
    shape = (rows // SEQUENCE, SEQUENCE, 3, HEADS, width)
    q, k, v = np.moveaxis(numbers.reshape(shape), (2, 3), (0, 2))  # sequence, head, row, width
    scores = _sum(q[..., :, None, :] * k[..., None, :, :]) * np.float32(32**-0.5)
    seen = np.tril(np.ones((SEQUENCE, SEQUENCE), bool))
    largest = np.where(seen, scores, -np.inf).max(-1, keepdims=True).astype(np.float32)
    weights = np.where(seen, _power(scores - largest, coefficients), np.float32(0))
    found = _sum(np.moveaxis(weights[..., None] * v[..., None, :, :], -2, -1))
    found = found / _sum(weights)[..., None]
    return np.ascontiguousarray(np.moveaxis(found, 1, 2)).reshape(rows, HEADS * width)
