"""gpud's loop never blocks on disk or kernel, and serves a slice at most once per iteration.

A client waits for a few iterations of gpud's loop. So an iteration must be short, whatever a
slice's clients and workers do: at most one message of each slice, and no slow operation.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.rigs import a30_slice
from vgpu_sim.cli.clients.slices import hello_message
from vgpu_sim.gpud.contexts import leftovers, worker_channel
from vgpu_sim.gpud.contexts.leftovers import Recorder
from vgpu_sim.gpud.contexts.worker_channel import WorkerChannel
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.gpud.limits.cgroups.base import Share
from vgpu_sim.gpud.limits.cgroups.none import NoCgroups
from vgpu_sim.gpud.limits.cgroups.updates import GroupUpdates
from vgpu_sim.gpud.model import InstanceUuid, Owner
from vgpu_sim.gpud.slices.admission import HolderTable, PodAdmission
from vgpu_sim.gpud.slices.server import SliceServer
from vgpu_sim.hal.messages import DeviceInfo, MessageType
from vgpu_sim.system import processes, seqpacket, threads
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.peers import Peer, PodUid

INSTANCE, OTHER = a30_slice.make(), a30_slice.make()
SHARE = Share(1 << 30, 14, 56, 2, strict=False)


class Rounds:
    """Counts iterations of the loop, and how often an event occurred in each."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self._number = 0

    def note(self) -> None:
        self.seen[self._number] += 1

    async def count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self._number += 1


class NotingBudget(Budget):
    """Records when a worker requests memory."""

    def __init__(self, rounds: Rounds) -> None:
        super().__init__(1 << 40)
        self._rounds = rounds

    def possible_grant(self, account: Any) -> Any:
        self._rounds.note()
        return super().possible_grant(account)


def test_however_many_workers_of_a_slice_flood_a_round_takes_one_message() -> None:
    async def scenario() -> Counter[int]:
        rounds = Rounds()
        budget = NotingBudget(rounds)
        turns = worker_channel.turnstile()
        with contextlib.ExitStack() as stack:
            channels = []
            for _ in range(8):
                mine, its = map(stack.enter_context, seqpacket.pair())
                mine.setblocking(False)
                for number in range(20):
                    its.send(json.dumps({"type": "memory", "request": number}).encode())
                its.shutdown(socket.SHUT_WR)
                sockets = ForeignSockets("worker", refusing=True)
                channels.append(
                    WorkerChannel(mine, sockets, budget, budget.open(INSTANCE), turns=turns)
                )
            counting = asyncio.create_task(rounds.count())
            await asyncio.gather(*(drain(channel) for channel in channels))
            counting.cancel()
        return rounds.seen

    seen = asyncio.run(scenario())
    assert seen.total() == 160
    assert max(seen.values()) == 1


async def drain(channel: WorkerChannel) -> None:
    async for _ in channel.events():
        pass


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory whose name leaves room for a socket's."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        yield Path(name)


class NoAdmission:
    async def authorize(self, *_: object) -> Owner:
        raise AssertionError("no client requests a context")


def test_however_many_clients_say_hello_at_once_a_round_takes_one(short_dir: Path) -> None:
    async def scenario() -> Counter[int]:
        rounds = Rounds()

        def describe(*_: object) -> DeviceInfo:
            rounds.note()
            return DeviceInfo()

        server = SliceServer(
            INSTANCE.uuid, short_dir, lambda _: INSTANCE, describe, NoAdmission(), NoAdmission()
        )
        server.open(0o600, 0o700)
        clients = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(40)]
        for client in clients:
            client.setblocking(False)
            client.connect(str(short_dir / "s.sock"))
        while len(server._serving) < len(clients):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
        for client in clients:
            client.send(hello_message(MessageType.HELLO_QUERY))
        counting = asyncio.create_task(rounds.count())
        for client in clients:
            await asyncio.get_running_loop().sock_recv(client, 4096)
            client.close()
        counting.cancel()
        await server.close(remove_directory=False)
        return rounds.seen

    seen = asyncio.run(asyncio.wait_for(scenario(), 30))
    assert seen.total() == 40
    assert max(seen.values()) == 1


class Slow:
    """An operation that lasts as long as the test requires, on a thread other than the loop's."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.calls: list[tuple[object, ...]] = []

    def __call__(self, *arguments: object) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.calls.append(arguments)
        self.begun.set()
        assert self.go_on.wait(60)


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.go_on.set()


async def until(condition: Callable[[], bool]) -> None:
    """Wait at most 30 s while the loop runs, which is the property under test."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - threads cannot set asyncio events
            await asyncio.sleep(0.001)


def run(scenario: Awaitable[None]) -> None:
    async def run_bounded() -> None:
        await asyncio.wait_for(scenario, 60)

    asyncio.run(run_bounded())


class SlowCgroups(NoCgroups):
    """Groups whose preparation is ``slow``; records the calls, in order."""

    def __init__(self, slow: Slow, uuid: InstanceUuid = INSTANCE.uuid) -> None:
        super().__init__("test")
        object.__setattr__(self, "slow", slow)
        object.__setattr__(self, "done", [])
        object.__setattr__(self, "slow_uuid", uuid)

    def prepare(self, uuid: InstanceUuid, share: Share, contexts: int) -> None:
        if uuid == self.slow_uuid:
            self.slow(uuid, contexts)
        self.done.append((uuid, contexts))

    def remove(self, uuid: InstanceUuid) -> None:
        self.done.append((uuid, "removed"))


def test_a_group_that_is_slow_holds_up_its_own_slice_alone(slow: Slow) -> None:
    async def scenario() -> None:
        groups = SlowCgroups(slow)
        updates = GroupUpdates(groups, lambda _: (SHARE, 1))
        starting = asyncio.create_task(updates.prepare(INSTANCE))
        await until(slow.begun.is_set)
        await updates.prepare(OTHER)
        assert groups.done == [(OTHER.uuid, 1)]
        slow.go_on.set()
        await starting
        assert groups.done[1:] == [(INSTANCE.uuid, 1)]

    run(scenario())


def test_updates_of_a_group_end_with_what_is_true_then_and_with_its_removal(slow: Slow) -> None:
    async def scenario() -> None:
        groups, contexts = SlowCgroups(slow), [0]
        updates = GroupUpdates(groups, lambda _: (SHARE, contexts[0]))
        for contexts[0] in range(1, 10):
            updates.schedule(INSTANCE)
            await asyncio.sleep(0)
        await until(slow.begun.is_set)
        slow.go_on.set()
        await updates.finish()
        first = slow.calls[0][1]
        assert [one[1] for one in groups.done] in ([first, 9], [9])
        updates.schedule(INSTANCE)
        await updates.remove(INSTANCE.uuid)
        await updates.finish()
        assert groups.done[-1] == (INSTANCE.uuid, "removed")

    run(scenario())


def test_a_removal_waits_for_a_start_that_was_given_up(slow: Slow) -> None:
    async def scenario() -> None:
        groups = SlowCgroups(slow)
        updates = GroupUpdates(groups, lambda _: (SHARE, 1))
        starting = asyncio.create_task(updates.prepare(INSTANCE))
        await until(slow.begun.is_set)
        starting.cancel()
        removing = asyncio.create_task(updates.remove(INSTANCE.uuid))
        await asyncio.sleep(0.02)
        assert groups.done == []
        slow.go_on.set()
        await removing
        assert groups.done == [(INSTANCE.uuid, 1), (INSTANCE.uuid, "removed")]

    run(scenario())


def test_a_group_that_cannot_be_updated_is_said(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(NoCgroups):
        def prepare(self, uuid: InstanceUuid, share: Share, contexts: int) -> None:
            raise PermissionError("read-only")

    async def scenario() -> None:
        updates = GroupUpdates(Refusing("test"), lambda _: (SHARE, 1))
        updates.schedule(INSTANCE)
        await updates.finish()
        with pytest.raises(PermissionError):
            await updates.prepare(INSTANCE)

    run(scenario())
    assert f"cgroup_not_updated instance={INSTANCE.uuid} error=read-only" in caplog.text


def test_contexts_are_recorded_off_the_loop_and_the_last_state_counts(
    slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "save", slow)

    async def scenario() -> None:
        contexts: list[Any] = ["a"]
        recorder = Recorder(tmp_path, contexts)
        recorder.schedule_save()
        await until(slow.begun.is_set)
        for name in "bcd":
            contexts.append(name)
            recorder.schedule_save()
        slow.go_on.set()
        await recorder.finish()
        assert slow.calls == [(tmp_path, ("a",), {}), (tmp_path, ("a", "b", "c", "d"), {})]
        recorder.schedule_save()
        await recorder.finish()
        assert len(slow.calls) == 3

    run(scenario())


def test_whose_process_a_client_is_is_looked_up_off_the_loop(slow: Slow) -> None:
    """Reading /proc waits for a lock that the kernel holds while it moves processes."""

    def pod_of(pid: int) -> PodUid | None:
        slow(pid)
        return None

    async def scenario() -> None:
        admission = PodAdmission(HolderTable(), EventBus(), lambda _: False, pod_of)
        asking = asyncio.create_task(admission.authorize(INSTANCE, Peer(5, 0), Peer(6, 0), b""))
        await until(slow.begun.is_set)
        slow.go_on.set()
        await asyncio.gather(asking, return_exceptions=True)
        assert slow.calls == [(5,), (6,)]

    run(scenario())


def test_a_pool_starts_no_thread_when_it_is_needed() -> None:
    before = set(threading.enumerate())
    with threads.pool(3) as pool:
        made = set(threading.enumerate()) - before
        assert len(made) == 3
        together = threading.Barrier(4)
        for _ in range(3):
            pool.submit(together.wait)
        together.wait(60)
        assert set(threading.enumerate()) - before == made


PRIORITY = """
import os, subprocess, sys, threading
from vgpu_sim.system import processes
os.nice(int(sys.argv[1]))
first = processes.raise_priority(int(sys.argv[2]))
mine = os.getpriority(os.PRIO_PROCESS, 0)
found = []
def thread(): found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
one = threading.Thread(target=thread); one.start(); one.join()
child = subprocess.run([sys.executable, "-c", "import os; print(os.getpriority(0, 0))"],
                       capture_output=True, text=True)
print(first, mine, found[0], child.stdout.strip())
"""


@pytest.mark.skipif(not processes.has_capabilities(23), reason="NOT RUN: needs CAP_SYS_NICE")
@pytest.mark.parametrize(
    ("given", "wanted", "result"),
    [(0, -10, "True -10 0 0"), (5, -10, "False 5 5 5")],
    ids=["as usual", "started with a lower priority"],
)
def test_gpuds_loop_goes_before_its_threads_and_children(given: int, wanted: int, result: str):
    code = f"import os; os.setpriority(0, 0, 0)\n{PRIORITY}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(given), str(wanted)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == result
