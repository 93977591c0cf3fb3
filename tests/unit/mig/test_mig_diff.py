"""Steps to a desired layout keep the most instances, and never touch a slice in use."""

import random
from collections import Counter
from functools import cache

import pytest

from mig import geometry, planner, spec
from mig.errors import IllegalLayoutError, InUseError, MigError, PlanError
from mig.geometry import BOARDS, Instance

H100 = geometry.board("h100-80gb")


def instances(text, board=H100):
    return spec.parse_instances(board, text)


def entries(text, board=H100):
    def read(item):
        return (spec.parse_instances if "@" in item else spec.parse_requests)(board, item)

    return [entry for item in text.split(",") for entry in read(item)]


def texts(placed):
    return ",".join(map(str, placed))


@cache
def all_states(key):
    board = BOARDS[key]
    return planner.states(board, board.profiles)


def assert_steps_lead(have, steps):
    """Assert that every existing instance is kept or destroyed, and that the layout is the
    result.
    """
    assert set(steps.keep) | set(steps.destroy) == set(have)
    assert not set(steps.create) & set(have)
    assert set(steps.layout) == set(steps.keep) | set(steps.create)


@pytest.mark.parametrize("key", BOARDS)
def test_every_state_is_reached_exactly_from_any_other(key):
    board = BOARDS[key]
    rng = random.Random(1)
    every = all_states(key)
    for target in every:
        have = rng.choice(every)
        steps = planner.diff(board, have, target)
        assert_steps_lead(have, steps)
        assert set(steps.layout) == set(target)
        assert set(steps.keep) == set(have) & set(target)
        back = planner.diff(board, steps.layout, have)
        assert set(back.layout) == set(have)


@pytest.mark.parametrize("key", ["a30", "rtx-pro-6000"])
def test_every_pair_of_plain_states(key):
    board = BOARDS[key]
    for have in planner.states(board):
        for target in planner.states(board):
            assert planner.diff(board, have, target).layout == target


@pytest.mark.parametrize("key", ["a30", "b200", "rtx-pro-6000"])
def test_named_entries_keep_as_many_as_any_state_could(key):
    board = BOARDS[key]
    rng = random.Random(2)
    every = all_states(key)
    by_profiles = {}
    for state in every:
        by_profiles.setdefault(frozenset(Counter(i.profile for i in state).items()), []).append(
            state
        )
    for _ in range(200):
        have, target = rng.choice(every), rng.choice(every)
        steps = planner.diff(board, have, [instance.profile for instance in target])
        assert_steps_lead(have, steps)
        request = Counter(instance.profile for instance in target)
        assert Counter(instance.profile for instance in steps.layout) == request
        possible = by_profiles[frozenset(request.items())]
        assert len(steps.keep) == max(len(set(have) & set(state)) for state in possible)


@pytest.mark.parametrize("key", BOARDS)
def test_an_unchanged_request_changes_nothing(key):
    board = BOARDS[key]
    for state in all_states(key)[::7]:
        steps = planner.diff(board, state, [i.profile for i in state], in_use=state)
        assert steps.is_empty
        assert steps.keep == state


def test_a_mixed_request():
    steps = planner.diff(
        H100, instances("1g.10gb@0,1g.10gb@5,2g.20gb@2"), entries("3g.40gb@4,2g.20gb,1g.10gb")
    )
    assert texts(steps.keep) == "1g.10gb@0,2g.20gb@2"
    assert texts(steps.destroy) == "1g.10gb@5"
    assert texts(steps.create) == "3g.40gb@4"


def test_an_instance_in_use_fills_a_named_entry():
    """Without instances in use, either 1g could be kept; the one in use must be kept."""
    for used in ("1g.10gb@0", "1g.10gb@6"):
        steps = planner.diff(
            H100, instances("1g.10gb@0,1g.10gb@6"), entries("1g.10gb"), instances(used)
        )
        assert texts(steps.keep) == used


def test_destroying_a_slice_in_use_names_it():
    with pytest.raises(InUseError) as caught:
        planner.diff(
            H100,
            instances("1g.10gb@0,1g.10gb@1,2g.20gb@2"),
            entries("1g.10gb"),
            in_use=instances("1g.10gb@1,2g.20gb@2"),
        )
    assert caught.value.instances == ("2g.20gb@2",)
    assert str(caught.value) == (
        "the desired layout of h100-80gb would destroy slices that are in use\n"
        "  - 2g.20gb@2 is in use: release it first, or keep it in the layout"
    )


def test_more_in_use_than_the_layout_has_entries():
    have = instances("1g.10gb@0,1g.10gb@1")
    with pytest.raises(InUseError) as caught:
        planner.diff(H100, have, entries("1g.10gb"), in_use=have)
    assert caught.value.instances == ("1g.10gb@1",)


def test_a_placed_entry_over_a_slice_in_use_names_it():
    with pytest.raises(InUseError) as caught:
        planner.diff(
            H100,
            instances("1g.10gb@5"),
            entries("3g.40gb@4,1g.10gb"),
            in_use=instances("1g.10gb@5"),
        )
    assert caught.value.instances == ("1g.10gb@5",)


def test_a_slice_in_use_in_the_way_is_not_moved_but_named():
    with pytest.raises(PlanError) as caught:
        planner.diff(
            H100,
            instances("1g.10gb@2,1g.10gb@5"),
            entries("1g.10gb,1g.10gb,3g.40gb"),
            in_use=instances("1g.10gb@2,1g.10gb@5"),
        )
    assert "units 0-3 by 1g.10gb@2; units 4-7 by 1g.10gb@5" in str(caught.value)
    assert len(caught.value.moves) == 1


def test_only_slices_in_use_are_proposed_to_move():
    with pytest.raises(PlanError) as caught:
        planner.diff(
            H100,
            instances("1g.10gb@2"),
            entries("1g.10gb@5,1g.10gb,3g.40gb"),
            in_use=instances("1g.10gb@2"),
        )
    assert [(move.source, move.target) for move in caught.value.moves] == [
        ("1g.10gb@2", "1g.10gb@4")
    ]


def test_placed_entries_that_leave_no_room_for_a_named_one_propose_nothing():
    with pytest.raises(PlanError) as caught:
        planner.diff(H100, (), entries("1g.10gb@2,1g.10gb@5,3g.40gb"))
    assert caught.value.obstacles[0].message.startswith("3g.40gb is blocked at units 0-3 by 1g")
    assert caught.value.moves == caught.value.evictions == ()


def test_a_layout_that_is_illegal_in_itself():
    with pytest.raises(IllegalLayoutError, match=r"2g.20gb@4 overlaps 3g.40gb@4"):
        planner.diff(H100, (), entries("2g.20gb@4,3g.40gb@4"))
    with pytest.raises(PlanError, match="even when empty"):
        planner.diff(H100, (), entries("4x3g.40gb"))


def test_media_of_a_slice_in_use_and_of_a_placed_entry_are_checked_together():
    board = geometry.board("a30")
    have = instances("1g.6gb+me@0", board)
    with pytest.raises(IllegalLayoutError, match="optical flow engines"):
        planner.diff(board, have, entries("2g.12gb+me@2,1g.6gb+me", board), in_use=have)


def test_in_use_must_exist():
    with pytest.raises(MigError, match=r"1g.10gb@3 is listed as in use but does not exist"):
        planner.diff(H100, (), entries("1g.10gb"), in_use=instances("1g.10gb@3"))


def test_an_instance_listed_twice_as_in_use_counts_once():
    used = instances("1g.10gb@0")
    assert planner.diff(H100, used, entries("1g.10gb"), in_use=(*used, *used)).keep == used


def test_all_slices_in_use_survive_any_request():
    """Any desired layout either causes an error or keeps every instance in use."""
    rng = random.Random(9)
    every = all_states("h100-80gb")
    kept = refused = 0
    for _ in range(500):
        have, target = rng.choice(every), rng.choice(every)
        used = [instance for instance in have if rng.random() < 0.4]
        desired = [i if rng.random() < 0.3 else i.profile for i in target]
        try:
            steps = planner.diff(H100, have, desired, in_use=used)
        except PlanError:
            refused += 1
            continue
        kept += bool(used)
        assert set(used) <= set(steps.keep)
        assert {entry for entry in desired if isinstance(entry, Instance)} <= set(steps.layout)
    assert kept > 20
    assert refused > 20
