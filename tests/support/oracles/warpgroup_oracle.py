"""Matrices in shared memory as descriptors of wgmma describe them, by PTX ISA's layouts.

Written from "Shared Memory Matrix Layout" and "Matrix Descriptor Format"; it shares no code with
the compiler.
"""

from dataclasses import dataclass

import numpy as np

from support.oracles.matrix_oracle import Array

MODES = {0: 0, 32: 3, 64: 2, 128: 1}
"""The descriptor's code of each swizzle span in bytes."""
UNIT = 16


@dataclass(frozen=True)
class Layout:
    """Where a matrix is in shared memory: ``span`` is the swizzle's, 0 for none."""

    span: int
    across: bool  # elements are contiguous along M or N
    start: int
    leading: int
    stride: int
    base: int = 0  # in lines of 128 bytes

    @property
    def descriptor(self) -> int:
        found = (self.start & 0x3FFFF) >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32
        return found | self.base << 49 | MODES[self.span] << 62

    def place(self, outer: int, byte: int, element_bytes: int) -> int:
        """Return the address of an element of row or column ``outer``, ``byte`` bytes along K."""
        line = max(self.span, UNIT)
        if self.across:
            k = byte // element_bytes
            chunk, inside = divmod(outer * element_bytes, UNIT)
            atom, unit = divmod(chunk, line // UNIT)
            beside, along = self.leading, self.stride
            if not self.span:
                beside, along = along, beside
            linear = k // 8 * along + k % 8 * line + atom * beside + unit * UNIT + inside
        else:
            unit, inside = divmod(byte, UNIT)
            step = UNIT if self.span else self.leading
            linear = outer // 8 * self.stride + outer % 8 * line + unit * step + inside
        address = self.start + linear
        bits = {0: 0, 32: 1, 64: 3, 128: 7}[self.span]
        pattern = address - 128 * self.base
        return address ^ ((pattern >> 7 & bits) << 4)


def write(memory: bytearray, layout: Layout, matrix: Array, bits: int) -> None:
    """Store a matrix of patterns, of shape (outer, K), where the descriptor names its elements."""
    if bits < 8:
        each = 8 // bits
        numbers = matrix.astype(np.uint8).reshape(len(matrix), -1, each)
        matrix, bits = (numbers << np.arange(each, dtype=np.uint8)).sum(-1).astype(np.uint8), 8
    size = bits // 8
    for outer in range(matrix.shape[0]):
        for k in range(matrix.shape[1]):
            at = layout.place(outer, k * size, size)
            memory[at : at + size] = matrix[outer, k].tobytes()


def random_layout(
    dice: np.random.Generator,
    span: int,
    across: bool,
    outer: int,
    element_bytes: int,
    start: int,
    chunks: int = 2,
) -> tuple[Layout, int]:
    """Return a layout of a matrix from about ``start`` on, and the first byte after it.

    ``chunks`` is the number of rows of 16 bytes along K, or of eight elements there. A swizzled
    line along K must have room for them.
    """
    line = max(span, UNIT)
    period = 8 * line if span else 128
    begin, base = -(-start // period) * period, 0
    if span and dice.integers(2):
        base = int(dice.integers(8)) * (line // 16) // 8  # a pattern that begins between periods
        begin += 128 * base
    atom = 8 * line
    pad = UNIT if not span else period
    if across:
        atoms = -(-outer * element_bytes // line)
        inner = atom + pad * int(dice.integers(2))
        # the atoms of M or N, then those of K, or the other way round
        first, second = inner, inner * atoms + pad * int(dice.integers(2))
        if dice.integers(2):
            second, first = inner, inner * chunks + pad * int(dice.integers(2))
        beside, along = first, second
        end = begin + beside * (atoms - 1) + along * (chunks - 1) + atom
        leading, stride = (beside, along) if span else (along, beside)
    else:
        move = (
            int(dice.integers(line // (16 * chunks))) * 16 * chunks if span else 0
        )  # K steps inside a line
        stride = atom + pad * int(dice.integers(2))
        leading = UNIT
        if not span:
            stride, leading = chunks * atom + UNIT * int(dice.integers(2)), atom
            if dice.integers(2):
                stride, leading = atom, atom * (outer // 8) + UNIT * int(dice.integers(2))
        end = begin + stride * (outer // 8 - 1) + (leading * (chunks - 1) if not span else 0) + atom
        begin += move
    return Layout(span, across, begin, leading, stride, base), end + 128
