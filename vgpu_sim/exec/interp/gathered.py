"""What lanes bring to a collective: operands in rows of 32 lanes, one warp each."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Bits, Mask

U32 = NDArray[np.uint32]
Results = tuple[Bits | Mask, ...]
"""What lanes get: for each destination of the word rows, or one number for each warp."""
LANES: Final = np.arange(WARP_LANES)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Operands of the lanes of some warps, rows of 32: numbers, and predicates.

    ``first`` is the warp, among all that run together, that the first row is of.
    """

    numbers: tuple[Bits, ...]
    flag: Mask
    first: int = 0

    def row(self, row: int) -> "Gathered":
        """Return one warp's alone."""
        at = slice(row, row + 1)
        numbers = tuple(number[at] for number in self.numbers)
        return Gathered(numbers, self.flag[at], self.first + row)

    def replaced(self, other: "Gathered", lanes: Mask) -> "Gathered":
        """Return these with some lanes' from ``other``."""
        pairs = zip(other.numbers, self.numbers, strict=True)
        numbers = tuple(np.where(lanes, new, old) for new, old in pairs)
        return Gathered(numbers, np.where(lanes, other.flag, self.flag), self.first)


def bits_of(rows: Mask) -> U32:
    """Return each row's lanes as the bits of a number."""
    result: U32 = np.packbits(rows, axis=-1, bitorder="little").view("<u4")[..., 0]
    return result


def rows_of(values: Bits, lanes: Lanes) -> Bits:
    """Return what each lane has, or all have, in rows."""
    return np.broadcast_to(values, (lanes.lanes,)).reshape(-1, WARP_LANES)
