"""The GPUFaults of GPUs: which are behind a GPU's health, since when, and how each ends.

A fault's state is what the node's agent has reported in the GPU object. A GPU's health can have
other causes as well: failures of real programs, and faults that were injected on the node.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import yaml

from console.model.event_log import order_of
from gpu_operator.api.v1alpha1 import API_VERSION
from gpu_operator.api.v1alpha1.base import ConditionType
from gpu_operator.api.v1alpha1.gpu import FaultKind, FaultPhase, WantedFault
from gpu_operator.api.v1alpha1.resource import Fault, Gpu
from gpu_operator.controllers import faults as requests
from gpu_operator.controllers.common.world import World

KIND: Final = "GPUFault"
_DEGRADED: Final = ConditionType.DEGRADED.value
_PENDING: Final = "Pending"
_UNKNOWN: Final = "Unknown"  # the health of a GPU that its node's agent has not read
_XIDS_OF_ERRORS: Final = (63, 64, 94, 95)  # of uncorrected memory errors
OFF_BUS_XID: Final = 79
HANG_XID: Final = 109
LOST: Final = "lost: off the bus"
_HANG: Final = requests.name_fault(FaultKind.HANG, None)
_OFF_BUS: Final = requests.name_fault(FaultKind.OFF_BUS, None)
_OVER: Final = (FaultPhase.INJECTED, FaultPhase.CLEARED)
_WORDS_OF_HEALTH: Final = {
    FaultKind.HANG: (" hangs", " hung"),
    FaultKind.THERMAL: ("thermal slowdown",),
}
_NOT_NAMED: Final = 1 << 20  # behind every place in a health


@dataclass(frozen=True, slots=True)
class GpuFault:
    """A fault that a GPUFault requests of a GPU.

    ``name`` is empty if the GPUFault is not known any more. ``since`` is when the GPUFault was
    created. ``is_behind`` is whether the fault keeps the GPU or its slice from being healthy, or
    the health names its Xid. ``place`` is where the health names what the fault causes, and
    ``is_named`` whether it does: the health of a GPU need not name every fault that lasts.
    """

    name: str
    what: str
    phase: str
    slice: str
    since: str
    ending: str
    is_behind: bool
    place: int = _NOT_NAMED

    @property
    def is_named(self) -> bool:
        """Return whether the health names the fault's Xid or effect."""
        return self.place < _NOT_NAMED

    @property
    def is_off_bus(self) -> bool:
        """Return whether the fault keeps its GPU off the bus."""
        return self.phase == FaultPhase.ACTIVE and self.what == _OFF_BUS

    @property
    def label(self) -> str:
        """Return what the fault is, with the Xid that gpud records for it."""
        return f"{self.what}, Xid {HANG_XID}" if self.what == _HANG else self.what

    def __str__(self) -> str:
        return f"GPUFault {self.name} ({self.label})" if self.name else f"{self.label}, deleted"


@dataclass(frozen=True, slots=True)
class SickGpu:
    """A GPU that is not known to be healthy or has a lasting fault, with the faults behind that."""

    gpu: Gpu
    faults: tuple[GpuFault, ...]

    @property
    def state(self) -> str:
        """Return what is known of the GPU in one phrase."""
        if is_lost(self.gpu):
            return "lost"
        health = self.gpu.status.health
        if health == _UNKNOWN:
            return "of unknown health"
        return "with a lasting fault only" if health == "Healthy" else "not healthy"

    def __str__(self) -> str:
        causes = [
            f", {'also: ' if is_beside(fault, place == 0, self.gpu.status.health) else ''}{fault}"
            for place, fault in enumerate(self.faults)
        ]
        return f"GPU {self.gpu.spec.index} {describe_health(self.gpu)}{''.join(causes)}"


@lru_cache(maxsize=1)
def faults_by_gpu(world: World) -> Mapping[str, tuple[Fault, ...]]:
    """Return the GPUFaults of each GPU that has some, the oldest first, by the GPU's name."""
    faults_of_gpus: dict[str, tuple[Fault, ...]] = {}
    for fault in sorted(world.faults.values(), key=lambda gpu_fault: gpu_fault.meta.age_key):
        gpu = requests.find_gpu(world, fault.spec)
        if gpu is not None:
            faults_of_gpus[gpu.name] = (*faults_of_gpus.get(gpu.name, ()), fault)
    return faults_of_gpus


def faults_of(world: World, gpu: Gpu) -> tuple[GpuFault, ...]:
    """Return the faults of a GPU, those behind its health first, as the health names them.

    Of faults that are over and have the same effect, only the latest can be behind the health.
    """
    every = [*_orphans(world, gpu), *_known(world, gpu)]
    over = [fault for fault in every if fault.phase in _OVER]
    latest = {(fault.what, fault.slice): fault for fault in over}
    faults = [
        fault
        if fault.phase not in _OVER or latest[fault.what, fault.slice] is fault
        else replace(fault, is_behind=False, ending="is over; a later fault is of the same kind")
        for fault in every
    ]
    return tuple(sorted(faults, key=lambda fault: (not fault.is_behind, fault.place)))


def faults_behind(world: World, gpu: Gpu) -> tuple[GpuFault, ...]:
    """Return the faults that are behind the health of a GPU or of its slices."""
    return tuple(fault for fault in faults_of(world, gpu) if fault.is_behind)


def sick_gpus(world: World, gpus: Iterable[Gpu]) -> tuple[SickGpu, ...]:
    """Return those of some GPUs that are not known to be healthy, or on which a fault lasts."""
    with_faults = faults_by_gpu(world)
    sick = []
    for gpu in gpus:
        is_sick = gpu.status.health != "Healthy" or is_lost(gpu)
        if is_sick or gpu.spec.faults or gpu.name in with_faults:
            behind = faults_behind(world, gpu)
            if is_sick or behind:
                sick.append(SickGpu(gpu, behind))
    return tuple(sick)


def is_beside(fault: GpuFault, is_first: bool, health: str) -> bool:
    """Return whether a page that lists a fault has another cause of the health before it.

    ``health`` has its cause behind a colon, if it has one.
    """
    has_other = not is_first or ":" in health
    return has_other and not fault.is_named and health not in ("Healthy", _UNKNOWN)


def is_sick(gpu: Gpu) -> bool:
    """Return whether the node's agent reports that the GPU is not healthy, or lost."""
    return gpu.status.health not in ("Healthy", _UNKNOWN) or is_lost(gpu)


def is_lost(gpu: Gpu) -> bool:
    """Return whether the GPU is off the bus, as its node's agent has reported.

    An agent that does not report it yet reports the GPUFaults that cause it.
    """
    if gpu.status.lost:
        return True
    active = {state.id for state in gpu.status.faults if state.phase is FaultPhase.ACTIVE}
    return any(fault.id in active and fault.kind is FaultKind.OFF_BUS for fault in gpu.spec.faults)


def describe_health(gpu: Gpu, of_slice: str = "") -> str:
    """Return the health of a GPU, or that of one of its slices, which cannot be better; first
    whether they are lost.
    """
    health = worse_health(gpu, of_slice)
    return f"{LOST}; {health}" if is_lost(gpu) else health


def worse_health(gpu: Gpu, of_slice: str) -> str:
    """Return the health of a slice, or that of its GPU if the slice's own is good or empty."""
    return gpu.status.health if of_slice in ("", "Healthy") else of_slice


def healthy_since(gpu: Gpu, earliest_time: str) -> str:
    """Return when a GPU became healthy after a time; empty if it is not, or was before it."""
    if is_sick(gpu) or gpu.status.health == _UNKNOWN:
        return ""
    times = [
        condition.last_transition_time
        for condition in gpu.status.conditions
        if condition.type == _DEGRADED
    ]
    return next((time for time in times if order_of(time) >= order_of(earliest_time)), "")


def write_manifest(fault: Fault) -> str:
    """Return the manifest of a GPUFault."""
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": fault.name},
        "spec": fault.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
    }
    return str(yaml.safe_dump(document, sort_keys=False, default_flow_style=False))


def find_fault(world: World, fault: Fault) -> GpuFault:
    """Return the state of one GPUFault."""
    gpu = requests.find_gpu(world, fault.spec)
    return _view(gpu, fault, _wanted(gpu, fault.meta.uid))


def _known(world: World, gpu: Gpu) -> Iterator[GpuFault]:
    for fault in faults_by_gpu(world).get(gpu.name, ()):
        yield _view(gpu, fault, _wanted(gpu, fault.meta.uid))


def _orphans(world: World, gpu: Gpu) -> Iterator[GpuFault]:
    """Yield the faults of the GPU object whose GPUFaults are not known."""
    known_uids = {fault.meta.uid for fault in faults_by_gpu(world).get(gpu.name, ())}
    states = {state.id: state for state in gpu.status.faults}
    for requested_fault in gpu.spec.faults:
        if requested_fault.id not in known_uids:
            state = states.get(requested_fault.id)
            phase = state.phase.value if state is not None else _PENDING
            where = state.slice if state is not None else ""
            fault_name = requests.name_fault(requested_fault.kind, requested_fault.xid)
            ending = "its GPUFault is gone: the operator withdraws the fault from the GPU"
            behind, place = (
                _is_behind(gpu, requested_fault, phase, where),
                _place(gpu, requested_fault, where),
            )
            yield GpuFault("", fault_name, phase, where, "", ending, behind, place)


def _wanted(gpu: Gpu | None, uid: str) -> WantedFault | None:
    faults = gpu.spec.faults if gpu is not None else ()
    return next((fault for fault in faults if fault.id == uid), None)


def _view(gpu: Gpu | None, fault: Fault, requested_fault: WantedFault | None) -> GpuFault:
    reported = gpu.status.faults if gpu is not None else ()
    state = next((report for report in reported if report.id == fault.meta.uid), None)
    stated_phase = fault.status.phase or _PENDING
    phase = (
        state.phase.value
        if state is not None and stated_phase != FaultPhase.REFUSED
        else stated_phase
    )
    where = state.slice if state is not None else ""
    kind = requests.kind_of(fault.spec)
    fault_name = requests.name_fault(kind, fault.spec.xid) if kind is not None else "no valid fault"
    behind, place = False, _NOT_NAMED
    if gpu is not None and requested_fault is not None:
        behind, place = (
            _is_behind(gpu, requested_fault, phase, where),
            _place(gpu, requested_fault, where),
        )
    ending = _ending(fault, requested_fault, phase, behind)
    return GpuFault(fault.name, fault_name, phase, where, fault.meta.created, ending, behind, place)


def _is_behind(gpu: Gpu, requested_fault: WantedFault, phase: str, where: str) -> bool:
    """Return whether a fault lasts, or the health that it affects names its Xid."""
    if phase == FaultPhase.ACTIVE:
        return True
    if phase not in (FaultPhase.INJECTED, FaultPhase.CLEARED) or not _xids(requested_fault):
        return False
    return _place(gpu, requested_fault, where) < _NOT_NAMED


def _place(gpu: Gpu, requested_fault: WantedFault, where: str) -> int:
    """Return where the health that a fault affects names what the fault causes."""
    slices = [gpu_slice.health for gpu_slice in gpu.status.slices if gpu_slice.uuid == where]
    claimed = [claim.health for claim in gpu.status.claims if claim.uuid == where]
    words = [f"Xid {xid} (" for xid in _xids(requested_fault)]
    words += _WORDS_OF_HEALTH.get(requested_fault.kind, ())
    # An agent reports the state of a GPU alone as its health, and the cause in the condition.
    causes = [
        condition.message for condition in gpu.status.conditions if condition.type == _DEGRADED
    ]
    sick = "\n".join(f"{health} (" for health in (gpu.status.health, *causes, *slices, *claimed))
    return min((place for word in words if (place := sick.find(word)) >= 0), default=_NOT_NAMED)


def _xids(requested_fault: WantedFault) -> tuple[int, ...]:
    match requested_fault.kind:
        case FaultKind.XID:
            return (requested_fault.xid or 0,)
        case FaultKind.ECC_UNCORRECTED:
            return _XIDS_OF_ERRORS
        case FaultKind.OFF_BUS:
            return (OFF_BUS_XID,)
        case FaultKind.HANG:
            return (HANG_XID,)
        case _:
            return ()


def _ending(fault: Fault, requested_fault: WantedFault | None, phase: str, behind: bool) -> str:
    hung = "gpud then ends the CUDA contexts on it (error 719, Xid 45; pods keep running),"
    recovery = "resets the GPU, and puts it back into service after a probation"
    is_hang = requested_fault is not None and requested_fault.kind is FaultKind.HANG
    recovery = f"{hung} {recovery}" if is_hang else f"gpud then {recovery}"
    names = "; the health names its Xid" if behind else ""
    match phase:
        case FaultPhase.ACTIVE:
            until = requested_fault.until if requested_fault is not None else ""
            end = f"until {until}, or until" if until else "until"
            return f"lasts {end} the GPUFault is deleted: {recovery}"
        case FaultPhase.INJECTED:
            reset = "; gpud resets the GPU when no other fault lasts and no CUDA context is left"
            return f"happened once and is over{names}{reset if behind else ''}"
        case FaultPhase.CLEARED:
            return f"has ended{names}"
        case FaultPhase.REFUSED:
            messages = [
                condition.message
                for condition in fault.status.conditions
                if condition.status == "False"
            ]
            return f"has no effect: {next(filter(None, messages), 'refused')}"
        case _:
            return "is not reported by the node's agent yet"
