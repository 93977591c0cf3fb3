"""Nodes with the label mig.config: layouts, states, events and precedence."""

from typing import Any

import pytest

from gpu_operator.api import mig_parted, migparted_defaults
from gpu_operator.api.v1alpha1 import MIG_CONFIG
from gpu_operator.config import MigManagerConfig
from gpu_operator.controllers.mig_config import mig_config
from gpu_operator.kube.actions import Apply, Manager
from mig import geometry
from support.worlds.driven_operator import CONFIG, Operator, layout, node, pool, slices
from support.worlds.fake_cluster import FakeCluster
from support.worlds.gpu_world import GPU_NODE, node as a_node, pool as a_pool, world

LABEL = "gpu.tessera.dev/mig.config"
STATE = f"{LABEL}.state"
SOURCE = CONFIG.mig_manager.config_map


class Cluster(FakeCluster):
    """One node with two GPUs, the chart's configurations, and a test-driven operator."""

    def __init__(self, text: str = migparted_defaults.text()) -> None:
        super().__init__()
        node(self, "n")
        pool(self)
        self.add("ConfigMap", SOURCE)["data"] = {"config.yaml": text}
        self.operator = Operator(self)

    def label(self, name: str | None) -> None:
        labels = self.objects["Node"]["n"]["metadata"]["labels"]
        labels.pop(LABEL, None)
        if name is not None:
            labels[LABEL] = name
        self._touch(self.objects["Node"]["n"])

    def settle(self) -> str:
        self.operator.settle("n")
        return self.state

    @property
    def state(self) -> str:
        return str(self.objects["Node"]["n"]["metadata"]["labels"].get(STATE, ""))

    @property
    def note(self) -> str:
        return str(self.objects["Node"]["n"]["metadata"].get("annotations", {}).get(MIG_CONFIG, ""))

    @property
    def layouts(self) -> list[str]:
        return sorted(self.objects.get("MIGLayout", {}))

    def take_node_events(self) -> list[tuple[str, bool]]:
        found = [(e.reason, e.warning) for e in self.events if e.kind == "Node"]
        self.events.clear()
        return found

    def places(self) -> list[list[str]]:
        gpus = self.objects["GPU"].values()
        return [[s["profile"] for s in g.get("status", {}).get("slices", [])] for g in gpus]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_label_becomes_slices_and_a_state(cluster: Cluster) -> None:
    cluster.operator.settle("n")
    assert cluster.state == ""
    cluster.label("all-1g.10gb")
    cluster.operator.round()
    assert cluster.state == "pending"
    assert cluster.settle() == "success"
    assert slices(cluster) == [7, 7]
    assert cluster.layouts == ["mig-config-n-0"]
    (owner,) = cluster.objects["MIGLayout"]["mig-config-n-0"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Node", "n")
    assert cluster.take_node_events() == [("MIGConfigApplied", False)]

    cluster.label("all-balanced")
    assert cluster.settle() == "success"
    assert cluster.layouts == ["mig-config-n-0"]
    assert sorted(cluster.places()[0]) == ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"]
    assert cluster.take_node_events() == [("MIGConfigApplied", False)]

    cluster.label(None)
    assert cluster.settle() == ""
    assert (cluster.layouts, cluster.note) == ([], "")


def test_with_mig_off_a_gpu_is_whole_and_with_it_on_it_is_empty(cluster: Cluster) -> None:
    cluster.label("all-enabled")
    assert cluster.settle() == "success"
    assert cluster.places() == [[], []]
    cluster.label("all-disabled")
    assert cluster.settle() == "success"
    assert cluster.places() == [["whole"], ["whole"]]
    (made,) = cluster.objects["MIGLayout"].values()
    assert made["spec"]["instances"] == [{"profile": geometry.WHOLE, "count": 1}]


def test_an_unknown_configuration_removes_no_slice(cluster: Cluster) -> None:
    cluster.label("all-1g.10gb")
    cluster.settle()
    cluster.take_node_events()
    cluster.label("all-1g.10g")
    assert cluster.settle() == "failed"
    assert slices(cluster) == [7, 7]
    assert "no configuration 'all-1g.10g'; it has all-1g.10gb," in cluster.note
    assert cluster.take_node_events() == [("MIGConfigFailed", True)]
    cluster.label("all-1g.10gx")  # failed as well, but for another reason
    assert cluster.settle() == "failed"
    assert cluster.take_node_events() == [("MIGConfigFailed", True)]
    cluster.operator.restart()
    assert cluster.settle() == "failed"
    assert cluster.take_node_events() == [], "reported once, also across a restart"
    cluster.label("all-1g.10gb")
    assert cluster.settle() == "success"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", f"ConfigMap {SOURCE}: config.yaml: not YAML"),
        ("version: v1\nmig-configs: {}", "it has none"),
        (
            "version: v1\nmig-configs: {all-1g.10gb: "
            "[{devices: all, mig-enabled: true, mig-devices: {9g.99gb: 1}}]}",
            "NotPlaceable: ",
        ),
        (
            "version: v1\nmig-configs: {all-1g.10gb: "
            "[{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 3}}]}",
            "NotPlaceable: ",
        ),
        (
            "version: v1\nmig-configs: {all-1g.10gb: "
            "[{device-filter: '0x20B710DE', devices: all, mig-enabled: true}]}",
            "no entry for this node: 2 GPUs of board h100-80gb (0x233010DE)",
        ),
    ],
    ids=["no yaml", "empty", "no such profile", "too many", "another board"],
)
def test_an_impossible_configuration_fails_with_a_reason(text: str, says: str) -> None:
    cluster = Cluster(text)
    cluster.label("all-1g.10gb")
    assert cluster.settle() == "failed"
    assert says in cluster.note
    assert cluster.take_node_events() == [("MIGConfigFailed", True)]
    assert cluster.places() == [["whole"], ["whole"]]


def test_without_a_config_map_a_label_fails() -> None:
    cluster = Cluster()
    cluster.remove("ConfigMap", SOURCE)
    cluster.label("all-1g.10gb")
    assert cluster.settle() == "failed"
    assert f"there is no ConfigMap {SOURCE}" in cluster.note
    cluster.add("ConfigMap", SOURCE)["data"] = {"config.yaml": migparted_defaults.text()}
    assert cluster.settle() == "success", "level-triggered: made good without a new label"


def test_a_user_s_older_layout_keeps_its_gpus_and_both_report_it(cluster: Cluster) -> None:
    layout(cluster, "mine", "3g.40gb", 2)
    cluster.operator.settle("n")
    cluster.label("all-1g.10gb")
    assert cluster.settle() == "failed"
    assert "LayoutConflict: n-gpu-0 follows the older layout mine" in cluster.note
    assert cluster.places() == [["3g.40gb"] * 2] * 2
    status, reason, _ = cluster.condition("MIGLayout", "mig-config-n-0", "Accepted")
    assert (status, reason) == ("False", "LayoutConflict")
    status, reason, message = cluster.condition("MIGLayout", "mine", "Accepted")
    assert (status, reason) == ("True", "Contested")
    assert "mig-config-n-0" in message
    cluster.remove("MIGLayout", "mine")
    assert cluster.settle() == "success"
    assert cluster.condition("MIGLayout", "mig-config-n-0", "Accepted")[1] == "Accepted"


def test_a_younger_layout_of_a_user_does_not_take_the_gpus(cluster: Cluster) -> None:
    cluster.label("all-1g.10gb")
    cluster.settle()
    layout(cluster, "mine", "3g.40gb", 2)
    assert cluster.settle() == "success"
    assert cluster.condition("MIGLayout", "mine", "Accepted")[:2] == ("False", "LayoutConflict")
    assert cluster.condition("MIGLayout", "mig-config-n-0", "Accepted")[1] == "Contested"


def test_a_foreign_layout_is_not_taken_over(cluster: Cluster) -> None:
    cluster.add("MIGLayout", "mig-config-n-0", {"instances": [], "selector": {"pool": "other"}})
    cluster.label("all-1g.10gb")
    assert cluster.settle() == "failed"
    assert "MIGLayout mig-config-n-0 exists and was not made for this node" in cluster.note
    assert cluster.objects["MIGLayout"]["mig-config-n-0"]["spec"]["instances"] == []


def test_an_edited_layout_of_a_label_is_restored(cluster: Cluster) -> None:
    cluster.label("all-1g.10gb")
    cluster.settle()
    cluster.edit("MIGLayout", "mig-config-n-0", instances=[{"profile": "7g.80gb"}])
    assert cluster.settle() == "success"
    assert slices(cluster) == [7, 7]
    cluster.remove("MIGLayout", "mig-config-n-0")
    assert cluster.settle() == "success"
    assert slices(cluster) == [7, 7]


def test_a_pod_in_the_way_is_waited_for(cluster: Cluster) -> None:
    cluster.label("all-1g.10gb")
    cluster.settle()
    cluster.holders["n-gpu-1", "1g.10gb", 3] = ["default/train"]
    cluster.label("all-7g.80gb")
    assert cluster.settle() == "pending"
    assert cluster.holders["n-gpu-1", "1g.10gb", 3] == ["default/train"]
    cluster.holders.clear()
    assert cluster.settle() == "success"
    assert cluster.places() == [["7g.80gb"]] * 2


SPLIT = """
version: v1
mig-configs:
  split:
  - {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}
  - {devices: [1], mig-enabled: true, mig-devices: {3g.40gb: 2}}
  same:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
  first:
  - {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}
"""


def test_each_group_of_gpus_has_a_layout_at_any_time() -> None:
    cluster = Cluster(SPLIT)
    cluster.label("split")
    assert cluster.settle() == "success"
    assert cluster.layouts == ["mig-config-n-0", "mig-config-n-1"]
    assert cluster.places() == [["1g.10gb"] * 7, ["3g.40gb"] * 2]
    cluster.label("first")  # GPU 1 is not mentioned: it follows no layout any more
    assert cluster.settle() == "success"
    assert cluster.places() == [["1g.10gb"] * 7, ["whole"]]
    cluster.label("same")
    assert cluster.settle() == "success"
    assert cluster.layouts == ["mig-config-n-0"]


def test_layouts_that_grow_are_written_before_those_that_shrink() -> None:
    cluster = Cluster(SPLIT)
    cluster.label("same")
    cluster.settle()
    cluster.label("split")
    seen = cluster.operator.store.world()
    node_seen = a_node("n", labels=GPU_NODE | {LABEL: "split"})
    there = world(
        node_seen,
        a_pool(count=2),
        *seen.layouts.values(),
        mig_configs={SOURCE: mig_parted.Configs(mig_parted.read(SPLIT))},
    )
    actions = mig_config.reconcile(there, "n", MigManagerConfig()).actions
    names = [
        a.document["metadata"]["name"]
        for a in actions
        if isinstance(a, Apply) and a.document["kind"] == "MIGLayout"
    ]
    assert names == ["mig-config-n-1", "mig-config-n-0"]


def settle(**settings: Any) -> tuple[Any, ...]:
    there = world(
        a_node("n", labels=GPU_NODE | settings.pop("labels", {})),
        a_pool(**settings.pop("pool", {})),
        mig_configs={SOURCE: mig_parted.Configs(mig_parted.read(SPLIT))},
    )
    return mig_config.reconcile(there, "n", MigManagerConfig(**settings)).actions


def test_a_node_without_the_label_gets_the_default_as_its_label() -> None:
    assert settle() == ()
    made, state = settle(default="same")
    assert made.document["spec"]["instances"] == [{"profile": "1g.10gb", "count": 7}]
    assert state.document["metadata"]["labels"] == {LABEL: "same", STATE: "pending"}
    _, state = settle(default="same", labels={LABEL: "first"})
    assert state.document["metadata"]["labels"] == {STATE: "pending"}


def test_a_node_without_a_pool_is_not_changed() -> None:
    other = {
        "pool": {"node_selector": {"no": "match"}},
        "labels": {LABEL: "same", STATE: "success"},
    }
    assert settle(**other) == (), "with nvidia.com another MIG manager may serve it"
    assert settle(enabled=False, labels={LABEL: "same"}) == ()


def test_the_chart_chooses_how_pods_are_treated() -> None:
    made, _ = settle(labels={LABEL: "same"}, on_in_use="Evict", deadline_seconds=30)
    assert made.manager is Manager.MIG_CONFIG
    assert made.document["spec"]["rollout"] == {
        "maxUnavailable": "100%",
        "onInUse": "Evict",
        "deadlineSeconds": 30,
    }


def test_a_node_that_leaves_its_pool_keeps_only_the_label(
    cluster: Cluster,
) -> None:
    cluster.label("all-1g.10gb")
    cluster.settle()
    cluster.remove("GPUPool", "p")
    assert cluster.settle() == ""
    assert (cluster.layouts, cluster.note) == ([], "")
    labels = cluster.objects["Node"]["n"]["metadata"]["labels"]
    assert labels == {"gpu": "yes", LABEL: "all-1g.10gb"}


def test_layouts_of_a_deleted_node_are_deleted(cluster: Cluster) -> None:
    cluster.label("all-1g.10gb")
    cluster.settle()
    cluster.remove("Node", "n")
    cluster.operator.settle("n")
    assert cluster.layouts == []
