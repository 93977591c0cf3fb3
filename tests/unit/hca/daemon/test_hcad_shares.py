"""Quotas for hcad's resources: each function has a part of its own, within the container."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from hca.daemon.common.quotas import (
    FABRIC_FUNCTIONS,
    OBJECT_BYTES,
    RING_BYTES,
    Share,
    Shares,
    memory_limit,
)
from support.rigs.share_room import KINDS, most_of, room

GIB = 1 << 30


def amounts(kind: int, amount: int) -> tuple[int, int, int]:
    """Return an amount of one kind and none of the others."""
    wanted = [0, 0, 0]
    wanted[kind] = amount
    return wanted[0], wanted[1], wanted[2]


def take_all(share: Share, kind: int) -> int:
    """Let a function take as much as it can, in steps of falling size; return what it holds."""
    step = 1 << 12
    while step:
        try:
            share.charge(*amounts(kind, step))
        except OSError:
            step //= 2
    return share.held[kind]


def make_functions(total: int, count: int) -> list[Share]:
    """Return the shares of a node's functions, with ``total`` of each resource."""
    shares = Shares(total, total, total, functions=None)
    return [shares.new_share() for _ in range(count)]


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
@pytest.mark.parametrize("count", [1, 2, 3, 16, 64])
def test_after_greedy_functions_the_next_one_has_its_part(kind: int, count: int) -> None:
    """Of k greedy functions of a node, however they take, for each k."""
    for greedy in range(count):
        functions = make_functions(8192, count)
        for share in functions[:greedy]:
            take_all(share, kind)
        assert take_all(functions[greedy], kind) >= 8192 // count


@settings(deadline=None, max_examples=60)
@given(
    total=st.integers(0, 5000),
    count=st.integers(1, 12),
    steps=st.lists(st.tuples(st.integers(0, 11), st.integers(-900, 900)), max_size=40),
    kind=st.integers(0, 2),
)
def test_whatever_the_others_do_a_function_gets_its_part(
    total: int, count: int, steps: list[tuple[int, int]], kind: int
) -> None:
    """Functions take and give back; then each one, alone, can have a full part."""
    functions = make_functions(total, count)
    for place, amount in steps:
        share = functions[place % count]
        if amount < 0:
            share.refund(*amounts(kind, min(-amount, share.held[kind])))
        else:
            try:
                share.charge(*amounts(kind, amount))
            except OSError:
                continue
    assert sum(share.held[kind] for share in functions) <= total
    for share in functions:
        assert share.held[kind] + most_of(share, kind) >= total // count


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, FABRIC_FUNCTIONS - 1), st.integers(1, 4000)), max_size=60
    )
)
def test_a_fabric_keeps_a_part_for_functions_that_have_not_joined(
    steps: list[tuple[int, int]],
) -> None:
    total = 10_000
    shares = Shares(total, total, total)
    functions: dict[int, Share] = {}
    for place, amount in steps:
        share = functions.setdefault(place, shares.new_share())
        if share.held[0] + amount <= total:
            try:
                share.charge(amount)
            except OSError:
                continue
    newcomers = FABRIC_FUNCTIONS - len(functions)
    part = total // 2 // FABRIC_FUNCTIONS
    for share in [*functions.values(), *(shares.new_share() for _ in range(newcomers))]:
        missing = max(0, part - share.held[0])
        share.charge(missing)


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_a_lone_function_of_a_fabric_has_its_part_and_half_of_what_is_not_reserved(
    kind: int,
) -> None:
    shares = Shares(*amounts(kind, 6400))
    first, second, third = (shares.new_share() for _ in range(3))
    assert take_all(first, kind) == 100 + 1600
    with pytest.raises(OSError, match=f"no {KINDS[kind]} left for this function: it has 1700"):
        first.charge(*amounts(kind, 1))
    assert take_all(second, kind) == 100 + 800, "half of what remains"
    first.refund(*amounts(kind, 1650))
    assert take_all(third, kind) == 100 + 1200
    assert room(first)[kind] == 50 + 600


def test_a_function_that_is_offered_later_lessens_the_parts_and_takes_nothing_away() -> None:
    shares = Shares(1000, 1000, 1000, functions=None)
    first = shares.new_share()
    first.charge(900)
    second = shares.new_share()
    assert room(second) == (100, 500, 500), "what is left of its part"
    assert room(first) == (0, 500, 500)
    first.refund(600)
    assert room(second) == (500, 500, 500)
    assert room(first) == (200, 500, 500)


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_what_is_refused_takes_nothing_and_what_is_given_back_can_be_had_again(kind: int) -> None:
    """This includes other kinds, of which there would have been enough."""
    first, second = make_functions(100, 2)
    wanted = [50, 50, 50]
    wanted[kind] = 51
    for _ in range(3):
        with pytest.raises(OSError, match=KINDS[kind]):
            first.charge(*wanted)
        assert room(first) == room(second) == (50, 50, 50)
    first.charge(50, 50, 50)
    assert room(first) == (0, 0, 0)
    assert room(second) == (50, 50, 50), "its own part"
    first.refund(50, 50, 50)
    assert room(first) == room(second) == (50, 50, 50)


def test_what_goes_wrong_is_given_back() -> None:
    share, _ = make_functions(10, 2)
    with pytest.raises(ZeroDivisionError), share.charging(3):
        raise ZeroDivisionError
    assert room(share) == (5, 5, 5)
    with share.charging(3):
        assert room(share) == (5, 5, 2)
    assert room(share) == (5, 5, 2), "what is paid for stays taken"


def test_what_a_predecessor_has_given_is_taken_whatever_there_is() -> None:
    share, other = make_functions(10, 2)
    with share.suspending_limits():
        share.charge(9, 9, 9)
    assert room(share) == (0, 0, 0)
    assert room(other) == (1, 1, 1)
    with pytest.raises(OSError, match="left for this function"):
        share.charge(1)
    share.refund(9, 9, 9)
    assert room(share) == room(other) == (5, 5, 5)


@pytest.mark.parametrize(
    ("limit", "rings", "objects"),
    [
        (None, RING_BYTES, OBJECT_BYTES),
        (512 << 20, 256 << 20, 128 << 20),
        (64 * GIB, RING_BYTES, OBJECT_BYTES),
    ],
)
def test_rings_and_objects_fit_into_the_container(
    limit: int | None, rings: int, objects: int
) -> None:
    """The only function of a node can have all of each."""
    share = Shares.for_memory_limit(1000, limit, functions=None).new_share()
    assert room(share) == (1000, rings, objects)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"memory.max": "536870912\n"}, 512 << 20),
        ({"memory.max": "max\n"}, None),
        ({"memory/memory.limit_in_bytes": "536870912\n"}, 512 << 20),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ({}, None),
    ],
)
def test_the_container_s_limit_is_its_control_group_s(
    tmp_path: Path, files: dict[str, str], said: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory_limit(tmp_path) == said
