"""Cumulative counts by kind, with a bound on the number of kinds.

Counts never decrease while their kind is kept. If there are too many kinds, the one that has not
changed for the longest time is dropped, and its counts are added to those of the dropped kinds.
"""

from collections.abc import Hashable, Mapping
from dataclasses import field
from typing import Final, Generic, TypeVar

from vgpu_sim.records import dataclass

MAX_KEPT: Final = 512
MOST_POLICIES: Final = 4  # of a kind of denial; a pod may have 1,024, with long names
_Kind = TypeVar("_Kind", bound=Hashable)


@dataclass(slots=True)
class Count:
    """A number of operations, and the bytes that they transferred."""

    operations: int = 0
    bytes: int = 0

    def add(self, operations: int, size: int = 0) -> None:
        """Add operations that transferred ``size`` bytes together."""
        self.operations += operations
        self.bytes += size


@dataclass(slots=True)
class Tally(Generic[_Kind]):
    """Counts by kind since the start; ``dropped`` has the sum of the kinds that are not kept."""

    most: int = MAX_KEPT
    dropped: Count = field(default_factory=Count)
    _counts: dict[_Kind, Count] = field(default_factory=dict)

    @property
    def counts(self) -> Mapping[_Kind, Count]:
        """Return the counts of the kinds that are kept; the last one has changed last."""
        return self._counts

    def add(self, kind: _Kind, operations: int, size: int = 0) -> None:
        """Add operations of one kind that transferred ``size`` bytes together."""
        count = self._counts.pop(kind, None)
        if count is None:
            count = Count()
            if len(self._counts) >= self.most:
                oldest = self._counts.pop(next(iter(self._counts)))
                self.dropped.add(oldest.operations, oldest.bytes)
        count.add(operations, size)
        self._counts[kind] = count


@dataclass(frozen=True, slots=True)
class PodPair:
    """Requests of one verb from one pod to another; a name is "ns/name", or empty if not known."""

    source: str
    destination: str
    verb: str


@dataclass(frozen=True, slots=True)
class DenialKind:
    """Denials of one verb from one pod to another by the same policies."""

    source: str
    destination: str
    verb: str
    policies: tuple[str, ...]
    audited: bool
