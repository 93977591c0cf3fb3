"""Access to the cluster for tests: kubectl, with JSON in and out, and waiting with a reason."""

import contextlib
import functools
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from support.cluster import api_reader, api_writer

EXAMPLES = Path(__file__).parents[3] / "examples"
SMALL = (Path(__file__).parents[1] / "scripts" / "small_vecadd.py").read_text()
"""A program for ``python -c`` in the sample's image that adds vectors as the sample does."""
SYSTEM = "tessera-system"
SAMPLE_IMAGE = "tessera.local/tessera-sample:demo"
POOL = "demo"
"""The pool of the samples, in which most tests use GPUs."""
DONE = ("Succeeded", "Failed")
# Nothing has happened yet: a busy machine was slow to connect to the API server, or the container
# runtime failed to start ``kubectl exec``'s command.
NOT_BEGUN = (
    *("TLS handshake timeout", "dial tcp", "connection refused"),
    *("was refused - did you specify the right host", "error executing setns"),
)
SENT_WITHIN_S = 60
SOON_S = 60
"""The bound of a wait for what follows at once on a quiet machine, if users are promised no time."""
_LAST_LINES = 40
_FORWARDED = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


class Condition(NamedTuple):
    """A condition of an object; all fields are empty if it has none of that type."""

    status: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """kubectl bound to one namespace."""

    namespace: str = "default"

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl. Raises AssertionError with its own message if it fails.

        An answer of the API server is final; a request that did not reach it is repeated, and so is
        a command that a container's runtime failed to start.
        """
        command = ["kubectl", "-n", self.namespace, *arguments]
        end = time.monotonic() + SENT_WITHIN_S
        while True:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=240)
            not_begun = done.returncode and any(reason in done.stderr for reason in NOT_BEGUN)
            if not not_begun or time.monotonic() > end:
                break
            time.sleep(1)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """Return the output of ``kubectl get -o json``; None if there is none.

        Raises AssertionError with kubectl's message if there is no such object.
        """
        query = api_reader.parse(self.namespace, arguments)
        found = api_reader.read(query) if query else None
        if found is not None:
            return found
        return json.loads(self.kubectl("get", *arguments, "-o", "json") or "null")

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Create objects; those that exist get the fields of the manifests.

        Raises AssertionError with the API server's message if it refuses one.
        """
        for one in manifests:
            self._write(functools.partial(api_writer.apply, self.namespace, one))

    def delete(self, *arguments: str) -> None:
        """Delete objects, and wait until they are gone; absent ones are ignored."""
        chosen = api_writer.parse_deletion(self.namespace, arguments)
        if chosen is None:
            self.kubectl("delete", "--ignore-not-found", "--wait", *arguments)
        else:
            self._write(functools.partial(api_writer.delete, chosen))

    def _write(self, request: Callable[[], None]) -> None:
        """Perform an idempotent request; repeat it while it does not reach the API server."""
        end = time.monotonic() + SENT_WITHIN_S
        while True:
            try:
                request()
                return
            except (api_writer.RefusedError, ApiException) as error:
                raise AssertionError(str(error)) from error
            except (ConfigException, HTTPError, OSError) as error:
                if isinstance(error, TimeoutError) or time.monotonic() > end:
                    raise
                time.sleep(1)

    def wait_pod(self, name: str, *phases: str, timeout_s: float = 120) -> dict[str, Any]:
        """Wait until a pod is in one of the phases (default: has ended) and return it.

        If it is not in time, the error has the output of every pod of the namespace: a program
        often waits for one in another pod.
        """
        wanted = phases or DONE

        def pod_there() -> dict[str, Any] | None:
            pod: dict[str, Any] = self.get("pod", name)
            return pod if pod["status"]["phase"] in wanted else None

        try:
            return until(pod_there, timeout_s)
        except TimeoutError:
            late = f"{name} is not {wanted} in {timeout_s * _PATIENCE} s"
            parts = (late, self.kubectl("describe", "pod", name), self.last_lines())
            raise AssertionError("\n".join(parts)) from None

    def last_lines(self) -> str:
        """Return the last lines that each pod of the namespace has printed."""
        shown = []
        for one in self.get("pods")["items"]:
            name = one["metadata"]["name"]
            last = ("--all-containers", "--prefix", "--ignore-errors", f"--tail={_LAST_LINES}")
            try:
                said = self.kubectl("logs", name, *last)
            except AssertionError as error:  # it has not started, or has gone
                said = str(error)
            shown.append(f"-- output of {name}, {one['status']['phase']}:\n{said}")
        return "\n".join(shown)

    def logs(self, name: str) -> str:
        """Return the output of a pod's container."""
        found = api_reader.read_log(self.namespace, name)
        return self.kubectl("logs", name) if found is None else found

    def condition(self, what: str, wanted: str) -> Condition:
        """Return a condition of an object (``kind/name``) that refers to its current generation."""
        found = self.get(what)
        now = found["metadata"]["generation"]
        for one in found.get("status", {}).get("conditions", []):
            if one["type"] == wanted and one.get("observedGeneration", now) == now:
                return Condition(one["status"], one["reason"], one["message"])
        return Condition()

    def wait_for_event(self, name: str, reason: str, text: str = "") -> None:
        """Wait for an event with a reason on an object of this name whose message has this text.

        Controllers post events in the background, after they have written the state that causes
        them. Raises TimeoutError.
        """
        chosen = f"--field-selector=involvedObject.name={name},reason={reason}"

        def posted() -> bool:
            found = self.get("events", chosen)["items"]
            return any(text in event.get("message", "") for event in found)

        until(posted)

    def gpus(self, pool: str = POOL) -> list[dict[str, Any]]:
        """Return the GPUs of a pool, by default of the demo's."""
        found: list[dict[str, Any]] = self.get("gpus")["items"]
        return [one for one in found if one["spec"]["pool"] == pool]

    def slices(self, pool: str = POOL) -> list[dict[str, Any]]:
        """Return all slices of a pool, from its GPUs' status, each with its ``node``."""
        return [
            {**item, "node": gpu["spec"]["nodeName"], "gpu": gpu["metadata"]["name"]}
            for gpu in self.gpus(pool)
            for item in gpu.get("status", {}).get("slices", [])
        ]

    def offered_slices(self) -> list[dict[str, str]]:
        """Return the resources in the status of each GPU node: profile to count, 0 for removed
        ones.
        """
        nodes = self.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
        return [
            {
                resource.removeprefix("gpu.tessera.dev/mig-"): count
                for resource, count in node["status"]["allocatable"].items()
                if resource.startswith("gpu.tessera.dev/mig-")
            }
            for node in nodes
        ]


def gpu_nodes(cluster: Cluster) -> list[str]:
    """Return the names of the GPU nodes, in order."""
    nodes = cluster.get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    return sorted(str(one["metadata"]["name"]) for one in nodes)


def without_gone(nodes: list[dict[str, str]]) -> list[dict[str, str]]:
    """Remove from each node's resources the removed ones, which the kubelet still lists as 0."""
    return [{name: n for name, n in node.items() if n != "0"} for node in nodes]


def layout_of(
    profile: str,
    count: int,
    name: str = "e2e",
    *,
    pool: str = POOL,
    indices: Sequence[int] = (1,),
    **rollout: Any,
) -> dict[str, Any]:
    """Return a MIGLayout with ``count`` instances of a profile on these GPUs of each node of a
    pool, by default each second GPU of the demo's pool.
    """
    return {
        "apiVersion": "gpu.tessera.dev/v1alpha1",
        "kind": "MIGLayout",
        "metadata": {"name": name},
        "spec": {
            "selector": {"pool": pool, "indices": list(indices)},
            "instances": [{"profile": profile, "count": count}],
            "rollout": rollout,
        },
    }


def in_node(node: str, *command: str) -> str:
    """Run a command inside a kind node, which is a container of the host's Docker engine."""
    done = subprocess.run(["docker", "exec", node, *command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command} in {node}: {done.stderr}"
    return done.stdout


def pod_of(cluster: Cluster, component: str, node: str) -> str:
    """Return the name of Tessera's pod of a component on a node."""
    pods = cluster.get("pods", "-n", SYSTEM, "-l", f"app.kubernetes.io/component={component}")
    (name,) = (
        one["metadata"]["name"] for one in pods["items"] if one["spec"].get("nodeName") == node
    )
    return str(name)


@contextlib.contextmanager
def forward_port(
    pod: str, port: int, namespace: str = SYSTEM, path: str = "/metrics"
) -> Iterator[str]:
    """Forward a local port to a pod, as users do; yield its address, by default of metrics."""
    command = ["kubectl", "-n", namespace, "port-forward", f"pod/{pod}", f":{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            found = _FORWARDED.match(running.stdout.readline())
            assert found is not None
            yield f"http://127.0.0.1:{found[1]}{path}"
        finally:
            running.terminate()


_PATIENCE = 2


def until(
    check: Callable[[], Any],
    timeout_s: float = SOON_S,
    every_s: float = 0.3,
    *,
    promised: bool = False,
) -> Any:
    """Return the first true result of ``check``. Raises TimeoutError.

    ``timeout_s`` suffices if nothing else uses the machine; a busy machine gets twice as long,
    unless users are ``promised`` that time.
    """
    end = time.monotonic() + timeout_s * (1 if promised else _PATIENCE)
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(every_s)
