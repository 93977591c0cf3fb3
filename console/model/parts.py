"""Tessera's own pods: the operator's, and on each node the agent's, gpud's and hcad's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from console.model.pods import PodRecord, read_pod
from gpu_operator.api.v1alpha1 import POOL_LABEL
from gpu_operator.render.daemonset import COMPONENT_LABEL

Document = dict[str, Any]
OPERATOR: Final = "operator"
ON_NODES: Final[Mapping[str, str]] = {"node": "The node agent", "gpud": "gpud", "hca": "hcad"}
PART: Final = "Part"  # the kind of changes of such pods
_STARTING: Final = ("", "ContainerCreating", "PodInitializing")
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class PartPod:
    """A pod of Tessera itself.

    ``problem`` is why it is not ready; empty if it is. ``since`` is when its readiness changed
    last. ``is_failing`` is false while it only starts.
    """

    namespace: str
    name: str
    component: str
    node: str
    problem: str
    since: str
    is_failing: bool = False


def read_any_pod(document: Document) -> PartPod | PodRecord | None:
    """Parse a pod of Tessera itself, or one with devices; return None for others."""
    return _read_part(document) or read_pod(document)


def _read_part(document: Document) -> PartPod | None:
    metadata, status = document["metadata"], document.get("status") or {}
    labels = metadata.get("labels") or {}
    component = str(labels.get(COMPONENT_LABEL) or "")
    is_operator = component == OPERATOR and "app.kubernetes.io/instance" in labels
    if not is_operator and not (component in ON_NODES and POOL_LABEL in labels):
        return None
    ready: Document = next(
        (c for c in status.get("conditions") or () if c.get("type") == "Ready"), {}
    )
    problem, failing = "", False
    if metadata.get("deletionTimestamp"):
        problem = "is being deleted"
    elif ready.get("status") != "True":
        problem, failing = _find_problem(status)
    return PartPod(
        str(metadata.get("namespace") or ""),
        str(metadata["name"]),
        component,
        str((document.get("spec") or {}).get("nodeName") or ""),
        problem[:_LONGEST],
        str(ready.get("lastTransitionTime") or metadata.get("creationTimestamp") or ""),
        failing,
    )


def _find_problem(status: Document) -> tuple[str, bool]:
    """Return why a pod is not ready, and whether that is more than its normal start."""
    first = status.get("initContainerStatuses") or ()
    for container_status in (*first, *(status.get("containerStatuses") or ())):
        if container_status.get("ready"):
            continue
        waiting = (container_status.get("state") or {}).get("waiting") or {}
        ended = (container_status.get("lastState") or {}).get("terminated") or {}
        reason = str(waiting.get("reason") or ended.get("reason") or "")
        restarts = int(container_status.get("restartCount") or 0)
        again = f", restarted {restarts} times" if restarts else ""
        return f"{reason or 'not ready'}{again}", bool(restarts) or reason not in _STARTING
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"not scheduled: {condition.get('message') or condition.get('reason')}", True
    return str(status.get("reason") or "not ready"), status.get("phase") == "Failed"
