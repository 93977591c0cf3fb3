"""Effects of replacements on a node's pods: ``python -m benchmarks.replacements``.

Two figures on the sample cluster (``make demo``), each compared with the same work on an idle
cluster: how long a program in a running pod takes while gpud is rolled out, and how long pods
with ResourceClaims wait for their GPU after the node agent's pod was deleted.

Requires kubectl and a configuration for the cluster (KUBECONFIG).
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.report import Row, Section, machine, table

NAME = "replacements"
IMAGE = "tessera.local/tessera-sample:demo"
RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
DEVICE_CLASS = "mig-1g.10gb.tessera.dev"
ALLOCATION = "tessera.dev/allocation"
SYSTEM = ("-n", "tessera-system")
CLAIMS = 6
PROGRAMS = 5
# One line for each program: its duration in ns, or its output if it failed.
RUNS = """while true; do
  begin=$(date +%s%N)
  if python vectoradd.py --n 1024 >/tmp/out 2>&1; then echo $(($(date +%s%N) - begin))
  else cat /tmp/out; fi
done"""


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    """Run kubectl; return its output.

    Raises:
        CalledProcessError: kubectl failed; its message was printed.
    """
    process = subprocess.run(["kubectl", *arguments], input=stdin, capture_output=True, text=True)
    if process.returncode:
        print(process.stderr.strip(), file=sys.stderr)
    process.check_returncode()
    return process.stdout


def get(*arguments: str) -> Any:
    """Return the objects that ``kubectl get`` prints."""
    return json.loads(kubectl("get", *arguments, "-o", "json"))


def wait_until(check: Callable[[], Any], event: str, timeout_s: float = 240.0) -> None:
    """Return once ``check`` is true.

    Raises:
        TimeoutError: it stayed false; the message contains ``event``.
    """
    end = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > end:
            raise TimeoutError(f"{event}: not in {timeout_s:.0f} s")
        time.sleep(0.2)


@contextmanager
def new_namespace() -> Iterator[str]:
    """Make a namespace and delete it afterwards."""
    name = f"bench-{uuid.uuid4().hex[:6]}"
    kubectl("create", "namespace", name)
    wait_until(lambda: get("serviceaccounts", "-n", name)["items"], "a service account")
    try:
        yield name
    finally:
        kubectl("delete", "namespace", name)


def pod(name: str, node: str, command: list[str], **resources: Any) -> dict[str, Any]:
    """Return a pod on one node that requests a slice, or the claim with the pod's name."""
    container = {"name": "main", "image": IMAGE, "command": command, "resources": resources}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [container],
    }
    if "claims" in resources:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def apply(namespace: str, *objects: dict[str, Any]) -> None:
    """Apply objects in a namespace."""
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(listed))


def program_rows(node: str) -> tuple[Row, ...]:
    """Time the programs of a running pod, without and during a roll-out of gpud on all nodes."""
    with new_namespace() as namespace:
        command = ["sh", "-c", RUNS]
        apply(namespace, pod("running", node, command, limits={RESOURCE: "1"}))

        def runs_s() -> list[float]:
            return [int(line) / 1e9 for line in kubectl("logs", "running", "-n", namespace).split()]

        kubectl("wait", "--for=condition=Ready", "pod/running", "-n", namespace, "--timeout=60s")
        wait_until(lambda: len(runs_s()) >= 2 * PROGRAMS, "programs")
        quiet = runs_s()[1:]  # the first one compiles
        (daemons,) = get("daemonsets", *SYSTEM, "-l", "app.kubernetes.io/component=gpud")["items"]
        name = f"daemonset/{daemons['metadata']['name']}"
        kubectl("rollout", "restart", name, *SYSTEM)
        kubectl("rollout", "status", name, *SYSTEM, "--timeout=180s")
        run_count = len(runs_s())
        wait_until(lambda: len(runs_s()) >= run_count + PROGRAMS, "programs after the roll-out")
        during = runs_s()[len(quiet) + 1 :]
    return (
        Row(NAME, f"program in a running pod, median of {len(quiet)}", _median(quiet), "s"),
        Row(NAME, f"while gpud is rolled out, worst of {len(during)}", max(during), "s", 2.0),
    )


def claim_rows(node: str) -> tuple[Row, ...]:
    """Time pods with claims from their creation, without and during a replacement of the agent."""
    kubectl("label", "node", node, f"{ALLOCATION}=DRA", "--overwrite")
    try:
        on_node = f"--field-selector=spec.nodeName={node}"
        wait_until(lambda: get("resourceslices", on_node)["items"], "devices for claims")
        quiet = _claims_s(node, lambda: None)
        agent = ["-l", "app.kubernetes.io/component=node", on_node]

        def delete_agent() -> None:
            kubectl("delete", "pod", *SYSTEM, *agent, "--wait=false")

        replaced = [_claims_s(node, delete_agent) for _ in range(3)]
    finally:
        kubectl("label", "node", node, f"{ALLOCATION}-")
    return (
        Row(NAME, f"{CLAIMS} pods with claims, all running", quiet, "s"),
        Row(NAME, "the agent's pod deleted meanwhile, worst of 3", max(replaced), "s", 15.0),
    )


def _claims_s(node: str, replace: Callable[[], object]) -> float:
    """Create pods with claims, replace a component, and return the seconds until the last pod had
    run.
    """
    names = [f"claim-{number}" for number in range(CLAIMS)]
    request = {"name": "gpu", "exactly": {"deviceClassName": DEVICE_CLASS}}
    with new_namespace() as namespace:
        claims = [
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name},
                "spec": {"devices": {"requests": [request]}},
            }
            for name in names
        ]
        pods = [
            pod(name, node, ["python", "vectoradd.py", "--n", "1024"], claims=[{"name": "gpu"}])
            for name in names
        ]
        begin = time.monotonic()
        apply(namespace, *claims, *pods)
        replace()

        def has_ended() -> bool:
            phases = [
                document["status"].get("phase")
                for document in get("pods", "-n", namespace)["items"]
            ]
            return all(phase in ("Succeeded", "Failed") for phase in phases)

        wait_until(has_ended, "pods with claims")
        lasted = time.monotonic() - begin
        failed = [
            document
            for document in get("pods", "-n", namespace)["items"]
            if document["status"]["phase"] == "Failed"
        ]
        if failed:
            raise RuntimeError(f"{len(failed)} pods failed: {failed[0]['status']}")
    _settle_agents()
    return lasted


def _settle_agents() -> None:
    (daemons,) = get("daemonsets", *SYSTEM, "-l", "app.kubernetes.io/component=node")["items"]
    name = f"daemonset/{daemons['metadata']['name']}"
    kubectl("rollout", "status", name, *SYSTEM, "--timeout=180s")


def _median(values: list[float]) -> float:
    return statistics.median(values)


def main() -> int:
    """Exit status: 0 both goals met, 1 one is missed."""
    argparse.ArgumentParser(
        prog="python -m benchmarks.replacements", description=__doc__
    ).parse_args()
    print(machine(), flush=True)
    nodes = get("nodes", "-l", "node-role.tessera.dev/gpu")["items"]
    node = min(str(gpu_node["metadata"]["name"]) for gpu_node in nodes)
    rows = (*program_rows(node), *claim_rows(node))
    print(table([Section(NAME, rows)]))
    return int(any(row.verdict == "MISSED" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
