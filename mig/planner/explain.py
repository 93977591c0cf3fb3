"""Why a wish cannot be met, and the smallest change that would let it be met.

The search here is exhaustive too: a board holds at most twelve instances, so every subset of them
can be tried. Nothing is reported that was not found to be so.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from mig.errors import Move, Obstacle, ObstacleKind, PlanError
from mig.geometry import Board, Engines, Instance, Placement, Profile
from mig.planner.compute import Wish, device_of, gpu_instances, gpu_instances_for
from mig.planner.headroom import headroom_of
from mig.planner.occupancy import Occupancy, budget_of
from mig.planner.rules import ENGINE_NAMES, counted, total_engines
from mig.planner.search import free_starts, placements
from mig.spec import format_instances, format_requests


def why_not(
    board: Board,
    have: Sequence[Instance],
    want: Sequence[Wish],
    movable: Sequence[Instance] | None = None,
) -> PlanError:
    """Return the error that explains why ``want`` does not fit beside ``have``.

    ``movable`` are the instances that may be proposed to move (all by default). What is in the way,
    and what would move, is told in GPU instances: what divides them is never in anybody's way.
    """
    rank = {profile: at for at, profile in enumerate((*board.profiles, board.whole))}
    wish = format_requests(sorted(map(device_of, want), key=lambda one: rank[one.profile]))
    movable = gpu_instances(have if movable is None else movable)
    needed = gpu_instances_for((), want)
    if next(placements(board, Occupancy(), needed), None) is None:
        summary = f"{_told(wish, needed)} does not fit {board.key}, even when empty"
        return PlanError(summary, obstacles(board, (), needed))
    needed = gpu_instances_for(have, want)
    summary = f"{_told(wish, needed)} does not fit {board.key} beside {format_instances(have)}"
    there = gpu_instances(have)
    moved = moves(board, there, needed, movable)
    told = tuple(Move(str(before), str(after)) for before, after in moved)
    gone = () if told else tuple(map(str, evictions(board, there, needed, movable)))
    return PlanError(summary, obstacles(board, there, needed), told, gone)


def _told(wish: str, needed: Sequence[Profile]) -> str:
    """Write a wish, and the GPU instances that it takes where it does not say so itself."""
    if "c." not in wish:
        return wish
    return f"{wish} (GPU instances: {format_requests(needed)})"


def obstacles(
    board: Board, have: Sequence[Instance], want: Sequence[Profile]
) -> tuple[Obstacle, ...]:
    """Return everything that stands in the way: budgets first, then placements."""
    found = [
        *_compute(board, have, want),
        *_memory(board, have, want),
        *_max_counts(have, want),
        *_engines(board, have, want),
        *_blocked(have, want),
    ]
    if not found:
        found.append(_combination(board, have, want))
    return tuple(found)


def _compute(board: Board, have: Sequence[Instance], want: Sequence[Profile]) -> Iterator[Obstacle]:
    free = board.compute_slices - sum(instance.profile.compute_slices for instance in have)
    wanted = sum(profile.compute_slices for profile in want)
    if wanted > free:
        message = (
            f"{counted(wanted, 'compute slice')} wanted, {free} of {board.compute_slices} free"
        )
        yield Obstacle(ObstacleKind.COMPUTE, message)


def _memory(board: Board, have: Sequence[Instance], want: Sequence[Profile]) -> Iterator[Obstacle]:
    free = board.placement_units - sum(instance.profile.size for instance in have)
    wanted = sum(profile.size for profile in want)
    if wanted > free:
        message = f"{counted(wanted, 'memory unit')} wanted, {free} of {board.placement_units} free"
        yield Obstacle(ObstacleKind.MEMORY, message)


def _max_counts(have: Sequence[Instance], want: Sequence[Profile]) -> Iterator[Obstacle]:
    existing = Counter(instance.profile for instance in have)
    for profile, count in Counter(want).items():
        if existing[profile] + count > profile.max_count:
            yield Obstacle(
                ObstacleKind.MAX_COUNT,
                f"{profile.name}: {count} wanted and {existing[profile]} in use, "
                f"a board has at most {profile.max_count}",
            )


def _engines(board: Board, have: Sequence[Instance], want: Sequence[Profile]) -> Iterator[Obstacle]:
    free = board.engines - total_engines(have)
    wanted = sum((profile.engines for profile in want), Engines())
    figures = zip(ENGINE_NAMES, wanted.counts(), free.counts(), board.engines.counts(), strict=True)
    for name, need, left, limit in figures:
        if need > left:
            yield Obstacle(
                ObstacleKind.ENGINES, f"{counted(need, name)} wanted, {left} of {limit} free"
            )


def _blocked(have: Sequence[Instance], want: Sequence[Profile]) -> Iterator[Obstacle]:
    """Yield the profiles of which too few placements are clear of instances in use."""
    for profile, count in Counter(want).items():
        clear = []
        blocked = []
        for placement in profile.placements:
            blockers = [i for i in have if i.placement.overlaps(placement)]
            if blockers:
                blocked.append(f"{_units(placement)} by {', '.join(map(str, blockers))}")
            else:
                clear.append(str(placement.start))
        if blocked and len(clear) < count:
            free = ", ".join(clear) or "none"
            yield Obstacle(
                ObstacleKind.PLACEMENT,
                f"{profile.name} is blocked at {'; '.join(blocked)} (free starts: {free})",
            )


def _units(placement: Placement) -> str:
    if placement.size == 1:
        return f"unit {placement.start}"
    return f"units {placement.start}-{placement.end - 1}"


def _combination(board: Board, have: Sequence[Instance], want: Sequence[Profile]) -> Obstacle:
    occupied = budget_of(board).total(have)
    places = "; ".join(
        f"{count} of {profile.name}, free starts: {_starts(board, occupied, profile)}"
        for profile, count in Counter(want).items()
    )
    return Obstacle(
        ObstacleKind.COMBINATION, f"each fits alone, but no placement holds all: {places}"
    )


def _starts(board: Board, occupied: Occupancy, profile: Profile) -> str:
    return ", ".join(map(str, free_starts(board, occupied, profile))) or "none"


def _subsets(instances: Sequence[Instance]) -> Iterator[list[tuple[Instance, ...]]]:
    """Yield all subsets of one size together, by rising size."""
    for count in range(1, len(instances) + 1):
        yield list(combinations(instances, count))


def moves(
    board: Board, have: Sequence[Instance], want: Sequence[Profile], movable: Sequence[Instance]
) -> tuple[tuple[Instance, Instance], ...]:
    """Return the fewest moves, of them the least memory moved, of them the most room left."""
    budget = budget_of(board)
    for subsets in _subsets(movable):
        found = []
        for moved in subsets:
            fixed = budget.total(instance for instance in have if instance not in moved)
            wish = [*want, *(instance.profile for instance in moved)]
            memory = sum(instance.profile.size for instance in moved)
            found += [
                ((-memory, headroom_of(board, total)), moved, instances)
                for instances, total in placements(board, fixed, wish)
            ]
        if found:
            _, moved, instances = max(found, key=lambda entry: entry[0])
            return _pair(moved, instances)
    return ()


def _pair(
    moved: Sequence[Instance], instances: Sequence[Instance]
) -> tuple[tuple[Instance, Instance], ...]:
    """Give each moved instance a new placement of its profile; any will do, so the lowest."""
    targets: dict[Profile, list[Instance]] = defaultdict(list)
    for instance in instances:
        targets[instance.profile].append(instance)
    return tuple((instance, targets[instance.profile].pop(0)) for instance in moved)


def evictions(
    board: Board, have: Sequence[Instance], want: Sequence[Profile], movable: Sequence[Instance]
) -> tuple[Instance, ...]:
    """Return the fewest instances, of them the least memory, without which the wish fits."""
    budget = budget_of(board)
    for subsets in _subsets(movable):
        for gone in sorted(subsets, key=lambda gone: sum(i.profile.size for i in gone)):
            fixed = budget.total(instance for instance in have if instance not in gone)
            if next(placements(board, fixed, want), None) is not None:
                return gone
    return ()
