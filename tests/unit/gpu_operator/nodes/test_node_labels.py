"""Labels of nodes over time: complete while a layout changes, removed with the pool."""

from collections.abc import Mapping
from typing import Any

from gpu_operator.kube.actions import Apply, Manager
from support.worlds.driven_operator import Operator, layout, node, pool
from support.worlds.fake_cluster import FakeCluster
from support.worlds.gpu_world import (
    PREFIX,
    gpu as a_gpu,
    mig_slice,
    node as a_node,
    pool as a_pool,
    world,
)
from support.worlds.pool_world import IN_POOL, decide

SEVEN = [f"1g.10gb@{start}" for start in range(7)]


def labels_of(cluster: FakeCluster, name: str = "n") -> dict[str, str]:
    found: dict[str, str] = cluster.objects["Node"][name]["metadata"]["labels"]
    return {k.removeprefix(f"{PREFIX}/"): v for k, v in found.items()}


def wanted_of(*items: Any) -> Mapping[str, str] | None:
    writes = [
        a.document["metadata"]["labels"]
        for a in decide(world(*items)).actions
        if isinstance(a, Apply) and a.manager is Manager.LABELS
    ]
    return {k.removeprefix(f"{PREFIX}/"): v for k, v in writes[0].items()} if writes else None


def test_no_label_is_missing_while_a_layout_changes() -> None:
    cluster = FakeCluster()
    node(cluster, "n")
    pool(cluster)
    layout(cluster)
    operator = Operator(cluster)
    operator.settle("n")
    before = labels_of(cluster)
    assert (before["mig-1g.10gb.count"], before["gpu.count"]) == ("14", "2")

    cluster.holders["n-gpu-0", "1g.10gb", 3] = ["default/train"]
    cluster.edit("MIGLayout", "l", instances=[{"profile": "3g.40gb", "count": 2}])
    seen = []
    for _ in range(12):
        operator.round()
        seen.append(labels_of(cluster))
        cluster.run_agents("n")
    assert all(found.keys() == before.keys() for found in seen), "a label went, or came too early"
    cluster.holders.clear()
    operator.settle("n")
    after = labels_of(cluster)
    assert after["mig-3g.40gb.count"] == "4"
    assert not any(name.startswith("mig-1g") for name in after)


def test_labels_are_removed_with_the_pool_and_users_labels_stay() -> None:
    cluster = FakeCluster()
    node(cluster, "n")
    mine = {f"{PREFIX}/mig.config": "all-1g.10gb", "zone": "a"}
    cluster.objects["Node"]["n"]["metadata"]["labels"] |= mine
    pool(cluster)
    operator = Operator(cluster)
    operator.settle("n")
    assert labels_of(cluster)["gpu.present"] == "true"
    cluster.remove("GPUPool", "p")
    operator.settle("n")
    found: dict[str, str] = cluster.objects["Node"]["n"]["metadata"]["labels"]
    assert found == {"gpu": "yes"} | mine


def test_a_gpu_without_slices_for_a_moment_loses_no_label() -> None:
    """For example after a restart of gpud: the agent reports none of the requested slices."""
    there = a_gpu(want=SEVEN, layout="l", have=[mig_slice(s) for s in SEVEN])
    first = wanted_of(a_node(labels=IN_POOL), a_pool(), there)
    assert first is not None
    assert first["mig-1g.10gb.count"] == "7"
    labelled = a_node(labels={"gpu": "yes"} | {f"{PREFIX}/{k}": v for k, v in first.items()})
    lost = a_gpu(want=SEVEN, layout="l")
    assert wanted_of(labelled, a_pool(), lost) is None


def test_the_agent_s_report_about_its_node_becomes_labels() -> None:
    reported = a_gpu()
    status = reported.status.model_copy(
        update={"driver_version": "580.0.0", "cuda_version": "13.0", "machine": "KVM"}
    )
    found = wanted_of(a_node(), a_pool(), type(reported)(reported.meta, reported.spec, status))
    assert found is not None
    assert (found["gpu.machine"], found["cuda.runtime-version.full"]) == ("KVM", "13.0")
    assert found["gfd.timestamp"].isdecimal()


def test_the_timestamp_alone_is_no_reason_to_write() -> None:
    old = IN_POOL | {f"{PREFIX}/gfd.timestamp": "1"}
    assert wanted_of(a_node(labels=old), a_pool(), a_gpu()) is None
    stale = old | {f"{PREFIX}/mig-1g.10gb.count": "7"}  # of a deleted layout
    found = wanted_of(a_node(labels=stale), a_pool(), a_gpu())
    assert found is not None
    assert found["gfd.timestamp"] != "1"
    assert "mig-1g.10gb.count" not in found
