"""Workers of an earlier gpud: a context with a live client stays, one without is ended."""

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.rigs import a30_slice
from vgpu_sim.gpud.contexts import leftovers, reconnecting
from vgpu_sim.gpud.contexts.index import Context
from vgpu_sim.gpud.contexts.launching import MAX_CONTEXTS_PER_SLICE
from vgpu_sim.gpud.contexts.leftovers import Leftovers, Record
from vgpu_sim.gpud.contexts.table import ContextTable
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.gpud.limits.cgroups.none import NoCgroups
from vgpu_sim.gpud.model import ClaimShare, InstanceUuid, Owner
from vgpu_sim.hal.management.admin import Counters
from vgpu_sim.system import processes
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.peers import Peer, PodUid

INSTANCE = a30_slice.make()


class OneInstance:
    instances = (INSTANCE,)


@pytest.fixture
def pair() -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """A worker and its client as gpud sees them: two live processes."""
    waiting = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    made = [subprocess.Popen(waiting, stdin=subprocess.PIPE) for _ in range(2)]
    yield made[0], made[1]
    for process in made:
        process.kill()
        process.communicate()


def context_of(worker: int, client: int, budget: Budget) -> Context:
    pidfd = processes.open_process(worker)
    assert pidfd is not None
    sockets = ForeignSockets("worker", refusing=True)
    owner = Owner(PodUid("pod"), "team")
    account = budget.open(INSTANCE)
    return Context(INSTANCE, owner, Peer(client, 7), account, worker, pidfd, None, sockets)


def test_the_list_of_a_full_node_is_read(tmp_path: Path) -> None:
    """An unreadable list would end all programs of the node: 8 GPUs with 7 slices, all full."""
    slices, most = 8 * 7, MAX_CONTEXTS_PER_SLICE
    instances = [
        dataclasses.replace(INSTANCE, uuid=InstanceUuid(f"MIG-{n:036}")) for n in range(slices)
    ]
    owner = Owner(PodUid("a" * 36), "n" * 63, f"claim:{'a' * 36}")
    contexts = [
        SimpleNamespace(
            pid=(1 << 22) - 1 - n,
            client=Peer((1 << 22) - 1, (1 << 32) - 2),
            instance=instances[n % slices],
            owner=owner,
            born=(1 << 40, 1 << 40),
            reconnect=reconnecting.address(tmp_path, f"{n:016x}"),
            opened_ns=1 << 62,
        )
        for n in range(slices * most)
    ]
    counted = Counters(**{one.name: 1 << 62 for one in dataclasses.fields(Counters)})
    leftovers.save(tmp_path, contexts, {one.uuid: counted for one in instances})  # type: ignore[arg-type]
    assert len(leftovers.load(tmp_path)) == slices * most
    assert len(leftovers.load_ended(tmp_path)) == slices


def save_and_load(run_dir: Path, worker: int, client: int) -> list[Record]:
    context = context_of(worker, client, Budget(1 << 30))
    leftovers.save(run_dir, [context])
    os.close(context.pidfd)
    return leftovers.load(run_dir)


def test_a_record_knows_both_processes_by_their_start(tmp_path: Path, pair) -> None:
    worker, client = pair
    (record,) = save_and_load(tmp_path, worker.pid, client.pid)
    assert record == Record(
        worker.pid,
        processes.start_ticks(worker.pid) or 0,
        client.pid,
        processes.start_ticks(client.pid) or 0,
        7,
        INSTANCE.uuid,
        "pod",
        "team",
    )
    assert (record.alive, record.client_alive) == (True, True)
    client.kill()
    client.communicate()
    assert (record.alive, record.client_alive) == (True, False)


@pytest.mark.parametrize("lives", [True, False])
def test_a_context_lives_as_long_as_its_client(
    tmp_path: Path, pair, lives: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grace period is zero here: only the client keeps it alive."""
    monkeypatch.setattr(leftovers, "CLIENT_GONE_GRACE_SECONDS", 0.0)
    worker, client = pair
    records = save_and_load(tmp_path, worker.pid, client.pid)

    async def scenario() -> None:
        budget = Budget(1 << 30)
        table = ContextTable(budget, EventBus(for_user=True), lambda _: None)
        found = Leftovers(OneInstance(), budget, table, NoCgroups("test"))  # type: ignore[arg-type]
        if not lives:
            client.kill()
        found.take_over(records)
        assert len(list(table)) == 1
        for _ in range(50):
            await asyncio.sleep(0.001)
        if lives:
            assert worker.poll() is None
            assert len(list(table)) == 1
            client.kill()
        assert await table.drain(20)

    asyncio.run(scenario())
    assert processes.start_ticks(worker.pid) is None


@pytest.mark.parametrize("has_share", [True, False])
def test_a_context_of_a_claim_that_lost_its_share_meanwhile_is_ended(
    tmp_path: Path, pair, has_share: bool
) -> None:
    worker, client = pair
    (record,) = save_and_load(tmp_path, worker.pid, client.pid)
    ours, other = (f"claim:{digit * 8}-3333-4333-8333-333333333333" for digit in "ab")
    record = dataclasses.replace(record, claim=ours)
    share = ClaimShare(ours if has_share else other, "team/job", 1 << 30)
    shared = dataclasses.replace(INSTANCE, shares=(share,))

    async def scenario() -> None:
        budget = Budget(1 << 30)
        table = ContextTable(budget, EventBus(for_user=True), lambda _: None)
        inventory = SimpleNamespace(instances=(shared,))
        Leftovers(inventory, budget, table, NoCgroups("test")).take_over([record])  # type: ignore[arg-type]
        assert [one.owner.sharer for one in table] == ([ours] if has_share else [])
        if has_share:
            assert processes.start_ticks(worker.pid) == record.start_ticks
            (context,) = table
            table.dismiss(context, "the test ends")
            assert await table.drain(60)

    asyncio.run(scenario())
    if not has_share:
        assert worker.wait(60) == -signal.SIGKILL


def test_the_list_has_the_claim_of_a_context_and_nothing_of_others(tmp_path: Path, pair) -> None:
    worker, client = pair
    context = context_of(worker.pid, client.pid, Budget(1 << 30))
    shared = dataclasses.replace(context, owner=Owner(PodUid("pod"), "team", "claim:x"))
    leftovers.save(tmp_path, [context, shared])
    os.close(context.pidfd)
    plain, claimed = json.loads((tmp_path / leftovers.FILE_NAME).read_text())["contexts"]
    assert "claim" not in plain  # an older gpud reads it
    assert claimed["claim"] == "claim:x"
    assert [one.owner.claim for one in leftovers.load(tmp_path)] == ["", "claim:x"]


WITH_HELPER = """
import subprocess, sys
child = [sys.executable, "-c", "import sys; sys.stdin.read()"]
helper = subprocess.Popen(child, stdin=subprocess.PIPE)
print(helper.pid, flush=True)
sys.stdin.read()
"""


def test_a_workers_compile_helper_is_left_to_it(tmp_path: Path, pair) -> None:
    """All other processes in a slice's group are ended."""
    stranger, client = pair
    worker = subprocess.Popen(
        [sys.executable, "-c", WITH_HELPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert worker.stdout is not None
    helper = int(worker.stdout.readline())

    class Groups(NoCgroups):
        def existing(self) -> frozenset[InstanceUuid]:
            return frozenset({INSTANCE.uuid})

        def processes(self, uuid: InstanceUuid) -> frozenset[int]:
            return frozenset({worker.pid, helper, stranger.pid})

    async def scenario() -> None:
        budget = Budget(1 << 30)
        table = ContextTable(budget, EventBus(for_user=True), lambda _: None)
        found = Leftovers(OneInstance(), budget, table, Groups("test"))  # type: ignore[arg-type]
        found.take_over(save_and_load(tmp_path, worker.pid, client.pid))

    try:
        asyncio.run(scenario())
        assert stranger.wait(60) == -signal.SIGKILL
        assert worker.poll() is None
        assert processes.parent(helper) == worker.pid
    finally:
        worker.communicate()  # both end with their standard input


def test_a_worker_has_a_helper_and_that_has_children_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither a worker nor the helper's children may fork, so deeper descendants are not a
    worker's.
    """
    parents = {2: 1, 3: 2, 4: 3, 5: 4, 9: 1}  # 1 init, 2 worker, 3 helper, 4 its child
    monkeypatch.setattr(processes, "parent", parents.get)
    belong = [pid for pid in range(1, 10) if leftovers._belongs_to(pid, {2})]
    assert belong == [2, 3, 4]
    assert not leftovers._belongs_to(None, {2})


def test_another_process_with_its_pid_is_not_the_worker(tmp_path: Path, pair) -> None:
    """It is neither watched nor ended."""
    worker, client = pair
    (record,) = save_and_load(tmp_path, worker.pid, client.pid)
    path = tmp_path / leftovers.FILE_NAME
    document = json.loads(path.read_text())
    document["contexts"][0]["start_ticks"] = record.start_ticks + 1
    path.write_text(json.dumps(document))

    async def scenario() -> None:
        budget = Budget(1 << 30)
        table = ContextTable(budget, EventBus(for_user=True), lambda _: None)
        found = Leftovers(OneInstance(), budget, table, NoCgroups("test"))  # type: ignore[arg-type]
        found.take_over(leftovers.load(tmp_path))
        assert not list(table)

    asyncio.run(scenario())
    assert worker.poll() is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 2, "contexts": []}', '{"version": 1, "contexts": [{"pid": 1}]}'],
)
def test_a_list_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / leftovers.FILE_NAME).write_text(text)
    assert leftovers.load(tmp_path) == []
