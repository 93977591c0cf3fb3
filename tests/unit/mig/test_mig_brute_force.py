"""The planner agrees with an oracle that tries every placement and shares no code with it."""

from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from mig import planner
from mig.errors import InUseError, PlanError
from mig.geometry import BOARDS, Instance


def is_legal(board, instances):
    """Evaluate the hardware's rules, independently of the planner."""
    units = [u for i in instances for u in range(i.start, i.start + i.profile.size)]
    counts = Counter(i.profile.name for i in instances)
    columns = zip(*(i.profile.engines.counts() for i in instances), strict=True)
    return (
        len(units) == len(set(units))
        and all(counts[p.name] <= p.max_count for p in board.profiles)
        and sum(i.profile.compute_slices for i in instances) <= board.compute_slices
        and all(sum(c) <= most for c, most in zip(columns, board.engines.counts(), strict=False))
    )


def every_way(board, have, want):
    """Yield every legal set of instances that holds ``have`` and places all of ``want``."""
    if not want:
        yield have
        return
    for start in want[0].starts:
        now = (*have, Instance(want[0], start))
        if is_legal(board, now):
            yield from every_way(board, now, want[1:])


@st.composite
def situations(draw, requests=4):
    """Draw a board, legal instances on it, and a request, which may be impossible."""
    board = BOARDS[draw(st.sampled_from(sorted(BOARDS)))]
    every = [Instance(p, start) for p in board.profiles for start in p.starts]
    have = ()
    for instance in draw(st.lists(st.sampled_from(every), max_size=7)):
        if is_legal(board, (*have, instance)):
            have = (*have, instance)
    want = draw(st.lists(st.sampled_from(board.profiles), min_size=1, max_size=requests))
    return board, have, tuple(want)


@given(situations())
@settings(max_examples=400, deadline=None)
def test_a_plan_is_legal_and_a_refusal_is_right(situation):
    board, have, want = situation
    try:
        made = planner.plan(board, have, want)
    except PlanError:
        assert next(every_way(board, have, want), None) is None
        return
    assert is_legal(board, made.layout)
    assert set(have) <= set(made.layout)
    assert Counter(i.profile for i in made.layout) == Counter([*(i.profile for i in have), *want])


@given(situations(), st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_a_diff_keeps_slices_in_use_and_as_many_others_as_possible(situation, rng):
    board, have, want = situation
    in_use = [instance for instance in have if rng.random() < 0.4]
    left = Counter(want) - Counter(i.profile for i in in_use)
    kept_profiles = Counter(i.profile for i in in_use)
    ways = [
        frozenset(way)
        for way in every_way(board, tuple(in_use), tuple(left.elements()))
        if not kept_profiles - Counter(want)
    ]
    try:
        found = planner.diff(board, have, want, in_use)
    except InUseError:
        assert kept_profiles - Counter(want)
        return
    except PlanError:
        assert ways == []
        return
    assert frozenset(found.layout) in ways
    assert set(in_use) <= set(found.keep)
    assert set(found.destroy) == set(have) - set(found.layout)
    assert len(found.keep) == max(len(way & set(have)) for way in ways)


@pytest.mark.parametrize("key", ["a30", "h100-80gb", "rtx-pro-6000"])
def test_the_list_of_states_equals_brute_force(key):
    board = BOARDS[key]
    plain = [Instance(p, s) for p in board.profiles if p.is_plain for s in p.starts]
    found = {frozenset()}
    border = [()]
    while border:
        state = border.pop()
        for instance in plain:
            more = (*state, instance)
            if instance not in state and frozenset(more) not in found and is_legal(board, more):
                found.add(frozenset(more))
                border.append(more)
    assert {frozenset(state) for state in planner.states(board)} == found
