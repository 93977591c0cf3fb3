"""A worker's channel when the worker sends false reports, floods gpud, or dies."""

import asyncio
import dataclasses
import json
import os
import socket

import pytest

from support.rigs import a30_slice
from vgpu_sim.gpud.contexts.worker_channel import (
    MAX_MODELLED_MESSAGES,
    MAX_USAGE_MESSAGES,
    ChannelViolation,
    WorkerChannel,
)
from vgpu_sim.gpud.events import clean_text
from vgpu_sim.gpud.faults.records import Records
from vgpu_sim.gpud.limits.budget import CONTEXT_SHARED_BYTES, Budget
from vgpu_sim.hal.management import admin
from vgpu_sim.system import json_lines, seqpacket
from vgpu_sim.system.foreign import ForeignSockets

INSTANCE = a30_slice.make()
TOTAL = INSTANCE.profile.memory_bytes


async def talk(*messages):
    """Send messages as a worker would; return (replies, events, budget, channel)."""
    mine, its = seqpacket.pair()
    mine.setblocking(False)
    budget = Budget(1 << 50)
    channel = WorkerChannel(
        mine, ForeignSockets("worker", refusing=True), budget, budget.open(INSTANCE)
    )
    with mine, its:
        for message in messages:
            its.send(message if isinstance(message, bytes) else json.dumps(message).encode())
        its.shutdown(1)  # SHUT_WR: the channel sees the end after the messages
        events = [event async for event in channel.events()]
        its.setblocking(False)
        replies = []
        while True:
            try:
                data = its.recv(4096)
            except BlockingIOError:
                break
            if not data:
                break
            replies.append(json.loads(data))
    return replies, events, budget, channel


def run(*messages):
    return asyncio.run(talk(*messages))


def test_reservations_are_answered_and_counted():
    replies, events, budget, _ = run(
        {"type": "reserve", "request": 1, "bytes": TOTAL - 10},
        {"type": "reserve", "request": 2, "bytes": 11},
        {"type": "release", "bytes": 5},
        {"type": "memory", "request": 3},
    )
    assert replies == [
        {"type": "reserved", "request": 1, "granted": True, "free": 10, "total": TOTAL},
        {"type": "reserved", "request": 2, "granted": False, "free": 10, "total": TOTAL},
        {"type": "memory", "request": 3, "free": 15, "total": TOTAL},
    ]
    room = {
        "slice_free_bytes": 10,
        "slice_total_bytes": TOTAL,
        "node_free_bytes": (1 << 50) - TOTAL + 10,
        "node_total_bytes": 1 << 50,
        "shared_free_bytes": (1 << 50) - TOTAL + 10,
        "shared_total_bytes": 1 << 50,
        "guaranteed_free_bytes": 0,
        "guaranteed_bytes": 0,
    }
    assert events == [("out_of_memory", {"requested_bytes": 11, "free_bytes": 10, **room})]
    assert budget.used_bytes == TOTAL - 15


def test_statistics_are_taken():
    _, _, _, channel = run(
        {"type": "stats", "launches": 4, "first_launch_ns": 5, "last_launch_ns": 6, "busy_ns": 7}
    )
    statistics = channel.statistics
    assert (statistics.launches, statistics.first_launch_ns) == (4, 5)
    assert (statistics.last_launch_ns, statistics.busy_ns) == (6, 7)
    assert (statistics.running_kernel, statistics.running_since_ns) == ("", 0)


def test_the_running_kernel_is_taken_clean():
    counters = {"launches": 4, "first_launch_ns": 5, "last_launch_ns": 6, "busy_ns": 7}
    running = {"running_kernel": "k\x1b[2J" + "k" * 500, "running_since_ns": 8}
    _, _, _, channel = run({"type": "stats", **counters, **running})
    statistics = channel.statistics
    assert statistics.running_since_ns == 8
    assert statistics.running_kernel.isprintable()
    assert len(statistics.running_kernel) <= 128


def test_usage_is_passed_on_clean_and_all_of_it():
    """Other events with the same name are rate-limited; these are the parts of one report."""
    first = {"type": "usage", "kernels": [["a\x1b[2J" + "k" * 500, 3, 4]], "modules": 5}
    second = {"type": "usage", "kernels": [["b", 6, 7]]}
    _, events, _, _ = run(first, second)
    assert [name for name, _ in events] == ["usage", "usage"]
    (kernel,) = events[0][1]["kernels"]
    assert kernel["kernel"].isprintable()
    assert (len(kernel["kernel"]), kernel["launches"], kernel["busy_ns"]) == (128, 3, 4)
    assert (events[0][1]["modules"], events[0][1]["shapes_ns"]) == (5, 0)
    assert events[1][1]["kernels"] == [{"kernel": "b", "launches": 6, "busy_ns": 7}]


def test_usage_has_an_end():
    parts = [{"type": "usage", "kernels": []}] * (MAX_USAGE_MESSAGES + 3)
    _, events, _, _ = run(*parts)
    assert len(events) == MAX_USAGE_MESSAGES


@pytest.mark.parametrize(
    "kernels", [None, {}, [["a", 1]], [["a", -1, 1]], [["a", 1, "1"]], ["abc"], [["a", 1, 1, 1]]]
)
def test_usage_that_is_none_is_a_violation(kernels):
    with pytest.raises(ChannelViolation):
        run({"type": "usage", "kernels": kernels})


def test_modelled_launches_have_an_end_and_bounds():
    launches = {
        "kernel": "k",
        "grid": [1, 1, 1],
        "block": [32, 1, 1],
        "launches": 1,
        "us": 2.0,
        "counts": {"blocks": 1.0},
        "note": "",
        "arguments": "8",
    }
    summary = {"copies": [], "span_us": 3.0, "gaps_us": 0.0, "left_out": 0}
    parts = [{"type": "modelled", "launches": launches}] * (MAX_MODELLED_MESSAGES + 3)
    _, events, _, _ = run(*parts)
    assert len(events) == MAX_MODELLED_MESSAGES + 1
    assert events[-1][1]["refused"]["record"] == "report"
    assert events[0][1]["launches"]["kernel"] == "k"
    _, events, _, _ = run({"type": "modelled", "summary": summary})
    assert events == [("modelled", {"summary": {**summary, "copies": ()}})]


@pytest.mark.parametrize(
    ("part", "record", "kernel", "reason"),
    [
        ({}, "unknown", "", "one of: summary"),
        ({"summary": {"copies": 5}}, "summary", "", "copies"),
        ({"order": [1]}, "order", "", "launches"),
        ({"transfers": {"transfers": [[]]}}, "transfers", "", "each copy"),
        (
            {"launches": {"kernel": "k\n", "counts": {"long_covered": -2.46}}},
            "launches",
            "k ",
            "the count long_covered is out of range: -2.46",
        ),
    ],
)
def test_a_part_of_a_report_that_is_not_valid_is_reported_and_the_rest_follows(
    part: dict[str, object], record: str, kernel: str, reason: str
) -> None:
    if record == "launches":
        shape = {"grid": [1, 1, 1], "block": [1, 1, 1], "launches": 1, "us": 1, "arguments": ""}
        part = {"launches": {**shape, **part["launches"]}}
    summary = {"copies": [], "span_us": 3.0, "gaps_us": 0.0, "left_out": 0}
    _, events, _, _ = run({"type": "modelled", **part}, {"type": "modelled", "summary": summary})
    (name, refused), (_, following) = events
    assert name == "modelled"
    assert (refused["refused"]["record"], refused["refused"]["kernel"]) == (record, kernel)
    assert reason in refused["refused"]["reason"]
    assert following["summary"]["span_us"] == 3.0


def test_a_fault_is_passed_on_clean():
    _, events, _, _ = run(
        {
            "type": "event",
            "event": "fault",
            "kernel": "k" * 500,
            "ptx_line": 42,
            "address": (1 << 64) - 1,
            "block": 3,
            "message": "line one\nline two\x1b[31m" + "x" * 10_000,
        }
    )
    ((name, fields),) = events
    assert name == "fault"
    assert fields["kernel"] == "k" * 128
    assert (fields["ptx_line"], fields["address"], fields["block"]) == (42, (1 << 64) - 1, 3)
    assert fields["message"].startswith("line one line two [31mxxx")
    assert len(fields["message"]) == 512


def test_a_flood_of_one_event_is_passed_on_once():
    _, events, _, _ = run(*[{"type": "event", "event": "unsupported_ptx", "message": "tex"}] * 20)
    assert events == [("unsupported_ptx", {"message": "tex"})]


def test_an_event_of_a_newer_worker_is_not_passed_on():
    assert run({"type": "event", "event": "teleported"})[1] == []


BAD = {
    "not JSON": b"\xff\xff",
    "not an object": b"[]",
    "no type": b"{}",
    "deep": b"[" * 15_000,
    "unknown type": {"type": "launch_missiles"},
    "reserve nothing": {"type": "reserve", "request": 1, "bytes": 0},
    "reserve less than nothing": {"type": "reserve", "request": 1, "bytes": -5},
    "reserve true": {"type": "reserve", "request": 1, "bytes": True},
    "reserve text": {"type": "reserve", "request": 1, "bytes": "5"},
    "reserve beyond 63 bits": {"type": "reserve", "request": 1, "bytes": 1 << 63},
    "no request": {"type": "reserve", "bytes": 5},
    "release of what is not held": {"type": "release", "bytes": 1},
    "statistics without numbers": {"type": "stats"},
    "fault at a fraction": {"type": "event", "event": "fault", "address": 0.5},
    "too long": b'{"type":"' + b"x" * (17 << 10) + b'"}',
}


@pytest.mark.parametrize("name", BAD)
def test_what_no_worker_of_ours_says_is_a_violation(name):
    with pytest.raises(ChannelViolation):
        run(BAD[name])


def test_a_worker_that_does_not_read_its_replies_is_a_violation():
    async def flood():
        mine, its = seqpacket.pair()
        mine.setblocking(False)
        budget = Budget(1 << 50)
        channel = WorkerChannel(
            mine, ForeignSockets("worker", refusing=True), budget, budget.open(INSTANCE)
        )
        message = json.dumps({"type": "memory", "request": 1}).encode()

        async def write() -> None:
            while True:
                await seqpacket.send(its, message)

        its.setblocking(False)
        with mine, its:
            writing = asyncio.create_task(write())
            try:
                async with asyncio.timeout(20):
                    async for _ in channel.events():
                        pass
            finally:
                writing.cancel()
                await asyncio.wait((writing,))

    with pytest.raises(ChannelViolation, match="does not read"):
        asyncio.run(flood())


def test_texts_lose_what_terminals_and_logs_would_act_on():
    assert clean_text("a\r\n\0\u202eb") == "a    b"
    assert clean_text(7) == ""


@pytest.mark.parametrize("count", [1, 4, 5, 200])
def test_unexpected_descriptors_are_a_violation_and_are_closed(count):
    async def pass_some() -> None:
        mine, its = seqpacket.pair()
        mine.setblocking(False)
        budget = Budget(1 << 50)
        channel = WorkerChannel(
            mine, ForeignSockets("worker", refusing=True), budget, budget.open(INSTANCE)
        )
        with mine, its:
            message = json.dumps({"type": "memory", "request": 1}).encode()
            before = os.listdir("/proc/self/fd")
            socket.send_fds(its, [message], [0] * count)
            with pytest.raises(ChannelViolation):
                await anext(channel.events())
            assert os.listdir("/proc/self/fd") == before

    asyncio.run(pass_some())


STATS = {"type": "stats", "launches": 1, "first_launch_ns": 1, "last_launch_ns": 2, "busy_ns": 9}


def test_counters_are_accepted_within_bounds():
    _, _, _, channel = run(
        {"type": "reserve", "request": 1, "bytes": 4096},
        {**STATS, "blocks": 7, "threads": 70, "computed_ns": 1 << 62, "host_to_device_bytes": 5},
        {**STATS, "blocks": 6, "threads": 80, "set_bytes": (1 << 64) - 1},
    )
    counters = channel.statistics.counters
    assert (counters.contexts, counters.allocations, counters.launches) == (1, 1, 1)
    assert (counters.blocks, counters.threads, counters.host_to_device_bytes) == (7, 80, 5)
    assert counters.busy_ns < 60_000_000_000  # the test has not run for so long
    assert counters.set_bytes == (1 << 63) - 1
    assert channel.statistics.reported_ns > 0


@pytest.mark.parametrize("value", [-1, 1.5, "1", None, True, 1 << 64])
def test_a_counter_that_is_none_is_a_violation(value):
    with pytest.raises(ChannelViolation):
        run({**STATS, "blocks": value})


def test_a_worker_cannot_count_what_gpud_counts():
    _, _, _, channel = run({**STATS, "contexts": 50, "allocations": 50})
    counters = channel.statistics.counters
    assert (counters.contexts, counters.allocations) == (1, 0)


def test_however_workers_name_things_the_whole_inventory_is_one_line_that_agents_read(tmp_path):
    """The largest number of contexts of a node, each with a worker that its tenant has taken
    over.
    """
    odd = "\U0001f600"
    mechanisms = {f"{number:02}{odd * 30}": True for number in range(16)}
    counts = dict.fromkeys(("launches", "first_launch_ns", "last_launch_ns", "busy_ns"), 1 << 62)
    _, events, _, channel = run(
        {"type": "event", "event": "started", "sandbox": mechanisms},
        {"type": "stats", "running_kernel": odd * 500, "running_since_ns": 1 << 63, **counts},
    )
    uid = "11111111-1111-4111-8111-111111111111"
    seen = channel.statistics
    context = admin.Context(
        *(1 << 22, 1 << 22, (1 << 32) - 1, uid, 1 << 40, seen.launches, seen.first_launch_ns),
        *(seen.last_launch_ns, seen.busy_ns, seen.running_kernel, seen.running_since_ns),
        events[0][1]["sandbox"],
    )
    records = Records(tmp_path)
    for _ in range(64):
        records.record_xid("GPU-1", 31, "MIG-" + uid, 1 << 22, odd * 500, 1 << 63)
    crowd = 8 * 7 * 64 * len(json.dumps(dataclasses.asdict(context)))
    xids = 8 * sum(len(json.dumps(dataclasses.asdict(one))) for one in records.xids("GPU-1"))
    figures = 8 * 8 * 2048  # the other fields of each GPU and instance
    assert crowd + xids + figures < json_lines.MAX_LINE_BYTES


LARGE = 1 << 30
RESUME = {**STATS, "type": "resume", "held_bytes": 0, "allocations": 0, "sandbox": {}}


async def talk_adopted(*messages, measured_bytes=0, budget_bytes=1 << 50):
    """As ``talk``, for a worker that an earlier gpud started; returns the channel and its
    budget.
    """
    mine, its = seqpacket.pair()
    mine.setblocking(False)
    budget = Budget(budget_bytes)
    account = budget.open(INSTANCE, measured_bytes)
    channel = WorkerChannel(
        *(mine, ForeignSockets("worker", refusing=True), budget, account),
        opened_ns=0,
        adopted=True,
    )
    with mine, its:
        for message in messages:
            its.send(json.dumps(message).encode())
        its.shutdown(1)
        events = [event async for event in channel.events()]
    return channel, budget, events


def test_an_adopted_worker_resumes_its_counters_and_its_account():
    message = {**RESUME, "held_bytes": 100, "allocations": 7, "launches": 4, "blocks": 9}
    channel, budget, events = asyncio.run(talk_adopted(message, measured_bytes=60))
    assert events == [("worker_started", {"sandbox": {}})]
    counted = channel.statistics.counters
    assert (counted.launches, counted.blocks, counted.allocations) == (4, 9, 7)
    assert (counted.contexts, budget.used_bytes) == (1, 100)


@pytest.mark.parametrize(
    ("held", "measured", "budget", "counted"),
    [
        (100, 100, 1000, 100),
        (0, LARGE, 2 * LARGE, LARGE),  # a report does not reduce what the kernel measured
        (LARGE - CONTEXT_SHARED_BYTES - 1, LARGE, 2 * LARGE, LARGE),
        # except for a context's overhead
        (LARGE - CONTEXT_SHARED_BYTES, LARGE, 2 * LARGE, LARGE - CONTEXT_SHARED_BYTES),
        (0, 2 << 20, 1000, 0),
        (900, 100, 1000, 900),
        (1100, 100, 1000, 100),  # no more is reserved than exists
    ],
)
def test_what_an_adopted_worker_holds_is_measured_and_what_is_beyond_is_reserved(
    held, measured, budget, counted
):
    message = {**RESUME, "held_bytes": held}
    _, found, _ = asyncio.run(talk_adopted(message, measured_bytes=measured, budget_bytes=budget))
    assert found.used_bytes == counted


def test_an_adopted_worker_gives_back_what_it_holds_however_little_was_counted():
    message = {**RESUME, "held_bytes": 1100}
    releases = [{"type": "release", "bytes": 700}, {"type": "release", "bytes": 400}]
    _, found, _ = asyncio.run(
        talk_adopted(message, *releases, measured_bytes=800, budget_bytes=1000),
    )
    assert found.used_bytes == 0


@pytest.mark.parametrize(
    "messages",
    [
        [STATS],
        [RESUME, RESUME],
        [{**RESUME, "held_bytes": -1}],
        [{**RESUME, "allocations": "many"}],
        [{**RESUME, "launches": None}],
    ],
)
def test_an_adopted_worker_resumes_once_first_and_in_numbers(messages):
    with pytest.raises(ChannelViolation):
        asyncio.run(talk_adopted(*messages))


def test_a_worker_that_is_not_adopted_resumes_nothing():
    with pytest.raises(ChannelViolation, match="resume"):
        run(RESUME)
