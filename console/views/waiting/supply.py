"""The devices of a node as the kubelet and the scheduler count them, and what is missing of them.

Every page that states how many devices are free for a pod has the number from here.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from facts import health as healths
from facts.wording import count_of, list_first
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import Slice, SliceState
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.common.world import Node, World
from mig import geometry
from mig.errors import MigError

HeldSlice = tuple[Gpu, Slice]
_SHOWN_GPUS: Final = 3
SILENT: Final = (Reason.AGENT_UNREACHABLE, Reason.WAITING_FOR_AGENT)
"""Reasons of a node whose agent has not reported: nothing is known of its GPUs now."""


@dataclass(frozen=True, slots=True)
class Sidelined:
    """A GPU with devices that the kubelet does not offer although pods hold them."""

    gpu: str
    reason: str
    pods: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.pods)} on {self.gpu} ({self.reason})"


class Returning(NamedTuple):
    """A GPU that is not in service; ``number`` devices are offered again once it is, of which pods
    hold all but ``unheld``.
    """

    gpu: str
    number: int
    unheld: int
    reason: str


@dataclass(frozen=True, slots=True)
class Supply:
    """The devices of one resource on a node.

    ``present`` are those that the GPU objects list, ``allocatable`` those that the kubelet offers,
    and ``held`` those that pods have. The scheduler subtracts all held devices from the
    allocatable ones, ``sidelined`` ones too. ``unheld`` are those in service that no pod has: a
    pod cannot get them while ``free`` is smaller. ``causes`` name the GPUs whose devices are
    missing, each with the reason; ``returning`` are those of them that are not in service.
    """

    present: int = 0
    allocatable: int = 0
    held: int = 0
    unheld: int = 0
    causes: tuple[str, ...] = ()
    sidelined: tuple[Sidelined, ...] = ()
    returning: tuple[Returning, ...] = ()

    @property
    def free(self) -> int:
        """Return how many devices the scheduler counts as free."""
        return max(self.allocatable - self.held, 0)

    @property
    def on_sidelined(self) -> int:
        """Return how many of the held devices the kubelet does not offer."""
        return sum(len(gpu.pods) for gpu in self.sidelined)

    @property
    def is_crowded(self) -> bool:
        """Return whether pods on devices that are not offered use up what others have unheld."""
        return self.free < self.unheld and bool(self.sidelined)

    def describe(self, requested: int) -> str:
        """Return all counts, and what the missing devices are missing for."""
        text = (
            f"{requested} requested; {self.present} present, {self.allocatable} allocatable,"
            f" {self.held} held, {self.free} free"
        )
        if self.causes:
            text = f"{text}; missing: {list_first(self.causes, _SHOWN_GPUS)}"
        return f"{text}; {self.describe_crowding()}" if self.is_crowded else text

    def describe_crowding(self) -> str:
        """Return what the pods on devices that are not offered do to the others' count."""
        where = list_first([str(gpu) for gpu in self.sidelined], _SHOWN_GPUS)
        return (
            f"{count_of(self.on_sidelined, 'pod')} on devices that are not offered count against"
            f" the {self.allocatable} allocatable: {where}; so {self.free} of"
            f" {self.unheld} in service that no pod holds can be allocated"
        )

    def gain_of(self, number: int) -> int:
        """Return how many devices become free if the kubelet offers some more of them."""
        return max(self.allocatable + number - self.held, 0) - self.free


NO_SUPPLY: Final = Supply()


def count_supply(world: World, node: Node, resource: str, slices: Sequence[HeldSlice]) -> Supply:
    """Count the devices of a resource on a node; ``slices`` are those with this resource."""
    present = sum(offers.count_replicas(gpu, gpu_slice.profile) for gpu, gpu_slice in slices)
    allocatable = offers.allocatable_count(node, resource)
    causes = _causes(world, node, resource, slices, max(present - allocatable, 0))
    return Supply(
        present,
        allocatable,
        sum(len(gpu_slice.holders) for _, gpu_slice in slices),
        sum(_count_unheld(gpu, gpu_slice) for gpu, gpu_slice in slices),
        tuple(causes),
        tuple(_sidelined(slices)),
        tuple(_returning(slices)),
    )


def count_of_node(world: World, node: Node, resource: str) -> Supply:
    """Count the devices of a resource on a node."""
    gpus = world.gpus_by_node().get(node.name, ())
    slices = [
        (gpu, gpu_slice)
        for gpu in gpus
        for gpu_slice in gpu.status.slices
        if gpu_slice.resource == resource
    ]
    return count_supply(world, node, resource, slices)


def is_in_service(gpu: Gpu, gpu_slice: Slice) -> bool:
    """Return whether the health of a slice and of its GPU lets the kubelet offer the slice."""
    return is_served(gpu) and healths.is_in_service(gpu_slice.health)


def is_served(gpu: Gpu) -> bool:
    """Return whether the node's agent offers the devices of a GPU with this health."""
    return healths.is_in_service(gpu.status.health)


def _count_unheld(gpu: Gpu, gpu_slice: Slice) -> int:
    if (
        gpu_slice.state is not SliceState.ACTIVE
        or not gpu_slice.admitted
        or not is_in_service(gpu, gpu_slice)
    ):
        return 0
    return max(offers.count_replicas(gpu, gpu_slice.profile) - len(gpu_slice.holders), 0)


def _sidelined(slices: Sequence[HeldSlice]) -> Iterator[Sidelined]:
    """Yield the GPUs whose pods hold devices that the kubelet does not offer."""
    pods_by_reason: dict[tuple[str, str], list[str]] = {}
    for gpu, gpu_slice in slices:
        reason = _reason(gpu, gpu_slice)
        if reason and gpu_slice.holders and reason != _RESTARTS:
            pods = pods_by_reason.setdefault((gpu.name, reason), [])
            pods += [f"{holder.namespace}/{holder.name}" for holder in gpu_slice.holders]
    for (name, reason), pods in pods_by_reason.items():
        yield Sidelined(name, reason, tuple(pods))


def _returning(slices: Sequence[HeldSlice]) -> Iterator[Returning]:
    """Yield the GPUs that are not in service, with the devices that return with their health.

    A slice that its layout no longer requests is deleted instead.
    """
    numbers: Counter[tuple[str, str]] = Counter()
    unheld: Counter[tuple[str, str]] = Counter()
    for gpu, gpu_slice in slices:
        if not is_in_service(gpu, gpu_slice):
            key = gpu.name, _reason(gpu, gpu_slice)
            number = _stays(gpu, gpu_slice) * offers.count_replicas(gpu, gpu_slice.profile)
            numbers[key] += number
            unheld[key] += max(number - len(gpu_slice.holders), 0)
    for (name, reason), number in numbers.items():
        yield Returning(name, number, unheld[name, reason], reason)


def _stays(gpu: Gpu, gpu_slice: Slice) -> bool:
    requested_instances = gpu.spec.instances
    is_wanted = not requested_instances or any(
        instance.place == gpu_slice.place for instance in requested_instances
    )
    return gpu_slice.state is SliceState.ACTIVE and is_wanted


def _causes(
    world: World, node: Node, resource: str, slices: Sequence[HeldSlice], lacking: int
) -> Iterator[str]:
    """Yield the GPUs with devices of this resource that do not exist, or that are not offered.

    A GPU without such a device is never a cause, whatever its health.
    """
    explained = 0
    for gpu in world.gpus_by_node().get(node.name, ()):
        own = [gpu_slice for of, gpu_slice in slices if of is gpu]
        absent = _absent(gpu, resource)
        if absent:
            health = "" if is_served(gpu) else f", {gpu.status.health}"
            yield f"{absent} of {gpu.name} (requested by its spec, not created yet{health})"
        reasons: Counter[str] = Counter()
        for gpu_slice in own:
            if reason := _reason(gpu, gpu_slice):
                reasons[reason] += offers.count_replicas(gpu, gpu_slice.profile)
        for reason, number in reasons.items() if explained < lacking else ():
            explained += number
            yield f"{number} of {gpu.name} ({reason})"
    if explained < lacking:
        concerned = frozenset(gpu.name for gpu, _ in slices)
        number = lacking - explained
        yield f"{number} that the kubelet does not offer{_node_reason(world, node, concerned)}"


_RESTARTS: Final = "admits no pod while the kubelet or the node agent restarts"


def _reason(gpu: Gpu, gpu_slice: Slice) -> str:
    """Return why the kubelet does not offer a slice; empty if it should."""
    if not is_served(gpu):
        return (
            gpu_slice.health if not healths.is_in_service(gpu_slice.health) else gpu.status.health
        )
    if not healths.is_in_service(gpu_slice.health):
        return gpu_slice.health
    if gpu_slice.state is SliceState.WITHDRAWING:
        return "withdrawn by a layout"
    return "" if gpu_slice.admitted else _RESTARTS


def _absent(gpu: Gpu, resource: str) -> int:
    """Return how many devices of this resource a GPU's spec requests that do not exist."""
    name = resource.partition("/")[2]
    present_places = {gpu_slice.place for gpu_slice in gpu.status.slices}
    count = 0
    for instance in gpu.spec.layout_instances:
        if instance.place not in present_places and _offered_as(gpu, instance.profile) == name:
            count += offers.count_replicas(gpu, instance.profile)
    return count


def _offered_as(gpu: Gpu, profile: str) -> str:
    try:
        return gpu.spec.resource_of(geometry.board(gpu.spec.board).device_profile(profile))
    except MigError:
        return ""


def _node_reason(world: World, node: Node, concerned: frozenset[str]) -> str:
    """Return the node's reason, unless it is about a GPU without such devices or one in service."""
    ready = node.gpu_ready
    if ready is None or ready.status == "True":
        return ""
    subject = world.gpus.get(ready.message.partition(":")[0])
    if subject is not None and (subject.name not in concerned or is_served(subject)):
        return ""
    return f" ({ready.reason}: {ready.message})"
