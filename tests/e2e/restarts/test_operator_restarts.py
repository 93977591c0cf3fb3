"""The operator dies at bad moments: programs on the nodes are unaffected, and changes that it has
begun are finished.

Layouts change on two GPUs of a pool of the control plane's node. Tests of RDMA and of the demo's GPUs
run meanwhile: they wait for the operator longer than it is away.
"""

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster.control_plane import control_plane_pool
from support.cluster.kubectl import Cluster, layout_of, until

pytestmark = pytest.mark.alone("control-plane")
POOL = NAME = "e2e-restarts"
LAYOUT = f"miglayout/{NAME}"

Manifest = Callable[..., dict[str, Any]]
SYSTEM = Cluster("tessera-system")


def layout(profile: str, count: int) -> dict[str, Any]:
    """Return a layout of both GPUs of the pool."""
    return layout_of(profile, count, NAME, pool=POOL, indices=(0, 1))


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


@pytest.fixture(scope="module")
def pool(whole_cluster: Cluster) -> Iterator[Cluster]:
    settings = {"board": "h100-80gb", "count": 2, "nodeBudget": "2Gi"}
    with control_plane_pool(whole_cluster, POOL, **settings):
        yield whole_cluster


@pytest.fixture
def cluster(namespace: Cluster, pool: Cluster) -> Iterator[Cluster]:
    # Use a new pod: the kubelet delays each restart of a pod that is killed repeatedly.
    SYSTEM.kubectl("rollout", "restart", "deployment/tessera-operator")
    SYSTEM.kubectl("rollout", "status", "deployment/tessera-operator", "--timeout=60s")
    until(lambda: len(operators()) == 1)
    yield namespace
    namespace.delete("pods", "--all")
    namespace.delete("miglayout", NAME)


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
    cluster.apply(layout("2g.20gb", 3))
    kill_operator()
    cluster.kubectl("wait", "--for=condition=Ready", LAYOUT, "--timeout=60s")
    cluster.apply(layout("3g.40gb", 2))
    kill_operator()
    cluster.kubectl("wait", "--for=condition=Ready", LAYOUT, "--timeout=60s")


def test_what_was_deleted_while_it_was_away_is_cleared_up(cluster: Cluster) -> None:
    cluster.apply(layout("3g.40gb", 2))
    cluster.kubectl("wait", "--for=condition=Ready", LAYOUT, "--timeout=60s")
    SYSTEM.kubectl("scale", "deployment/tessera-operator", "--replicas=0")
    until(lambda: not operators(), 60)
    cluster.delete("miglayout", NAME)  # returns at once: layouts have no finalizer
    SYSTEM.kubectl("scale", "deployment/tessera-operator", "--replicas=1")
    until(lambda: not [s for s in cluster.slices(POOL) if s["profile"] == "3g.40gb"], 60)


def test_a_standby_takes_over(pool: Cluster) -> None:
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
        pool.apply(layout("3g.40gb", 2))
        pool.kubectl("wait", "--for=condition=Ready", LAYOUT, "--timeout=60s")
    finally:
        pool.delete("miglayout", NAME)
        SYSTEM.kubectl("scale", "deployment/tessera-operator", "--replicas=1")
        SYSTEM.kubectl("rollout", "status", "deployment/tessera-operator", "--timeout=60s")
