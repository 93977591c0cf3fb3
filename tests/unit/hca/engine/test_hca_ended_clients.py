"""The end of clients with as many objects as they may have: it delays no iteration of hcad's loop."""

import asyncio
import ctypes
import itertools
import logging
import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hca.binding.addresses import address_of
from hca.contract import cm, hca, hca_frames, hca_objects
from hca.contract.verbs import VerbsOpcode, VerbsQpType, VerbsState, VerbsStatus
from hca.daemon.cm.server import CmServer
from hca.daemon.common.numbers import Numbers
from hca.daemon.common.steps import StepRunner, Steps, run_at_once
from hca.daemon.objects.client_objects import _KINDS
from hca.daemon.objects.providers import ImportedMemory, Providers
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties
from support.rigs import rdma_lab
from support.rigs.hca_rig import ALL_ACCESS, BASE, Client, Pair, write
from support.watches.loop_iterations import MeasuredLoop, run_measured
from vgpu_sim.system import seqpacket
from vgpu_sim.worker.memory import create_populated

LONGEST_S = 0.05


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def take(made: tuple[object, int]) -> None:
    """Close the client's descriptor of a new object."""
    os.close(made[1])


def fill_queue_pairs(client: Client, count: int) -> None:
    cq = client.cq().handle
    wanted = hca.HcaQpCreate(client.pd, cq, cq, VerbsQpType.RC, 1, 1, 0, 0)
    for _ in range(count):
        take(client.objects.create_qp(wanted))


def fill_regions(client: Client, count: int) -> None:
    segment = client.region(4096).segment
    wanted = hca.HcaMrCreate(client.pd, 1, BASE, 4096, 1)
    wanted.pieces[0] = hca.HcaPiece(segment, 0, 0, 4096)
    for _ in range(count - 1):
        client.objects.create_region(wanted)


def fill_members(client: Client, count: int) -> None:
    """Attach queue pairs to groups, as many as a function may."""
    cq = client.cq()
    numbers = [client.qp(cq, cq, kind=VerbsQpType.UD).number for _ in range(32)]
    for place in range(count):
        group = (0xFF, 0x0E, *bytes(10), *(place // 32).to_bytes(4))
        member = hca_objects.HcaMcast(numbers[place % 32], 0, (ctypes.c_uint8 * 16)(*group))
        client.objects.attach(member)


def fill_steers(client: Client, count: int) -> None:
    cq = client.cq()
    number = client.qp(cq, cq, kind=VerbsQpType.RAW_PACKET).number
    for priority in range(count):
        wanted = hca_frames.HcaSteerCreate(priority=priority, target_count=1)
        wanted.targets[0] = number
        client.objects.create_steer(wanted)


def repeat(create: Callable[[Client, int], object]) -> Callable[[Client, int], None]:
    """Return a function that makes so many objects, and closes their descriptors."""

    def fill(client: Client, count: int) -> None:
        for number in range(count):
            made = create(client, number)
            if isinstance(made, tuple):
                os.close(made[1])

    return fill


TABLES: dict[str, tuple[int, Callable[[Client, int], None]]] = {
    "domains": (hca.HCA_MAX_PDS - 1, repeat(lambda c, _: c.objects.create_pd())),
    "channels": (hca.HCA_MAX_CHANNELS, repeat(lambda c, _: c.objects.create_channel())),
    "completion_queues": (
        hca.HCA_MAX_CQS,
        repeat(lambda c, _: c.objects.create_cq(hca.HcaCqCreate(1, 0))),
    ),
    "segments": (
        hca.HCA_MAX_SEGMENTS,
        repeat(lambda c, _: c.objects.create_segment(hca.HcaSegmentCreate(4096))),
    ),
    "regions": (hca.HCA_MAX_MRS, fill_regions),
    "windows": (
        hca.HCA_MAX_MWS,
        repeat(lambda c, _: c.objects.create_window(hca_objects.HcaMwCreate(c.pd, 1))),
    ),
    "address_handles": (
        hca.HCA_MAX_AHS,
        repeat(lambda c, n: c.ah(c.gid[:12] + (n % 64).to_bytes(4))),
    ),
    "shared_receives": (
        hca.HCA_MAX_SRQS,
        repeat(lambda c, _: c.objects.create_srq(hca_objects.HcaSrqCreate(c.pd, 1, 0))),
    ),
    "queue_pairs": (hca.HCA_MAX_QPS, fill_queue_pairs),
    "members": (hca.HCA_MAX_MCAST_ATTACH, fill_members),
    "steers": (hca_frames.HCA_MAX_STEERS, fill_steers),
}
"""For each table of a client: its bound, and the function that fills it."""


async def end_all(*clients: Client) -> None:
    """End clients at once, as the programs of a function."""
    runner = StepRunner()
    for client in clients:
        client.objects.end()
    await asyncio.gather(*(runner.run(client.objects.remove_in_steps()) for client in clients))


class Exporter:
    """The worker that exports memory to clients, as hcad sees it."""

    def __init__(self, directory: Path) -> None:
        listener = seqpacket.bind(directory / "direct", 0o600)
        self.providers = Providers(listener)
        self._memory = create_populated("test", SEGMENT_BYTES)
        self._connections: list[socket.socket] = []

    def lend(self, client: Client) -> int:
        """Let a client import memory; return the handle of its segment."""
        client.objects.providers = self.providers
        its, own = seqpacket.pair()
        self._connections.append(own)
        imported = ImportedMemory(os.dup(self._memory), 0, SEGMENT_BYTES, its)
        return client.objects.add_imported_segment(imported).handle

    def end(self) -> None:
        """End all connections, as the kernel does when the worker ends."""
        for connection in self._connections:
            connection.close()
        os.close(self._memory)


SEGMENT_BYTES = 4096


def register(client: Client, segment: int) -> int:
    """Register a segment as a region; return its key."""
    request = hca.HcaMrCreate(client.pd, ALL_ACCESS, BASE, SEGMENT_BYTES, 1)
    request.pieces[0] = hca.HcaPiece(segment, 0, 0, SEGMENT_BYTES)
    return client.objects.create_region(request).handle


@pytest.mark.parametrize(
    ("segments", "regions", "programs"),
    [
        (hca.HCA_MAX_SEGMENTS, 1, 1),
        (1, hca.HCA_MAX_MRS, 1),
        (hca.HCA_MAX_SEGMENTS // 4, 4, 4),
    ],
)
@pytest.mark.parametrize("client_ends", [False, True])
def test_the_end_of_a_worker_with_all_its_exports_is_divided_among_iterations(
    engine, tmp_path, caplog, client_ends, segments, regions, programs
):
    caplog.set_level(logging.INFO, "tessera.hcad")
    loop = MeasuredLoop()
    numbers = Numbers()
    clients = [Client(engine, numbers, 0) for _ in range(programs)]

    async def fill() -> Exporter:
        exporter = Exporter(tmp_path)
        for client in clients:
            for _ in range(segments):
                handle = exporter.lend(client)
                for _ in range(regions):
                    register(client, handle)
        return exporter

    async def remove() -> None:
        if client_ends:
            await end_all(*clients)
        imports = [segment for c in clients for segment in c.objects._segments.values()]
        while any(segment.engine is not None for segment in imports):  # noqa: ASYNC110
            await asyncio.sleep(0)

    exporter = loop.run_until_complete(fill())
    exporter.end()
    loop.longest_s, loop.iterations = 0.0, 0
    loop.run_until_complete(remove())
    assert loop.longest_s < LONGEST_S
    assert loop.iterations > 4
    assert not any(region.engine for c in clients for region in c.objects._regions.values())
    assert len(caplog.records) <= 30
    if not client_ends:
        loop.run_until_complete(end_all(*clients))
    loop.run_until_complete(exporter.providers.close())
    loop.close()


def test_revoked_memory_is_not_accessed_before_its_regions_are_removed(
    engine, tmp_path, monkeypatch
):
    async def scenario() -> None:
        exporter, pair = Exporter(tmp_path), Pair(engine)
        key = register(pair.b, exporter.lend(pair.b))
        write(pair, 5, remote_key=key)
        assert pair.a_send.statuses(1) == [VerbsStatus.SUCCESS]
        removals: list[Steps[None]] = []
        monkeypatch.setattr(exporter.providers.revocations.removal, "begin", removals.append)
        exporter.end()
        while not removals:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
        assert pair.b.objects._regions[key].engine is not None
        write(pair, 5, remote_key=key)
        assert pair.a_send.statuses(1) == [VerbsStatus.REM_ACCESS_ERR]
        pair.close()
        run_at_once(removals[0])
        await exporter.providers.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_every_table_of_a_client_is_in_the_list() -> None:
    assert set(TABLES) == {kind.name for kind in _KINDS}


@pytest.mark.parametrize("kind", TABLES)
def test_the_end_of_a_full_table_is_divided_among_iterations(engine, kind):
    client = Client(engine, Numbers(), 0)
    bound, fill = TABLES[kind]
    fill(client, bound)
    (table,) = (table for table in _KINDS if table.name == kind)
    assert len(list(table.numbers(client.objects))) >= bound
    loop = run_measured(end_all(client))
    assert loop.longest_s < LONGEST_S
    assert not any(list(kind.numbers(client.objects)) for kind in _KINDS)


def test_the_end_of_a_function_with_all_its_objects_is_divided_among_iterations(engine):
    """4,096 queue pairs and 806 regions, of four programs that end at once."""
    numbers = Numbers()
    clients = [Client(engine, numbers, 0) for _ in range(4)]
    for client in clients:
        fill_queue_pairs(client, hca.HCA_MAX_QPS)
    fill_regions(clients[0], 806)
    loop = run_measured(end_all(*clients))
    assert loop.longest_s < LONGEST_S
    assert loop.iterations > 4
    assert not any(client.objects._qps for client in clients)


def test_one_without_steps_would_take_longer(engine):
    """The check of the other tests: the same removal in one iteration is found."""
    client = Client(engine, Numbers(), 0)
    for kind in ("queue_pairs", "address_handles", "windows", "completion_queues"):
        bound, fill = TABLES[kind]
        fill(client, bound - len(client.objects._cqs) if kind == "completion_queues" else bound)

    async def end_at_once() -> None:
        client.objects.close()

    assert run_measured(end_at_once()).longest_s > LONGEST_S


def test_an_ended_client_transfers_nothing_before_its_objects_are_removed(engine):
    numbers = Numbers()
    alive, ended = Client(engine, numbers, 0), Client(engine, numbers, 1)
    own_cq, other_cq = alive.cq(), ended.cq()
    own, other = alive.qp(own_cq, own_cq), ended.qp(other_cq, other_cq)
    own.connect(other)
    other.connect(own)
    mine, theirs = alive.region(4096), ended.region(4096)
    own.send(
        VerbsOpcode.RDMA_WRITE,
        [(BASE, 8, mine.key)],
        remote_address=BASE,
        remote_key=theirs.key,
    )
    assert own_cq.poll().status == VerbsStatus.SUCCESS
    ended.objects.end()
    theirs.view[:8] = mine.view[:8] = b"original"
    mine.view[:8] = b"intruder"
    own.send(
        VerbsOpcode.RDMA_WRITE,
        [(BASE, 8, mine.key)],
        remote_address=BASE,
        remote_key=theirs.key,
    )
    other.send(
        VerbsOpcode.RDMA_WRITE,
        [(BASE, 8, theirs.key)],
        remote_address=BASE,
        remote_key=mine.key,
    )
    assert own_cq.poll().status == VerbsStatus.RETRY_EXC_ERR
    assert theirs.view[:8] == b"original"
    assert mine.view[:8] == b"intruder"
    assert other.page.send_tail == 0, "it executes no request"
    run_measured(end_all(ended))
    assert not ended.objects._qps
    alive.objects.close()


def test_work_is_done_in_order_and_exceptions_reach_the_caller():
    done: list[int] = []

    def steps(number: int, fails: bool = False):
        for _ in range(3):
            done.append(number)
            yield
        if fails:
            raise OSError(number, "no")

    async def work() -> list[object]:
        runner = StepRunner(0)
        runs = [runner.run(steps(n, fails=n == 1)) for n in range(3)]
        cancelled = asyncio.ensure_future(runner.run(steps(3)))
        await asyncio.sleep(0)
        cancelled.cancel()
        results = await asyncio.gather(*runs, return_exceptions=True)
        while len(done) < 12:  # noqa: ASYNC110 - the work has no event for its end
            await asyncio.sleep(0)
        return results

    first, failed, last = asyncio.run(work())
    assert (first, last) == (None, None)
    assert isinstance(failed, OSError)
    assert sorted(done) == sorted([*range(4)] * 3), "the steps of a cancelled caller run too"


def test_the_rest_runs_at_once_when_hcad_ends():
    left = itertools.count()

    def steps():
        for _ in range(1000):
            next(left)
            yield

    async def work() -> None:
        runner = StepRunner(0)
        waiting = asyncio.ensure_future(runner.run(steps()))
        await asyncio.sleep(0)
        runner.finish()
        assert next(left) == 1000
        await waiting

    asyncio.run(work())


def test_a_change_of_policy_is_divided_among_iterations(engine):
    """2,048 connected queue pairs of one function, all of which the new tables deny."""
    enforcer = Enforcer(engine, Parties(), managed=True)
    pods = (rdma_lab.pod(0, app="ps"), rdma_lab.pod(1, app="worker"))
    denied = rdma_lab.policy({"app": "ps"}, policyTypes=["Ingress", "Egress"])
    enforcer.replace_tables(rdma_lab.tables(1, pods))
    numbers = Numbers()
    clients = [Client(engine, numbers, 0, enforcer) for _ in range(2)]
    peer = Client(engine, numbers, 1, enforcer)
    cq = peer.cq()
    target = peer.qp(cq, cq)
    qps = []
    for client in clients:
        cq = client.cq()
        qps += [client.qp(cq, cq, depth=1) for _ in range(hca.HCA_MAX_QPS)]
    for qp in qps:
        qp.connect(target, last=VerbsState.RTR)
    assert enforcer.connected == len(qps)
    switched = []

    async def change() -> None:
        await enforcer.collect_counts()
        await enforcer.apply_owners()
        switched.append(await enforcer.apply_tables(rdma_lab.tables(2, pods, [denied])))

    loop = run_measured(change())
    assert switched[0].revoked == len(qps)
    assert loop.longest_s < LONGEST_S
    assert loop.iterations > 4
    for client in (*clients, peer):
        client.objects.close()


def test_the_end_of_connection_identifiers_is_divided_among_iterations():
    server = CmServer()
    ids = server.new_ids(address_of(0).gids)
    channel, reading = ids.create_channel()
    os.close(reading)
    for _ in range(cm.CM_MAX_IDS):
        ids.create_id(cm.CmIdCreate(channel.handle, 0x106))

    async def end() -> None:
        await StepRunner().run(ids.remove_in_steps())

    loop = run_measured(end())
    assert loop.longest_s < LONGEST_S
    assert not ids._ids
