"""The division of a block's threads into vectors of lanes, and of vectors into groups.

Threads are numbered in linear order, x fastest. A vector of lanes consists of ``width``
consecutive threads of one row; a group consists of ``vectors`` consecutive vectors, interleaved
in one execution of the code. The thread indices of all lanes are known at compile time up to one
scalar base per group, which requires that groups nest with rows (and with planes).

Otherwise a block may be *padded* with lanes that are not threads and that a mask disables.
Either each row is padded to whole vectors, or the threads form one long row (if all but one axis
have size 1 they do already; else a lane's indices are computed at run time).
"""

import functools
from collections.abc import Callable, Iterator
from enum import IntEnum

from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.records import dataclass

MAX_WIDTH = 16
MAX_VECTORS = 16
MAX_WHOLE_VECTORS = 64  # for a group that is a whole block of 1024 threads

Rows = tuple[tuple[int, ...], ...]


class Padding(IntEnum):
    """Where a block has padding lanes: nowhere, at the end of each row, or after the last thread.

    With padding at the end of rows, each row consists of whole vectors. With padding after the
    last thread, the block is one long row of threads, which consists of whole groups.
    """

    NONE = 0
    ROWS = 1
    LINE = 2


@dataclass(frozen=True, slots=True)
class Axis:
    """The thread indices of a group's lanes on one axis. They are ``rows[vector][lane]`` plus the
    group's base, a multiple of ``align``.

    ``align`` is None if the base is 0 in every group.
    """

    rows: Rows
    align: int | None


@dataclass(frozen=True, slots=True)
class Geometry:
    """A block shape divided into groups of ``vectors`` vectors of ``width`` lanes."""

    block: tuple[int, int, int]
    width: int
    vectors: int
    padding: Padding = Padding.NONE

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def padded(self) -> tuple[int, int, int]:
        """The size of the block in x, y and z, including padding."""
        x, y, z = self.block
        if self.padding == Padding.ROWS:
            return _round_up(x, self.width), y, z
        if self.padding == Padding.LINE:
            return _round_up(self.threads, self.span), 1, 1
        return self.block

    @property
    def slots(self) -> int:
        """The total number of lanes in all groups of a block."""
        x, y, z = self.padded
        return x * y * z

    @property
    def lacks_lanes(self) -> bool:
        """Return whether some group has padding lanes."""
        return self.slots > self.threads

    @property
    def always_lacks(self) -> bool:
        """Return whether every group has padding lanes, so that no group is whole."""
        return self.lacks_lanes and (self.groups == 1 or self.span % self.padded[0] == 0)

    @property
    def linear(self) -> bool:
        """Return whether consecutive lanes are consecutive threads, across all rows."""
        return self.padding != Padding.ROWS

    @property
    def span(self) -> int:
        """The number of lanes of one group."""
        return self.width * self.vectors

    @property
    def groups(self) -> int:
        return self.slots // self.span

    @property
    def is_legal(self) -> bool:
        """Return whether the geometry is legal. Each vector must stay within a row. Each row must
        consist of whole groups, or each group of whole rows; the same must hold for planes. A
        padded geometry must also be worthwhile.
        """
        if self.padding != Padding.NONE and not self._worth_padding():
            return False
        x, y, _ = self.padded
        if x % self.width or self.slots % self.span:
            return False
        if self.groups == 1 or x % self.span == 0:
            return True
        if self.span % x:
            return False
        rows = self.span // x
        return y % rows == 0 or rows % y == 0

    @property
    def whole_warps(self) -> bool:
        """Return whether each warp is contained in one group."""
        return self.linear and (self.groups == 1 or self.span % WARP_THREADS == 0)

    def _worth_padding(self) -> bool:
        x, y, z = self.block
        if self.width == 1:
            return False
        if self.padding == Padding.ROWS:
            return y * z > 1 and x % self.width > 0 and _round_up(x, self.width) <= 2 * x
        powers = not self.vectors & (self.vectors - 1)
        return powers and self.threads > 1 and self.span <= _round_up(self.threads, self.width)

    def axes(self) -> tuple[Axis | None, ...]:
        """The thread indices x, y and z of a group's lanes.

        An axis is None if its indices are not known in this form.
        """
        if self.padding == Padding.LINE:
            return self._axes_of_line()
        x, y, z = self.padded
        linear = self._rows(lambda thread: thread)
        rows = (
            self._rows(lambda thread: thread % x),
            self._rows(lambda thread: thread // x % y),
            self._rows(lambda thread: thread // (x * y)),
        )
        if self.groups == 1:
            return Axis(rows[0], None), Axis(rows[1], None), Axis(rows[2], None)
        outer = Axis(rows[2], None if z == 1 else 1)
        if x % self.span == 0:
            along = None if x == self.span else self.span
            return Axis(linear, along), Axis(rows[1], None if y == 1 else 1), outer
        height = self.span // x
        if y % height == 0:
            return Axis(rows[0], None), Axis(rows[1], None if y == height else height), outer
        return Axis(rows[0], None), Axis(rows[1], None), Axis(rows[2], height // y)

    def _axes_of_line(self) -> tuple[Axis | None, ...]:
        zeros = Axis(self._rows(lambda thread: 0), None)
        line = Axis(self._rows(lambda thread: thread), None if self.groups == 1 else self.span)
        alone = sum(size > 1 for size in self.block) == 1
        return tuple(zeros if size == 1 else line if alone else None for size in self.block)

    def _rows(self, function: Callable[[int], int]) -> Rows:
        return tuple(
            tuple(function(part * self.width + lane) for lane in range(self.width))
            for part in range(self.vectors)
        )


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


@functools.lru_cache(maxsize=64)  # each compilation enumerates them several times
def legal_geometries(block: tuple[int, int, int]) -> tuple[Geometry, ...]:
    """Return all geometries of ``block`` whose width is a power of two up to 16, with up to 16
    vectors per group.

    A geometry with padding is included only if the same geometry without padding is not legal. A
    group may have more than 16 vectors only if it is the whole block and has the largest width.
    """
    return tuple(_legal_geometries(block))


def _legal_geometries(block: tuple[int, int, int]) -> Iterator[Geometry]:
    width = 1
    while width <= MAX_WIDTH:
        for vectors in range(1, MAX_VECTORS + 1):
            geometry = Geometry(block, width, vectors)
            if geometry.is_legal:
                yield geometry
                continue
            padded = (Geometry(block, width, vectors, p) for p in (Padding.ROWS, Padding.LINE))
            yield from (geometry for geometry in padded if geometry.is_legal)
        width *= 2
    x, y, z = block
    whole = x * y * z // MAX_WIDTH
    if x % MAX_WIDTH == 0 and MAX_VECTORS < whole <= MAX_WHOLE_VECTORS:
        yield Geometry(block, MAX_WIDTH, whole)
