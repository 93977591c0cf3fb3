"""Writes GPU status: at once after a change, seldom when only memory use has changed.

With thousands of GPUs, writes of memory use would dominate the API server's load. So memory use
is written every half minute if it has changed by a sixteenth of a slice or of the budget, and
every five minutes if it has changed at all. The exporter has the exact figure.
"""

import datetime
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from device_plugin.agent.reporting import node_facts, status
from device_plugin.agent.steps import Steps
from device_plugin.inventory.model import HolderPod, Inventory
from device_plugin.inventory.resources import Kind, OfferedResources
from device_plugin.kube.gpu_object import GpuObject
from device_plugin.kube.gpu_watch import Gpus
from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import FaultStatus, GPUStatus

MEMORY_INTERVAL_S = 30.0
SMALL_MOVE_INTERVAL_S = 300.0
_SMALL = 16  # a change by less than this part of the whole

Refusals = Mapping[str, tuple[Reason, str]]


class Reporter:
    """Writes the status of each GPU if it differs from the status that was written last.

    Used by the reconcile thread only.
    """

    def __init__(self, gpus: Gpus, clock: Callable[[], float] = time.monotonic) -> None:
        self._gpus = gpus
        self._clock = clock
        self._written_at: dict[str, float] = {}
        self._node = {
            "driver_version": node_facts.driver_version(),
            "cuda_version": node_facts.cuda_version(),
            "machine": node_facts.machine_product(),
        }

    def report(
        self,
        objects: Sequence[GpuObject],
        inventory: Inventory,
        steps: Mapping[str, Steps],
        holders: Mapping[str, Sequence[HolderPod]],
        served: Collection[str],
        refused: Refusals,
        resources: OfferedResources,
        elsewhere: Mapping[str, Kind],
        faults: Mapping[str, tuple[FaultStatus, ...]] = MappingProxyType({}),
        rivals: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Write the status of each GPU if it differs from the status that was written last.

        ``served`` are the resources for which a kubelet has an open ListAndWatch stream.
        ``resources`` has the resource under which each slice is offered now. A pod may hold a slice
        under a different resource. ``elsewhere`` then has that resource, by the slice's UUID, and
        the status of the slice names it. ``faults`` has the status of the faults that were
        requested for each GPU. ``rivals`` has a message for each resource that another plugin
        serves.

        Raises:
            ClusterError: the API server refused the write.
        """
        utc_now = datetime.datetime.now(datetime.UTC)
        gpus = {gpu.uuid: gpu for gpu in inventory.gpus}
        offered = {} if resources.problem else resources.kinds
        kinds = {**offered, **elsewhere}
        owned = {gpu_object.uuid for gpu_object in objects if gpu_object.name not in refused}
        for gpu_object in objects:
            gpu = gpus.get(gpu_object.uuid)
            refusal = refused.get(gpu_object.name)
            if gpu is None:
                refusal = refusal or (Reason.AGENT_ERROR, f"gpud has no {gpu_object.uuid}")
            if gpu is None or (refusal is not None and gpu.uuid in owned):
                new_status = status.make_empty(gpu_object.status)
            else:
                named = [offered[s.uuid].resource for s in gpu.slices if s.uuid in offered]
                new_status = status.build(
                    inventory,
                    gpu,
                    steps[gpu.uuid],
                    holders,
                    served,
                    kinds,
                    resources.problem,
                    gpu_object.generation,
                    gpu_object.status.conditions,
                    utc_now,
                    faults.get(gpu.uuid, gpu_object.status.faults),
                    next((rivals[name] for name in named if name in rivals), ""),
                ).model_copy(update=self._node)
            if refusal is not None:
                earlier_conditions = gpu_object.status.conditions
                new_status = status.mark_failed(
                    *refusal, new_status, gpu_object.generation, earlier_conditions, utc_now
                )
            self._write(gpu_object, new_status)
        object_names = {gpu_object.name for gpu_object in objects}
        self._written_at = {n: t for n, t in self._written_at.items() if n in object_names}

    def report_leaving(self, objects: Sequence[GpuObject]) -> None:
        """Write in every GPU's status that pods are no longer admitted. Raises ClusterError."""
        for gpu_object in objects:
            slices = tuple(
                s.model_copy(update={"admitted": False}) for s in gpu_object.status.slices
            )
            self._write(gpu_object, gpu_object.status.model_copy(update={"slices": slices}))

    def report_failure(self, objects: Sequence[GpuObject], message: str) -> None:
        """Write in every GPU's status that the agent cannot manage it. Raises ClusterError."""
        for gpu_object in objects:
            self._write_failure(gpu_object, status.mark_unknown(gpu_object.status), message)

    def report_not_admitting(self, objects: Sequence[GpuObject], message: str) -> None:
        """Write in every GPU's status why pods are not admitted. Raises ClusterError."""
        for gpu_object in objects:
            slices = tuple(
                s.model_copy(update={"admitted": False}) for s in gpu_object.status.slices
            )
            known_status = gpu_object.status.model_copy(update={"slices": slices})
            self._write_failure(gpu_object, known_status, message)

    def _write_failure(self, gpu_object: GpuObject, known_status: GPUStatus, message: str) -> None:
        utc_now = datetime.datetime.now(datetime.UTC)
        earlier_conditions = gpu_object.status.conditions
        reason, generation = Reason.AGENT_ERROR, gpu_object.generation
        self._write(
            gpu_object,
            status.mark_failed(
                reason, message, known_status, generation, earlier_conditions, utc_now
            ),
        )

    def _write(self, gpu_object: GpuObject, new_status: GPUStatus) -> None:
        if new_status == gpu_object.status:
            return
        since = self._clock() - self._written_at.get(gpu_object.name, float("-inf"))
        if _without_use(new_status) == _without_use(gpu_object.status):
            moved = _has_moved(gpu_object.status, new_status)
            if since < (MEMORY_INTERVAL_S if moved else SMALL_MOVE_INTERVAL_S):
                return
        self._gpus.apply_status(gpu_object.name, new_status)
        self._written_at[gpu_object.name] = self._clock()


def _has_moved(old_status: GPUStatus, new_status: GPUStatus) -> bool:
    """Return whether memory use has changed by so much that it must be written soon."""
    pairs = [
        (old.memory_used_bytes, new.memory_used_bytes, new.memory_bytes)
        for old, new in zip(old_status.slices, new_status.slices, strict=True)
    ]
    if old_status.budget is not None and new_status.budget is not None:
        pairs.append(
            (
                _bytes(old_status.budget.used),
                _bytes(new_status.budget.used),
                _bytes(new_status.budget.total),
            )
        )
    return any(abs(new - old) * _SMALL >= max(whole, 1) for old, new, whole in pairs)


def _bytes(text: str) -> int:
    """Return a quantity's bytes; 0 if another writer's status has an invalid quantity."""
    try:
        return quantity.to_bytes(text)
    except ValueError:
        return 0


def _without_use(full: GPUStatus) -> GPUStatus:
    """Return the status without memory use, which changes with every allocation of a program."""
    budget = full.budget
    return full.model_copy(
        update={
            "slices": tuple(s.model_copy(update={"memory_used_bytes": 0}) for s in full.slices),
            "claims": tuple(s.model_copy(update={"memory_used_bytes": 0}) for s in full.claims),
            "budget": budget and budget.model_copy(update={"used": "0"}),
        }
    )
