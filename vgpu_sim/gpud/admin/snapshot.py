"""The ``inventory`` result: one consistent picture of the node."""

from pathlib import Path

from vgpu_sim.gpud.contexts.launching import WorkerSettings
from vgpu_sim.gpud.contexts.table import Context, ContextTable
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.limits.budget import Budget
from vgpu_sim.gpud.model import Gpu, MigInstance
from vgpu_sim.gpud.slices.admission import HolderTable
from vgpu_sim.hal import admin


class Snapshot:
    """Reads the state of the node's parts; changes nothing."""

    def __init__(
        self,
        inventory: Inventory,
        budget: Budget,
        holders: HolderTable,
        contexts: ContextTable,
        settings: WorkerSettings,
        slices_dir: Path,
    ) -> None:
        self._inventory = inventory
        self._budget = budget
        self._holders = holders
        self._contexts = contexts
        self._settings = settings
        self._slices_dir = slices_dir

    def node(
        self,
        version: str,
        libraries_dir: Path,
        isolation: admin.Isolation,
        sandbox: admin.Sandbox,
        problem: str,
    ) -> admin.Inventory:
        """Return everything; ``problem`` says why workers cannot start."""
        return admin.Inventory(
            version=version,
            libraries_dir=str(libraries_dir),
            slices_dir=str(self._slices_dir),
            isolation=isolation,
            sandbox=sandbox,
            budget=admin.Budget(self._budget.total_bytes, self._budget.used_bytes),
            gpus=tuple(self._gpu(gpu, problem) for gpu in self._inventory.gpus),
        )

    def instance(self, instance: MigInstance) -> admin.Instance:
        """Return one instance."""
        return admin.Instance(
            uuid=instance.uuid,
            profile=instance.profile.name,
            start=instance.start,
            size=instance.profile.size,
            memory_bytes=instance.profile.memory_bytes,
            multiprocessors=instance.profile.sm_count,
            memory_used_bytes=self._budget.slice_used_bytes(instance.uuid),
            socket_dir=str(self._slices_dir / instance.uuid),
            admit=instance.admit,
            holders=tuple(
                admin.Holder(one.pod_uid, one.namespace, one.name)
                for one in self._holders.of(instance.uuid)
            ),
            contexts=tuple(self._context(one) for one in self._contexts.of(instance.uuid)),
        )

    def _gpu(self, gpu: Gpu, problem: str) -> admin.Gpu:
        board = gpu.board
        return admin.Gpu(
            uuid=gpu.uuid,
            index=gpu.index,
            board=board.key,
            product=board.product_name,
            memory_bytes=board.memory_bytes,
            multiprocessors=board.sm_count,
            capability=self._settings.capability or board.compute_capability,
            health=f"Unhealthy: {problem}" if problem else "Healthy",
            instances=tuple(self.instance(one) for one in self._inventory.instances_of(gpu)),
        )

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
