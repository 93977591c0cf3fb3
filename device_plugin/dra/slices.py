"""What a node offers, as the ResourceSlices of its pool. Pure: inventory in, specs out.

A pool is one slice with a counter set for each GPU, and as many with devices as the API's limits
want. Their names are numbered: the scheduler reads the slices of a pool in the order of names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from device_plugin.dra import counters, places
from device_plugin.dra.devices import Node, describe, numbers
from device_plugin.inventory.model import Gpu
from gpu_operator.api.claim_devices import DRIVER
from mig.geometry import Instance

MOST_DEVICES: Final = 64  # ResourceSliceMaxDevicesWithAdvancedFeatures
MOST_COUNTER_SETS: Final = 8  # ResourceSliceMaxCounterSets


@dataclass(frozen=True, slots=True)
class Offered:
    """A GPU whose room is offered; ``taken`` are the instances that no claim has made.

    ``shared``: several claims can have a device, each a part of its memory.
    """

    gpu: Gpu
    taken: tuple[Instance, ...] = ()
    shared: bool = False


def slice_name(node_name: str, number: int) -> str:
    """Return the name of a node's slice; no other node has it."""
    return f"{node_name}-{DRIVER}-{number}"


def resource_slices(node: Node, gpus: Sequence[Offered]) -> dict[str, dict[str, Any]]:
    """Return the specs of a node's slices by their names, without a generation.

    Devices that have no room beside what is taken are left out; those that claims made stay, and
    the scheduler counts them. Without GPUs there is no slice.
    """
    if not gpus:
        return {}
    sets = [_counter_set(one) for one in gpus]
    devices = list(_devices(node, gpus))
    contents = [{"sharedCounters": some} for some in _parts(sets, MOST_COUNTER_SETS)]
    contents += [{"devices": some} for some in _parts(devices, MOST_DEVICES)]
    return {
        slice_name(node.name, number): {
            "driver": DRIVER,
            "nodeName": node.name,
            "pool": {"name": node.name, "resourceSliceCount": len(contents)},
            **content,
        }
        for number, content in enumerate(contents)
    }


def _counter_set(offered: Offered) -> dict[str, Any]:
    gpu = offered.gpu
    left = counters.left(gpu.board, offered.taken)
    return {"name": counters.set_name(gpu.index), "counters": numbers(left)}


def _parts(whole: Sequence[Any], most: int) -> list[Sequence[Any]]:
    return [whole[start : start + most] for start in range(0, len(whole), most)]


def _devices(node: Node, gpus: Sequence[Offered]) -> Iterator[Mapping[str, Any]]:
    """Yield devices, those of a profile together: the smallest that will do is found first."""
    free = {one.gpu.index: counters.left(one.gpu.board, one.taken) for one in gpus}
    found = [
        (rank, one.gpu.index, one, instance)
        for one in gpus
        for rank, instance in _ranked(one.gpu)
        if counters.fits(free[one.gpu.index], counters.used(instance, one.gpu.board))
    ]
    found.sort(key=lambda entry: entry[:2])
    for _, _, one, instance in found:
        yield describe(one.gpu, instance, node, one.shared)


def _ranked(gpu: Gpu) -> Iterator[tuple[int, Instance]]:
    """Yield the devices of a GPU in their order; equal profiles of a board have one rank."""
    names: list[str] = []
    for instance in places.in_order(gpu.board):
        if instance.profile.name not in names:
            names.append(instance.profile.name)
        yield len(names), instance
