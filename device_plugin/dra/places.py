"""The order in which the devices of a board are published.

The scheduler takes the first device that a request fits, so the order is the policy by which
GPUs are filled: the smallest sufficient profile, and of its places the one that leaves the most
room.
"""

from functools import cache

from mig import planner
from mig.errors import PlanError
from mig.geometry import Board, Instance, Profile


@cache
def list_instances(board: Board) -> tuple[Instance, ...]:
    """Return all devices that a board can have, in the order in which they are published.

    Smaller profiles come first. Each profile has one device for each of its placements. The
    whole GPU comes last.
    """
    profiles = sorted(board.profiles, key=_size)
    return (*(place for profile in profiles for place in _places(board, profile)), _whole(board))


def _size(profile: Profile) -> tuple[int, int, int, str]:
    engines = sum(profile.engines.counts())
    return profile.memory_bytes, profile.sm_count, engines, profile.name


def _places(board: Board, profile: Profile) -> tuple[Instance, ...]:
    """Return the places of a profile as the planner fills an empty GPU with it."""
    chosen: list[Instance] = []
    try:
        while len(chosen) < len(profile.starts):
            chosen += planner.plan(board, chosen, [profile]).placed
    except PlanError:
        pass  # no more instances fit; the remaining places are alternatives to those chosen
    all_instances = [Instance(profile, start) for start in profile.starts]
    remaining_instances = [instance for instance in all_instances if instance not in chosen]
    remaining_instances.sort(key=lambda instance: planner.headroom(board, [instance]), reverse=True)
    return (*chosen, *remaining_instances)


def _whole(board: Board) -> Instance:
    return Instance(board.whole, 0)
