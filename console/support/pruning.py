"""Reduces objects to the fields that a support bundle may have.

Fields are permitted by name, so what a later version of Kubernetes adds is left out.
"""

from collections.abc import Mapping
from typing import Any, Final

from console.support.installation import conditions, containers, labels, metadata, name_of
from gpu_operator.kube.port import Document

_LABELS: Final = ("app.kubernetes.io/", "helm.sh/chart", "gpu.tessera.dev/", "rdma.tessera.dev/")
FOREIGN: Final = ("holders", "claim")  # fields of a GPU's status that name tenants' objects
_NODE_INFO: Final = (
    "architecture",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeletVersion",
    "operatingSystem",
    "osImage",
)


def prune_own(document: Document) -> Document:
    """Return a custom resource of Tessera without annotations and without its holders' names."""
    return {
        "kind": document.get("kind", ""),
        "metadata": prune_metadata(document),
        "spec": document.get("spec") or {},
        "status": _without_holders(document.get("status") or {}),
    }


def prune_node(node: Document) -> Document:
    """Return a node's versions, resources, taints and conditions."""
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    return {
        "kind": "Node",
        "metadata": prune_metadata(node),
        "taints": [
            {key: taint.get(key) for key in ("key", "effect")}
            for taint in (node.get("spec") or {}).get("taints") or ()
        ],
        "capacity": status.get("capacity") or {},
        "allocatable": status.get("allocatable") or {},
        "nodeInfo": {key: info.get(key) for key in _NODE_INFO},
        "conditions": [dict(condition) for condition in conditions(node)],
    }


def prune_pod(pod: Document) -> Document:
    """Return a pod's containers and state, with the names of variables but not their values."""
    status = pod.get("status") or {}
    return {
        "kind": "Pod",
        "metadata": prune_metadata(pod),
        "nodeName": (pod.get("spec") or {}).get("nodeName", ""),
        "containers": [_container(container) for container in containers(pod)],
        "phase": status.get("phase", ""),
        "reason": status.get("reason", ""),
        "message": status.get("message", ""),
        "conditions": [dict(condition) for condition in conditions(pod)],
        "containerStatuses": [
            {
                key: container_status.get(key)
                for key in ("name", "ready", "restartCount", "state", "lastState")
            }
            for key in ("initContainerStatuses", "containerStatuses")
            for container_status in status.get(key) or ()
        ],
    }


def prune_workload(document: Document) -> Document:
    """Return the state of a Deployment or a DaemonSet, and its template's containers."""
    template = (document.get("spec") or {}).get("template") or {}
    return {
        "kind": document.get("kind", ""),
        "metadata": prune_metadata(document),
        "containers": [_container(container) for container in containers(template)],
        "status": document.get("status") or {},
    }


def prune_metadata(document: Document) -> Document:
    """Return what identifies an object, and the labels of Tessera's and of the chart."""
    object_metadata = metadata(document)
    return {
        "name": name_of(document),
        "namespace": object_metadata.get("namespace", ""),
        "creationTimestamp": object_metadata.get("creationTimestamp", ""),
        "deletionTimestamp": object_metadata.get("deletionTimestamp", ""),
        "generation": object_metadata.get("generation", 0),
        "labels": {k: v for k, v in labels(document).items() if k.startswith(_LABELS)},
    }


def _container(container: Mapping[str, Any]) -> Document:
    return {
        "name": container.get("name", ""),
        "image": container.get("image", ""),
        "resources": container.get("resources") or {},
        "variables": [variable.get("name", "") for variable in container.get("env") or ()],
    }


def _without_holders(value: Any) -> Any:
    """Replace holders and claims, which are tenants' objects, by their number."""
    if isinstance(value, Mapping):
        return {
            key: _count(content) if key in FOREIGN else _without_holders(content)
            for key, content in value.items()
        }
    return [_without_holders(element) for element in value] if isinstance(value, list) else value


def _count(value: Any) -> str:
    return f"{len(value)} not shown" if isinstance(value, list) else "not shown" if value else ""
