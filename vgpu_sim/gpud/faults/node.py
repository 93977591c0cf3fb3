"""Manages the faults of a node: records them, finds the contexts that they affect, and ends those.

Real faults arrive as gpud's own events, injected ones through ``inject``. A timer watches
lasting faults; it runs only while there are such faults.
"""

import asyncio
import logging
import time
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, Final

import click

from vgpu_sim.gpud.contexts.index import Context
from vgpu_sim.gpud.contexts.table import ContextTable
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.faults.classes import IGNORED_XIDS, XID_OF_FAULT, XIDS, Scope, Severity
from vgpu_sim.gpud.faults.health import HANGS, Health, State, Times, worst
from vgpu_sim.gpud.faults.injection import LASTING, Injection, Kind
from vgpu_sim.gpud.faults.records import Records
from vgpu_sim.gpud.model import Gpu, GpuUuid, MigInstance
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.management import admin
from vgpu_sim.options import option
from vgpu_sim.records import dataclass
from vgpu_sim.system.admin_socket.errors import Conflict, InvalidRequest, NotFound

logger = logging.getLogger("tessera.gpud")

LOOK_SECONDS: Final = 0.25
MAX_ACTIVE: Final = 64  # lasting faults of the node
HANG_XID: Final = 109
MAX_REMEMBERED: Final = 1024  # ids of injections


@dataclass(frozen=True, slots=True)
class Options:
    """The Xids that do not affect health (``ignored``), and how long each health state lasts.

    If ``ignored`` is None, health checks are off: no Xid affects health.
    """

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
    """The faults of a node's GPUs. The constructor raises OSError if the file of memory errors is
    unreadable.
    """

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
        events.subscribe(self._record_context_end)

    def active(self, gpu: GpuUuid) -> tuple[admin.Fault, ...]:
        """Return the lasting faults of a GPU that are active."""
        return tuple(fault for uuid, fault in self._active.values() if uuid == gpu)

    def gpu_health(self, gpu: GpuUuid) -> Health:
        """Return the health of a GPU. The health of its instances does not affect it."""
        return self._health.get(gpu, Health())

    def instance_health(self, instance: MigInstance) -> Health:
        """Return an instance's health. It is the worst of three: the health of its GPU, its own,
        and that of the other compute instances in its GPU instance.

        All compute instances of a GPU instance fail together.
        """
        health = self.gpu_health(instance.gpu.uuid)
        for neighbour in self._inventory.in_gpu_instance_of(instance):
            health = worst(health, self._health.get(neighbour.uuid, Health()))
        return health

    def refusal(self, instance: MigInstance) -> tuple[int, str] | None:
        """Return the CUresult and the reason with which an instance refuses new contexts; None if
        the instance admits contexts.
        """
        gpu = instance.gpu.uuid
        for fault in self.active(gpu):
            if fault.kind == Kind.OFF_BUS:
                return CudaError.NO_DEVICE, f"{gpu} has fallen off the bus"
            if fault.kind == Kind.HANG and self._hits(fault.instance, instance):
                return CudaError.DEVICE_UNAVAILABLE, f"{fault.instance or gpu}{HANGS}"
        health = self.instance_health(instance)
        return None if health.in_service else (CudaError.DEVICE_UNAVAILABLE, str(health))

    def inject(self, injection: Injection) -> None:
        """Inject a fault; do nothing if a fault with the same id was injected before.

        Raises:
            NotFound: no such GPU or instance.
            InvalidRequest: the instance belongs to another GPU.
            Conflict: too many lasting faults are active already.
        """
        gpu = self._inventory.gpu(injection.gpu)
        if injection.instance == gpu.uuid:  # with MIG off, the GPU is its own only instance
            injection = replace(injection, instance="")
        if injection.instance:
            instance = self._inventory.instance(injection.instance)
            if instance.gpu != gpu:
                raise InvalidRequest(f"{injection.instance} is not an instance of {gpu.uuid}")
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
        """End the lasting fault with this id on a GPU, or all its lasting faults if the id is
        empty; return the ids of the faults that ended.

        Raises:
            NotFound: no such GPU, or no lasting fault has that id.
        """
        if gpu:
            self._inventory.gpu(gpu)
        ended_ids = [
            active_id
            for active_id, (uuid, _) in self._active.items()
            if (not gpu or uuid == gpu) and fault_id in ("", active_id)
        ]
        if fault_id and not ended_ids:
            raise NotFound(f"no lasting fault has the id {fault_id}")
        for active_id in ended_ids:
            self._end(active_id)
        self._advance()
        return ended_ids

    def close(self) -> None:
        """Stop the timer that watches lasting faults."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _record_context_end(self, event: dict[str, Any]) -> None:
        """Record the Xid of a context that a fault of its own program ended. The Xid concerns only
        that program.
        """
        name = event["event"]
        kind = event.get("kind") if name == "fault" else "FENCED" if name == "fenced" else None
        xid = XID_OF_FAULT.get(kind) if isinstance(kind, str) else None
        if xid is None:
            return
        context = self._contexts.find(event["pid"])
        if context is None:
            return
        instance = context.instance
        message = str(event.get("message") or event.get("reason") or "")
        self._note(instance.gpu, _instance_of_record(instance), xid, context.client.pid, message)

    def _note(self, gpu: Gpu, instance: str, xid: int, pid: int, message: str) -> None:
        """Record an Xid and update the health of the GPU or instance that it concerns."""
        self._record(gpu, instance, xid, pid, message)
        row = XIDS[xid]
        ignored = self._options.ignored
        if ignored is not None and xid not in ignored:
            severity = row.severity
            # an Xid that is ignored by default but was enabled explicitly
            if severity is Severity.NONE:
                severity = Severity.CRITICAL
            self._struck(gpu, instance, severity, f"Xid {xid} ({row.meaning})")

    def _record(self, gpu: Gpu, instance: str, xid: int, pid: int, message: str) -> None:
        """Record an Xid and emit its event."""
        row = XIDS[xid]
        entry = self.records.record_xid(gpu.uuid, xid, instance, pid, message, time.time_ns())
        self._events.emit(
            "xid",
            gpu=gpu.uuid,
            instance=instance,
            xid=xid,
            sequence=entry.sequence,
            pid=pid,
            message=f"{row.meaning}: {entry.message}" if entry.message else row.meaning,
        )

    def _strike(self, gpu: Gpu, instance: str, xid: int, why: str) -> None:
        """Apply an Xid: end the contexts that it concerns, with the CUresult of this Xid."""
        error = XIDS[xid].error
        meaning = XIDS[xid].meaning
        alone = XIDS[xid].scope is Scope.CONTEXT
        struck = self._affected_contexts(gpu, instance, alone) if error is not None else []
        if alone and struck:
            for context in struck:
                self._note(gpu, _instance_of_record(context.instance), xid, context.client.pid, why)
        else:
            self._note(gpu, instance, xid, 0, why)
        for context in struck:
            assert error is not None
            self._contexts.end_failed(context, error, f"Xid {xid}: {meaning}")

    def _affected_contexts(self, gpu: Gpu, instance: str, alone: bool = False) -> list[Context]:
        """Return the contexts that a fault of a GPU or an instance affects.

        These are all contexts of the GPU, or those of the GPU instance that contains the
        instance. If ``alone`` is set, only the contexts of the instance itself are returned.
        """
        return [
            context
            for context in self._contexts
            if context.instance.gpu == gpu
            and (
                instance in ("", context.instance.uuid)
                or (not alone and self._hits(instance, context.instance))
            )
        ]

    def _hits(self, struck: str, instance: MigInstance) -> bool:
        """Return whether a fault of ``struck`` affects an instance: both are in one GPU instance,
        or ``struck`` is empty (the whole GPU).
        """
        beside = (neighbour.uuid for neighbour in self._inventory.in_gpu_instance_of(instance))
        return struck in ("", instance.uuid, *beside)

    def _memory_errors(self, gpu: Gpu, injection: Injection) -> None:
        if injection.kind is Kind.ECC_CORRECTED:
            self.records.count_errors(gpu.uuid, corrected=injection.count)
            return
        self.records.count_errors(gpu.uuid, uncorrected=injection.count)
        if self.records.ecc(gpu.uuid).remapping_failed:
            self._note(gpu, "", 64, 0, "")
        else:
            # The row is replaced at the next reset. Until then the GPU works, so its health follows
            # from the error itself: the GPU must not become suspect by an error in one slice.
            self._record(gpu, "", 63, 0, "")
        # Contained: only the contexts that used the memory end. Otherwise the extent of the damage
        # is unknown.
        self._strike(gpu, injection.instance, 94 if injection.instance else 95, "injected")

    def _begin(self, gpu: Gpu, injection: Injection) -> None:
        if len(self._active) >= MAX_ACTIVE:
            raise Conflict(f"{MAX_ACTIVE} lasting faults are active already: clear some")
        now_ns = time.monotonic_ns()
        until_ns = now_ns + injection.duration_ms * 1_000_000 if injection.duration_ms else 0
        fault = admin.Fault(injection.id, injection.kind, injection.instance, now_ns, until_ns)
        self._active[injection.id] = (gpu.uuid, fault)
        match injection.kind:
            case Kind.OFF_BUS:
                self._strike(gpu, "", 79, "injected")
            case Kind.HANG:
                for context in self._affected_contexts(gpu, injection.instance):
                    self._contexts.pause(context)
                self._note(gpu, injection.instance, HANG_XID, 0, "injected")
                where = injection.instance or gpu.uuid
                why = f"{where}{HANGS} (Xid {HANG_XID})"
                self._struck(gpu, injection.instance, Severity.CRITICAL, why)
            case _:
                self._struck(gpu, "", Severity.SUSPICIOUS, "thermal slowdown")
        self._watch()

    def _end(self, fault_id: str) -> None:
        """End a lasting fault. A GPU that hung is reset, which ends its contexts."""
        uuid, fault = self._active.pop(fault_id)
        if fault.kind == Kind.HANG:
            gpu = self._inventory.gpu(uuid)
            for context in self._affected_contexts(gpu, fault.instance):
                self._note(
                    gpu, _instance_of_record(context.instance), 45, context.client.pid, "GPU reset"
                )
                self._contexts.end_failed(
                    context, CudaError.LAUNCH_FAILED, "the GPU hung and was reset"
                )
        logger.warning("fault_cleared id=%s kind=%s", fault_id, fault.kind)

    def _struck(self, gpu: Gpu, instance: str, severity: Severity, why: str) -> None:
        if self._options.ignored is None:
            return
        uuid = instance or gpu.uuid
        old_health = self._health.get(uuid, Health())
        self._set(gpu, uuid, old_health, old_health.after_event(severity, why, time.monotonic()))
        self._watch()

    def _set(self, gpu: Gpu, uuid: str, old_health: Health, new_health: Health) -> None:
        self._health[uuid] = new_health
        if new_health.state is old_health.state:
            return
        if uuid == gpu.uuid and new_health.state is State.PROBATION:
            self.records.reset(gpu.uuid)
        words = {"health": str(new_health), "before": str(old_health.state)}
        if uuid == gpu.uuid:
            self._events.emit("health", gpu=gpu.uuid, instance="", **words)
            return
        for instance in self._inventory.instances_of(gpu):
            if self._hits(uuid, instance):
                self._events.emit("health", gpu=gpu.uuid, instance=instance.uuid, **words)

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._advance)

    def _advance(self) -> None:
        """Update faults and health to the present time: faults whose duration is over end, and
        health improves.
        """
        self.close()
        now_ns = time.monotonic_ns()
        for fault_id, (_, fault) in tuple(self._active.items()):
            if fault.until_ns and fault.until_ns <= now_ns:
                self._end(fault_id)
        devices: dict[str, tuple[Gpu, MigInstance | None]] = {
            instance.uuid: (instance.gpu, instance) for instance in self._inventory.instances
        }
        devices |= {gpu.uuid: (gpu, None) for gpu in self._inventory.gpus}
        for uuid, old_health in tuple(self._health.items()):
            if uuid not in devices:
                del self._health[uuid]
                continue
            gpu, instance = devices[uuid]
            self._age(gpu, instance, uuid, old_health)
        ends = any(fault.until_ns for _, fault in self._active.values())
        if ends or any(health != Health(since=health.since) for health in self._health.values()):
            self._watch()

    def _age(self, gpu: Gpu, instance: MigInstance | None, uuid: str, old_health: Health) -> None:
        now_s = time.monotonic()
        mine = [
            fault
            for fault in self.active(gpu.uuid)
            if fault.instance == ("" if instance is None else instance.uuid)
        ]
        stuck = any(fault.kind != Kind.THERMAL for fault in mine) or bool(
            self._affected_contexts(gpu, "" if instance is None else instance.uuid)
        )
        if instance is None:
            stuck = stuck or self.records.ecc(gpu.uuid).remapping_failed
            if (
                any(fault.kind == Kind.THERMAL for fault in mine)
                and old_health.state is State.SUSPECT
            ):
                now_s = old_health.since  # it lasts: its age is counted from its last observation
        self._set(gpu, uuid, old_health, old_health.after_time(now_s, self._options.times, stuck))


def _instance_of_record(instance: MigInstance) -> str:
    """Return the UUID by which records identify an instance; empty for a whole GPU."""
    return "" if instance.profile.is_whole else instance.uuid
