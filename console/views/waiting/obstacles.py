"""What keeps a pod off each node: the first obstacle that applies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from console.model.pods import PodRecord
from console.views.waiting.survey import HeldSlice, Survey
from facts.wording import list_first
from gpu_operator.api.v1alpha1 import HCA_RESOURCE
from gpu_operator.api.v1alpha1.gpu import SliceState
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.common.world import Node
from mig import geometry
from mig.errors import MigError

_IN_SERVICE = ("Healthy", "Suspect")  # the kubelet offers devices with this health
_SHOWN_GPUS = 3  # GPUs


@dataclass(frozen=True, slots=True)
class Supply:
    """The devices of one resource on a node.

    ``present`` are those that the GPU objects list, ``allocatable`` those that the kubelet offers,
    and ``held`` those that pods have. The scheduler subtracts all held devices from the
    allocatable ones, those of an unhealthy GPU too. ``causes`` name the GPUs whose devices are
    missing, each with the reason; ``sick`` are those of them that are not in service.
    """

    present: int
    allocatable: int
    held: int
    causes: tuple[str, ...] = ()
    sick: tuple[str, ...] = ()

    @property
    def free(self) -> int:
        """Return how many devices the scheduler counts as free."""
        return max(self.allocatable - self.held, 0)

    def describe(self, requested: int) -> str:
        """Return all counts, and what the missing devices are missing for."""
        text = (
            f"{requested} requested; {self.present} present, {self.allocatable} allocatable,"
            f" {self.held} held, {self.free} free"
        )
        if not self.causes:
            return text
        return f"{text}; missing: {list_first(self.causes, _SHOWN_GPUS)}"


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

UNMATCHED: Final = frozenset((Obstacle.SELECTOR, Obstacle.TAINTED))
"""Obstacles of nodes on which the pod cannot run whatever happens to their devices."""


@dataclass(frozen=True, slots=True)
class NodeFinding:
    """A node, and what keeps the pod off it. ``free`` is None if it is not counted.

    ``sick`` are GPUs that are not in service, with the number of their devices that are missing.
    """

    name: str
    obstacle: Obstacle
    detail: str
    free: int | None = 0
    offered: int = 0
    sick: tuple[str, ...] = ()

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
    supply = count_supply(survey, node, resource, slices)
    offered = supply.allocatable

    def found(obstacle: Obstacle, detail: str = "") -> NodeFinding:
        free = None if is_hca else supply.free
        return NodeFinding(node.name, obstacle, detail, free, offered, supply.sick)

    restriction = find_restriction(survey, pod, node)
    if restriction is not None:
        return found(*restriction)
    down = "" if is_hca else _down_reason(node)
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
        there = node.labels.get(key)
        has = "no such label" if there is None else f"{key}={there}"
        return Obstacle.SELECTOR, f"label {key}={value} is requested, the node has {has}"
    if not node.ready:
        return Obstacle.NOT_READY, ""
    taints = survey.taints.get(node.name, ())
    hostile = [str(t) for t in taints if not any(one.covers(t) for one in pod.tolerations)]
    return (Obstacle.TAINTED, ", ".join(hostile)) if hostile else None


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
    supply: Supply,
    number: int,
) -> tuple[Obstacle, str]:
    counts = supply.describe(number)
    if supply.free >= number:
        return Obstacle.NONE, f"{supply.free} of {supply.allocatable} free"
    if resource in survey.closed.get(node.name, ()):
        return Obstacle.CLOSED, f"the kubelet or the node agent restarts; {counts}"
    if not supply.free and any(one.state is SliceState.WITHDRAWING for _, one in slices):
        return Obstacle.WITHDRAWN, counts
    if supply.free or supply.held < supply.present or not supply.present:
        return Obstacle.FEWER, counts
    return Obstacle.FULL, "; ".join(filter(None, (_holders(slices), counts)))


def _holders(slices: Sequence[HeldSlice]) -> str:
    names = [f"{h.namespace}/{h.name}" for _, one in slices for h in one.holders]
    return f"held by {list_first(names, 3)}" if names else ""


def count_supply(survey: Survey, node: Node, resource: str, slices: Sequence[HeldSlice]) -> Supply:
    """Count the devices of a resource on a node; ``slices`` are those with this resource."""
    present = sum(offers.count_replicas(gpu, one.profile) for gpu, one in slices)
    allocatable = offers.allocatable_count(node, resource)
    causes = _causes(survey, node, resource, slices, max(present - allocatable, 0))
    found = tuple(causes)
    names = {gpu.name for gpu, one in slices if not (is_served(gpu) and is_in_service(one.health))}
    sick = tuple(one for one in found if one.partition(" of ")[2].partition(" ")[0] in names)
    return Supply(present, allocatable, sum(len(one.holders) for _, one in slices), found, sick)


def is_served(gpu: Gpu) -> bool:
    """Return whether the node's agent offers the devices of a GPU with this health."""
    return is_in_service(gpu.status.health)


def _causes(
    survey: Survey, node: Node, resource: str, slices: Sequence[HeldSlice], lacking: int
) -> Iterator[str]:
    """Yield the GPUs with devices of this resource that do not exist, or that are not offered.

    A GPU without such a device is never a cause, whatever its health.
    """
    explained = 0
    for gpu in survey.world.gpus_by_node().get(node.name, ()):
        own = [one for of, one in slices if of is gpu]
        absent = _absent(gpu, resource)
        if absent:
            health = "" if is_served(gpu) else f", {gpu.status.health}"
            yield f"{absent} of {gpu.name} (requested by its spec, not created yet{health})"
        reasons: dict[str, int] = {}
        for one in own:
            if reason := _reason(gpu, one.health, one.state, one.admitted):
                reasons[reason] = reasons.get(reason, 0) + offers.count_replicas(gpu, one.profile)
        for reason, number in reasons.items() if explained < lacking else ():
            explained += number
            yield f"{number} of {gpu.name} ({reason})"
    if explained < lacking:
        concerned = frozenset(gpu.name for gpu, _ in slices)
        number = lacking - explained
        yield f"{number} that the kubelet does not offer{_node_reason(survey, node, concerned)}"


def _reason(gpu: Gpu, health: str, state: SliceState, admitted: bool) -> str:
    """Return why the kubelet does not offer a slice; empty if it should."""
    if not is_served(gpu):
        return health if not is_in_service(health) else gpu.status.health
    if not is_in_service(health):
        return health
    if state is SliceState.WITHDRAWING:
        return "withdrawn by a layout"
    return "" if admitted else "admits no pod while the kubelet or the node agent restarts"


def _absent(gpu: Gpu, resource: str) -> int:
    """Return how many devices of this resource a GPU's spec requests that do not exist."""
    name = resource.partition("/")[2]
    there = {one.place for one in gpu.status.slices}
    found = 0
    for one in gpu.spec.layout_instances:
        if one.place not in there and _offered_as(gpu, one.profile) == name:
            found += offers.count_replicas(gpu, one.profile)
    return found


def _offered_as(gpu: Gpu, profile: str) -> str:
    try:
        return gpu.spec.resource_of(geometry.board(gpu.spec.board).device_profile(profile))
    except MigError:
        return ""


def _node_reason(survey: Survey, node: Node, concerned: frozenset[str]) -> str:
    """Return the node's reason, unless it is about a GPU without such devices."""
    ready = node.gpu_ready
    if ready is None or ready.status == "True":
        return ""
    subject = ready.message.partition(":")[0]
    if subject in survey.world.gpus and subject not in concerned:
        return ""
    return f" ({ready.reason}: {ready.message})"


def is_in_service(health: str) -> bool:
    """Return whether the kubelet offers devices with this health."""
    return health.partition(":")[0] in _IN_SERVICE
