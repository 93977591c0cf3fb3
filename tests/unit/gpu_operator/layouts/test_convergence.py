"""The operator's loop against an API server in memory converges after any event."""

from typing import Any

import pytest

from gpu_operator import errors
from gpu_operator.api.v1alpha1 import FINALIZER, NODE_UID, POOL_LABEL
from gpu_operator.controllers.layouts import execution
from support.worlds.driven_operator import SELECTED, Operator, layout, node, pool, slices
from support.worlds.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    for name in ("n1", "n2"):
        node(found, name)
    return found


def test_a_node_gets_slices_and_loses_them_again(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    pool(cluster)
    layout(cluster)
    operator.settle("n1", "n2")
    assert slices(cluster) == [7, 7, 7, 7]
    assert cluster.condition("GPUPool", "p", "Ready")[0] == "True"
    assert cluster.condition("MIGLayout", "l", "Ready")[0] == "True"
    assert cluster.objects["Node"]["n1"]["metadata"]["labels"][POOL_LABEL] == "p"
    assert list(cluster.objects["DaemonSet"]) == ["tessera-gpud-p", "tessera-node-p"]

    cluster.remove("GPUPool", "p")
    operator.settle("n1", "n2")
    assert cluster.objects["GPU"] == {}
    assert cluster.objects["GPUPool"] == {}
    assert cluster.objects["DaemonSet"] == {}
    assert cluster.objects["Node"]["n1"]["metadata"]["labels"] == SELECTED
    assert cluster.condition("MIGLayout", "l", "Ready")[1] == "NoGPUs"


def test_a_pool_that_was_restored_from_a_backup_can_be_deleted(cluster: FakeCluster) -> None:
    """The manager that restored the pool owns its finalizer, too."""
    operator = Operator(cluster)
    cluster.add(
        "GPUPool",
        "p",
        {"nodeSelector": SELECTED, "board": "h100-80gb"},
        finalizers=["other.example/finalizer", FINALIZER],
    )
    operator.settle("n1", "n2")
    cluster.remove("GPUPool", "p")
    operator.settle("n1", "n2")
    assert cluster.objects["GPUPool"]["p"]["metadata"]["finalizers"] == ["other.example/finalizer"]
    assert cluster.objects["GPU"] == {}


def test_gpus_leave_while_their_definition_is_being_deleted(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    pool(cluster)
    layout(cluster)
    operator.settle("n1", "n2")
    cluster.terminating.add("GPU")
    for name in list(cluster.objects["GPU"]):
        cluster.remove("GPU", name)
    cluster.holders["n1-gpu-1", "1g.10gb", 0] = ["default/train"]
    for _ in range(8):
        operator.round()
        cluster.run_agents("n1", "n2")
    assert list(cluster.objects["GPU"]) == ["n1-gpu-1"]
    status, reason, message = cluster.condition("GPUPool", "p", "Ready")
    assert (status, reason) == ("False", "Refused")
    assert "the definition is terminating" in message

    cluster.holders.clear()
    for _ in range(8):
        operator.round()
        cluster.run_agents("n1", "n2")
    assert cluster.objects["GPU"] == {}

    cluster.terminating.clear()
    operator.settle("n1", "n2")
    assert cluster.condition("GPUPool", "p", "Ready")[0] == "True"


def test_the_chart_s_policy_is_created_and_edits_stay(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    operator.settle()
    prefix = {"gpu.tessera.dev"}
    for edited in ("nvidia.com", "gpu.tessera.dev", "example.com"):
        assert {cluster.objects["GPUPolicy"]["default"]["spec"]["resourcePrefix"]} == prefix
        cluster.edit("GPUPolicy", "default", resourcePrefix=edited)
        operator.settle()
        prefix = {edited}
    assert cluster.objects["GPUPolicy"]["default"]["spec"]["resourcePrefix"] == "example.com"
    assert cluster.condition("GPUPolicy", "default", "Accepted")[:2] == ("True", "Overridden")
    assert "Overridden" in {event.reason for event in cluster.events}
    operator.restart()
    operator.settle()
    assert cluster.objects["GPUPolicy"]["default"]["spec"]["resourcePrefix"] == "example.com"
    cluster.add("GPUPolicy", "other", {"resourcePrefix": "nvidia.com"})
    operator.settle()
    assert cluster.condition("GPUPolicy", "other", "Accepted")[:2] == ("False", "Ignored")


def test_a_pool_waits_for_the_pods_that_hold_its_slices(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    pool(cluster)
    layout(cluster)
    operator.settle("n1", "n2")
    held = ("n1-gpu-0", "1g.10gb", 3)
    cluster.holders[held] = ["default/train"]
    cluster.remove("GPUPool", "p")
    operator.settle("n1", "n2")
    assert list(cluster.objects["GPU"]) == ["n1-gpu-0"]
    assert "default/train" in cluster.condition("GPUPool", "p", "Progressing")[2]
    del cluster.holders[held]
    operator.settle("n1", "n2")
    assert cluster.objects["GPUPool"] == {}


def test_a_pool_can_be_deleted_after_a_node_is_lost(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    pool(cluster)
    layout(cluster)
    operator.settle("n1", "n2")
    cluster.holders["n1-gpu-0", "1g.10gb", 3] = ["default/train"]
    cluster.remove("Node", "n1")
    cluster.remove("GPUPool", "p")
    operator.settle("n2")
    assert cluster.objects["GPU"] == {}
    assert cluster.objects["GPUPool"] == {}


@pytest.mark.parametrize("seen_gone", [True, False], ids=["seen gone", "at once"])
def test_a_node_that_registers_again_has_the_slices_that_its_pods_hold(
    cluster: FakeCluster, seen_gone: bool
) -> None:
    """The machine is the same: gpud still has the devices, and pods use them."""
    operator = Operator(cluster)
    pool(cluster)
    layout(cluster)
    operator.settle("n1", "n2")
    cluster.holders["n1-gpu-1", "1g.10gb", 3] = ["default/train"]
    cluster.run_agents("n1")
    cluster.remove("Node", "n1")
    if seen_gone:
        operator.settle("n2")
        cluster.run_agents("n1")
        assert list(cluster.objects["GPU"]) == ["n2-gpu-0", "n2-gpu-1"]
    node(cluster, "n1")
    operator.settle("n1", "n2")
    assert slices(cluster) == [7, 7, 7, 7]
    assert cluster.condition("MIGLayout", "l", "Ready")[0] == "True"
    assert cluster.condition("GPUPool", "p", "Ready")[0] == "True"
    (held,) = (
        (name, s["start"], s["holders"][0]["name"])
        for name, gpu in cluster.objects["GPU"].items()
        for s in gpu["status"]["slices"]
        if s["holders"]
    )
    assert held == ("n1-gpu-1", 3, "train")
    new = cluster.objects["Node"]["n1"]["metadata"]["uid"]
    noted = cluster.objects["GPU"]["n1-gpu-0"]["metadata"]["annotations"][NODE_UID]
    assert noted == new


def test_the_gpus_of_a_replaced_machine_are_deleted(cluster: FakeCluster) -> None:
    """The operator was down; the new machine has the same name and belongs to no pool."""
    operator = Operator(cluster)
    pool(cluster)
    layout(cluster)
    operator.settle("n1", "n2")
    cluster.holders["n1-gpu-0", "1g.10gb", 3] = ["default/train"]
    cluster.run_agents("n1")
    cluster.remove("Node", "n1")
    node(cluster, "n1")
    cluster.objects["Node"]["n1"]["metadata"]["labels"].clear()
    operator.restart()
    operator.settle("n2")
    assert list(cluster.objects["GPU"]) == ["n2-gpu-0", "n2-gpu-1"]


def test_a_node_moves_to_another_pool(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    pool(cluster, "first")
    operator.settle("n1", "n2")
    cluster.add("GPUPool", "second", {"nodeSelector": SELECTED, "board": "a30", "count": 1})
    operator.settle("n1", "n2")
    assert cluster.condition("GPUPool", "second", "Accepted")[1] == "NodeConflict"
    assert {g["spec"]["pool"] for g in cluster.objects["GPU"].values()} == {"first"}
    cluster.remove("GPUPool", "first")
    operator.settle("n1", "n2")
    assert [g["spec"]["board"] for g in cluster.objects["GPU"].values()] == ["a30", "a30"]
    assert cluster.condition("GPUPool", "second", "Ready")[0] == "True"


def test_a_deleted_gpu_is_created_again(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    pool(cluster)
    layout(cluster)
    operator.settle("n1", "n2")
    before = cluster.objects["GPU"]["n1-gpu-0"]
    cluster.remove("GPU", "n1-gpu-0")
    operator.settle("n1", "n2")
    after = cluster.objects["GPU"]["n1-gpu-0"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["uuid"] == before["spec"]["uuid"]
    assert len(after["status"]["slices"]) == 7


def test_a_layout_is_placed_around_a_pod_and_completed_when_it_ends(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    pool(cluster, count=1)
    layout(cluster)
    operator.settle("n1", "n2")
    held = ("n1-gpu-0", "1g.10gb", 6)
    cluster.holders[held] = ["default/train"]
    cluster.run_agents("n1")
    cluster.edit("MIGLayout", "l", instances=[{"profile": "3g.40gb", "count": 2}])
    operator.settle("n1", "n2")
    assert cluster.condition("MIGLayout", "l", "Ready")[1] == "SliceInUse"
    assert cluster.objects["MIGLayout"]["l"]["status"]["waiting"] == 1
    operator.restart()
    del cluster.holders[held]
    operator.settle("n1", "n2")
    assert cluster.condition("MIGLayout", "l", "Ready")[0] == "True"
    assert slices(cluster) == [2, 2]


def test_a_pod_that_may_not_be_evicted_is_named(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "SETTLE_S", -1.0)
    operator = Operator(cluster)
    pool(cluster, count=1)
    layout(cluster)
    operator.settle("n1", "n2")
    cluster.holders["n1-gpu-0", "1g.10gb", 6] = ["default/train"]
    cluster.protected.add("uid-train")
    cluster.run_agents("n1")
    cluster.edit(
        "MIGLayout",
        "l",
        instances=[{"profile": "3g.40gb", "count": 2}],
        rollout={"onInUse": "Evict"},
    )
    operator.settle("n1", "n2")
    assert "disruption budget" in cluster.condition("MIGLayout", "l", "Ready")[2]
    cluster.protected.clear()
    operator.settle("n1", "n2")
    assert cluster.condition("MIGLayout", "l", "Ready")[0] == "True"


def test_withdrawn_slices_leave_allocatable_at_once(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    pool(cluster, count=1)
    layout(cluster)
    operator.settle("n1", "n2")
    resource = "gpu.tessera.dev/mig-1g.10gb"
    figures = cluster.objects["Node"]["n1"]["status"]
    figures["capacity"][resource] = figures["allocatable"][resource] = "7"
    cluster.remove("MIGLayout", "l")
    operator.settle("n1", "n2")
    assert figures["allocatable"][resource] == "0"


def test_without_the_lease_nothing_is_written(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    operator.leads = False
    pool(cluster)
    with pytest.raises(errors.NotLeader):
        operator.round()
    assert cluster.writes == 0


def test_a_bug_with_one_object_does_not_stop_the_others(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = Operator(cluster)
    pool(cluster)
    layout(cluster)

    def fail(*_: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr("gpu_operator.controllers.layouts.layouts.reconcile", fail)
    operator.settle("n1", "n2")
    assert cluster.condition("GPUPool", "p", "Ready")[0] == "True"


def test_a_spec_that_cannot_be_read_changes_nothing_but_its_status(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    pool(cluster)
    layout(cluster)
    operator.settle("n1", "n2")
    cluster.edit("MIGLayout", "l", instances=[{"profile": "1g.10gb", "count": 0}])
    operator.settle("n1", "n2")
    assert cluster.condition("MIGLayout", "l", "Accepted")[:2] == ("False", "InvalidSpec")
    assert "instances.0.count" in cluster.condition("MIGLayout", "l", "Accepted")[2]
    assert slices(cluster) == [7, 7, 7, 7]
    cluster.edit("GPUPool", "p", count=99)
    operator.settle("n1", "n2")
    assert cluster.condition("GPUPool", "p", "Accepted")[1] == "InvalidSpec"
    assert slices(cluster) == [7, 7, 7, 7]
