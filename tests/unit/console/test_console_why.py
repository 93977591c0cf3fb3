"""Why a pod waits: the obstacle of each node, and advice that one node can follow."""

import random

import pytest
from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster

ONE_G = "gpu.tessera.dev/mig-1g.10gb"


@pytest.fixture
def node() -> SyntheticCluster:
    """Return a cluster with one node of two H100s with seven slices, six of them held."""
    cluster = SyntheticCluster()
    synthetic.pool_of(cluster, "h100-80gb")
    synthetic.add_node(cluster, "n1", "h100-80gb", random.Random(1), alike=True, gpus=2)
    return cluster


def _lose_gpu(cluster: SyntheticCluster, allocatable: int) -> None:
    """Let a node report that it does not serve a GPU, and offer fewer slices."""
    status = cluster.objects["Node"]["n1"]["status"]
    status["conditions"][1] |= {
        "status": "False",
        "reason": "Unhealthy",
        "message": "n1-gpu-1: Xid 79",
    }
    status["allocatable"] = {ONE_G: str(allocatable)}


def test_a_node_with_one_lost_gpu_still_counts_the_slices_of_the_other(
    node: SyntheticCluster,
) -> None:
    for one in node.objects["GPU"]["n1-gpu-1"]["status"]["slices"]:
        one["holders"] = []
    for one in node.objects["GPU"]["n1-gpu-0"]["status"]["slices"][:4]:
        one["holders"] = []
    _lose_gpu(node, 7)
    synthetic.add_pending_pod(node, "ml", "small", {ONE_G: "1"})
    synthetic.add_pending_pod(node, "ml", "large", {ONE_G: "8"})
    assert "Room by this count" in fetch(node, "/why/ml/small").text
    text = fetch(node, "/why/ml/large").text
    assert "has fewer than requested: <bdi>5 of 7 free; Unhealthy: n1-gpu-1: Xid 79" in text
    assert "does not serve its GPUs" not in text


def test_a_node_that_offers_nothing_names_why_its_gpus_are_not_served(
    node: SyntheticCluster,
) -> None:
    _lose_gpu(node, 0)
    synthetic.add_pending_pod(node, "ml", "small", {ONE_G: "1"})
    synthetic.add_pending_pod(node, "ml", "other", {"gpu.tessera.dev/mig-3g.40gb": "1"})
    assert "does not serve its GPUs: <bdi>Unhealthy: n1-gpu-1" in fetch(node, "/why/ml/small").text
    assert "does not have this resource" in fetch(node, "/why/ml/other").text
