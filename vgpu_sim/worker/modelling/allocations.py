"""The allocations of a program in the chunks of memory that the worker maps.

The client library divides a chunk among small allocations, so the worker knows them only from the
client's reports. They serve predictions only: a wrong report makes a footprint wrong, nothing else.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from vgpu_sim.perf.kernels.chip import SECTOR

Extents = Sequence[tuple[int, int]]
MOST_ALLOCATIONS: Final = 1 << 16


class Allocations:
    """The memory that a launch may access, by allocation where these are known. ``chunks`` returns
    the mapped ranges, sorted. Methods must not run concurrently.
    """

    def __init__(self, chunks: Callable[[], Extents]) -> None:
        self._chunks = chunks
        self._sizes: dict[int, int] = {}
        self._sorted: list[int] = []

    def record(self, address: int, size: int) -> None:
        """Record an allocation, or its end if ``size`` is 0. More than ``MOST_ALLOCATIONS`` are not
        recorded.
        """
        if size <= 0:
            self._sizes.pop(address, None)
        elif address in self._sizes or len(self._sizes) < MOST_ALLOCATIONS:
            self._sizes[address] = size
        self._sorted = []

    def extents(self) -> Extents:
        """Return the ranges of memory as (begin, end), sorted: the allocations of a chunk, in whole
        sectors, or a chunk without recorded allocations.
        """
        if not self._sorted:
            self._sorted = sorted(self._sizes)
        ranges: list[tuple[int, int]] = []
        for begin, end in self._chunks():
            own = self._sorted[bisect_left(self._sorted, begin) : bisect_left(self._sorted, end)]
            ranges += [
                (address, min(end, address + -(-self._sizes[address] // SECTOR) * SECTOR))
                for address in own
            ] or [(begin, end)]
        return ranges
