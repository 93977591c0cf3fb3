"""A node's labels, named as GPU Feature Discovery names them, and patches of its status."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from gpu_operator.api.v1alpha1 import POOL_LABEL, RESOURCE_PREFIXES
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec
from mig import geometry

_NAMES: Final = (
    "gpu.present",
    "gpu.product",
    "gpu.count",
    "gpu.memory",
    "gpu.compute.major",
    "gpu.compute.minor",
    "mig.capable",
    "mig.strategy",
)


def labels(pool_name: str, pool: GPUPoolSpec, policy: GPUPolicySpec) -> dict[str, str]:
    """Return the labels of a node in the pool.

    Raises:
        UnknownBoardError: there is no such board.
    """
    board = geometry.board(pool.board)
    major, minor = board.compute_capability
    values = (
        "true",
        board.product_name.replace(" ", "-"),
        str(pool.count),
        str(board.memory_bytes >> 20),
        str(major),
        str(minor),
        "true",
        policy.strategy.value,
    )
    named = zip(_NAMES, values, strict=True)
    return {POOL_LABEL: pool_name} | {f"{policy.resource_prefix}/{n}": v for n, v in named}


def labelled(name: str, uid: str, wanted: dict[str, str]) -> dict[str, Any]:
    """Return a node with these labels of ours and no others of ours."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": uid, "labels": wanted},
    }


def ours_of(labels: Mapping[str, str], prefixes: Collection[str]) -> dict[str, str]:
    """Return those of a node's labels that ``labels`` makes with one of these prefixes."""
    names = {POOL_LABEL} | {f"{prefix}/{name}" for prefix in prefixes for name in _NAMES}
    return {key: value for key, value in labels.items() if key in names}


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
