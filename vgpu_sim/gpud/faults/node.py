"""Faults of a node put together: what happened, who is concerned, who may go on.

Real faults arrive as gpud's own events, injected ones by ``inject``. What lasts is watched by a
timer that runs only while there is something to watch.
"""

import asyncio
import logging
import time
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from vgpu_sim.gpud.contexts.table import Context, ContextTable
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.faults.classes import IGNORED_XIDS, XID_OF_FAULT, XIDS, Scope, Severity
from vgpu_sim.gpud.faults.health import Health, State, Times, worst
from vgpu_sim.gpud.faults.injection import LASTING, Injection, Kind
from vgpu_sim.gpud.faults.records import Records
from vgpu_sim.gpud.model import Gpu, GpuUuid, MigInstance
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.management import admin
from vgpu_sim.options import option
from vgpu_sim.system.admin_socket.errors import Conflict, InvalidRequest, NotFound

logger = logging.getLogger("tessera.gpud")

LOOK_SECONDS: Final = 0.25
MAX_ACTIVE: Final = 64  # faults that last, on the node
MAX_REMEMBERED: Final = 1024  # ids of injections


@dataclass(frozen=True, slots=True)
class Options:
    """``ignored``: Xids that say nothing about health; None: health checks are off."""

    ignored: frozenset[int] | None = IGNORED_XIDS
    times: Times = option(
        "--health-seconds",
        type=(click.FloatRange(min=0), click.FloatRange(min=0), click.FloatRange(min=0)),
        default=Times(),
        option_default=astuple(Times()),
        convert=lambda seconds: Times(*seconds),
        show_default=True,
        help="How long a GPU is Suspect, at least Unhealthy, and on Probation.",
    )


class Faults:
    """Raises OSError on construction when the file of memory errors cannot be read."""

    def __init__(
        self,
        inventory: Inventory,
        contexts: ContextTable,
        events: EventBus,
        state_dir: Path,
        options: Options,
    ) -> None:
        self._inventory = inventory
        self._contexts = contexts
        self._events = events
        self._options = options
        self.records = Records(state_dir)
        self._health: dict[str, Health] = {}
        self._active: dict[str, tuple[GpuUuid, admin.Fault]] = {}
        self._injected: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        events.subscribe(self._heard)

    def active(self, gpu: GpuUuid) -> tuple[admin.Fault, ...]:
        """Return the faults that last on a GPU."""
        return tuple(fault for uuid, fault in self._active.values() if uuid == gpu)

    def gpu_health(self, gpu: GpuUuid) -> Health:
        """Return the health of a GPU itself."""
        return self._health.get(gpu, Health())

    def instance_health(self, instance: MigInstance) -> Health:
        """Return the health of an instance: no better than its GPU's, or its neighbours' in one

        GPU instance: that fails as one.
        """
        health = self.gpu_health(instance.gpu.uuid)
        for one in self._inventory.beside(instance):
            health = worst(health, self._health.get(one.uuid, Health()))
        return health

    def refusal(self, instance: MigInstance) -> tuple[int, str] | None:
        """Return the CUresult and the reason for which an instance takes no new context."""
        gpu = instance.gpu.uuid
        for fault in self.active(gpu):
            if fault.kind == Kind.OFF_BUS:
                return CudaError.NO_DEVICE, f"{gpu} has fallen off the bus"
            if fault.kind == Kind.HANG and self._hits(fault.instance, instance):
                return CudaError.DEVICE_UNAVAILABLE, f"{fault.instance or gpu} hangs"
        health = self.instance_health(instance)
        return None if health.in_service else (CudaError.DEVICE_UNAVAILABLE, str(health))

    def inject(self, injection: Injection) -> None:
        """Carry a fault out; an id that was carried out before is left at that.

        Raises:
            NotFound: no such GPU or instance.
            InvalidRequest: the instance is another GPU's.
            Conflict: too many faults last already.
        """
        gpu = self._inventory.gpu(injection.gpu)
        if injection.instance == gpu.uuid:  # with MIG off the GPU is its one instance
            injection = replace(injection, instance="")
        if injection.instance:
            instance = self._inventory.instance(injection.instance)
            if instance.gpu != gpu:
                raise InvalidRequest(f"{injection.instance} is no instance of {gpu.uuid}")
        if injection.id in self._injected:
            return
        if injection.kind in LASTING:
            self._begin(gpu, injection)
        elif injection.kind is Kind.XID:
            for _ in range(injection.count):
                self._strike(gpu, injection.instance, injection.xid, "injected")
        else:
            self._memory_errors(gpu, injection)
        while len(self._injected) >= MAX_REMEMBERED:
            del self._injected[next(iter(self._injected))]
        self._injected[injection.id] = None
        logger.warning("fault_injected %s", injection)

    def clear(self, gpu: str, fault_id: str) -> list[str]:
        """End the faults that last: one, or with an empty id all; return their ids.

        Raises:
            NotFound: no such GPU, or nothing lasts by that id.
        """
        if gpu:
            self._inventory.gpu(gpu)
        found = [
            one
            for one, (uuid, _) in self._active.items()
            if (not gpu or uuid == gpu) and fault_id in ("", one)
        ]
        if fault_id and not found:
            raise NotFound(f"no fault {fault_id} lasts")
        for one in found:
            self._end(one)
        self._look()
        return found

    def close(self) -> None:
        """Watch nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _heard(self, event: dict[str, Any]) -> None:
        """Note what befell a context by itself: it is its program's fault, and no one else's."""
        name = event["event"]
        kind = event.get("kind") if name == "fault" else "FENCED" if name == "fenced" else None
        xid = XID_OF_FAULT.get(kind) if isinstance(kind, str) else None
        if xid is None:
            return
        context = next((one for one in self._contexts if one.pid == event["pid"]), None)
        if context is None:
            return
        instance = context.instance
        message = str(event.get("message") or event.get("reason") or "")
        self._note(instance.gpu, _of(instance), xid, context.client.pid, message)

    def _note(self, gpu: Gpu, instance: str, xid: int, pid: int, message: str) -> None:
        """Remember an Xid, and let it tell upon the health of whom it concerns."""
        row = XIDS[xid]
        entry = self.records.note(gpu.uuid, xid, instance, pid, message, time.time_ns())
        self._events.emit(
            "xid",
            gpu=gpu.uuid,
            instance=instance,
            xid=xid,
            sequence=entry.sequence,
            pid=pid,
            message=f"{row.meaning}: {entry.message}" if entry.message else row.meaning,
        )
        ignored = self._options.ignored
        if ignored is not None and xid not in ignored:
            severity = row.severity
            if severity is Severity.NONE:  # one that is ignored by default was asked for
                severity = Severity.CRITICAL
            self._struck(gpu, instance, severity, f"Xid {xid} ({row.meaning})")

    def _strike(self, gpu: Gpu, instance: str, xid: int, why: str) -> None:
        """Let an Xid happen: contexts that it concerns end with its CUresult."""
        error = XIDS[xid].error
        meaning = XIDS[xid].meaning
        alone = XIDS[xid].scope is Scope.CONTEXT
        struck = self._concerned(gpu, instance, alone) if error is not None else []
        if alone and struck:
            for context in struck:
                self._note(gpu, _of(context.instance), xid, context.client.pid, why)
        else:
            self._note(gpu, instance, xid, 0, why)
        for context in struck:
            assert error is not None
            self._contexts.strike(context, error, f"Xid {xid}: {meaning}")

    def _concerned(self, gpu: Gpu, instance: str, alone: bool = False) -> list[Context]:
        """Return the contexts of a GPU, or of an instance's GPU instance; ``alone``: its own."""
        return [
            one
            for one in self._contexts
            if one.instance.gpu == gpu
            and (
                instance in ("", one.instance.uuid)
                or (not alone and self._hits(instance, one.instance))
            )
        ]

    def _hits(self, struck: str, instance: MigInstance) -> bool:
        """Tell whether what befell ``struck`` befell an instance, being in one GPU instance."""
        beside = (one.uuid for one in self._inventory.beside(instance))
        return struck in ("", instance.uuid, *beside)

    def _memory_errors(self, gpu: Gpu, injection: Injection) -> None:
        if injection.kind is Kind.ECC_CORRECTED:
            self.records.count_errors(gpu.uuid, corrected=injection.count)
            return
        self.records.count_errors(gpu.uuid, uncorrected=injection.count)
        self._note(gpu, "", 64 if self.records.ecc(gpu.uuid).remapping_failed else 63, 0, "")
        # Contained: what used the memory ends, and nothing else. Else nobody knows what it reached.
        self._strike(gpu, injection.instance, 94 if injection.instance else 95, "injected")

    def _begin(self, gpu: Gpu, injection: Injection) -> None:
        if len(self._active) >= MAX_ACTIVE:
            raise Conflict(f"{MAX_ACTIVE} faults last already: clear some")
        now = time.monotonic_ns()
        until_ns = now + injection.duration_ms * 1_000_000 if injection.duration_ms else 0
        fault = admin.Fault(injection.id, injection.kind, injection.instance, now, until_ns)
        self._active[injection.id] = (gpu.uuid, fault)
        match injection.kind:
            case Kind.OFF_BUS:
                self._strike(gpu, "", 79, "injected")
            case Kind.HANG:
                for context in self._concerned(gpu, injection.instance):
                    self._contexts.pause(context)
                self._note(gpu, injection.instance, 109, 0, "injected")
                where = injection.instance or gpu.uuid
                self._struck(gpu, injection.instance, Severity.CRITICAL, f"{where} hangs")
            case _:
                self._struck(gpu, "", Severity.SUSPICIOUS, "thermal slowdown")
        self._watch()

    def _end(self, fault_id: str) -> None:
        """End what lasts. A GPU that hung is reset: nothing that ran on it goes on."""
        uuid, fault = self._active.pop(fault_id)
        if fault.kind == Kind.HANG:
            gpu = self._inventory.gpu(uuid)
            for context in self._concerned(gpu, fault.instance):
                self._note(gpu, _of(context.instance), 45, context.client.pid, "GPU reset")
                self._contexts.strike(
                    context, CudaError.LAUNCH_FAILED, "the GPU hung and was reset"
                )
        logger.warning("fault_cleared id=%s kind=%s", fault_id, fault.kind)

    def _struck(self, gpu: Gpu, instance: str, severity: Severity, why: str) -> None:
        if self._options.ignored is None:
            return
        uuid = instance or gpu.uuid
        before = self._health.get(uuid, Health())
        self._set(gpu, uuid, before, before.struck(severity, why, time.monotonic()))
        self._watch()

    def _set(self, gpu: Gpu, uuid: str, before: Health, after: Health) -> None:
        self._health[uuid] = after
        if after.state is before.state:
            return
        if uuid == gpu.uuid and after.state is State.PROBATION:
            self.records.reset(gpu.uuid)
        words = {"health": str(after), "before": str(before.state)}
        if uuid == gpu.uuid:
            self._events.emit("health", gpu=gpu.uuid, instance="", **words)
            return
        for one in self._inventory.instances_of(gpu):
            if self._hits(uuid, one):
                self._events.emit("health", gpu=gpu.uuid, instance=one.uuid, **words)

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Let time pass: faults end, healths get better."""
        self.close()
        now_ns = time.monotonic_ns()
        for fault_id, (_, fault) in tuple(self._active.items()):
            if fault.until_ns and fault.until_ns <= now_ns:
                self._end(fault_id)
        known: dict[str, tuple[Gpu, MigInstance | None]] = {
            one.uuid: (one.gpu, one) for one in self._inventory.instances
        }
        known |= {gpu.uuid: (gpu, None) for gpu in self._inventory.gpus}
        for uuid, before in tuple(self._health.items()):
            if uuid not in known:
                del self._health[uuid]
                continue
            gpu, instance = known[uuid]
            self._age(gpu, instance, uuid, before)
        ends = any(fault.until_ns for _, fault in self._active.values())
        if ends or any(one != Health(since=one.since) for one in self._health.values()):
            self._watch()

    def _age(self, gpu: Gpu, instance: MigInstance | None, uuid: str, before: Health) -> None:
        now = time.monotonic()
        mine = [
            fault
            for fault in self.active(gpu.uuid)
            if fault.instance == ("" if instance is None else instance.uuid)
        ]
        stuck = any(fault.kind != Kind.THERMAL for fault in mine) or bool(
            self._concerned(gpu, "" if instance is None else instance.uuid)
        )
        if instance is None:
            stuck = stuck or self.records.ecc(gpu.uuid).remapping_failed
            if any(fault.kind == Kind.THERMAL for fault in mine) and before.state is State.SUSPECT:
                now = before.since  # it lasts: no time has passed since it was seen
        self._set(gpu, uuid, before, before.aged(now, self._options.times, stuck))


def _of(instance: MigInstance) -> str:
    """Return an instance's UUID for a record; empty where it is the whole GPU."""
    return "" if instance.profile.is_whole else instance.uuid
