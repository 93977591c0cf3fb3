"""The policy: an edit by hand stays, is named, and is ready when the nodes offer what it says."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster import Cluster, until

OTHER = "nvidia.com"  # with it existing manifests run unchanged


def edit(cluster: Cluster, prefix: str) -> None:
    """Change the prefix as a person would, and wait as the documentation says."""
    patch = f'{{"spec": {{"resourcePrefix": "{prefix}"}}}}'
    cluster.kubectl("patch", "gpupolicy", "default", "--type=merge", "-p", patch)
    wait = ["wait", "--for=condition=Ready", "gpupolicy/default", "miglayout/seven"]
    cluster.kubectl(*wait, "--timeout=150s")


def computes(cluster: Cluster, pod: dict[str, Any]) -> None:
    """Run a pod that asks for nvidia.com/gpu to its end."""
    pod["spec"]["containers"][0]["resources"]["limits"] = {f"{OTHER}/gpu": 1}
    cluster.apply(pod)
    name = pod["metadata"]["name"]
    ended = cluster.wait_pod(name)["status"]["phase"]
    assert ended == "Succeeded", cluster.logs(name)
    assert "SMs      132" in cluster.logs(name).splitlines()


@pytest.fixture
def edited(whole_cluster: Cluster) -> Iterator[Cluster]:
    edit(whole_cluster, OTHER)
    yield whole_cluster
    edit(whole_cluster, "gpu.tessera.dev")


def test_an_edited_prefix_is_named_and_ready_when_nodes_offer_it(
    edited: Cluster, namespace: Cluster, sample_pod: Callable[..., dict[str, Any]]
) -> None:
    nodes: list[dict[str, Any]] = edited.get("nodes", "-l", "gpu.tessera.dev/pool=demo")["items"]
    assert [n["status"]["allocatable"].get(f"{OTHER}/mig-1g.10gb") for n in nodes] == ["7", "7"]
    accepted = edited.condition("gpupolicy/default", "Accepted")
    assert accepted[:2] == ("True", "Overridden")
    assert f"resourcePrefix is {OTHER}, the chart's gpu.tessera.dev is not" in accepted[2]
    assert edited.get("gpupool", "demo")["status"]["resourcePrefix"] == OTHER
    events = edited.get("events", "--field-selector", "involvedObject.name=default")["items"]
    assert "Overridden" in {event["reason"] for event in events}
    until(lambda: edited.condition("gpupolicy/default", "Ready").status == "True", 5)
    computes(namespace, sample_pod("unchanged", "--n", "1024"))
