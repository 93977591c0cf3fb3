"""How the threads of a block become strips of lanes and groups of strips.

Threads count in linear order, x fastest. A strip is ``width`` neighbours of one row, the lanes of
one vector; a group is ``strips`` neighbouring strips, interleaved in one run of the code. Thread
indices of all lanes are known at compile time up to one scalar base per group, which needs groups
and rows (and groups and planes) to nest.

Where they do not, a block may be *padded*: with lanes that no thread is behind, which a mask keeps
out. Either each row is padded to whole strips, or the threads are taken as one long row (where all
but one axis have size 1 that is what they are; else a lane's indices are computed at run time).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from vgpu_sim.hal.compute.limits import WARP_THREADS

MAX_WIDTH = 16
MAX_STRIPS = 16
MAX_WHOLE_STRIPS = 64  # of a group that is a block: of 1024 threads

Rows = tuple[tuple[int, ...], ...]


class Padding(IntEnum):
    """What is padded: nothing, each row to whole strips, the line of all threads to groups."""

    NONE = 0
    ROWS = 1
    LINE = 2


@dataclass(frozen=True, slots=True)
class Axis:
    """Thread indices of one axis: ``rows[strip][lane]`` plus a base, multiple of ``align``.

    ``align`` is None where the base is 0 for every group.
    """

    rows: Rows
    align: int | None


@dataclass(frozen=True, slots=True)
class Geometry:
    """A block shape cut into groups of ``strips`` strips of ``width`` lanes."""

    block: tuple[int, int, int]
    width: int
    strips: int
    padding: Padding = Padding.NONE

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def padded(self) -> tuple[int, int, int]:
        """The block with the lanes that no thread is behind."""
        x, y, z = self.block
        if self.padding == Padding.ROWS:
            return _rounded(x, self.width), y, z
        if self.padding == Padding.LINE:
            return _rounded(self.threads, self.span), 1, 1
        return self.block

    @property
    def slots(self) -> int:
        """Lanes of all groups."""
        x, y, z = self.padded
        return x * y * z

    @property
    def lacks_lanes(self) -> bool:
        """Return whether some group has lanes that no thread is behind."""
        return self.slots > self.threads

    @property
    def always_lacks(self) -> bool:
        """Return whether every group has such lanes."""
        return self.lacks_lanes and (self.groups == 1 or self.span % self.padded[0] == 0)

    @property
    def linear(self) -> bool:
        """Return whether neighbouring lanes are neighbouring threads, through all rows."""
        return self.padding != Padding.ROWS

    @property
    def span(self) -> int:
        """Lanes of a group."""
        return self.width * self.strips

    @property
    def groups(self) -> int:
        return self.slots // self.span

    @property
    def legal(self) -> bool:
        """Return whether strips stay within rows and groups nest with rows and planes."""
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
        """Return whether each warp lies in one group."""
        return self.linear and (self.groups == 1 or self.span % WARP_THREADS == 0)

    def _worth_padding(self) -> bool:
        x, y, z = self.block
        if self.width == 1:
            return False
        if self.padding == Padding.ROWS:
            return y * z > 1 and x % self.width > 0 and _rounded(x, self.width) <= 2 * x
        powers = not self.strips & (self.strips - 1)
        return powers and self.threads > 1 and self.span <= _rounded(self.threads, self.width)

    def axes(self) -> tuple[Axis | None, ...]:
        """Return the thread indices x, y and z of a group's lanes; None: not known so."""
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
            tuple(function(strip * self.width + lane) for lane in range(self.width))
            for strip in range(self.strips)
        )


def _rounded(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def legal_geometries(block: tuple[int, int, int]) -> Iterator[Geometry]:
    """Yield all geometries of ``block`` with power-of-two widths up to 16 and up to 16 strips.

    Padded ones only where groups of that many lanes do not nest; more strips only of the greatest
    width, where the block is one group.
    """
    width = 1
    while width <= MAX_WIDTH:
        for strips in range(1, MAX_STRIPS + 1):
            geometry = Geometry(block, width, strips)
            if geometry.legal:
                yield geometry
                continue
            padded = (Geometry(block, width, strips, p) for p in (Padding.ROWS, Padding.LINE))
            yield from (geometry for geometry in padded if geometry.legal)
        width *= 2
    x, y, z = block
    whole = x * y * z // MAX_WIDTH
    if x % MAX_WIDTH == 0 and MAX_STRIPS < whole <= MAX_WHOLE_STRIPS:
        yield Geometry(block, MAX_WIDTH, whole)
