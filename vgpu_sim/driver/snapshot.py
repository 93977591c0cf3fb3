"""The ``inventory`` result: one consistent picture of the node as plain values."""

from typing import Any

from vgpu_sim.driver.admission import HolderTable
from vgpu_sim.driver.budget import Budget
from vgpu_sim.driver.cgroups.base import Isolation
from vgpu_sim.driver.contexts import Context, ContextTable
from vgpu_sim.driver.inventory import Inventory
from vgpu_sim.driver.launching import WorkerSettings
from vgpu_sim.driver.model import Gpu, Holder, MigInstance


class Snapshot:
    """Reads the state of the node's parts; changes nothing."""

    def __init__(
        self,
        inventory: Inventory,
        budget: Budget,
        holders: HolderTable,
        contexts: ContextTable,
        settings: WorkerSettings,
    ) -> None:
        self._inventory = inventory
        self._budget = budget
        self._holders = holders
        self._contexts = contexts
        self._settings = settings

    def node(self, isolation: Isolation, problem: str) -> dict[str, Any]:
        """Return budget, isolation and GPUs; ``problem`` says why workers cannot start."""
        return {
            "isolation": {"enforced": isolation.enforced, "reason": isolation.reason},
            "budget": {
                "total_bytes": self._budget.total_bytes,
                "used_bytes": self._budget.used_bytes,
            },
            "gpus": [self._gpu(gpu, problem) for gpu in self._inventory.gpus],
        }

    def instance(self, instance: MigInstance, socket_dir: str) -> dict[str, Any]:
        """Return one instance."""
        return {
            "uuid": instance.uuid,
            "profile": instance.profile.name,
            "start": instance.start,
            "size": instance.profile.size,
            "memory_bytes": instance.profile.memory_bytes,
            "multiprocessors": instance.profile.sm_count,
            "memory_used_bytes": self._budget.slice_used_bytes(instance.uuid),
            "socket_dir": socket_dir,
            "admit": instance.admit,
            "holders": [_holder(one) for one in self._holders.of(instance.uuid)],
            "contexts": [self._context(one) for one in self._contexts.of(instance.uuid)],
        }

    def _gpu(self, gpu: Gpu, problem: str) -> dict[str, Any]:
        board = gpu.board
        return {
            "uuid": gpu.uuid,
            "index": gpu.index,
            "board": board.key,
            "product": board.product_name,
            "memory_bytes": board.memory_bytes,
            "multiprocessors": board.sm_count,
            "capability": list(self._settings.capability or board.compute_capability),
            "health": f"Unhealthy: {problem}" if problem else "Healthy",
            "instances": self._inventory.instances_of(gpu),
        }

    def _context(self, context: Context) -> dict[str, Any]:
        return {
            "pid": context.pid,
            "client_pid": context.client.pid,
            "client_uid": context.client.uid,
            "pod_uid": context.owner.pod_uid,
            "memory_bytes": self._budget.account_bytes(context.account),
            "launches": context.statistics.launches,
            "first_launch_ns": context.statistics.first_launch_ns,
            "last_launch_ns": context.statistics.last_launch_ns,
            "busy_ns": context.statistics.busy_ns,
            "sandbox": context.sandbox,
        }


def _holder(holder: Holder) -> dict[str, Any]:
    return {
        "pod_uid": holder.pod_uid,
        "namespace": holder.namespace,
        "name": holder.name,
    }
