"""A board's profiles as NVML records; they never change, so each board's are built once."""

from functools import cache

from mig.geometry import ComputeProfile, Profile, board
from vgpu_sim.hal.management import nvml
from vgpu_sim.hal.management.nvml import NO_RECORD, ProfileRecord


@cache
def profile_records(board_key: str) -> tuple[bytes, ...]:
    """Return the ProfileRecords of a board, ordered by NVML's number of the profile."""
    return tuple(
        bytes(_record(profile)) for profile in sorted(board(board_key).profiles, key=gi_enum)
    )


def gi_enum(profile: Profile) -> int:
    """Return the number that NVML gives to a GPU instance profile
    (``NVML_GPU_INSTANCE_PROFILE_*``); for the profile of a whole GPU, return NO_RECORD.
    """
    return NO_RECORD if profile.nvml_gi_enum is None else int(profile.nvml_gi_enum)


def full_width(profile: Profile) -> int:
    """Return the number that NVML gives to a compute instance profile: the one that spans a whole
    GPU instance of ``profile``.
    """
    return int(max(profile.ci_profiles, key=lambda one: one.compute_slices).nvml_ci_enum)


def _record(profile: Profile) -> ProfileRecord:
    record = ProfileRecord()
    record.name = profile.name.encode()
    record.profile = NO_RECORD if profile.driver_id is None else profile.driver_id
    record.profile_enum = gi_enum(profile)
    record.compute_slices = profile.compute_slices
    record.size = profile.size
    record.multiprocessors = profile.sm_count
    record.max_count = profile.max_count
    record.engines[:] = profile.engines.counts()
    record.start_count = len(profile.starts)
    record.starts[: len(profile.starts)] = profile.starts
    record.memory_bytes = profile.memory_bytes
    record.compute_count = len(profile.ci_profiles)
    for number, compute_profile in enumerate(profile.ci_profiles):
        record.computes[number] = _compute(compute_profile)
    return record


def _compute(profile: ComputeProfile) -> nvml.ComputeProfile:
    record = nvml.ComputeProfile()
    record.compute_enum = int(profile.nvml_ci_enum)
    record.compute_slices = profile.compute_slices
    record.multiprocessors = profile.sm_count
    record.start_count = len(profile.starts)
    record.starts[: len(profile.starts)] = profile.starts
    return record
