"""What a layout asks of a board, and whether instances or slices are that."""

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
class Wish:
    """What the planner understands; with a ``problem`` no GPU of the board can hold it."""

    entries: Entries = ()
    problem: str = ""


@lru_cache(maxsize=256)
def wish(board_key: str, requests: tuple[InstanceRequest, ...]) -> Wish:
    """Read a layout's requests for a board. The problem says which request and why."""
    try:
        return Wish(_entries(board_key, requests))
    except MigError as err:
        return Wish(problem=one_line(err))


def _entries(board_key: str, requests: tuple[InstanceRequest, ...]) -> Entries:
    board = geometry.board(board_key)
    wanted: list[Instance | DeviceProfile] = []
    for position, request in enumerate(requests):
        device = board.device_profile(request.profile)
        if request.start is None:
            wanted += [device] * request.count
        elif request.count == 1:
            place = request.start, request.compute_start
            wanted.append(board.instance(request.profile, *place))
        else:
            raise SpecError(
                f"spec.instances[{position}]",
                f"start {request.start} with count {request.count}",
                "a start fixes one instance: list them one by one",
            )
    if len(wanted) > 1 and any(map(_is_whole, wanted)):
        raise SpecError(
            "spec.instances",
            f"{geometry.WHOLE} beside {len(wanted) - 1} more",
            f"{geometry.WHOLE} is the GPU with MIG off: it stands alone, once",
        )
    planner.diff(board, (), wanted)
    return tuple(wanted)


def _is_whole(entry: Instance | DeviceProfile) -> bool:
    name = entry.profile.name if isinstance(entry, Instance) else entry.name
    return name == geometry.WHOLE


def one_line(err: MigError) -> str:
    """Return the planner's explanation as a condition's message."""
    return "; ".join(line.strip().removeprefix("- ") for line in str(err).splitlines())


def satisfied(instances: Sequence[PlacedInstance], wanted: Entries) -> bool:
    """Return whether these instances are what is wanted, neither more nor less."""
    return len(instances) == len(wanted) == _met((i.place for i in instances), wanted)


def met(slices: Sequence[Slice], wanted: Entries) -> int:
    """Count the wanted entries that active slices are there for."""
    active = (s.place for s in slices if s.state is SliceState.ACTIVE)
    return _met(active, wanted)


def _met(places: Iterable[Place], wanted: Entries) -> int:
    left = Counter(places)
    fixed = Counter(place_of(e) for e in wanted if isinstance(e, Instance))
    exact = left & fixed
    spare: Counter[str] = Counter()
    for place, count in (left - exact).items():
        spare[place.profile] += count
    named = Counter(e.name for e in wanted if isinstance(e, DeviceProfile))
    return exact.total() + (spare & named).total()
