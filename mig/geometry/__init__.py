"""Boards, profiles and placements as data, each row with its source; names derive from sizes."""

from boards.record import Provenance
from boards.record.nvml import ComputeInstanceProfile, GpuInstanceProfile
from mig.geometry.boards import Board
from mig.geometry.catalogue import BOARDS, board, find_board
from mig.geometry.compute import ComputePlace, ComputeProfile
from mig.geometry.naming import (
    GIB,
    MIB,
    WHOLE,
    WHOLE_RESOURCE,
    ParsedName,
    memory_gb,
    parse_name,
    profile_name,
    resource_name,
)
from mig.geometry.profiles import DeviceProfile, Engines, Instance, Placement, Profile

__all__ = [
    "BOARDS",
    "GIB",
    "MIB",
    "WHOLE",
    "WHOLE_RESOURCE",
    "Board",
    "ComputeInstanceProfile",
    "ComputePlace",
    "ComputeProfile",
    "DeviceProfile",
    "Engines",
    "GpuInstanceProfile",
    "Instance",
    "ParsedName",
    "Placement",
    "Profile",
    "Provenance",
    "board",
    "find_board",
    "memory_gb",
    "parse_name",
    "profile_name",
    "resource_name",
]
