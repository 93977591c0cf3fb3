"""Tensor maps as bytes, and the bytes that a copy of a box must move, computed with NumPy.

Written from CUDA's description of tensor maps; it shares nothing with the compiler's code.
"""

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DTYPES = {
    0: np.dtype("u1"), 1: np.dtype("u2"), 2: np.dtype("u4"), 3: np.dtype("i4"), 4: np.dtype("u8"),
    5: np.dtype("i8"), 6: np.dtype("f2"), 7: np.dtype("f4"), 9: np.dtype("f8"), 10: np.dtype("u2"),
}  # fmt: skip
SPANS = (0, 32, 64, 128)
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class TensorMap:
    """The arguments of cuTensorMapEncodeTiled, with element types as PTX numbers them."""

    address: int
    type: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes, from dimension 1 on
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int = 0
    fill: int = 0

    @property
    def item(self) -> int:
        return DTYPES[self.type].itemsize

    @property
    def counts(self) -> tuple[int, ...]:
        rest = zip(self.box[1:], self.steps[1:], strict=True)
        return (self.box[0], *(-(-size // step) for size, step in rest))

    @property
    def transaction_bytes(self) -> int:
        """The number of bytes that complete a load of a box."""
        return int(np.prod(self.counts)) * self.item

    @property
    def pitch(self) -> int:
        return SPANS[self.swizzle] or self.box[0] * self.item

    def encode(self) -> bytes:
        rank = len(self.sizes)
        pad = [0] * (5 - rank)
        return (
            struct.pack("<Q4Q", self.address, *self.strides, *[0] * (5 - rank))
            + struct.pack("<5I", *(size - 1 for size in self.sizes), *pad)
            + struct.pack("<5H", *self.box, *pad)
            + struct.pack("<5B", *self.steps, *pad)
            + struct.pack("<5B", rank - 1, self.type, 0, self.swizzle, self.fill)
        ).ljust(128, b"\0")

    def elements(self, at: Sequence[int], shared: int) -> list[tuple[int, int | None]]:
        """Return for each element of the box at ``at``: its address in shared memory, and its
        offset in the tensor, None if it is outside.
        """
        found: list[tuple[int, int | None]] = []
        outer = [range(count) for count in reversed(self.counts[1:])]
        for row, reverse in enumerate(itertools.product(*outer)):
            places = [at[n + 1] + k * self.steps[n + 1] for n, k in enumerate(reversed(reverse))]
            offset = sum(p * s for p, s in zip(places, self.strides, strict=True))
            inside = all(0 <= p < s for p, s in zip(places, self.sizes[1:], strict=True))
            for column in range(self.counts[0]):
                x = at[0] + column
                address = shared + row * self.pitch + column * self.item
                if self.swizzle:
                    chunk = address >> 4
                    chunk ^= (address >> 7) & (SPANS[self.swizzle] // 16 - 1)
                    address = chunk << 4 | address & 15
                ok = inside and 0 <= x < self.sizes[0]
                found.append((address, offset + x * self.item if ok else None))
        return found

    def filling(self) -> bytes:
        """Return the bytes of an element outside of the tensor."""
        if not self.fill:
            return bytes(self.item)
        return bytes([0xFF] * (self.item - 1) + [0x7F])
