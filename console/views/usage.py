"""The pods by what they use of their slices: memory, of all nodes, or the engines' activity."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.views import details, faults
from gpu_operator.controllers.common.world import World

SHOWN: Final = 40
BY_MEMORY: Final = "memory"
BY_ACTIVITY: Final = "activity"
ORDERS: Final = {BY_MEMORY: "memory in use", BY_ACTIVITY: "engine activity"}


@dataclass(slots=True)
class PodUse:
    """What a pod uses of its slices.

    ``shared`` counts slices that several pods hold: their memory is that of all of them. ``lost``
    counts slices of GPUs off the bus, whose memory in use is not known and not added. ``activity``
    is that of each engine, from 0 to 1; empty if no exporter has answered with it.
    """

    namespace: str
    name: str
    used_bytes: int = 0
    total_bytes: int = 0
    slices: int = 0
    shared: int = 0
    lost: int = 0
    nodes: tuple[str, ...] = ()
    activity: tuple[float, ...] = ()


def pods_by_memory(world: World, node: str = "", namespace: str = "") -> list[PodUse]:
    """Return the pods that hold slices, those that use most memory first.

    Only nodes whose names contain ``node`` count, and only pods of ``namespace`` unless it is
    empty.
    """
    uses: dict[tuple[str, str], PodUse] = {}
    for found_slice in details.every_slice(world):
        where = found_slice.gpu.spec.node_name
        if node not in where:
            continue
        is_lost = faults.is_lost(found_slice.gpu)
        for holder in found_slice.holders:
            if namespace not in ("", holder.namespace):
                continue
            key = holder.namespace, holder.name
            pod = uses.setdefault(key, PodUse(*key))
            pod.slices += 1
            pod.shared += len(found_slice.holders) > 1
            pod.lost += is_lost
            pod.used_bytes += 0 if is_lost else found_slice.memory_used_bytes
            pod.total_bytes += found_slice.memory_bytes
            pod.nodes = tuple(dict.fromkeys((*pod.nodes, where)))
    return sorted(uses.values(), key=lambda pod: (-pod.used_bytes, pod.namespace, pod.name))


def sort_by_activity(pods: Iterable[PodUse]) -> list[PodUse]:
    """Return the pods by the sum of their engines' activity; those without a figure come last."""
    return sorted(pods, key=lambda pod: (not pod.activity, -sum(pod.activity)))


def nodes_of(pods: Iterable[PodUse]) -> list[str]:
    """Return the nodes of some pods, in the order of the pods."""
    return list(dict.fromkeys(node for pod in pods for node in pod.nodes))


def add_activity(pods: Iterable[PodUse], busy: Mapping[str, Sequence[float]]) -> None:
    """Add the activity of engines, by "namespace/name"."""
    for pod in pods:
        pod.activity = tuple(busy.get(f"{pod.namespace}/{pod.name}", ()))
