"""Tensor maps as bytes, and the bytes that a copy must move, computed with NumPy.

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
PACKED = {13: 1, 14: 8, 15: 12}
"""Types of packed elements, and the bytes of an item of them in global memory."""
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
    interleave: int = 0
    atomicity: int = 0
    access: int = 0  # 1 im2col, 2 im2col::w, 3 im2col::w::128
    pixels: int = 0
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    @property
    def item(self) -> int:
        """The bytes of an element, of two of 4 bits, or of 16 of a type with padding."""
        return PACKED.get(self.type) or DTYPES[self.type].itemsize

    @property
    def elements_of_item(self) -> int:
        return {13: 2, 14: 16, 15: 16}.get(self.type, 1)

    @property
    def pitch_of_item(self) -> int:
        """The bytes between items in shared memory."""
        return 16 if self.type in (14, 15) else self.item

    @property
    def counts(self) -> tuple[int, ...]:
        rest = zip(self.box[1:], self.steps[1:], strict=False)
        return (self.box[0], *(-(-size // step) for size, step in rest))

    @property
    def row_items(self) -> int:
        return self.box[0] // self.elements_of_item

    @property
    def transaction_bytes(self) -> int:
        """The number of bytes that complete a load of a box."""
        return int(np.prod(self.counts[1:], dtype=int)) * self.row_items * self.item

    @property
    def pitch(self) -> int:
        return SPANS[self.swizzle] or self.row_items * self.pitch_of_item

    def encode(self) -> bytes:
        rank = len(self.sizes)
        pad = [0] * (5 - rank)
        box = [*self.box, *[0] * (5 - len(self.box))]
        corners = [[*corner, *[0] * (3 - len(corner))] for corner in (self.lower, self.upper)]
        return (
            struct.pack("<Q4Q", self.address, *self.strides, *[0] * (5 - rank))
            + struct.pack("<5I", *(size - 1 for size in self.sizes), *pad)
            + struct.pack("<5H", *box)
            + struct.pack("<5B", *self.steps, *pad)
            + struct.pack("<5B", rank - 1, self.type, self.interleave, self.swizzle, self.fill)
            + struct.pack("<BxBxH", self.atomicity, self.access, self.pixels)
            + struct.pack("<6h", *corners[0], *corners[1])
        ).ljust(128, b"\0")

    def swizzle_address(self, address: int) -> int:
        """Return where a byte is stored whose address without a swizzle is ``address``."""
        line = address >> 7
        if not self.swizzle:
            return address
        if self.atomicity == 0:
            return address ^ (line & (SPANS[self.swizzle] // 16 - 1)) << 4
        if self.atomicity == 3:
            return address ^ (line & 1) << 6
        flipped = (line & 1) << 3 if self.atomicity == 2 else 0
        return address ^ (line & 3) << 5 ^ flipped

    def rows(self, at: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the coordinates of each row of the box at ``at``, in dimensions 1 and later."""
        outer = [range(count) for count in reversed(self.counts[1:])]
        return [
            tuple(at[n + 1] + k * self.steps[n + 1] for n, k in enumerate(reversed(reverse)))
            for reverse in itertools.product(*outer)
        ]

    def elements(self, at: Sequence[int], shared: int) -> list[tuple[int, int | None]]:
        """Return for each item of the box at ``at``: its address in shared memory, and its
        offset in the tensor, None if it is outside.
        """
        return self.items(at[0], self.rows(at), shared)

    def items(
        self, first: int, rows: Sequence[Sequence[int]], shared: int
    ) -> list[tuple[int, int | None]]:
        """Return what ``elements`` does, for rows that begin at ``first`` in dimension 0."""
        found: list[tuple[int, int | None]] = []
        for row, places in enumerate(rows):
            offset = sum(p * s for p, s in zip(places, self.strides, strict=True))
            inside = all(0 <= p < s for p, s in zip(places, self.sizes[1:], strict=True))
            for column in range(self.row_items):
                x = first + column * self.elements_of_item
                address = self.swizzle_address(
                    shared + row * self.pitch + column * self.pitch_of_item
                )
                ok = inside and 0 <= x < self.sizes[0]
                found.append((address, offset + self._place(x) if ok else None))
        return found

    def _place(self, x: int) -> int:
        """Return the offset of the element with the coordinate ``x`` in dimension 0."""
        place = x // self.elements_of_item * self.item
        if not self.interleave:
            return place
        channels, image = 8 << self.interleave, self.strides[-2] * self.sizes[-2]
        return place // channels * image + place % channels

    def filling(self) -> bytes:
        """Return the bytes of an element outside of the tensor."""
        if not self.fill:
            return bytes(self.pitch_of_item)
        return bytes([0xFF] * (self.item - 1) + [0x7F])


def four_rows(numbers: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the rows of gather4 and scatter4."""
    return [(number,) for number in numbers]


def columns(
    tensor: TensorMap, at: Sequence[int], offsets: Sequence[int], halo: int = 0
) -> list[tuple[int, ...]]:
    """Return the coordinates of each pixel, in dimensions 1 and later, that an im2col copy moves.

    ``offsets`` are those of the images' dimensions; in wide modes one of the width.
    """
    count = {1: tensor.pixels, 2: tensor.pixels + halo, 3: 128 + halo}[tensor.access]
    image = range(len(tensor.sizes) - 2) if tensor.access == 1 else range(1)
    place, walked = list(at[1:]), list[tuple[int, ...]]()
    for _ in range(count):
        moved = list(place)
        for n in image:
            moved[n] += offsets[n]
        walked.append(tuple(moved))
        for n in image:
            place[n] += tensor.steps[n + 1]
            if place[n] <= tensor.sizes[n + 1] - 1 + tensor.upper[n]:
                break
            place[n] = tensor.lower[n]
        else:
            place[-1] += 1
    if tensor.access != 3:
        return walked
    groups = [walked[32 * (group + 1) + h] for h in range(halo) for group in range(4)]
    return walked[:128] + groups
