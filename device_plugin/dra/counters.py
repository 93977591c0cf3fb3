"""What a board has and what each of its devices uses up of it, as shared counters (KEP-4815).

The scheduler knows nothing of MIG: it adds up what allocated devices consume and refuses what
exceeds a counter. So the counters are the rules of ``mig.planner``, one for each: a counter of 1
for each placement unit, the compute slices, the five kinds of engines, and how many instances of a
profile there may be where that does not follow from the others. That they accept exactly what the
geometry accepts is tested for every state of every board.

Multiprocessors and bytes are capacities of devices and no counters: no rule of MIG adds them up.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from mig import planner
from mig.geometry import Board, Instance, Profile

_ENGINES: Final = ("copy-engines", "decoders", "encoders", "jpeg-engines", "ofa-engines")


def set_name(gpu_index: int) -> str:
    """Return the name of a GPU's counter set, which is unique in its pool."""
    return f"gpu-{gpu_index}"


def total(board: Board) -> dict[str, int]:
    """Return the counters of an empty GPU."""
    counters = {_unit(unit): 1 for unit in range(board.placement_units)}
    counters["compute-slices"] = board.compute_slices
    counters |= dict(zip(_ENGINES, board.engines.counts(), strict=True))
    counters |= {_count_of(one): one.max_count for one in board.profiles if _is_counted(one, board)}
    return {name: count for name, count in counters.items() if count}


def used(instance: Instance, board: Board) -> dict[str, int]:
    """Return what one device consumes."""
    profile = instance.profile
    if profile.is_whole:
        return total(board)
    place = instance.placement
    counters = {_unit(unit): 1 for unit in range(place.start, place.end)}
    counters["compute-slices"] = profile.compute_slices
    counters |= dict(zip(_ENGINES, profile.engines.counts(), strict=True))
    if _is_counted(profile, board):
        counters[_count_of(profile)] = 1
    return {name: count for name, count in counters.items() if count}


def left(board: Board, taken: Iterable[Instance]) -> dict[str, int]:
    """Return the counters of a GPU, some of which is taken by what no scheduler knows of.

    A GPU instance that is divided further is taken as a whole, and once: see docs/dra.md.

    None is below zero: the scheduler would refuse every device of the pool.
    """
    gone: Counter[str] = Counter()
    for instance in planner.gpu_instances(taken):
        gone.update(used(instance, board))
    return {name: max(0, count - gone[name]) for name, count in total(board).items()}


def fits(left: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    """Tell whether no counter is exceeded, as the scheduler does."""
    return all(count <= left.get(name, 0) for name, count in wanted.items())


def _unit(unit: int) -> str:
    return f"memory-slice-{unit}"


def _count_of(profile: Profile) -> str:
    return f"profile-{profile.driver_id}"


@cache
def _is_counted(profile: Profile, board: Board) -> bool:
    """Return whether one instance too many would exceed nothing else."""
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
