"""Where a GPU's slices shall be: the planner's answer for one GPU and one layout."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from gpu_operator.api.v1alpha1.gpu import PlacedInstance, Slice
from gpu_operator.api.v1alpha1.miglayout import InstanceRequest
from mig import geometry, planner
from mig.errors import MigError, PlanError, SpecError

Entries = tuple[geometry.Instance | geometry.Profile, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Instances to have, and the held slices that have to go for it."""

    instances: tuple[PlacedInstance, ...]
    blockers: tuple[Slice, ...]


@lru_cache(maxsize=256)
def entries(board_key: str, requests: tuple[InstanceRequest, ...]) -> Entries:
    """Return what the planner understands.

    Raises:
        MigError: unknown board or profile, illegal start, or more than an empty board can hold;
            says which and why.
    """
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


def problem(board_key: str, requests: tuple[InstanceRequest, ...]) -> str:
    """Return why no GPU of this board can hold the slices; empty when one can."""
    try:
        entries(board_key, requests)
    except MigError as err:
        return one_line(err)
    return ""


def one_line(err: MigError) -> str:
    """Return the planner's explanation as a condition's message."""
    return "; ".join(line.strip().removeprefix("- ") for line in str(err).splitlines())


def satisfied(instances: Sequence[PlacedInstance], wanted: Entries) -> bool:
    """Whether these instances are what is wanted."""
    left = Counter((i.profile, i.start) for i in instances)
    for entry in wanted:
        if isinstance(entry, geometry.Instance):
            left.subtract({(entry.profile.name, entry.start): 1})
    if any(count < 0 for count in left.values()):
        return False
    profiles: Counter[str] = Counter()
    for (profile, _), count in left.items():
        profiles[profile] += count
    named = Counter(e.name for e in wanted if isinstance(e, geometry.Profile))
    return +profiles == named


def choose(board_key: str, slices: Sequence[Slice], wanted: Entries) -> Target:
    """Place what is wanted so that as few held slices as possible have to go.

    Among those ways as many slices as possible stay, then as much room as possible.

    Raises:
        MigError: the GPU's own slices are not legal on this board.
    """
    board = geometry.board(board_key)
    by_instance = {
        geometry.Instance(board.profile(s.profile), s.start): s
        for s in sorted(slices, key=lambda s: s.start)
    }
    held = [instance for instance, s in by_instance.items() if s.holders]
    for number in range(len(held) + 1):
        for given_up in combinations(held, number):
            kept = [instance for instance in held if instance not in given_up]
            try:
                found = planner.diff(board, tuple(by_instance), wanted, kept)
            except PlanError:
                continue
            return Target(
                tuple(PlacedInstance(profile=i.profile.name, start=i.start) for i in found.layout),
                tuple(by_instance[i] for i in held if i not in found.layout),
            )
    raise PlanError(f"{board_key}: the wanted slices fit no empty board", ())


def write(instances: Sequence[PlacedInstance]) -> str:
    """Write instances as one line of text: 3g.40gb@4,1g.10gb@0."""
    return ",".join(f"{i.profile}@{i.start}" for i in instances)


def read(text: str) -> tuple[PlacedInstance, ...]:
    """Read what ``write`` wrote; what a person broke counts as no instances."""
    found = []
    for item in filter(None, text.split(",")):
        profile, _, start = item.partition("@")
        if not profile or not start.isdecimal() or int(start) > 15:
            return ()
        found.append(PlacedInstance(profile=profile, start=int(start)))
    return tuple(found)
