"""Pools and layouts as metrics, made of what the operator knows when they are asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpu_operator import metrics
from gpu_operator.api.v1alpha1.base import Condition
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.pools.scatter import Rooms
from mig import planner

_POOLS: Final = metrics.collected(
    "tessera_gpupool_status_condition",
    "Whether a condition of the GPUPool is true.",
    ("gpupool", "condition"),
    "0 or 1",
)
_LAYOUTS: Final = metrics.collected(
    "tessera_miglayout_status_condition",
    "Whether a condition of the MIGLayout is true.",
    ("miglayout", "condition"),
    "0 or 1",
)
_OF_STATUS: Final = {
    field: metrics.collected(f"tessera_gpupool_{field}", text, ("gpupool",), unit)
    for field, text, unit in (
        ("nodes", "Nodes of the pool.", "nodes"),
        ("ready_nodes", "Nodes of the pool whose GPUs are served.", "nodes"),
        ("gpus", "GPUs of the pool.", "GPUs"),
    )
}
_SLICES: Final = metrics.collected(
    "tessera_gpu_slices",
    "Slices of all GPUs, by profile and whether a pod holds them.",
    ("pool", "profile", "held"),
    "slices",
)
_FRAGMENTATION: Final = metrics.collected(
    "tessera_gpupool_fragmentation_ratio",
    "Part of the room for slices that is lost by where pods hold some.",
    ("gpupool",),
    "0 to 1",
    "0: moving them would win nothing ([operator](operator.md#fragmentation))",
)
_ROOM: Final = metrics.collected(
    "tessera_gpupool_room_slices",
    "Slices of a profile that fit beside those that are held, now and if those were packed.",
    ("gpupool", "profile", "packed"),
    "slices",
)


class ObjectCollector(Collector):
    """Yields nothing while ``world`` returns None: a standby knows nothing of its own."""

    def __init__(
        self,
        world: Callable[[], World | None],
        rooms: Callable[[], Mapping[str, Rooms]] = dict,
    ) -> None:
        """``rooms`` returns the room of each pool."""
        self._world = world
        self._rooms = rooms

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        world = self._world()
        pools, layouts, slices = _POOLS.family(), _LAYOUTS.family(), _SLICES.family()
        counts = {field: row.family() for field, row in _OF_STATUS.items()}
        for pool in world.pools.values() if world else ():
            _add(pools, pool.name, pool.status.conditions)
            for field, family in counts.items():
                family.add_metric((pool.name,), getattr(pool.status, field))
        for layout in world.layouts.values() if world else ():
            _add(layouts, layout.name, layout.status.conditions)
        found: dict[tuple[str, str, str], int] = {}
        for gpu in world.gpus.values() if world else ():
            for one in gpu.status.slices:
                key = gpu.spec.pool, one.profile, str(bool(one.holders)).lower()
                found[key] = found.get(key, 0) + 1
            for claimed in gpu.status.claimed:
                key = gpu.spec.pool, claimed.profile, "true"
                found[key] = found.get(key, 0) + 1
        for key, count in sorted(found.items()):
            slices.add_metric(key, count)
        yield from (pools, layouts, *counts.values(), slices)
        yield from _room(self._rooms() if world else {})


def _room(of_pools: Mapping[str, Rooms]) -> Iterator[Metric]:
    lost, room = _FRAGMENTATION.family(), _ROOM.family()
    for pool, rooms in sorted(of_pools.items()):
        lost.add_metric((pool,), planner.fragmentation(rooms))
        for profile, one in sorted(rooms.items()):
            room.add_metric((pool, profile, "false"), one.now)
            room.add_metric((pool, profile, "true"), one.packed)
    yield from (lost, room)


def _add(family: GaugeMetricFamily, name: str, conditions: Sequence[Condition]) -> None:
    for one in conditions:
        family.add_metric((name, one.type), one.status == "True")
