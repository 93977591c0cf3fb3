"""The room that a layout leaves for later instances. Every choice of the planner maximises it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from mig.geometry import Board, Instance, Profile
from mig.planner.census import occupied_states, plain_profiles
from mig.planner.occupancy import Occupancy, budget_of
from mig.planner.search import free_starts


@dataclass(frozen=True, slots=True, order=True)
class Headroom:
    """The room that is left on a board, as a value that can be compared.

    Values are ordered by the largest profile that still fits, then by the other measures.
    ``states`` counts only plain profiles. Variants with attributes use the same placements, and
    would give small placements too much weight. The other measures count all profiles. Otherwise
    a board with a "+me.all" instance, beside which only "-me" profiles fit, would seem full.
    """

    largest_units: int
    largest_compute_slices: int
    states: int
    """Number of plain states that could be added, with the empty state; 1 for a full board."""
    free_placements: tuple[int, ...]
    """Number of places for one more instance of each profile, the largest profile first.

    These numbers break ties.
    """
    largest: Profile | None = field(default=None, compare=False)


def headroom(board: Board, instances: Iterable[Instance]) -> Headroom:
    """Return the room that legal instances leave on the board."""
    return headroom_of(board, budget_of(board).total(instances))


@lru_cache(maxsize=4096)
def headroom_of(board: Board, occupancy: Occupancy) -> Headroom:
    """Return the room that an occupancy leaves on the board."""
    budget = budget_of(board)
    states = sum(number for cost, number in _costs(board) if budget.is_compatible(occupancy, cost))
    ranked = sorted(board.profiles, key=lambda profile: (-profile.size, -profile.compute_slices))
    free = tuple(len(free_starts(board, occupancy, profile)) for profile in ranked)
    largest = next((profile for profile, count in zip(ranked, free, strict=True) if count), None)
    if largest is None:
        return Headroom(0, 0, states, free)
    return Headroom(largest.size, largest.compute_slices, states, free, largest)


@lru_cache(maxsize=64)
def _costs(board: Board) -> tuple[tuple[Occupancy, int], ...]:
    """Return each occupancy that plain states have, with the number of states that have it."""
    counts = Counter(cost for _, cost in occupied_states(board, plain_profiles(board)))
    return tuple(counts.items())
