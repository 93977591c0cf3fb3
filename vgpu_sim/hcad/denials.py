"""What was denied, gathered until somebody asks: bounded, whatever programs do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MAX_KINDS: Final = 1024
CONNECT: Final = "Connect"
"""Stands where a verb does: the queue pair was refused its peer, or lost it."""


@dataclass(frozen=True, slots=True)
class Denial:
    """One kind of denial. ``audited``: it passed, and would not if audits were enforced.

    ``function`` is this node's: the source's, if both are.
    """

    function: str
    source: str
    source_pod: str
    destination: str
    destination_pod: str
    verb: str
    policies: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    audited: bool = False

    def to_json(self) -> Mapping[str, Any]:
        """Return what is written."""
        return {
            "function": self.function,
            "source": self.source,
            "source_pod": self.source_pod,
            "destination": self.destination,
            "destination_pod": self.destination_pod,
            "verb": self.verb,
            "policies": list(self.policies),
            "reasons": list(self.reasons),
            "audited": self.audited,
        }


class Denials:
    """Counts by kind; of kinds beyond MAX_KINDS it is only known how many there were."""

    def __init__(self) -> None:
        self._counts: dict[Denial, int] = {}
        self._lost = 0
        self.total = 0
        """Since the start; audited ones are not among them."""

    @property
    def pending(self) -> int:
        """How many kinds wait to be taken."""
        return len(self._counts)

    def add(self, denial: Denial, count: int = 1) -> bool:
        """Count one kind; tell whether it is new among those that wait."""
        if not denial.audited:
            self.total += count
        new = denial not in self._counts
        if new and len(self._counts) >= MAX_KINDS:
            self._lost += count
            return False
        self._counts[denial] = self._counts.get(denial, 0) + count
        return new

    def take(self) -> tuple[Mapping[Denial, int], int]:
        """Return what was counted since the last time, and how many denials are in no kind."""
        taken = self._counts, self._lost
        self._counts, self._lost = {}, 0
        return taken
