"""Whether a node serves its GPUs: the condition GPUReady, and optional taints."""

import asyncio
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient, Configuration

from gpu_operator import errors
from gpu_operator.api.v1alpha1 import POOL_LABEL, TAINTS
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.config import NodeConfig, TaintsConfig
from gpu_operator.controllers.common.world import GpuReady
from gpu_operator.controllers.pools import pools
from gpu_operator.controllers.pools.pool_nodes import FAILURES
from gpu_operator.kube import taints
from gpu_operator.kube.actions import Action, Apply, Manager, SetTaints
from gpu_operator.kube.client import KubernetesCluster
from support.processes.http_stub import Answer, HttpStub, Request
from support.worlds.driven_operator import Operator, node, pool
from support.worlds.fake_cluster import FakeCluster
from support.worlds.gpu_world import (
    GPU_NODE,
    NOW,
    agent_conditions,
    gpu,
    node as a_node,
    pool as a_pool,
    world,
)
from support.worlds.pool_world import IN_POOL, agent_set

NOT_READY = "gpu.tessera.dev/not-ready"
PRESENT = "gpu.tessera.dev/gpu"
SERVED = GpuReady("True", "Reconciled", "1 GPUs of pool p are served", "2026-01-01T00:00:00Z")


def decide_on(*items: Any, not_ready: bool = False, present: bool = False) -> tuple[Action, ...]:
    config = NodeConfig(
        image="tessera:1",
        service_account="tessera-node",
        taints=TaintsConfig(not_ready=not_ready, present=present),
    )
    seen = world(*items, daemon_sets=agent_set())
    return pools.reconcile(seen, "p", config, "tessera-system", NOW).actions


def condition(actions: tuple[Action, ...]) -> tuple[str, ...] | None:
    found = [a for a in actions if isinstance(a, Apply) and a.manager is Manager.CONDITIONS]
    if not found:
        return None
    assert found[0].status
    (one,) = found[0].document["status"].get("conditions") or [{}]
    return tuple(one.get(k, "") for k in ("status", "reason", "message", "lastTransitionTime"))


def set_taints(actions: tuple[Action, ...]) -> SetTaints | None:
    return next((a for a in actions if isinstance(a, SetTaints)), None)


def test_a_node_reports_since_when_it_serves_its_gpus() -> None:
    now = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    there = a_node(labels=IN_POOL)
    assert condition(decide_on(there, a_pool(), gpu())) == (
        *("True", "Reconciled", "1 GPUs of pool p are served", now),
    )
    said = a_node(labels=IN_POOL, gpu_ready=SERVED)
    assert condition(decide_on(said, a_pool(), gpu())) is None, "not written again"


@pytest.mark.parametrize(
    ("device", "reason", "part"),
    [
        (gpu(reported=False), "WaitingForAgent", "has no pod on it yet"),
        (
            gpu(conditions=agent_conditions(degraded="Unhealthy: it fell off the bus")),
            "Unhealthy",
            "n1-gpu-0: it fell off the bus",
        ),
    ],
    ids=["not reported", "unhealthy"],
)
def test_a_node_reports_why_it_does_not_serve_its_gpus(device: Any, reason: str, part: str) -> None:
    said = a_node(labels=IN_POOL, gpu_ready=SERVED)
    found = condition(decide_on(said, a_pool(), device))
    assert found is not None
    assert found[:2] == ("False", reason)
    assert part in found[2]
    assert found[3] != SERVED.since
    # Another reason is not a transition.
    before = GpuReady("False", "AgentError", "x", "2025-01-01T00:00:00Z")
    found = condition(decide_on(a_node(labels=IN_POOL, gpu_ready=before), a_pool(), device))
    assert found is not None
    assert found[3] == before.since


# Every reason that a condition may have, and whether a node with such a GPU serves its GPUs.
@pytest.mark.parametrize("reason", [*Reason, "ReasonOfALaterVersion"])
def test_only_a_suspect_gpu_leaves_its_node_in_service(reason: str) -> None:
    kept = {*FAILURES, Reason.MIXED_PROFILES, Reason.RESOURCE_CONFLICT}
    device = gpu(conditions=agent_conditions(degraded=f"{reason}: why"))
    actions = decide_on(a_node(labels=IN_POOL), a_pool(), device, not_ready=True)
    status, shown, message, _ = condition(actions) or ("", "", "", "")
    taints = set_taints(actions)
    if reason == Reason.SUSPECT:
        assert (status, shown, taints) == ("True", "Reconciled", None)
    else:
        assert (status, shown) == ("False", reason if reason in kept else "AgentError")
        assert message.endswith("why")
        assert taints == SetTaints("n1", "uid-n1", ((NOT_READY, ""),), (), (NOT_READY,))


def test_nodes_are_tainted_only_if_the_chart_enables_it() -> None:
    assert set_taints(decide_on(a_node(), a_pool(), gpu(reported=False))) is None


def test_a_node_is_tainted_until_it_serves() -> None:
    bare = a_node(labels=IN_POOL)
    found = set_taints(decide_on(bare, a_pool(), gpu(reported=False), not_ready=True))
    assert found == SetTaints("n1", "uid-n1", ((NOT_READY, ""),), (), (NOT_READY,))
    ours = {"labels": IN_POOL, "taints": frozenset({NOT_READY}), "annotations": {TAINTS: NOT_READY}}
    assert (
        set_taints(decide_on(a_node(**ours), a_pool(), gpu(reported=False), not_ready=True)) is None
    )
    found = set_taints(decide_on(a_node(**ours), a_pool(), gpu(), not_ready=True))
    assert found == SetTaints("n1", "uid-n1", (), (NOT_READY,), ())
    found = set_taints(decide_on(a_node(**ours), a_pool(), gpu(reported=False)))  # switched off
    assert found == SetTaints("n1", "uid-n1", (), (NOT_READY,), ())


def test_a_foreign_taint_is_not_removed() -> None:
    theirs = a_node(labels=IN_POOL, taints=frozenset({PRESENT}))
    assert set_taints(decide_on(theirs, a_pool(), gpu(), present=True)) is None
    assert set_taints(decide_on(theirs, a_pool(), gpu())) is None
    found = set_taints(decide_on(a_node(labels=IN_POOL), a_pool(), gpu(), present=True))
    assert found == SetTaints("n1", "uid-n1", ((PRESENT, "present"),), (), (PRESENT,))


def test_condition_and_taints_are_removed_with_the_pool() -> None:
    cluster = FakeCluster()
    node(cluster, "n")
    pool(cluster)
    operator = Operator(cluster)
    operator.settle("n")
    (found,) = cluster.objects["Node"]["n"]["status"]["conditions"]
    assert (found["type"], found["status"]) == ("GPUReady", "True")
    cluster.remove("GPUPool", "p")
    operator.settle("n")
    assert "conditions" not in cluster.objects["Node"]["n"]["status"]
    left = a_node(
        labels=GPU_NODE | {POOL_LABEL: "p"},
        taints=frozenset({NOT_READY}),
        annotations={TAINTS: NOT_READY},
    )
    found = set_taints(decide_on(left))
    assert found == SetTaints("n1", "uid-n1", (), (NOT_READY,), ())


def applied_to(document: dict[str, Any], action: SetTaints) -> list[dict[str, Any]]:
    return list(taints.patch(document, action.add, action.remove, action.noted))


def test_a_patch_of_taints_keeps_the_others_and_fails_if_the_node_was_written_since() -> None:
    other = {"key": "other", "effect": "NoSchedule"}
    same_key = {"key": NOT_READY, "effect": "NoExecute"}
    document = {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "7"},
        "spec": {"taints": [other, same_key]},
    }
    put = SetTaints("n", "u", ((NOT_READY, ""),), (), (NOT_READY,))
    ours = {"key": NOT_READY, "effect": "NoSchedule"}
    note = f"/metadata/annotations/{TAINTS.replace('/', '~1')}"
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert applied_to(document, put) == [
        test,
        {"op": "add", "path": "/spec/taints", "value": [other, same_key, ours]},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": note, "value": NOT_READY},
    ]
    document["metadata"]["annotations"] = {TAINTS: NOT_READY}
    document["spec"]["taints"] = [ours]
    take = SetTaints("n", "u", (), (NOT_READY,), ())
    assert applied_to(document, take) == [
        test,
        {"op": "remove", "path": "/spec/taints"},
        {"op": "remove", "path": note},
    ]


@pytest.mark.parametrize("uid", ["u", "another"])
def test_taints_are_read_and_written_on_the_same_node_object(uid: str) -> None:
    seen = {"metadata": {"name": "n", "uid": uid, "resourceVersion": "7"}, "spec": {}}

    def answer(request: Request) -> Answer:
        return Answer(200, seen)

    async def perform(url: str) -> None:
        cluster = KubernetesCluster(ApiClient(Configuration(host=url)))
        try:
            await cluster.perform(SetTaints("n", "u", ((NOT_READY, ""),), (), (NOT_READY,)))
        finally:
            await cluster.close()

    with HttpStub(answer) as stub:
        if uid == "u":
            asyncio.run(perform(stub.url))
            assert [r.method for r in stub.requests] == ["GET", "PATCH"]
        else:
            with pytest.raises(errors.Conflict):
                asyncio.run(perform(stub.url))
            assert [r.method for r in stub.requests] == ["GET"]
