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
    now = datetime.datetime.now(datetime.UTC)
    gpus = {gpu.uuid: gpu for gpu in inventory.gpus}
    return {
        wanted.uuid: carry_out(gpud, wanted, gpus[wanted.uuid], now)
        for wanted in objects
        if wanted.uuid in gpus and wanted.name not in refused
    }


def carry_out(
    gpud: Gpud, wanted: GpuObject, gpu: Gpu, now: datetime.datetime
) -> tuple[FaultStatus, ...]:
    """Inject and clear faults as a GPU's spec requests; return the status of each of its faults.

    Raises:
        GpudUnreachable: no connection to gpud; the next pass tries everything again.
    """
    requested = wanted.spec.faults if wanted.spec is not None else ()
    known = {one.id: one for one in wanted.status.faults}
    for fault_id in sorted(known.keys() - {one.id for one in requested}):
        if fault_id in gpu.faults:
            _clear(gpud, gpu, fault_id)
    return tuple(_results(gpud, gpu, requested, known, now))


def _results(
    gpud: Gpud,
    gpu: Gpu,
    requested: Sequence[WantedFault],
    known: dict[str, FaultStatus],
    now: datetime.datetime,
) -> Iterator[FaultStatus]:
    for one in requested:
        before = known.get(one.id)
        if before is not None and before.phase in _FINAL:
            yield before
        elif one.kind in LASTING:
            yield _lasting(gpud, gpu, one, now)
        else:
            yield _inject(gpud, gpu, one, 0, FaultPhase.INJECTED)


def _lasting(gpud: Gpud, gpu: Gpu, one: WantedFault, now: datetime.datetime) -> FaultStatus:
    left_ms = 0
    if one.until:
        until = parse_timestamp(one.until)
        if until is None:
            message = f"until is not a time with its zone: {one.until!r}"
            return FaultStatus(id=one.id, phase=FaultPhase.REFUSED, message=message)
        left_ms = int((until - now).total_seconds() * 1000)
        if left_ms <= 0:
            if one.id in gpu.faults:
                _clear(gpud, gpu, one.id)
            return FaultStatus(id=one.id, phase=FaultPhase.CLEARED, message="its time is up")
    if one.id in gpu.faults:
        return FaultStatus(id=one.id, phase=FaultPhase.ACTIVE)
    return _inject(gpud, gpu, one, left_ms, FaultPhase.ACTIVE)


def _inject(
    gpud: Gpud, gpu: Gpu, one: WantedFault, duration_ms: int, phase: FaultPhase
) -> FaultStatus:
    instance = ""
    if one.profile is not None:
        found = [
            s.uuid
            for s in sorted(gpu.slices, key=lambda s: planner.place_order(s.instance))
            if _is_meant(planner.place_of(s.instance), one)
        ]
        if not found:
            what = (
                str(Place(one.profile, one.start, one.compute_start))
                if one.start is not None
                else one.profile
            )
            message = f"{gpu.uuid} has no slice {what}"
            return FaultStatus(id=one.id, phase=FaultPhase.REFUSED, message=message)
        instance = found[0]
    try:
        gpud.inject_fault(
            id=one.id,
            gpu_uuid=gpu.uuid,
            instance=instance,
            kind=one.kind.value,
            xid=one.xid or 0,
            count=one.count,
            duration_ms=duration_ms,
        )
    except GpudError as err:
        return FaultStatus(id=one.id, phase=FaultPhase.REFUSED, message=err.message[:512])
    _log.warning("injected %s on GPU %d", one, gpu.index)
    return FaultStatus(id=one.id, phase=phase, slice=instance)


def _is_meant(place: Place, one: WantedFault) -> bool:
    return (
        place.profile == one.profile
        and one.start in (None, place.start)
        and one.compute_start in (None, place.compute_start)
    )


def _clear(gpud: Gpud, gpu: Gpu, fault_id: str) -> None:
    try:
        gpud.clear_faults(gpu.uuid, fault_id)
    except GpudError as err:  # the fault has already ended
        _log.info("fault %s on GPU %d: %s", fault_id, gpu.index, err)
