"""Explains why a request cannot be met, and finds the smallest change that would allow it.

The search is exhaustive: a board holds at most twelve instances, so every subset of them can be
tried, and every reported obstacle was verified.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from mig.errors import Move, Obstacle, ObstacleKind, PlanError
from mig.geometry import Board, Engines, Instance, Placement, Profile
from mig.planner.compute import DeviceRequest, device_of, gpu_instances, gpu_instances_for
from mig.planner.headroom import headroom_of
from mig.planner.occupancy import Occupancy, budget_of
from mig.planner.rules import ENGINE_NAMES, pluralize, total_engines
from mig.planner.search import free_starts, placements
from mig.spec import format_instances, format_requests


def misfit_error(
    board: Board,
    have: Sequence[Instance],
    want: Sequence[DeviceRequest],
    movable: Sequence[Instance] | None = None,
) -> PlanError:
    """Return the error that explains why ``want`` does not fit together with ``have``.

    ``movable`` are the instances that the error may propose to move; by default all of ``have``.
    The error's obstacles and moves name GPU instances, because compute instances inside a GPU
    instance never prevent a placement.
    """
    rank = {profile: at for at, profile in enumerate((*board.profiles, board.whole))}
    request = format_requests(sorted(map(device_of, want), key=lambda device: rank[device.profile]))
    movable = gpu_instances(have if movable is None else movable)
    needed = gpu_instances_for((), want)
    if next(placements(board, Occupancy(), needed), None) is None:
        summary = f"{_describe_request(request, needed)} does not fit {board.key}, even when empty"
        return PlanError(summary, obstacles(board, (), needed))
    needed = gpu_instances_for(have, want)
    described = _describe_request(request, needed)
    summary = f"{described} does not fit {board.key} beside {format_instances(have)}"
    existing_instances = gpu_instances(have)
    moved = moves(board, existing_instances, needed, movable)
    proposed = tuple(Move(str(source), str(target)) for source, target in moved)
    gone = (
        () if proposed else tuple(map(str, evictions(board, existing_instances, needed, movable)))
    )
    return PlanError(summary, obstacles(board, existing_instances, needed), proposed, gone)


def _describe_request(request: str, needed: Sequence[Profile]) -> str:
    """Format a request, and the GPU instances that it needs if its text does not name them."""
    if "c." not in request:
        return request
    return f"{request} (GPU instances: {format_requests(needed)})"


def obstacles(
    board: Board, have: Sequence[Instance], want: Sequence[Profile]
) -> tuple[Obstacle, ...]:
    """Return every obstacle to placing ``want`` beside ``have``: budgets first, then placements."""
    all_obstacles = [
        *_compute(board, have, want),
        *_memory(board, have, want),
        *_max_counts(have, want),
        *_engines(board, have, want),
        *_blocked_profiles(have, want),
    ]
    if not all_obstacles:
        all_obstacles.append(_combination(board, have, want))
    return tuple(all_obstacles)


def _compute(board: Board, have: Sequence[Instance], want: Sequence[Profile]) -> Iterator[Obstacle]:
    free = board.compute_slices - sum(instance.profile.compute_slices for instance in have)
    requested_slices = sum(profile.compute_slices for profile in want)
    if requested_slices > free:
        message = (
            f"{pluralize(requested_slices, 'compute slice')} wanted,"
            f" {free} of {board.compute_slices} free"
        )
        yield Obstacle(ObstacleKind.COMPUTE, message)


def _memory(board: Board, have: Sequence[Instance], want: Sequence[Profile]) -> Iterator[Obstacle]:
    free = board.placement_units - sum(instance.profile.size for instance in have)
    requested_units = sum(profile.size for profile in want)
    if requested_units > free:
        message = (
            f"{pluralize(requested_units, 'memory unit')} wanted,"
            f" {free} of {board.placement_units} free"
        )
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
    requested_engines = sum((profile.engines for profile in want), Engines())
    figures = zip(
        ENGINE_NAMES, requested_engines.counts(), free.counts(), board.engines.counts(), strict=True
    )
    for name, need, free_count, limit in figures:
        if need > free_count:
            yield Obstacle(
                ObstacleKind.ENGINES,
                f"{pluralize(need, name)} wanted, {free_count} of {limit} free",
            )


def _blocked_profiles(have: Sequence[Instance], want: Sequence[Profile]) -> Iterator[Obstacle]:
    """Yield an obstacle for each wanted profile for which ``have`` leaves too few placements."""
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
    """Yield, for each size in rising order, the list of all subsets of that size."""
    for count in range(1, len(instances) + 1):
        yield list(combinations(instances, count))


def moves(
    board: Board, have: Sequence[Instance], want: Sequence[Profile], movable: Sequence[Instance]
) -> tuple[tuple[Instance, Instance], ...]:
    """Return the smallest set of moves (from, to) that makes room for ``want``.

    A set with fewer moves is smaller. Among sets with equally many moves, the set that moves the
    least memory is chosen, then the set that leaves the most room.
    """
    budget = budget_of(board)
    for subsets in _subsets(movable):
        solutions = []
        for moved in subsets:
            fixed = budget.total(instance for instance in have if instance not in moved)
            request = [*want, *(instance.profile for instance in moved)]
            memory = sum(instance.profile.size for instance in moved)
            solutions += [
                ((-memory, headroom_of(board, total)), moved, instances)
                for instances, total in placements(board, fixed, request)
            ]
        if solutions:
            _, moved, instances = max(solutions, key=lambda entry: entry[0])
            return _pair(moved, instances)
    return ()


def _pair(
    moved: Sequence[Instance], instances: Sequence[Instance]
) -> tuple[tuple[Instance, Instance], ...]:
    """Assign each moved instance a new placement of its profile, the lowest first."""
    targets: dict[Profile, list[Instance]] = defaultdict(list)
    for instance in instances:
        targets[instance.profile].append(instance)
    return tuple((instance, targets[instance.profile].pop(0)) for instance in moved)


def evictions(
    board: Board, have: Sequence[Instance], want: Sequence[Profile], movable: Sequence[Instance]
) -> tuple[Instance, ...]:
    """Return the smallest set of instances whose removal makes room for ``want``.

    A set with fewer instances is smaller. Among sets with equally many instances, the set with
    the least memory is chosen.
    """
    budget = budget_of(board)
    for subsets in _subsets(movable):
        for gone in sorted(subsets, key=lambda gone: sum(i.profile.size for i in gone)):
            fixed = budget.total(instance for instance in have if instance not in gone)
            if next(placements(board, fixed, want), None) is not None:
                return gone
    return ()
