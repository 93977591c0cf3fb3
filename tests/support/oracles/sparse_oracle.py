"""Matrices of which two units in four are stored, and their metadata by PTX ISA's figures.

It shares no code with the compiler.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
ROWS: Final = 16


def choose_places(units: int, together: bool, dice: np.random.Generator) -> Array:
    """Return for each row and group of four units the places of the two stored ones, in order."""
    pairs = np.array([(0, 1), (2, 3)] if together else [(i, k) for k in range(4) for i in range(k)])
    return pairs[dice.integers(0, len(pairs), (ROWS, units // 4))]


def stored_mask(places: Array, each: float) -> Array:
    """Return a mask of the elements that are stored, where a unit has ``each`` elements."""
    kept = np.zeros((ROWS, 4 * places.shape[1]), np.bool_)
    for row, group, n in np.ndindex(places.shape):
        kept[row, 4 * group + places[row, group, n]] = True
    if each < 1:  # two units are one element
        return kept[:, ::2]
    return np.repeat(kept, int(each), axis=1)


def metadata_words(places: Array, unit_bits: int, selector: int, noise: Array) -> Array:
    """Return a warp's registers of metadata (PTX ISA, the figures of metadata for mma.sp)."""
    words = noise.copy()
    groups = places.shape[1]
    nibbles = places[..., 0] | places[..., 1] << 2
    for row in range(ROWS):
        for group in range(groups):
            if unit_bits == 16:
                threads, own = groups // 4, group // 4
                first = 16 * (row // 8) + 4 * (group % 4)
            else:
                threads, own = groups // 4, 2 * (group // 8) + row // 8
                first = 4 * (group % 8)
            lane = 4 * (row % 8) + threads * selector + own
            words[lane] &= np.uint32(0xFFFF_FFFF ^ (15 << first))
            words[lane] |= np.uint32(int(nibbles[row, group]) << first)
    return words.reshape(32, 1)
