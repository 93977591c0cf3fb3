"""The table of contexts: however a worker ends, all is released and its pod gets one report."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from support.rigs import a30_slice
from vgpu_sim.gpud.contexts import table as table_module
from vgpu_sim.gpud.contexts.index import Context
from vgpu_sim.gpud.contexts.table import ContextTable
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.gpud.model import (
    Owner,
)
from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.management.admin import Counters
from vgpu_sim.system import processes, seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.peers import Peer, PodUid

INSTANCE = a30_slice.make()
POD = "11111111-1111-4111-8111-111111111111"
WORKER = "import sys; sys.exit(int(sys.stdin.readline()))"


class Worker:
    """A process that ends on request; the test uses its channel on its behalf."""

    def __init__(self) -> None:
        orders, self._orders = os.pipe()
        self.pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", WORKER],
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, orders, 0)],
        )
        os.close(orders)
        self.mine, self.channel = seqpacket.pair()
        self.mine.setblocking(False)
        self.fence: Callable[[str], None] = lambda _: None
        self.strike: Callable[[int, str], None] = lambda *_: None

    def say(self, message: dict[str, Any] | bytes) -> None:
        self.channel.send(message if isinstance(message, bytes) else json.dumps(message).encode())

    def exit(self, status: int) -> None:
        self.channel.close()
        os.write(self._orders, b"%d\n" % status)

    def kill(self) -> None:
        self.channel.close()
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self.mine.close()
        self.channel.close()
        os.close(self._orders)


def outcome(
    act: Callable[[Worker], None], *, left_over: bool = False, grace_s: float = 600.0
) -> list[dict[str, Any]]:
    """Run a worker to its end; return the events about it, once everything is released.

    A ``left_over`` worker was started by an earlier gpud, and has no channel. No zygote reports
    its exit: the worker is a child of this process, as if gpud had adopted it.
    """

    async def live() -> list[dict[str, Any]]:
        budget, events = Budget(1 << 40), EventBus()
        reported: list[dict[str, Any]] = []
        events.subscribe(reported.append)
        table = ContextTable(budget, events, lambda _: None, grace_s)
        worker = Worker()
        pidfd = processes.open_process(worker.pid)
        assert pidfd is not None
        account = budget.open(INSTANCE)
        owner = Owner(PodUid(POD), "team")
        sockets = ForeignSockets("worker", refusing=True)
        context = Context(
            *(INSTANCE, owner, Peer(1, 0), account, worker.pid, pidfd),
            *(None if left_over else worker.mine, sockets),
        )
        worker.fence = lambda reason: table.fence(context, reason)
        worker.strike = lambda error, reason: table.end_failed(context, error, reason)
        table.add(context)
        worker.say({"type": "reserve", "request": 1, "bytes": 1000})
        act(worker)
        assert await table.drain(10), "the context was never ended"
        assert budget.used_bytes == 0
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "no task waits for its messages"
        worker.close()
        return reported

    return asyncio.run(live())


def names(reported: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in reported]


def test_a_killed_worker_is_reported_to_its_pod():
    reported = outcome(Worker.kill)
    assert names(reported) == ["context_started", "fault", "context_ended"]
    assert (reported[1]["pod_uid"], reported[1]["namespace"], reported[1]["kernel"]) == (
        POD,
        "team",
        "",
    )
    assert "signal 9" in reported[1]["message"]
    assert reported[2]["reason"] == "killed by signal 9"


@pytest.mark.parametrize("status", [spawn.FAULTED_STATUS, spawn.CRASHED_STATUS, 1])
def test_a_silent_failure_of_a_worker_is_reported_to_its_pod(status):
    reported = outcome(lambda worker: worker.exit(status))
    assert names(reported) == ["context_started", "fault", "context_ended"]
    assert f"exit status {status}" in reported[1]["message"]


@pytest.mark.parametrize("status", [0, spawn.REFUSED_STATUS])
def test_an_end_that_the_client_knows_of_is_no_fault(status):
    reported = outcome(lambda worker: worker.exit(status))
    assert names(reported) == ["context_started", "context_ended"]


def test_a_fault_that_the_worker_reported_is_reported_once():
    def fault(worker: Worker) -> None:
        worker.say({"type": "event", "event": "fault", "kernel": "k", "message": "bad address"})
        worker.exit(spawn.FAULTED_STATUS)

    reported = outcome(fault)
    assert names(reported) == ["context_started", "fault", "context_ended"]
    assert reported[1]["kernel"] == "k"
    assert reported[2]["reason"] == "fault: bad address"


def test_a_failed_context_setup_is_reported_as_such():
    def fail(worker: Worker) -> None:
        worker.say({"type": "event", "event": "failed", "message": "no cgroup"})
        worker.exit(spawn.REFUSED_STATUS)

    reported = outcome(fail)
    assert names(reported) == ["context_started", "worker_failed", "context_ended"]
    assert reported[1]["message"] == "no cgroup"


def test_a_context_that_was_never_started_is_reported_to_its_requester():
    reported: list[dict[str, Any]] = []
    events = EventBus()
    events.subscribe(reported.append)
    table = ContextTable(Budget(1 << 40), events, lambda _: None)
    table.report_not_started(INSTANCE, Owner(PodUid(POD), "team"), "no worker could be forked")
    assert names(reported) == ["worker_failed"]
    assert reported[0]["instance"] == INSTANCE.uuid
    assert (reported[0]["pod_uid"], reported[0]["namespace"], reported[0]["pid"]) == (
        POD,
        "team",
        0,
    )
    assert reported[0]["message"] == "no worker could be forked"


def test_a_fenced_worker_gets_the_reason_and_may_end_by_itself():
    received = []

    def fence(worker: Worker) -> None:
        worker.fence("its pod is gone")
        received.append(json.loads(worker.channel.recv(4096, socket.MSG_DONTWAIT)))
        worker.exit(1)

    reported = outcome(fence)
    assert received == [{"type": "fence", "reason": "its pod is gone", "error": 0}]
    assert names(reported) == ["context_started", "fenced", "context_ended"]
    assert reported[2]["reason"] == "fenced: its pod is gone"


def test_a_dead_worker_is_not_listened_to_though_its_channel_is_open(monkeypatch):
    """A compile helper that dies a little later may hold the other end."""
    monkeypatch.setattr(table_module, "_LAST_WORDS_SECONDS", 0.05)
    reported = outcome(lambda worker: os.kill(worker.pid, signal.SIGKILL))
    assert names(reported) == ["context_started", "fault", "context_ended"]


@pytest.mark.parametrize("how", [{"left_over": True}, {"grace_s": 0.05}])
def test_a_fenced_worker_that_cannot_or_will_not_end_is_killed(how):
    def fence(worker: Worker) -> None:
        worker.fence("its pod is gone")
        worker.fence("reported twice")

    reported = outcome(fence, **how)
    assert names(reported) == ["context_started", "fenced", "context_ended"]
    assert reported[1]["reason"] == "its pod is gone"
    assert (reported[1]["pod_uid"], reported[1]["namespace"]) == (POD, "team")
    assert reported[2]["reason"] == "fenced: its pod is gone"


def test_a_worker_that_breaks_the_contract_is_killed_and_reported():
    reported = outcome(lambda worker: worker.say(b"nonsense"))
    assert names(reported) == ["context_started", "fault", "context_ended"]
    assert "protocol violation" in reported[1]["message"]
    assert reported[2]["reason"].startswith("protocol violation")


def test_a_worker_on_a_failed_gpu_gets_its_clients_result_and_may_end_by_itself():
    received = []

    def strike(worker: Worker) -> None:
        worker.strike(214, "Xid 48")
        received.append(json.loads(worker.channel.recv(4096, socket.MSG_DONTWAIT)))
        worker.exit(1)

    reported = outcome(strike)
    assert received == [{"type": "fence", "reason": "Xid 48", "error": 214}]
    assert names(reported) == ["context_started", "fault", "context_ended"]
    assert (reported[1]["kind"], reported[1]["message"], reported[1]["pod_uid"]) == (
        "DEVICE",
        "Xid 48",
        POD,
    )
    assert reported[2]["reason"] == "fault: Xid 48"


@pytest.mark.parametrize("how", [{"left_over": True}, {"grace_s": 0.05}])
def test_a_worker_whose_gpu_failed_and_that_cannot_or_will_not_end_is_killed(monkeypatch, how):
    monkeypatch.setattr(table_module, "_LAST_WORDS_SECONDS", 0.05)

    def strike(worker: Worker) -> None:
        worker.strike(214, "Xid 48")
        worker.strike(719, "reported twice")

    reported = outcome(strike, **how)
    assert names(reported) == ["context_started", "fault", "context_ended"]
    assert (reported[1]["message"], reported[2]["reason"]) == ("Xid 48", "fault: Xid 48")


def test_what_contexts_counted_under_an_earlier_gpud_is_counted_on_until_it_is_forgotten():
    table = ContextTable(Budget(1 << 40), EventBus(), lambda _: None)
    other = a30_slice.make()
    before = {INSTANCE.uuid: Counters(busy_ns=5, launches=2), other.uuid: Counters(busy_ns=7)}
    table.inherit(before)
    for uuid, counters in before.items():
        assert (
            table.inherited_counters(uuid)
            == table.ended_counters(uuid)
            == table.counters(uuid)
            == counters
        )
    assert table.ended_by_instance() == before
    table.forget(INSTANCE.uuid)
    assert table.ended_by_instance() == {other.uuid: before[other.uuid]}
    assert table.inherited_counters(INSTANCE.uuid) == table.counters(INSTANCE.uuid) == Counters()
    assert table.inherited_counters(other.uuid) == Counters(busy_ns=7)
