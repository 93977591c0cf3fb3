"""Exhaustive placement of a multiset of profiles beside an occupancy.

Equal profiles are placed at rising starts only, so each legal set of placements is produced once:
the search is never longer than the board's list of states.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from mig.geometry import Board, Instance, Profile
from mig.planner.occupancy import Budget, Occupancy, budget_of


def placements(
    board: Board, occupied: Occupancy, requested_profiles: Sequence[Profile]
) -> Iterator[tuple[tuple[Instance, ...], Occupancy]]:
    """Yield every way to place all the wanted profiles beside ``occupied``.

    Each result has the placed instances and the board's occupancy with these instances. The
    instances are grouped by profile, the largest profile first. The order of the results is
    deterministic.
    """
    order = {profile: index for index, profile in enumerate((*board.profiles, board.whole))}
    ranked = sorted(requested_profiles, key=lambda p: (-p.size, -p.compute_slices, order[p]))
    groups = [(profile, sum(1 for _ in run)) for profile, run in groupby(ranked)]
    yield from _place(budget_of(board), groups, 0, occupied)


def free_starts(board: Board, occupied: Occupancy, profile: Profile) -> tuple[int, ...]:
    """Return the starts at which one more instance of the profile could be placed."""
    budget = budget_of(board)
    return tuple(
        start
        for start in profile.starts
        if budget.is_compatible(occupied, budget.of(profile, start))
    )


def _place(
    budget: Budget, groups: Sequence[tuple[Profile, int]], lowest: int, occupied: Occupancy
) -> Iterator[tuple[tuple[Instance, ...], Occupancy]]:
    if not groups:
        yield (), occupied
        return
    (profile, count), *later = groups
    remaining = [(profile, count - 1), *later] if count > 1 else later
    for start in profile.starts:
        if start < lowest:
            continue
        cost = budget.of(profile, start)
        if not budget.is_compatible(occupied, cost):
            continue
        next_lowest = start + 1 if count > 1 else 0
        for later_instances, total in _place(budget, remaining, next_lowest, occupied | cost):
            yield (Instance(profile, start), *later_instances), total
