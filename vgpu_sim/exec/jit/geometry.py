"""How the threads of a block become strips of lanes and groups of strips.

Threads count in linear order, x fastest. A strip is ``width`` neighbours of one row, the lanes of
one vector; a group is ``strips`` neighbouring strips, interleaved in one run of the code. Thread
indices of all lanes are known at compile time up to one scalar base per group, which needs groups
and rows (and groups and planes) to nest.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

MAX_WIDTH = 16
MAX_STRIPS = 16

Rows = tuple[tuple[int, ...], ...]


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

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def span(self) -> int:
        """Lanes of a group."""
        return self.width * self.strips

    @property
    def groups(self) -> int:
        return self.threads // self.span

    @property
    def legal(self) -> bool:
        """Return whether strips stay within rows and groups nest with rows and planes."""
        x, y, _ = self.block
        if x % self.width or self.threads % self.span:
            return False
        if self.groups == 1 or x % self.span == 0:
            return True
        if self.span % x:
            return False
        rows = self.span // x
        return y % rows == 0 or rows % y == 0

    def axes(self) -> tuple[Axis, Axis, Axis]:
        """Return the thread indices x, y and z of a group's lanes."""
        x, y, z = self.block
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

    def _rows(self, function: Callable[[int], int]) -> Rows:
        return tuple(
            tuple(function(strip * self.width + lane) for lane in range(self.width))
            for strip in range(self.strips)
        )


def legal_geometries(block: tuple[int, int, int]) -> Iterator[Geometry]:
    """Yield all geometries of ``block`` with power-of-two widths up to 16 and up to 16 strips."""
    width = 1
    while width <= MAX_WIDTH:
        for strips in range(1, MAX_STRIPS + 1):
            geometry = Geometry(block, width, strips)
            if geometry.legal:
                yield geometry
        width *= 2
