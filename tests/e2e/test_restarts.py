"""Parts of the node and of Tessera die; running pods do not notice, or end with a CUDA error."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from cluster import EXAMPLES, Cluster, in_node, until

Manifest = Callable[..., dict[str, Any]]
RUNNING_S = 12


def start(cluster: Cluster, sample_pod: Manifest, name: str) -> str:
    """Start a pod that computes for a while; returns its node once kernels are running."""
    cluster.apply(sample_pod(name, "--n", "1048576", "--seconds", str(RUNNING_S)))
    pod = cluster.wait_pod(name, "Running")
    until(lambda: "memory" in cluster.logs(name), 60)
    return str(pod["spec"]["nodeName"])


def worker_pid(node: str, pod_uid: str) -> str:
    """The process that computes for a pod, from gpud's own log; a PID of the node."""
    system = Cluster("tessera-system")
    agents = system.get("pods", "--field-selector", f"spec.nodeName={node}")["items"]
    (agent,) = (p for p in agents if "gpud" in [c["name"] for c in p["spec"]["containers"]])
    logs = system.kubectl("logs", agent["metadata"]["name"], "-c", "gpud")
    lines = (line for line in logs.splitlines() if "context_started" in line and pod_uid in line)
    (started,) = (json.loads(line[line.index("{") :]) for line in lines)
    return str(started["pid"])


def kill(node: str, program: str) -> None:
    in_node(node, "pkill", "-KILL", "-f", f"bin/{program}( |$)")


@pytest.mark.parametrize(
    "victim", ["kubelet", "device plugin", pytest.param("operator", marks=pytest.mark.soak)]
)
def test_running_pods_survive(namespace: Cluster, sample_pod: Manifest, victim: str) -> None:
    node = start(namespace, sample_pod, "survivor")
    if victim == "kubelet":
        in_node(node, "pkill", "-KILL", "-x", "kubelet")
    elif victim == "device plugin":
        kill(node, "tessera-device-plugin")
    else:
        pods = Cluster("tessera-system").get("pods", "-l", "app.kubernetes.io/component=operator")
        for pod in pods["items"]:
            kill(pod["spec"]["nodeName"], "tessera-operator")
    ended = namespace.wait_pod("survivor", timeout_s=RUNNING_S + 60)
    assert ended["status"]["phase"] == "Succeeded", namespace.logs("survivor")
    assert ended["status"]["containerStatuses"][0]["restartCount"] == 0
    namespace.apply(sample_pod("next", "--n", "1024"))
    assert namespace.wait_pod("next")["status"]["phase"] == "Succeeded"


def test_after_gpud_is_killed_the_next_pod_works(namespace: Cluster, sample_pod: Manifest) -> None:
    node = start(namespace, sample_pod, "running")
    kill(node, "tessera-gpud")
    ended = namespace.wait_pod("running", timeout_s=RUNNING_S + 60)
    logs = namespace.logs("running")
    clean_error = "CUDA_ERROR" in logs and "verified" not in logs
    assert ended["status"]["phase"] == "Succeeded" or clean_error, logs
    namespace.apply(sample_pod("next", "--n", "1024", node=node))
    assert namespace.wait_pod("next")["status"]["phase"] == "Succeeded", namespace.logs("next")


@pytest.mark.backend
def test_a_kernel_that_faults_ends_alone(namespace: Cluster, sample_pod: Manifest) -> None:
    """A store through a null pointer: error 700 for its own pod, an event, no harm next door."""
    ptx = (EXAMPLES / "vecadd.ptx").read_text()
    bad = ptx.replace("add.s64 \t%rd1, %rd6, %rd10;", "mov.u64 \t%rd1, 64;")
    assert bad != ptx
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ptx"},
        "data": {"vecadd.ptx": bad},
    }
    node = start(namespace, sample_pod, "neighbour")
    arguments = ("--n", "1024", "--ptx", "/files/vecadd.ptx")
    namespace.apply(config, sample_pod("faulty", *arguments, files="ptx", node=node))
    assert namespace.wait_pod("faulty")["status"]["phase"] == "Failed"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in namespace.logs("faulty")

    def faulted() -> list[str]:
        events = namespace.get("events", "--field-selector", "involvedObject.name=faulty")["items"]
        return [e["message"] for e in events if e["reason"] == "Faulted"]

    assert any("vecadd" in message for message in until(faulted, 30))
    ended = namespace.wait_pod("neighbour", timeout_s=RUNNING_S + 60)
    assert ended["status"]["phase"] == "Succeeded", namespace.logs("neighbour")


@pytest.mark.backend
def test_nothing_is_computed_without_the_worker(namespace: Cluster, sample_pod: Manifest) -> None:
    """With its worker stopped a program waits, however long; it goes on when the worker does."""
    node = start(namespace, sample_pod, "waiting")
    worker = worker_pid(node, namespace.get("pod", "waiting")["metadata"]["uid"])
    in_node(node, "kill", "-STOP", worker)
    time.sleep(RUNNING_S + 5)
    assert namespace.get("pod", "waiting")["status"]["phase"] == "Running"
    assert "kernels" not in namespace.logs("waiting")
    in_node(node, "kill", "-CONT", worker)
    assert namespace.wait_pod("waiting")["status"]["phase"] == "Succeeded"
    assert "1048576 results verified" in namespace.logs("waiting")


def gpu_node(cluster: Cluster) -> str:
    nodes = cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    return str(min(node["metadata"]["name"] for node in nodes))


def wave(cluster: Cluster, sample_pod: Manifest, node: str, count: int) -> None:
    """Make pods for one node, a tenth of a second apart, and see each of them succeed."""
    names = [f"wave-{number}" for number in range(count)]
    for name in names:
        cluster.apply(sample_pod(name, "--n", "1024", node=node))
    for name in names:
        pod = cluster.wait_pod(name)
        assert pod["status"]["phase"] == "Succeeded", pod["status"]


def test_no_pod_fails_while_the_node_s_agent_is_replaced(
    namespace: Cluster, sample_pod: Manifest
) -> None:
    system = Cluster("tessera-system")
    node = gpu_node(namespace)
    on_it = ("-l", "app.kubernetes.io/component=node", "--field-selector", f"spec.nodeName={node}")
    system.kubectl("delete", "pod", *on_it, "--wait=false")
    wave(namespace, sample_pod, node, 6)


def test_no_pod_fails_after_the_agent_is_killed(namespace: Cluster, sample_pod: Manifest) -> None:
    node = gpu_node(namespace)
    in_node(node, "pkill", "-KILL", "-x", "tessera-agent")
    wave(namespace, sample_pod, node, 3)


def test_no_pod_fails_after_the_kubelet_restarts(namespace: Cluster, sample_pod: Manifest) -> None:
    node = gpu_node(namespace)
    in_node(node, "systemctl", "restart", "kubelet")
    wave(namespace, sample_pod, node, 3)
