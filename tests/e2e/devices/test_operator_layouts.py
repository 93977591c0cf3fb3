"""Layouts that change slices in use: wait, evict, roll back. On two GPUs of a pool of the control
plane's node, which hold 2g.20gb.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster.control_plane import control_plane_of, control_plane_pool
from support.cluster.kubectl import Cluster, layout_of, until

POOL = NAME = "e2e-layouts"
LAYOUT = f"miglayout/{NAME}"
GPUS = (0, 1)

Manifest = Callable[..., dict[str, Any]]
RESOURCE = "gpu.tessera.dev/mig-"


def wait_ready(cluster: Cluster) -> None:
    """Wait until the layout is applied; tests of other lanes restart the operator meanwhile."""
    until(lambda: cluster.condition(LAYOUT, "Ready").status == "True")


def layout(profile: str, count: int, name: str = NAME, **rollout: Any) -> dict[str, Any]:
    """Return a layout of both GPUs, which may be unavailable at the same time."""
    return layout_of(profile, count, name, pool=POOL, indices=GPUS, maxUnavailable=2, **rollout)


def slices_of_gpus(cluster: Cluster) -> dict[str, list[str]]:
    """Return the slices of each GPU."""
    result: dict[str, list[str]] = {}
    for item in cluster.slices(POOL):
        inner = f".{item['computeStart']}" if "computeStart" in item else ""
        place = f"{item['profile']}@{item['start']}{inner}"
        result.setdefault(item["gpu"], []).append(place)
    return {gpu: sorted(slices) for gpu, slices in result.items()}


def count_offered(cluster: Cluster, profile: str) -> int:
    """Return how many slices of a profile the node offers; 0 for a removed one."""
    node = cluster.get("node", control_plane_of(cluster))
    return int(node["status"]["allocatable"].get(RESOURCE + profile, "0"))


@pytest.fixture(scope="module")
def node(whole_cluster: Cluster) -> Iterator[str]:
    """The node of the pool."""
    settings = {"board": "h100-80gb", "count": len(GPUS), "nodeBudget": "2Gi"}
    with control_plane_pool(whole_cluster, POOL, **settings) as name:
        yield name


@pytest.fixture
def slices(namespace: Cluster, node: str) -> Iterator[Cluster]:
    """The cluster with three 2g.20gb on each GPU, and a namespace for the test's pods."""
    namespace.apply(layout("2g.20gb", 3))
    wait_ready(namespace)
    assert count_offered(namespace, "2g.20gb") == 6  # ready says so
    yield namespace
    namespace.delete("pods", "--all")
    namespace.delete("miglayout", NAME)
    until(lambda: set(map(tuple, slices_of_gpus(namespace).values())) == {("whole@0",)})


@pytest.fixture
def holding(sample_pod: Manifest, node: str) -> dict[str, Any]:
    """A pod that holds a slice."""
    arguments = ("--n", "1024", "--hold", "600")
    return sample_pod("holder", *arguments, profile="2g.20gb", node=node, small=True)


def start(cluster: Cluster, pod: dict[str, Any]) -> str:
    """Start a pod and wait until a GPU's status names it; return the GPU."""
    name = pod["metadata"]["name"]
    cluster.apply(pod)
    cluster.wait_pod(name, "Running")

    def held() -> str | None:
        for item in cluster.slices(POOL):
            if any(h["name"] == name for h in item.get("holders", [])):
                return str(item["gpu"])
        return None

    return str(until(held))


def test_a_slice_in_use_is_waited_for_and_its_pod_named(
    slices: Cluster, holding: dict[str, Any]
) -> None:
    gpu = start(slices, holding)
    slices.apply(layout("3g.40gb", 2))
    until(lambda: slices.condition(LAYOUT, "Ready").reason == "SliceInUse")
    message = slices.condition(LAYOUT, "Ready").message
    assert f"pod {slices.namespace}/holder" in message
    assert gpu in message
    status = slices.get("miglayout", NAME)["status"]
    assert status["waiting"] == 1
    until(lambda: f"MIGLayout {NAME} requests others" in withdrawn(slices, "holder"))
    assert any("2g.20gb" in s for s in slices_of_gpus(slices)[gpu])
    assert slices.get("pod", "holder")["status"]["phase"] == "Running"
    # A withdrawn slice is no longer offered, once the kubelet has reported that.
    until(lambda: count_offered(slices, "2g.20gb") == 0, 5, promised=True)
    slices.delete("pod", "holder")
    wait_ready(slices)
    assert set(map(tuple, slices_of_gpus(slices).values())) == {("3g.40gb@0", "3g.40gb@4")}


def test_a_slice_in_use_that_fits_stays_where_it_is(
    slices: Cluster, holding: dict[str, Any]
) -> None:
    gpu = start(slices, holding)
    before = {i["uuid"] for i in slices.slices(POOL) if i["gpu"] == gpu and i.get("holders")}
    document = layout("1g.10gb", 1)
    document["spec"]["instances"] += [{"profile": "2g.20gb"}]
    slices.apply(document)
    wait_ready(slices)
    after = {
        i["uuid"] for i in slices.slices(POOL) if i["gpu"] == gpu and i["profile"] == "2g.20gb"
    }
    assert after == before
    assert slices.get("pod", "holder")["status"]["phase"] == "Running"


def test_two_pods_share_a_gpu_instance_s_memory_and_each_has_its_own_sms(
    slices: Cluster, sample_pod: Manifest, node: str
) -> None:
    slices.apply(layout("1c.3g.40gb", 3))
    wait_ready(slices)
    assert count_offered(slices, "1c.3g.40gb") == 6
    divided = tuple(f"1c.3g.40gb@0.{at}" for at in range(3))
    assert {tuple(one) for one in slices_of_gpus(slices).values()} <= {
        divided,
        tuple(one.replace("@0", "@4") for one in divided),
    }
    for name in ("one", "other"):
        pod = sample_pod(name, "--n", "65536", "--hold", "600", node=node, profile="1c.3g.40gb")
        slices.apply(pod)
        slices.wait_pod(name, "Running")
    held = until(lambda: _held_by(slices, "one", "other"), 60)
    assert len({item["computeStart"] for item in held}) == 2
    assert len({(item["gpu"], item["start"]) for item in held}) == 1
    for name in ("one", "other"):
        until(lambda name=name: "65536 results verified" in slices.logs(name), 60)
        assert "SMs      16" in slices.logs(name).splitlines()
        assert "memory   40448 MiB" in slices.logs(name)  # the GPU instance's, for both


def _held_by(cluster: Cluster, *pods: str) -> list[dict[str, Any]]:
    """Return the slices that these pods hold; empty until each of them holds one."""
    found = [
        item
        for item in cluster.slices(POOL)
        if any(holder["name"] in pods for holder in item.get("holders", []))
    ]
    return found if len(found) == len(pods) else []


def withdrawn(cluster: Cluster, pod: str) -> str:
    """Return the messages of a pod's SliceWithdrawn events."""
    chosen = f"involvedObject.name={pod},reason=SliceWithdrawn"
    return " ".join(
        e["message"] for e in cluster.get("events", "--field-selector", chosen)["items"]
    )


@pytest.fixture
def deployment(holding: dict[str, Any]) -> dict[str, Any]:
    """A Deployment whose two pods hold a slice each."""
    spec = holding["spec"] | {"restartPolicy": "Always"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "tenants"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "tenants"}},
            "template": {"metadata": {"labels": {"app": "tenants"}}, "spec": spec},
        },
    }


def test_eviction_moves_pods_away_without_a_storm(
    slices: Cluster, deployment: dict[str, Any]
) -> None:
    """The pods that replace evicted ones are Pending: none gets a slice that is being withdrawn."""
    slices.apply(deployment)
    slices.kubectl("rollout", "status", "deployment/tenants", "--timeout=60s")
    until(lambda: sum(bool(i.get("holders")) for i in slices.slices(POOL)) >= 2)
    slices.apply(layout("3g.40gb", 2, onInUse="Evict"))
    wait_ready(slices)
    replacing = [
        (pod["status"]["phase"], pod["status"].get("reason"))
        for pod in slices.get("pods")["items"]
        if "deletionTimestamp" not in pod["metadata"]
    ]
    assert replacing == [("Pending", None)] * 2
    slices.delete("deployment", "tenants")


def test_a_disruption_budget_is_honoured_and_named(
    slices: Cluster, deployment: dict[str, Any]
) -> None:
    slices.apply(
        deployment,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "tenants"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "tenants"}}},
        },
    )
    slices.kubectl("rollout", "status", "deployment/tenants", "--timeout=60s")
    until(lambda: sum(bool(i.get("holders")) for i in slices.slices(POOL)) >= 2)
    slices.apply(layout("3g.40gb", 2, onInUse="Evict"))
    until(lambda: "eviction refused" in slices.condition(LAYOUT, "Ready").message)
    assert "disruption budget" in slices.condition(LAYOUT, "Ready").message
    phases = {p["status"]["phase"] for p in slices.get("pods")["items"]}
    assert phases == {"Running"}
    slices.delete("deployment", "tenants")
    wait_ready(slices)


def test_past_its_deadline_a_change_is_rolled_back(
    slices: Cluster, holding: dict[str, Any]
) -> None:
    gpu = start(slices, holding)
    slices.apply(layout("3g.40gb", 2, deadlineSeconds=8))
    until(lambda: slices.condition(LAYOUT, "Degraded").reason == "DeadlineExceeded")
    assert "holder" in slices.condition(LAYOUT, "Degraded").message
    until(lambda: slices_of_gpus(slices)[gpu] == ["2g.20gb@0", "2g.20gb@2", "2g.20gb@4"])
    assert slices.get("pod", "holder")["status"]["phase"] == "Running"
    assert slices.condition(LAYOUT, "Ready").status == "False"
    until(lambda: count_offered(slices, "2g.20gb") >= 3)


def test_the_younger_of_two_layouts_reports_the_older(slices: Cluster) -> None:
    slices.apply(layout("7g.80gb", 1, f"{NAME}-younger"))
    younger = (f"miglayout/{NAME}-younger", "Accepted")
    try:
        until(lambda: slices.condition(*younger).reason == "LayoutConflict")
        assert f"follows the older layout {NAME}" in slices.condition(*younger).message
    finally:
        slices.delete("miglayout", f"{NAME}-younger")


def test_the_api_server_itself_refuses_a_start_with_a_count(whole_cluster: Cluster) -> None:
    document = layout("1g.10gb", 2)
    document["spec"]["instances"][0]["start"] = 0
    with pytest.raises(AssertionError, match="it requires count 1"):
        whole_cluster.apply(document)


def test_explain_reads_well(whole_cluster: Cluster) -> None:
    words = whole_cluster.kubectl("explain", "miglayout.spec.rollout")
    for field in ("maxUnavailable", "onInUse", "deadlineSeconds", "PodDisruptionBudgets"):
        assert field in words
