"""How many devices of a resource a node has, offers and has free, and which GPUs lack them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from console.views.survey import HeldSlice, Survey
from facts.wording import list_first
from gpu_operator.api.v1alpha1.gpu import SliceState
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.common.world import Node
from mig import geometry
from mig.errors import MigError

_IN_SERVICE = ("Healthy", "Suspect")  # the kubelet offers devices with this health
_SHOWN = 3  # GPUs


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
        return f"{text}; missing: {list_first(self.causes, _SHOWN)}"


def count_supply(survey: Survey, node: Node, resource: str, slices: Sequence[HeldSlice]) -> Supply:
    """Count the devices of a resource on a node; ``slices`` are those with this resource."""
    present = sum(offers.count_replicas(gpu, one.profile) for gpu, one in slices)
    allocatable = offers.allocatable_count(node, resource)
    causes = _causes(survey, node, resource, slices, max(present - allocatable, 0))
    found = tuple(causes)
    names = {gpu.name for gpu, one in slices if not (is_served(gpu) and _is_in_service(one.health))}
    sick = tuple(one for one in found if one.partition(" of ")[2].partition(" ")[0] in names)
    return Supply(present, allocatable, sum(len(one.holders) for _, one in slices), found, sick)


def is_served(gpu: Gpu) -> bool:
    """Return whether the node's agent offers the devices of a GPU with this health."""
    return _is_in_service(gpu.status.health)


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
            yield f"{absent} of {gpu.name} (requested by its spec, do not exist{health})"
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
        return health if not _is_in_service(health) else gpu.status.health
    if not _is_in_service(health):
        return health
    if state is SliceState.WITHDRAWING:
        return "withdrawn by a layout"
    return "" if admitted else "admits no pod while the kubelet or the node agent restarts"


def _absent(gpu: Gpu, resource: str) -> int:
    """Return how many devices of this resource a GPU's spec requests that do not exist."""
    name = resource.partition("/")[2]
    there = {one.place for one in gpu.status.slices}
    found = 0
    for one in gpu.spec.instances:
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


def _is_in_service(health: str) -> bool:
    return health.partition(":")[0] in _IN_SERVICE
