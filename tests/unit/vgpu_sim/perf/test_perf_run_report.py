"""The report of ``tessera perf run``: launches are listed separately, unless grouped."""

import itertools
import json
from dataclasses import fields, replace
from typing import Any

import pytest

from drawing.documents import write_html
from drawing.terminal import format_line
from vgpu_sim.cli.perf.run_report import (
    Report,
    RunEvents,
    details,
    document_of,
    drawing_of,
    figures_of,
    lines,
    notes_of,
    report_of,
)
from vgpu_sim.cli.perf.run_trace import trace_of
from vgpu_sim.hal.observe.modelled_report import (
    ModelledCopies,
    ModelledLaunches,
    ModelledOrder,
    ModelledSummary,
    ModelledTransfers,
    RefusedRecord,
)
from vgpu_sim.kernel_names.title import title_of
from vgpu_sim.perf.kernels import Counts, chip_of
from vgpu_sim.perf.kernels.accuracy import STATEMENT

H100 = chip_of("h100-80gb")
_ONE = dict.fromkeys((one.name for one in fields(Counts)), 0.0) | {
    "blocks": 132.0,
    "block_threads": 64.0,
    "registers": 16.0,
    "sampled": 1.0,
    "warp_instructions": 100.0,
    "heaviest_block": 1.0,
}


def launch_event(argument: int, count: int, us: float, *, bound: bool = False) -> dict[str, Any]:
    counts = _ONE | {"bound": float(bound)}
    row = ModelledLaunches(
        "k", (132, 1, 1), (64, 1, 1), count, us * count, counts, "", str(argument)
    )
    return {"event": "modelled", "pid": 7, "launches": row.to_json()}


def order_event(*rows: int) -> dict[str, Any]:
    order = ModelledOrder(tuple((row, float(at)) for at, row in enumerate(rows)))
    return {"event": "modelled", "pid": 7, "order": order.to_json()}


def report_from(*events: dict[str, Any]) -> Report:
    received = RunEvents()
    summary = ModelledSummary((), 9.0, 1.0, 0).to_json()
    for event in (*events, {"event": "modelled", "pid": 7, "summary": summary}):
        received.add_event(json.loads(json.dumps(event)))
    return report_of(H100, received)


def test_launches_with_other_arguments_have_lines_of_their_own() -> None:
    report = report_from(launch_event(32, 1, 50.0), launch_event(1, 2, 5.0), order_event(1, 0, 1))
    found = [line for line in lines(report, grouped=False) if "132x1x1" in line]
    assert [line.split()[0] for line in found] == ["1", "2", "3"]
    assert ["k(1)" in line for line in found] == [True, False, True]
    assert ["k(32)" in line for line in found] == [False, True, False]
    (line,) = (line for line in lines(report, grouped=True) if "132x1x1" in line)
    assert line.split()[:3] == ["3", "60.00", "20.00"]
    assert "5.00 to 50.00 us" in line


def test_the_causes_of_each_kernel_are_drawn_the_longest_first() -> None:
    report = report_from(launch_event(32, 1, 50.0), launch_event(1, 20, 5.0), order_event(1, 0))
    title, first, second, *key = [
        format_line(one, coloured=False) for one in drawing_of(report, 60)
    ]
    assert title == "causes of a launch's time (modelled)"
    assert (first[:5], second[:5]) == ("1 k(1", "2 k(3")
    assert key[0].startswith("a ")
    assert max(map(len, (title, first, second, *key))) <= 60


def test_idle_time_and_launches_that_are_not_listed_are_stated() -> None:
    report = report_from(launch_event(1, 1, 5.0), order_event(0))
    said = "\n".join(lines(report, grouped=False))
    assert "from first to last 9.00 us; idle for 1.00 us of it" in said
    summary = replace(report.summaries[0], left_out=1)
    said = list(lines(replace(report, summaries=[summary]), grouped=False))
    assert "not listed: 1 launch of further kinds" in said


def test_impossible_counts_give_no_estimate() -> None:
    event = launch_event(1, 1, 5.0)
    event["launches"]["counts"]["block_threads"] = 0
    (row,) = report_from(event).rows
    assert row.estimate is None


def test_json_lists_every_launch() -> None:
    report = report_from(launch_event(32, 1, 50.0), launch_event(1, 2, 5.0), order_event(1, 0, 1))
    document = json.loads(json.dumps(document_of(report)))
    assert [(one["row"], one["arguments"], one["us"]) for one in document["launches"]] == [
        (1, "1", 5.0),
        (0, "32", 50.0),
        (1, "1", 5.0),
    ]
    assert [one["start_us"] for one in document["launches"]] == [0, 1, 2]
    assert [one["launches"] for one in document["kernels"]] == [1, 2]


@pytest.mark.parametrize("grouped", [False, True])
def test_a_lower_bound_is_marked(grouped: bool) -> None:
    exact, bound = (
        report_from(launch_event(1, 1, 5.0, bound=bound), order_event(0)) for bound in (False, True)
    )
    assert "≥" not in "\n".join(lines(exact, grouped=grouped))
    said = "\n".join(lines(bound, grouped=grouped))
    assert "≥ 5.00" in said
    assert "≥: at least" in said
    assert [one["at_least"] for one in document_of(bound)["launches"]] == [True]
    assert [one["at_least"] for one in document_of(exact)["kernels"]] == [False]


def test_contexts_keep_their_launches_apart() -> None:
    events = RunEvents()
    for pid, argument in ((1, 10), (2, 20)):
        for event in (launch_event(argument, 1, 5.0), order_event(0)):
            events.add_event(event | {"pid": pid})
    report = report_of(H100, events)
    assert [(row.context, row.launches.arguments) for row, _ in report.launches] == [
        (0, "10"),
        (1, "20"),
    ]


def test_an_order_that_names_no_row_is_left_out() -> None:
    assert not report_from(launch_event(1, 1, 5.0), order_event(5)).launches


def test_many_launches_are_cut_in_the_text_only() -> None:
    report = report_from(launch_event(1, 100, 5.0), order_event(*[0] * 100))
    said = list(lines(report, grouped=False))
    assert sum("132x1x1" in line for line in said) == 64
    assert any(line.startswith("36 more launches") for line in said)
    assert len(document_of(report)["launches"]) == 100


def transfers_event(*transfers: tuple[str, float, float, int]) -> dict[str, Any]:
    return {
        "event": "modelled",
        "pid": 7,
        "transfers": ModelledTransfers(transfers).to_json(),
    }


def test_the_page_has_a_row_for_each_kind_of_launch() -> None:
    report = report_from(launch_event(32, 1, 50.0), launch_event(1, 2, 5.0), order_event(0, 1))
    text = write_html("t", figures_of(report), notes_of(report, grouped=False))
    assert "k(32)" in text
    assert "k(1)" in text
    assert STATEMENT in text


def test_a_trace_has_every_kernel_and_copy_on_tracks_without_overlap() -> None:
    report = report_from(
        launch_event(1, 3, 5.0),
        order_event(0, 0, 0),  # at 0, 1 and 2 us, 5 us each: they overlap
        transfers_event(("HtoD", 0.0, 2.0, 64), ("HtoD", 2.0, 2.0, 64), ("memset", 3.0, 1.0, 8)),
    )
    document = json.loads(json.dumps(trace_of(report)))
    spans = [one for one in document["traceEvents"] if one["ph"] == "X"]
    assert [one["cat"] for one in spans].count("kernel") == 3
    assert [one["cat"] for one in spans].count("gpu_memcpy") == 2
    assert [one["cat"] for one in spans].count("gpu_memset") == 1
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for one in spans:
        found = tracks.setdefault((one["pid"], one["tid"]), [])
        found.append((one["ts"], one["ts"] + one["dur"]))
    assert len(tracks) == 3 + 2
    for found in tracks.values():
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(sorted(found)))
    named = {
        (one["pid"], one["tid"]) for one in document["traceEvents"] if one["name"] == "thread_name"
    }
    assert named == set(tracks)
    (copy, *_) = [one for one in spans if one["name"] == "Memcpy HtoD"]
    assert (copy["ts"], copy["dur"], copy["args"]) == (0.0, 2.0, {"bytes": 64})
    assert document["otherData"]["modelled"] is True


def test_a_trace_states_how_many_copies_it_lacks() -> None:
    events = RunEvents()
    copies = (ModelledCopies("HtoD", 7, 70, 7.0),)
    summary = ModelledSummary(copies, 9.0, 1.0, 3).to_json()
    for event in (
        transfers_event(("HtoD", 0.0, 1.0, 10)),
        {"event": "modelled", "pid": 7, "summary": summary},
    ):
        events.add_event(json.loads(json.dumps(event)))
    found = trace_of(report_of(H100, events))["otherData"]
    assert (found["copies_left_out"], found["launches_left_out"]) == (6, 3)


def refused_event(kernel: str, reason: str) -> dict[str, Any]:
    record = RefusedRecord("launches", kernel, reason)
    return {"event": "modelled", "pid": 7, "refused": record.to_json()}


def test_a_refused_record_is_named_with_its_reason_and_keeps_the_order_of_others() -> None:
    report = report_from(
        refused_event("bad", "the count x is out of range: -1"),
        launch_event(1, 1, 5.0),
        order_event(0, 1),
    )
    said = "\n".join(lines(report, grouped=False))
    assert "error: refused the record 'launches' of kernel bad: the count x is out of range" in said
    document = json.loads(json.dumps(document_of(report)))
    (refused,) = document["refused"]
    assert refused == {
        "context": 0,
        "record": "launches",
        "kernel": "bad",
        "reason": "the count x is out of range: -1",
    }
    assert [one["arguments"] for one in document["launches"]] == ["1"]


@pytest.mark.parametrize(
    "event",
    [
        {"launches": {"kernel": "k", "counts": {"x": -1}}},
        {"summary": {"copies": [], "span_us": float("nan")}},
        {"order": 5},
        {"transfers": {"transfers": [1]}},
        {},
    ],
)
def test_an_event_that_is_not_valid_becomes_a_refused_record(event: dict[str, Any]) -> None:
    events = RunEvents()
    events.add_event({"event": "modelled", "pid": 7, **event})
    report = report_of(H100, events)
    ((_, refused),) = report.refused
    assert refused.reason
    assert not report.rows


def test_launches_that_the_board_cannot_run_are_refused() -> None:
    event = launch_event(1, 1, 5.0)
    event["launches"]["counts"]["block_threads"] = 0
    ((_, refused),) = report_from(event).refused
    assert (refused.record, refused.kernel) == ("launches", "k")


@pytest.mark.parametrize(
    ("event", "live", "reason"),
    [
        ({"event": "context_started"}, set(), "the context ended without a report"),
        ({"event": "fault", "message": "the worker ended: killed"}, set(), "ended: killed"),
        ({"event": "worker_failed", "message": "no cgroup"}, set(), "no cgroup"),
        (order_event(0), set(), "the context ended without a report"),
        ({"event": "context_started"}, {7}, "still running when this stopped listening"),
        (order_event(0), {7}, "still running when this stopped listening"),
        ({"event": "usage"}, {7}, "still running when this stopped listening"),
    ],
)
def test_a_context_without_a_complete_report_is_named_with_the_reason(
    event: dict[str, Any], live: set[object], reason: str
) -> None:
    events = RunEvents()
    events.add_event({"pid": 7, **event})
    events.close(live)
    report = report_of(H100, events)
    ((context, refused),) = report.refused
    assert (context, refused.record) == (0, "report")
    assert reason in refused.reason
    said = "\n".join(lines(report, grouped=False))
    assert f"context 0 is not complete: {refused.reason}" in said
    assert "nothing to report" not in said


def test_a_context_that_has_sent_its_summary_is_complete_while_its_process_ends() -> None:
    events = RunEvents()
    summary = ModelledSummary((), 9.0, 1.0, 0).to_json()
    event = {"event": "modelled", "pid": 7, "summary": summary}
    events.add_event(json.loads(json.dumps(event)))
    events.close({7})
    assert not report_of(H100, events).refused


def test_a_program_without_a_context_has_nothing_to_report() -> None:
    events = RunEvents()
    events.close(set())
    said = "\n".join(lines(report_of(H100, events), grouped=False))
    assert "the program created no CUDA context, so there is nothing to report" in said


def _instance_event(value: int) -> dict[str, Any]:
    name = f"_Z5tiledILi{value}EEvPKfPfi"
    row = ModelledLaunches(
        title_of(name), (132, 1, 1), (64, 1, 1), 1, 5.0, _ONE, "", "****, ****, 3", name
    )
    return {"event": "modelled", "pid": 7, "launches": row.to_json()}


def test_instances_of_a_template_have_names_of_their_own() -> None:
    report = report_from(_instance_event(1), _instance_event(2), order_event(0, 1))
    expected = {"tiled<1>(****, ****, 3)", "tiled<2>(****, ****, 3)"}
    for text in (lines(report, grouped=False), details(report)):
        words = "\n".join(text)
        assert all(one in words for one in expected)
    document = document_of(report)
    for rows in (document["kernels"], document["launches"]):
        assert [(row["kernel"], row["mangled"]) for row in rows] == [
            ("tiled<1>(float const*, float*, int)", "_Z5tiledILi1EEvPKfPfi"),
            ("tiled<2>(float const*, float*, int)", "_Z5tiledILi2EEvPKfPfi"),
        ]
    assert {event["name"] for event in trace_of(report)["traceEvents"] if event["ph"] == "X"} == {
        "tiled<1>",
        "tiled<2>",
    }
    stacks = [format_line(one, coloured=False) for one in drawing_of(report, 60)][1:3]
    assert [one.split("(")[0] for one in stacks] == ["1 tiled<1>", "2 tiled<2>"]
