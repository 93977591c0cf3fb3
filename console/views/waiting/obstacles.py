"""What keeps a pod off each node: the first obstacle that applies."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from console.model.pods import PodRecord
from console.views.waiting import supply as supplies
from console.views.waiting.supply import NO_SUPPLY, HeldSlice, Supply
from console.views.waiting.survey import Survey
from facts.wording import list_first
from gpu_operator.api.v1alpha1 import HCA_RESOURCE
from gpu_operator.api.v1alpha1.gpu import SliceState
from gpu_operator.controllers.common.world import Node


class Obstacle(StrEnum):
    """What keeps a pod off a node, the first that applies."""

    SELECTOR = "does not match the pod's nodeSelector"
    NOT_READY = "not ready"
    TAINTED = "tainted"
    GPUS_DOWN = "does not serve its GPUs"
    NOT_OFFERED = "does not have this resource"
    CLOSED = "admits no pod now"
    CROWDED = "has devices in service that count as used by pods on others"
    SICK = "has no such device in service"
    WITHDRAWN = "slices withdrawn"
    FULL = "full"
    FEWER = "has fewer than requested"
    UNCOUNTED = "offers enough; how many are in use is not counted"
    NONE = "has room"


CLOSED_NODES: Final = frozenset(
    (Obstacle.SELECTOR, Obstacle.NOT_READY, Obstacle.TAINTED, Obstacle.GPUS_DOWN)
)
"""Obstacles that more free slices would not remove."""

UNMATCHED: Final = frozenset((Obstacle.SELECTOR, Obstacle.TAINTED))
"""Obstacles of nodes on which the pod cannot run whatever happens to their devices."""


@dataclass(frozen=True, slots=True)
class NodeFinding:
    """A node, and what keeps the pod off it. ``free`` is None if it is not counted.

    ``free`` and ``offered`` are those of ``supply``.
    """

    name: str
    obstacle: Obstacle
    detail: str
    free: int | None = 0
    offered: int = 0
    supply: Supply = NO_SUPPLY

    @property
    def room(self) -> str:
        """Return how many devices are free of those offered."""
        return f"{'?' if self.free is None else self.free} of {self.offered}"


def find_obstacle(
    survey: Survey, pod: PodRecord, node: Node, resource: str, number: int
) -> NodeFinding:
    """Return what keeps a pod that requests a number of devices off a node."""
    slices = survey.slices.get((node.name, resource), ())
    is_hca = resource == HCA_RESOURCE  # the model does not count those that pods use
    supply = survey.count_supply(node, resource)
    offered = supply.allocatable

    def found(obstacle: Obstacle, detail: str = "") -> NodeFinding:
        free = None if is_hca else supply.free
        return NodeFinding(node.name, obstacle, detail, free, offered, supply)

    restriction = find_restriction(survey, pod, node)
    if restriction is not None:
        return found(*restriction)
    down = "" if is_hca else _down_reason(survey, node)
    if not offered:  # as long as the node offers devices, the scheduler considers it
        if down and (slices or node.name not in survey.reporting_nodes):
            return found(Obstacle.GPUS_DOWN, supply.describe(number) if slices else down)
        if not slices and not supply.causes:
            return found(Obstacle.NOT_OFFERED)
    if is_hca:
        enough = offered >= number
        detail = f"{number} requested, {offered} allocatable"
        return found(Obstacle.UNCOUNTED if enough else Obstacle.FEWER, detail)
    return found(*_count(survey, node, resource, slices, supply, number))


def find_restriction(survey: Survey, pod: PodRecord, node: Node) -> tuple[Obstacle, str] | None:
    """Return what keeps a pod off a node whatever it requests; None if nothing does."""
    wrong = [(k, v) for k, v in pod.node_selector if node.labels.get(k) != v]
    if wrong:
        key, value = wrong[0]
        node_value = node.labels.get(key)
        has = "no such label" if node_value is None else f"{key}={node_value}"
        return Obstacle.SELECTOR, f"label {key}={value} is requested, the node has {has}"
    if not node.ready:
        return Obstacle.NOT_READY, ""
    taints = survey.taints.get(node.name, ())
    hostile = [
        str(t) for t in taints if not any(toleration.covers(t) for toleration in pod.tolerations)
    ]
    return (Obstacle.TAINTED, ", ".join(hostile)) if hostile else None


def _down_reason(survey: Survey, node: Node) -> str:
    """Return why a node serves none of its GPUs; empty if it serves some, or if it is not known.

    The node's condition is False as long as one of its GPUs is not served.
    """
    ready = node.gpu_ready
    if ready is None or ready.status == "True":
        return ""
    gpus = survey.world.gpus_by_node().get(node.name, ())
    if ready.reason not in supplies.SILENT and any(map(supplies.is_served, gpus)):
        return ""
    return f"{ready.reason}: {ready.message}"


def _count(
    survey: Survey,
    node: Node,
    resource: str,
    slices: Sequence[HeldSlice],
    supply: Supply,
    number: int,
) -> tuple[Obstacle, str]:
    counts = supply.describe(number)
    if supply.free >= number:
        return Obstacle.NONE, f"{supply.free} of {supply.allocatable} free"
    if supply.is_crowded and supply.unheld >= number:
        return Obstacle.CROWDED, counts
    if resource in survey.closed.get(node.name, ()):
        return Obstacle.CLOSED, f"the kubelet or the node agent restarts; {counts}"
    if not supply.free and any(
        gpu_slice.state is SliceState.WITHDRAWING for _, gpu_slice in slices
    ):
        return Obstacle.WITHDRAWN, counts
    if slices and not any(supplies.is_in_service(gpu, gpu_slice) for gpu, gpu_slice in slices):
        return Obstacle.SICK, counts
    if supply.free or supply.held < supply.present or not supply.present:
        return Obstacle.FEWER, counts
    return Obstacle.FULL, "; ".join(filter(None, (_holders(slices), counts)))


def _holders(slices: Sequence[HeldSlice]) -> str:
    names = [f"{h.namespace}/{h.name}" for _, gpu_slice in slices for h in gpu_slice.holders]
    return f"held by {list_first(names, 3)}" if names else ""
