"""Placing new slices beside slices in use, which never move."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mig.geometry import Board, DeviceProfile, Instance
from mig.planner.compute import Wish, device_of, place_order, room_inside, ways
from mig.planner.explain import why_not
from mig.planner.headroom import Headroom, headroom_of
from mig.planner.rules import check


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the wanted slices go: ``placed`` is in the order of the wish."""

    board: Board
    have: tuple[Instance, ...]
    placed: tuple[Instance, ...]
    headroom: Headroom
    """What is left beside ``have`` and ``placed``."""

    @property
    def layout(self) -> tuple[Instance, ...]:
        """Return all instances after the plan, by start."""
        return tuple(sorted((*self.have, *self.placed), key=place_order))


def plan(board: Board, have: Sequence[Instance], want: Sequence[Wish]) -> Plan:
    """Place a multiset of devices beside the instances in use, without moving those.

    Of all feasible placements the one is taken that leaves the most: first the largest profile
    that still fits, then the number of states that can still be reached, then the free placements
    of large profiles, then the room in divided GPU instances, then the lowest starts. Exact: every
    placement is looked at. Devices narrower than their GPU instance take free compute slices of
    ``have`` first, and share as few new GPU instances as can hold them.

    Raises PlanError, which says why not and what would have to move, and IllegalLayoutError if
    ``have`` itself is illegal or of another board.
    """
    check(board, have)
    best = max(
        ways(board, have, want),
        key=lambda found: (headroom_of(board, found[1]), room_inside((*have, *found[0]))),
        default=None,
    )
    if best is None:
        raise why_not(board, have, want)
    instances, total = best
    return Plan(board, tuple(have), _in_order(instances, want), headroom_of(board, total))


def _in_order(instances: Sequence[Instance], want: Sequence[Wish]) -> tuple[Instance, ...]:
    by_device: dict[DeviceProfile, list[Instance]] = defaultdict(list)
    for instance in reversed(instances):
        by_device[instance.device].append(instance)
    return tuple(by_device[device_of(wish)].pop() for wish in want)
