"""Injects the faults that a GPU's spec requests for tests, by requests to gpud.

A momentary fault is injected once, identified by its id. A lasting fault stays until its time is
up or the spec no longer requests it, across restarts of any process.
"""

import datetime
import logging
from collections.abc import Container, Iterator, Sequence

from device_plugin.backends.gpud import Gpud
from device_plugin.errors import GpudError
from device_plugin.inventory.model import Gpu, Inventory
from device_plugin.kube.gpu_object import GpuObject
from gpu_operator.api.timestamps import parse_timestamp
from gpu_operator.api.v1alpha1.gpu import FaultKind, FaultPhase, FaultStatus, WantedFault
from mig import planner
from mig.spec import Place

LASTING = frozenset({FaultKind.THERMAL, FaultKind.HANG, FaultKind.OFF_BUS})
_FINAL = frozenset({FaultPhase.INJECTED, FaultPhase.CLEARED, FaultPhase.REFUSED})
_log = logging.getLogger(__name__)


def carry_out_all(
    gpud: Gpud, objects: Sequence[GpuObject], inventory: Inventory, refused: Container[str]
) -> dict[str, tuple[FaultStatus, ...]]:
    """Apply the faults that each GPU object requests; return the faults' status by GPU UUID.

    Objects whose name is in ``refused`` are skipped.
    """
    utc_now = datetime.datetime.now(datetime.UTC)
    gpus = {gpu.uuid: gpu for gpu in inventory.gpus}
    return {
        gpu_object.uuid: carry_out(gpud, gpu_object, gpus[gpu_object.uuid], utc_now)
        for gpu_object in objects
        if gpu_object.uuid in gpus and gpu_object.name not in refused
    }


def carry_out(
    gpud: Gpud, gpu_object: GpuObject, gpu: Gpu, utc_now: datetime.datetime
) -> tuple[FaultStatus, ...]:
    """Inject and clear faults as a GPU's spec requests; return the status of each of its faults.

    Raises:
        GpudUnreachable: no connection to gpud; the next pass tries everything again.
    """
    requested = gpu_object.spec.faults if gpu_object.spec is not None else ()
    earlier_statuses = {fault.id: fault for fault in gpu_object.status.faults}
    for fault_id in sorted(earlier_statuses.keys() - {fault.id for fault in requested}):
        if fault_id in gpu.faults:
            _clear(gpud, gpu, fault_id)
    return tuple(_results(gpud, gpu, requested, earlier_statuses, utc_now))


def _results(
    gpud: Gpud,
    gpu: Gpu,
    requested: Sequence[WantedFault],
    earlier_statuses: dict[str, FaultStatus],
    utc_now: datetime.datetime,
) -> Iterator[FaultStatus]:
    for fault in requested:
        earlier_status = earlier_statuses.get(fault.id)
        if earlier_status is not None and earlier_status.phase in _FINAL:
            yield earlier_status
        elif fault.kind in LASTING:
            yield _lasting(gpud, gpu, fault, utc_now)
        else:
            yield _inject(gpud, gpu, fault, 0, FaultPhase.INJECTED)


def _lasting(gpud: Gpud, gpu: Gpu, fault: WantedFault, utc_now: datetime.datetime) -> FaultStatus:
    left_ms = 0
    if fault.until:
        until = parse_timestamp(fault.until)
        if until is None:
            message = f"until is not a time with its zone: {fault.until!r}"
            return FaultStatus(id=fault.id, phase=FaultPhase.REFUSED, message=message)
        left_ms = int((until - utc_now).total_seconds() * 1000)
        if left_ms <= 0:
            if fault.id in gpu.faults:
                _clear(gpud, gpu, fault.id)
            return FaultStatus(id=fault.id, phase=FaultPhase.CLEARED, message="its time is up")
    if fault.id in gpu.faults:
        return FaultStatus(id=fault.id, phase=FaultPhase.ACTIVE)
    return _inject(gpud, gpu, fault, left_ms, FaultPhase.ACTIVE)


def _inject(
    gpud: Gpud, gpu: Gpu, fault: WantedFault, duration_ms: int, phase: FaultPhase
) -> FaultStatus:
    instance = ""
    if fault.profile is not None:
        slice_uuids = [
            s.uuid
            for s in sorted(gpu.slices, key=lambda s: planner.place_order(s.instance))
            if _is_meant(planner.place_of(s.instance), fault)
        ]
        if not slice_uuids:
            slice_name = (
                str(Place(fault.profile, fault.start, fault.compute_start))
                if fault.start is not None
                else fault.profile
            )
            message = f"{gpu.uuid} has no slice {slice_name}"
            return FaultStatus(id=fault.id, phase=FaultPhase.REFUSED, message=message)
        instance = slice_uuids[0]
    try:
        gpud.inject_fault(
            id=fault.id,
            gpu_uuid=gpu.uuid,
            instance=instance,
            kind=fault.kind.value,
            xid=fault.xid or 0,
            count=fault.count,
            duration_ms=duration_ms,
        )
    except GpudError as err:
        return FaultStatus(id=fault.id, phase=FaultPhase.REFUSED, message=err.message[:512])
    _log.warning("injected %s on GPU %d", fault, gpu.index)
    return FaultStatus(id=fault.id, phase=phase, slice=instance)


def _is_meant(place: Place, fault: WantedFault) -> bool:
    return (
        place.profile == fault.profile
        and fault.start in (None, place.start)
        and fault.compute_start in (None, place.compute_start)
    )


def _clear(gpud: Gpud, gpu: Gpu, fault_id: str) -> None:
    try:
        gpud.clear_faults(gpu.uuid, fault_id)
    except GpudError as err:  # the fault has already ended
        _log.info("fault %s on GPU %d: %s", fault_id, gpu.index, err)
