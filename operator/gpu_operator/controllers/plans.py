"""Where a GPU's slices go: the planner's answer for one GPU, each worked out once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from gpu_operator.api.v1alpha1.gpu import PlacedInstance, Slice
from gpu_operator.controllers.targets import Entries, Place
from mig import geometry, planner
from mig.errors import PlanError

_REMEMBERED = 4096
_Occupied = tuple[tuple[str, int, bool], ...]  # profile, start, held; in the order of starts


@dataclass(frozen=True, slots=True)
class Plan:
    """Instances to have, and the slices that have to go for it; ``blockers`` are held by pods."""

    instances: tuple[PlacedInstance, ...]
    removed: tuple[Slice, ...]

    @property
    def blockers(self) -> tuple[Slice, ...]:
        """Return the removed slices that pods hold."""
        return tuple(s for s in self.removed if s.holders)


def removes_surely(slices: Sequence[Slice], wanted: Entries) -> bool:
    """Return whether any plan takes slices away, as far as that is known without one."""
    profiles = (e.profile if isinstance(e, geometry.Instance) else e for e in wanted)
    return bool(Counter(s.profile for s in slices) - Counter(p.name for p in profiles))


def choose(board_key: str, slices: Sequence[Slice], wanted: Entries) -> Plan:
    """Place what is wanted so that as few held slices as possible have to go.

    Among those ways as many slices as possible stay, then as much room as possible.

    Raises:
        MigError: the GPU's own slices are not legal on this board.
    """
    occupied = tuple(sorted((s.profile, s.start, bool(s.holders)) for s in slices))
    places = _chosen(board_key, occupied, wanted)
    return Plan(
        tuple(PlacedInstance(profile=profile, start=start) for profile, start in places),
        tuple(s for s in slices if (s.profile, s.start) not in places),
    )


@lru_cache(maxsize=_REMEMBERED)
def _chosen(board_key: str, occupied: _Occupied, wanted: Entries) -> tuple[Place, ...]:
    board = geometry.board(board_key)
    have, held = [], []
    for profile, start, is_held in sorted(occupied, key=lambda place: place[1]):
        instance = geometry.Instance(board.profile(profile), start)
        have.append(instance)
        if is_held:
            held.append(instance)
    for number in range(len(held) + 1):
        for given_up in combinations(held, number):
            kept = [instance for instance in held if instance not in given_up]
            try:
                found = planner.diff(board, have, wanted, kept)
            except PlanError:
                continue
            return tuple((i.profile.name, i.start) for i in found.layout)
    raise PlanError(f"{board_key}: the wanted slices fit no empty board", ())
