"""Sparse factors A and zero columns of B of tcgen05.mma, element by element.

Written from PTX ISA's "Sparse Matrices" and "Zero-Column Mask Descriptor"; it shares no code with
the compiler or the executors.
"""

import numpy as np

from support.oracles.matrix_oracle import Array

_LEGAL = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110)
_TF32 = (0b0100, 0b1110)
LANES = 128
ENABLED = 1 << 39


def random_codes(kind: str, rows: int, stored: int, dice: np.random.Generator) -> Array:
    """Return four bits for each chunk of each row of ``stored`` elements."""
    chunks = {"tf32": stored, "mxf4": stored // 4, "mxf4nvf4": stored // 4}.get(kind, stored // 2)
    return dice.choice(np.array(_TF32 if kind == "tf32" else _LEGAL), (rows, chunks))


def expand(stored: Array, codes: Array, kind: str) -> Array:
    """Return the whole factor, with zeros between the stored elements."""
    rows, count = stored.shape
    whole = np.zeros((rows, 2 * count), stored.dtype)
    width = 2 if kind in ("mxf4", "mxf4nvf4") else 1
    for row in range(rows):
        for chunk, code in enumerate(codes[row]):
            places = [int(code) & 3, int(code) >> 2]
            if kind == "tf32":
                whole[row, 2 * chunk + (places[0] == 2)] = stored[row, chunk]
                continue
            for n, place in enumerate(places):
                for i in range(width):
                    to = (4 * chunk + place) * width + i
                    whole[row, to] = stored[row, (2 * chunk + n) * width + i]
    return whole


def write_metadata(
    memory: Array, codes: Array, kind: str, lanes: Array, column: int, parts: int
) -> None:
    """Store the codes of a block's rows in its tensor memory, once for each part of D's columns.

    ``lanes`` are those of the rows, part by part.
    """
    rows = len(codes)
    for part, row, chunk in np.ndindex(parts, rows, codes.shape[1]):
        code = int(codes[row, chunk])
        if kind in ("f16", "tf32"):
            half, inside = divmod(chunk, 4)
            group, place = divmod(row, 16)
            lane = lanes[part * rows + 16 * group + 8 * half + place % 8]
            at, bit = column, 4 * inside + 16 * (place // 8)
        else:
            lane, (word, inside) = lanes[part * rows + row], divmod(chunk, 8)
            at, bit = column + word, 4 * inside
        memory[lane, at] = int(memory[lane, at]) & ~(15 << bit) | code << bit


def random_zeros(dice: np.random.Generator) -> int:
    """Return a descriptor of zero columns."""
    starts = sum(int(dice.integers(24)) << 8 * n for n in range(4))
    spans = int(dice.integers(12)) << 40 | int(dice.integers(12)) << 48
    return starts | int(dice.integers(16)) << 32 | ENABLED | spans


def zero_columns(descriptor: int, columns: int, parts: int) -> Array:
    """Return whether each column of B is zeros."""
    found = np.zeros(columns, bool)
    if not descriptor & ENABLED:
        return found
    used, zeros = (descriptor >> 40 & 255) + 1, (descriptor >> 48 & 255) + 1
    each = columns // parts
    for part in range(parts):
        zero = bool(descriptor >> 32 + part & 1)
        left = zeros if zero else used
        for _ in range(descriptor >> 8 * part & 255):
            left -= 1
            if left == 0:
                zero = not zero
                left = zeros if zero else used
        for n in range(each):
            found[part * each + n] = zero
            left -= 1
            if left == 0:
                zero = not zero
                left = zeros if zero else used
    return found
