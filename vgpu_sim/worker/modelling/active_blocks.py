"""The blocks of a grid that execute an instruction, extrapolated from those of a sample that do.

A grid is often larger than its data, and the blocks beyond the data end early. How many blocks
execute an instruction follows from its exact count. They are assumed to be adjacent, unless the
sampled neighbours of active blocks are not active.
"""

from collections.abc import Sequence
from math import ceil, prod

from vgpu_sim.exec.errors import Block
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """The active blocks of a grid: ``shape`` is that of adjacent blocks from ``begin`` on. Of each
    ``every`` blocks on the x axis one is active. ``growth`` is the ratio of the accesses of an
    average active block to those of the sampled ones. ``is_partial`` is set if sampled blocks are
    not active.
    """

    begin: Block
    shape: Block
    every: int
    growth: float
    is_partial: bool

    @property
    def blocks(self) -> int:
        """The number of active blocks."""
        return prod(self.shape)


def part_of(
    grid: Block,
    blocks: int,
    active: Sequence[Block],
    sampled: Sequence[Block],
    counted: float,
    *,
    is_complete: bool,
) -> Part:
    """Return the active part of ``grid``, which is the whole launch of ``blocks`` blocks or a wave
    of it.

    ``active`` are the sampled blocks that execute the instruction. ``counted`` is the number of
    blocks that would execute it as often as they do, to give its count in the launch. If the sample
    ended early (not ``is_complete``), a sampled block may execute it more often than was sampled;
    the share of active blocks is then that of the sample.
    """
    if len(active) == len(sampled):
        return Part((0, 0, 0), grid, 1, counted / blocks, is_partial=False)
    if is_complete:
        share = min(1.0, max(counted, len(active)) / blocks)
    else:
        share = len(active) / len(sampled)
    shape = _shape(grid, max(1, round(share * prod(grid))))
    begin = [
        max(0, min(min(place[axis] for place in active), grid[axis] - shape[axis]))
        for axis in range(3)
    ]
    every = 1
    if max(grid) == grid[0] == prod(grid) and not _has_neighbours(active, sampled):
        every = max(1, int(1 / share))
        begin[0] = min(place[0] for place in active) % every
    return Part(
        (begin[0], begin[1], begin[2]),
        shape,
        every,
        max(1.0, counted / (share * blocks)),
        is_partial=True,
    )


def _has_neighbours(active: Sequence[Block], sampled: Sequence[Block]) -> bool:
    """Return False if active blocks have sampled neighbours on the x axis, and none is active."""
    active_x = {place[0] for place in active}
    beside = {at + step for at in active_x for step in (1, -1)} & {place[0] for place in sampled}
    return not beside or bool(beside & active_x)


def _shape(grid: Block, count: int) -> Block:
    """Return the shape of at least ``count`` adjacent blocks of a grid: x grows first."""
    x = min(grid[0], count)
    y = min(grid[1], ceil(count / x))
    z = min(grid[2], ceil(count / (x * y)))
    return x, y, z
