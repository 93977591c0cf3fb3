"""Pools on the control plane's node, the only one without the demo's GPUs."""

import contextlib
from collections.abc import Iterator
from typing import Any

from support.cluster.kubectl import Cluster, until


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


@contextlib.contextmanager
def control_plane_pool(cluster: Cluster, name: str, **spec: Any) -> Iterator[str]:
    """Make a pool of this name, which is also its node's label; yield the node once it is ready.

    ``spec`` is the rest of the GPUPool's. The pool is deleted afterwards, with its GPUs.
    """
    node = control_plane_of(cluster)
    cluster.kubectl("label", "node", node, f"{name}=yes", "--overwrite")
    try:
        cluster.apply(
            {
                "apiVersion": "gpu.tessera.dev/v1alpha1",
                "kind": "GPUPool",
                "metadata": {"name": name},
                "spec": {"nodeSelector": {name: "yes"}, **spec},
            }
        )
        cluster.kubectl("wait", "--for=condition=Ready", f"gpupool/{name}", "--timeout=180s")
        yield node
    finally:
        cluster.kubectl("label", "node", node, f"{name}-")
        cluster.delete("gpupool", name)
        until(lambda: not cluster.gpus(name), 60)
