"""GPUFaults: what they ask of each GPU, and what became of it.

A GPU's ``spec.faults`` is the whole list, written when its GPU is looked at; its agent carries it
out. A fault that lasts ends when its GPUFault is deleted.
"""

import datetime
from collections.abc import Iterator

from gpu_operator.api.moments import moment
from gpu_operator.api.v1alpha1.base import ConditionType, Reason
from gpu_operator.api.v1alpha1.gpu import FaultKind, FaultPhase, FaultStatus, WantedFault
from gpu_operator.api.v1alpha1.gpufault import GPUFaultSpec, GPUFaultStatus
from gpu_operator.api.v1alpha1.resource import Fault, Gpu
from gpu_operator.controllers.common.conditions import (
    Verdict,
    Verdicts,
    blocked,
    refused,
    report,
    verdicts,
)
from gpu_operator.controllers.common.world import Outcome, World
from gpu_operator.kube.actions import Apply, Manager
from gpu_operator.render import gpu as gpu_render

MAX_FAULTS = 64  # of one GPU: the newest are refused
_LASTING = frozenset({FaultKind.THERMAL, FaultKind.HANG, FaultKind.OFF_BUS})


def kind_of(spec: GPUFaultSpec) -> FaultKind | None:
    """Return what is to fail; None unless it is exactly one thing."""
    asked = {
        FaultKind.XID: spec.xid is not None,
        FaultKind.ECC_CORRECTED: spec.ecc is not None and spec.ecc.corrected is not None,
        FaultKind.ECC_UNCORRECTED: spec.ecc is not None and spec.ecc.uncorrected is not None,
        FaultKind.THERMAL: spec.thermal,
        FaultKind.HANG: spec.hang,
        FaultKind.OFF_BUS: spec.off_bus,
    }
    found = [kind for kind, is_asked in asked.items() if is_asked]
    return found[0] if len(found) == 1 else None


def write(world: World, name: str) -> Iterator[Apply]:
    """Yield the write that makes a GPU's faults those that GPUFaults ask of it, if it is needed."""
    gpu = world.gpus.get(name)
    if gpu is None or gpu.meta.deleting:
        return
    wanted = tuple(_wanted(fault) for fault in _of(world, gpu)[:MAX_FAULTS])
    if wanted != gpu.spec.faults:
        yield Apply(Manager.FAULTS, gpu_render.faults(gpu.name, gpu.meta.uid, wanted))


def reconcile(world: World, name: str, now: datetime.datetime) -> Outcome:
    """Report on one GPUFault."""
    fault = world.faults.get(name)
    if fault is None or fault.meta.deleting:
        return Outcome()
    gpu = _target(world, fault.spec)
    told = _told(world, fault, gpu)
    kind = kind_of(fault.spec)
    status = GPUFaultStatus(
        phase=told.phase.value if told is not None else "Pending",
        gpu=gpu.name if gpu is not None else _where(fault.spec),
        slice=told.slice if told is not None else "",
        fault=_word(fault.spec, kind),
    )
    wanted = _verdicts(fault, gpu, told)
    if not wanted[ConditionType.ACCEPTED].true:
        status = status.model_copy(update={"phase": "Refused"})
    wanted = blocked(wanted, world.refused_writes.get(("GPUFault", name), ""))
    return Outcome(report(fault.meta, fault.status, status, wanted, now))


def _of(world: World, gpu: Gpu) -> list[Fault]:
    """Return the faults of a GPU, oldest first."""
    found = [
        fault
        for fault in world.faults.values()
        if not fault.meta.deleting
        and kind_of(fault.spec) is not None
        and _target(world, fault.spec) is gpu
    ]
    return sorted(found, key=lambda fault: fault.meta.age_key)


def _target(world: World, spec: GPUFaultSpec) -> Gpu | None:
    if spec.gpu_name is not None:
        return world.gpus.get(spec.gpu_name)
    mine = world.gpus_by_node().get(spec.node_name or "", ())
    return next((gpu for gpu in mine if gpu.spec.index == (spec.index or 0)), None)


def _where(spec: GPUFaultSpec) -> str:
    return spec.gpu_name or f"index {spec.index or 0} on node {spec.node_name}"


def _wanted(fault: Fault) -> WantedFault:
    spec, kind = fault.spec, kind_of(fault.spec)
    assert kind is not None  # ``_of`` chose it
    count = spec.count
    if spec.ecc is not None:
        count = spec.ecc.corrected or spec.ecc.uncorrected or 1
    until = ""
    made = moment(fault.meta.created)
    if kind in _LASTING and spec.duration_seconds is not None and made is not None:
        until = (made + datetime.timedelta(seconds=spec.duration_seconds)).isoformat()
    return WantedFault(
        id=fault.meta.uid,
        kind=kind,
        xid=spec.xid,
        count=count,
        profile=spec.slice.profile if spec.slice is not None else None,
        start=spec.slice.start if spec.slice is not None else None,
        compute_start=spec.slice.compute_start if spec.slice is not None else None,
        until=until,
    )


def _told(world: World, fault: Fault, gpu: Gpu | None) -> FaultStatus | None:
    """Return what the agent said of a fault."""
    if gpu is None:
        return None
    return next((one for one in gpu.status.faults if one.id == fault.meta.uid), None)


def _word(spec: GPUFaultSpec, kind: FaultKind | None) -> str:
    if kind is None:
        return ""
    return f"Xid {spec.xid}" if kind is FaultKind.XID else kind.value


def _verdicts(fault: Fault, gpu: Gpu | None, told: FaultStatus | None) -> Verdicts:
    spec = fault.spec
    if kind_of(spec) is None:
        what = "xid, ecc.corrected, ecc.uncorrected, thermal, hang, offBus"
        return refused(Reason.INVALID_SPEC, f"spec: exactly one of {what} is given")
    if gpu is None:
        return refused(Reason.GPU_NOT_FOUND, f"there is no GPU {_where(spec)}")
    if told is None:
        waiting = Verdict(False, Reason.WAITING_FOR_AGENT, f"the agent of {gpu.spec.node_name}")
        return verdicts(waiting, progressing=Verdict(True, Reason.WAITING_FOR_AGENT))
    match told.phase:
        case FaultPhase.REFUSED:
            return refused(Reason.FAULT_REFUSED, told.message)
        case FaultPhase.CLEARED:
            return verdicts(Verdict(True, Reason.CLEARED, told.message))
        case FaultPhase.ACTIVE:
            return verdicts(Verdict(True, Reason.INJECTED, f"{gpu.name} has it now"))
        case FaultPhase.INJECTED:
            return verdicts(Verdict(True, Reason.INJECTED, f"it happened to {gpu.name}"))
