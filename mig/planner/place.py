"""Places new slices next to slices in use, which never move."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mig.geometry import Board, DeviceProfile, Instance
from mig.planner.compute import DeviceRequest, device_of, find_placements, place_order, room_inside
from mig.planner.explain import misfit_error
from mig.planner.headroom import Headroom, headroom_of
from mig.planner.rules import check


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of ``plan``: the placed slices, in the order of the request, and the room left."""

    board: Board
    have: tuple[Instance, ...]
    placed: tuple[Instance, ...]
    headroom: Headroom
    """The room that ``have`` and ``placed`` together leave on the board."""

    @property
    def layout(self) -> tuple[Instance, ...]:
        """Return all instances that the board has after the plan, sorted by start."""
        return tuple(sorted((*self.have, *self.placed), key=place_order))


def plan(board: Board, have: Sequence[Instance], want: Sequence[DeviceRequest]) -> Plan:
    """Place the devices in ``want`` next to the instances in use, without moving those instances.

    The chosen placement leaves the most room: first the largest profile that still fits, then
    the number of states that can still be reached, then the free placements of large profiles,
    then the room in divided GPU instances, then the lowest starts. The result is exact: every
    placement is tried. Devices narrower than their GPU instance use free compute slices of
    ``have`` first, and then as few new GPU instances as can hold them.

    Raises PlanError, with the reason and the moves that would help, and IllegalLayoutError if
    ``have`` itself is illegal or of another board.
    """
    check(board, have)
    best = max(
        find_placements(board, have, want),
        key=lambda found: (headroom_of(board, found[1]), room_inside((*have, *found[0]))),
        default=None,
    )
    if best is None:
        raise misfit_error(board, have, want)
    instances, total = best
    return Plan(board, tuple(have), _in_order(instances, want), headroom_of(board, total))


def _in_order(instances: Sequence[Instance], want: Sequence[DeviceRequest]) -> tuple[Instance, ...]:
    by_device: dict[DeviceProfile, list[Instance]] = defaultdict(list)
    for instance in reversed(instances):
        by_device[instance.device].append(instance)
    return tuple(by_device[device_of(request)].pop() for request in want)
