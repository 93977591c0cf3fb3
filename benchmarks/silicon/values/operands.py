"""Operands that reveal rules: special values of each width, all pairs of them, and random ones."""

import functools
import itertools

import numpy as np
from numpy.typing import NDArray

Patterns = NDArray[np.unsignedinteger]

_HALVES = (0, 1, 0x8001, 0x3FF, 0x400, 0x8400, 0x3C00, 0xBC00, 0x3800, 0x4200, 0x7BFF, 0xFBFF)
_HALVES += (0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFE55, 0x7FFF, 0xFFFF, 0x8000, 0x3F80, 0xBF80)
_HALVES += (0x7F, 0x80, 0x8080, 0x7F7F, 0x7F80, 0xFF80, 0x7F81, 0x7FC0, 0xFFD5, 0x5640, 0xD640)
_WORDS = (0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x807FFFFF, 0x800000, 0x80800000, 0x3F800000)
_WORDS += (0xBF800000, 0x3F000000, 0x40000000, 0xC0400000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000)
_WORDS += (0xFF800000, 0x7F800001, 0xFF812345, 0x7FC00000, 0xFFC01234, 0x7FFFFFFF, 0xFFFFFFFF)
_WORDS += (0x4F000000, 0xCF000000, 0x4F7FFFFF, 0x5F000000, 0x477FE000, 0x477FF000, 0x387FC000)
_WORDS += (0x33800000, 0x33000000, 0x437F8000, 0xC3000001, 0x3EFFFFFF, 0x3FC00000, 0x4B000001)
_WORDS += (31, 32, 33, 0xFFFFFFFE, 0x7FFFFFFE, 0x12345678, 0x80, 0xFF80, 0x10000, 0x8000)
_LONGS = (0, 1 << 63, 1, 1 << 63 | 1, (1 << 52) - 1, 1 << 52, 0x3FF << 52, 0xBFF << 52)
_LONGS += (0x3FE << 52, 0x4008 << 48, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF << 52)
_LONGS += (0xFFF << 52, 0x7FF0000000000001, 0xFFF0000012345678, 0x7FF8 << 48, 0xFFF8000000001234)
_LONGS += ((1 << 63) - 1, (1 << 64) - 1, 0x43E0 << 48, 0x41E0 << 48, 0x47EFFFFFE0000000)
_LONGS += (0x47EFFFFFF0000000, 0x3690 << 48, 0x380FFFFFE0000000, 0x3FF0000010000000, 63, 64, 65)
_LONGS += (0x40EFFC0000000000, 0x40EFFE0000000000, 0x3E70 << 48, 0x123456789ABCDEF, 1 << 32)
_SPECIAL = {16: _HALVES, 32: _WORDS, 64: _LONGS}
_FEW = {
    8: (0, 1, 3, 7, 8, 31, 32, 127, 128, 255),
    16: (0, 0x8000, 1, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7C01, 0x7FFF, 0x7F80, 0x3F80, 0x7BFF, 128),
    32: (0, 1 << 31, 1, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7F800001, 0x7F7FFFFF)
    + (0x800000, 0x807FFFFF, 0xFFFFFFFF, 0x3C007C00, 33),
    64: (0, 1 << 63, 1, 0x3FF << 52, 0xBFF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF0000000000001)
    + (0x7FEFFFFFFFFFFFFF, 1 << 52, (1 << 64) - 1, (1 << 63) - 1),
}  # fmt: skip
_RANDOM = 512
UNARY = 16384
DENSE = 65536


def _random(bits: int, count: int, seed: int) -> NDArray[np.uint64]:
    dice = np.random.default_rng(seed)
    whole = dice.integers(0, 1 << 64, count, np.uint64, endpoint=False)
    return whole >> np.uint64(64 - bits)


def _near(bits: int, count: int, seed: int) -> NDArray[np.uint64]:
    """Return floats of ordinary size: signs, exponents and fractions of their own."""
    dice = np.random.default_rng(seed)
    exponents = dice.integers(-12, 24, count)
    numbers = dice.normal(size=count) * 2.0**exponents
    if bits == 64:
        return numbers.view(np.uint64)
    if bits == 32:
        return numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):
        halves = numbers.astype(np.float16).view(np.uint16).astype(np.uint64)
    brief = numbers.astype(np.float32).view(np.uint32).astype(np.uint64) >> np.uint64(16)
    return np.where(dice.integers(0, 2, count) == 0, halves, brief)


@functools.cache
def columns(widths: tuple[int, ...], *, dense: bool = False) -> tuple[Patterns, ...]:
    """Return an array of operands for each width; rows combine special values."""
    if len(widths) == 1:
        return (_single(widths[0], DENSE if dense else UNARY),)
    many = _FEW if len(widths) > 2 else _SPECIAL
    sets = [many.get(bits) or _FEW[bits] for bits in widths]
    if len(widths) > 3:
        sets = [values[:6] for values in sets]
    rows = list(itertools.product(*sets))
    arrays = []
    for place, bits in enumerate(widths):
        special = np.array([row[place] for row in rows], np.uint64)
        parts = [special, _random(bits, _RANDOM, 7 + place)]
        if bits >= 16:
            parts.append(_near(bits, _RANDOM, 77 + place))
        else:
            parts.append(_random(bits, _RANDOM, 177 + place))
        whole = np.concatenate(parts)
        arrays.append(_padded(whole, bits))
    return tuple(arrays)


def _padded(values: NDArray[np.uint64], bits: int) -> Patterns:
    size = -(-len(values) // 256) * 256
    narrowed: Patterns = np.resize(values, size).astype(f"<u{bits // 8}")
    return narrowed


def _single(bits: int, count: int) -> Patterns:
    if bits <= 16:
        return _padded(np.arange(1 << bits, dtype=np.uint64), bits)
    special = np.array(_SPECIAL[bits], np.uint64)
    edges = np.concatenate([special + np.uint64(1), special - np.uint64(1)])
    if bits == 32:
        edges &= np.uint64(0xFFFFFFFF)
    random_count = count - len(special) - len(edges)
    parts = [
        special,
        edges,
        _random(bits, random_count // 2, 3),
        _near(bits, random_count - random_count // 2, 4),
    ]
    return _padded(np.concatenate(parts), bits)
