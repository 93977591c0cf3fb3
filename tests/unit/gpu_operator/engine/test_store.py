"""The store: older states never win, and missed changes are made up for."""

from typing import Any

import pytest

from gpu_operator.api.v1alpha1 import POOL_LABEL
from gpu_operator.engine import routes
from gpu_operator.engine.queue import Key
from gpu_operator.engine.store import Store
from support.rigs.turned_clock import Clock

SPEC = {"nodeSelector": {"a": "b"}, "board": "a30"}


def pool(version: int = 1, uid: str = "u", name: str = "p", **spec: Any) -> dict[str, Any]:
    return {
        "kind": "GPUPool",
        "metadata": {"name": name, "uid": uid, "resourceVersion": str(version)},
        "spec": SPEC | spec,
    }


def node(name: str = "n", version: int = 1, **status: Any) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": str(version)},
        "status": status,
    }


def test_an_older_state_that_arrives_late_is_ignored() -> None:
    store = Store()
    assert store.put("GPUPool", pool(9, count=2))
    assert not store.put("GPUPool", pool(10, count=2))  # newer, but without a relevant change
    assert not store.put("GPUPool", pool(8, count=1))
    assert store.world().pools["p"].spec.count == 2


def test_a_successor_of_the_same_name_is_another_object() -> None:
    store = Store()
    store.put("GPUPool", pool(9))
    assert store.put("GPUPool", pool(13, uid="v", count=4))
    assert not store.remove("GPUPool", "p", uid="u")  # the first one's deletion arrives late
    assert not store.put("GPUPool", pool(10, count=2))  # its last state arrives late, too
    assert store.world().pools["p"].spec.count == 4
    assert store.remove("GPUPool", "p", uid="v")
    assert not store.remove("GPUPool", "p")
    assert store.world().pools == {}


def test_a_late_response_does_not_restore_a_deleted_object() -> None:
    """Removing the last finalizer deletes it: the watch may report that before the response
    arrives.
    """
    store = Store()
    store.put("GPUPool", pool(9))
    store.remove("GPUPool", "p", uid="u")
    assert not store.put("GPUPool", pool(10))
    assert store.world().pools == {}
    assert store.put("GPUPool", pool(11, uid="v"))


def test_a_list_does_not_restore_objects_deleted_during_it() -> None:
    clock = Clock()
    store = Store(clock=clock)
    store.put("GPUPool", pool(9))
    clock.now = 6
    store.remove("GPUPool", "p", uid="u")
    assert not store.replace("GPUPool", [pool(9)], as_of=5)
    assert store.world().pools == {}
    clock.now = 8
    assert store.replace("GPUPool", [pool(12, uid="v")], as_of=7)


def test_a_list_of_one_kind_does_not_affect_another() -> None:
    """Changes of pools received during their list still count after nodes were listed."""
    clock = Clock()
    store = Store(clock=clock)
    clock.now = 6
    store.put("GPUPool", pool(12, count=3))
    clock.now = 8
    store.replace("Node", [], as_of=7)
    store.replace("GPUPool", [pool(9, count=1)], as_of=5)
    assert store.world().pools["p"].spec.count == 3


def test_a_later_list_wins_after_the_database_was_restored_from_a_backup() -> None:
    clock = Clock()
    store = Store(clock=clock)
    store.put("GPUPool", pool(900, count=2))
    clock.now = 10
    assert store.replace("GPUPool", [pool(30, count=1)], as_of=9)
    assert store.world().pools["p"].spec.count == 1


def test_a_list_removes_objects_whose_deletion_was_missed() -> None:
    clock = Clock()
    store = Store(clock=clock)
    store.put("GPUPool", pool(name="old"))
    clock.now = 10
    store.put("GPUPool", pool(name="new"))  # received during the list
    assert store.replace("GPUPool", [pool(name="listed")], as_of=5)
    assert set(store.world().pools) == {"new", "listed"}
    assert not store.replace("GPUPool", [pool(name="listed"), pool(name="new")], as_of=20)


def test_a_world_is_a_snapshot() -> None:
    store = Store()
    store.put("GPUPool", pool())
    before = store.world()
    assert store.world() is before
    store.put("GPUPool", pool(2, count=3))
    assert before.pools["p"].spec.count == 1
    assert store.world().pools["p"].spec.count == 3


def test_an_object_with_an_invalid_spec_is_broken_not_gone() -> None:
    store = Store()
    store.put("GPUPool", pool(count=99))
    world = store.world()
    assert world.pools == {}
    assert "spec.count" in world.broken["GPUPool", "p"].problem
    assert Key("GPUPool", "p") in routes.all_keys(world)


def test_the_store_records_since_when_a_resource_is_zero() -> None:
    clock = Clock()
    store = Store(clock=clock)
    clock.now = 5
    store.put("Node", node(capacity={"x/y": "0", "cpu": "0"}))
    clock.now = 9
    store.put("Node", node(version=2, capacity={"x/y": "0", "x/z": "1"}))
    assert store.world().zero_since == {("n", "x/y"): 5}
    store.put("Node", node(version=3, capacity={"x/y": "1"}))
    assert store.world().zero_since == {}


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [([], True), ([{"type": "Ready", "status": "Unknown"}], False)],
)
def test_an_unreachable_node_is_not_ready(conditions: Any, ready: bool) -> None:
    store = Store()
    store.put("Node", node(conditions=conditions))
    assert store.world().nodes["n"].ready is ready


def agent(**status: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "a", "uid": "u", "labels": {POOL_LABEL: "p"}},
        "spec": {"nodeName": "n"},
        "status": status,
    }


@pytest.mark.parametrize(
    ("status", "problem", "failing"),
    [
        ({"phase": "Running", "containerStatuses": [{"name": "gpud", "ready": True}]}, "", False),
        ({"phase": "Pending"}, "Pending", False),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted", True),
        (
            {
                "containerStatuses": [
                    {"name": "gpud", "state": {"waiting": {"reason": "ErrImagePull"}}}
                ]
            },
            "container gpud: ErrImagePull",
            True,
        ),
        (
            {
                "containerStatuses": [
                    {"name": "agent", "lastState": {"terminated": {"reason": "Error"}}}
                ]
            },
            "container agent: Error",
            True,
        ),
        ({"containerStatuses": [{"name": "agent"}]}, "container agent: starting", False),
        (
            {
                "initContainerStatuses": [
                    {"name": "node-budget", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
                ],
                "containerStatuses": [
                    {"name": "agent", "state": {"waiting": {"reason": "PodInitializing"}}}
                ],
            },
            "container node-budget: ImagePullBackOff",
            True,
        ),
    ],
)
def test_the_problem_of_an_agent_pod(status: dict[str, Any], problem: str, failing: bool) -> None:
    store = Store()
    store.put("Pod", agent(**status))
    found = store.world().agents["n"]
    assert (found.problem, found.failing) == (problem, failing)


def test_an_unschedulable_agent_is_reported() -> None:
    """A budget that exceeds the node's free memory: the pod is not scheduled yet."""
    pending = agent(
        phase="Pending",
        conditions=[
            {"type": "PodScheduled", "status": "False", "message": "1 Insufficient memory"}
        ],
    )
    rule = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [rule]}]}
    pending["spec"] = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    }
    store = Store()
    store.put("Pod", pending)
    found = store.world().agents["n"]
    assert (found.problem, found.failing) == ("not scheduled: 1 Insufficient memory", True)


def test_a_node_s_pods_are_distinguished_and_gpud_may_have_two() -> None:
    store = Store()
    ready = [{"name": "gpud", "ready": True}]
    pulls = [{"name": "gpud", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    for name, component, statuses in (
        ("a", "node", [{"name": "agent", "ready": True}]),
        ("b", "gpud", ready),
        ("c", "gpud", pulls),
        ("d", "hca", [{"name": "hcad", "ready": True}]),
    ):
        document = agent(phase="Running", containerStatuses=statuses)
        labels = document["metadata"]["labels"] | {"app.kubernetes.io/component": component}
        document["metadata"] = {"name": name, "uid": f"u-{name}", "labels": labels}
        store.put("Pod", document)
    seen = store.world()
    assert {node: pod.name for node, pod in seen.agents.items()} == {"n": "a"}
    found = [(pod.name, pod.problem) for pod in seen.gpuds["n"]]
    assert found == [("b", ""), ("c", "container gpud: ImagePullBackOff")]
    assert store.take_changes() == {("Agent", "n")}


@pytest.mark.parametrize(
    ("gpud_is", "reported"),
    [({"ready": True}, None), ({"ready": False}, "container gpud: starting")],
)
def test_a_pod_of_agent_and_gpud_serves_until_gpud_s_own_pod_does(
    gpud_is: dict[str, bool], reported: str | None
) -> None:
    """As in earlier versions: while the new image is pulled, the node stays as ready as before."""
    combined = agent(phase="Running", containerStatuses=[{"name": "gpud", **gpud_is}])
    combined["spec"]["containers"] = [{"name": "gpud"}, {"name": "node-agent"}]
    pulls = [{"name": "gpud", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    alone = agent(phase="Pending", containerStatuses=pulls)
    labels = alone["metadata"]["labels"] | {"app.kubernetes.io/component": "gpud"}
    alone["metadata"] = {"name": "b", "uid": "u-b", "labels": labels}
    alone["spec"]["containers"] = [{"name": "gpud"}]
    store = Store()
    store.put("Pod", combined)
    store.put("Pod", alone)
    world = store.world()
    assert world.agents["n"].name == combined["metadata"]["name"]
    assert [pod.problem or None for pod in world.gpuds["n"]] == [
        reported,
        "container gpud: ImagePullBackOff",
    ]


def test_pods_that_end_or_are_not_agents_do_not_count() -> None:
    store = Store()
    ending = agent(phase="Running")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    store.put("Pod", ending)
    other = agent(phase="Running")
    other["metadata"] = {"name": "b", "uid": "v"}
    store.put("Pod", other)
    assert store.world().agents == {}


def test_a_change_affects_all_dependent_keys() -> None:
    store = Store()
    store.put("GPUPool", pool())
    store.put("MIGLayout", {"metadata": {"name": "l"}, "spec": {"instances": []}})
    gpu = {"nodeName": "n", "index": 0, "board": "a30", "uuid": "u", "pool": "p", "layout": "gone"}
    store.put("GPU", {"metadata": {"name": "n-gpu-0"}, "spec": gpu})
    world = store.world()
    assert set(routes.keys_affected_by("GPU", "n-gpu-0", world)) == {
        Key("GPU", "n-gpu-0"),
        Key("GPUPool", "p"),
        Key("MIGLayout", "l"),
        Key("Node", "n"),
    }
    assert Key("GPU", "n-gpu-0") in routes.keys_affected_by("MIGLayout", "gone", world)
    assert set(routes.keys_affected_by("Pod", "x", world)) == {Key("GPUPool", "p")}
    store.remove("GPUPool", "p")
    assert Key("GPUPool", "p") in routes.all_keys(store.world())  # its GPU still exists
