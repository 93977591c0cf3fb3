"""Changes a node's taints by a JSON patch, because they are one list without owners."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from gpu_operator.api.v1alpha1 import TAINTS

_EFFECT: Final = "NoSchedule"
_NOTE: Final = f"/metadata/annotations/{TAINTS.replace('/', '~1')}"


def patch(
    node: Mapping[str, Any],
    add: Collection[tuple[str, str]],
    remove: Collection[str],
    noted: Collection[str],
) -> tuple[dict[str, Any], ...]:
    """Return a JSON patch that adds and removes taints of a node.

    The patch fails if the node was written since ``node`` was read. ``noted`` are the keys to
    record in the node's annotation.
    """
    metadata, old_taints = node["metadata"], (node.get("spec") or {}).get("taints") or []
    new_taints = [t for t in old_taints if t["key"] not in remove or t.get("effect") != _EFFECT]
    present_keys = {t["key"] for t in new_taints if t.get("effect") == _EFFECT}
    for key, value in add:
        if key not in present_keys:
            new_taints.append(
                {"key": key, "effect": _EFFECT, **({"value": value} if value else {})}
            )
    version = metadata["resourceVersion"]
    operations = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
    if new_taints:
        operations.append({"op": "add", "path": "/spec/taints", "value": new_taints})
    elif old_taints:
        operations.append({"op": "remove", "path": "/spec/taints"})
    annotations = metadata.get("annotations")
    if noted:
        if annotations is None:
            operations.append({"op": "add", "path": "/metadata/annotations", "value": {}})
        operations.append({"op": "add", "path": _NOTE, "value": ",".join(sorted(noted))})
    elif TAINTS in (annotations or {}):
        operations.append({"op": "remove", "path": _NOTE})
    return tuple(operations)
