"""The leading operator: nothing that it does or waits for costs it the Lease or a probe."""

import asyncio
import threading
import time
import urllib.request
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kubernetes.aio.client import ApiClient, Configuration

from gpu_operator import errors
from gpu_operator.app import serve
from gpu_operator.app.health import Health
from gpu_operator.config import Config, NodeConfig
from gpu_operator.controllers import policies
from gpu_operator.controllers.common.world import Outcome, World
from gpu_operator.engine.queue import Key, WorkQueue
from gpu_operator.engine.store import Store
from gpu_operator.engine.worker import Worker
from gpu_operator.kube.actions import Apply, Manager
from gpu_operator.kube.client import KubernetesCluster
from gpu_operator.kube.lease import Elector, Term
from gpu_operator.kube.lease_thread import LeaseThread
from gpu_operator.kube.port import Document, Kube
from support.processes.http_stub import Answer, HttpStub, Request
from support.programs.verbs_tools import free_port
from support.worlds.fake_cluster import FakeCluster

TERM_S = 0.1
TERM = Term(TERM_S, TERM_S * 2 / 3, TERM_S / 7)
CONFIG = Config(node=NodeConfig(image="tessera:1", service_account="tessera-node"))
PATIENCE_S = 60.0  # for the test, on a busy machine


class Leases(FakeCluster):
    """Stores the Lease. Each renewal advances the clock by a fifth of a term."""

    now = 0.0
    closed = False

    def clock(self) -> float:
        return self.now

    async def create(self, document: Document) -> Document:
        created = await super().create(document)
        self.now += TERM_S / 5
        return created

    async def replace(self, document: Document) -> Document:
        replaced = await super().replace(document)
        self.now += TERM_S / 5
        return replaced

    async def close(self) -> None:
        self.closed = True

    @property
    def holder(self) -> str:
        return str(self.objects["Lease"]["lease"]["spec"]["holderIdentity"])


@pytest.fixture
def leases() -> Leases:
    return Leases()


def lease_thread(leases: Leases) -> LeaseThread:
    async def connect() -> Kube:
        return leases

    return LeaseThread(connect, lambda kube: Elector(kube, "lease", "ns", "me", TERM, leases.clock))


def spin_until(condition: Callable[[], bool]) -> None:
    """Compute without releasing the interpreter explicitly until the condition is met."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "nothing else runs while this computes"


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is met, while other tasks of the loop run."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0)


async def leading(
    lease: LeaseThread, worker: Worker, store: Store, until: Coroutine[Any, Any, None]
) -> None:
    """Lead until ``until`` returns; raise the exception that ended either of them."""
    work = asyncio.create_task(serve._lead(lease, worker, store, "ns"))
    awaited = asyncio.create_task(until)
    done, _ = await asyncio.wait({work, awaited}, return_when=asyncio.FIRST_COMPLETED)
    for task in (work, awaited):
        task.cancel()
    await asyncio.gather(work, awaited, return_exceptions=True)
    for task in done:
        task.result()


@pytest.fixture(autouse=True)
def no_kopf(monkeypatch: pytest.MonkeyPatch) -> None:
    async def watch(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(serve, "_run_kopf", watch)
    monkeypatch.setattr(serve, "_RETRY_S", 0.0)


def test_a_long_computation_loses_neither_lease_nor_probe(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    computing, probed, computed = threading.Event(), threading.Event(), threading.Event()
    given_up: list[AssertionError] = []

    def compute(_: World, name: str, *others: object) -> Outcome:
        del others
        began = leases.now
        computing.set()
        try:
            if not computed.is_set():  # later ones can be short
                spin_until(lambda: leases.now - began > 2 * TERM_S and probed.is_set())
        except AssertionError as err:
            given_up.append(err)
        computed.set()
        metadata = {"name": name}
        return Outcome(
            (Apply(Manager.POLICY, {"kind": "GPUPolicy", "metadata": metadata, "spec": {}}),)
        )

    def probe(port: int) -> int:
        computing.wait(PATIENCE_S)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as reply:
            probed.set()
            return int(reply.status)

    async def main() -> None:
        cluster = FakeCluster()
        store = Store()
        async with lease_thread(leases) as lease:
            worker = Worker(cluster, store, WorkQueue(), CONFIG, "ns", lease.fence)

            async def until() -> None:
                async with Health(0, lambda: lease.is_leader) as health:
                    assert await asyncio.to_thread(probe, health.port) == 200
                assert await asyncio.to_thread(computed.wait, PATIENCE_S)
                await wait_until(lambda: "GPUPolicy" in cluster.objects)  # the results are written
                lease.fence()

            await leading(lease, worker, store, until())

    monkeypatch.setattr(policies, "reconcile", compute)
    asyncio.run(main())
    assert given_up == []


def test_a_stuck_controller_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    computing, enough = threading.Event(), threading.Event()

    def compute(*_: object) -> Outcome:
        computing.set()
        enough.wait(PATIENCE_S)
        return Outcome()

    async def main() -> None:
        worker = Worker(FakeCluster(), Store(), WorkQueue(), CONFIG, "ns", lambda: None)
        assert worker.stuck_for_s == 0.0
        work = asyncio.create_task(worker.work(Key("GPUPolicy", "default")))
        assert await asyncio.to_thread(computing.wait, PATIENCE_S)
        assert worker.stuck_for_s > 0.0
        enough.set()
        assert await work
        assert worker.stuck_for_s == 0.0

    monkeypatch.setattr(policies, "reconcile", compute)
    asyncio.run(main())


@pytest.mark.parametrize(
    ("leads", "resync_age_s", "stuck_s", "alive"),
    [
        (True, 1, 0, True),
        (True, 1, 9, True),
        (True, 1, 11, False),
        (True, 11, 0, False),
        (False, 11, 11, True),  # a standby has no work
    ],
)
def test_an_inactive_leader_is_not_alive(
    leads: bool, resync_age_s: float, stuck_s: float, alive: bool
) -> None:
    lease: Any = SimpleNamespace(is_leader=leads)
    worker: Any = SimpleNamespace(
        last_resync=time.monotonic() - resync_age_s, stuck_for_s=float(stuck_s)
    )
    assert serve._is_alive(lease, worker, 10.0) is alive


def test_controllers_run_one_at_a_time_on_the_latest_world(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two decisions on the same state could both use a resource that exists once."""
    store, running = Store(), 0
    policies_seen: list[int] = []

    def compute(world: World, *_: object) -> Outcome:
        nonlocal running
        running += 1
        assert running == 1
        policies_seen.append(len(world.policies))
        running -= 1
        number = len(policies_seen)
        document = {"metadata": {"name": f"p{number}", "uid": f"u{number}"}, "spec": {}}
        loop.call_soon_threadsafe(store.put, "GPUPolicy", document)
        return Outcome()

    async def main() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        worker = Worker(FakeCluster(), store, WorkQueue(), CONFIG, "ns", lambda: None)
        keys = [Key("GPUPolicy", str(n)) for n in range(5)]
        assert all(await asyncio.gather(*(worker.work(key) for key in keys)))

    loop: Any = None
    monkeypatch.setattr(policies, "reconcile", compute)
    asyncio.run(main())
    assert policies_seen == [0, 1, 2, 3, 4]


def test_the_lease_is_renewed_while_the_kinds_are_not_served_yet(leases: Leases) -> None:
    class Bare(FakeCluster):
        serves = False

        async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
            if not self.serves:
                raise errors.NotFound(f"list {kind}: 404 page not found")
            return await super().list(kind, namespace)

    async def main() -> None:
        cluster, store = Bare(), Store()
        async with lease_thread(leases) as lease:
            worker = Worker(cluster, store, WorkQueue(), CONFIG, "ns", lease.fence)

            async def until() -> None:
                await wait_until(lambda: leases.now > 3 * TERM_S)
                lease.fence()
                assert "DaemonSet" not in cluster.objects
                cluster.serves = True
                began = worker.last_resync
                await wait_until(lambda: worker.last_resync > began)

            await leading(lease, worker, store, until())

    asyncio.run(main())


def test_the_operator_stops_when_it_loses_the_lease(leases: Leases) -> None:
    async def main() -> None:
        async with lease_thread(leases) as lease:
            with pytest.raises(errors.NotLeader):
                lease.fence()
            store = Store()
            worker = Worker(FakeCluster(), store, WorkQueue(), CONFIG, "ns", lease.fence)

            async def until() -> None:
                await wait_until(lambda: lease.is_leader)
                lease_object = leases.objects["Lease"]["lease"]
                lease_object["spec"]["holderIdentity"] = "other"
                leases._touch(lease_object)
                await asyncio.Event().wait()

            with pytest.raises(errors.NotLeader):
                await leading(lease, worker, store, until())
            assert not lease.is_leader

    asyncio.run(main())
    assert leases.holder == "other"


def test_the_lease_is_released_and_the_connection_closed_at_the_end(leases: Leases) -> None:
    async def main() -> None:
        async with lease_thread(leases) as lease:
            await lease.acquire()
            assert leases.holder == "me"

    asyncio.run(main())
    assert leases.holder == ""
    assert leases.closed
    assert "lease" not in {thread.name for thread in threading.enumerate()}


def test_without_access_to_a_cluster_the_operator_does_not_start() -> None:
    async def connect() -> Kube:
        raise errors.ConfigError("no access to a cluster")

    async def main() -> None:
        async with LeaseThread(connect, lambda kube: pytest.fail("no connection")):
            pass

    with pytest.raises(errors.ConfigError):
        asyncio.run(main())
    assert "lease" not in {thread.name for thread in threading.enumerate()}
    assert "lease" not in {thread.name for thread in threading.enumerate()}


class AbsentServer:
    """An API server that refuses the first connections."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        if self.failures:
            self.failures -= 1
            raise errors.Unreachable(f"{kind} {name}: Cannot connect")
        return {"metadata": {"uid": "u"}}


async def read_status(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
    status = await reader.readline()
    writer.close()
    return status


def test_the_operator_waits_for_an_api_server_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "_RETRY_S", 0.01)
    port = free_port()
    config: Any = SimpleNamespace(owner_cluster_role="tessera", health_port=port)

    async def scenario() -> None:
        stop, server = asyncio.Event(), AbsentServer(failures=10**6)
        owners = asyncio.create_task(serve._await_owners(config, cast("Any", server), stop))
        await asyncio.sleep(0.05)
        assert b"200" in await read_status(port)
        server.failures = 0
        assert [owner["uid"] for owner in await owners or ()] == ["u"]
        server.failures = 10**6
        owners = asyncio.create_task(serve._await_owners(config, cast("Any", server), stop))
        await asyncio.sleep(0.05)
        stop.set()
        assert await owners is None

    asyncio.run(scenario())


def await_owners(*answers: Answer) -> tuple[tuple[dict[str, Any], ...] | None, int]:
    """Start with an API server that gives these answers, and the last one again and again.

    Return the owners and the number of requests.
    """
    config: Any = SimpleNamespace(owner_cluster_role="tessera", health_port=free_port())

    async def start(url: str) -> tuple[dict[str, Any], ...] | None:
        cluster = KubernetesCluster(ApiClient(Configuration(host=url)))
        try:
            return await serve._await_owners(config, cluster, asyncio.Event())
        finally:
            await cluster.close()

    def answer(_: Request) -> Answer:
        return answers[min(len(stub.requests), len(answers)) - 1]

    with HttpStub(answer) as stub:
        return asyncio.run(start(stub.url)), len(stub.requests)


ROLE = Answer(document={"metadata": {"name": "tessera", "uid": "u"}})
REFUSALS = {
    "no accounts yet": Answer(401, {"kind": "Status", "message": "Unauthorized"}),
    "no roles yet": Answer(
        403, {"kind": "Status", "message": 'RBAC: clusterrole "tessera" not found'}
    ),
    "no kind yet": Answer(404, text="404 page not found\n"),
}
TROUBLES = {
    "too many requests": Answer(429, {"kind": "Status", "message": "try again later"}),
    "no leader of etcd": Answer(500, {"kind": "Status", "message": "etcdserver: no leader"}),
    "not initialized": Answer(503, {"kind": "Status", "message": "not been fully initialized"}),
    "a proxy without server": Answer(502, text="<html>bad gateway"),
}


@pytest.mark.parametrize("trouble", [*REFUSALS, *TROUBLES])
def test_the_operator_waits_for_an_api_server_that_is_just_starting(
    trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    owners, requests = await_owners(*[(REFUSALS | TROUBLES)[trouble]] * 3, ROLE)
    assert [owner["uid"] for owner in owners or ()] == ["u"]
    assert requests == 4
    assert caplog.text.count("waiting for the API server") == 1


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_that_lasts_ends_the_operator_with_its_reason(
    refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_LONGEST_REFUSAL_S", 0.2)
    with pytest.raises(errors.KubeError, match=r"ClusterRole tessera: (Unauth|RBAC|404 )"):
        await_owners(REFUSALS[refusal])


def test_the_time_of_refusals_begins_again_with_an_api_server_that_was_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "_LONGEST_REFUSAL_S", 0.2)
    monkeypatch.setattr(serve, "_RETRY_S", 0.15)
    refusal, away = REFUSALS["no roles yet"], TROUBLES["not initialized"]
    owners, _ = await_owners(*[refusal, away] * 3, ROLE)
    assert owners
