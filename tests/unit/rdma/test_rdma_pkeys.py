"""P_Keys: fixed ones are kept or refused, others are allocated once, and all are unique."""

import pytest
from hypothesis import given, settings, strategies as st

from rdma.compiling.pkeys import FIRST, LAST, allocate
from rdma.objects import Network, Partition
from rdma.tables import DEFAULT_PKEY, describe_pkey


def net(name: str, *partitions: Partition, created: str = "") -> Network:
    return Network(name, partitions, created=created)


def test_a_name_is_given_the_same_key_each_time_and_keeps_it() -> None:
    one = net("lab", Partition("a"), Partition("b"))
    keys, _ = allocate([one], {})
    assert keys == allocate([one], {})[0]
    assert len(set(keys.values())) == 2
    kept, _ = allocate([net("early", Partition("c")), one], {("lab", "a"): 0x123})
    assert kept["lab", "a"] == 0x123
    assert kept["lab", "b"] == keys["lab", "b"]


def test_a_fixed_key_that_is_doubled_is_refused_where_it_came_later() -> None:
    first = net("z", Partition("a", 7), created="2026-01-01T00:00:00Z")
    second = net("b", Partition("a", 7), Partition("b", 8), created="2026-01-02T00:00:00Z")
    keys, refused = allocate([second, first], {})
    assert keys == {("z", "a"): 7, ("b", "b"): 8}
    assert list(refused) == [("b", "a")]
    assert refused["b", "a"].field == "spec.partitions[0].pkey"
    assert "z/a" in str(refused["b", "a"])


def test_a_fixed_key_does_not_take_one_that_is_in_use() -> None:
    """The partition whose queue pairs use the key keeps it: a new object breaks no connection."""
    drawn = net("lab", Partition("a"))
    fixed = net("late", Partition("x", 0x55))
    keys, refused = allocate([drawn, fixed], {("lab", "a"): 0x55})
    assert keys == {("lab", "a"): 0x55}
    assert list(refused) == [("late", "x")]
    keys, refused = allocate([drawn, fixed], {})
    assert keys["late", "x"] == 0x55
    assert not refused


def test_the_default_partition_can_be_named_and_values_are_checked_here_too() -> None:
    keys, refused = allocate(
        [net("lab", Partition("d", DEFAULT_PKEY), Partition("bad", 0), Partition("w", 0x8001))], {}
    )
    assert keys == {("lab", "d"): DEFAULT_PKEY}
    assert set(refused) == {("lab", "bad"), ("lab", "w")}


def test_all_keys_can_be_given_and_no_more() -> None:
    everything = net("lab", *(Partition(str(number)) for number in range(LAST - FIRST + 2)))
    given_before = {("lab", str(number)): FIRST + number for number in range(LAST - FIRST + 1)}
    keys, refused = allocate([everything], given_before)
    assert len(set(keys.values())) == LAST - FIRST + 1
    assert list(refused) == [("lab", str(LAST))]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from("xyz"),
            st.sampled_from([None, 1, 2, DEFAULT_PKEY]),
        ),
        unique_by=lambda one: one[:2],
    ),
    st.dictionaries(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), st.integers(-1, 9)),
)
def test_no_key_is_there_twice(
    wanted: list[tuple[str, str, int | None]], before: dict[tuple[str, str], int]
) -> None:
    networks = [
        net(name, *(Partition(part, key) for owner, part, key in wanted if owner == name))
        for name in "abc"
    ]
    keys, refused = allocate(networks, before)
    assert len(set(keys.values())) == len(keys)
    assert keys.keys() | refused.keys() == {one[:2] for one in wanted}
    assert all(FIRST <= key <= DEFAULT_PKEY for key in keys.values())
    again, refused_again = allocate(networks, keys)
    assert again == keys
    assert set(refused_again) == set(refused)


@pytest.mark.parametrize(
    ("pkey", "text"),
    [
        (0xFFFF, "0xffff (default partition, full member)"),
        (0x7FFF, "0x7fff (default partition, limited member)"),
        (0x8A31, "0x8a31 (full member)"),
        (0x0A31, "0x0a31 (limited member)"),
    ],
)
def test_a_key_is_printed_with_its_partition_and_membership(pkey: int, text: str) -> None:
    assert describe_pkey(pkey) == text
