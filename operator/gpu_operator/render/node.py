"""What is written to a node: its labels and annotations as documents, patches of its status."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from gpu_operator.api.v1alpha1 import POOL_LABEL, RESOURCE_PREFIXES
from gpu_operator.render import features

GPU_READY: Final = "GPUReady"
"""The condition of a node that says whether it serves the GPUs of its pool."""


def labelled(name: str, uid: str, wanted: dict[str, str]) -> dict[str, Any]:
    """Return a node with these labels of ours and no others of ours."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": uid, "labels": wanted},
    }


def ours_of(labels: Mapping[str, str], prefixes: Collection[str]) -> dict[str, str]:
    """Return those of a node's labels that we write with one of these prefixes."""
    return {key: value for key, value in labels.items() if _is_ours(key, prefixes)}


def _is_ours(key: str, prefixes: Collection[str]) -> bool:
    prefix, _, name = key.partition("/")
    return key == POOL_LABEL or (prefix in prefixes and features.is_ours(name))


def without(
    uid: str, part: Literal["labels", "annotations"], entries: Mapping[str, str]
) -> tuple[dict[str, str], ...]:
    """Return a JSON patch that removes labels or annotations, and fails if they are not as given.

    Server-side apply would leave what another manager owns too, as in a Node that was restored from
    a backup.
    """
    operations = [{"op": "test", "path": "/metadata/uid", "value": uid}]
    for key, value in sorted(entries.items()):
        path = f"/metadata/{part}/{_escaped(key)}"
        operations += [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]
    return tuple(operations)


def with_prefixes(name: str, uid: str, prefixes: Collection[str]) -> dict[str, Any]:
    """Return a node that says by which prefixes, other than our own, it offered slices."""
    noted = {RESOURCE_PREFIXES: ",".join(sorted(prefixes))}
    metadata = {"name": name, "uid": uid, "annotations": noted}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def with_condition(
    name: str, uid: str, status: str, reason: str, message: str, since: str
) -> dict[str, Any]:
    """Return a node with the condition GPUReady (core/v1 NodeCondition)."""
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
    """Return a node without a condition of ours."""
    metadata = {"name": name, "uid": uid}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {}}


def with_allocatable(
    now: Mapping[str, str], wanted: Mapping[str, int]
) -> tuple[dict[str, str], ...]:
    """Return a JSON patch that changes what is allocatable, and fails if it is not as it was."""
    operations: list[dict[str, str]] = []
    for resource, count in sorted(wanted.items()):
        path = f"/status/allocatable/{_escaped(resource)}"
        operations += [
            {"op": "test", "path": path, "value": now[resource]},
            {"op": "replace", "path": path, "value": str(count)},
        ]
    return tuple(operations)


def without_resources(resources: Collection[str]) -> tuple[dict[str, str], ...]:
    """Return a JSON patch that removes resources whose capacity is 0, and fails if it is not."""
    operations: list[dict[str, str]] = []
    for resource in sorted(resources):
        capacity = f"/status/capacity/{_escaped(resource)}"
        allocatable = f"/status/allocatable/{_escaped(resource)}"
        operations += [
            {"op": "test", "path": capacity, "value": "0"},
            {"op": "remove", "path": capacity},
            {"op": "remove", "path": allocatable},
        ]
    return tuple(operations)


def _escaped(key: str) -> str:
    """Return a key as a JSON pointer has it (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
