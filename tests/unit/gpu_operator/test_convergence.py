"""The operator's own loop against an API server in memory: whatever happens, it converges."""

import asyncio
from typing import Any

import pytest
from fake_cluster import FakeCluster
from hypothesis import HealthCheck, given, settings, strategies as st

from gpu_operator import errors
from gpu_operator.api.v1alpha1 import FINALIZER, POOL_LABEL
from gpu_operator.config import Config, NodeConfig
from gpu_operator.controllers import layouts
from gpu_operator.controllers.world import ChartPolicy, GPUPolicySpec
from gpu_operator.handlers import routes
from gpu_operator.handlers.queue import WorkQueue
from gpu_operator.handlers.store import Store
from gpu_operator.handlers.worker import Worker

CONFIG = Config(node=NodeConfig(image="tessera:1", service_account="tessera-node"))
SELECTED = {"gpu": "yes"}


class Operator:
    """The real worker, driven by full resyncs instead of watches."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.leads = True
        self.restart()

    def restart(self) -> None:
        """Lose everything that is in memory."""
        store = Store(ChartPolicy(GPUPolicySpec()))
        self.store = store
        self.worker = Worker(
            self.cluster, store, WorkQueue(), CONFIG, "tessera-system", self._fence
        )

    def _fence(self) -> None:
        if not self.leads:
            raise errors.NotLeader("lost")

    def round(self) -> int:
        """Look at everything once; return how many objects were written."""
        before = self.cluster.writes
        asyncio.run(self._round())
        return self.cluster.writes - before

    async def _round(self) -> None:
        await self.worker.list_all()
        for key in sorted(routes.all_keys(self.store.world())):
            await self.worker.work(key)

    def settle(self, *nodes: str, rounds: int = 40) -> None:
        """Let operator and agents run until nothing is written any more."""
        for _ in range(rounds):
            written = self.round()
            self.cluster.run_agents(*nodes)
            if not written and not self.round():
                return
        raise AssertionError("still writing: it does not converge")


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    for name in ("n1", "n2"):
        node(found, name)
    return found


def node(cluster: FakeCluster, name: str) -> None:
    cluster.add("Node", name, labels=dict(SELECTED))
    cluster.objects["Node"][name]["status"] = {"capacity": {}, "allocatable": {}}


def pool(cluster: FakeCluster, name: str = "p", **spec: Any) -> None:
    cluster.add(
        "GPUPool", name, {"nodeSelector": SELECTED, "board": "h100-80gb", "count": 2, **spec}
    )


def layout(cluster: FakeCluster, name: str = "l", profile: str = "1g.10gb", count: int = 7) -> None:
    cluster.add("MIGLayout", name, {"instances": [{"profile": profile, "count": count}]})


def slices(cluster: FakeCluster) -> list[int]:
    return [
        len(g.get("status", {}).get("slices", [])) for g in cluster.objects.get("GPU", {}).values()
    ]


def test_from_bare_to_slices_and_back(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    pool(cluster)
    layout(cluster)
    operator.settle("n1", "n2")
    assert slices(cluster) == [7, 7, 7, 7]
    assert cluster.condition("GPUPool", "p", "Ready")[0] == "True"
    assert cluster.condition("MIGLayout", "l", "Ready")[0] == "True"
    assert cluster.objects["Node"]["n1"]["metadata"]["labels"][POOL_LABEL] == "p"
    assert list(cluster.objects["DaemonSet"]) == ["tessera-node-p"]

    cluster.remove("GPUPool", "p")
    operator.settle("n1", "n2")
    assert cluster.objects["GPU"] == {}
    assert cluster.objects["GPUPool"] == {}
    assert cluster.objects["DaemonSet"] == {}
    assert cluster.objects["Node"]["n1"]["metadata"]["labels"] == SELECTED
    assert cluster.condition("MIGLayout", "l", "Ready")[1] == "NoGPUs"


def test_a_pool_that_was_restored_from_a_backup_can_be_deleted(cluster: FakeCluster) -> None:
    """Whoever restored it owns its finalizer too."""
    operator = Operator(cluster)
    cluster.add(
        "GPUPool",
        "p",
        {"nodeSelector": SELECTED, "board": "h100-80gb"},
        finalizers=["somebody/else", FINALIZER],
    )
    operator.settle("n1", "n2")
    cluster.remove("GPUPool", "p")
    operator.settle("n1", "n2")
    assert cluster.objects["GPUPool"]["p"]["metadata"]["finalizers"] == ["somebody/else"]
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


def test_the_chart_s_policy_is_made_and_kept(cluster: FakeCluster) -> None:
    operator = Operator(cluster)
    operator.settle()
    cluster.edit("GPUPolicy", "default", resourcePrefix="nvidia.com")
    operator.settle()
    assert cluster.objects["GPUPolicy"]["default"]["spec"]["resourcePrefix"] == "gpu.tessera.dev"
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


def test_a_pool_goes_although_a_node_is_gone_for_good(cluster: FakeCluster) -> None:
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


def test_a_node_changes_hands(cluster: FakeCluster) -> None:
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


def test_a_gpu_that_somebody_deletes_comes_back(cluster: FakeCluster) -> None:
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


def test_a_layout_moves_around_a_pod_and_ends_when_it_does(cluster: FakeCluster) -> None:
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
    monkeypatch.setattr(layouts, "SETTLE_S", -1.0)
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


def test_what_is_withdrawn_leaves_allocatable_at_once(cluster: FakeCluster) -> None:
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

    def broken(*_: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr("gpu_operator.controllers.layouts.reconcile", broken)
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


STEPS = st.lists(
    st.sampled_from(
        [
            "pool p",
            "pool q",
            "remove p",
            "remove q",
            "grow",
            "shrink",
            "layout a",
            "layout b",
            "remove a",
            "remove b",
            "edit a",
            "hold",
            "free",
            "lose n2",
            "regain n2",
            "unlabel n1",
            "label n1",
            "delete gpu",
            "restart",
            "operator",
            "agents",
        ]
    ),
    max_size=25,
)


def take(step: str, cluster: FakeCluster, operator: Operator) -> None:
    verb, _, name = step.partition(" ")
    objects = cluster.objects
    match verb, name:
        case "pool", _ if name not in objects.get("GPUPool", {}):
            pool(cluster, name)
        case "remove", "p" | "q":
            cluster.remove("GPUPool", name)
        case "remove", _:
            cluster.remove("MIGLayout", name)
        case "grow" | "shrink", _ if "p" in objects.get("GPUPool", {}):
            cluster.edit("GPUPool", "p", count=3 if verb == "grow" else 1)
        case "layout", _ if name not in objects.get("MIGLayout", {}):
            layout(cluster, name, *(("1g.10gb", 7) if name == "a" else ("2g.20gb", 3)))
        case "edit", _ if "a" in objects.get("MIGLayout", {}):
            cluster.edit("MIGLayout", "a", instances=[{"profile": "3g.40gb", "count": 2}])
        case "hold", _:
            for gpu in objects.get("GPU", {}).values():
                for item in gpu.get("status", {}).get("slices", [])[:1]:
                    if item["state"] == "Active":
                        key = (gpu["metadata"]["name"], item["profile"], item["start"])
                        cluster.holders[key] = ["default/pod"]
        case "free", _:
            cluster.holders.clear()
        case "lose", _:
            cluster.remove("Node", "n2")
        case "regain", _ if "n2" not in objects["Node"]:
            node(cluster, "n2")
        case "unlabel", _:
            objects["Node"]["n1"]["metadata"]["labels"].pop("gpu", None)
        case "label", _:
            objects["Node"]["n1"]["metadata"]["labels"]["gpu"] = "yes"
        case "delete", _:
            for found in list(objects.get("GPU", {}))[:1]:
                cluster.remove("GPU", found)
        case "restart", _:
            operator.restart()
        case "operator", _:
            operator.round()
        case "agents", _:
            cluster.run_agents(*objects["Node"])


@given(STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_after_any_history_everything_can_be_taken_away(steps: list[str]) -> None:
    cluster = FakeCluster()
    for name in ("n1", "n2"):
        node(cluster, name)
    operator = Operator(cluster)
    for step in steps:
        take(step, cluster, operator)
    operator.settle(*cluster.objects["Node"])
    nodes = cluster.objects["Node"]
    for gpu in cluster.objects.get("GPU", {}).values():
        if "deletionTimestamp" not in gpu["metadata"] and gpu["spec"].get("layout"):
            assert gpu["spec"]["layout"] in cluster.objects["MIGLayout"]
        assert gpu["spec"]["nodeName"] in nodes

    cluster.holders.clear()
    for kind in ("MIGLayout", "GPUPool"):
        for name in list(cluster.objects.get(kind, {})):
            cluster.remove(kind, name)
    operator.restart()
    operator.settle(*nodes)
    for kind in ("GPU", "GPUPool", "MIGLayout", "DaemonSet"):
        assert not cluster.objects.get(kind), kind
    assert not any(POOL_LABEL in n["metadata"]["labels"] for n in nodes.values())
