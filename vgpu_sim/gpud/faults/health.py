"""The health of a GPU or an instance: a pure state machine; callers pass times, no timers run.

    Healthy ──suspicious──► Suspect ──again within suspect_s──► Unhealthy
       ▲ ▲                     │                                   │ reset, unhealthy_s after the
       │ └── suspect_s quiet ──┘        any critical event ──►     ▼ last event
       └──────────── probation_s quiet ◄────────────────────── Probation

Healthy and Suspect are in service. A relapse in probation doubles the next one, up to eight
times.
"""

from dataclasses import replace
from enum import StrEnum
from typing import Final

from vgpu_sim.gpud.faults.classes import Severity
from vgpu_sim.records import dataclass

LONGEST_FACTOR: Final = 8
HANGS: Final = " hangs"  # in the cause of a health; in probation, the GPU hung
_HUNG: Final = " hung"


class State(StrEnum):
    """The health state of a GPU or an instance."""

    HEALTHY = "Healthy"
    SUSPECT = "Suspect"
    UNHEALTHY = "Unhealthy"
    PROBATION = "Probation"


IN_SERVICE: Final = frozenset({State.HEALTHY, State.SUSPECT})
_WORST_FIRST: Final = (State.UNHEALTHY, State.PROBATION, State.SUSPECT, State.HEALTHY)


@dataclass(frozen=True, slots=True)
class Times:
    """How long, in seconds, each health state lasts without a new event."""

    suspect_s: float = 60.0
    unhealthy_s: float = 10.0
    probation_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one GPU or instance. ``since`` is when ``state`` began or was last confirmed;
    ``why`` is the cause of the state.
    """

    state: State = State.HEALTHY
    since: float = 0.0
    why: str = ""
    factor: int = 1

    @property
    def in_service(self) -> bool:
        """Whether the object admits new contexts and new pods."""
        return self.state in IN_SERVICE

    def __str__(self) -> str:
        """Return the state, followed by its cause if it has one."""
        return f"{self.state}: {self.why}" if self.why else str(self.state)

    def after_event(self, severity: Severity, why: str, now_s: float) -> "Health":
        """Return the health after an event of this severity at time ``now_s``."""
        match severity, self.state:
            case Severity.NONE, _:
                return self
            case Severity.SUSPICIOUS, State.HEALTHY:
                return replace(self, state=State.SUSPECT, since=now_s, why=why)
            case _, State.PROBATION:
                factor = min(2 * self.factor, LONGEST_FACTOR)
                return Health(State.UNHEALTHY, now_s, why, factor)
            case _, _:
                return replace(self, state=State.UNHEALTHY, since=now_s, why=why)

    def after_time(self, now_s: float, times: Times, stuck: bool) -> "Health":
        """Return the health at time ``now_s`` if no event has occurred since ``since``. ``stuck``
        is set while the fault persists or a reset is not yet possible.
        """
        age = now_s - self.since
        match self.state:
            case State.SUSPECT if age >= times.suspect_s:
                return Health(since=now_s, factor=self.factor)
            case State.UNHEALTHY if age >= times.unhealthy_s and not stuck:
                return replace(
                    self, state=State.PROBATION, since=now_s, why=self.why.replace(HANGS, _HUNG)
                )
            case State.PROBATION if age >= times.probation_s * self.factor:
                return Health(since=now_s, factor=self.factor)
            case State.HEALTHY if self.factor > 1 and age >= times.probation_s * LONGEST_FACTOR:
                return Health(since=now_s)
        return self


def worst(first_health: Health, second_health: Health) -> Health:
    """Return the worse of two health values. An instance is at most as healthy as its GPU."""
    return min(first_health, second_health, key=lambda health: _WORST_FIRST.index(health.state))
