"""The fewest changes between two layouts: against a search that knows nothing of the planner's, and
a proof that stands by itself.
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


def most_kept(on: Board, have: tuple[Instance, ...], wish: list[geometry.Profile]) -> int:
    """Look at every legal state of the board, and at each that is what is wanted."""
    wanted = Counter(wish)
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
def test_no_plan_destroys_fewer_and_the_result_is_what_is_wanted(key: str) -> None:
    on = board(key)
    for have, wish in cases(key, 60):
        made = planner.relayout(on, have, wish)
        assert not planner.violations(on, made.layout)
        assert Counter(i.profile for i in made.layout) == Counter(wish)
        assert {*made.keep, *made.destroy} == set(have)
        assert len(made.keep) == most_kept(on, have, wish)
        assert made.proof.bound == len(made.destroy)


@pytest.mark.parametrize("key", BOARDS)
def test_the_proof_alone_implies_its_bound(key: str) -> None:
    """Whatever stays has no more of a profile than are wanted, and contains no conflict."""
    on = board(key)
    for have, wish in cases(key, 60):
        proof = planner.relayout(on, have, wish).proof
        wanted = Counter(wish)
        for stays in combinations(have, len(have) - proof.bound + 1):
            too_many = Counter(i.profile for i in stays) - wanted
            assert too_many or any(set(core) <= set(stays) for core in proof.conflicts)
        more = Counter(i.profile for i in have) - wanted
        assert Counter({one.profile: count for one, count in proof.surplus}) == more


def test_each_conflict_is_real_and_none_of_it_can_be_left_out() -> None:
    on = board()
    for have, wish in cases("h100-80gb", 40):
        for core in planner.relayout(on, have, wish).proof.conflicts:
            for some, fits in ((core, False), *((set(core) - {one}, True) for one in core)):
                rest = list((Counter(wish) - Counter(i.profile for i in some)).elements())
                try:
                    planner.plan(on, tuple(some), rest)
                except PlanError:
                    assert not fits
                else:
                    assert fits


def test_what_is_pinned_stays_and_what_is_held_comes_before_what_is_not() -> None:
    have = places("1g.10gb@0,1g.10gb@4")
    wish = [board().profile("3g.40gb"), board().profile("1g.10gb")]
    for kept in have:
        assert planner.relayout(board(), have, wish, pinned=[kept]).keep == (kept,)
        assert planner.relayout(board(), have, wish, held=[kept]).keep == (kept,)
    with pytest.raises(InUseError, match=r"1g.10gb@0"):
        planner.relayout(board(), have, wish, pinned=have)


def test_what_is_wrong_is_said() -> None:
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
