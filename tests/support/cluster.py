"""The cluster as tests see it: kubectl, with JSON in and out, and waiting with a reason."""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
DONE = ("Succeeded", "Failed")
# The API server never saw such a request: a busy machine was slow to connect.
NOT_SENT = ("TLS handshake timeout", "dial tcp", "connection refused")
SENT_WITHIN_S = 60


@dataclass(frozen=True, slots=True)
class Cluster:
    """kubectl bound to one namespace."""

    namespace: str = "default"

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl; raises AssertionError with its own message where it fails.

        What the API server has answered is final; what did not reach it is tried again.
        """
        command = ["kubectl", "-n", self.namespace, *arguments]
        end = time.monotonic() + SENT_WITHIN_S
        while True:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=240)
            unsent = done.returncode and any(reason in done.stderr for reason in NOT_SENT)
            if not unsent or time.monotonic() > end:
                break
            time.sleep(1)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """Return what ``kubectl get -o json`` prints; None where it prints nothing."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json") or "null")

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Apply objects."""
        items = {"apiVersion": "v1", "kind": "List", "items": manifests}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def delete(self, *arguments: str) -> None:
        """Delete objects, and wait for it; absent ones are fine."""
        self.kubectl("delete", "--ignore-not-found", "--wait", *arguments)

    def wait_pod(self, name: str, *phases: str, timeout_s: float = 120) -> dict[str, Any]:
        """Wait until a pod is in one of the phases (default: has ended) and return it."""
        wanted = phases or DONE

        def pod_there() -> dict[str, Any] | None:
            pod: dict[str, Any] = self.get("pod", name)
            return pod if pod["status"]["phase"] in wanted else None

        try:
            return until(pod_there, timeout_s)
        except TimeoutError:
            described = self.kubectl("describe", "pod", name)
            raise AssertionError(f"{name} is not {wanted} in {timeout_s} s\n{described}") from None

    def logs(self, name: str) -> str:
        """Return what a pod's container has printed."""
        return self.kubectl("logs", name)

    def slices(self) -> list[dict[str, Any]]:
        """All slices in the cluster as the GPUs' status has them, each with its ``node``."""
        return [
            {**item, "node": gpu["spec"]["nodeName"], "gpu": gpu["metadata"]["name"]}
            for gpu in self.get("gpus")["items"]
            for item in gpu.get("status", {}).get("slices", [])
        ]

    def offered_slices(self) -> list[dict[str, str]]:
        """For each GPU node what its status offers: profile to count."""
        nodes = self.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
        return [
            {
                resource.removeprefix("gpu.tessera.dev/mig-"): count
                for resource, count in node["status"]["allocatable"].items()
                if resource.startswith("gpu.tessera.dev/mig-")
            }
            for node in nodes
        ]


def in_node(node: str, *command: str) -> str:
    """Run a command inside a kind node, which is a container of the host's Docker engine."""
    done = subprocess.run(["docker", "exec", node, *command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command} in {node}: {done.stderr}"
    return done.stdout


def until(check: Callable[[], Any], timeout_s: float, every_s: float = 0.3) -> Any:
    """Return the first result of ``check`` that is true; raises TimeoutError."""
    end = time.monotonic() + timeout_s
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(every_s)
