"""Resolves a layout's requests for a board, and compares them with instances or slices."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpu_operator.api.v1alpha1.gpu import PlacedInstance, Slice, SliceState
from gpu_operator.api.v1alpha1.miglayout import InstanceRequest
from mig import geometry, planner
from mig.errors import MigError, SpecError
from mig.geometry import DeviceProfile, Instance
from mig.planner import place_of
from mig.spec import Place

Entries = tuple[Instance | DeviceProfile, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """The requests of a layout, resolved for one board.

    If ``problem`` is set, no GPU of the board can hold them.
    """

    entries: Entries = ()
    problem: str = ""


@lru_cache(maxsize=256)
def resolve_target(board_key: str, requests: tuple[InstanceRequest, ...]) -> Target:
    """Resolve a layout's requests for a board; ``problem`` names an invalid request."""
    try:
        return Target(_entries(board_key, requests))
    except MigError as err:
        return Target(problem=one_line(err))


def _entries(board_key: str, requests: tuple[InstanceRequest, ...]) -> Entries:
    board = geometry.board(board_key)
    entries: list[Instance | DeviceProfile] = []
    for position, request in enumerate(requests):
        device = board.device_profile(request.profile)
        if request.start is None:
            entries += [device] * request.count
        elif request.count == 1:
            entries.append(board.instance(request.profile, request.start, request.compute_start))
        else:
            raise SpecError(
                f"spec.instances[{position}]",
                f"start {request.start} with count {request.count}",
                "a start places one instance: list instances separately",
            )
    if len(entries) > 1 and any(map(_is_whole, entries)):
        raise SpecError(
            "spec.instances",
            f"{geometry.WHOLE} beside {len(entries) - 1} more",
            f"{geometry.WHOLE} is the GPU with MIG off: it must be the only entry, with count 1",
        )
    planner.diff(board, (), entries)
    return tuple(entries)


def _is_whole(entry: Instance | DeviceProfile) -> bool:
    name = entry.profile.name if isinstance(entry, Instance) else entry.name
    return name == geometry.WHOLE


def one_line(err: MigError) -> str:
    """Return the planner's explanation as one line, for a condition's message."""
    return "; ".join(line.strip().removeprefix("- ") for line in str(err).splitlines())


def is_satisfied(instances: Sequence[PlacedInstance], target_entries: Entries) -> bool:
    """Return whether these instances are exactly the wanted ones."""
    return (
        len(instances)
        == len(target_entries)
        == _count_met((i.place for i in instances), target_entries)
    )


def count_met(slices: Sequence[Slice], target_entries: Entries) -> int:
    """Count the wanted entries for which the GPU has an active slice."""
    active = (s.place for s in slices if s.state is SliceState.ACTIVE)
    return _count_met(active, target_entries)


def _count_met(places: Iterable[Place], target_entries: Entries) -> int:
    place_counts = Counter(places)
    fixed = Counter(place_of(e) for e in target_entries if isinstance(e, Instance))
    exact = place_counts & fixed
    spare: Counter[str] = Counter()
    for place, count in (place_counts - exact).items():
        spare[place.profile] += count
    named = Counter(e.name for e in target_entries if isinstance(e, DeviceProfile))
    return exact.total() + (spare & named).total()
