"""Metrics about pools and layouts, computed from the operator's state at each scrape."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpu_operator import metrics
from gpu_operator.api.v1alpha1.base import Condition
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.pools.fragmentation import Rooms
from mig import planner

_POOLS: Final = metrics.declare_collected_gauge(
    "tessera_gpupool_status_condition",
    "Whether a condition of the GPUPool is true.",
    ("gpupool", "condition"),
    "0 or 1",
)
_LAYOUTS: Final = metrics.declare_collected_gauge(
    "tessera_miglayout_status_condition",
    "Whether a condition of the MIGLayout is true.",
    ("miglayout", "condition"),
    "0 or 1",
)
_OF_STATUS: Final = {
    field: metrics.declare_collected_gauge(f"tessera_gpupool_{field}", text, ("gpupool",), unit)
    for field, text, unit in (
        ("nodes", "Nodes of the pool.", "nodes"),
        ("ready_nodes", "Nodes of the pool whose GPUs are served.", "nodes"),
        ("gpus", "GPUs of the pool.", "GPUs"),
    )
}
_SLICES: Final = metrics.declare_collected_gauge(
    "tessera_gpu_slices",
    "Slices of all GPUs, by profile and whether a pod holds them.",
    ("pool", "profile", "held"),
    "slices",
)
_FRAGMENTATION: Final = metrics.declare_collected_gauge(
    "tessera_gpupool_fragmentation_ratio",
    "Part of the room for slices that is lost to the placement of slices that pods hold.",
    ("gpupool",),
    "0 to 1",
    "0: moving slices would gain no room ([operator](operator.md#fragmentation))",
)
_ROOM: Final = metrics.declare_collected_gauge(
    "tessera_gpupool_room_slices",
    "Slices of a profile that fit beside the held slices, as placed now and if packed.",
    ("gpupool", "profile", "packed"),
    "slices",
)


class ObjectCollector(Collector):
    """Collects the metrics of pools and layouts from a snapshot of the cluster.

    The function ``world`` returns the snapshot. While it returns None, as in a standby replica,
    there are no samples.
    """

    def __init__(
        self,
        world: Callable[[], World | None],
        rooms: Callable[[], Mapping[str, Rooms]] = dict,
    ) -> None:
        """Initialize; ``rooms`` returns the room for slices in each pool, by the pool's name."""
        self._world = world
        self._rooms = rooms

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families."""
        world = self._world()
        pools, layouts, slices = _POOLS.family(), _LAYOUTS.family(), _SLICES.family()
        counts = {field: row.family() for field, row in _OF_STATUS.items()}
        for pool in world.pools.values() if world else ():
            _add_conditions(pools, pool.name, pool.status.conditions)
            for field, family in counts.items():
                family.add_metric((pool.name,), getattr(pool.status, field))
        for layout in world.layouts.values() if world else ():
            _add_conditions(layouts, layout.name, layout.status.conditions)
        slice_counts: dict[tuple[str, str, str], int] = {}
        for gpu in world.gpus.values() if world else ():
            for gpu_slice in gpu.status.slices:
                key = gpu.spec.pool, gpu_slice.profile, str(bool(gpu_slice.holders)).lower()
                slice_counts[key] = slice_counts.get(key, 0) + 1
            for claimed in gpu.status.claimed:
                key = gpu.spec.pool, claimed.profile, "true"
                slice_counts[key] = slice_counts.get(key, 0) + 1
        for key, count in sorted(slice_counts.items()):
            slices.add_metric(key, count)
        yield from (pools, layouts, *counts.values(), slices)
        yield from _room_metrics(self._rooms() if world else {})


def _room_metrics(of_pools: Mapping[str, Rooms]) -> Iterator[Metric]:
    lost, room = _FRAGMENTATION.family(), _ROOM.family()
    for pool, rooms in sorted(of_pools.items()):
        lost.add_metric((pool,), planner.fragmentation(rooms))
        for profile, profile_room in sorted(rooms.items()):
            room.add_metric((pool, profile, "false"), profile_room.now)
            room.add_metric((pool, profile, "true"), profile_room.packed)
    yield from (lost, room)


def _add_conditions(family: GaugeMetricFamily, name: str, conditions: Sequence[Condition]) -> None:
    for condition in conditions:
        family.add_metric((name, condition.type), condition.status == "True")
