"""A pool on the control plane's node whose kernels the interpreter executes.

The tests marked ``backend`` run a second time there, beside all other lanes: the environment
variable names that run, and its pods go to that node.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from support.cluster.kubectl import Cluster, until

POOL = "e2e-interpreter"
VARIABLE = "TESSERA_E2E_BACKEND"
INTERPRETER = "Interpreter"
_GPUS = ("gpu.tessera.dev/mig-1g.10gb", "7"), ("gpu.tessera.dev/gpu", "1")


def is_chosen() -> bool:
    """Return whether this process runs the tests on the interpreter."""
    backend = os.environ.get(VARIABLE, "")
    assert backend in ("", INTERPRETER), f"{VARIABLE}={backend}: the value may be {INTERPRETER}"
    return backend == INTERPRETER


def control_plane_of(cluster: Cluster) -> str:
    """Return the name of the node without the demo's GPUs."""
    (name,) = (
        one["metadata"]["name"]
        for one in cluster.get("nodes")["items"]
        if "node-role.tessera.dev/gpu" not in one["metadata"]["labels"]
    )
    return str(name)


def place(pod: dict[str, Any], node: str) -> dict[str, Any]:
    """Have a pod run on a node, be it the control plane's; return the pod."""
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    pod["spec"]["tolerations"] = [
        {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    ]
    return pod


def _documents() -> tuple[dict[str, Any], dict[str, Any]]:
    def document(kind: str, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "gpu.tessera.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": POOL},
            "spec": spec,
        }

    pool = document(
        "GPUPool",
        nodeSelector={POOL: "yes"},
        board="h100-80gb",
        count=2,
        backend=INTERPRETER,
        nodeBudget="2Gi",
    )
    layout = document(
        "MIGLayout",
        selector={"pool": POOL, "indices": [0]},
        instances=[{"profile": "1g.10gb", "count": 7}],
    )
    return pool, layout


@contextlib.contextmanager
def interpreter_pool(cluster: Cluster) -> Iterator[str]:
    """Make the pool and its layout, those of the demo with another backend; yield its node."""
    node = control_plane_of(cluster)
    cluster.kubectl("label", "node", node, f"{POOL}=yes", "--overwrite")
    cluster.apply(*_documents())

    def is_offered() -> bool:
        offered = cluster.get("node", node)["status"]["allocatable"]
        return all(offered.get(resource) == count for resource, count in _GPUS)

    try:
        cluster.kubectl(
            "wait",
            "--for=condition=Ready",
            f"gpupool/{POOL}",
            f"miglayout/{POOL}",
            "--timeout=180s",
        )
        until(is_offered, 60)
        yield node
    finally:
        cluster.delete("miglayout", POOL)
        cluster.kubectl("label", "node", node, f"{POOL}-")
        cluster.delete("gpupool", POOL)
        until(lambda: not cluster.gpus(POOL), 60)
