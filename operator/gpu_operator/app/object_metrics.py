"""Pools and layouts as metrics, made of what the operator knows when they are asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpu_operator.api.v1alpha1.base import Condition
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.pools.scatter import Rooms
from mig import planner


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
        pools = _conditions("gpupool", "GPUPool")
        layouts = _conditions("miglayout", "MIGLayout")
        counts = {
            name: GaugeMetricFamily(f"tessera_gpupool_{name}", text, labels=("gpupool",))
            for name, text in (
                ("nodes", "Nodes of the pool."),
                ("ready_nodes", "Nodes of the pool whose GPUs are served."),
                ("gpus", "GPUs of the pool."),
            )
        }
        slices = GaugeMetricFamily(
            "tessera_gpu_slices",
            "Slices of all GPUs, by profile and whether a pod holds them.",
            labels=("pool", "profile", "held"),
        )
        for pool in world.pools.values() if world else ():
            _add(pools, pool.name, pool.status.conditions)
            for name, family in counts.items():
                family.add_metric((pool.name,), getattr(pool.status, name))
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
    lost = GaugeMetricFamily(
        "tessera_gpupool_fragmentation_ratio",
        "Part of the room for slices that is lost by where pods hold some.",
        labels=("gpupool",),
    )
    room = GaugeMetricFamily(
        "tessera_gpupool_room_slices",
        "Slices of a profile that fit beside those that are held, now and if those were packed.",
        labels=("gpupool", "profile", "packed"),
    )
    for pool, rooms in sorted(of_pools.items()):
        lost.add_metric((pool,), planner.fragmentation(rooms))
        for profile, one in sorted(rooms.items()):
            room.add_metric((pool, profile, "false"), one.now)
            room.add_metric((pool, profile, "true"), one.packed)
    yield from (lost, room)


def _conditions(label: str, kind: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(
        f"tessera_{label}_status_condition",
        f"Whether a condition of the {kind} is true.",
        labels=(label, "condition"),
    )


def _add(family: GaugeMetricFamily, name: str, conditions: Sequence[Condition]) -> None:
    for one in conditions:
        family.add_metric((name, one.type), one.status == "True")
