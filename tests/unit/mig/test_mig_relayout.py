"""Relayouts make the fewest changes, as an independent search finds, and their proofs are
complete.
"""

import random
from collections import Counter
from itertools import combinations

import pytest

from mig import geometry, planner
from mig.errors import IllegalLayoutError, InUseError, MigError, PlanError
from mig.geometry import Board, Instance

BOARDS = ("h100-80gb", "a30", "a100-40gb")


def board(key: str = "h100-80gb") -> Board:
    return geometry.board(key)


def places(text: str, key: str = "h100-80gb") -> tuple[Instance, ...]:
    found = (part.partition("@") for part in text.split(",") if part)
    return tuple(Instance(board(key).profile(name), int(start)) for name, _, start in found)


def most_kept(on: Board, have: tuple[Instance, ...], request: list[geometry.Profile]) -> int:
    """Return how many existing instances the best legal state with the requested slices keeps."""
    wanted = Counter(request)
    return max(
        len(set(have) & set(state))
        for state in planner.states(on)
        if Counter(i.profile for i in state) == wanted
    )


def cases(key: str, count: int) -> list[tuple[tuple[Instance, ...], list[geometry.Profile]]]:
    chosen, states = random.Random(7), planner.states(board(key))
    return [
        (chosen.choice(states), [i.profile for i in chosen.choice(states)]) for _ in range(count)
    ]


@pytest.mark.parametrize("key", BOARDS)
def test_no_plan_destroys_fewer_and_the_result_has_the_wanted_slices(key: str) -> None:
    on = board(key)
    for have, request in cases(key, 60):
        made = planner.relayout(on, have, request)
        assert not planner.violations(on, made.layout)
        assert Counter(i.profile for i in made.layout) == Counter(request)
        assert {*made.keep, *made.destroy} == set(have)
        assert len(made.keep) == most_kept(on, have, request)
        assert made.proof.bound == len(made.destroy)


@pytest.mark.parametrize("key", BOARDS)
def test_the_proof_alone_implies_its_bound(key: str) -> None:
    """Any larger set of instances to keep has too many of a profile, or contains a conflict."""
    on = board(key)
    for have, request in cases(key, 60):
        proof = planner.relayout(on, have, request).proof
        wanted = Counter(request)
        for stays in combinations(have, len(have) - proof.bound + 1):
            too_many = Counter(i.profile for i in stays) - wanted
            assert too_many or any(set(core) <= set(stays) for core in proof.conflicts)
        more = Counter(i.profile for i in have) - wanted
        assert Counter({one.profile: count for one, count in proof.surplus}) == more


def test_each_conflict_is_real_and_none_of_it_can_be_left_out() -> None:
    on = board()
    for have, request in cases("h100-80gb", 40):
        for core in planner.relayout(on, have, request).proof.conflicts:
            for some, fits in ((core, False), *((set(core) - {one}, True) for one in core)):
                rest = list((Counter(request) - Counter(i.profile for i in some)).elements())
                try:
                    planner.plan(on, tuple(some), rest)
                except PlanError:
                    assert not fits
                else:
                    assert fits


def test_pinned_slices_stay_and_held_slices_are_preferred() -> None:
    have = places("1g.10gb@0,1g.10gb@4")
    request = [board().profile("3g.40gb"), board().profile("1g.10gb")]
    for kept in have:
        assert planner.relayout(board(), have, request, pinned=[kept]).keep == (kept,)
        assert planner.relayout(board(), have, request, held=[kept]).keep == (kept,)
    with pytest.raises(InUseError, match=r"1g.10gb@0"):
        planner.relayout(board(), have, request, pinned=have)


def test_errors_name_the_problem() -> None:
    have = places("1g.10gb@0")
    with pytest.raises(MigError, match="pinned but does not exist"):
        planner.relayout(board(), have, [], pinned=places("1g.10gb@1"))
    with pytest.raises(IllegalLayoutError):
        planner.relayout(board(), places("1g.10gb@0,3g.40gb@0"), [])
    with pytest.raises(PlanError, match="even when empty"):
        planner.relayout(board(), have, [board().profile("1g.10gb")] * 8)


def test_a_place_that_is_wanted_is_kept_to() -> None:
    have = places("3g.40gb@0")
    made = planner.relayout(board(), have, places("3g.40gb@4"))
    assert (made.keep, made.destroy, made.create) == ((), have, places("3g.40gb@4"))
    assert made.proof.conflicts == (have,)
