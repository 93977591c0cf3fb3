"""Restores the state of the cluster that ``deploy/install`` leaves, whatever an earlier run left.

A killed run of the end-to-end tests leaves layouts, labels, claims and namespaces behind. They
would make unrelated tests of the next run fail.
"""

from typing import Any

from support.cluster.foreign_objects import NODE_LABELS, SAMPLES
from support.cluster.kubectl import EXAMPLES, SYSTEM, Cluster, until, without_gone

OFFERED = {"1g.10gb": "7"}


def restore_cluster(cluster: Cluster) -> None:
    """Delete what tests of an earlier run left; return once each node offers the samples' slices.

    Raises TimeoutError if a node does not offer them in time, and AssertionError if kubectl
    fails.
    """
    operator = Cluster(SYSTEM)
    operator.kubectl("scale", "deployment/tessera-operator", "--replicas=1")
    operator.kubectl("rollout", "status", "deployment/tessera-operator", "--timeout=120s")
    cluster.kubectl("label", "nodes", "--all", *(f"{label}-" for label in NODE_LABELS))
    cluster.kubectl("uncordon", "-l", "node-role.tessera.dev/gpu")
    _delete_namespaces(cluster)
    _delete_objects(cluster)
    until(lambda: without_gone(cluster.offered_slices()) == [OFFERED] * 2, 120)


def _delete_namespaces(cluster: Cluster) -> None:
    left = _names(cluster.get("namespaces"), "e2e-")
    for namespace in left:
        cluster.delete("pods,resourceclaims", "--all", "-n", namespace)
    if left:
        cluster.delete("namespace", *left)


def _delete_objects(cluster: Cluster) -> None:
    """Delete all objects of user-written kinds, except the samples' and the chart's own."""
    cluster.delete("-f", str(EXAMPLES / "deployment-tenants.yaml"))
    cluster.delete("pod", "vectoradd")
    for device_class in _names(cluster.get("deviceclasses")):
        none = '{"spec":{"extendedResourceName":null}}'
        cluster.kubectl("patch", "deviceclass", device_class, "--type=merge", "-p", none)
    kinds = ("gpufaults", "miglayouts", "gpupools")
    for kind in (f"{name}.gpu.tessera.dev" for name in kinds):
        names = [n for n in _names(cluster.get(kind)) if f"{kind}/{n}" not in SAMPLES]
        if names:
            cluster.delete(kind, *names)
    for kind in ("rdmanetworkpolicies.rdma.tessera.dev", "rdmanetworks.rdma.tessera.dev"):
        for item in cluster.get(kind, "-A")["items"]:
            where = item["metadata"].get("namespace", "default")
            cluster.delete(kind, item["metadata"]["name"], "-n", where)


def _names(found: Any, prefix: str = "") -> list[str]:
    names = [str(one["metadata"]["name"]) for one in found["items"]]
    return [name for name in names if name.startswith(prefix)]
