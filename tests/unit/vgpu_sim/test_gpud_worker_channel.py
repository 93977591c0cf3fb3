"""A worker's channel under a worker that lies, floods and dies."""

import asyncio
import json
import os
import socket

import a30_slice
import pytest

from vgpu_sim.gpud.contexts.worker_channel import (
    MAX_USAGE_MESSAGES,
    ChannelViolation,
    WorkerChannel,
)
from vgpu_sim.gpud.events import clean_text
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.system import seqpacket
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
    """Other events of one name are thinned out; these are parts of one report."""
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
def test_descriptors_that_nobody_asked_for_are_a_violation_and_are_closed(count):
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
