"""The state space: published counts, and agreement with a naive enumeration."""

from collections import Counter
from functools import cache
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from mig import geometry, planner
from mig.geometry import BOARDS, Instance
from mig.planner.census import classic_profiles
from mig.planner.occupancy import Budget

EIGHT_UNIT_BOARDS = ("a100-40gb", "a100-80gb", "h100-80gb", "h100-nvl", "h200", "b200")
FOUR_SLICE_BOARDS = ("a30", "rtx-pro-6000")

# The maximal multisets of an eight-unit board's classic profiles, by compute slices.
CLASSIC_MULTISETS = [
    "1111111",
    "111112",
    "11122",
    "1222",
    "11113",
    "1113",
    "1123",
    "123",
    "223",
    "33",
    "1114",
    "124",
    "34",
    "7",
]


def legal(board, instances):
    """Evaluate the rules without packed integers: the oracle for the planner's search."""
    units = [u for i in instances for u in range(i.start, i.start + i.profile.size)]
    engines = [
        sum(column) for column in zip(*(i.profile.engines.counts() for i in instances), strict=True)
    ]
    counts = Counter(i.profile.name for i in instances)
    return (
        len(units) == len(set(units))
        and sum(i.profile.compute_slices for i in instances) <= board.compute_slices
        and all(
            used <= limit
            for used, limit in zip(engines or [0] * 5, board.engines.counts(), strict=True)
        )
        and all(n <= board.profile(name).max_count for name, n in counts.items())
    )


@cache
def naive_states(key):
    """Return every legal set of instances of all profiles, extending sets until none is new."""
    board = BOARDS[key]
    atoms = [Instance(p, start) for p in board.profiles for start in p.starts]
    found = {frozenset()}
    fresh = found
    while fresh:
        fresh = {
            state | {atom}
            for state in fresh
            for atom in atoms
            if atom not in state and legal(board, [*state, atom])
        } - found
        found |= fresh
    return found


def shorthand(multiset):
    return "".join(str(p.compute_slices) * n for p, n in sorted(multiset, key=str))


@pytest.mark.parametrize("key", EIGHT_UNIT_BOARDS)
def test_eight_unit_counts(key):
    board = BOARDS[key]
    assert planner.census(board) == planner.Census(723, 78, 38)
    assert planner.census(board, classic_profiles(board)) == planner.Census(298, 19, 14)


@pytest.mark.parametrize("key", FOUR_SLICE_BOARDS)
def test_four_slice_counts(key):
    board = BOARDS[key]
    assert planner.census(board) == planner.Census(26, 5, 4)
    assert classic_profiles(board) == tuple(p for p in board.profiles if p.is_plain)


def test_the_fourteen_classic_multisets():
    board = geometry.board("h100-80gb")
    found = planner.multisets(board, classic_profiles(board))
    assert sorted(map(shorthand, found)) == sorted(CLASSIC_MULTISETS)


def test_three_ones_and_a_three_are_maximal_only_with_the_three_at_0():
    board = geometry.board("h100-80gb")
    starts = {
        instance.start
        for state in planner.maximal_states(board, classic_profiles(board))
        for instance in state
        if instance.profile.name == "3g.40gb" and len(state) == 4
        if sum(i.profile.compute_slices for i in state) == 6
    }
    assert starts == {0}


@pytest.mark.parametrize("key", ["a30", "a100-40gb", "h100-80gb", "b200", "rtx-pro-6000"])
def test_all_profiles_agree_with_the_naive_enumeration(key):
    board = BOARDS[key]
    found = planner.states(board, board.profiles)
    assert len(set(map(frozenset, found))) == len(found)
    assert set(map(frozenset, found)) == naive_states(key)


def test_states_come_in_order_and_start_empty():
    found = planner.states(geometry.board("a30"))
    assert found[0] == ()
    assert all(list(s) == sorted(s, key=lambda i: i.start) for s in found)


@pytest.mark.parametrize("key", BOARDS)
def test_every_state_passes_the_rules(key):
    board = BOARDS[key]
    assert not any(planner.violations(board, s) for s in planner.states(board, board.profiles))


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_rules_break_exactly_where_no_state_is(data):
    board = BOARDS[data.draw(st.sampled_from(["a30", "h100-80gb", "rtx-pro-6000"]))]
    atoms = [Instance(p, start) for p in board.profiles for start in p.starts]
    chosen = data.draw(st.lists(st.sampled_from(atoms), max_size=5, unique=True))
    assert bool(planner.violations(board, chosen)) == (
        frozenset(chosen) not in naive_states(board.key)
    )


def test_maximal_states_cannot_grow_and_others_can():
    board = geometry.board("rtx-pro-6000")
    every = naive_states("rtx-pro-6000")
    maximal = set(map(frozenset, planner.maximal_states(board, board.profiles)))
    assert maximal == {state for state in every if not any(state < other for other in every)}


@pytest.mark.parametrize("key", ["a30", "h100-80gb", "rtx-pro-6000"])
def test_headroom_counts_the_supersets(key):
    board = BOARDS[key]
    every = naive_states(key)
    for state in sorted(every, key=lambda s: sorted(map(str, s)))[:: max(1, len(every) // 60)]:
        room = planner.headroom(board, state)
        above = [other - state for other in every if state <= other]
        assert room.states == sum(all(i.profile.is_plain for i in more) for more in above)
        singles = [next(iter(more)).profile for more in above if len(more) == 1]
        sizes = [(p.size, p.compute_slices) for p in singles]
        assert (room.largest_units, room.largest_compute_slices) == max(sizes, default=(0, 0))
        assert (room.largest is None) == (not sizes)
        assert sum(room.free_placements) == len(singles)


class TestMediaEngines:
    board = geometry.board("rtx-pro-6000")

    def instances(self, *texts):
        return [
            Instance(self.board.profile(name), int(start))
            for name, start in (text.split("@") for text in texts)
        ]

    @pytest.mark.parametrize(
        "other", ["1g.24gb@3", "1g.24gb+me@3", "1g.24gb+gfx@9", "2g.48gb@6", "2g.48gb+me.all@6"]
    )
    def test_all_media_excludes_every_other_media_instance(self, other):
        broken = planner.violations(self.board, self.instances("1g.24gb+me.all@0", other))
        assert any(obstacle.kind == "engines" for obstacle in broken)

    def test_all_media_goes_with_instances_without_media(self):
        together = self.instances("2g.48gb+me.all@0", "1g.24gb-me@6", "1g.24gb-me@9")
        assert planner.violations(self.board, together) == ()

    def test_messages_name_the_owners_of_engines(self):
        broken = planner.violations(self.board, self.instances("1g.24gb+me.all@0", "2g.48gb@6"))
        assert broken[0].message == (
            "6 decoders (1g.24gb+me.all@0 4, 2g.48gb@6 2), the board has 4"
        )


@pytest.mark.parametrize("key", ["a30", "h100-80gb"])
def test_media_extension_exists_once(key):
    board = BOARDS[key]
    media = [p for p in board.profiles if p.attribute == "+me"]
    atoms = [Instance(p, start) for p in media for start in p.starts]
    assert all(planner.violations(board, pair) for pair in combinations(atoms, 2))


def test_an_instance_of_another_board_is_refused():
    foreign = Instance(geometry.board("a100-80gb").profile("1g.10gb"), 0)
    broken = planner.violations(geometry.board("h100-80gb"), [foreign])
    assert broken[0].message == "1g.10gb@0 is of board a100-80gb, not h100-80gb"


def test_a_budget_that_would_overflow_its_field_is_refused():
    board = geometry.board("a30")
    fields = {name: getattr(board, name) for name in board.__slots__}
    with pytest.raises(ValueError, match="a30 has a limit above 63, which is not supported"):
        Budget(type(board)(**{**fields, "compute_slices": 64}))
