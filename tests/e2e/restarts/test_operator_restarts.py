"""The operator dies at bad moments: programs on the nodes are unaffected, and changes that it has
begun are finished.

Only profiles of the sample layouts are placed: others would stay in the nodes' status as 0 for
minutes, and other tests compare that status. Tests of RDMA and of other pools run meanwhile: they
wait for the operator longer than it is away.
"""

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster.kubectl import Cluster, layout_of, until

Manifest = Callable[..., dict[str, Any]]
SYSTEM = Cluster("tessera-system")


def operators() -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = SYSTEM.get("pods", "-l", "app.kubernetes.io/component=operator")[
        "items"
    ]
    return pods


def restarts() -> int:
    return sum(p["status"]["containerStatuses"][0]["restartCount"] for p in operators())


def kill_operator() -> None:
    """Send SIGKILL to the operator, from the node."""
    before = restarts()
    for pod in operators():
        node = pod["spec"]["nodeName"]
        command = ["docker", "exec", node, "pkill", "-KILL", "-f", "bin/tessera-operator( |$)"]
        subprocess.run(command, check=True, capture_output=True)
    until(lambda: restarts() > before)


@pytest.fixture
def cluster(namespace: Cluster) -> Iterator[Cluster]:
    namespace.delete("miglayout", "mixed")  # the sample would use the GPUs of this test
    # Use a new pod: the kubelet delays each restart of a pod that is killed repeatedly.
    SYSTEM.kubectl("rollout", "restart", "deployment/tessera-operator")
    SYSTEM.kubectl("rollout", "status", "deployment/tessera-operator", "--timeout=60s")
    until(lambda: len(operators()) == 1)
    yield namespace
    namespace.delete("pods", "--all")
    namespace.delete("miglayout", "e2e")


def gpus(cluster: Cluster) -> list[tuple[str, int, str]]:
    return [
        (g["metadata"]["uid"], g["metadata"]["generation"], str(g["spec"])) for g in cluster.gpus()
    ]


def node_pods() -> set[str]:
    pods = SYSTEM.get("pods", "-l", "app.kubernetes.io/component in (node, gpud)")["items"]
    return {pod["metadata"]["uid"] for pod in pods}


@pytest.mark.soak
def test_killed_at_rest_it_changes_nothing(cluster: Cluster, sample_pod: Manifest) -> None:
    cluster.apply(sample_pod("survivor", "--n", "1048576", "--seconds", "10"))
    cluster.wait_pod("survivor", "Running")
    before, agents = gpus(cluster), node_pods()
    kill_operator()
    SYSTEM.kubectl("rollout", "status", "deployment/tessera-operator", "--timeout=60s")
    ended = cluster.wait_pod("survivor")
    assert ended["status"]["phase"] == "Succeeded", cluster.logs("survivor")
    assert gpus(cluster) == before
    assert node_pods() == agents


def test_killed_in_the_middle_of_a_change_it_finishes_it(cluster: Cluster) -> None:
    cluster.apply(layout_of("2g.20gb", 3))
    kill_operator()
    cluster.kubectl("wait", "--for=condition=Ready", "miglayout/e2e", "--timeout=60s")
    cluster.apply(layout_of("3g.40gb", 2))
    kill_operator()
    cluster.kubectl("wait", "--for=condition=Ready", "miglayout/e2e", "--timeout=60s")


def test_what_was_deleted_while_it_was_away_is_cleared_up(cluster: Cluster) -> None:
    cluster.apply(layout_of("3g.40gb", 2))
    cluster.kubectl("wait", "--for=condition=Ready", "miglayout/e2e", "--timeout=60s")
    SYSTEM.kubectl("scale", "deployment/tessera-operator", "--replicas=0")
    until(lambda: not operators(), 60)
    cluster.delete("miglayout", "e2e")  # returns at once: layouts have no finalizer
    SYSTEM.kubectl("scale", "deployment/tessera-operator", "--replicas=1")
    until(lambda: not [s for s in cluster.slices() if s["profile"] == "3g.40gb"], 60)


def test_a_standby_takes_over(whole_cluster: Cluster) -> None:
    """With two replicas: when the active one is deleted, the other takes over."""
    SYSTEM.kubectl("scale", "deployment/tessera-operator", "--replicas=2")
    try:
        SYSTEM.kubectl("rollout", "status", "deployment/tessera-operator", "--timeout=60s")
        leader = SYSTEM.get("lease", "tessera-operator")["spec"]["holderIdentity"]
        SYSTEM.kubectl("delete", "pod", leader, "--force", "--grace-period=0")

        def replaced() -> bool:
            holder = SYSTEM.get("lease", "tessera-operator")["spec"].get("holderIdentity")
            return holder not in ("", None, leader)

        until(replaced, 40)
        whole_cluster.apply(layout_of("3g.40gb", 2))
        whole_cluster.kubectl("wait", "--for=condition=Ready", "miglayout/e2e", "--timeout=60s")
    finally:
        whole_cluster.delete("miglayout", "e2e")
        SYSTEM.kubectl("scale", "deployment/tessera-operator", "--replicas=1")
        SYSTEM.kubectl("rollout", "status", "deployment/tessera-operator", "--timeout=60s")
