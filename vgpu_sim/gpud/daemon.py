"""gpud put together: the parts of one node and what the administration socket does to them."""

import asyncio
import logging
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from vgpu_sim.gpud.admin import parameters
from vgpu_sim.gpud.admin.server import SOCKET_NAME, AdminServer
from vgpu_sim.gpud.admin.snapshot import Snapshot
from vgpu_sim.gpud.contexts import leftovers
from vgpu_sim.gpud.contexts.exports import Exports, HcaOptions
from vgpu_sim.gpud.contexts.launching import Launcher, WorkerSettings
from vgpu_sim.gpud.contexts.leftovers import Leftovers, Recorder
from vgpu_sim.gpud.contexts.table import ContextTable
from vgpu_sim.gpud.contexts.zygote import Zygote
from vgpu_sim.gpud.devices.device_info import device_info
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.errors import Conflict, RequestError
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.limits.budget import Budget, default_budget_bytes
from vgpu_sim.gpud.limits.cgroups.base import SliceCgroups
from vgpu_sim.gpud.model import GpuUuid, InstanceUuid, MigInstance, Owner
from vgpu_sim.gpud.slices.admission import Admission, HolderTable, PodAdmission, TokenAdmission
from vgpu_sim.gpud.slices.server import SliceServer
from vgpu_sim.hal import admin
from vgpu_sim.hal.messages import DeviceInfo
from vgpu_sim.system.peers import PodUid

logger = logging.getLogger("tessera.gpud")

_DRAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """How this gpud was started. A token makes it standalone: no pods, one user.

    ``budget_bytes`` 0 is half of the host's memory. ``libraries_dir`` holds the client libraries
    that containers are given. ``hca`` says where hcad is that may ask for the memory of devices.
    """

    run_dir: Path
    state_dir: Path
    libraries_dir: Path
    token: bytes | None
    budget_bytes: int
    workers: WorkerSettings
    hca: HcaOptions | None = None

    @property
    def slices_dir(self) -> Path:
        """Return where each instance has a directory with its socket."""
        return self.run_dir / "slices"

    @property
    def standalone(self) -> bool:
        """Return whether this serves one user's run instead of a node's pods."""
        return self.token is not None


class Daemon:
    """One node's gpud. Raises JournalError on construction when the journal is corrupt."""

    def __init__(self, options: NodeOptions, cgroups: SliceCgroups) -> None:
        self._options = options
        self._cgroups = cgroups
        self._inventory = Inventory(options.state_dir)
        self._events = EventBus(for_user=options.standalone)
        self._holders = HolderTable()
        self._budget = Budget(self._budget_total(), cgroups.shared_bytes)
        self._contexts = ContextTable(self._budget, self._events, self._context_changed)
        self._zygote = Zygote(self._contexts.worker_exited, options.workers.first_uid)
        self._launcher = Launcher(
            options.workers, self._zygote, cgroups, self._budget, self._contexts
        )
        self._admission = self._make_admission()
        self._servers: dict[InstanceUuid, SliceServer] = {}
        self._snapshot = Snapshot(
            self._inventory,
            self._budget,
            self._holders,
            self._contexts,
            options.workers,
            options.slices_dir,
        )
        self._recorder = Recorder(options.run_dir, self._contexts)
        self._leftovers = Leftovers(self._inventory, self._budget, self._contexts, cgroups)
        self._admin = AdminServer(
            {
                "inventory": self._op_inventory,
                "configure": self._op_configure,
                "create_instance": self._op_create_instance,
                "destroy_instance": self._op_destroy_instance,
                "set_admission": self._op_set_admission,
                "set_holders": self._op_set_holders,
            },
            self._events,
        )
        self._exports = Exports(options.hca, self._contexts) if options.hca is not None else None
        self._supervision: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve. Raises OSError or ValueError when a socket cannot be made."""
        options = self._options
        self._supervision = asyncio.create_task(self._zygote.supervise())
        self._leftovers.take_over(leftovers.load(options.run_dir))
        for instance in self._inventory.instances:
            await self._serve(instance)
        await self._admin.open(options.run_dir / SOCKET_NAME)
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
        """Stop serving. A node's workers go on without gpud; a run's end here."""
        await self._admin.close()
        if self._exports is not None:
            await self._exports.close()
        for server in self._servers.values():
            await server.close(remove_directory=self._options.standalone)
        if self._options.standalone:
            for context in self._contexts:
                self._contexts.dismiss(context, "gpud ends")
            await self._contexts.drain(_DRAIN_SECONDS)
        if self._supervision is not None:
            self._supervision.cancel()
            with suppress(asyncio.CancelledError):
                await self._supervision
        await self._recorder.finish()
        await self._launcher.groups.finish()
        self._remove_idle_groups()
        logger.info("gpud_stopped")

    def _remove_idle_groups(self) -> None:
        """Leave no group without processes: perhaps no gpud comes after this one."""
        for instance in self._inventory.instances:
            with suppress(OSError):
                self._cgroups.remove(instance.uuid)
        self._cgroups.remove_parent()

    def _budget_total(self) -> int:
        return self._inventory.budget_bytes or self._options.budget_bytes or default_budget_bytes()

    def _make_admission(self) -> Admission:
        if self._options.token is not None:
            return TokenAdmission(os.geteuid(), self._options.token)
        return PodAdmission(self._holders, self._events, self._has_foreign_contexts)

    def _has_foreign_contexts(self, uuid: InstanceUuid) -> bool:
        return any(
            self._holders.find(uuid, context.owner.pod_uid) is None
            for context in self._contexts.of(uuid)
        )

    def _context_changed(self, instance: MigInstance) -> None:
        self._recorder.changed()
        self._holders.notify()
        self._launcher.groups.soon(instance)
        if not self._options.standalone:
            self._fence_unlisted(instance.uuid)

    async def _update_group(self, instance: MigInstance) -> None:
        try:
            await self._launcher.groups.prepare(instance)
        except OSError as err:
            logger.warning("cgroup_not_updated instance=%s error=%s", instance.uuid, err)

    def _fence_unlisted(self, uuid: InstanceUuid) -> None:
        for context in self._contexts.of(uuid):
            if self._holders.known(uuid) and not self._holders.find(uuid, context.owner.pod_uid):
                self._contexts.fence(context, "the pod no longer holds this slice")

    def _slice_dir(self, uuid: InstanceUuid) -> Path:
        return self._options.slices_dir / uuid

    async def _serve(self, instance: MigInstance) -> None:
        server = SliceServer(
            instance.uuid,
            self._slice_dir(instance.uuid),
            self._inventory.instance,
            self._describe,
            self._admission,
            self._launcher,
        )
        standalone = self._options.standalone
        server.open(0o600 if standalone else 0o666, 0o700 if standalone else 0o711)
        self._servers[instance.uuid] = server
        await self._launcher.groups.prepare(instance)
        if standalone:
            self._launcher.expect(instance, Owner(PodUid(""), ""))

    def _describe(self, instance: MigInstance) -> DeviceInfo:
        return device_info(
            instance,
            self._options.workers.capability_of(instance),
            self._budget.slice_used_bytes(instance.uuid),
            len(self._contexts.of(instance.uuid)),
            self._cgroups.isolation.enforced,
        )

    async def _op_inventory(self, params: dict[str, Any]) -> dict[str, Any]:
        parameters.fields(params, {})
        self._budget.measure_retained()
        isolation, options = self._cgroups.isolation, self._options
        return self._snapshot.node(
            _version(),
            options.libraries_dir,
            admin.Isolation(isolation.enforced, isolation.reason),
            admin.Sandbox(self._zygote.walls or {}, options.workers.weak_sandbox),
            self._launcher.problem,
        ).to_json()

    async def _op_configure(self, params: dict[str, Any]) -> dict[str, Any]:
        values = parameters.fields(params, {"gpus": list, "budget_bytes": int})
        budget_bytes = parameters.budget_bytes(values["budget_bytes"])
        self._inventory.configure(parameters.gpus(values["gpus"]), budget_bytes)
        self._budget.total_bytes = self._budget_total()
        for instance in self._inventory.instances:
            await self._update_group(instance)
        return {}

    async def _op_create_instance(self, params: dict[str, Any]) -> dict[str, Any]:
        values = parameters.fields(params, {"gpu_uuid": str, "profile": str, "start": int})
        instance = self._inventory.create_instance(
            GpuUuid(values["gpu_uuid"]), values["profile"], values["start"]
        )
        try:
            await self._serve(instance)
        except (OSError, ValueError) as err:
            await self._withdraw(instance.uuid)
            raise RequestError(f"cannot serve {instance.uuid}: {err}") from err
        logger.info(
            "instance_created uuid=%s profile=%s start=%d gpu=%s",
            instance.uuid,
            instance.profile.name,
            instance.start,
            instance.gpu.uuid,
        )
        return asdict(self._snapshot.instance(instance))

    async def _op_destroy_instance(self, params: dict[str, Any]) -> dict[str, Any]:
        values = parameters.fields(params, {"uuid": str})
        await self._withdraw(parameters.instance_uuid(values["uuid"]))
        return {}

    async def _withdraw(self, uuid: InstanceUuid) -> None:
        self._inventory.destroy_instance(uuid, lambda one: self._launcher.count(one.uuid) > 0)
        server = self._servers.pop(uuid, None)
        if server is not None:
            await server.close(remove_directory=True)
        try:
            await self._launcher.groups.remove(uuid)
        except OSError as err:
            logger.warning("cgroup_kept instance=%s error=%s", uuid, err)
        logger.info("instance_destroyed uuid=%s", uuid)

    async def _op_set_admission(self, params: dict[str, Any]) -> dict[str, Any]:
        values = parameters.fields(params, {"uuid": str, "admit": bool})
        self._inventory.set_admission(parameters.instance_uuid(values["uuid"]), values["admit"])
        return {}

    async def _op_set_holders(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._options.standalone:
            raise Conflict("a standalone gpud has no pods")
        values = parameters.fields(params, {"holders": dict, "complete": bool})
        before = {one.uuid: self._holders.of(one.uuid) for one in self._inventory.instances}
        self._holders.replace(parameters.holders(values["holders"]), values["complete"])
        for instance in self._inventory.instances:
            self._fence_unlisted(instance.uuid)
            for holder in self._holders.of(instance.uuid):
                if holder not in before[instance.uuid]:
                    self._launcher.expect(instance, Owner(holder.pod_uid, holder.namespace))
        return {}


def _version() -> str:
    try:
        return metadata.version("tessera")
    except metadata.PackageNotFoundError:
        return "0+source"  # run from a checkout that was never installed
