"""A board's resources, and those that a device consumes, as shared counters (KEP-4815).

The scheduler does not know MIG: it adds up what allocated devices consume and refuses devices
that exceed a counter. So the counters encode the rules of ``mig.planner``: a counter of 1 for
each placement unit, the compute slices, the five kinds of engines, and the largest number of
instances of a profile if the others do not imply it. A test shows for every state of every board
that they accept exactly the devices that the geometry accepts.

Multiprocessors and bytes are capacities of devices, not counters: no rule of MIG adds them up.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from mig import planner
from mig.geometry import Board, Instance, Profile

_ENGINES: Final = ("copy-engines", "decoders", "encoders", "jpeg-engines", "ofa-engines")


def set_name(gpu_index: int) -> str:
    """Return the name of a GPU's counter set, unique in its pool."""
    return f"gpu-{gpu_index}"


def total_counters(board: Board) -> dict[str, int]:
    """Return the counters of a GPU without instances: the totals of its resources."""
    counters = {_unit(unit): 1 for unit in range(board.placement_units)}
    counters["compute-slices"] = board.compute_slices
    counters |= dict(zip(_ENGINES, board.engines.counts(), strict=True))
    counters |= {
        _count_of(profile): profile.max_count
        for profile in board.profiles
        if _is_counted(profile, board)
    }
    return {name: count for name, count in counters.items() if count}


def used_counters(instance: Instance, board: Board) -> dict[str, int]:
    """Return the counters that one device consumes."""
    profile = instance.profile
    if profile.is_whole:
        return total_counters(board)
    place = instance.placement
    counters = {_unit(unit): 1 for unit in range(place.start, place.end)}
    counters["compute-slices"] = profile.compute_slices
    counters |= dict(zip(_ENGINES, profile.engines.counts(), strict=True))
    if _is_counted(profile, board):
        counters[_count_of(profile)] = 1
    return {name: count for name, count in counters.items() if count}


def remaining_counters(board: Board, taken_instances: Iterable[Instance]) -> dict[str, int]:
    """Return the counters of a GPU that the scheduler may still allocate.

    These are the GPU's counters, less those of the instances in ``taken_instances``. A GPU
    instance that is divided further counts as a whole, and only once: see docs/dra.md. No counter
    is negative, because the scheduler would then refuse every device of the pool.
    """
    used_counts: Counter[str] = Counter()
    for instance in planner.gpu_instances(taken_instances):
        used_counts.update(used_counters(instance, board))
    return {
        name: max(0, count - used_counts[name]) for name, count in total_counters(board).items()
    }


def fits(remaining_counts: Mapping[str, int], requested_counts: Mapping[str, int]) -> bool:
    """Return whether the counters in ``remaining_counts`` suffice for ``requested_counts``.

    As in the scheduler, a counter that is absent from ``remaining_counts`` counts as 0.
    """
    return all(count <= remaining_counts.get(name, 0) for name, count in requested_counts.items())


def _unit(unit: int) -> str:
    return f"memory-slice-{unit}"


def _count_of(profile: Profile) -> str:
    return f"profile-{profile.driver_id}"


@cache
def _is_counted(profile: Profile, board: Board) -> bool:
    """Return whether the profile needs its own counter, because no other limits its number."""
    many = profile.max_count + 1
    apart = -(-board.placement_units // profile.size)
    return (
        min(len(profile.starts), apart) >= many
        and profile.compute_slices * many <= board.compute_slices
        and all(
            count * many <= limit
            for count, limit in zip(profile.engines.counts(), board.engines.counts(), strict=True)
        )
    )
