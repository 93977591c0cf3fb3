"""The ResourceSlices of a node's pool, computed from its inventory. Pure.

A pool has one slice with a counter set for each GPU, and as many slices with devices as the
API's limits require. The slices' names are numbered, because the scheduler reads the slices of a
pool in the order of names.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from device_plugin.dra import counters, places
from device_plugin.dra.devices import Node, describe, to_quantities
from device_plugin.inventory.model import Gpu
from gpu_operator.api.claim_devices import DRIVER
from mig.geometry import Instance
from vgpu_sim.records import dataclass

MOST_DEVICES: Final = 64  # ResourceSliceMaxDevicesWithAdvancedFeatures
MOST_COUNTER_SETS: Final = 8  # ResourceSliceMaxCounterSets


@dataclass(frozen=True, slots=True)
class OfferedGpu:
    """A GPU whose free resources are offered to claims.

    ``taken`` are the instances that were not created for claims. If ``shared`` is set, several
    claims can have the same device, each with a part of the device's memory.
    """

    gpu: Gpu
    taken: tuple[Instance, ...] = ()
    shared: bool = False


def slice_name(node_name: str, number: int) -> str:
    """Return the name of a node's slice, unique in the cluster."""
    return f"{node_name}-{DRIVER}-{number}"


def resource_slices(node: Node, gpus: Sequence[OfferedGpu]) -> dict[str, dict[str, Any]]:
    """Return the specs of a node's ResourceSlices, without a generation, by slice name.

    A device that does not fit beside the ``taken`` instances of its GPU is left out. Devices
    that were created for claims are included, and the scheduler accounts for them. If ``gpus``
    is empty, there are no slices.
    """
    if not gpus:
        return {}
    sets = [_counter_set(offered_gpu) for offered_gpu in gpus]
    devices = list(_devices(node, gpus))
    contents = [{"sharedCounters": chunk} for chunk in _parts(sets, MOST_COUNTER_SETS)]
    contents += [{"devices": chunk} for chunk in _parts(devices, MOST_DEVICES)]
    return {
        slice_name(node.name, number): {
            "driver": DRIVER,
            "nodeName": node.name,
            "pool": {"name": node.name, "resourceSliceCount": len(contents)},
            **content,
        }
        for number, content in enumerate(contents)
    }


def _counter_set(offered: OfferedGpu) -> dict[str, Any]:
    gpu = offered.gpu
    remaining = counters.remaining_counters(gpu.board, offered.taken)
    return {"name": counters.set_name(gpu.index), "counters": to_quantities(remaining)}


def _parts(whole: Sequence[Any], max_length: int) -> list[Sequence[Any]]:
    return [whole[start : start + max_length] for start in range(0, len(whole), max_length)]


def _devices(node: Node, gpus: Sequence[OfferedGpu]) -> Iterator[Mapping[str, Any]]:
    """Yield the devices, grouped by profile, the smallest profile first."""
    free = {
        offered_gpu.gpu.index: counters.remaining_counters(offered_gpu.gpu.board, offered_gpu.taken)
        for offered_gpu in gpus
    }
    ranked_devices = [
        (rank, offered_gpu.gpu.index, offered_gpu, instance)
        for offered_gpu in gpus
        for rank, instance in _ranked(offered_gpu.gpu)
        if counters.fits(
            free[offered_gpu.gpu.index], counters.used_counters(instance, offered_gpu.gpu.board)
        )
    ]
    ranked_devices.sort(key=lambda entry: entry[:2])
    for _, _, offered_gpu, instance in ranked_devices:
        yield describe(offered_gpu.gpu, instance, node, offered_gpu.shared)


def _ranked(gpu: Gpu) -> Iterator[tuple[int, Instance]]:
    """Yield the devices of a GPU in the order of publication, each with its profile's rank.

    Equal profiles of a board have equal ranks.
    """
    names: list[str] = []
    for instance in places.list_instances(gpu.board):
        if instance.profile.name not in names:
            names.append(instance.profile.name)
        yield len(names), instance
