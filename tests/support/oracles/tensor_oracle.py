"""Operands of tcgen05.mma by PTX ISA's tables: descriptors, packed elements, scales.

Written from "TensorCore 5th Generation Instructions"; it shares no code with the compiler.
"""

from typing import Protocol

import numpy as np

from support.oracles import matrix_oracle as oracle, scaled_oracle
from support.oracles.matrix_oracle import Array
from support.oracles.warpgroup_oracle import Layout

NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
_CODES = {
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "f8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5},
    "i8": {"u8": 0, "s8": 1},
    "mxf4": {"e2m1": 1},
}
_CODES["mxf8f6f4"], _CODES["mxf4nvf4"] = _CODES["f8f6f4"], _CODES["mxf4"]
_MODES = {0: 0, 32: 6, 64: 4, 128: 2}
_PARTS = {"e2m3": (2, 3), "e3m2": (3, 2), "e2m1": (2, 1)}


class Product(Protocol):
    """What the descriptors of a product need."""

    kind: str
    total: str
    a: str
    b: str
    m: int
    n: int
    across: tuple[bool, bool]
    negated: tuple[bool, bool]
    exact: bool
    scales: int
    seed: int
    sparse: bool

    @property
    def selector(self) -> int:
        """The column of metadata."""


def _scale_ids(product: Product) -> tuple[int, int]:
    if product.scales == 1:
        return product.seed % 4, product.seed // 4 % 4
    return (product.seed % 2 * 2, product.seed // 2 % 2 * 2) if product.scales == 2 else (0, 0)


def instruction_descriptor(product: Product) -> int:
    codes = _CODES[product.kind]
    found = codes[product.a] << 7 | codes[product.b] << 10 | product.n >> 3 << 17
    found |= product.negated[0] << 13 | product.negated[1] << 14
    found |= product.across[0] << 15 | product.across[1] << 16
    found |= product.sparse << 2 | product.selector
    if product.scales:
        a, b = _scale_ids(product)
        return found | a << 29 | b << 4 | (not product.exact) << 23 | product.m >> 7 << 27
    return found | {"f16": 0, "f32": 1, "s32": 2}[product.total] << 4 | product.m >> 4 << 24


def matrix_descriptor(layout: Layout) -> int:
    found = layout.start >> 4 | layout.leading >> 4 << 16 | layout.stride >> 4 << 32 | 1 << 46
    return found | (layout.base & 7) << 49 | _MODES[layout.span] << 61


def lanes_of_rows(rows: int) -> Array:
    row = np.arange(rows)
    return row if rows == 128 else row // 16 * 32 + row % 16


def patterns(type_: str, shape: tuple[int, int], dice: np.random.Generator) -> Array:
    if type_ in _PARTS:
        return dice.integers(0, 1 << sum(_PARTS[type_]) + 1, shape, np.uint8)
    return oracle.patterns(type_, shape, dice, bool(dice.integers(2)))


def values(matrix: Array, type_: str) -> Array:
    """Return the numbers of a matrix of patterns."""
    if type_ not in _PARTS:
        return oracle.values(matrix, type_)
    exponent, fraction = _PARTS[type_]
    code, bias = matrix.astype(np.int64), (1 << exponent - 1) - 1
    e, f = code >> fraction & (1 << exponent) - 1, code & (1 << fraction) - 1
    size = np.where(e == 0, f * 2.0 ** (1 - bias - fraction), 0.0)
    size = np.where(e == 0, size, (f + (1 << fraction)) * 2.0 ** (e - bias - fraction))
    sign = np.where(code >> exponent + fraction, -1.0, 1.0)
    return (sign * size).astype(np.float32)


def pack(matrix: Array, type_: str, *, in_tensor: bool, whole: bool) -> Array:
    """Return rows of 32 bytes: two elements of 4 bits in each byte (``whole``); or 16 elements in
    each 16 bytes, from the first bit on, then unused bits; or in tensor memory a byte for each.
    """
    if whole:
        return (matrix[:, ::2] | matrix[:, 1::2] << 4).astype(np.uint8)
    if in_tensor:
        return (matrix << 2 if type_ == "e2m1" else matrix).astype(np.uint8)
    halves = matrix.shape[1] // 16
    width, found = sum(_PARTS[type_]) + 1, np.zeros((len(matrix), 16 * halves), np.uint8)
    for row, elements in enumerate(matrix):
        for half in range(halves):
            part = elements[16 * half : 16 * half + 16]
            number = sum(int(code) << width * n for n, code in enumerate(part))
            found[row, 16 * half : 16 * half + 16] = list(number.to_bytes(16, "little"))
    return found


def scales(codes: Array, product: Product, which: int, rows: int) -> Array:
    """Return the scales of a factor's rows; ``codes`` are the words of 32 lanes."""
    found = np.zeros((rows, product.scales))
    kind = "ue4m3" if product.exact else "ue8m0"
    for row, block in np.ndindex(found.shape):
        word = int(codes[row % 32, row // 32])
        code = word >> 8 * ((_scale_ids(product)[which] + block) % 4) & 0xFF
        found[row, block] = scaled_oracle.scale(code, kind)
    return found


def add_scaled(x: Array, y: Array, c: Array, scales_a: Array, scales_b: Array) -> Array:
    """Return C plus the product of X and Y (columns in rows) with a scale for each block of depth:
    the order of ``scaled_oracle``, for whole matrices.
    """
    blocks = scales_a.shape[1]
    each = x.shape[1] // blocks
    with np.errstate(all="ignore"):
        totals = c.astype(np.float64)
    for n in range(blocks):
        part = slice(n * each, (n + 1) * each)
        sums = oracle.product(x[:, part], y[:, part].T, np.zeros(c.shape, np.float32), "f32")
        with np.errstate(all="ignore"):
            both = scales_a[:, n, None] * scales_b[None, :, n]
            totals = totals + sums.astype(np.float64) * both
    with np.errstate(all="ignore"):
        found = totals.astype(np.float32)
    nan = np.uint32(scaled_oracle.CANONICAL).view(np.float32)
    return np.where(np.isnan(found), nan, found)


def words(matrix: Array, type_: str) -> Array:
    """Return the words of a matrix in tensor memory."""
    if type_ == "f16":
        with np.errstate(over="ignore"):
            halves = matrix.astype(np.float16)
        halves = np.where(np.isnan(halves), np.uint16(0x7FFF).view(np.float16), halves)
        return halves.view(np.uint16).astype(np.uint32)
    return np.ascontiguousarray(matrix).view(np.uint32)
