"""Builds the result of ``inventory``: the node's state at one moment."""

import time
from collections.abc import Hashable
from pathlib import Path

from vgpu_sim.gpud.contexts.index import Context
from vgpu_sim.gpud.contexts.settings import WorkerSettings
from vgpu_sim.gpud.contexts.table import ContextTable
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.faults import thermal
from vgpu_sim.gpud.faults.injection import Kind
from vgpu_sim.gpud.faults.node import Faults
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.gpud.model import ClaimShare, Gpu, MigInstance
from vgpu_sim.gpud.slices.admission import HolderTable
from vgpu_sim.gpud.telemetry.meter import Reading
from vgpu_sim.gpud.telemetry.sampler import Observed, Sampler
from vgpu_sim.hal.management import admin


class Snapshot:
    """Reads the node's state without changing it."""

    def __init__(
        self,
        inventory: Inventory,
        budget: Budget,
        holders: HolderTable,
        contexts: ContextTable,
        settings: WorkerSettings,
        slices_dir: Path,
        sampler: Sampler,
        faults: Faults,
    ) -> None:
        self._inventory = inventory
        self._budget = budget
        self._holders = holders
        self._contexts = contexts
        self._settings = settings
        self._slices_dir = slices_dir
        self._sampler = sampler
        self._faults = faults

    def node(
        self,
        version: str,
        libraries_dir: Path,
        isolation: admin.Isolation,
        sandbox: admin.Sandbox,
        problem: str,
    ) -> admin.Inventory:
        """Return the node's inventory document; ``problem`` states why workers cannot start, and is
        empty if they can.
        """
        return admin.Inventory(
            version=version,
            libraries_dir=str(libraries_dir),
            slices_dir=str(self._slices_dir),
            isolation=isolation,
            sandbox=sandbox,
            budget=admin.Budget(self._budget.total_bytes, self._budget.used_bytes),
            gpus=tuple(self.gpu(gpu, problem) for gpu in self._inventory.gpus),
            clock=self._settings.clock,
        )

    def instance(self, instance: MigInstance) -> admin.Instance:
        """Return the inventory document's entry for one instance."""
        return admin.Instance(
            uuid=instance.uuid,
            profile=instance.device_profile,
            start=instance.start,
            size=instance.profile.size,
            memory_bytes=instance.profile.memory_bytes,
            multiprocessors=instance.sm_count,
            memory_used_bytes=self._budget.slice_used_bytes(instance.uuid),
            socket_dir=str(self._slices_dir / instance.uuid),
            admit=instance.admit,
            holders=tuple(
                admin.Holder(
                    holder.pod_uid, holder.namespace, holder.name, holder.container, holder.claims
                )
                for holder in self._holders.of(instance.uuid)
            ),
            contexts=tuple(self._context(context) for context in self._contexts.of(instance.uuid)),
            gi_id=instance.gi_id,
            ci_id=instance.ci_id,
            counters=self._contexts.counters(instance.uuid),
            activity=self._sampler.activity(instance.uuid),
            health=str(self._faults.instance_health(instance)),
            owner=instance.owner,
            owner_name=instance.owner_name,
            compute_start=instance.compute_start,
            shared_used_bytes=self._budget.shared_used_bytes(instance),
            shares=tuple(self._share(instance, share) for share in instance.shares),
        )

    def reserved_bytes(self, instance: MigInstance) -> int:
        """Return the memory of an instance that is not used, and that the node's budget does not
        let it allocate now.
        """
        unused = instance.profile.memory_bytes - self._budget.shared_used_bytes(instance)
        return max(0, unused - self._budget.free_bytes(instance))

    def _share(self, instance: MigInstance, share: ClaimShare) -> admin.ClaimShare:
        live = self._contexts.of(instance.uuid)
        return admin.ClaimShare(
            owner=share.owner,
            owner_name=share.owner_name,
            memory_bytes=share.memory_bytes,
            memory_used_bytes=self._budget.client_used_bytes(instance.uuid, share.owner),
            contexts=sum(context.owner.claim == share.owner for context in live),
        )

    def observe(self, instance: MigInstance) -> Observed:
        """Return an instance together with the counters of its contexts, as input of the next
        telemetry sample.
        """
        live: dict[Hashable, Reading] = {
            (context.pid, id(context)): Reading(
                context.statistics.counters, context.statistics.reported_ns, context.adopted
            )
            for context in self._contexts.of(instance.uuid)
        }
        uuid = instance.uuid
        return Observed(
            instance,
            live,
            self._contexts.ended_counters(uuid),
            self._contexts.inherited_counters(uuid),
        )

    def gpu(self, gpu: Gpu, problem: str, only: MigInstance | None = None) -> admin.Gpu:
        """Return the inventory document's entry for a GPU; ``problem`` states why workers cannot
        start, and is empty if they can.

        If ``only`` is given, the entry lists only that instance.
        """
        board, instances = gpu.board, self._inventory.instances_of(gpu)
        return admin.Gpu(
            uuid=gpu.uuid,
            index=gpu.index,
            board=board.key,
            product=board.product_name,
            memory_bytes=board.memory_bytes,
            multiprocessors=board.sm_count,
            capability=self._settings.capability or board.compute_capability,
            instances=tuple(
                self.instance(instance)
                for instance in instances
                if only is None or instance.uuid == only.uuid
            ),
            mig_enabled=not any(instance.profile.is_whole for instance in instances),
            pci_bus_id=gpu.pci_bus_id,
            telemetry=self._telemetry(gpu),
            health=f"Unhealthy: {problem}" if problem else str(self._faults.gpu_health(gpu.uuid)),
            xids=self._faults.records.xids(gpu.uuid),
            ecc=self._faults.records.ecc(gpu.uuid),
            faults=self._faults.active(gpu.uuid),
            facts=gpu.facts,
        )

    def _telemetry(self, gpu: Gpu) -> admin.Telemetry:
        telemetry = self._sampler.telemetry(gpu, time.monotonic_ns())
        hot = any(fault.kind == Kind.THERMAL for fault in self._faults.active(gpu.uuid))
        return thermal.apply_slowdown(telemetry) if hot else telemetry

    def _context(self, context: Context) -> admin.Context:
        return admin.Context(
            pid=context.pid,
            client_pid=context.client.pid,
            client_uid=context.client.uid,
            pod_uid=context.owner.pod_uid,
            memory_bytes=self._budget.account_bytes(context.account),
            launches=context.statistics.launches,
            first_launch_ns=context.statistics.first_launch_ns,
            last_launch_ns=context.statistics.last_launch_ns,
            busy_ns=context.statistics.busy_ns,
            running_kernel=context.statistics.running_kernel,
            running_since_ns=context.statistics.running_since_ns,
            sandbox=context.sandbox,
        )
