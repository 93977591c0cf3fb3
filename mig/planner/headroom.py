"""How much a layout leaves for later: the measure that every choice of the planner maximises."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from mig.geometry import Board, Instance, Profile
from mig.planner.census import occupied_states, plain_profiles
from mig.planner.occupancy import Occupancy, budget_of


@dataclass(frozen=True, slots=True, order=True)
class Headroom:
    """Room that is left, ordered: the largest profile that still fits, then the ways to go on.

    ``states`` counts the states of plain profiles that could be added as a whole, "nothing"
    included, so a full board has 1. Variants with attributes are not counted: they use the same
    placements and would only multiply the figure.
    """

    largest_units: int
    largest_compute_slices: int
    states: int
    largest: Profile | None = field(default=None, compare=False)


def headroom(board: Board, instances: Iterable[Instance]) -> Headroom:
    """Return the room that legal instances leave on the board."""
    return headroom_of(board, budget_of(board).total(instances))


@lru_cache(maxsize=4096)
def headroom_of(board: Board, occupancy: Occupancy) -> Headroom:
    """Return the room beside an occupancy."""
    budget = budget_of(board)
    plain = plain_profiles(board)
    room = [
        state for state, cost in occupied_states(board, plain) if budget.compatible(occupancy, cost)
    ]
    fitting = [state[0].profile for state in room if len(state) == 1]
    largest = max(fitting, key=lambda profile: (profile.size, profile.compute_slices), default=None)
    if largest is None:
        return Headroom(0, 0, len(room))
    return Headroom(largest.size, largest.compute_slices, len(room), largest)
