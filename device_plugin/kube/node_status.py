"""A node's allocatable extended resources, and when its kubelet last wrote them."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gpu_operator.api.v1alpha1 import quantity
from vgpu_sim.records import dataclass

_HEARTBEAT = 'k:{"type":"Ready"}'


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node's ``allocatable`` resources, and which write of the kubelet was the last.

    The amounts are rounded up to whole numbers. ``kubelet_wrote`` identifies the write.
    """

    allocatable: Mapping[str, int]
    kubelet_wrote: str


def read(document: Mapping[str, Any]) -> NodeStatus:
    """Read a Node as the API server sent it.

    The kubelet's entry in ``managedFields`` is the one that owns the heartbeat of the condition
    Ready, because no other writer of a node's status owns this field. The entry changes whenever
    a write of the kubelet changes a value.
    """
    allocatable = (document.get("status") or {}).get("allocatable") or {}
    counts = {}
    for name, text in allocatable.items():
        with suppress(ValueError):  # not a number that the API server would store
            counts[name] = quantity.parse_api_quantity(str(text))
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
