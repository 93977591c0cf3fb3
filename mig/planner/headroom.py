"""How much a layout leaves for later: the measure that every choice of the planner maximises."""

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
    """Room that is left, ordered: the largest profile that still fits, then the ways to go on.

    ``states`` counts plain profiles only: variants with attributes use the same placements, and
    would give small placements a weight that nobody asked for. The other figures count all
    profiles: beside "+me.all" only "-me" fits.
    """

    largest_units: int
    largest_compute_slices: int
    states: int
    """Plain states that could be added as a whole, "nothing" included: a full board has 1."""
    free_placements: tuple[int, ...]
    """Where one more could go, per profile, largest profile first: breaks remaining ties."""
    largest: Profile | None = field(default=None, compare=False)


def headroom(board: Board, instances: Iterable[Instance]) -> Headroom:
    """Return the room that legal instances leave on the board."""
    return headroom_of(board, budget_of(board).total(instances))


@lru_cache(maxsize=4096)
def headroom_of(board: Board, occupancy: Occupancy) -> Headroom:
    """Return the room beside an occupancy."""
    budget = budget_of(board)
    states = sum(number for cost, number in _costs(board) if budget.compatible(occupancy, cost))
    ranked = sorted(board.profiles, key=lambda profile: (-profile.size, -profile.compute_slices))
    free = tuple(len(free_starts(board, occupancy, profile)) for profile in ranked)
    largest = next((profile for profile, count in zip(ranked, free, strict=True) if count), None)
    if largest is None:
        return Headroom(0, 0, states, free)
    return Headroom(largest.size, largest.compute_slices, states, free, largest)


@lru_cache(maxsize=64)
def _costs(board: Board) -> tuple[tuple[Occupancy, int], ...]:
    """Return what the plain states use; states that use the same are counted, not repeated."""
    counts = Counter(cost for _, cost in occupied_states(board, plain_profiles(board)))
    return tuple(counts.items())
