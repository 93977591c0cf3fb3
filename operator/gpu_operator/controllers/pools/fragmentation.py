"""Fragmentation of a pool's GPUs by the slices that pods hold, and the room that is lost by it."""

from collections.abc import Mapping
from typing import Final

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.conditions import Verdict
from mig import geometry, planner
from mig.errors import MigError
from mig.planner import Room

SCATTERED_FROM: Final = 0.25
"""The part of the room, from 0 to 1, that must be lost before a pool reports fragmentation."""

Rooms = Mapping[str, Room]  # by profile


def room_on(gpu: Gpu) -> Rooms:
    """Return the room beside the held slices of a GPU; empty if the GPU is not divided."""
    try:
        board = geometry.board(gpu.spec.board)
        places = [s.place for s in gpu.status.slices if s.holders]
        places += [claim.place for claim in gpu.status.claimed]
        held_instances = [board.instance(*place) for place in places]
        divided = bool(gpu.status.slices or gpu.status.claims) and not _is_whole(gpu)
        return (
            {
                p.name: profile_room
                for p, profile_room in planner.room(board, held_instances).items()
            }
            if divided
            else {}
        )
    except MigError:
        return {}  # the GPU's layout reports the error


def _is_whole(gpu: Gpu) -> bool:
    return any(s.profile == geometry.WHOLE for s in gpu.status.slices)


def fragmentation_verdict(rooms: Rooms) -> Verdict | None:
    """Return the condition Fragmented; None if no GPU of the pool is divided.

    The fraction in the message is rounded to tenths. Otherwise almost every pod that starts or
    ends would change the message, and so cause a write.
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
        f"the placement of held slices costs {lost:.1f} of the room, mostly for {worst};"
        " `tessera mig advise` names the pods to move",
    )


class RoomSum:
    """For each profile, the sum of the room on many GPUs. The sums are updated as the GPUs
    change.
    """

    def __init__(self) -> None:
        self._on: dict[str, Rooms] = {}
        self._sums: dict[str, Room] = {}

    def put(self, name: str, rooms: Rooms) -> None:
        """Set the room on a GPU; without ``rooms`` the GPU is removed."""
        old_rooms = self._on.pop(name, {})
        if rooms:
            self._on[name] = rooms
        for sign, part in ((-1, old_rooms), (1, rooms)):
            for profile, room in part.items():
                room_sum = self._sums.get(profile, Room(0, 0))
                self._sums[profile] = Room(
                    room_sum.now + sign * room.now, room_sum.packed + sign * room.packed
                )
        if not self._on:
            self._sums = {}

    @property
    def rooms(self) -> Rooms:
        """For each profile, return the room on all GPUs together."""
        return self._sums
