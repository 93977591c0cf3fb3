"""Devices that share a GPU instance, against an oracle that tries every place of every device."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from mig import geometry, planner, spec
from mig.errors import IllegalLayoutError, PlanError
from mig.geometry import BOARDS, Board, DeviceProfile, Instance

H100 = geometry.board("h100-80gb")
SMALL = [BOARDS[key] for key in ("a30", "h100-80gb", "rtx-pro-6000")]


def names(instances: tuple[Instance, ...]) -> list[str]:
    return list(map(str, instances))


def devices(text: str, board: Board = H100) -> tuple[DeviceProfile, ...]:
    return spec.parse_requests(board, text)


def places(device: DeviceProfile) -> Iterator[Instance]:
    board, inner = BOARDS[device.profile.board_key], device.compute
    for start in device.profile.starts:
        for at in (None,) if inner is None else inner.starts:
            yield board.instance(device.name, start, at)


def is_legal(board: Board, instances: tuple[Instance, ...]) -> bool:
    """Evaluate the rules, independently of the planner."""
    inside: dict[tuple[str, int], list[int]] = {}
    for one in instances:
        place = one.compute
        mine = range(one.profile.compute_slices)
        if place is not None:
            mine = range(place.start, place.start + place.profile.compute_slices)
        inside.setdefault((one.profile.name, one.start), []).extend(mine)
    if any(len(set(slices)) < len(slices) for slices in inside.values()):
        return False
    gpu_instances = [(board.profile(name), start) for name, start in inside]
    units = [u for p, start in gpu_instances for u in range(start, start + p.size)]
    counts = Counter(p.name for p, _ in gpu_instances)
    engines = zip(*(p.engines.counts() for p, _ in gpu_instances), strict=True)
    return (
        len(units) == len(set(units))
        and all(counts[p.name] <= p.max_count for p in board.profiles)
        and sum(p.compute_slices for p, _ in gpu_instances) <= board.compute_slices
        and all(sum(c) <= most for c, most in zip(engines, board.engines.counts(), strict=False))
    )


def every_way(
    board: Board, have: tuple[Instance, ...], want: tuple[DeviceProfile, ...]
) -> Iterator[tuple[Instance, ...]]:
    if not want:
        yield have
        return
    for one in places(want[0]):
        if is_legal(board, (*have, one)):
            yield from every_way(board, (*have, one), want[1:])


def gpu_instance_counts(instances: tuple[Instance, ...]) -> Counter[str]:
    return Counter(one.profile.name for one in {i.gpu_instance for i in instances})


@st.composite
def situations(draw: st.DrawFn) -> tuple[Board, tuple[Instance, ...], tuple[DeviceProfile, ...]]:
    board = draw(st.sampled_from(SMALL))
    kinds = [d for d in board.device_profiles if d.profile.is_plain]
    every = [one for kind in kinds for one in places(kind)]
    have: tuple[Instance, ...] = ()
    for one in draw(st.lists(st.sampled_from(every), max_size=5)):
        if is_legal(board, (*have, one)):
            have = (*have, one)
    return board, have, tuple(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)))


@given(situations())
@settings(max_examples=40, deadline=None)
def test_a_plan_is_legal_takes_the_fewest_gpu_instances_and_a_refusal_is_right(
    situation: tuple[Board, tuple[Instance, ...], tuple[DeviceProfile, ...]],
) -> None:
    board, have, want = situation
    try:
        made = planner.plan(board, have, want)
    except PlanError:
        assert next(every_way(board, have, want), None) is None
        return
    assert is_legal(board, made.layout)
    assert not planner.violations(board, made.layout)
    assert set(have) <= set(made.layout)
    assert [one.device for one in made.placed] == list(want)
    fewest = min(gpu_instance_counts(way).total() for way in every_way(board, have, want))
    assert gpu_instance_counts(made.layout).total() == fewest


@pytest.mark.parametrize("board", SMALL, ids=str)
def test_rules_accept_exactly_the_divisions_of_a_gpu_instance_that_do_not_overlap(
    board: Board,
) -> None:
    for profile in board.profiles:
        kinds = [d for d in board.device_profiles if d.profile == profile]
        parts = [one for kind in kinds for one in places(kind) if one.start == profile.starts[0]]
        for size in (1, 2, 3):
            for some in combinations(parts, size):
                assert (not planner.violations(board, some)) == is_legal(board, some)


def test_narrow_devices_are_packed_into_as_few_gpu_instances_as_hold_them() -> None:
    made = planner.plan(H100, (), devices("3x1c.3g.40gb,1c.2g.20gb,1c.2g.20gb"))
    assert gpu_instance_counts(made.placed) == {"3g.40gb": 1, "2g.20gb": 1}
    more = planner.plan(H100, (), devices("4x1c.3g.40gb"))
    assert gpu_instance_counts(more.placed) == {"3g.40gb": 2}
    assert names(planner.plan(H100, made.placed[:1], devices("2c.3g.40gb")).placed) != []


def test_free_compute_slices_of_divided_gpu_instances_are_used_first() -> None:
    have = spec.parse_instances(H100, "1c.3g.40gb@4.2,1g.10gb@0")
    assert names(planner.plan(H100, have, devices("2c.3g.40gb")).placed) == ["2c.3g.40gb@4.0"]
    assert names(planner.plan(H100, have[:1], devices("1c.3g.40gb")).placed) == ["1c.3g.40gb@4.0"]


def test_a_relayout_keeps_devices_that_can_stay_in_their_gpu_instance() -> None:
    have = spec.parse_instances(H100, "1c.3g.40gb@4.0,1c.3g.40gb@4.2,2g.20gb@0")
    made = planner.relayout(H100, have, devices("3x1c.3g.40gb,1g.10gb"))
    assert names(made.keep) == ["1c.3g.40gb@4.0", "1c.3g.40gb@4.2"]
    assert names(made.destroy) == ["2g.20gb@0"]
    assert "1c.3g.40gb@4.1" in names(made.create)
    assert made.proof.bound == 1


def test_of_two_ways_to_pack_the_one_stays_that_is_held() -> None:
    have = spec.parse_instances(H100, "1c.3g.40gb@0.0,1c.3g.40gb@4.1")
    made = planner.relayout(H100, have, devices("2x1c.3g.40gb"), held=have[1:])
    assert names(made.keep) == ["1c.3g.40gb@4.1"]
    assert {one.start for one in made.layout} == {4}


def test_a_refusal_names_the_gpu_instances_that_are_wanted() -> None:
    with pytest.raises(PlanError, match=r"7x1c\.3g\.40gb \(GPU instances: 3x3g\.40gb\)"):
        planner.plan(H100, (), devices("7x1c.3g.40gb"))
    with pytest.raises(IllegalLayoutError, match=r"1c\.3g\.40gb@4\.1 overlaps 3g\.40gb@4"):
        planner.check(H100, spec.parse_instances(H100, "1c.3g.40gb@4.1,3g.40gb@4"))


def test_room_counts_a_gpu_instance_of_which_a_part_is_held_once() -> None:
    parts = spec.parse_instances(H100, "1c.3g.40gb@4.0,1c.3g.40gb@4.1")
    whole = spec.parse_instances(H100, "3g.40gb@4")
    assert planner.room(H100, parts) == planner.room(H100, whole)
    assert planner.headroom(H100, parts) == planner.headroom(H100, whole)
    assert planner.room_in_divided(parts, devices("1c.3g.40gb")[0]) == 1
    assert planner.room_in_divided(parts, devices("2c.3g.40gb")[0]) == 0


def test_preferred_allocation_fills_gpu_instances_that_are_in_use() -> None:
    have = spec.parse_instances(H100, "1c.3g.40gb@0.0,1c.3g.40gb@4.0,1c.3g.40gb@4.1")
    chosen = planner.choose_preferred(H100, have, have[:2], (), 1)
    assert names(chosen) == ["1c.3g.40gb@4.0"]


def test_names_of_a_place_read_back() -> None:
    for one in [i for d in H100.device_profiles for i in places(d)]:
        assert H100.instance(*planner.place_of(one)) == one
