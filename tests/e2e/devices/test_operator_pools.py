"""Pools on the real cluster: named conflicts, nodes that join and leave, what node agents may not
do.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster.control_plane import control_plane_of
from support.cluster.kubectl import Cluster, gpu_nodes, until

GPU_NODES = {"node-role.tessera.dev/gpu": ""}
AGENT = "system:serviceaccount:tessera-system:tessera-node"


def pool(name: str, board: str = "a30", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gpu.tessera.dev/v1alpha1",
        "kind": "GPUPool",
        "metadata": {"name": name},
        "spec": {"nodeSelector": GPU_NODES, "board": board, **spec},
    }


def events(cluster: Cluster, name: str) -> dict[str, str]:
    found = cluster.get("events", "--field-selector", f"involvedObject.name={name}")["items"]
    return {e["reason"]: e["type"] for e in found}


@pytest.fixture
def scratch(whole_cluster: Cluster) -> Iterator[Cluster]:
    yield whole_cluster
    whole_cluster.delete("gpupool", "e2e-pool")
    for node in gpu_nodes(whole_cluster):
        whole_cluster.kubectl("label", "node", node, "e2e-pool-")


def test_a_conflict_names_nodes_and_pool_and_changes_no_pod(scratch: Cluster) -> None:
    before = {g["metadata"]["name"]: g["metadata"]["uid"] for g in scratch.gpus()}
    scratch.apply(pool("e2e-pool"))
    until(lambda: scratch.condition("gpupool/e2e-pool", "Accepted").reason == "NodeConflict")
    message = scratch.condition("gpupool/e2e-pool", "Accepted").message
    for node in gpu_nodes(scratch):
        assert f"node {node} belongs to the older pool demo" in message
    assert scratch.get("gpupool", "e2e-pool")["status"]["conflicts"] == gpu_nodes(scratch)
    until(lambda: events(scratch, "e2e-pool").get("NodeConflict") == "Warning")
    after = {g["metadata"]["name"]: g["metadata"]["uid"] for g in scratch.gpus()}
    assert after == before
    # Tests of other lanes edit that pool and restart its agents meanwhile.
    until(lambda: scratch.condition("gpupool/demo", "Ready").status == "True", 90)


def test_an_unknown_board_lists_the_known_ones_and_touches_no_node(scratch: Cluster) -> None:
    scratch.apply(pool("e2e-pool", "h1000", nodeSelector={"e2e-pool": "yes"}))
    scratch.kubectl("label", "node", gpu_nodes(scratch)[0], "e2e-pool=yes")
    until(lambda: scratch.condition("gpupool/e2e-pool", "Accepted").reason == "UnknownBoard")
    message = scratch.condition("gpupool/e2e-pool", "Accepted").message
    assert "'h1000'" in message
    assert "rtx-pro-6000" in message
    assert not scratch.gpus("e2e-pool")


def test_a_node_that_joins_and_leaves_a_pool(scratch: Cluster) -> None:
    """The control plane's node: without GPUs, then with GPUs, then without again."""
    node = control_plane_of(scratch)
    scratch.apply(pool("e2e-pool", "a30", nodeSelector={"e2e-pool": "yes"}, count=2))
    until(lambda: scratch.condition("gpupool/e2e-pool", "Ready").reason == "NoNodes")
    scratch.kubectl("label", "node", node, "e2e-pool=yes")
    try:
        until(lambda: len(of_node(scratch, node)) == 2)
        labels = scratch.get("node", node)["metadata"]["labels"]
        assert labels["gpu.tessera.dev/gpu.product"] == "NVIDIA-A30"
        assert labels["gpu.tessera.dev/gpu.count"] == "2"
        assert len({g["spec"]["uuid"] for g in of_node(scratch, node)}) == 2
    finally:
        scratch.kubectl("label", "node", node, "e2e-pool-")
    until(lambda: not of_node(scratch, node), 60)
    until(lambda: not ours(scratch, node))


def of_node(cluster: Cluster, node: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("gpus", "-l", f"gpu.tessera.dev/node={node}")["items"]
    return found


def ours(cluster: Cluster, node: str) -> list[str]:
    labels = cluster.get("node", node)["metadata"]["labels"]
    return [key for key in labels if key.startswith("gpu.tessera.dev/")]


WRITE_STATUS = """
import sys
from device_plugin.kube.client import Kube
from gpu_operator.api.v1alpha1.gpu import GPUStatus
kube = Kube(sys.argv[1])
(gpu, *_) = kube.gpus()
kube.apply_status(gpu.name, gpu.status)
print("written")
"""


@pytest.mark.alone("first-node")
def test_a_node_agent_may_write_the_gpus_of_its_own_node_only(whole_cluster: Cluster) -> None:
    """From within an agent's pod, with the token that the kubelet bound to it."""
    own, other = gpu_nodes(whole_cluster)
    system = Cluster("tessera-system")
    (pod,) = (
        p["metadata"]["name"]
        for p in system.get("pods", "-l", "app.kubernetes.io/component=node")["items"]
        if p["spec"]["nodeName"] == own
    )
    write = ["exec", pod, "-c", "agent", "--", "python", "-c", WRITE_STATUS]
    assert "written" in system.kubectl(*write, own)
    with pytest.raises(AssertionError, match=f"its own node only; this one runs on '{own}'"):
        system.kubectl(*write, other)


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("delete", "gpus"),
        ("patch", "gpus"),
        ("get", "secrets"),
        ("list", "pods"),
        ("patch", "nodes"),
    ],
)
def test_a_node_agent_has_no_other_rights(whole_cluster: Cluster, verb: str, what: str) -> None:
    with pytest.raises(AssertionError):  # kubectl's exit status is the answer
        whole_cluster.kubectl("auth", "can-i", verb, what, f"--as={AGENT}")
