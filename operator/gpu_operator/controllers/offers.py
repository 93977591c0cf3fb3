"""What nodes offer to the scheduler, against the slices that exist on them.

The kubelet brings what the node agent offers into the node's status within ten seconds. Until then
no pod can be scheduled to a slice that exists, and whoever waits for one must not be told it can.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from gpu_operator.api.v1alpha1.gpu import Slice, SliceState
from gpu_operator.controllers.world import Node, World


def active(world: World, node: Node) -> Mapping[str, int]:
    """Count the slices that the node's agent offers, by resource."""
    return _active(world).get(node.name, {})


def admitted(world: World, node: Node) -> Mapping[str, int]:
    """Count the slices that pods are admitted with now, by resource.

    None while the kubelet or the node agent restarts, which would fail every pod that is sent.
    """
    return _admitted(world).get(node.name, {})


def allocatable(node: Node, resource: str) -> int:
    """Return how many of a resource the scheduler sees on the node."""
    text = node.allocatable.get(resource, "0")
    return int(text) if text.isdecimal() else 0


def late(world: World, node: Node, slices: Iterable[Slice]) -> str:
    """Say what the node does not offer yet of its slices, by the prefix in force; empty: nothing.

    A slice that a pod was given by another prefix keeps that name until the pod ends.
    """
    prefix = f"{world.policy.resource_prefix}/"
    there = active(world, node)
    resources = set()
    for item in slices:
        if item.resource.startswith(prefix):
            resources.add(item.resource)
        elif not item.holders:
            return f"node {node.name} has yet to offer {item.resource} by the prefix {prefix[:-1]}"
    for resource in sorted(resources):
        offered = allocatable(node, resource)
        if offered < there.get(resource, 0):
            return f"node {node.name} offers {offered} of {there[resource]} {resource} so far"
    return ""


@lru_cache(maxsize=2)
def _active(world: World) -> Mapping[str, Mapping[str, int]]:
    return _count(world, lambda _: True)


@lru_cache(maxsize=2)
def _admitted(world: World) -> Mapping[str, Mapping[str, int]]:
    return _count(world, lambda one: one.admitted)


def _count(world: World, counts: Callable[[Slice], bool]) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, Counter[str]] = {}
    for gpu in world.gpus.values():
        of_node = found.setdefault(gpu.spec.node_name, Counter())
        active = (s for s in gpu.status.slices if s.state is SliceState.ACTIVE)
        of_node.update(s.resource for s in active if counts(s))
    return found
