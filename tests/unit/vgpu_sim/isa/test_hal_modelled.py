"""A worker's reports about a modelled clock are bounded, whatever it sends."""

import json
from dataclasses import fields
from typing import Any

import pytest

from vgpu_sim.hal.observe.modelled_report import (
    LISTED_IN_PART,
    MOST_ROWS,
    TRANSFERS_IN_PART,
    ModelledCopies,
    ModelledLaunches,
    ModelledOrder,
    ModelledSummary,
    ModelledTransfers,
)
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.kernels.counts import Counts

GOOD = ModelledLaunches("k", (1, 2, 3), (32, 1, 1), 5, 1.5, {"blocks": 6.0}, "")


def test_both_documents_come_back_as_they_were() -> None:
    launches = json.loads(json.dumps(GOOD.to_json()))
    assert ModelledLaunches.parse(launches) == GOOD
    summary = ModelledSummary((ModelledCopies("HtoD", 1, 4, 2.0),), 9.0, 1.0, 0)
    assert ModelledSummary.parse(json.loads(json.dumps(summary.to_json()))) == summary


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kernel", "k" * 129),
        ("kernel", None),
        ("grid", [1, 2]),
        ("grid", [1, 2, -3]),
        ("launches", True),
        ("launches", -1),
        ("us", float("nan")),
        ("us", float("inf")),
        ("us", "1"),
        ("counts", {"x": 1e300}),
        ("counts", {"not a name": 1.0}),
        ("counts", {f"c{i}": 1.0 for i in range(65)}),
        ("counts", [1.0]),
        ("note", "n" * 300),
        ("arguments", "n" * 300),
        ("arguments", 5),
    ],
)
def test_what_is_out_of_bounds_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        ModelledLaunches.parse(GOOD.to_json() | {field: value})


def test_the_order_of_launches_comes_back_up_to_its_bounds() -> None:
    order = ModelledOrder(tuple((MOST_ROWS - 1, 1.5) for _ in range(LISTED_IN_PART)))
    assert ModelledOrder.parse(json.loads(json.dumps(order.to_json()))) == order


@pytest.mark.parametrize(
    "launches",
    [
        None,
        [[0, 1.0]] * (LISTED_IN_PART + 1),
        [[MOST_ROWS, 1.0]],
        [[-1, 1.0]],
        [[True, 1.0]],
        [[0, -1.0]],
        [[0, float("nan")]],
        [[0]],
        [0],
    ],
)
def test_an_order_that_is_out_of_bounds_is_refused(launches: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        ModelledOrder.parse({"launches": launches})


def test_single_copies_come_back_up_to_their_bounds() -> None:
    found = ModelledTransfers((("HtoD", 1.5, 2.5, 64),) * TRANSFERS_IN_PART)
    assert ModelledTransfers.parse(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize(
    "transfers",
    [
        None,
        [["HtoD", 0.0, 1.0, 1]] * (TRANSFERS_IN_PART + 1),
        [["n" * 17, 0.0, 1.0, 1]],
        [["HtoD", -1.0, 1.0, 1]],
        [["HtoD", 0.0, float("inf"), 1]],
        [["HtoD", 0.0, 1.0, -1]],
        [["HtoD", 0.0, 1.0, True]],
        [["HtoD", 0.0, 1.0]],
        ["HtoD"],
    ],
)
def test_copies_that_are_out_of_bounds_are_refused(transfers: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        ModelledTransfers.parse({"transfers": transfers})


def test_a_summary_is_checked_too() -> None:
    with pytest.raises(ValueError, match="copies"):
        ModelledSummary.parse({"copies": {}, "span_us": 0, "gaps_us": 0, "left_out": 0})
    with pytest.raises(ValueError, match="span_us"):
        ModelledSummary.parse({"copies": [], "span_us": -1, "gaps_us": 0, "left_out": 0})


def test_counts_with_a_missing_or_unknown_name_are_refused() -> None:
    names = {field.name: 1.0 for field in fields(Counts)}
    assert Counts.of(names).as_dict() == names
    with pytest.raises(BadShape, match="extra"):
        Counts.of(names | {"extra": 1.0})
    with pytest.raises(BadShape, match="blocks"):
        Counts.of({name: value for name, value in names.items() if name != "blocks"})
