"""GPUFaults: determines the faults that they request of each GPU, and reports their state.

A GPU's ``spec.faults`` is the whole list. It is written when the GPU is reconciled, and the node
agent applies it. A lasting fault ends when its GPUFault is deleted.
"""

import datetime
from collections.abc import Iterator, Sequence
from typing import Final

from gpu_operator.api.timestamps import parse_timestamp
from gpu_operator.api.v1alpha1.base import ConditionType, Reason
from gpu_operator.api.v1alpha1.gpu import FaultKind, FaultPhase, FaultStatus, WantedFault
from gpu_operator.api.v1alpha1.gpufault import GPUFaultSpec, GPUFaultStatus
from gpu_operator.api.v1alpha1.resource import Fault, Gpu
from gpu_operator.controllers.common.conditions import (
    Verdict,
    Verdicts,
    refusal_verdicts,
    report,
    verdicts,
    with_write_refusal,
)
from gpu_operator.controllers.common.world import Outcome, World
from gpu_operator.kube.actions import Apply, Manager, Record
from gpu_operator.render import gpu as gpu_render

MAX_FAULTS = 64  # per GPU: the newest are refused
_LASTING = frozenset({FaultKind.THERMAL, FaultKind.HANG, FaultKind.OFF_BUS})
_LABELS: Final = {
    FaultKind.ECC_CORRECTED: "ecc corrected",
    FaultKind.ECC_UNCORRECTED: "ecc uncorrected",
    FaultKind.OFF_BUS: "offBus",
}
"""The fields of a GPUFault where gpud has other names."""


def kind_of(spec: GPUFaultSpec) -> FaultKind | None:
    """Return the kind of the fault that is set in the spec; None unless exactly one is set."""
    flags_by_kind = {
        FaultKind.XID: spec.xid is not None,
        FaultKind.ECC_CORRECTED: spec.ecc is not None and spec.ecc.corrected is not None,
        FaultKind.ECC_UNCORRECTED: spec.ecc is not None and spec.ecc.uncorrected is not None,
        FaultKind.THERMAL: spec.thermal,
        FaultKind.HANG: spec.hang,
        FaultKind.OFF_BUS: spec.off_bus,
    }
    set_kinds = [kind for kind, is_set in flags_by_kind.items() if is_set]
    return set_kinds[0] if len(set_kinds) == 1 else None


def write(world: World, name: str) -> Iterator[Apply | Record]:
    """Yield the write that sets a GPU's faults to those that GPUFault objects request for it.

    Each active fault that ends, because its GPUFault was deleted, is reported by an event on the
    GPU. Nothing is yielded if the GPU's spec lists the requested faults already.
    """
    gpu = world.gpus.get(name)
    if gpu is None or gpu.meta.deleting:
        return
    requested_faults = tuple(_to_gpu_fault(fault) for fault in _faults_of(world, gpu)[:MAX_FAULTS])
    if requested_faults != gpu.spec.faults:
        yield Apply(Manager.FAULTS, gpu_render.faults(gpu.name, gpu.meta.uid, requested_faults))
        yield from _report_ended(gpu, requested_faults)


def _report_ended(gpu: Gpu, requested_faults: Sequence[WantedFault]) -> Iterator[Record]:
    """Yield an event for each active fault that is no longer requested."""
    active = {fault.id for fault in gpu.status.faults if fault.phase is FaultPhase.ACTIVE}
    for fault in gpu.spec.faults:
        if fault.id in active - {requested_fault.id for requested_fault in requested_faults}:
            message = f"{name_fault(fault.kind, fault.xid)} ends: its GPUFault was deleted"
            reason = Reason.CLEARED.value
            yield Record("GPU", gpu.name, gpu.meta.uid, reason, message)


def reconcile(world: World, name: str, current_time: datetime.datetime) -> Outcome:
    """Report the state of one GPUFault in its status."""
    fault = world.faults.get(name)
    if fault is None or fault.meta.deleting:
        return Outcome()
    gpu = find_gpu(world, fault.spec)
    reported = _reported_status(world, fault, gpu)
    kind = kind_of(fault.spec)
    status = GPUFaultStatus(
        phase=reported.phase.value if reported is not None else "Pending",
        gpu=gpu.name if gpu is not None else _gpu_label(fault.spec),
        slice=reported.slice if reported is not None else "",
        fault=_fault_label(fault.spec, kind),
    )
    new_verdicts = _verdicts(fault, gpu, reported)
    if not new_verdicts[ConditionType.ACCEPTED].true:
        status = status.model_copy(update={"phase": "Refused"})
    new_verdicts = with_write_refusal(
        new_verdicts, world.refused_writes.get(("GPUFault", name), "")
    )
    return Outcome(report(fault.meta, fault.status, status, new_verdicts, current_time))


def _faults_of(world: World, gpu: Gpu) -> list[Fault]:
    """Return the GPUFaults of a GPU, the oldest first."""
    gpu_faults = [
        fault
        for fault in world.faults.values()
        if not fault.meta.deleting
        and kind_of(fault.spec) is not None
        and find_gpu(world, fault.spec) is gpu
    ]
    return sorted(gpu_faults, key=lambda fault: fault.meta.age_key)


def find_gpu(world: World, spec: GPUFaultSpec) -> Gpu | None:
    """Return the GPU that a GPUFault names; None if it does not exist."""
    if spec.gpu_name is not None:
        return world.gpus.get(spec.gpu_name)
    mine = world.gpus_by_node().get(spec.node_name or "", ())
    return next((gpu for gpu in mine if gpu.spec.index == (spec.index or 0)), None)


def _gpu_label(spec: GPUFaultSpec) -> str:
    return spec.gpu_name or f"index {spec.index or 0} on node {spec.node_name}"


def _to_gpu_fault(fault: Fault) -> WantedFault:
    spec, kind = fault.spec, kind_of(fault.spec)
    assert kind is not None  # ``_faults_of`` omits faults without a kind
    count = spec.count
    if spec.ecc is not None:
        count = spec.ecc.corrected or spec.ecc.uncorrected or 1
    until = ""
    creation_time = parse_timestamp(fault.meta.created)
    if kind in _LASTING and spec.duration_seconds is not None and creation_time is not None:
        until = (creation_time + datetime.timedelta(seconds=spec.duration_seconds)).isoformat()
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


def _reported_status(world: World, fault: Fault, gpu: Gpu | None) -> FaultStatus | None:
    """Return the status that the agent reported for a fault."""
    if gpu is None:
        return None
    return next(
        (fault_status for fault_status in gpu.status.faults if fault_status.id == fault.meta.uid),
        None,
    )


def _fault_label(spec: GPUFaultSpec, kind: FaultKind | None) -> str:
    return "" if kind is None else name_fault(kind, spec.xid)


def name_fault(kind: FaultKind, xid: int | None) -> str:
    """Return a fault's name in statuses and events, such as "Xid 79" or "offBus"."""
    return f"Xid {xid}" if kind is FaultKind.XID else _LABELS.get(kind, kind.value)


def _verdicts(fault: Fault, gpu: Gpu | None, reported: FaultStatus | None) -> Verdicts:
    spec = fault.spec
    if kind_of(spec) is None:
        field_names = "xid, ecc.corrected, ecc.uncorrected, thermal, hang, offBus"
        return refusal_verdicts(Reason.INVALID_SPEC, f"spec: set exactly one of {field_names}")
    if gpu is None:
        return refusal_verdicts(Reason.GPU_NOT_FOUND, f"there is no GPU {_gpu_label(spec)}")
    if reported is None:
        waiting = Verdict(False, Reason.WAITING_FOR_AGENT, f"the agent of {gpu.spec.node_name}")
        return verdicts(waiting, progressing=Verdict(True, Reason.WAITING_FOR_AGENT))
    match reported.phase:
        case FaultPhase.REFUSED:
            return refusal_verdicts(Reason.FAULT_REFUSED, reported.message)
        case FaultPhase.CLEARED:
            return verdicts(Verdict(True, Reason.CLEARED, reported.message))
        case FaultPhase.ACTIVE:
            return verdicts(Verdict(True, Reason.INJECTED, f"active on {gpu.name}"))
        case FaultPhase.INJECTED:
            return verdicts(Verdict(True, Reason.INJECTED, f"injected into {gpu.name}, and over"))
