"""The health of a GPU or an instance: a pure state machine; times come in, nothing is scheduled.

    Healthy ──suspicious──► Suspect ──again within suspect_s──► Unhealthy
       ▲ ▲                     │                                   │ reset, unhealthy_s after the
       │ └── suspect_s quiet ──┘        any critical event ──►     ▼ last event
       └──────────── probation_s quiet ◄────────────────────── Probation

Healthy and Suspect are in service. A relapse in probation doubles the next one, up to eight times.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from vgpu_sim.gpud.faults.classes import Severity

LONGEST_FACTOR: Final = 8


class State(StrEnum):
    """Where a GPU or an instance stands."""

    HEALTHY = "Healthy"
    SUSPECT = "Suspect"
    UNHEALTHY = "Unhealthy"
    PROBATION = "Probation"


IN_SERVICE: Final = frozenset({State.HEALTHY, State.SUSPECT})
_WORST_FIRST: Final = (State.UNHEALTHY, State.PROBATION, State.SUSPECT, State.HEALTHY)


@dataclass(frozen=True, slots=True)
class Times:
    """How long each state lasts without news, in seconds."""

    suspect_s: float = 60.0
    unhealthy_s: float = 10.0
    probation_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Health:
    """One health. ``since`` is when ``state`` began or was last confirmed; ``why`` is its cause."""

    state: State = State.HEALTHY
    since: float = 0.0
    why: str = ""
    factor: int = 1

    @property
    def in_service(self) -> bool:
        """Return whether new contexts and new pods are let in."""
        return self.state in IN_SERVICE

    def __str__(self) -> str:
        """Return the state, and the cause where there is one."""
        return f"{self.state}: {self.why}" if self.why else str(self.state)

    def struck(self, severity: Severity, why: str, now: float) -> "Health":
        """Return the health after an event at ``now``."""
        match severity, self.state:
            case Severity.NONE, _:
                return self
            case Severity.SUSPICIOUS, State.HEALTHY:
                return replace(self, state=State.SUSPECT, since=now, why=why)
            case _, State.PROBATION:
                factor = min(2 * self.factor, LONGEST_FACTOR)
                return Health(State.UNHEALTHY, now, why, factor)
            case _, _:
                return replace(self, state=State.UNHEALTHY, since=now, why=why)

    def aged(self, now: float, times: Times, stuck: bool) -> "Health":
        """Return the health at ``now``; ``stuck``: what is wrong lasts, or cannot be reset yet."""
        age = now - self.since
        match self.state:
            case State.SUSPECT if age >= times.suspect_s:
                return Health(since=now, factor=self.factor)
            case State.UNHEALTHY if age >= times.unhealthy_s and not stuck:
                return replace(self, state=State.PROBATION, since=now)
            case State.PROBATION if age >= times.probation_s * self.factor:
                return Health(since=now, factor=self.factor)
            case State.HEALTHY if self.factor > 1 and age >= times.probation_s * LONGEST_FACTOR:
                return Health(since=now)
        return self


def worst(one: Health, other: Health) -> Health:
    """Return the worse of two: an instance is no healthier than its GPU."""
    return min(one, other, key=lambda health: _WORST_FIRST.index(health.state))
