"""Whole GPUs and slices: programs run on whole GPUs, a layout drains them, they return; and the
strategy "single".

The tests use the second GPU of each node, which no layout of the demo selects.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster.kubectl import Cluster, layout_of, until

Manifest = Callable[..., dict[str, Any]]
GPU = "gpu.tessera.dev/gpu"
SMALL = "gpu.tessera.dev/mig-1g.10gb"
STRATEGY = "gpu.tessera.dev/mig.strategy.config"


def node_names(cluster: Cluster) -> list[str]:
    nodes = cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    return sorted(node["metadata"]["name"] for node in nodes)


def offered_count(cluster: Cluster, resource: str = GPU) -> dict[str, str]:
    nodes = cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    return {n["metadata"]["name"]: n["status"]["allocatable"].get(resource, "0") for n in nodes}


def asking(pod: dict[str, Any], limits: dict[str, int], **environment: str) -> dict[str, Any]:
    """Return the sample pod with these limits instead of its slice."""
    container = pod["spec"]["containers"][0]
    container["resources"]["limits"] = limits
    container["env"] = [{"name": name, "value": value} for name, value in environment.items()]
    return pod


@pytest.fixture
def whole(namespace: Cluster) -> Iterator[Cluster]:
    """The cluster with a whole GPU on each node, and a namespace for pods."""
    namespace.delete("miglayout", "mixed")
    one = dict.fromkeys(node_names(namespace), "1")
    until(lambda: offered_count(namespace) == one, 60)
    yield namespace
    namespace.delete("pods", "--all")
    namespace.delete("miglayout", "divides")
    until(lambda: offered_count(namespace) == one, 60)


@pytest.mark.backend
def test_a_pod_computes_on_a_whole_gpu(
    namespace: Cluster, sample_pod: Manifest, compute_node: str
) -> None:
    namespace.apply(asking(sample_pod("whole", "--n", "100001", node=compute_node), {GPU: 1}))
    pod = namespace.wait_pod("whole")
    logs = namespace.logs("whole").splitlines()
    assert pod["status"]["phase"] == "Succeeded", logs
    assert "100001 results verified" in logs
    assert "device   NVIDIA H100 80GB HBM3, compute capability 9.0" in logs
    assert "SMs      132" in logs
    assert any(line.startswith("memory   81559 MiB, ") for line in logs)
    (gpu,) = [
        g
        for g in namespace.get("gpus")["items"]
        if g["spec"]["nodeName"] == pod["spec"]["nodeName"] and g["spec"]["index"] == 1
    ]
    assert f"slice    {gpu['spec']['uuid'].removeprefix('GPU-')}" in logs
    assert (gpu["spec"]["migMode"], gpu["status"]["migMode"]) == ("Disabled", "Disabled")


def test_a_pod_with_a_gpu_and_a_slice_chooses_as_in_cuda(
    whole: Cluster, sample_pod: Manifest
) -> None:
    both = {GPU: 1, SMALL: 1}
    whole.apply(
        asking(sample_pod("slice", "--n", "1024"), both),
        asking(sample_pod("gpu", "--n", "1024"), both, CUDA_VISIBLE_DEVICES="1"),
    )
    for name, multiprocessors in (("slice", 16), ("gpu", 132)):
        assert whole.wait_pod(name)["status"]["phase"] == "Succeeded", whole.logs(name)
        assert f"SMs      {multiprocessors}" in whole.logs(name).splitlines()


def test_a_layout_drains_a_whole_gpu_and_gives_it_back(
    whole: Cluster, sample_pod: Manifest
) -> None:
    whole.apply(asking(sample_pod("holder", "--hold", "600", small=True), {GPU: 1}))
    node = whole.wait_pod("holder", "Running")["spec"]["nodeName"]
    holds = f"whole@0 is held by pod {whole.namespace}/holder"
    until(lambda: whole.get("gpu", f"{node}-gpu-1")["status"]["slicesUsed"] == 1)
    whole.apply(layout_of("2g.20gb", 3, "divides"))
    until(lambda: holds in whole.condition("miglayout/divides", "Ready").message)
    # The GPU without a holder is divided meanwhile: maxUnavailable counts only GPUs in use.
    others = set(node_names(whole)) - {node}
    small = "gpu.tessera.dev/mig-2g.20gb"
    until(lambda: all(offered_count(whole, small)[other] == "3" for other in others), 60)
    until(lambda: offered_count(whole)[node] == "0")
    assert whole.get("pod", "holder")["status"]["phase"] == "Running"
    whole.delete("pod", "holder")
    whole.kubectl("wait", "--for=condition=Ready", "miglayout/divides", "--timeout=60s")
    assert set(offered_count(whole, small).values()) == {"3"}
    assert whole.get("gpu", f"{node}-gpu-1")["status"]["migMode"] == "Enabled"


def test_single_offers_slices_as_gpus_where_all_are_alike(
    whole: Cluster, sample_pod: Manifest
) -> None:
    node = node_names(whole)[0]
    whole.kubectl("label", "node", node, f"{STRATEGY}=single")
    try:
        degraded = (f"gpu/{node}-gpu-0", "Degraded")
        until(lambda: whole.condition(*degraded).reason == "MixedProfiles")
        assert "1g.10gb, whole" in whole.condition(*degraded).message
        until(lambda: offered_count(whole)[node] == "0")
        whole.apply(layout_of("1g.10gb", 7, "divides"))
        until(lambda: offered_count(whole)[node] == "14", 60)
        whole.apply(asking(sample_pod("one", "--n", "1024", node=node), {GPU: 1}))
        assert whole.wait_pod("one")["status"]["phase"] == "Succeeded", whole.logs("one")
        assert "SMs      16" in whole.logs("one").splitlines()
    finally:
        whole.kubectl("label", "node", node, f"{STRATEGY}-")
    until(lambda: offered_count(whole, SMALL)[node] == "14", 60)


def test_the_strategy_label_must_be_one(whole: Cluster) -> None:
    node = node_names(whole)[0]
    whole.kubectl("label", "node", node, f"{STRATEGY}=twice")
    try:
        wrong = f"label {STRATEGY}=twice of node {node} is not one of none, single, mixed"
        until(lambda: wrong in whole.condition("gpupool/demo", "Ready").message)
    finally:
        whole.kubectl("label", "node", node, f"{STRATEGY}-")
    whole.kubectl("wait", "--for=condition=Ready", "gpupool/demo", "--timeout=60s")


def test_describe_node_reads_as_on_a_gpu_node(whole: Cluster) -> None:
    node = node_names(whole)[0]
    lines = [line.split() for line in whole.kubectl("describe", "node", node).splitlines()]
    for resource, count in ((GPU, "1"), (SMALL, "7")):
        listed = [line for line in lines if line[:1] == [f"{resource}:"]]
        assert [line[1] for line in listed] == [count, count], json.dumps(listed)
    assert "gpu.tessera.dev/mig.strategy=mixed" in {line[-1] for line in lines if line}
