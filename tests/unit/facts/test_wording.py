"""Lists of names in messages."""

import pytest

from facts.wording import list_first


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
