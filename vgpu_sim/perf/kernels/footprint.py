"""Estimates the bytes that a whole grid touches, from a few blocks at power-of-two distances.

Blocks that share data are seldom neighbours in only one direction. For example, blocks in a row
of tiles share one operand and blocks in a column share the other. The shared part is therefore
measured for each buffer and axis.
"""

import random
from collections.abc import Mapping, Sequence
from math import log, prod
from typing import Final

import numpy as np

Shape = tuple[int, int, int]
# By distance in blocks: the share of a block's bytes that both blocks touch.
Overlaps = Mapping[int, float]
_POINTS: Final = 400  # points at which the sum over distances is computed
_SCARCE: Final = 1e-3  # share of common bytes that is regarded as noise
_HALVINGS: Final = 50
_DRAWN: Final = 4  # least number of randomly chosen blocks, if the grid has enough blocks
_PROBES: Final = (1, 2, 4, 16, 128, 1024, 16384)


def blocks_to_sample(grid: Shape, limit: int) -> list[Shape]:
    """Choose at most ``limit`` blocks of a grid as a sample; return their positions in the grid.

    The sample consists of the middle block, other blocks at power-of-two distances from the
    middle block on each axis, and the first and the last block. Further blocks are drawn at
    random. The sample is always the same for a grid.
    """
    middle = (grid[0] // 2, grid[1] // 2, grid[2] // 2)
    sample = [middle]
    for distance in _PROBES:
        for axis in range(3):
            for sign in (1, -1):
                at = middle[axis] + sign * distance
                if 0 <= at < grid[axis]:
                    place = list(middle)
                    place[axis] = at
                    sample.append((place[0], place[1], place[2]))
                    break
    sample = sample[: max(1, limit - _DRAWN - 2)]
    for corner in ((0, 0, 0), (grid[0] - 1, grid[1] - 1, grid[2] - 1)):
        if len(sample) < limit and corner not in sample:
            sample.append(corner)
    draws = random.Random(repr(grid))
    for _ in range(4 * _DRAWN):
        if len(sample) < limit:
            drawn = (draws.randrange(grid[0]), draws.randrange(grid[1]), draws.randrange(grid[2]))
            if drawn not in sample:
                sample.append(drawn)
    return sample


def bytes_touched(each: float, grid: Shape, overlaps: Sequence[Overlaps]) -> float:
    """Return how many bytes the blocks of ``grid`` touch together. ``each`` is the number of bytes
    that one block touches. A byte that several blocks touch counts once.

    There are two estimates, and the larger one is returned. The first divides the bytes of all
    blocks by the mean number of blocks that touch a byte. The second counts for each block only
    the bytes that the preceding block does not touch; it is better if only neighbouring blocks
    share bytes.
    """
    shared = prod(
        _sharers(size, axis_overlaps) for size, axis_overlaps in zip(grid, overlaps, strict=True)
    )
    new = prod(
        _new(size, axis_overlaps) for size, axis_overlaps in zip(grid, overlaps, strict=True)
    )
    return each * max(prod(grid) / shared, new)


def bytes_touched_at_random(each: float, union: float, sampled: int, blocks: int) -> float:
    """Return how many different bytes the blocks of a launch touch together, if each block touches
    bytes at random places of a common memory.

    ``each`` is the number of bytes that one block touches, and ``blocks`` is the number of blocks.
    The size of the common memory is estimated from a sample. ``sampled`` is the number of sampled
    blocks, and ``union`` is the number of different bytes that they touched together.
    """
    if union >= sampled * each * (1 - _SCARCE):
        return blocks * each
    low, high = union, union / _SCARCE  # size of that memory
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle * (1 - (1 - min(1.0, each / middle)) ** sampled) < union:
            low = middle
        else:
            high = middle
    return high * (1 - (1 - min(1.0, each / high)) ** blocks)


def _sharers(size: int, overlap_shares: Overlaps) -> float:
    """Return how many of ``size`` blocks in a row touch a byte, on average."""
    if size == 1 or not overlap_shares:
        return 1.0
    distances = sorted(overlap_shares)
    last = size - 1
    steps = np.unique(np.round(np.geomspace(1, last, _POINTS)).astype(np.int64))
    share = np.interp(
        np.log(steps),
        [log(distance) for distance in distances],
        [overlap_shares[distance] for distance in distances],
    )
    edges = np.concatenate((steps, [last + 1]))
    weight = np.diff(edges) * (1 - (edges[:-1] + edges[1:] - 1) / 2 / size)
    return float(min(size, 1 + 2 * np.sum(weight * share)))


def _new(size: int, overlap_shares: Overlaps) -> float:
    return 1 + (size - 1) * (1 - overlap_shares.get(1, 0.0))
