"""The pods by the memory that their slices use, of all nodes, and the activity of their engines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.views import details, faults
from gpu_operator.controllers.common.world import World

SHOWN: Final = 40


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


def pods_by_memory(world: World, node: str = "", namespace: str = "") -> tuple[list[PodUse], int]:
    """Return the pods that use most memory, and how many others hold slices.

    Only nodes whose names contain ``node`` count, and only pods of ``namespace`` unless it is
    empty.
    """
    found: dict[tuple[str, str], PodUse] = {}
    for one in details.every_slice(world):
        where = one.gpu.spec.node_name
        if node not in where:
            continue
        is_lost = faults.is_lost(one.gpu)
        for holder in one.holders:
            if namespace not in ("", holder.namespace):
                continue
            key = holder.namespace, holder.name
            pod = found.setdefault(key, PodUse(*key))
            pod.slices += 1
            pod.shared += len(one.holders) > 1
            pod.lost += is_lost
            pod.used_bytes += 0 if is_lost else one.memory_used_bytes
            pod.total_bytes += one.memory_bytes
            pod.nodes = tuple(dict.fromkeys((*pod.nodes, where)))
    ordered = sorted(found.values(), key=lambda pod: (-pod.used_bytes, pod.namespace, pod.name))
    return ordered[:SHOWN], max(len(ordered) - SHOWN, 0)


def nodes_of(pods: Iterable[PodUse]) -> list[str]:
    """Return the nodes of some pods, in the order of the pods."""
    return list(dict.fromkeys(node for pod in pods for node in pod.nodes))


def add_activity(pods: Iterable[PodUse], busy: Mapping[str, Sequence[float]]) -> None:
    """Add the activity of engines, by "namespace/name"."""
    for pod in pods:
        pod.activity = tuple(busy.get(f"{pod.namespace}/{pod.name}", ()))
