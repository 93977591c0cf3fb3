"""Makes writes to a node: labels and annotations as documents, and patches of its status."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from gpu_operator.api.v1alpha1 import POOL_LABEL, RESOURCE_PREFIXES
from gpu_operator.render import features

GPU_READY: Final = "GPUReady"
"""The node condition that shows whether the node serves the GPUs of its pool."""


def with_labels(name: str, uid: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return a Node document in which Tessera's labels are exactly the wanted ones."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": uid, "labels": labels},
    }


def own_labels(labels: Mapping[str, str], prefixes: Collection[str]) -> dict[str, str]:
    """Return those of ``labels`` that Tessera writes.

    These are the label that names the pool, and the feature labels with one of ``prefixes``.
    """
    return {key: value for key, value in labels.items() if _is_ours(key, prefixes)}


def _is_ours(key: str, prefixes: Collection[str]) -> bool:
    prefix, _, name = key.partition("/")
    return key == POOL_LABEL or (prefix in prefixes and features.is_ours(name))


def removal_patch(
    uid: str, part: Literal["labels", "annotations"], entries: Mapping[str, str]
) -> tuple[dict[str, str], ...]:
    """Return a JSON patch that removes ``entries`` from the labels or annotations of a node.

    The patch fails if the node has another uid, or other values for these entries. It is used
    instead of server-side apply, which would keep an entry that another manager owns as well, as
    in a Node that was restored from a backup.
    """
    operations = [{"op": "test", "path": "/metadata/uid", "value": uid}]
    for key, value in sorted(entries.items()):
        path = f"/metadata/{part}/{_escape(key)}"
        operations += [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]
    return tuple(operations)


def with_prefixes(name: str, uid: str, prefixes: Collection[str]) -> dict[str, Any]:
    """Return a Node document whose annotation records the resource prefixes that the node has used.

    Tessera's own prefix is not recorded.
    """
    noted = {RESOURCE_PREFIXES: ",".join(sorted(prefixes))}
    metadata = {"name": name, "uid": uid, "annotations": noted}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def with_condition(
    name: str, uid: str, status: str, reason: str, message: str, since: str
) -> dict[str, Any]:
    """Return a Node document with the condition GPUReady (core/v1 NodeCondition)."""
    condition = {
        "type": GPU_READY,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": since,
        "lastTransitionTime": since,
    }
    metadata = {"name": name, "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"conditions": [condition]},
    }


def without_condition(name: str, uid: str) -> dict[str, Any]:
    """Return a Node document without the condition GPUReady."""
    metadata = {"name": name, "uid": uid}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {}}


def with_allocatable(
    present_values: Mapping[str, str], new_values: Mapping[str, int]
) -> tuple[dict[str, str], ...]:
    """Return a JSON patch that sets values of a node's ``allocatable``.

    The patch fails if the values are no longer those in ``present_values``.
    """
    operations: list[dict[str, str]] = []
    for resource, count in sorted(new_values.items()):
        path = f"/status/allocatable/{_escape(resource)}"
        operations += [
            {"op": "test", "path": path, "value": present_values[resource]},
            {"op": "replace", "path": path, "value": str(count)},
        ]
    return tuple(operations)


def without_resources(resources: Collection[str]) -> tuple[dict[str, str], ...]:
    """Return a JSON patch that removes resources from a node's status.

    The patch fails if the capacity of one of them is not 0.
    """
    operations: list[dict[str, str]] = []
    for resource in sorted(resources):
        capacity = f"/status/capacity/{_escape(resource)}"
        allocatable = f"/status/allocatable/{_escape(resource)}"
        operations += [
            {"op": "test", "path": capacity, "value": "0"},
            {"op": "remove", "path": capacity},
            {"op": "remove", "path": allocatable},
        ]
    return tuple(operations)


def _escape(key: str) -> str:
    """Escape a key for a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
