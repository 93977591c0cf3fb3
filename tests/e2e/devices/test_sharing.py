"""Sharing in the cluster: NVIDIA's config, more pods than slices, refusals, and the change back."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster.container_kinds import with_containers
from support.cluster.kubectl import Cluster, until

Manifest = Callable[..., dict[str, Any]]
RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
pytestmark = pytest.mark.alone("control-plane")  # the policy applies to its pools, too


def share(cluster: Cluster, sharing: dict[str, Any] | None) -> None:
    patch = json.dumps({"spec": {"sharing": sharing}})
    cluster.kubectl("patch", "gpupolicy", "default", "--type=merge", "-p", patch)


def offered_resources(cluster: Cluster) -> set[str]:
    nodes = cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    return {node["status"]["allocatable"].get(RESOURCE, "") for node in nodes}


@pytest.fixture
def sharing_policy(whole_cluster: Cluster) -> Iterator[Cluster]:
    resources = [{"name": "nvidia.com/mig-1g.10gb", "replicas": 2}]
    slicing = {"failRequestsGreaterThanOne": True, "resources": resources}
    try:
        share(whole_cluster, {"timeSlicing": slicing})
        until(lambda: offered_resources(whole_cluster) == {"14"}, 60)
        yield whole_cluster
    finally:
        share(whole_cluster, None)
    until(lambda: offered_resources(whole_cluster) == {"7"}, 60)


def test_pods_share_slices_and_more_than_one_is_refused(
    sharing_policy: Cluster, namespace: Cluster, sample_pod: Manifest
) -> None:
    node = min(slice_["node"] for slice_ in sharing_policy.slices())
    names = [f"sharer-{number}" for number in range(8)]  # of seven slices
    for name in names:
        arguments = ("--n", "65536", "--hold", "600")
        namespace.apply(sample_pod(name, *arguments, node=node, small=True))
    for name in names:
        namespace.wait_pod(name, "Running", timeout_s=180)

    def holders() -> list[int]:
        here = (one for one in sharing_policy.slices() if one["node"] == node)
        return [len(one["holders"]) for one in here if one["profile"] == "1g.10gb"]

    until(lambda: sorted(holders()) == [1] * 6 + [2], 60)
    for name in names:
        until(lambda name=name: "results verified" in namespace.logs(name), 120)
    namespace.apply(with_containers(sample_pod("init", "--n", "1024", node=node), "init"))
    assert namespace.wait_pod("init")["status"]["phase"] == "Succeeded"
    greedy = sample_pod("greedy", node=node)
    greedy["spec"]["containers"][0]["resources"]["limits"] = {RESOURCE: 2}
    namespace.apply(greedy)
    failed = namespace.wait_pod("greedy", "Failed")["status"]
    assert failed["reason"] == "UnexpectedAdmissionError"
    assert "maximum request size for shared resources is 1; found 2" in failed["message"]


def test_a_contradiction_is_a_condition(whole_cluster: Cluster) -> None:
    both = {"resources": [{"name": "gpu", "replicas": 2}]}
    with pytest.raises(AssertionError, match="set exactly one of sharing"):
        share(whole_cluster, {"timeSlicing": both, "mps": both})
    share(whole_cluster, {"mps": {"resources": [{"name": "amd.com/gpu", "replicas": 2}]}})

    def degraded() -> list[str]:
        found = whole_cluster.get("gpupolicy", "default")["status"]["conditions"]
        return [c["reason"] for c in found if c["type"] == "Degraded" and c["status"] == "True"]

    try:
        until(lambda: degraded() == ["SharingConflict"])
    finally:
        share(whole_cluster, None)
