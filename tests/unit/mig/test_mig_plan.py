"""Plans: every legal state can be planned, choices are optimal, and refusals are exact."""

import dataclasses
import random
import time
from collections import Counter
from functools import cache

import pytest

from mig import geometry, planner, spec
from mig.errors import IllegalLayoutError, MigError, ObstacleKind, PlanError
from mig.geometry import BOARDS, Instance
from mig.planner.occupancy import Occupancy
from mig.planner.search import placements

H100 = geometry.board("h100-80gb")


def instances(text, board=H100):
    return spec.parse_instances(board, text)


def requests(text, board=H100):
    return spec.parse_requests(board, text)


def texts(placed):
    return [str(instance) for instance in placed]


@cache
def all_states(key):
    board = BOARDS[key]
    return [frozenset(state) for state in planner.states(board, board.profiles)]


def profile_counts(state):
    return Counter(instance.profile for instance in state)


def refuse(have, want, board=H100):
    with pytest.raises(PlanError) as caught:
        planner.plan(board, instances(have, board), requests(want, board))
    return caught.value


@pytest.mark.parametrize("key", BOARDS)
def test_every_legal_state_can_be_planned_from_empty(key):
    board = BOARDS[key]
    wanted = {
        tuple(sorted((instance.profile for instance in state), key=board.profiles.index))
        for state in all_states(key)
    }
    for request in wanted:
        made = planner.plan(board, (), request)
        assert tuple(instance.profile for instance in made.placed) == request
        planner.check(board, made.placed)


@pytest.mark.parametrize("key", ["a30", "h100-80gb", "rtx-pro-6000"])
def test_every_legal_state_can_be_completed_beside_a_part_of_itself(key):
    board = BOARDS[key]
    rng = random.Random(7)
    for state in all_states(key):
        shuffled = rng.sample(sorted(state, key=str), len(state))
        have = shuffled[: len(shuffled) // 2]
        want = [instance.profile for instance in shuffled[len(have) :]]
        made = planner.plan(board, have, want)
        assert set(made.layout) == set(have) | set(made.placed)
        assert [instance.profile for instance in made.placed] == want
        planner.check(board, made.layout)


@pytest.mark.parametrize("key", ["a30", "b200", "rtx-pro-6000"])
def test_plans_and_refusals_agree_with_the_state_list(key):
    """A plan is the best state with the request beside ``have``; a refusal means there is none."""
    board = BOARDS[key]
    rng = random.Random(11)
    every = all_states(key)
    plain = [frozenset(state) for state in planner.states(board)]

    def room(state):
        return planner.headroom(board, state)

    planned = refused = 0
    for _ in range(150):
        have = rng.choice(every if rng.random() < 0.3 else plain)
        want = rng.choices(board.profiles, k=rng.randint(1, 3))
        request = profile_counts(have) + Counter(want)
        above = [s for s in every if have <= s and profile_counts(s) == request]
        try:
            made = planner.plan(board, tuple(have), want)
        except PlanError as err:
            assert not above
            assert_minimal(every, have, want, err)
            refused += 1
        else:
            assert frozenset(made.layout) in above
            assert made.headroom == max(map(room, above))
            planned += 1
    assert planned > 10
    assert refused > 10


def units(profiles):
    return sum(profile.size for profile in profiles)


def assert_minimal(every, have, want, err):
    """Compare the proposed moves and evictions with the fewest, then the smallest, that the state
    list allows.
    """
    by_name = {str(instance): instance.profile for instance in have}
    request = profile_counts(have) + Counter(want)
    moved = [have - s for s in every if profile_counts(s) == request]
    if moved:
        assert err.evictions == ()
        proposed = [by_name[move.source] for move in err.moves]
        assert (len(proposed), units(proposed)) == min(
            (len(group), units(i.profile for i in group)) for group in moved
        )
        return
    assert err.moves == ()
    # States that contain the request; their other slices stay at their placements.
    before = len(have) + len(want), units(i.profile for i in have) + units(want)
    evictions = [
        (before[0] - len(s), before[1] - units(i.profile for i in s))
        for s in every
        if Counter(want) <= profile_counts(s)
        and profile_counts(s) - Counter(want) <= profile_counts(have & s)
    ]
    proposed = [by_name[name] for name in err.evictions]
    assert (len(proposed), units(proposed)) == min(evictions, default=(0, 0))


def test_beside_a_slice_in_use():
    made = planner.plan(H100, instances("3g.40gb@4"), requests("2g.20gb,1g.10gb,1g.10gb"))
    assert texts(made.placed) == ["2g.20gb@0", "1g.10gb@2", "1g.10gb@3"]
    assert texts(made.layout) == ["2g.20gb@0", "1g.10gb@2", "1g.10gb@3", "3g.40gb@4"]
    assert made.headroom.largest is None


@pytest.mark.parametrize(
    ("want", "placed"),
    [
        ("1g.10gb", "1g.10gb@6"),
        ("2g.20gb", "2g.20gb@4"),
        ("1g.20gb", "1g.20gb@6"),
        ("3g.40gb", "3g.40gb@4"),
    ],
)
def test_big_placements_are_kept_free(want, placed):
    made = planner.plan(H100, (), requests(want))
    assert texts(made.placed) == [placed]
    assert made.headroom.largest is H100.profile("4g.40gb")


def test_placements_are_in_the_order_of_the_request():
    made = planner.plan(H100, (), requests("1g.10gb,3g.40gb,1g.20gb"))
    assert [i.profile.name for i in made.placed] == ["1g.10gb", "3g.40gb", "1g.20gb"]


@pytest.mark.parametrize("key", BOARDS)
def test_the_search_yields_each_set_of_placements_once(key):
    board = BOARDS[key]
    one, other = board.profiles[0], board.profiles[2]
    for want in ([one] * 3, [one, other, one]):
        found = [frozenset(placed) for placed, _ in placements(board, Occupancy(), want)]
        assert found
        assert len(set(found)) == len(found)
        request = Counter(want)
        assert set(found) == {s for s in all_states(key) if profile_counts(s) == request}


def test_a_maximum_count_binds_where_nothing_else_does():
    """On real boards the other rules imply it, so this board has at most one 1g."""
    once = dataclasses.replace(H100.profile("1g.10gb"), max_count=1)
    board = dataclasses.replace(
        H100, key="once", profiles=(dataclasses.replace(once, board_key="once"),)
    )
    profile = board.profiles[0]
    assert planner.census(board).states == 8
    with pytest.raises(PlanError) as caught:
        planner.plan(board, [Instance(profile, 0)], [profile])
    assert [obstacle.kind for obstacle in caught.value.obstacles] == [ObstacleKind.MAX_COUNT]
    broken = planner.violations(board, [Instance(profile, 0), Instance(profile, 1)])
    assert [obstacle.message for obstacle in broken] == ["2 of 1g.10gb, a board has at most 1"]


def test_nothing_wanted_is_a_plan():
    assert planner.plan(H100, instances("1g.10gb@0"), ()).placed == ()


def test_plans_are_deterministic():
    request = requests("1g.10gb,2g.20gb,1g.20gb")
    assert planner.plan(H100, (), request) == planner.plan(H100, (), request)


def test_an_illegal_start_is_not_planned_from():
    with pytest.raises(IllegalLayoutError, match=r"1g.10gb@1 overlaps 2g.20gb@0"):
        planner.plan(H100, instances("1g.10gb@1,2g.20gb@0"), requests("1g.10gb"))


def test_a_blocked_profile_names_its_blockers_and_the_move():
    err = refuse("1g.10gb@2", "4g.40gb")
    assert str(err) == (
        "4g.40gb does not fit h100-80gb beside 1g.10gb@2\n"
        "  - 4g.40gb is blocked at units 0-3 by 1g.10gb@2 (free starts: none)\n"
        "  - it would fit after moving 1 in use: 1g.10gb@2 -> 1g.10gb@6"
    )
    assert [obstacle.kind for obstacle in err.obstacles] == [ObstacleKind.PLACEMENT]
    assert (err.moves[0].source, err.moves[0].target) == ("1g.10gb@2", "1g.10gb@6")


def test_the_cheaper_of_two_moves_is_proposed():
    """Moving 2g.20gb@0 to 4 would help as well, but moves twice the memory."""
    err = refuse("2g.20gb@0,1g.10gb@6", "3g.40gb")
    assert [(move.source, move.target) for move in err.moves] == [("1g.10gb@6", "1g.10gb@2")]


def test_budgets_are_named_with_wanted_and_free():
    err = refuse("3g.40gb@4", "2x2g.20gb,1g.10gb")
    assert [obstacle.message for obstacle in err.obstacles] == [
        "5 compute slices wanted, 4 of 7 free",
        "5 memory units wanted, 4 of 8 free",
        "5 decoders wanted, 4 of 7 free",
        "5 JPEG engines wanted, 4 of 7 free",
    ]
    assert err.moves == ()
    assert err.evictions == ("3g.40gb@4",)


def test_memory_alone_can_be_short():
    """3g + 3g leave a compute slice free, but no memory unit for it."""
    err = refuse("3g.40gb@0,3g.40gb@4", "1g.10gb")
    assert [obstacle.kind for obstacle in err.obstacles] == [
        ObstacleKind.MEMORY,
        ObstacleKind.PLACEMENT,
    ]


def test_a_request_larger_than_the_board_proposes_nothing():
    err = refuse("1g.10gb@0", "8x1g.10gb")
    assert err.summary == "8x1g.10gb does not fit h100-80gb, even when empty"
    assert ObstacleKind.MAX_COUNT in {obstacle.kind for obstacle in err.obstacles}
    assert err.moves == err.evictions == ()


def test_the_media_extension_is_named_when_taken():
    err = refuse("1g.10gb+me@2", "1g.10gb+me")
    assert [obstacle.message for obstacle in err.obstacles] == [
        "1g.10gb+me: 1 wanted and 1 in use, a board has at most 1",
        "1 optical flow engine wanted, 0 of 1 free",
    ]
    assert err.evictions == ("1g.10gb+me@2",)


def test_profiles_that_fit_one_by_one_but_not_together():
    err = refuse("1g.10gb@1,1g.10gb+me@5", "2x1g.20gb,2g.20gb")
    assert [(obstacle.kind, obstacle.message) for obstacle in err.obstacles] == [
        (
            ObstacleKind.COMBINATION,
            "each fits alone, but no placement holds all: "
            "2 of 1g.20gb, free starts: 2, 6; 1 of 2g.20gb, free starts: 2",
        )
    ]
    assert [(move.source, move.target) for move in err.moves] == [("1g.10gb@1", "1g.10gb@4")]


def test_too_few_clear_placements_are_counted():
    err = refuse("1g.10gb@0", "2x3g.40gb")
    assert err.obstacles[-1].message == (
        "3g.40gb is blocked at units 0-3 by 1g.10gb@0 (free starts: 4)"
    )


def test_every_refusal_has_a_reason():
    rng = random.Random(3)
    every = all_states("h100-80gb")
    seen = set()
    for _ in range(400):
        have = tuple(rng.choice(every))
        want = rng.choices(H100.profiles, k=rng.randint(1, 4))
        try:
            planner.plan(H100, have, want)
        except PlanError as err:
            kinds = {obstacle.kind for obstacle in err.obstacles}
        else:
            continue
        assert kinds
        seen |= kinds
    assert {ObstacleKind.COMPUTE, ObstacleKind.MEMORY, ObstacleKind.PLACEMENT} <= seen


def test_the_hardest_refusals_take_a_moment_only():
    started = time.process_time()  # a tenth of a second
    refuse("1g.10gb@0,1g.10gb@1,1g.10gb@2,1g.10gb@3,1g.10gb@4,1g.10gb@5,1g.10gb@6", "3g.40gb")
    board = geometry.board("rtx-pro-6000")
    refuse("1g.24gb-me@0,1g.24gb@3,1g.24gb+gfx@6,1g.24gb+me@9", "2g.48gb+me.all", board)
    assert time.process_time() - started < 60


class TestPreferred:
    def test_the_remaining_room_has_the_largest_hole(self):
        free = instances("1g.10gb@0,1g.10gb@1,1g.10gb@4,1g.10gb@5")
        chosen = planner.choose_preferred(H100, free, free, (), 2)
        assert texts(chosen) == ["1g.10gb@4", "1g.10gb@5"]

    def test_slices_in_use_count(self):
        have = instances("1g.10gb@2,1g.10gb@5,1g.10gb@6")
        chosen = planner.choose_preferred(H100, have, instances("1g.10gb@2,1g.10gb@5"), (), 1)
        assert texts(chosen) == ["1g.10gb@5"]

    def test_must_include_is_included(self):
        free = instances("1g.10gb@0,1g.10gb@1,1g.10gb@4,1g.10gb@5")
        chosen = planner.choose_preferred(H100, free, free, instances("1g.10gb@1"), 2)
        assert texts(chosen) == ["1g.10gb@0", "1g.10gb@1"]

    def test_all_and_none(self):
        free = instances("1g.10gb@0,1g.10gb@1")
        assert planner.choose_preferred(H100, free, free, (), 2) == free
        assert planner.choose_preferred(H100, free, free, (), 0) == ()

    @pytest.mark.parametrize(("must", "n"), [("", 3), ("1g.10gb@0,1g.10gb@1", 1), ("", -1)])
    def test_numbers_that_do_not_go_together(self, must, n):
        free = instances("1g.10gb@0,1g.10gb@1")
        with pytest.raises(MigError, match=f"cannot choose {n} of 2 available"):
            planner.choose_preferred(H100, free, free, instances(must), n)

    def test_must_include_has_to_be_available(self):
        free = instances("1g.10gb@0")
        with pytest.raises(MigError, match=r"1g.10gb@3 must be included but is not available"):
            planner.choose_preferred(H100, free, free, instances("1g.10gb@3"), 1)

    def test_the_choice_is_the_best_of_all(self):
        rng = random.Random(5)
        full = instances(",".join(f"1g.10gb@{start}" for start in range(7)))
        for _ in range(60):
            free = tuple(i for i in full if rng.random() < 0.6)
            used = [i for i in full if i not in free and rng.random() < 0.5]
            n = rng.randint(0, len(free))
            chosen = planner.choose_preferred(H100, [*used, *free], free, (), n)
            assert len(chosen) == n
            best = planner.headroom(H100, [*used, *chosen])
            for _ in range(20):
                other = rng.sample(free, n)
                assert planner.headroom(H100, [*used, *other]) <= best
