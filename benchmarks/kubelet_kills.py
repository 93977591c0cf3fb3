"""``python -m benchmarks.kubelet_kills``: pods that fail when ``tessera-kubelet`` is killed.

A queue of pods waits for slices of one node of a kind cluster, and the process that serves the
kubelet, or its container's main process, is killed there again and again. By default, each pod runs
for a second, so that the kubelet admits pods all the time. The period at which the kubelet reports
the node's status is printed, because until its next report the scheduler sends pods to slices that
the kubelet has marked unhealthy.

Requires a configuration for the cluster (KUBECONFIG), and docker for the node.
"""

import argparse
import json
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from threading import Thread
from typing import Any

from kubernetes import client, config

RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
IMAGE = "tessera.local/tessera-sample:demo"
_NAMESPACE = "default"
_LABEL = "tessera.dev/benchmark"
_SERVING = "pgrep -x tessera-kubelet"
_VICTIMS = {"tessera-kubelet": _SERVING, "main": f'ps -o ppid= -p "$({_SERVING})"'}
"""How a shell finds the process that serves the kubelet, or the main process of its container."""
_FIND_S = 1.0
_LOOK_S = 0.2
_SETTLE_S = 10.0


class Queue:
    """Pods that wait for slices of a node, and the outcomes of those that have ended."""

    def __init__(self, core: client.CoreV1Api, node: str, length: int, seconds: float) -> None:
        self.outcomes: Counter[str] = Counter()
        self._core = core
        self._node = node
        self._length = length
        self._seconds = seconds
        self._run = uuid.uuid4().hex[:6]
        self._created = 0

    def refill(self) -> None:
        """Count and delete the pods that have ended, and create as many as the queue lacks."""
        waiting = 0
        for pod in self._pods():
            status = pod.status
            if pod.metadata.deletion_timestamp is None and status.phase in ("Succeeded", "Failed"):
                succeeded = status.phase == "Succeeded"
                self.outcomes["Succeeded" if succeeded else _failure(status)] += 1
                self._delete(pod.metadata.name)
            waiting += pod.spec.node_name is None
        for _ in range(self._length - waiting):
            self._create()

    def delete_all(self) -> None:
        """Delete the pods that are left."""
        for pod in self._pods():
            self._delete(pod.metadata.name)

    def _pods(self) -> list[Any]:
        selector = f"{_LABEL}={self._run}"
        pods: list[Any] = self._core.list_namespaced_pod(_NAMESPACE, label_selector=selector).items
        return pods

    def _delete(self, name: str) -> None:
        self._core.delete_namespaced_pod(name, _NAMESPACE, grace_period_seconds=0)

    def _create(self) -> None:
        self._created += 1
        name = f"bench-{self._run}-{self._created}"
        container = {
            "name": "main",
            "image": IMAGE,
            "command": ["sleep", str(self._seconds)],
            "resources": {"limits": {RESOURCE: "1"}},
        }
        spec = {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": self._node},
            "containers": [container],
        }
        metadata = {"name": name, "labels": {_LABEL: self._run}}
        self._core.create_namespaced_pod(_NAMESPACE, {"metadata": metadata, "spec": spec})


def _failure(status: Any) -> str:
    """Return why a pod failed: the kubelet's reason, or the end of its container."""
    if status.reason:
        return f"{status.reason}: {status.message}"
    ends = [container.state.terminated for container in status.container_statuses or ()]
    return "; ".join(f"{end.reason} {end.exit_code}: {end.message}" for end in ends if end)


def status_period(core: client.CoreV1Api, node: str) -> str:
    """Return the kubelet's ``nodeStatusUpdateFrequency``."""
    text = core.connect_get_node_proxy_with_path(node, "configz", _preload_content=False).data
    period: str = json.loads(text)["kubeletconfig"]["nodeStatusUpdateFrequency"]
    return period


def _kill(node: str, victim: str, count: int, every_s: float) -> None:
    """Kill a process at times that do not depend on those at which the queue is filled.

    A shell that was started before sends the signal: what starts a program on the node at that
    moment takes CPU time from the processes that are measured.
    """
    loop = f'while read -r _; do pid=$({_VICTIMS[victim]}); read -r _; kill -KILL "$pid"; done'
    command = ["docker", "exec", "-i", node, "sh", "-c", loop]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as shell:
        assert shell.stdin is not None
        for _ in range(count):
            time.sleep(random.uniform(0.5, 1.5) * every_s - _FIND_S)
            print(file=shell.stdin, flush=True)
            time.sleep(_FIND_S)
            print(file=shell.stdin, flush=True)
    time.sleep(_SETTLE_S)


def main() -> int:
    """Exit status: 0 if at most one of 100 pods failed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kubelet_kills", description=__doc__)
    parser.add_argument("--node", default="tessera-worker", help="the node, a container of docker")
    parser.add_argument("--victim", choices=_VICTIMS, default="tessera-kubelet")
    parser.add_argument("--kills", type=int, default=10, help="how often (default: %(default)s)")
    parser.add_argument("--every", type=float, default=10.0, help="mean seconds between two kills")
    parser.add_argument("--queue", type=int, default=30, help="pods that wait (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a pod runs (1)")
    options = parser.parse_args()
    config.load_kube_config()
    core = client.CoreV1Api()
    period = status_period(core, options.node)
    print(f"{options.node}: nodeStatusUpdateFrequency {period}", flush=True)
    queue = Queue(core, options.node, options.queue, options.seconds)
    arguments = (options.node, options.victim, options.kills, options.every)
    kills = Thread(target=_kill, args=arguments, daemon=True)
    try:
        queue.refill()
        kills.start()
        while kills.is_alive():
            queue.refill()
            time.sleep(_LOOK_S)
    finally:
        queue.delete_all()
    total = queue.outcomes.total()
    failed = total - queue.outcomes["Succeeded"]
    print(f"{options.kills} kills of {options.victim}, {total} pods, {failed} failed")
    for outcome, count in queue.outcomes.most_common():
        print(f"{count:5} {outcome}")
    return 0 if total and failed * 100 <= total else 1


if __name__ == "__main__":
    sys.exit(main())
