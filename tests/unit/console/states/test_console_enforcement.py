"""Verdicts that rest on policies which nodes have yet to enforce are those of the future."""

from typing import Any

import pytest
from unit.console.test_console_pages import fetch

from benchmarks.console import synthetic
from benchmarks.console.synthetic import SyntheticCluster

PAIR = "from=training/w&to=training/weights-0"
KEY = "training/read-only-weights"


@pytest.fixture
def cluster() -> SyntheticCluster:
    """Return a cluster with a policy that every node enforces, and pods that it concerns."""
    cluster = SyntheticCluster()
    for space in ("training", "inference"):
        cluster.put("Namespace", {"metadata": {"name": space}})
    synthetic.add_rdma_pod(cluster, "training", "w", "worker")
    synthetic.add_rdma_pod(cluster, "training", "weights-0", "weights")
    synthetic.add_policies(cluster)
    for policy in cluster.objects["RDMANetworkPolicy"].values():
        report(policy, "True", "Programmed", "enforced on 2 of 2 nodes", "2/2")
    return cluster


def report(
    policy: dict[str, Any], status: str, reason: str, message: str, nodes: str, generation: int = 1
) -> None:
    policy["metadata"]["generation"] = 1
    condition = {
        "type": "Programmed",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": generation,
    }
    policy["status"] = {"conditions": [condition], "nodesReady": nodes}


def test_a_policy_in_force_denies_now(cluster: SyntheticCluster) -> None:
    text = fetch(cluster, "/rdma/explain", PAIR).text
    assert "<b>Write</b> denied" in text
    assert "DENIED: Write" in text
    assert "once programmed" not in text
    assert "enforced on 2 of 2 nodes" in text
    assert "Not every node enforces" not in fetch(cluster, "/rdma").text


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        ("False", "Pending", "not acknowledged yet by gpu-0001"),
        ("Unknown", "NodeSilent", "no heartbeat for 10 s: gpu-0001"),
    ],
)
def test_a_policy_that_a_node_has_yet_to_enforce_will_deny(
    cluster: SyntheticCluster, status: str, reason: str, message: str
) -> None:
    report(cluster.objects["RDMANetworkPolicy"][KEY], status, reason, message, "1/2")
    text = fetch(cluster, "/rdma/explain", PAIR).text
    assert "<b>Write</b> will be denied once programmed" in text
    assert "WILL BE DENIED ONCE PROGRAMMED: Write" in text
    assert f"Programmed={status} {reason}: {message}" in text
    assert "\n  so: " not in text
    assert "so, once programmed: the peer" in text
    page = fetch(cluster, "/rdma").text
    assert f"policy {KEY}: Programmed={status} {reason}: {message}" in page


def test_a_condition_of_an_older_version_of_the_policy_does_not_count(
    cluster: SyntheticCluster,
) -> None:
    policy = cluster.objects["RDMANetworkPolicy"][KEY]
    report(policy, "True", "Programmed", "enforced on 2 of 2 nodes", "2/2", generation=0)
    text = fetch(cluster, "/rdma/explain", PAIR).text
    assert "will be denied once programmed" in text
    assert "has not reported on this version of the policy yet" in text
