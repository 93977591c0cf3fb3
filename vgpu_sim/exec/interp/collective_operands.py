"""The operands of a collective, in rows of 32 lanes, one warp each."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Bits, Mask
from vgpu_sim.records import dataclass

U32 = NDArray[np.uint32]
Results = tuple[Bits | Mask, ...]
"""The results of a collective: for each destination of the instruction, rows of lanes or one value
per warp.
"""
LANES: Final = np.arange(WARP_LANES)


@dataclass(frozen=True, slots=True)
class CollectiveOperands:
    """A collective's operands (integers, and predicates) for some warps, in rows of 32 lanes.

    ``first`` is the index of the first row's warp among all warps that run together.
    """

    numbers: tuple[Bits, ...]
    flag: Mask
    first: int = 0

    def row(self, row: int) -> "CollectiveOperands":
        """Return the operands of the warp in one row."""
        at = slice(row, row + 1)
        numbers = tuple(number[at] for number in self.numbers)
        return CollectiveOperands(numbers, self.flag[at], self.first + row)

    def replace_lanes(self, source: "CollectiveOperands", lanes: Mask) -> "CollectiveOperands":
        """Return a copy of these operands in which those of ``lanes`` are taken from ``source``."""
        pairs = zip(source.numbers, self.numbers, strict=True)
        numbers = tuple(np.where(lanes, new, old) for new, old in pairs)
        return CollectiveOperands(numbers, np.where(lanes, source.flag, self.flag), self.first)


def pack_lane_bits(rows: Mask) -> U32:
    """Return the set lanes of each row as a bit mask."""
    result: U32 = np.packbits(rows, axis=-1, bitorder="little").view("<u4")[..., 0]
    return result


def rows_of(values: Bits, lanes: Lanes) -> Bits:
    """Reshape the values of all lanes, or one value common to them, to rows of 32 lanes."""
    return np.broadcast_to(values, (lanes.lanes,)).reshape(-1, WARP_LANES)
