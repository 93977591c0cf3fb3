"""The document of facts by itself: its declarations, and the values that it refuses."""

import dataclasses
from typing import Any

import pytest

from facts import fields
from facts.document import DECLARED, DEFAULT_FACTS, GpuFacts
from facts.fields import FactsError


@dataclasses.dataclass(frozen=True)
class Invented:
    """One fact of each kind."""

    tag: str = fields.text("", 4, "A text.")
    name: str = fields.text("none", 8, "A text that is never empty.")
    rate: int = fields.number(3, -1, 9, "A number.")
    on: bool = fields.flag("A flag.")


INVENTED = {field.name: field for field in dataclasses.fields(Invented)}


def test_a_fact_with_its_default_is_not_written() -> None:
    assert DEFAULT_FACTS.to_json() == {}
    assert GpuFacts.from_json({}) == DEFAULT_FACTS
    placed = GpuFacts(topology="hgx-4")
    assert placed.to_json() == {"topology": "hgx-4"}
    assert GpuFacts.from_json(placed.to_json()) == placed


def test_an_entry_is_divided_into_its_facts_and_the_rest() -> None:
    entry = {"uuid": "GPU-1", "topology": "hgx-4", "tomorrow": 1}
    assert GpuFacts.split(entry) == ({"uuid": "GPU-1", "tomorrow": 1}, GpuFacts("hgx-4"))
    assert GpuFacts.split({"uuid": "GPU-1"}) == ({"uuid": "GPU-1"}, DEFAULT_FACTS)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"tag": "", "name": "x", "rate": -1, "on": False},
        {"tag": "abcd", "name": "12345678", "rate": 9, "on": True},
    ],
)
def test_values_within_their_bounds_are_taken(document: dict[str, Any]) -> None:
    fields.check(INVENTED, document)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"tomorrow": 1}, "unknown fact 'tomorrow': known are name, on, rate, tag"),
        ({"x" * 1000: 1}, f"unknown fact '{'x' * 64}': known are name, on, rate, tag"),
        ({"tag": None}, "tag is not str"),
        ({"tag": ["a"]}, "tag is not str"),
        ({"tag": "abcde"}, "tag has not 0 to 4 characters"),
        ({"tag": "a\n"}, "tag has a character that cannot be printed"),
        ({"tag": "\x00"}, "tag has a character that cannot be printed"),
        ({"tag": "\ud800"}, "tag has a character that cannot be printed"),
        ({"name": ""}, "name has not 1 to 8 characters"),
        ({"rate": "3"}, "rate is not int"),
        ({"rate": True}, "rate is not int"),
        ({"rate": 3.0}, "rate is not int"),
        ({"rate": -2}, "rate is not from -1 to 9"),
        ({"rate": 10**4000}, "rate is not from -1 to 9"),
        ({"on": 1}, "on is not bool"),
        ({"on": None}, "on is not bool"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(
    document: dict[str, Any], problem: str
) -> None:
    with pytest.raises(FactsError) as refused:
        fields.check(INVENTED, document)
    assert str(refused.value) == problem


def test_a_default_beyond_its_bounds_cannot_be_declared() -> None:
    with pytest.raises(AssertionError):
        fields.text("abcde", 4, "Too long.")
    with pytest.raises(AssertionError):
        fields.number(0, 1, 2, "Too small.")


def test_every_fact_is_declared_with_bounds_and_a_sentence() -> None:
    for field in DECLARED.values():
        bounds = fields.bounds_of(field)
        assert bounds.description.endswith("."), field.name
        assert bounds.most <= (4096 if bounds.kind is str else 1 << 53), field.name
