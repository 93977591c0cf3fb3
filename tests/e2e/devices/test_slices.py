"""Slices are counted, held and released, according to the cluster's own scheduler and kubelet."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support.cluster.container_kinds import with_containers
from support.cluster.kubectl import Cluster, until

Manifest = Callable[..., dict[str, Any]]
RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
AT_A_SIGN = 'until [ -e /tmp/go ]; do sleep 0.1; done; exec "$0" "$@"'


def gpu_node(cluster: Cluster) -> str:
    nodes = cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    return str(min(node["metadata"]["name"] for node in nodes))


def processes(cluster: Cluster, node: str) -> list[dict[str, Any]]:
    """Return all CUDA contexts on a node, as reported by its gpud."""
    pods = cluster.get("pods", "-A", "-l", "app.kubernetes.io/component=gpud")["items"]
    (pod,) = [pod for pod in pods if pod["spec"].get("nodeName") == node]
    said = cluster.kubectl(
        "-n",
        pod["metadata"]["namespace"],
        "exec",
        pod["metadata"]["name"],
        "-c",
        "gpud",
        "--",
        "tessera",
        "smi",
        "--json",
    )
    gpus = json.loads(said)["gpus"]
    return [p for gpu in gpus for device in gpu["devices"] for p in device["processes"]]


def test_containers_of_every_kind_compute_on_their_slices(
    namespace: Cluster, sample_pod: Manifest
) -> None:
    """The kubelet lists no devices of init containers that end before the others start."""
    node = gpu_node(namespace)
    pods = {
        "init": ("init",),
        "inits": ("init", "init"),
        "restarted": ("restarted",),
        "sidecar": ("sidecar", "main"),
        "more": ("init", "main"),
    }
    for name, kinds in pods.items():
        pod = with_containers(sample_pod(name, "--n", "1024", node=node, small=True), *kinds)
        if name == "more":  # the main container gets one of the init container's three
            pod["spec"]["initContainers"][0]["resources"] = {"limits": {RESOURCE: 3}}
        namespace.apply(pod)
    for name, kinds in pods.items():
        assert namespace.wait_pod(name)["status"]["phase"] == "Succeeded", namespace.logs(name)
        for number, kind in enumerate(one for one in kinds if one != "main"):
            logs = namespace.kubectl("logs", name, "-c", f"{kind}-{number}")
            assert "1024 results verified" in logs


def test_seven_pods_fill_a_gpu_and_the_eighth_waits_its_turn(
    namespace: Cluster, sample_pod: Manifest
) -> None:
    node = gpu_node(namespace)
    names = [f"tenant-{i}" for i in range(7)]
    for seed, name in enumerate(names):
        arguments = ("--n", "65536", "--seed", str(seed), "--seconds", "25", "--hold", "600")
        pod = sample_pod(name, *arguments, node=node, small=True)
        container = pod["spec"]["containers"][0]
        container["command"] = ["sh", "-c", AT_A_SIGN, *container["command"]]
        namespace.apply(pod)
    for name in names:
        namespace.wait_pod(name, "Running")
    with ThreadPoolExecutor(len(names)) as pool:  # however long the pods took to start
        list(
            pool.map(lambda name: namespace.kubectl("exec", name, "--", "touch", "/tmp/go"), names)
        )
    for name in names:
        until(lambda name=name: "65536 results verified" in namespace.logs(name), 120)

    def held() -> bool:
        holders = [h["name"] for s in namespace.slices() for h in s.get("holders", [])]
        return sorted(h for h in holders if h in names) == names

    until(held)
    results = {
        line for name in names for line in namespace.logs(name).splitlines() if "first" in line
    }
    assert len(results) == 7, "seven seeds must give seven different results"
    spans = [
        (process["first_launch_ns"], process["last_launch_ns"])
        for process in processes(namespace, node)
        if process["holder"].split("/")[-1] in names
    ]
    assert len(spans) == 7
    assert max(first for first, _ in spans) < min(last for _, last in spans), (
        f"the seven pods' kernels did not run side by side: {spans}"
    )

    namespace.apply(sample_pod("eighth", "--n", "1024", node=node, small=True))

    def refused() -> str | None:
        for condition in namespace.get("pod", "eighth")["status"].get("conditions", []):
            if condition.get("reason") == "Unschedulable":
                return str(condition["message"])
        return None

    assert f"Insufficient {RESOURCE}" in until(refused)
    assert namespace.wait_pod("eighth", "Pending")
    namespace.delete("pod", names[3])
    assert namespace.wait_pod("eighth")["status"]["phase"] == "Succeeded"
