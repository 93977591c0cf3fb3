"""Writes GPU status: at once when something happened, seldom when only memory use moved."""

import datetime
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from device_plugin.agent import status
from device_plugin.agent.steps import Steps
from device_plugin.inventory.model import HolderPod, Inventory
from device_plugin.inventory.resources import resource_name
from device_plugin.kube.client import Kube
from device_plugin.kube.gpu_object import GpuObject
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import GPUStatus

MEMORY_INTERVAL_S = 30.0

Refusals = Mapping[str, tuple[Reason, str]]


class Reporter:
    """Used by the reconcile thread only."""

    def __init__(
        self, kube: Kube, prefix: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kube = kube
        self._prefix = prefix
        self._clock = clock
        self._written_at: dict[str, float] = {}

    def report(
        self,
        objects: Sequence[GpuObject],
        inventory: Inventory,
        steps: Mapping[str, Steps],
        holders: Mapping[str, Sequence[HolderPod]],
        served: Collection[str],
        refused: Refusals,
        elsewhere: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Write what differs; ``served`` are the resources whose list a kubelet follows,
        ``elsewhere`` as in ``Holders``.

        Raises:
            ClusterError: the API server did not take it.
        """
        now = datetime.datetime.now(datetime.UTC)
        gpus = {gpu.uuid: gpu for gpu in inventory.gpus}
        owned = {wanted.uuid for wanted in objects if wanted.name not in refused}
        for wanted in objects:
            gpu = gpus.get(wanted.uuid)
            refusal = refused.get(wanted.name)
            if gpu is None:
                refusal = refusal or (Reason.AGENT_ERROR, f"gpud has no {wanted.uuid}")
            if gpu is None or (refusal is not None and gpu.uuid in owned):
                new = status.empty(wanted.status)
            else:
                new = status.build(
                    inventory,
                    gpu,
                    steps[gpu.uuid],
                    holders,
                    served,
                    {s.uuid: resource_name(self._prefix, s) for s in gpu.slices} | dict(elsewhere),
                    wanted.generation,
                    wanted.status.conditions,
                    now,
                )
            if refusal is not None:
                before = wanted.status.conditions
                new = status.failed(*refusal, new, wanted.generation, before, now)
            self._write(wanted, new)
        names = {wanted.name for wanted in objects}
        self._written_at = {n: t for n, t in self._written_at.items() if n in names}

    def report_leaving(self, objects: Sequence[GpuObject]) -> None:
        """Say of every slice that no pod is admitted with it any more. Raises ClusterError."""
        for wanted in objects:
            slices = tuple(s.model_copy(update={"admitted": False}) for s in wanted.status.slices)
            self._write(wanted, wanted.status.model_copy(update={"slices": slices}))

    def report_failure(self, objects: Sequence[GpuObject], message: str) -> None:
        """Say of every GPU that the agent cannot look after it. Raises ClusterError."""
        now = datetime.datetime.now(datetime.UTC)
        for wanted in objects:
            known, before = status.unknown(wanted.status), wanted.status.conditions
            new = status.failed(Reason.AGENT_ERROR, message, known, wanted.generation, before, now)
            self._write(wanted, new)

    def _write(self, wanted: GpuObject, new: GPUStatus) -> None:
        if new == wanted.status:
            return
        since = self._clock() - self._written_at.get(wanted.name, float("-inf"))
        if _without_use(new) == _without_use(wanted.status) and since < MEMORY_INTERVAL_S:
            return
        self._kube.apply_status(wanted.name, new)
        self._written_at[wanted.name] = self._clock()


def _without_use(full: GPUStatus) -> GPUStatus:
    """Return the status without the figures that every allocation of a program moves."""
    budget = full.budget
    return full.model_copy(
        update={
            "slices": tuple(s.model_copy(update={"memory_used_bytes": 0}) for s in full.slices),
            "budget": budget and budget.model_copy(update={"used": "0"}),
        }
    )
