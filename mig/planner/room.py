"""How much room slices in use leave, and how much they would leave if they stood closer.

Slices that nobody holds are no obstacle: they can be taken away. So all that counts of a GPU is
where the held ones are, of which a board has a few hundred states: each is worked out once. A GPU
instance of which a part is held is held: it moves as a whole.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mig.errors import PlanError
from mig.geometry import Board, Instance, Profile
from mig.planner.census import plain_profiles
from mig.planner.compute import gpu_instances
from mig.planner.explain import evictions, moves
from mig.planner.occupancy import Occupancy, budget_of
from mig.planner.rules import check
from mig.planner.search import placements

_REMEMBERED = 16384


@dataclass(frozen=True, slots=True)
class Room:
    """How many more of a profile fit beside what is held, and how many if that were packed."""

    now: int
    packed: int


@dataclass(frozen=True, slots=True)
class Making:
    """What makes room for one more slice: ``moves`` (from, to) where that does, else ``evictions``.

    ``units`` of memory are moved or given up.
    """

    moves: tuple[tuple[Instance, Instance], ...]
    evictions: tuple[Instance, ...]
    units: int

    @property
    def disturbed(self) -> tuple[Instance, ...]:
        """Return the slices whose pods have to go elsewhere, or end."""
        return tuple(before for before, _ in self.moves) or self.evictions


def room(board: Board, held: Iterable[Instance]) -> Mapping[Profile, Room]:
    """Return the room for each plain profile beside what is held on one GPU.

    Raises IllegalLayoutError if that is illegal.
    """
    return _room(board, frozenset(held))


def fragmentation(rooms: Mapping[Any, Room]) -> float:
    """Return what part of the room is lost by where held slices stand, from 0 to 1.

    It is the mean, over the profiles that would fit at all if slices were packed, of the part of
    them that does not fit now. ``rooms`` may be sums over many GPUs.
    """
    lost = [1 - one.now / one.packed for one in rooms.values() if one.packed]
    return sum(lost) / len(lost) if lost else 0.0


def making(board: Board, held: Iterable[Instance], profile: Profile) -> Making | None:
    """Return the least that makes room for one more of a profile than fits now; None: nothing does.

    Fewest GPU instances first, then the least memory. Raises IllegalLayoutError as ``room``.
    """
    return _making(board, frozenset(held), profile)


@lru_cache(maxsize=_REMEMBERED)
def _room(board: Board, held: frozenset[Instance]) -> Mapping[Profile, Room]:
    check(board, tuple(held))
    there = Counter(instance.profile for instance in gpu_instances(held))
    beside = budget_of(board).total(held)
    found = {}
    for profile in plain_profiles(board):
        now = _most(board, beside, (), profile)
        packed = _most(board, Occupancy(), tuple(there.elements()), profile)
        found[profile] = Room(now, packed)
    return found


def _most(board: Board, occupied: Occupancy, others: Sequence[Profile], profile: Profile) -> int:
    """Return how many of a profile fit together with others: at most so many as the board has."""
    most = 0
    while most < profile.max_count:
        wish = [*others, *[profile] * (most + 1)]
        if next(placements(board, occupied, wish), None) is None:
            break
        most += 1
    return most


@lru_cache(maxsize=_REMEMBERED)
def _making(board: Board, held: frozenset[Instance], profile: Profile) -> Making | None:
    have = sorted(gpu_instances(held), key=lambda instance: instance.start)
    wish = [profile] * (_room(board, held)[profile].now + 1)
    if next(placements(board, Occupancy(), wish), None) is None:
        return None
    moved = moves(board, have, wish, have)
    if moved:
        return Making(moved, (), sum(before.profile.size for before, _ in moved))
    gone = evictions(board, have, wish, have)
    if not gone:
        raise PlanError(f"{profile.name} fits {board.key} neither way", ())
    return Making((), gone, sum(instance.profile.size for instance in gone))
