"""What was denied, gathered until somebody asks: bounded, whatever programs do."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from vgpu_sim.system.pacing import LogQuota

logger = logging.getLogger("tessera.hcad")

LOG_LINES_PER_MINUTE: Final = 30
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

    def __str__(self) -> str:
        source, destination = (
            f"{pod} ({address})" if pod else address
            for address, pod in (
                (self.source, self.source_pod),
                (self.destination, self.destination_pod),
            )
        )
        by = f" by {', '.join(self.policies)}" if self.policies else ""
        done = "would be denied" if self.audited else "denied"
        return f"{self.verb} of {source} to {destination} {done}{by}: {'; '.join(self.reasons)}"

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
    """Counts by kind, and a line in the log for each; of more than MAX_KINDS only how many."""

    def __init__(self) -> None:
        self._log_quota = LogQuota(LOG_LINES_PER_MINUTE)
        self._counts: dict[Denial, int] = {}
        self._lost = 0
        self.total = 0
        """Since the start; audited ones are not among them."""

    @property
    def pending(self) -> int:
        """How many kinds wait to be taken."""
        return len(self._counts)

    def add(self, denial: Denial, count: int = 1) -> None:
        """Count denials of one kind."""
        if not denial.audited:
            self.total += count
        if denial not in self._counts:
            if len(self._counts) >= MAX_KINDS:
                self._lost += count
                return
            if self._log_quota.take():
                logger.warning("%s", denial)
        self._counts[denial] = self._counts.get(denial, 0) + count

    def take(self) -> tuple[Mapping[Denial, int], int]:
        """Return what was counted since the last time, and how many denials are in no kind."""
        taken = self._counts, self._lost
        self._counts, self._lost = {}, 0
        return taken
