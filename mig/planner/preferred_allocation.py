"""Chooses which existing free slices to allocate, for the kubelet's GetPreferredAllocation."""

from collections.abc import Sequence
from itertools import combinations

from mig.errors import MigError
from mig.geometry import Board, Instance
from mig.planner.headroom import headroom
from mig.planner.rules import check


def choose_preferred(
    board: Board,
    have: Sequence[Instance],
    available_instances: Sequence[Instance],
    must_include: Sequence[Instance],
    n: int,
) -> tuple[Instance, ...]:
    """Choose ``n`` of the available instances of one board, including those in ``must_include``.

    ``have`` are all instances of the board; those that are not available are in use. The chosen set
    is the one that would leave the most room (``Headroom``) if all other available instances were
    destroyed. Among sets that would leave equal room, the first in the order of
    ``available_instances`` is chosen. The chosen instances are returned in that order.

    Raises MigError if ``must_include`` or ``n`` does not fit the available instances,
    IllegalLayoutError if ``have`` and ``available_instances`` cannot exist on the board.
    """
    in_use = [instance for instance in have if instance not in available_instances]
    check(board, [*in_use, *available_instances])
    missing = [instance for instance in must_include if instance not in available_instances]
    if missing:
        raise MigError(f"{missing[0]} must be included but is not available on {board.key}")
    fixed = tuple(dict.fromkeys(must_include))
    optional = [instance for instance in available_instances if instance not in fixed]
    extra = n - len(fixed)
    if not 0 <= extra <= len(optional):
        raise MigError(
            f"cannot choose {n} of {len(available_instances)} available instances "
            f"if {len(fixed)} of them must be included"
        )
    best = max(
        ((*fixed, *chosen) for chosen in combinations(optional, extra)),
        key=lambda chosen: headroom(board, [*in_use, *chosen]),
    )
    return tuple(instance for instance in available_instances if instance in best)
