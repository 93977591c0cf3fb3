"""Decides where slices fit: rules, enumeration, plans, preferred allocation, relayouts."""

from mig.planner.census import Census, census, maximal_states, multisets, states
from mig.planner.compute import (
    DeviceRequest,
    device_of,
    find_placements,
    gpu_instances,
    place_order,
    room_in_divided,
)
from mig.planner.diff import Diff, diff
from mig.planner.headroom import Headroom, headroom
from mig.planner.names import place_of
from mig.planner.place import Plan, plan
from mig.planner.preferred_allocation import choose_preferred
from mig.planner.relayout import Proof, Relayout, relayout
from mig.planner.room import Making, Room, changes_to_fit, fragmentation, room
from mig.planner.rules import check, violations

__all__ = [
    "Census",
    "DeviceRequest",
    "Diff",
    "Headroom",
    "Making",
    "Plan",
    "Proof",
    "Relayout",
    "Room",
    "census",
    "changes_to_fit",
    "check",
    "choose_preferred",
    "device_of",
    "diff",
    "find_placements",
    "fragmentation",
    "gpu_instances",
    "headroom",
    "maximal_states",
    "multisets",
    "place_of",
    "place_order",
    "plan",
    "relayout",
    "room",
    "room_in_divided",
    "states",
    "violations",
]
