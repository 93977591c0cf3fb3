"""Faults in the cluster: one slice fails and recovers; scheduler and pod are informed."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster.kubectl import Cluster, until

Manifest = Callable[..., dict[str, Any]]
FAULTS = ("ecc", "unknown", "nowhere", "invalid")
RESOURCE = "gpu.tessera.dev/mig-1g.10gb"


def fault(cluster: Cluster, name: str, **spec: Any) -> None:
    cluster.apply(
        {
            "apiVersion": "gpu.tessera.dev/v1alpha1",
            "kind": "GPUFault",
            "metadata": {"name": name},
            "spec": spec,
        }
    )


def phase(cluster: Cluster, name: str) -> str:
    return str(cluster.get("gpufault", name).get("status", {}).get("phase", ""))


@pytest.fixture(autouse=True)
def no_faults_are_left(whole_cluster: Cluster) -> Iterator[None]:
    yield
    whole_cluster.delete("gpufaults", *FAULTS)  # another process tests faults of the last node


def test_a_slice_fails_under_its_pod_and_is_given_back(
    whole_cluster: Cluster, namespace: Cluster, sample_pod: Manifest
) -> None:
    namespace.apply(sample_pod("victim", "--n", "65536", "--seconds", "600", small=True))
    namespace.wait_pod("victim", "Running")

    def held() -> list[dict[str, Any]]:
        return [
            s for s in whole_cluster.slices() if any(h["name"] == "victim" for h in s["holders"])
        ]

    (mine,) = until(held, 60)
    until(lambda: "running" in namespace.logs("victim"), 60)  # it has a context

    def allocatable() -> str:
        node = whole_cluster.get("node", mine["node"])
        return str(node["status"]["allocatable"][RESOURCE])

    assert allocatable() == "7"
    place = {"profile": mine["profile"], "start": mine["start"]}
    fault(whole_cluster, "ecc", gpuName=mine["gpu"], slice=place, xid=48)
    until(lambda: phase(whole_cluster, "ecc") == "Injected")
    until(lambda: allocatable() == "6")
    assert namespace.wait_pod("victim")["status"]["phase"] == "Failed"

    def has_event(reason: str, text: str) -> bool:
        found = namespace.get("events", "--field-selector", "involvedObject.name=victim")["items"]
        return any(one["reason"] == reason and text in one["message"] for one in found)

    until(lambda: has_event("Faulted", "Xid 48"))
    until(lambda: has_event("Unhealthy", mine["uuid"]))
    until(lambda: allocatable() == "7", 120)  # without further action

    def is_healthy() -> bool:
        slices = [one for one in whole_cluster.slices() if one["node"] == mine["node"]]
        return bool(slices) and all(one["health"] == "Healthy" for one in slices)

    until(is_healthy)


def test_what_cannot_fail_is_refused_with_the_reason(whole_cluster: Cluster) -> None:
    gpu = whole_cluster.gpus()[0]["metadata"]["name"]
    fault(whole_cluster, "unknown", gpuName=gpu, xid=7)
    fault(whole_cluster, "nowhere", nodeName="no-such-node", index=0, offBus=True)
    wanted = {"unknown": "FaultRefused", "nowhere": "GPUNotFound"}
    for name, reason in wanted.items():
        until(lambda name=name: phase(whole_cluster, name) == "Refused")
        found = whole_cluster.get("gpufault", name)["status"]["conditions"]
        assert [c["reason"] for c in found if c["type"] == "Accepted"] == [reason]
    for spec in ({"gpuName": gpu}, {"gpuName": gpu, "hang": True, "thermal": True}, {"hang": True}):
        with pytest.raises(AssertionError, match=r"exactly one of|select the GPU"):
            fault(whole_cluster, "invalid", **spec)


def test_only_administrators_create_faults(whole_cluster: Cluster, namespace: Cluster) -> None:
    for account in (
        f"system:serviceaccount:{namespace.namespace}:default",
        "system:serviceaccount:tessera-system:tessera-node",
    ):
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": account,
                "resourceAttributes": {
                    "group": "gpu.tessera.dev",
                    "resource": "gpufaults",
                    "verb": "create",
                },
            },
        }
        answer = whole_cluster.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review))
        assert json.loads(answer)["status"]["allowed"] is False
