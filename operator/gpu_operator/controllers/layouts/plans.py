"""Placements of a GPU's slices: the planner's result for one GPU, cached."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpu_operator.api.v1alpha1.gpu import ClaimedSlice, PlacedInstance, Slice
from gpu_operator.controllers.layouts.targets import Entries
from mig import geometry, planner
from mig.errors import MigError
from mig.spec import Place

_REMEMBERED = 4096
# placement and whether a pod holds it; sorted, because it is a cache key
_Occupied = tuple[tuple[Place, bool], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Instances that the GPU should have, and the slices that must be removed for them."""

    instances: tuple[PlacedInstance, ...]
    removed: tuple[Slice, ...]

    @property
    def blockers(self) -> tuple[Slice, ...]:
        """Return the slices that must be removed and that pods hold."""
        return tuple(s for s in self.removed if s.holders)


def certainly_removes(slices: Sequence[Slice], target_entries: Entries) -> bool:
    """Return True if every plan for ``target_entries`` is certain to remove slices.

    The result is found without planning. False means that this is not certain.
    """
    devices = map(planner.device_of, target_entries)
    return bool(Counter(s.profile for s in slices) - Counter(device.name for device in devices))


def choose(
    board_key: str,
    slices: Sequence[Slice],
    target_entries: Entries,
    claims: Sequence[ClaimedSlice] = (),
) -> Plan:
    """Place the wanted instances beside ``claims``.

    The chosen placement removes the fewest slices in use. Among equal placements, it keeps the most
    slices, then leaves the most room. Slices of claims are never moved, and are not part of the
    plan.

    Raises:
        MigError: the GPU's own slices are invalid on this board, or the wanted instances do not fit
            beside the claims' slices.
    """
    occupied = tuple(sorted(((s.place, bool(s.holders)) for s in slices), key=str))
    pinned = tuple(sorted({claim.place for claim in claims}, key=str))
    places = _choose_places(board_key, occupied, target_entries, pinned)
    return Plan(
        tuple(map(PlacedInstance.from_place, places)),
        tuple(s for s in slices if s.place not in places),
    )


def find_blocking_claims(
    board_key: str, missing: Collection[Place], claims: Sequence[ClaimedSlice]
) -> tuple[ClaimedSlice, ...]:
    """Return the slices of claims that leave no room for at least one of the missing instances."""
    if not missing or not claims:
        return ()
    board = geometry.board(board_key)
    try:
        missing_instances = [board.instance(*place) for place in missing]
        return tuple(claim for claim in claims if _excludes(board, claim, missing_instances))
    except MigError:
        return ()


def _excludes(
    board: geometry.Board, claim: ClaimedSlice, instances: Sequence[geometry.Instance]
) -> bool:
    theirs = board.instance(*claim.place)
    return any(planner.violations(board, [instance, theirs]) for instance in instances)


@lru_cache(maxsize=_REMEMBERED)
def _choose_places(
    board_key: str, occupied: _Occupied, target_entries: Entries, pinned: tuple[Place, ...]
) -> tuple[Place, ...]:
    board = geometry.board(board_key)
    claimed = [board.instance(*place) for place in pinned]
    target_entries = (*target_entries, *claimed)
    have = [board.instance(*place) for place, _ in occupied]
    held_instances = [
        instance for instance, (_, is_held) in zip(have, occupied, strict=True) if is_held
    ]
    plan = planner.relayout(board, [*claimed, *have], target_entries, held=held_instances)
    return tuple(planner.place_of(i) for i in plan.layout if i not in claimed)
