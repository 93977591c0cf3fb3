"""What a node's status says of its extended resources, and when its kubelet wrote it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpu_operator.api.v1alpha1 import quantity

_HEARTBEAT = 'k:{"type":"Ready"}'


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """``allocatable`` is rounded up to whole numbers. ``kubelet_wrote`` marks its last write."""

    allocatable: Mapping[str, int]
    kubelet_wrote: str


def read(document: Mapping[str, Any]) -> NodeStatus:
    """Read a Node as the API server sent it.

    Of those who write a node's status the kubelet is the one that owns the heartbeat of its
    condition Ready; its entry in ``managedFields`` changes with each write that changed anything.
    """
    allocatable = (document.get("status") or {}).get("allocatable") or {}
    counts = {}
    for name, text in allocatable.items():
        with suppress(ValueError):  # no number that the API server would store
            counts[name] = quantity.of_api(str(text))
    entries = (document.get("metadata") or {}).get("managedFields") or ()
    wrote = [
        f"{entry.get('manager')} {entry.get('time')}"
        for entry in entries
        if entry.get("subresource") == "status" and _heartbeat(entry)
    ]
    return NodeStatus(counts, "; ".join(wrote))


def _heartbeat(entry: Mapping[str, Any]) -> bool:
    fields = ((entry.get("fieldsV1") or {}).get("f:status") or {}).get("f:conditions") or {}
    return "f:lastHeartbeatTime" in (fields.get(_HEARTBEAT) or {})
