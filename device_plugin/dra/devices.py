"""A device as a ResourceSlice describes it: attributes, capacities, counters, taints.

Attributes have the names of the DRA driver for NVIDIA GPUs where it has them, and the standard
names of ``resource.kubernetes.io``. So selectors that were written for that driver work after a
change of their domain.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from device_plugin.dra import counters
from device_plugin.inventory.model import Gpu
from facts.health import is_in_service
from gpu_operator.api.claim_devices import DRIVER, MEMORY, Device, share_policy
from gpu_operator.api.v1alpha1 import quantity
from mig.geometry import Instance
from vgpu_sim.records import dataclass

UNHEALTHY: Final = f"{DRIVER}/unhealthy"
"""Taint with effect NoSchedule for devices that are out of service."""
SUSPECT: Final = f"{DRIVER}/suspect"
"""Taint with effect None on devices that had a suspicious event but stay in service."""

_STANDARD: Final = "resource.kubernetes.io"
_ENGINES: Final = ("copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines")
_XID: Final = re.compile(r"\bXid ([0-9]{1,4})\b", re.ASCII)
_LONGEST: Final = 64  # longest text attribute (DeviceAttributeMaxValueLength)


@dataclass(frozen=True, slots=True)
class Node:
    """Facts that are the same for each device of a node; versions are dotted numbers."""

    name: str
    driver_version: str
    cuda_version: str
    numa_nodes: int = 1


def describe(gpu: Gpu, instance: Instance, node: Node, shared: bool = False) -> dict[str, Any]:
    """Return the device for this instance of a GPU (``resource.k8s.io/v1 Device``).

    If ``shared`` is set, several claims can have the device, each with a part of its memory. A
    claim that does not request a part gets the whole memory.
    """
    profile = instance.profile
    if profile.is_whole:
        device = Device(gpu.index)
    else:
        device = Device(gpu.index, profile.name, instance.start)
    document: dict[str, Any] = {
        "name": device.name,
        "attributes": _attributes(gpu, instance, node),
        **({"allowMultipleAllocations": True} if shared else {}),
        "capacity": _consumable(instance) if shared else _capacity(instance),
        "consumesCounters": [
            {
                "counterSet": counters.set_name(gpu.index),
                "counters": to_quantities(counters.used_counters(instance, gpu.board)),
            }
        ],
    }
    taint = _taint(_health(gpu, instance))
    if taint is not None:
        document["taints"] = [taint]
    return document


def to_quantities(counts: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """Return numbers in the API's form for counters and capacities."""
    return {name: {"value": str(count)} for name, count in counts.items()}


def _attributes(gpu: Gpu, instance: Instance, node: Node) -> dict[str, dict[str, Any]]:
    board, profile = gpu.board, instance.profile
    brand = "NvidiaRTX" if " RTX " in board.product_name else "Nvidia"
    attributes = {
        "productName": _text(board.product_name),
        "brand": _text(brand),
        "architecture": _text(board.architecture),
        "board": _text(board.key),
        "cudaComputeCapability": _version(".".join(map(str, board.compute_capability))),
        "driverVersion": _version(node.driver_version),
        "cudaDriverVersion": _version(node.cuda_version),
        "numaNode": {"int": gpu.root % node.numa_nodes},
        f"{_STANDARD}/pcieRoot": _text(f"pci0000:{gpu.root_bus:02x}"),
        f"{_STANDARD}/pciBusID": _text(f"0000:{gpu.bus:02x}:00.0"),
    }
    if profile.is_whole:
        return attributes | {
            "type": _text("gpu"),
            "uuid": _text(gpu.uuid),
            "index": {"int": gpu.index},
        }
    return attributes | {
        "type": _text("mig"),
        "profile": _text(profile.name),
        "parentUUID": _text(gpu.uuid),
        "parentIndex": {"int": gpu.index},
        "placementStart": {"int": instance.start},
        "placementSize": {"int": profile.size},
    }


def _capacity(instance: Instance) -> dict[str, dict[str, str]]:
    profile = instance.profile
    engines = dict(zip(_ENGINES, profile.engines.counts(), strict=True))
    return {
        MEMORY: {"value": quantity.format_bytes(profile.memory_bytes)},
        **to_quantities({"multiprocessors": profile.sm_count, **engines}),
    }


def _consumable(instance: Instance) -> dict[str, dict[str, Any]]:
    """Return the capacities, with the amount that a request consumes of each.

    Without a policy, a claim that does not mention multiprocessors would consume all of them and
    exclude every other claim, although claims take turns on them.
    """
    whole = instance.profile.memory_bytes
    policy = share_policy(whole)
    memory = {
        "default": quantity.format_bytes(whole),
        "validRange": {
            "min": quantity.format_bytes(policy.least),
            "step": quantity.format_bytes(policy.step),
        },
    }
    return {
        name: {**capacity, "requestPolicy": memory if name == MEMORY else {"default": "0"}}
        for name, capacity in _capacity(instance).items()
    }


def _health(gpu: Gpu, instance: Instance) -> str:
    """Return the health of the instance, or that of its GPU if the instance does not exist."""
    mig_slice = next(
        (candidate for candidate in gpu.slices if candidate.instance == instance), None
    )
    if mig_slice is None or not is_in_service(gpu.health):
        return gpu.health
    return mig_slice.health


def _taint(health: str) -> dict[str, str] | None:
    if health == "Healthy":
        return None
    served = is_in_service(health)
    xid = _XID.search(health)
    taint = {
        "key": SUSPECT if served else UNHEALTHY,
        "effect": "None" if served else "NoSchedule",
    }
    return taint | ({"value": f"xid-{xid[1]}"} if xid else {})


def _text(value: str) -> dict[str, Any]:
    return {"string": value[:_LONGEST]}


def _version(dotted: str) -> dict[str, Any]:
    """Return a version in the form of semver.org: three numbers without leading zeros."""
    numbers = [str(int(part)) for part in re.findall(r"[0-9]+", dotted)[:3]]
    return {"version": ".".join([*numbers, "0", "0", "0"][:3])}
