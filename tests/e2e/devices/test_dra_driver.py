"""The driver of ResourceClaims on a real kubelet: instances are created and destroyed, and pods
survive restarts of the driver.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster.dra_claims import ALLOCATION, claim, exactly, pod
from support.cluster.kubectl import SYSTEM, Cluster, pod_of, until

SMALL = "mig-1g.10gb.tessera.dev"
HOLD = ("--n", "100001", "--hold", "600")


def move(cluster: Cluster, node: str, allocation: str) -> None:
    """Set the node's allocation label; an empty one restores the pool's setting."""
    label = f"{ALLOCATION}={allocation}" if allocation else f"{ALLOCATION}-"
    cluster.kubectl("label", "node", node, label, "--overwrite")


def devices(cluster: Cluster, node: str) -> set[str]:
    """Return the devices that a node publishes."""
    found = cluster.get("resourceslices", f"--field-selector=spec.nodeName={node}")["items"]
    specs = [one["spec"] for one in found if one["spec"]["driver"] == "gpu.tessera.dev"]
    return {device["name"] for spec in specs for device in spec.get("devices", ())}


@pytest.fixture(scope="module")
def node(whole_cluster: Cluster) -> Iterator[str]:
    """A node whose GPUs are allocated to claims, except for the slices of layouts."""
    found = whole_cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    name = max(one["metadata"]["name"] for one in found)
    move(whole_cluster, name, "Both")
    until(lambda: "gpu-1" in devices(whole_cluster, name), 60)
    yield name
    move(whole_cluster, name, "")
    until(lambda: not devices(whole_cluster, name), 60)


@pytest.fixture
def claims(namespace: Cluster) -> Iterator[Cluster]:
    yield namespace
    namespace.delete("pods", "--all")
    namespace.delete("resourceclaims", "--all")


def claims_by_placement(cluster: Cluster, node: str) -> dict[str, dict[str, Any]]:
    """Return the claims in the status of the node's GPUs, by placement."""
    return {
        f"{index}/{one['profile']}@{one['start']}": one
        for index in (0, 1)
        for one in cluster.get("gpu", f"{node}-gpu-{index}")["status"].get("claims", ())
    }


def hold(claims: Cluster, node: str, name: str = "held", profile: str = SMALL) -> str:
    """Run a pod that has computed and keeps its claim; return the placement of its instance."""
    before = set(claims_by_placement(claims, node))
    claims.apply(claim(name, exactly(profile)), pod(name, name, arguments=HOLD, node=node))
    claims.wait_pod(name, "Running")
    until(lambda: "verified" in claims.logs(name), 60)  # a context ends with its gpud
    (place,) = until(lambda: set(claims_by_placement(claims, node)) - before)
    return str(place)


def has_agent(cluster: Cluster, node: str) -> bool:
    """Return whether a node has a ready agent."""
    pods = cluster.get("pods", "-n", SYSTEM, "-l", "app.kubernetes.io/component=node")["items"]
    mine = (one["status"] for one in pods if one["spec"].get("nodeName") == node)
    return any(
        one["type"] == "Ready" and one["status"] == "True"
        for status in mine
        for one in status.get("conditions", ())
    )


def test_a_claim_is_in_the_status_of_its_gpu_as_long_as_it_is_prepared(
    claims: Cluster, node: str
) -> None:
    place = hold(claims, node)
    one = until(lambda: (c := claims_by_placement(claims, node)[place])["holders"] and c)
    assert (one["claim"]["namespace"], one["claim"]["name"]) == (claims.namespace, "held")
    assert [holder["name"] for holder in one["holders"]] == ["held"]
    claims.delete("pod", "held")
    until(lambda: place not in claims_by_placement(claims, node))


def test_a_pod_that_is_deleted_by_force_leaks_nothing_and_the_next_one_gets_the_same(
    claims: Cluster, node: str
) -> None:
    place = hold(claims, node, "whole", "gpu.tessera.dev")
    claims.kubectl("delete", "pod", "whole", "--grace-period=0", "--force")
    claims.delete("resourceclaim", "whole")
    claims.apply(
        claim("next", exactly("gpu.tessera.dev")), pod("next", "next", arguments=HOLD, node=node)
    )
    claims.wait_pod("next", "Running")
    assert until(lambda: claims_by_placement(claims, node).get(place))["claim"]["name"] == "next"
    claims.delete("pod", "next")
    until(lambda: place not in claims_by_placement(claims, node))


@pytest.mark.alone("last-node")
def test_pods_with_claims_outlive_agent_and_gpud(claims: Cluster, node: str) -> None:
    place = hold(claims, node)
    uuid = claims_by_placement(claims, node)[place]["uuid"]
    agent = pod_of(claims, "node", node)
    claims.kubectl("-n", SYSTEM, "delete", "pod", agent)  # returns when the pod is gone
    until(lambda: has_agent(claims, node), 60)
    other = hold(claims, node, "later")
    assert claims_by_placement(claims, node)[place]["uuid"] == uuid
    found = claims.get("pod", "held")["status"]["containerStatuses"][0]
    assert (found["restartCount"], found["ready"]) == (0, True)
    claims.delete("pod", "held", "later")
    until(lambda: not {place, other} & claims_by_placement(claims, node).keys())


def comes_without_driver(claims: Cluster, node: str, name: str) -> bool:
    """Schedule a pod with a claim after the node's agent has ended; return False if the next agent
    started first.
    """
    waiting = pod(name, name, arguments=HOLD, node=node)
    waiting["spec"]["schedulingGates"] = [{"name": "gpu.tessera.dev/e2e"}]
    claims.apply(claim(name, exactly(SMALL)), waiting)
    claims.kubectl("-n", SYSTEM, "delete", "pod", pod_of(claims, "node", node))
    claims.kubectl("patch", "pod", name, "--type=merge", "-p", '{"spec":{"schedulingGates":null}}')
    failed = f"--field-selector=reason=FailedPrepareDynamicResources,involvedObject.name={name}"

    def outcome() -> str:
        runs = claims.get("pod", name)["status"]["phase"] == "Running"
        if claims.get("events", failed)["items"]:
            return "failed"
        return "ran" if runs else ""

    return bool(until(outcome, 60) == "failed")


@pytest.mark.alone("last-node")
def test_the_operator_triggers_a_pod_bound_while_the_driver_was_away(
    claims: Cluster, node: str
) -> None:
    """Otherwise the pod would wait 60 to 90 s for its kubelet."""
    names = (f"early-{attempt}" for attempt in range(5))
    name = next((one for one in names if comes_without_driver(claims, node, one)), "")
    assert name, "the agent was back before the kubelet called it, five times"
    claims.wait_pod(name, "Running")
    found = claims.get("pod", name)["metadata"]["annotations"]
    assert int(found["gpu.tessera.dev/nudged"]) >= 1


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {"other": "1"}}},
        {"metadata": {"annotations": {"gpu.tessera.dev/nudged": "1", "kept": None}}},
        {"metadata": {"labels": {"app": "other"}}},
        {"spec": {"containers": [{"name": "vectoradd", "image": "tessera.local/other"}]}},
        {"spec": {"activeDeadlineSeconds": 1}},
    ],
    ids=["annotation", "annotation gone", "label", "image", "deadline"],
)
def test_the_operator_may_change_one_annotation_of_pods_and_nothing_else(
    claims: Cluster, change: dict[str, Any]
) -> None:
    waiting = pod("waiting", "none", arguments=HOLD)
    waiting["metadata"]["annotations"] = {"kept": "1"}
    claims.apply(waiting)
    operator = f"--as=system:serviceaccount:{SYSTEM}:tessera-operator"
    patch = ("patch", "pod", "waiting", operator, "--type=strategic", "-p")
    with pytest.raises(AssertionError, match=r"gpu\.tessera\.dev/nudged of pods only"):
        claims.kubectl(*patch, json.dumps(change))
    patch_body = {"metadata": {"annotations": {"gpu.tessera.dev/nudged": "1"}}}
    claims.kubectl(*patch, json.dumps(patch_body))


def test_a_layout_waits_for_a_claim_by_name(claims: Cluster, node: str) -> None:
    place = hold(claims, node)
    assert place.startswith("1/")
    layout = {
        "apiVersion": "gpu.tessera.dev/v1alpha1",
        "kind": "MIGLayout",
        "metadata": {"name": "beside-claims"},
        "spec": {
            "selector": {"pool": "demo", "nodeNames": [node], "indices": [1]},
            "instances": [{"profile": "7g.80gb"}],
        },
    }
    try:
        claims.apply(layout)

        def waits() -> bool:
            return f"claim {claims.namespace}/held" in json.dumps(
                claims.get("miglayout", "beside-claims").get("status", {})
            )

        until(waits)
        assert place in claims_by_placement(claims, node)
        claims.delete("pod", "held")
        claims.kubectl("wait", "--for=condition=Ready", "miglayout/beside-claims", "--timeout=60s")
    finally:
        claims.delete("miglayout", "beside-claims")
    until(lambda: "gpu-1" in devices(claims, node), 60)
