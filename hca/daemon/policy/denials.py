"""Count denials until a caller takes the counts, and by pods since the start.

The memory for the counts is bounded, however many denials programs cause.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from hca.daemon.policy.tallies import MOST_POLICIES, DenialKind, Tally
from vgpu_sim.records import dataclass
from vgpu_sim.system.pacing import LogQuota

logger = logging.getLogger("tessera.hcad")

LOG_LINES_PER_MINUTE: Final = 30
MAX_KINDS: Final = 1024
CONNECT: Final = "Connect"
"""The verb in the record of a denial by which a queue pair's peer was refused or revoked."""


@dataclass(frozen=True, slots=True)
class Denial:
    """One kind of denial. If ``audited`` is set, policy only audits: the operation was not refused.

    ``function`` is the function on this node that takes part in the operation. If both the source
    and the destination are on this node, it is the source's function.
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
        outcome = "would be denied" if self.audited else "denied"
        return f"{self.verb} of {source} to {destination} {outcome}{by}: {'; '.join(self.reasons)}"

    def to_json(self) -> Mapping[str, Any]:
        """Return the denial as a JSON object."""
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
    """Counts denials by kind and logs each kind once.

    Denials beyond MAX_KINDS kinds are only counted in total.
    """

    def __init__(self) -> None:
        self._log_quota = LogQuota(LOG_LINES_PER_MINUTE)
        self._counts: dict[Denial, int] = {}
        self._lost = 0
        self.total = 0
        """The number of denials since the start, without audited ones."""
        self.by_pods: Tally[DenialKind] = Tally()
        """All denials since the start, including audited ones and those that were taken."""

    @property
    def pending(self) -> int:
        """Return the number of kinds of denials whose counts have not been taken yet."""
        return len(self._counts)

    def add(self, denial: Denial, count: int = 1) -> None:
        """Count ``count`` denials of one kind."""
        if not denial.audited:
            self.total += count
        first = denial.policies[:MOST_POLICIES]
        kind = DenialKind(
            denial.source_pod, denial.destination_pod, denial.verb, first, denial.audited
        )
        self.by_pods.add(kind, count)
        if denial not in self._counts:
            if len(self._counts) >= MAX_KINDS:
                self._lost += count
                return
            if self._log_quota.take():
                logger.warning("%s", denial)
        self._counts[denial] = self._counts.get(denial, 0) + count

    def take(self) -> tuple[Mapping[Denial, int], int]:
        """Return the denials since the last call of this method.

        The first part of the result is the count of each kind. The second part is the number of
        denials that were not counted by kind, because there were more than MAX_KINDS kinds.
        """
        totals = self._counts, self._lost
        self._counts, self._lost = {}, 0
        return totals
