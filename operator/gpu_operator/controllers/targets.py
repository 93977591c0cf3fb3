"""What a layout asks of a board, and whether instances or slices are that."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpu_operator.api.v1alpha1.gpu import PlacedInstance, Slice, SliceState
from gpu_operator.api.v1alpha1.miglayout import InstanceRequest
from mig import geometry, planner
from mig.errors import MigError, SpecError

Entries = tuple[geometry.Instance | geometry.Profile, ...]
Place = tuple[str, int]  # profile and start


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
    wanted: list[geometry.Instance | geometry.Profile] = []
    for position, request in enumerate(requests):
        profile = board.profile(request.profile)
        if request.start is None:
            wanted += [profile] * request.count
        elif request.count == 1:
            wanted.append(geometry.Instance(profile, request.start))
        else:
            raise SpecError(
                f"spec.instances[{position}]",
                f"start {request.start} with count {request.count}",
                "a start fixes one instance: list them one by one",
            )
    planner.diff(board, (), wanted)
    return tuple(wanted)


def one_line(err: MigError) -> str:
    """Return the planner's explanation as a condition's message."""
    return "; ".join(line.strip().removeprefix("- ") for line in str(err).splitlines())


def satisfied(instances: Sequence[PlacedInstance], wanted: Entries) -> bool:
    """Return whether these instances are what is wanted, neither more nor less."""
    return len(instances) == len(wanted) == _met(((i.profile, i.start) for i in instances), wanted)


def met(slices: Sequence[Slice], wanted: Entries) -> int:
    """Count the wanted entries that active slices are there for."""
    active = ((s.profile, s.start) for s in slices if s.state is SliceState.ACTIVE)
    return _met(active, wanted)


def _met(places: Iterable[Place], wanted: Entries) -> int:
    left = Counter(places)
    fixed = Counter((e.profile.name, e.start) for e in wanted if isinstance(e, geometry.Instance))
    exact = left & fixed
    spare: Counter[str] = Counter()
    for (profile, _), count in (left - exact).items():
        spare[profile] += count
    named = Counter(e.name for e in wanted if isinstance(e, geometry.Profile))
    return exact.total() + (spare & named).total()
