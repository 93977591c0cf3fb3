"""How scattered the slices that pods hold are over a pool's GPUs, and what that costs in room."""

from collections.abc import Mapping
from typing import Final

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.conditions import Verdict
from mig import geometry, planner
from mig.errors import MigError
from mig.planner import Room

SCATTERED_FROM: Final = 0.25
"""Part of the room that is lost before a pool says so."""

Rooms = Mapping[str, Room]  # by profile


def room_on(gpu: Gpu) -> Rooms:
    """Return the room beside what pods and claims hold on a GPU; none where it is not divided."""
    try:
        board = geometry.board(gpu.spec.board)
        places = [s.place for s in gpu.status.slices if s.holders]
        places += [claim.place for claim in gpu.status.claimed]
        held = [board.instance(*place) for place in places]
        divided = bool(gpu.status.slices or gpu.status.claims) and not _is_whole(gpu)
        return {p.name: one for p, one in planner.room(board, held).items()} if divided else {}
    except MigError:
        return {}  # its layout says what is wrong


def _is_whole(gpu: Gpu) -> bool:
    return any(s.profile == geometry.WHOLE for s in gpu.status.slices)


def verdict(rooms: Rooms) -> Verdict | None:
    """Return what a pool says; None: none of its GPUs is divided.

    Told in tenths: a pod that comes or goes is not worth a write.
    """
    if not rooms:
        return None
    lost = planner.fragmentation(rooms)
    if lost < SCATTERED_FROM:
        return Verdict(False, Reason.PACKED)
    worst = max(rooms, key=lambda name: 1 - rooms[name].now / (rooms[name].packed or 1))
    return Verdict(
        True,
        Reason.SCATTERED,
        f"where pods hold slices costs {lost:.1f} of the room, of {worst} the most;"
        " `tessera mig advise` names the pods to move",
    )


class RoomSum:
    """The room on many GPUs, kept as they change."""

    def __init__(self) -> None:
        self._on: dict[str, Rooms] = {}
        self._sums: dict[str, Room] = {}

    def put(self, name: str, rooms: Rooms) -> None:
        """Take a GPU's room as it is now; empty: it has none to speak of."""
        before = self._on.pop(name, {})
        if rooms:
            self._on[name] = rooms
        for sign, part in ((-1, before), (1, rooms)):
            for profile, one in part.items():
                known = self._sums.get(profile, Room(0, 0))
                self._sums[profile] = Room(
                    known.now + sign * one.now, known.packed + sign * one.packed
                )
        if not self._on:
            self._sums = {}

    @property
    def rooms(self) -> Rooms:
        """Return the sums by profile."""
        return self._sums
