"""gpud assembled: the components of one node, and the operations of the administration socket."""

import asyncio
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any

from mig.geometry import ComputePlace
from vgpu_sim.gpud.admin import SOCKET_NAME, injection, parameters
from vgpu_sim.gpud.admin.snapshot import Snapshot
from vgpu_sim.gpud.contexts import leftovers
from vgpu_sim.gpud.contexts.exports import Exports
from vgpu_sim.gpud.contexts.fencing import Fencing
from vgpu_sim.gpud.contexts.launching import Launcher
from vgpu_sim.gpud.contexts.leftovers import Leftovers, Recorder
from vgpu_sim.gpud.contexts.table import ContextTable
from vgpu_sim.gpud.contexts.zygote import Zygote
from vgpu_sim.gpud.devices.device_info import device_info
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.faults.node import Faults
from vgpu_sim.gpud.limits import host_memory
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.gpud.limits.cgroups.base import SliceCgroups
from vgpu_sim.gpud.limits.parts import offer_of
from vgpu_sim.gpud.limits.sharing import SharingTable
from vgpu_sim.gpud.management.answers import Management
from vgpu_sim.gpud.management.node import InventoryNode
from vgpu_sim.gpud.management.server import ManagementServer
from vgpu_sim.gpud.model import Gpu, GpuUuid, InstanceUuid, MigInstance, Owner
from vgpu_sim.gpud.options import NodeOptions, installed_version
from vgpu_sim.gpud.slices.admission import Admission, HolderTable, PodAdmission, TokenAdmission
from vgpu_sim.gpud.slices.server import SliceServer
from vgpu_sim.gpud.telemetry.energy import EnergyFile
from vgpu_sim.gpud.telemetry.sampler import Observed, Sampler
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.management.nvml import MANAGEMENT_SOCKET_NAME
from vgpu_sim.hal.messages import DeviceInfo
from vgpu_sim.system.admin_socket.errors import Conflict, RequestError
from vgpu_sim.system.admin_socket.parameters import fields
from vgpu_sim.system.admin_socket.server import AdminServer
from vgpu_sim.system.pacing import StepQueue
from vgpu_sim.system.peers import PodUid, pod_of_process

logger = logging.getLogger("tessera.gpud")

_DRAIN_S = 5.0


class Daemon:
    """One node's gpud. The constructor raises JournalError if the journal is corrupt."""

    def __init__(self, options: NodeOptions, cgroups: SliceCgroups, zygote: Zygote) -> None:
        self._options = options
        self._cgroups = cgroups
        self._inventory = Inventory(options.state_dir)
        self._events = EventBus(for_user=options.standalone)
        self._holders = HolderTable()
        self._sharing = SharingTable(options.state_dir)
        self._budget = Budget(
            self._budget_total(), cgroups.shared_bytes, self._sharing.client_bytes
        )
        if options.standalone and not options.budget_bytes:
            self._budget.host_free_bytes = host_memory.HostMemory().free_bytes
        self._inventory.on_change = self._set_limits
        self._set_limits()
        self._contexts = ContextTable(self._budget, self._events, self._context_changed)
        self._faults = Faults(
            self._inventory, self._contexts, self._events, options.state_dir, options.faults
        )
        self._zygote = zygote
        zygote.on_exit = self._contexts.record_worker_exit
        self._launcher = Launcher(
            settings=options.workers,
            zygote=self._zygote,
            cgroups=cgroups,
            budget=self._budget,
            contexts=self._contexts,
            sharing=self._sharing,
            run_dir=options.run_dir,
        )
        self._fencing = Fencing(self._holders, self._contexts)
        self._admission = self._make_admission()
        self._servers: dict[InstanceUuid, SliceServer] = {}
        self._sampler = Sampler(EnergyFile(options.state_dir))
        self._snapshot = Snapshot(
            self._inventory,
            self._budget,
            self._holders,
            self._contexts,
            options.workers,
            options.slices_dir,
            self._sampler,
            self._faults,
        )
        node = InventoryNode(
            self._inventory,
            self._snapshot,
            lambda: self._launcher.problem,
            self._create,
            self._withdraw,
            self._create_compute,
            self._destroy_compute,
        )
        self._management = Management(
            node,
            options.standalone,
            pod_of_process,
            lambda uuid, pod: self._holders.find(uuid, pod) is not None,
        )
        self._management_server = ManagementServer(
            options.run_dir / MANAGEMENT_SOCKET_NAME, self._management.answer_node_request
        )
        self._recorder = Recorder(options.run_dir, self._contexts, self._contexts.ended_by_instance)
        self._leftovers = Leftovers(
            self._inventory, self._budget, self._contexts, cgroups, options.run_dir
        )
        self._admin = AdminServer(
            {
                "inventory": self._op_inventory,
                "configure": self._op_configure,
                "create_instance": self._op_create_instance,
                "destroy_instance": self._op_destroy_instance,
                "set_admission": self._op_set_admission,
                "set_holders": self._op_set_holders,
                "set_sharing": self._op_set_sharing,
                "inject_fault": self._op_inject_fault,
                "clear_faults": self._op_clear_faults,
            },
            self._events,
        )
        self._reading = None
        if options.telemetry is not None:
            self._reading = AdminServer(
                {"inventory": self._op_inventory}, EventBus(), [options.telemetry.uid]
            )
        self._exports = Exports(options.hca, self._contexts) if options.hca is not None else None
        self._rendering = StepQueue(at_once=1)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start serving the node. Raises OSError or ValueError if a socket cannot be created."""
        options = self._options
        records, ended = leftovers.load(options.run_dir), leftovers.load_ended(options.run_dir)
        self._leftovers.take_over(records, ended)
        for instance in self._inventory.instances:
            await self._serve(instance)
        await self._leftovers.wait_until_resumed()
        self._tasks.append(asyncio.create_task(self._sampler.run(self._observe)))
        await self._admin.open(options.run_dir / SOCKET_NAME)
        self._management_server.open()
        if self._reading is not None and options.telemetry is not None:
            options.telemetry.socket.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            await self._reading.open(options.telemetry.socket)
        if self._exports is not None:
            self._exports.open()
        isolation = self._cgroups.isolation
        logger.info(
            "gpud_started run_dir=%s standalone=%s backend=%s threads=%d budget_bytes=%d"
            " instances=%d isolation_enforced=%s reason=%r",
            options.run_dir,
            options.standalone,
            options.workers.backend,
            options.workers.threads,
            self._budget.total_bytes,
            len(self._inventory.instances),
            isolation.enforced,
            isolation.reason,
        )

    async def stop(self) -> None:
        """Stop serving. A standalone gpud ends its workers; on a node, the workers keep running
        without gpud.
        """
        await self._admin.close()
        await self._management_server.close()
        self._faults.close()
        if self._reading is not None:
            await self._reading.close()
        if self._exports is not None:
            await self._exports.close()
        for server in self._servers.values():
            await server.close(remove_directory=self._options.standalone)
        if self._options.standalone:
            for context in self._contexts:
                self._contexts.dismiss(context, "gpud ends")
            await self._contexts.drain(_DRAIN_S)
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self._zygote.end()
        await self._recorder.finish()
        await self._launcher.groups.finish()
        self._remove_idle_groups()
        logger.info("gpud_stopped")

    def _observe(self) -> tuple[Iterable[Gpu], Iterable[Observed]]:
        """Return the GPUs, and the instances with their contexts' counters, for the next sample."""
        instances = self._inventory.instances
        return self._inventory.gpus, (self._snapshot.observe(instance) for instance in instances)

    def _remove_idle_groups(self) -> None:
        """Remove all control groups without processes, because no later gpud may follow this
        one.
        """
        for instance in self._inventory.instances:
            with suppress(OSError):
                self._cgroups.remove(instance.uuid)
        self._cgroups.remove_parent()

    def _budget_total(self) -> int:
        configured = self._inventory.budget_bytes or self._options.budget_bytes
        return configured or self._default_budget_bytes

    @cached_property
    def _default_budget_bytes(self) -> int:
        """The budget without a configured one. It is read once, before any device memory is
        filled: memory in use would lower it when the layout changes.
        """
        return host_memory.default_budget_bytes()

    def _set_limits(self) -> None:
        """Set the node's budget, and divide a part of it between the slices."""
        inventory = self._inventory
        offer = offer_of(inventory.gpus, inventory.instances, fixed=self._options.standalone)
        self._budget.set_limits(self._budget_total(), offer)

    def _make_admission(self) -> Admission:
        if self._options.token is not None:
            return TokenAdmission(os.geteuid(), self._options.token)
        used = self._budget.client_used_bytes
        foreign = self._fencing.has_foreign_contexts
        return PodAdmission(self._holders, self._events, foreign, used_bytes=used)

    def _context_changed(self, instance: MigInstance) -> None:
        self._recorder.schedule_save()
        self._holders.notify()
        self._launcher.groups.schedule(instance)
        if not self._options.standalone:
            self._fencing.schedule(instance.uuid)

    async def _update_group(self, instance: MigInstance) -> None:
        try:
            await self._launcher.groups.prepare(instance)
        except OSError as err:
            logger.warning("cgroup_not_updated instance=%s error=%s", instance.uuid, err)

    async def _serve(self, instance: MigInstance) -> None:
        server = SliceServer(
            instance.uuid,
            self._options.slices_dir / instance.uuid,
            self._inventory.instance,
            self._describe,
            self._admission,
            self._launcher,
            self._faults.refusal,
            self._management,
        )
        standalone = self._options.standalone
        server.open(0o600 if standalone else 0o666, 0o700 if standalone else 0o711)
        self._servers[instance.uuid] = server
        await self._launcher.groups.prepare(instance)
        if standalone:
            self._launcher.prepare_spare(instance, Owner(PodUid(""), ""))

    def _describe(self, instance: MigInstance, thread_share: int) -> DeviceInfo:
        return device_info(
            instance,
            self._options.workers.capability_of(instance),
            memory_used_bytes=self._budget.shared_used_bytes(instance),
            context_count=self._contexts.count(instance.uuid),
            enforced=self._cgroups.isolation.enforced,
            multiprocessors=self._sharing.multiprocessors(instance, thread_share),
            modelled=self._options.workers.modelled,
        )

    async def _op_inventory(self, params: dict[str, Any]) -> dict[str, Any]:
        fields(params, {})
        self._budget.measure_retained()
        isolation, options = self._cgroups.isolation, self._options
        inventory = self._snapshot.node(
            installed_version(),
            options.libraries_dir,
            admin.Isolation(isolation.enforced, isolation.reason),
            admin.Sandbox(self._zygote.sandbox or {}, options.workers.weak_sandbox),
            self._launcher.problem,
        )
        return await self._rendering.run("", inventory.to_json_in_steps())

    async def _op_configure(self, params: dict[str, Any]) -> dict[str, Any]:
        values = fields(params, {"gpus": list, "budget_bytes": int})
        budget_bytes = parameters.budget_bytes(values["budget_bytes"])
        self._inventory.configure(parameters.gpus(values["gpus"]), budget_bytes)
        for instance in self._inventory.instances:
            await self._update_group(instance)
        return {}

    async def _op_create_instance(self, params: dict[str, Any]) -> dict[str, Any]:
        request = parameters.new_instance(params)
        instance = self._inventory.create_instance(**request)
        if instance.uuid in self._servers:
            logger.info("instance_joined uuid=%s owner=%s", instance.uuid, request["owner"])
        else:
            await self._serve_new(instance, request["owner"])
        return asdict(self._snapshot.instance(instance))

    async def _create(
        self, gpu: GpuUuid, profile: str, start: int, compute: bool = True
    ) -> MigInstance:
        instance = self._inventory.create_instance(gpu, profile, start, compute)
        await self._serve_new(instance)
        return instance

    async def _serve_new(self, instance: MigInstance, owner: str = "") -> None:
        try:
            await self._serve(instance)
        except (OSError, ValueError) as err:
            await self._withdraw(instance.uuid, owner)
            raise RequestError(f"cannot serve {instance.uuid}: {err}") from err
        logger.info(
            "instance_created uuid=%s place=%s gpu=%s owner=%s",
            instance.uuid,
            instance.placed,
            instance.gpu.uuid,
            owner,
        )

    async def _op_destroy_instance(self, params: dict[str, Any]) -> dict[str, Any]:
        request = {"owner": "", "evict": False, **params}
        values = fields(request, {"uuid": str, "owner": str, "evict": bool})
        uuid = parameters.instance_uuid(values["uuid"])
        if values["evict"]:
            await self._evict(uuid, values["owner"])
        await self._withdraw(uuid, values["owner"])
        return {}

    async def _evict(self, uuid: InstanceUuid, owner: str) -> None:
        """End the contexts that an owner's pods run on an instance which the owner has lost.

        Raises:
            NotFound: no such instance.
            Conflict: it was made for other owners.
        """
        self._inventory.close_admission(uuid, owner)
        sharer = self._sharer(uuid, owner)
        for context in self._contexts.of(uuid):
            if sharer in ("", context.owner.claim):
                self._contexts.dismiss(context, "the claim that the slice was made for is gone")
        await self._holders.wait_until(lambda: not self._launcher.count(uuid, sharer), _DRAIN_S)

    def _sharer(self, uuid: InstanceUuid, owner: str) -> str:
        """Return the owner whose contexts end when it loses its share of an instance; empty: the
        contexts of all owners end.
        """
        return owner if self._inventory.instance(uuid).shares else ""

    async def _create_compute(self, uuid: InstanceUuid, within: ComputePlace | None) -> MigInstance:
        instance = self._inventory.create_compute(uuid, within)
        if instance.uuid in self._servers:
            await self._update_group(instance)
        else:
            await self._serve_new(instance)
        return instance

    async def _destroy_compute(self, uuid: InstanceUuid) -> None:
        if self._inventory.destroy_compute(uuid, self._in_use):
            await self._update_group(self._inventory.instance(uuid))
        else:
            await self._stop_serving(uuid)

    def _in_use(self, instance: MigInstance, sharer: str = "") -> bool:
        return self._launcher.count(instance.uuid, sharer) > 0

    async def _withdraw(self, uuid: InstanceUuid, owner: str = "") -> None:
        sharer = self._sharer(uuid, owner)
        if self._inventory.destroy_instance(uuid, partial(self._in_use, sharer=sharer), owner):
            await self._stop_serving(uuid)

    async def _stop_serving(self, uuid: InstanceUuid) -> None:
        self._contexts.forget(uuid)
        server = self._servers.pop(uuid, None)
        if server is not None:
            await server.close(remove_directory=True)
        try:
            await self._launcher.groups.remove(uuid)
        except OSError as err:
            logger.warning("cgroup_kept instance=%s error=%s", uuid, err)
        logger.info("instance_destroyed uuid=%s", uuid)

    async def _op_set_admission(self, params: dict[str, Any]) -> dict[str, Any]:
        values = fields(params, {"uuid": str, "admit": bool})
        self._inventory.set_admission(parameters.instance_uuid(values["uuid"]), values["admit"])
        return {}

    async def _op_set_holders(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._options.standalone:
            raise Conflict("holders cannot be set: a standalone gpud has no pods")
        values = fields(params, {"holders": dict, "complete": bool})
        earlier_holders = {
            listed_instance.uuid: self._holders.of(listed_instance.uuid)
            for listed_instance in self._inventory.instances
        }
        self._holders.replace(parameters.holders(values["holders"]), values["complete"])
        for instance in self._inventory.instances:
            await self._fencing.fence(instance.uuid)
            for holder in self._holders.of(instance.uuid):
                if holder not in earlier_holders[instance.uuid]:
                    claim = next(filter(instance.share_of, holder.claims), "")
                    self._launcher.prepare_spare(
                        instance, Owner(holder.pod_uid, holder.namespace, claim)
                    )
        return {}

    async def _op_set_sharing(self, params: dict[str, Any]) -> dict[str, Any]:
        values = fields(params, {"shares": dict})
        self._sharing.replace(parameters.shares(values["shares"]))
        return {}

    async def _op_inject_fault(self, params: dict[str, Any]) -> dict[str, Any]:
        fault = injection.parse(params)
        self._faults.inject(fault)
        return {"id": fault.id}

    async def _op_clear_faults(self, params: dict[str, Any]) -> dict[str, Any]:
        values = fields(params, {"gpu_uuid": str, "id": str})
        return {"cleared": self._faults.clear(values["gpu_uuid"], values["id"])}
