"""``tessera-operator cleanup`` and ``check``, and the probes."""

import asyncio
import itertools
import json
import re
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_operator import errors
from gpu_operator.app import check, cleanup, validation
from gpu_operator.app.cleanup import Request
from gpu_operator.app.health import Health
from gpu_operator.config import Identity
from gpu_operator.kube.actions import Action, Delete, Evict
from gpu_operator.kube.port import Document
from support.worlds.fake_cluster import FakeCluster

RESOURCE = "gpu.tessera.dev/mig-1g.10gb"


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock at each reading, so that timeouts do not depend on the machine's speed."""
    moments = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(moments) / 100)
    monkeypatch.setattr(cleanup, "time", clock)
    monkeypatch.setattr(cleanup, "_EVERY_S", 0.0)
    monkeypatch.setattr(check, "_TIMEOUT_S", 0.0)


def gpu(*pods: str, state: str = "Withdrawing") -> dict[str, Any]:
    holders = [{"namespace": "default", "name": p, "uid": f"uid-{p}"} for p in pods]
    item = {"profile": "1g.10gb", "state": state, "resource": RESOURCE, "holders": holders}
    return {"slices": [item]}


class Cluster(FakeCluster):
    """A cluster with an operator: a deleted pool is removed once no pod holds a slice of it."""

    operator = True

    def __init__(self) -> None:
        super().__init__()
        self.evicted: list[str] = []
        node = self.add("Node", "n")
        node["status"] = {"capacity": {}, "allocatable": {}}
        self.add("GPUPool", "p", finalizers=["f"])
        self.add("MIGLayout", "l")
        self.add("GPU", "g", {"nodeName": "n"})

    async def perform(self, action: Action) -> Document | None:
        done = await super().perform(action)
        if isinstance(action, Evict):
            self.evicted.append(action.name)
            self.objects["GPU"]["g"]["status"] = gpu()
        return done

    async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
        found = await super().list(kind, namespace)
        deleted = all(
            "deletionTimestamp" in p["metadata"] for p in self.objects["GPUPool"].values()
        )
        held = [
            h
            for g in self.objects["GPU"].values()
            for s in g.get("status", {}).get("slices", [])
            for h in s["holders"]
        ]
        if self.operator and deleted and not held:
            self.objects["GPU"].clear()
            self.objects["GPUPool"].clear()
        return found


def run(cluster: FakeCluster, **request: Any) -> tuple[int, str]:
    said: list[str] = []
    wanted = Request(**{"evict": False, "timeout_s": 0.2, **request})
    status = asyncio.run(cleanup.cleanup(cluster, wanted, said.append))
    return status, "\n".join(said)


def test_layouts_and_pools_are_deleted_and_waited_for() -> None:
    cluster = Cluster()
    status, said = run(cluster)
    assert status == 0
    assert "pools, layouts and GPUs are gone" in said
    assert cluster.objects["MIGLayout"] == {}


def test_an_empty_cluster_is_finished_at_once() -> None:
    assert run(FakeCluster())[0] == 0


def test_without_an_operator_the_cleanup_times_out_and_lists_the_rest() -> None:
    cluster = Cluster()
    cluster.operator = False
    status, said = run(cluster)
    assert status == 1
    assert "GPUPool p" in said
    assert "check that the operator is running" in said


def test_the_operator_s_reasons_for_waiting_are_printed() -> None:
    cluster = Cluster()
    cluster.operator = False
    waits = {"type": "Ready", "reason": "Deleting", "message": "node n is not ready"}
    cluster.objects["GPUPool"]["p"]["status"] = {"conditions": [waits]}
    assert "GPUPool p (node n is not ready)" in run(cluster)[1]


def test_the_pods_that_hold_slices_are_named() -> None:
    cluster = Cluster()
    cluster.objects["GPU"]["g"]["status"] = gpu("train")
    status, said = run(cluster)
    assert status == 1
    assert "default/train" in said
    assert cluster.evicted == []


def test_pods_are_evicted_on_request() -> None:
    cluster = Cluster()
    cluster.objects["GPU"]["g"]["status"] = gpu("train")
    assert run(cluster, evict=True)[0] == 0
    assert cluster.evicted == ["train"]


@pytest.mark.parametrize("reason", ["still offered", "scheduler does not know", "protected"])
def test_pods_are_not_evicted_too_early_nor_against_a_budget(reason: str) -> None:
    cluster = Cluster()
    active = reason == "still offered"
    cluster.objects["GPU"]["g"]["status"] = gpu(
        "train", state="Active" if active else "Withdrawing"
    )
    if reason == "scheduler does not know":
        cluster.objects["Node"]["n"]["status"]["allocatable"][RESOURCE] = "7"
    if reason == "protected":
        cluster.protected.add("uid-train")
    status, said = run(cluster, evict=True)
    assert status == 1
    assert cluster.evicted == []
    assert ("disruption budget" in said) is (reason == "protected")


def test_the_cleanup_can_wait_until_nodes_drop_their_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits longer than for the pools: a kubelet remembers for five minutes."""
    monkeypatch.setattr(cleanup, "_RETIRE_TIMEOUT_S", 0.3)
    cluster = Cluster()
    cluster.objects["Node"]["n"]["status"]["capacity"][RESOURCE] = "0"
    status, said = run(cluster, retire_resources=True, timeout_s=0.1)
    assert status == 1
    last = said.splitlines()[-3:]
    assert last[0] == "waiting until the nodes no longer list their resources"
    assert last[1] == f"waiting for: {RESOURCE} on node n"
    assert last[2].endswith(f"; left: {RESOURCE} on node n")
    cluster = Cluster()
    assert run(cluster, retire_resources=True)[0] == 0


def test_nodes_are_done_when_no_resource_returns() -> None:
    """A kubelet that remembers restores what the operator removed, ten seconds later."""

    class PutBack(Cluster):
        looks = 0

        async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
            if kind == "Node":
                self.looks += 1
                listed = self.looks in (1, 2, 500)
                figures = {RESOURCE: "0"} if listed else {}
                self.objects["Node"]["n"]["status"]["capacity"] = figures
            return await super().list(kind, namespace)

    cluster = PutBack()
    status, said = run(cluster, retire_resources=True)
    assert status == 0
    assert cluster.looks > 500
    *_, waits, waits_again, done = said.splitlines()
    assert waits == waits_again == f"waiting for: {RESOURCE} on node n"
    assert done == "no node lists a resource any more"


def test_possibly_foreign_resources_are_not_waited_for() -> None:
    cluster = Cluster()
    cluster.add("GPUPolicy", "default", {"resourcePrefix": "nvidia.com"})
    real = cluster.add("Node", "real")
    real["status"] = {"capacity": {"nvidia.com/mig-1g.10gb": "7"}}
    status, said = run(cluster, retire_resources=True)
    assert status == 0
    assert "another vendor" in said


def test_remaining_resources_are_printed_with_a_command_that_removes_them() -> None:
    cluster = Cluster()
    cluster.add("Node", "real")["status"] = {"capacity": {"cpu": "4"}}
    cluster.objects["Node"]["n"]["status"]["capacity"] |= {RESOURCE: "0", "cpu": "4"}
    status, said = run(cluster)
    assert status == 0
    assert "for node in n; do" in said
    (patch,) = re.findall(r"kubectl patch .*--type=merge -p '(.*)'", said)
    nothing = {RESOURCE: None}
    assert json.loads(patch) == {"status": {"capacity": nothing, "allocatable": nothing}}


def test_a_failed_request_is_retried() -> None:
    class Shaky(Cluster):
        looks = 0

        async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
            self.looks += 1
            if self.looks in (1, 4):
                raise errors.Unreachable(f"list {kind}: 429 too many requests")
            return await super().list(kind, namespace)

    assert run(Shaky())[0] == 0


def test_a_pool_created_during_the_cleanup_is_deleted_too() -> None:
    class Late(Cluster):
        async def perform(self, action: Action) -> Document | None:
            done = await super().perform(action)
            if action == Delete("GPUPool", "p"):
                self.add("GPUPool", "late", finalizers=["f"])
            return done

    cluster = Late()
    assert run(cluster)[0] == 0
    assert cluster.objects["GPUPool"] == {}


IMAGE = validation.Image("tessera:1")


def make_installation(**changes: Any) -> FakeCluster:
    cluster = FakeCluster()
    cluster.add("Deployment", "tessera-operator")
    cluster.objects["Deployment"]["tessera-operator"]["status"] = {
        "availableReplicas": changes.get("replicas", 1)
    }
    cluster.add("Lease", "tessera-operator", {"holderIdentity": changes.get("holder", "me")})
    return cluster


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        (make_installation(), ""),
        (make_installation(replicas=0), "no available replica"),
        (make_installation(holder=""), "has no holder"),
        (FakeCluster(), "Deployment tessera-operator"),
    ],
)
def test_check(cluster: FakeCluster, problem: str) -> None:
    said: list[str] = []
    identity = Identity(namespace="ns", pod_name="me")
    status = asyncio.run(check.check(cluster, identity, "tessera-operator", IMAGE, said.append))
    assert status == (1 if problem else 0)
    assert problem in "\n".join(said)


def get(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as err:
        with err:
            return err.code


def test_probes_reflect_the_operator_s_state() -> None:
    alive = True

    async def main() -> list[int]:
        nonlocal alive
        async with Health(0, lambda: alive) as health:
            answers = [await asyncio.to_thread(get, health.port)]
            alive = False
            answers.append(await asyncio.to_thread(get, health.port))
            _, writer = await asyncio.open_connection("127.0.0.1", health.port)
            writer.write(b"\x00" * 100_000)  # a client that sends garbage has no effect
            await writer.drain()
            writer.close()
            answers.append(await asyncio.to_thread(get, health.port))
            return answers

    assert asyncio.run(main()) == [200, 503, 503]
