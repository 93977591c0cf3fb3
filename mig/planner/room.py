"""The room that slices in use leave, and the room that they would leave if they were packed.

Slices without a holder are not an obstacle, because they can be destroyed. So only the places of
held slices count. A board has a few hundred combinations of these, and each is computed once. A
GPU instance of which a part is held counts as held: it moves as a whole.
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
    """How many more devices of a profile fit beside the held slices.

    ``now`` is the number that fits if the held slices stay at their places. ``packed`` is the
    number that would fit if the held slices were packed together first.
    """

    now: int
    packed: int


@dataclass(frozen=True, slots=True)
class Making:
    """The changes that make room for one more slice.

    ``moves`` are slices that move (from, to). If no moves suffice, ``evictions`` are the slices to
    evict. ``units`` is the memory of the moved or evicted slices, in placement units.
    """

    moves: tuple[tuple[Instance, Instance], ...]
    evictions: tuple[Instance, ...]
    units: int

    @property
    def disturbed(self) -> tuple[Instance, ...]:
        """Return the slices that these changes move; if there are no moves, the slices that they
        evict.
        """
        return tuple(source for source, _ in self.moves) or self.evictions


def room(board: Board, held_slices: Iterable[Instance]) -> Mapping[Profile, Room]:
    """Return the room for each plain profile next to the held slices on one GPU.

    Raises IllegalLayoutError if the held slices are illegal together.
    """
    return _room(board, frozenset(held_slices))


def fragmentation(rooms: Mapping[Any, Room]) -> float:
    """Return the fraction of the room that is lost because held slices are not packed, from 0 to 1.

    If the held slices were packed, a certain number of devices of each profile would fit. The
    profile's loss is the fraction of this number that does not fit now. The result is the mean
    loss of all profiles for which the number is at least 1. ``rooms`` may be sums over many
    GPUs.
    """
    lost = [
        1 - profile_room.now / profile_room.packed
        for profile_room in rooms.values()
        if profile_room.packed
    ]
    return sum(lost) / len(lost) if lost else 0.0


def changes_to_fit(
    board: Board, held_slices: Iterable[Instance], profile: Profile
) -> Making | None:
    """Return the smallest changes that make room for one more device of the profile.

    The smallest changes move or evict the fewest GPU instances, then the least memory. The result
    is None if the board cannot hold one more device even without the held slices. Raises
    IllegalLayoutError if the held slices are illegal together.
    """
    return _making(board, frozenset(held_slices), profile)


@lru_cache(maxsize=_REMEMBERED)
def _room(board: Board, held_slices: frozenset[Instance]) -> Mapping[Profile, Room]:
    check(board, tuple(held_slices))
    existing_counts = Counter(instance.profile for instance in gpu_instances(held_slices))
    beside = budget_of(board).total(held_slices)
    rooms = {}
    for profile in plain_profiles(board):
        free_count = _most(board, beside, (), profile)
        packed = _most(board, Occupancy(), tuple(existing_counts.elements()), profile)
        rooms[profile] = Room(free_count, packed)
    return rooms


def _most(
    board: Board, occupied: Occupancy, other_profiles: Sequence[Profile], profile: Profile
) -> int:
    """Return how many devices of a profile fit together with ``other_profiles``.

    The result is at most the board's maximum for the profile.
    """
    count = 0
    while count < profile.max_count:
        request = [*other_profiles, *[profile] * (count + 1)]
        if next(placements(board, occupied, request), None) is None:
            break
        count += 1
    return count


@lru_cache(maxsize=_REMEMBERED)
def _making(board: Board, held_slices: frozenset[Instance], profile: Profile) -> Making | None:
    have = sorted(gpu_instances(held_slices), key=lambda instance: instance.start)
    request = [profile] * (_room(board, held_slices)[profile].now + 1)
    if next(placements(board, Occupancy(), request), None) is None:
        return None
    moved = moves(board, have, request, have)
    if moved:
        return Making(moved, (), sum(source.profile.size for source, _ in moved))
    gone = evictions(board, have, request, have)
    if not gone:
        raise PlanError(
            f"neither moves nor evictions make room for {profile.name} on {board.key}", ()
        )
    return Making((), gone, sum(instance.profile.size for instance in gone))
