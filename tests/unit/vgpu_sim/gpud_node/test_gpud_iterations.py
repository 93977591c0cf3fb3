"""No iteration of gpud's loop does work in proportion to what one slice has.

One slice fills gpud's tables to their bounds; then everything ends, or is listed, at once.
"""

import asyncio
import gc
import os
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from support.rigs import timed_loop
from support.rigs.timed_loop import TimedLoop
from vgpu_sim.cli.clients.slices import hello_message
from vgpu_sim.gpud.contexts import shares as bounds
from vgpu_sim.gpud.contexts.index import Context
from vgpu_sim.gpud.contexts.launching import MAX_CONTEXTS_PER_SLICE
from vgpu_sim.gpud.contexts.settings import WorkerSettings
from vgpu_sim.gpud.contexts.zygote import Zygote
from vgpu_sim.gpud.daemon import Daemon
from vgpu_sim.gpud.limits.cgroups.none import NoCgroups
from vgpu_sim.gpud.model import InstanceUuid, MigInstance, Owner, new_gpu_uuid
from vgpu_sim.gpud.options import NodeOptions
from vgpu_sim.gpud.slices.server import MAX_PENDING
from vgpu_sim.hal.messages import MessageType
from vgpu_sim.system import seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.peers import Peer, PodUid

LONGEST_MS = 50.0
GPU = {"uuid": new_gpu_uuid(), "index": 0, "board": "a30"}
POD = "11111111-1111-4111-8111-111111111111"
PAGE = 4096
FIRST_PID = 1 << 23  # above the kernel's largest pid: no process of the machine is meant


@pytest.fixture
def options() -> Iterator[NodeOptions]:
    """Options of a node with a short path, because the lengths of socket paths are limited."""
    with tempfile.TemporaryDirectory(prefix="g-", dir="/tmp") as name:
        root = Path(name)
        (root / "state").mkdir()
        workers = WorkerSettings(
            backend="jit",
            threads=1,
            capability=None,
            strict_cpu=False,
            own_uids=False,
            cache_root=root / "cache",
            weak_sandbox=True,
        )
        yield NodeOptions(
            run_dir=root,
            state_dir=root / "state",
            libraries_dir=root,
            budget_bytes=1 << 40,
            workers=workers,
        )


class FullSlice:
    """A slice whose contexts, keys, holds and connections reach gpud's bounds."""

    def __init__(self, daemon: Daemon, instance: MigInstance) -> None:
        self.daemon = daemon
        self.instance = instance
        self.shares = daemon._contexts._shares
        self.contexts: list[Context] = []
        self.ends: list[socket.socket] = []
        self.clients: list[socket.socket] = []
        self.worker = subprocess.Popen(["sleep", "600"])

    async def fill(self) -> None:
        """Fill the tables."""
        owner = Owner(PodUid(POD), "team")
        for number in range(MAX_CONTEXTS_PER_SLICE):
            self._add_context(FIRST_PID + number, owner)
        await asyncio.sleep(0.05)  # the contexts enter their channels
        opened = [os.urandom(32).hex() for _ in range(500)]
        for key in opened:
            assert self.shares.offer(self.contexts[0].account, key, 0, PAGE)
        for number, key in enumerate(opened):
            self._open(key, self.contexts[1 + number % (len(self.contexts) - 1)])
        for context in self.contexts:
            self._offer_all(context)
        uuid = self.instance.uuid
        assert self.shares._entries[uuid] >= bounds.MOST_ENTRIES
        await self._connect(self.daemon._options.slices_dir / uuid / "s.sock")

    def _add_context(self, pid: int, owner: Owner) -> None:
        ours, theirs = seqpacket.pair()
        ours.setblocking(False)
        account = self.daemon._budget.open(self.instance, client=owner.sharer)
        assert self.daemon._budget.reserve(account, PAGE).granted
        context = Context(
            *(self.instance, owner, Peer(pid, 0), account, pid),
            *(os.pidfd_open(self.worker.pid), ours, ForeignSockets("worker", refusing=True)),
        )
        self.contexts.append(context)
        self.ends.append(theirs)
        self.daemon._contexts.add(context)

    def _offer_all(self, context: Context) -> None:
        """Offer names, then chunks, until gpud refuses both."""
        for size in (0, PAGE):
            while self.shares.offer(context.account, os.urandom(32).hex(), 0, size):
                pass

    def _open(self, key: str, context: Context) -> None:
        opened = self.shares.open(context.account, key)
        assert opened is not None
        opened[1].close()
        _, passed, _, _ = socket.recv_fds(self.ends[0], 4096, 1)
        for descriptor in passed:
            os.close(descriptor)

    async def _connect(self, path: Path) -> None:
        """Connect clients, half of which send a query and do not read the reply."""
        for number in range(MAX_PENDING):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            client.setblocking(False)
            client.connect(str(path))
            if number % 2:
                client.send(hello_message(MessageType.HELLO_QUERY))
            self.clients.append(client)
        await asyncio.sleep(0.2)

    async def end(self) -> None:
        """End the worker of all contexts, and all connections, at once; wait until gpud has
        released everything.
        """
        for context in self.contexts:
            self.daemon._contexts.record_worker_exit(context.pid, 9)
        for one in (*self.ends, *self.clients):
            one.close()
        self.worker.kill()
        assert await self.daemon._contexts.drain(30)

    def close(self) -> None:
        """End the worker."""
        self.worker.kill()
        self.worker.wait()


def measure(
    options: NodeOptions, act: Callable[[Daemon, FullSlice], Awaitable[None]], *, end: bool = True
) -> float:
    """Fill one slice, then run ``act``. Return the longest iteration of ``act`` in milliseconds of
    CPU time.
    """
    longest_ms = 0.0

    async def scenario() -> None:
        nonlocal longest_ms
        loop = cast(TimedLoop, asyncio.get_running_loop())
        daemon = Daemon(options, NoCgroups("a test"), Zygote(lambda *_: None))
        await daemon._op_configure({"gpus": [GPU], "budget_bytes": 0})
        wanted = {"gpu_uuid": GPU["uuid"], "profile": "1g.6gb", "start": 0}
        uuid = (await daemon._op_create_instance(wanted))["uuid"]
        await daemon._op_set_holders({"holders": {uuid: [holder()]}, "complete": True})
        full = FullSlice(daemon, daemon._inventory.instance(uuid))
        try:
            await full.fill()
            gc.collect()  # what the test made is not gpud's
            gc.freeze()
            await asyncio.sleep(0)
            loop.restart()
            await act(daemon, full)
            await asyncio.sleep(0)
            longest_ms = loop.longest_ms
            if end:
                await full.end()
            check_empty(daemon, uuid)
        finally:
            gc.unfreeze()
            full.close()
            await daemon._op_destroy_instance({"uuid": uuid})
            await daemon._recorder.finish()
            daemon._faults.close()

    timed_loop.run(scenario())
    return longest_ms


def holder() -> dict[str, Any]:
    return {"pod_uid": POD, "namespace": "team", "name": "train"}


def check_empty(daemon: Daemon, uuid: InstanceUuid) -> None:
    """Assert that nothing of the slice is left."""
    shares = daemon._contexts._shares
    tables = (shares._keys, shares._live, shares._channels, shares._names, shares._held)
    counts = (shares._exported, shares._holds, shares._entries)
    assert [len(table) for table in (*tables, *counts)] == [0] * 8
    assert daemon._budget.used_bytes == 0
    assert daemon._contexts.of(uuid) == []
    assert not daemon._contexts._steps._queues


def test_the_end_of_everything_takes_no_iteration_more_than_50_ms(options: NodeOptions) -> None:
    async def act(_: Daemon, full: FullSlice) -> None:
        await full.end()

    assert measure(options, act, end=False) < LONGEST_MS


def test_fencing_a_full_slice_takes_no_iteration_more_than_50_ms(options: NodeOptions) -> None:
    async def act(daemon: Daemon, full: FullSlice) -> None:
        await daemon._op_set_holders({"holders": {}, "complete": True})
        assert all(context.fenced for context in full.contexts)

    assert measure(options, act) < LONGEST_MS


def test_a_reset_of_a_full_slice_takes_no_iteration_more_than_50_ms(options: NodeOptions) -> None:
    async def act(daemon: Daemon, full: FullSlice) -> None:
        injected = {"gpu_uuid": GPU["uuid"], "instance": full.instance.uuid, "id": "one"}
        counts = {"kind": "ecc_uncorrected", "xid": 0, "count": 1, "duration_ms": 0}
        await daemon._op_inject_fault({**injected, **counts})
        assert all(context.fenced for context in full.contexts)

    assert measure(options, act) < LONGEST_MS


def test_listing_and_sampling_a_full_slice_take_no_iteration_more_than_50_ms(
    options: NodeOptions,
) -> None:
    async def act(daemon: Daemon, full: FullSlice) -> None:
        inventory = await daemon._op_inventory({})
        ((instance,),) = [gpu["instances"] for gpu in inventory["gpus"]]
        assert len(instance["contexts"]) == MAX_CONTEXTS_PER_SLICE
        sampling = asyncio.create_task(daemon._sampler.run(daemon._observe))
        await asyncio.sleep(0.1)
        sampling.cancel()
        assert daemon._sampler._uses

    assert measure(options, act) < LONGEST_MS
