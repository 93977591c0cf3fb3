"""What keeps a pod off each node: the first obstacle that applies."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from console.model.pods import PodRecord
from console.views.survey import HeldSlice, Survey
from facts.wording import list_first
from gpu_operator.api.v1alpha1 import HCA_RESOURCE
from gpu_operator.api.v1alpha1.gpu import SliceState
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.common.world import Node


class Obstacle(StrEnum):
    """What keeps a pod off a node, the first that applies."""

    SELECTOR = "does not match the pod's nodeSelector"
    NOT_READY = "not ready"
    TAINTED = "tainted"
    GPUS_DOWN = "does not serve its GPUs"
    NOT_OFFERED = "does not have this resource"
    CLOSED = "admits no pod now"
    WITHDRAWN = "slices withdrawn"
    FULL = "full"
    FEWER = "has fewer than requested"
    UNCOUNTED = "offers enough; how many are in use is not counted"
    NONE = "has room"


CLOSED_NODES: Final = frozenset(
    (Obstacle.SELECTOR, Obstacle.NOT_READY, Obstacle.TAINTED, Obstacle.GPUS_DOWN)
)
"""Obstacles that more free slices would not remove."""


@dataclass(frozen=True, slots=True)
class NodeFinding:
    """A node, and what keeps the pod off it. ``free`` is None if it is not counted."""

    name: str
    obstacle: Obstacle
    detail: str
    free: int | None = 0
    offered: int = 0

    @property
    def room(self) -> str:
        """Return how many devices are free of those offered."""
        return f"{'?' if self.free is None else self.free} of {self.offered}"


def find_obstacle(
    survey: Survey, pod: PodRecord, node: Node, resource: str, number: int
) -> NodeFinding:
    """Return what keeps a pod that requests a number of devices off a node."""
    offered = offers.allocatable_count(node, resource)
    slices = survey.slices.get((node.name, resource), ())
    is_hca = resource == HCA_RESOURCE  # the model does not count those that pods use
    free = None if is_hca else max(offered - sum(len(one.holders) for _, one in slices), 0)

    def found(obstacle: Obstacle, detail: str = "") -> NodeFinding:
        return NodeFinding(node.name, obstacle, detail, free, offered)

    wrong = [k for k, v in pod.node_selector if node.labels.get(k) != v]
    if wrong:
        return found(Obstacle.SELECTOR, f"label {wrong[0]}")
    if not node.ready:
        return found(Obstacle.NOT_READY)
    taints = survey.taints.get(node.name, ())
    hostile = [str(t) for t in taints if not any(one.covers(t) for one in pod.tolerations)]
    if hostile:
        return found(Obstacle.TAINTED, ", ".join(hostile))
    down = "" if is_hca else _down_reason(node)
    if not offered:  # as long as the node offers devices, the scheduler considers it
        if down and (slices or node.name not in survey.reporting_nodes):
            return found(Obstacle.GPUS_DOWN, down)
        if not slices:
            return found(Obstacle.NOT_OFFERED)
    if free is None:
        enough = offered >= number
        return found(Obstacle.UNCOUNTED if enough else Obstacle.FEWER, f"{offered} allocatable")
    obstacle, detail = _count(survey, node, resource, slices, free, offered, number)
    if down and obstacle is not Obstacle.NONE:
        detail = f"{detail}; {down}"
    return found(obstacle, detail)


def _down_reason(node: Node) -> str:
    """Return why a node does not serve all its GPUs; empty if it does, or if it is not known."""
    ready = node.gpu_ready
    if ready is None or ready.status == "True":
        return ""
    return f"{ready.reason}: {ready.message}"


def _count(
    survey: Survey,
    node: Node,
    resource: str,
    slices: Sequence[HeldSlice],
    free: int,
    offered: int,
    number: int,
) -> tuple[Obstacle, str]:
    if free >= number:
        return Obstacle.NONE, f"{free} of {offered} free"
    if resource in survey.closed.get(node.name, ()):
        return Obstacle.CLOSED, "the kubelet or the node agent restarts"
    if free:
        return Obstacle.FEWER, f"{free} of {offered} free"
    leaving = [
        f"{one.place} of {g.name}" for g, one in slices if one.state is SliceState.WITHDRAWING
    ]
    if leaving:
        return Obstacle.WITHDRAWN, ", ".join(leaving)
    return Obstacle.FULL, _holders(slices)


def _holders(slices: Sequence[HeldSlice]) -> str:
    names = [f"{h.namespace}/{h.name}" for _, one in slices for h in one.holders]
    return f"held by {list_first(names, 3)}" if names else ""
