"""Whose work a sick GPU or slice affects, and the first step against what its health names."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from console.views import details, faults
from console.views.details import FoundSlice
from console.views.faults import GpuFault
from gpu_operator.api.v1alpha1.gpu import FaultKind, FaultPhase, Holder, WantedFault
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.world import World

_NAMED: Final = re.compile(r"\bXid (\d{1,4})\b")
_BOARD: Final = "reset the GPU; if it recurs, replace the board"
_FIRMWARE: Final = "reset the GPU; update driver and firmware"
# A test compares them with the table of docs/faults.md.
REMEDIES: Final = {
    13: "debug the program: `compute-sanitizer`",
    31: "debug the program: an illegal address",
    32: "reset the GPU; check the driver",
    38: "reset the GPU; update the driver",
    43: "debug the program",
    45: "none: see the Xid before it",
    48: _BOARD,
    61: _BOARD,
    62: _BOARD,
    63: "reset the GPU when it is idle, which activates the remapping",
    64: "replace the board",
    68: "update the driver; debug the program",
    69: "debug the program; reset the GPU",
    74: "check NVLink's cables and switches; reset the GPU",
    79: "restart the node; check seating, power and temperature",
    92: "watch the GPU; reset it if Xid 63 or 64 follows",
    94: "restart the program; reset the GPU when it is idle",
    95: "reset the GPU before it is used again",
    109: "debug the program",
    119: _FIRMWARE,
    120: _FIRMWARE,
}


@dataclass(frozen=True, slots=True)
class SickSlice:
    """A slice of a pod that is not healthy, or whose GPU is not, with the faults behind that."""

    found: FoundSlice
    faults: tuple[GpuFault, ...]


def holders_of(gpu: Gpu, slice_uuid: str = "") -> tuple[Holder, ...]:
    """Return the pods that hold slices of a GPU, or one of its slices, each once."""
    every = {
        (holder.namespace, holder.name): holder
        for gpu_slice in details.entries_of(gpu)
        if slice_uuid in ("", gpu_slice.uuid)
        for holder in gpu_slice.holders
    }
    return tuple(every[key] for key in sorted(every))


def remedies_of(gpu: Gpu, slice_uuid: str = "") -> tuple[tuple[int, str], ...]:
    """Return the Xids that the health of a GPU and of its slices names, with their remedies.

    A GPU that is lost has Xid 79, and one that hangs Xid 109, even if its health does not name it.
    """
    return tuple({xid: REMEDIES[xid] for xid in _xids(gpu, slice_uuid) if xid in REMEDIES}.items())


def sick_slices(world: World, held_slices: Sequence[FoundSlice]) -> tuple[SickSlice, ...]:
    """Return those of a pod's slices that are not healthy, or whose GPUs are not."""
    return tuple(
        SickSlice(
            found_slice,
            tuple(
                fault
                for fault in faults.faults_behind(world, found_slice.gpu)
                if fault.slice in ("", found_slice.slice.uuid)
            ),
        )
        for found_slice in held_slices
        if found_slice.slice.health != "Healthy" or faults.is_sick(found_slice.gpu)
    )


def describe_recovery(gpu: Gpu) -> str:
    """Return what gpud does after the faults of a GPU that is out of service, and what it needs.

    gpud waits for CUDA contexts to end, not for pods: a pod can hold a slice without one.
    """
    health = gpu.status.health.partition(":")[0]
    if health == "Probation":
        return (
            "The fault is over, and gpud has reset the GPU. It watches the GPU and puts it back"
            " into service after 30 seconds without an event (gpud's default); a relapse doubles"
            " this, up to eight times. No pod has to end"
        )
    if health != "Unhealthy":
        return ""
    kinds = {fault.kind for fault in _lasting(gpu)}
    if FaultKind.HANG in kinds:
        return (
            "When the hang ends, gpud itself ends the CUDA contexts that hang (error 719, Xid 45),"
            " and resets the GPU at least 10 seconds after the last event: delete the GPUFault. No"
            " pod has to end for this"
        )
    if FaultKind.OFF_BUS in kinds:
        return (
            "The contexts have ended. When the GPU is on the bus again, gpud resets it: delete the"
            " GPUFault. No pod has to end for this"
        )
    return (
        "gpud resets the GPU at least 10 seconds after the last event, when no hang or loss of the"
        " bus lasts and no CUDA context is left on it, unless the remapping of memory has failed"
        " (Xid 64). A pod without a context does not prevent this; end programs that still have one"
    )


def _lasting(gpu: Gpu, slice_uuid: str = "") -> Iterator[WantedFault]:
    """Yield the faults that last, of a GPU or of one of its slices."""
    active = {
        state.id
        for state in gpu.status.faults
        if state.phase is FaultPhase.ACTIVE and slice_uuid in ("", state.slice or slice_uuid)
    }
    yield from (fault for fault in gpu.spec.faults if fault.id in active)


def _xids(gpu: Gpu, slice_uuid: str) -> Iterator[int]:
    if faults.is_lost(gpu):
        yield faults.OFF_BUS_XID
    if any(fault.kind is FaultKind.HANG for fault in _lasting(gpu, slice_uuid)):
        yield faults.HANG_XID
    healths = [
        gpu_slice.health
        for gpu_slice in details.entries_of(gpu)
        if slice_uuid in ("", gpu_slice.uuid)
    ]
    for health in (gpu.status.health, *healths):
        yield from (int(match[1]) for match in _NAMED.finditer(health))
