"""Lists of names in messages."""

import pytest

from facts.wording import format_size, list_first


@pytest.mark.parametrize(
    ("items", "most", "between", "text"),
    [
        ([], 3, ", ", ""),
        (["a", "b"], 2, ", ", "a, b"),
        (["a", "b", "c", "d"], 2, ", ", "a, b and 2 more"),
        (["a", "b", "c"], 2, "; ", "a; b; and 1 more"),
        (["a", "b", "c"], None, ", ", "a, b, c"),
    ],
)
def test_the_first_items_are_listed_and_the_others_counted(items, most, between, text):
    assert list_first(items, most, between) == text


def test_a_size_below_one_gib_is_in_mib() -> None:
    sizes = (0, 1.4 * 2**20, 1023 * 2**20, 2**30, 2.96 * 2**30)
    assert [format_size(one) for one in sizes] == [
        *("0 MiB", "1 MiB", "1023 MiB", "1.0 GiB", "3.0 GiB"),
    ]
