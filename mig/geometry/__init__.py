"""Boards, profiles and placements as data, each row with its source; names derived from bytes."""

from mig.geometry.boards import Board
from mig.geometry.catalogue import BOARDS, board
from mig.geometry.compute import ComputeProfile
from mig.geometry.naming import (
    GIB,
    MIB,
    ParsedName,
    memory_gb,
    parse_name,
    profile_name,
    resource_name,
)
from mig.geometry.nvml import ComputeInstanceProfile, GpuInstanceProfile
from mig.geometry.profiles import Engines, Instance, Placement, Profile
from mig.geometry.provenance import Provenance

__all__ = [
    "BOARDS",
    "GIB",
    "MIB",
    "Board",
    "ComputeInstanceProfile",
    "ComputeProfile",
    "Engines",
    "GpuInstanceProfile",
    "Instance",
    "ParsedName",
    "Placement",
    "Profile",
    "Provenance",
    "board",
    "memory_gb",
    "parse_name",
    "profile_name",
    "resource_name",
]
