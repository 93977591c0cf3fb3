"""Documents between processes, field by field: content, each bound and one value beyond it."""

import errno
import json
from typing import Any

import pytest

from vgpu_sim.hal import direct
from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.direct import (
    MOST_PASSED_OVER,
    RANGE_BYTES,
    ExportRequest,
    decode_answer,
    encode_answer,
)
from vgpu_sim.hal.observe import modelled_report
from vgpu_sim.hal.observe.modelled_report import ModelledLaunches, ModelledOrder, ModelledSummary

LAST = (1 << 64) - 1
RANGE = bytes(range(256))[:RANGE_BYTES].ljust(RANGE_BYTES, b"r")
READ_FIELDS = {"type": "export", "request": 1, "pid": 2, "address": 3, "bytes": 4, "skip": 5}


def test_a_request_for_memory_has_these_fields_and_a_range_where_there_is_one() -> None:
    plain = ExportRequest(1, 2, 3, 4, 5)
    assert json.loads(plain.encode()) == READ_FIELDS
    named = ExportRequest(1, 2, 3, 4, 5, RANGE)
    assert json.loads(named.encode()) == READ_FIELDS | {"range": RANGE.hex()}
    for one in (plain, named):
        assert ExportRequest.decode(one.encode()) == one


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("type", ["export"], ["exported", "", 5]),
        *((name, [0, LAST], [-1, LAST + 1, True, "1", 1.0, None]) for name in ("request", "pid")),
        ("address", [0, LAST - 3], [LAST - 2, LAST + 1, -1, True]),
        ("bytes", [1, LAST - 2], [0, LAST - 1, -1]),
        ("skip", [0, MOST_PASSED_OVER], [MOST_PASSED_OVER + 1, -1]),
        (
            "range",
            ["", RANGE.hex()],
            [RANGE.hex()[:-2], RANGE.hex() + "00", "z" * 2 * RANGE_BYTES, 5],
        ),
    ],
)
def test_a_request_for_memory_within_its_bounds(
    field: str, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        ExportRequest.decode(spawn.encode(READ_FIELDS | {field: value}))
    for value in bad:
        with pytest.raises(ValueError, match=r"."):
            ExportRequest.decode(spawn.encode(READ_FIELDS | {field: value}))
    if field not in ("type", "range"):
        with pytest.raises(ValueError, match=f"{field} must be an integer"):
            ExportRequest.decode(spawn.encode({k: v for k, v in READ_FIELDS.items() if k != field}))


def test_an_answer_about_memory_is_a_request_and_a_status() -> None:
    assert json.loads(encode_answer(7, errno.ESRCH)) == {
        "type": "exported",
        "request": 7,
        "status": 3,
    }
    assert decode_answer(encode_answer(7, errno.ESRCH)) == (7, errno.ESRCH)
    for other in ({"type": "export"}, {"request": -1}, {"status": LAST + 1}, {"status": None}):
        with pytest.raises(ValueError, match=r"."):
            decode_answer(spawn.encode({"type": "exported", "request": 7, "status": 3} | other))


LAUNCHES = {"kernel": "k", "grid": [1, 2, 3], "block": [4, 5, 6], "launches": 7, "us": 8.5}
LAUNCHES |= {"counts": {"flop": 9.0}, "note": "n", "arguments": "a"}
COPY = {"way": "HtoD", "count": 1, "bytes": 2, "us": 3.0}
SUMMARY = {"copies": [COPY], "span_us": 4.0, "gaps_us": 5.0, "left_out": 6}
NUMBER = ([0, 1e18, 0.5, 3], [-1e-9, 1.0001e18, float("nan"), float("inf"), "1", True, None])
COUNT = ([0, (1 << 63) - 1], [-1, 1 << 63, True, 1.0, "1", None])


def text(most: int) -> tuple[list[Any], list[Any]]:
    return ["", "x" * most], ["x" * (most + 1), None, 5, b"x"]


SHAPE = (
    [[0, 0, (1 << 63) - 1]],
    [[1, 1], [1, 1, 1, 1], [1, 1, -1], [1, -1, 1], [-1, 1, 1], "123", None],
)
BOUNDS: dict[str, tuple[Any, dict[str, Any], dict[str, tuple[list[Any], list[Any]]]]] = {
    "launches": (
        ModelledLaunches,
        LAUNCHES,
        {
            "kernel": text(128),
            "note": text(256),
            "arguments": text(256),
            "grid": SHAPE,
            "block": SHAPE,
            "launches": COUNT,
            "us": NUMBER,
            "counts": (
                [{}, {f"c{n}": 1.0 for n in range(64)}, {"c" * 48: 0}],
                [
                    {f"c{n}": 1.0 for n in range(65)},
                    {"c" * 49: 0},
                    {"a b": 1},
                    {5: 1},
                    {"c": -1},
                    [],
                    None,
                ],
            ),
        },
    ),
    "summary": (
        ModelledSummary,
        SUMMARY,
        {
            "copies": ([[], [COPY] * 64, ["no object"]], [[COPY] * 65, None, {}]),
            "span_us": NUMBER,
            "gaps_us": NUMBER,
            "left_out": COUNT,
        },
    ),
    "order": (
        ModelledOrder,
        {"launches": []},
        {
            "launches": (
                [[[0, 0]] * 400, [[127, 1e18]], ((5, 0.5),)],
                [
                    [[0, 0]] * 401,
                    [[128, 0]],
                    [[-1, 0]],
                    [[0, -1]],
                    [[0]],
                    [[0, 0, 0]],
                    [5],
                    None,
                    {},
                ],
            )
        },
    ),
}
CASES = [(kind, field) for kind, (_, _, bounds) in BOUNDS.items() for field in bounds]


@pytest.mark.parametrize(("kind", "field"), CASES)
def test_a_tenants_times_are_within_bounds(kind: str, field: str) -> None:
    made, document, bounds = BOUNDS[kind]
    good, bad = bounds[field]
    for value in good:
        made.parse(document | {field: value})
    for value in bad:
        with pytest.raises(ValueError, match=r"."):
            made.parse(document | {field: value})
    if field not in ("note", "arguments"):
        with pytest.raises(ValueError, match=r"."):
            made.parse({name: value for name, value in document.items() if name != field})
    with pytest.raises(ValueError, match=r"."):
        made.parse([])


@pytest.mark.parametrize(
    ("field", "bounds"), [("way", text(16)), ("count", COUNT), ("bytes", COUNT), ("us", NUMBER)]
)
def test_a_copy_of_a_summary_is_within_bounds(
    field: str, bounds: tuple[list[Any], list[Any]]
) -> None:
    for value in bounds[0]:
        found = ModelledSummary.parse(SUMMARY | {"copies": [COPY | {field: value}]})
        assert getattr(found.copies[0], field) == value
    for value in bounds[1]:
        with pytest.raises(ValueError, match=field):
            ModelledSummary.parse(SUMMARY | {"copies": [COPY | {field: value}]})


def test_unprintable_characters_become_blanks() -> None:
    found = ModelledLaunches.parse(LAUNCHES | {"kernel": "a\x1b[2J\nb\u202e"})
    assert found.kernel == "a [2J b "
    assert ModelledLaunches.parse(LAUNCHES).to_json() == LAUNCHES | {
        "mangled": "",
        "grid": (1, 2, 3),
        "block": (4, 5, 6),
    }
    assert json.loads(json.dumps(ModelledSummary.parse(SUMMARY).to_json())) == SUMMARY
    assert modelled_report.CLOCKS == ("wall", "modelled")
    assert (
        modelled_report.MOST_ROWS,
        modelled_report.MOST_PARTS,
        modelled_report.LISTED_IN_PART,
    ) == (128, 32, 400)


def test_a_message_is_an_object_with_a_type() -> None:
    assert spawn.decode(b'{"type":"x"}') == {"type": "x"}
    for other in (b"[]", b"{}", b'{"type":5}', b'"type"', b"no json"):
        with pytest.raises(ValueError, match=r"."):
            spawn.decode(other)
    assert (spawn.FAULTED_STATUS, spawn.REFUSED_STATUS, spawn.CRASHED_STATUS) == (70, 71, 72)
    assert spawn.ZYGOTE_ENVIRONMENT == {"MALLOC_MMAP_THRESHOLD_": "33554432"}
    assert len(RANGE) == direct.RANGE_BYTES
