"""Compares the resources in nodes' status with the slices on the nodes.

The kubelet copies what the node agent offers to the node's status within ten seconds. Until then
no pod can be scheduled to a new slice, and it must not be reported as available.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from facts.health import is_in_service
from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.gpu import Slice, SliceState
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.api.v1alpha1.sharing import SUFFIX
from gpu_operator.controllers.common.world import Node, World
from mig import geometry
from mig.errors import MigError

_SHORT = 10  # digits of a plain integer


def is_ours(resource: str, prefix: str) -> bool:
    """Return whether ``resource`` is one that Tessera offers under this prefix."""
    whole = f"{prefix}/{geometry.WHOLE_RESOURCE}"
    return resource in (whole, whole + SUFFIX) or resource.startswith(f"{prefix}/mig-")


def count_active(world: World, node: Node) -> Mapping[str, int]:
    """Count the slices that the node's agent offers, for each resource."""
    return _count_slices(_ByIdentity(world.gpus_by_node().get(node.name, ())))


def count_admitted(world: World, node: Node) -> Mapping[str, int]:
    """For each resource, count the slices for which the node admits pods now.

    The count is 0 while the kubelet or the node agent restarts, because admission would then
    fail for every pod.
    """
    return _count_slices(_ByIdentity(world.gpus_by_node().get(node.name, ())), admitted=True)


def allocatable_count(node: Node, resource: str) -> int:
    """Return how many devices of a resource the node's ``allocatable`` lists.

    The value is a quantity: the API server writes a thousand as 1k.
    """
    text = node.allocatable.get(resource, "0")
    try:
        return (
            int(text)
            if len(text) < _SHORT and text.isdecimal()
            else quantity.parse_api_quantity(text)
        )
    except ValueError:
        return 0


def count_replicas(gpu: Gpu, profile_name: str) -> int:
    """Return how many times the kubelet lists a slice of a profile."""
    try:
        profile = geometry.board(gpu.spec.board).device_profile(profile_name)
    except MigError:
        return 1
    return gpu.spec.replicas_of(profile)


def explain_late_offer(world: World, node: Node, slices: Iterable[Slice]) -> str:
    """Explain which slice the node does not offer yet under the prefix in force.

    The text is empty if no slice is missing. Slices that the node's strategy does not offer are
    ignored. So are those whose health, or whose GPU's, keeps the kubelet from offering them: the
    sick GPU may be another one, and it is not known to become healthy. If a pod received a slice
    under another prefix, the slice's resource keeps that prefix until the pod ends.

    If no pod is admitted yet for a slice, the slice counts as not offered, even if the node's
    status lists it. In this case the kubelet updated the status before the agent's report
    arrived, and the operator is about to lower the number in the status.
    """
    prefix = f"{world.policy.resource_prefix}/"
    gpus = world.gpus_by_node().get(node.name, ())
    expected_counts = _count_slices(_ByIdentity(gpus), healthy=True)
    admits = count_admitted(world, node)
    former = {s.uuid for gpu in gpus for s in gpu.status.slices if not _matches_spec(gpu, s)}
    resources = set()
    for item in slices:
        if item.resource.startswith(prefix):
            if item.uuid in former and not item.holders:
                return f"node {node.name} still offers {item.resource} as before the change"
            resources.add(item.resource)
        elif item.resource and not item.holders:
            return (
                f"node {node.name} does not offer {item.resource} with the prefix {prefix[:-1]} yet"
            )
    for resource in sorted(resources):
        offered = min(allocatable_count(node, resource), admits.get(resource, 0))
        if offered < expected_counts.get(resource, 0):
            expected = expected_counts[resource]
            return f"node {node.name} offers {offered} of {expected} {resource} so far"
    return ""


class _ByIdentity:
    """GPUs compared by identity, because a comparison by value would cost more than counting."""

    __slots__ = ("gpus",)

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self.gpus = gpus

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.gpus is other.gpus

    def __hash__(self) -> int:
        return id(self.gpus)


@lru_cache(maxsize=64)
def _count_slices(
    node_gpus: _ByIdentity, *, admitted: bool = False, healthy: bool = False
) -> Mapping[str, int]:
    """Count a node's slices for each resource: all, or those that pods are admitted to, or those
    in service. The count is cached while the node's GPUs do not change.
    """
    slice_counts: Counter[str] = Counter()
    for gpu in node_gpus.gpus:
        for gpu_slice in gpu.status.slices:
            counts = gpu_slice.state is SliceState.ACTIVE and (gpu_slice.admitted or not admitted)
            if healthy:
                counts &= is_in_service(gpu.status.health) and is_in_service(gpu_slice.health)
            if counts and _matches_spec(gpu, gpu_slice):
                slice_counts[gpu_slice.resource] += count_replicas(gpu, gpu_slice.profile)
    return slice_counts


def _matches_spec(gpu: Gpu, item: Slice) -> bool:
    """Return whether a slice's resource matches the strategy and sharing of its GPU.

    Otherwise the kubelet does not offer the slice: only the pod that holds it still uses the
    former name, or the former kind of sharing.
    """
    name = item.resource.partition("/")[2]
    try:
        profile = geometry.board(gpu.spec.board).device_profile(item.profile)
    except MigError:
        return bool(name)
    alike = item.shared is None or item.shared == (gpu.spec.sharing_of(profile) is not None)
    return bool(name) and alike and name == gpu.spec.resource_of(profile)
