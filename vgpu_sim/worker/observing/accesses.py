"""Computes what warps' accesses cost in caches and banks: sectors, lines and bank conflicts.

Each function takes two arrays with one element per accessing lane: the lane's warp, and the
address or sector that it accesses.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
SECTOR_BITS: Final = 5
SECTORS_A_LINE: Final = 4
BANKS: Final = 32
_BANK_BYTES: Final = 4
_WARP_SHIFT: Final = 43  # above every sector and word


def sectors_of(warps: Numbers, addresses: Numbers) -> tuple[Numbers, Numbers]:
    """Return the 32-byte sectors that each warp accesses, without repetitions, as arrays of warps
    and of sectors.
    """
    keys = np.unique(warps << _WARP_SHIFT | addresses >> SECTOR_BITS)
    return keys >> _WARP_SHIFT, keys & ((1 << _WARP_SHIFT) - 1)


def interleave(addresses: Numbers, lanes: Numbers, width: int) -> tuple[Numbers, Numbers]:
    """Return where the words of accesses to local memory are, as places in a warp's memory and as
    indices of the accesses. Words of 4 bytes at one address are adjacent, in the order of lanes, so
    that lanes with different addresses access different lines.
    """
    words = max(1, width // _BANK_BYTES)
    first = np.repeat(addresses // _BANK_BYTES, words) + np.tile(np.arange(words), len(addresses))
    which = np.repeat(np.arange(len(addresses)), words)
    return (first * BANKS + lanes[which]) * _BANK_BYTES, which


def wavefronts_of(warps: Numbers, sectors: Numbers) -> int:
    """Return how many cycles these accesses take in the first-level cache's data stage, which looks
    up one line at a time and transfers four sectors.
    """
    count = int(warps.max()) + 1 if len(warps) else 0
    lines = np.unique(warps << _WARP_SHIFT | sectors >> 2) >> _WARP_SHIFT
    by_line = np.bincount(lines, minlength=count)
    by_sector = -(-np.bincount(warps, minlength=count) // SECTORS_A_LINE)
    return int(np.maximum(by_line, by_sector).sum())


def steps_of(
    warps: Numbers, addresses: Numbers, *, warps_together: int = 1
) -> tuple[Numbers, Numbers, Numbers]:
    """Return in how many steps L2 performs atomic updates, as arrays of warps, sectors and steps: a
    sector takes as many steps as lanes update the same word of it.

    ``warps_together`` is the number of warps of a block if the hardware's compiler adds up a warp's
    values for one address first, and otherwise 1. It does so if the address is the same in a block.
    """
    words = warps << _WARP_SHIFT + 3 | addresses >> 2
    distinct, lanes = np.unique(words, return_counts=True)
    blocks = distinct >> _WARP_SHIFT + 3
    blocks //= warps_together
    places = blocks << _WARP_SHIFT + 3 | distinct & ((1 << _WARP_SHIFT + 3) - 1)
    if warps_together > 1 and len(np.unique(places)) == len(np.unique(blocks)):
        lanes = np.ones(len(distinct), dtype=np.int64)
    sectors, first = np.unique(distinct >> 3, return_index=True)
    steps = np.maximum.reduceat(lanes, first)
    return sectors >> _WARP_SHIFT, sectors & ((1 << _WARP_SHIFT) - 1), steps


def conflicts_of(
    warps: Numbers, addresses: Numbers, width_bytes: int, *, updates: bool = False
) -> tuple[int, int]:
    """Return how many cycles the accesses to shared memory take: first with bank conflicts, then as
    if there were no conflicts.

    In one cycle, a bank returns one word of four bytes to all lanes that request it. With
    ``updates`` (atomic operations), a bank serves lanes one by one.
    """
    if not len(warps):
        return 0, 0
    words = addresses // _BANK_BYTES
    parts = max(1, width_bytes // _BANK_BYTES)
    if parts > 1:
        words = (words[:, None] + np.arange(parts)).reshape(-1)
        warps = np.repeat(warps, parts)
    keys = warps << _WARP_SHIFT | words
    distinct = np.unique(keys)
    count = int(warps.max()) + 1
    fewest = -(-np.bincount(distinct >> _WARP_SHIFT, minlength=count) // BANKS)
    requests = keys if updates else distinct
    places = (requests >> _WARP_SHIFT) * BANKS + (requests & (BANKS - 1))
    by_bank = np.bincount(places, minlength=count * BANKS).reshape(count, BANKS)
    return int(by_bank.max(axis=1).sum()), int(fewest.sum())
