"""What nodes offer to the scheduler, against the slices that exist on them.

The kubelet brings what the node agent offers into the node's status within ten seconds. Until then
no pod can be scheduled to a slice that exists, and whoever waits for one must not be told it can.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.gpu import Slice, SliceState
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.api.v1alpha1.sharing import SUFFIX
from gpu_operator.controllers.common.world import Node, World
from mig import geometry
from mig.errors import MigError

_SHORT = 10  # characters of a number that needs no reading as a quantity


def is_ours(resource: str, prefix: str) -> bool:
    """Return whether devices of a GPU are offered as this resource, with this prefix."""
    whole = f"{prefix}/{geometry.WHOLE_RESOURCE}"
    return resource in (whole, whole + SUFFIX) or resource.startswith(f"{prefix}/mig-")


def active(world: World, node: Node) -> Mapping[str, int]:
    """Count the slices that the node's agent offers, by resource."""
    return _counted(_These(world.gpus_by_node().get(node.name, ())), admitted=False)


def admitted(world: World, node: Node) -> Mapping[str, int]:
    """Count the slices that pods are admitted with now, by resource.

    None while the kubelet or the node agent restarts, which would fail every pod that is sent.
    """
    return _counted(_These(world.gpus_by_node().get(node.name, ())), admitted=True)


def allocatable(node: Node, resource: str) -> int:
    """Return how many of a resource the scheduler sees on the node.

    It is a quantity, and the API server writes a thousand as 1k.
    """
    text = node.allocatable.get(resource, "0")
    try:
        return int(text) if len(text) < _SHORT and text.isdecimal() else quantity.of_api(text)
    except ValueError:
        return 0


def late(world: World, node: Node, slices: Iterable[Slice]) -> str:
    """Say what the node does not offer yet of its slices, by the prefix in force; empty: nothing.

    A slice that a pod was given by another prefix keeps that name until the pod ends. One that the
    node's strategy does not offer is not waited for. What the node's status offers while no pod is
    admitted with it, as when a kubelet was quicker than the agent's report, is about to be lowered.
    """
    prefix = f"{world.policy.resource_prefix}/"
    there, admits = active(world, node), admitted(world, node)
    gpus = world.gpus_by_node().get(node.name, ())
    former = {s.uuid for gpu in gpus for s in gpu.status.slices if not _is_as_meant(gpu, s)}
    resources = set()
    for item in slices:
        if item.resource.startswith(prefix):
            if item.uuid in former and not item.holders:
                return f"node {node.name} offers {item.resource} yet as it was before"
            resources.add(item.resource)
        elif item.resource and not item.holders:
            return f"node {node.name} has yet to offer {item.resource} by the prefix {prefix[:-1]}"
    for resource in sorted(resources):
        offered = min(allocatable(node, resource), admits.get(resource, 0))
        if offered < there.get(resource, 0):
            return f"node {node.name} offers {offered} of {there[resource]} {resource} so far"
    return ""


class _These:
    """GPUs that are equal to themselves alone: to compare them would cost more than to count."""

    __slots__ = ("gpus",)

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self.gpus = gpus

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _These) and self.gpus is other.gpus

    def __hash__(self) -> int:
        return id(self.gpus)


@lru_cache(maxsize=64)
def _counted(these: _These, *, admitted: bool) -> Mapping[str, int]:
    """Count a node's slices once for all that ask while nothing there changes."""
    found: Counter[str] = Counter()
    for gpu in these.gpus:
        for one in gpu.status.slices:
            counts = one.state is SliceState.ACTIVE and (one.admitted or not admitted)
            if counts and _is_as_meant(gpu, one):
                found[one.resource] += _replicas(gpu, one)
    return found


def _is_as_meant(gpu: Gpu, item: Slice) -> bool:
    """Return whether a slice is offered as strategy and sharing make it: the kubelet offers
    nothing by a name that only the pod knows that was given it, and no share of what a pod has
    alone.
    """
    name = item.resource.partition("/")[2]
    try:
        profile = geometry.board(gpu.spec.board).device_profile(item.profile)
    except MigError:
        return bool(name)
    alike = item.shared is None or item.shared == (gpu.spec.shared(profile) is not None)
    return bool(name) and alike and name == gpu.spec.offered_as(profile)


def _replicas(gpu: Gpu, item: Slice) -> int:
    """Return how often the kubelet lists a slice."""
    try:
        profile = geometry.board(gpu.spec.board).device_profile(item.profile)
    except MigError:
        return 1
    return gpu.spec.replicas(profile)
