"""The reconcile loop: level-triggered, one thread, every step safe to repeat."""

import datetime
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from device_plugin.agent import quantity, status
from device_plugin.agent.holders import Holders
from device_plugin.agent.steps import Steps, plan_steps
from device_plugin.backends.gpud import Gpud
from device_plugin.cdi import spec, writer
from device_plugin.config import Settings
from device_plugin.dp.resources import Resources
from device_plugin.dp.service import Offer
from device_plugin.errors import AgentError, GpudError
from device_plugin.inventory.model import Gpu, HolderPod, Inventory
from device_plugin.inventory.resources import by_resource
from device_plugin.kube.client import GpuObject, Kube
from gpu_operator.api.v1alpha1.base import Reason

_RESYNC_S = 5.0
_UNSETTLED_S = 1.0
_SETTLE_S = 2.0  # after a slice left the kubelet's list an allocation may still be on its way
_log = logging.getLogger(__name__)


class Agent:
    """Owns what is known of the node between two passes; used by the reconcile thread only."""

    def __init__(
        self,
        settings: Settings,
        gpud: Gpud,
        holders: Holders,
        kube: Kube,
        resources: Resources,
        libraries_dir: Path,
        wake: threading.Event,
    ) -> None:
        self._settings = settings
        self._gpud = gpud
        self._holders = holders
        self._kube = kube
        self._resources = resources
        self._libraries_dir = libraries_dir
        self._wake = wake
        self._withdrawn_at: dict[str, float] = {}
        self.last_pass = 0.0

    def run(self) -> None:
        """Reconcile for ever: at every wake-up, and every few seconds."""
        while True:
            settled = False
            try:
                settled = self.reconcile()
                self.last_pass = time.monotonic()
            except AgentError as err:
                _log.warning("will retry: %s", err)
            self._wake.wait(_RESYNC_S if settled else _UNSETTLED_S)
            self._wake.clear()

    def reconcile(self) -> bool:
        """Make one pass; return whether every GPU is as desired.

        Raises:
            AgentError: gpud or the kubelet does not answer.
        """
        objects = self._kube.gpus()
        desired = {o.spec.uuid: o for o in objects if not o.deleting}
        refused = self._configure(desired)
        inventory = self._gpud.inventory()
        held = self._holders.refresh()
        steps = {gpu.uuid: self._steps(gpu, desired.get(gpu.uuid), held) for gpu in inventory.gpus}
        self._offer(inventory, steps)  # withdraw first, destroy later
        for gpu in inventory.gpus:
            steps[gpu.uuid] = self._take(gpu, steps[gpu.uuid])
        inventory = self._gpud.inventory()
        self._offer(inventory, steps)
        self._report(objects, inventory, steps, held, refused)
        return not refused and all(s.settled for s in steps.values())

    def _configure(self, desired: Mapping[str, GpuObject]) -> str:
        """Tell gpud which GPUs exist; one that still has slices stays until they are gone."""
        gpus = {
            uuid: {"uuid": uuid, "index": o.spec.index, "board": o.spec.board}
            for uuid, o in desired.items()
        }
        for gpu in self._gpud.inventory().gpus:
            if gpu.slices and gpu.uuid not in gpus:
                gpus[gpu.uuid] = {"uuid": gpu.uuid, "index": gpu.index, "board": gpu.board.key}
        budgets = [o.spec.node_budget for o in desired.values() if o.spec.node_budget]
        budget = quantity.parse(budgets[0] if budgets else self._settings.budget or "0")
        try:
            self._gpud.configure(list(gpus.values()), budget)
        except GpudError as err:
            _log.error("gpud refused the GPUs: %s", err)
            return err.message
        return ""

    def _steps(
        self, gpu: Gpu, wanted: GpuObject | None, held: Mapping[str, Sequence[HolderPod]]
    ) -> Steps:
        instances = wanted.spec.instances if wanted is not None else ()
        now = time.monotonic()
        releasable = {
            s.uuid
            for s in gpu.slices
            if not held.get(s.uuid)
            and not s.contexts
            and now - self._withdrawn_at.get(s.uuid, now) >= _SETTLE_S
        }
        steps = plan_steps(gpu, [(i.profile, i.start) for i in instances], releasable)
        withdrawn = {s.uuid for s in steps.withdraw}
        for mig_slice in gpu.slices:
            if mig_slice.uuid in withdrawn:
                self._withdrawn_at.setdefault(mig_slice.uuid, now)
            else:
                self._withdrawn_at.pop(mig_slice.uuid, None)
        return steps

    def _take(self, gpu: Gpu, steps: Steps) -> Steps:
        """Destroy and create; return the steps that are left."""
        gone = set()
        try:
            for mig_slice in steps.destroy:
                self._gpud.destroy_instance(mig_slice.uuid)
                self._withdrawn_at.pop(mig_slice.uuid, None)
                gone.add(mig_slice.uuid)
                _log.info("destroyed %s on GPU %d", mig_slice.instance, gpu.index)
            for instance in steps.create:
                self._gpud.create_instance(gpu.uuid, instance.profile.name, instance.start)
                _log.info("created %s on GPU %d", instance, gpu.index)
        except GpudError as err:
            _log.warning("GPU %d: %s", gpu.index, err)
            return Steps(withdraw=steps.withdraw, problem="" if err.code == "in_use" else str(err))
        left = tuple(s for s in steps.withdraw if s.uuid not in gone)
        # What waited for a place that has just become free is created in the next pass.
        return Steps(withdraw=left, problem=steps.problem, create=steps.create if gone else ())

    def _offer(self, inventory: Inventory, steps: Mapping[str, Steps]) -> None:
        withdrawn = {s.uuid for step in steps.values() for s in step.withdraw}
        directory = str(self._libraries_dir)
        prefix = self._settings.resource_prefix
        if self._settings.use_cdi:
            document = spec.render(prefix, directory, inventory.slices())
            writer.write(self._settings.cdi_dir, document)
        active = [s for s in inventory.slices() if s.uuid not in withdrawn]
        self._resources.update(
            {
                name: Offer(slices, inventory.gpus, directory)
                for name, slices in by_resource(prefix, active).items()
            }
        )

    def _report(
        self,
        objects: Sequence[GpuObject],
        inventory: Inventory,
        steps: Mapping[str, Steps],
        held: Mapping[str, Sequence[HolderPod]],
        refused: str,
    ) -> None:
        now = datetime.datetime.now(datetime.UTC)
        gpus = {gpu.uuid: gpu for gpu in inventory.gpus}
        for wanted in objects:
            gpu = gpus.get(wanted.spec.uuid)
            if gpu is None or refused:
                message = refused or f"gpud has no {wanted.spec.uuid}"
                new = status.failed(
                    Reason.AGENT_ERROR, message, wanted.status, wanted.generation, now
                )
            else:
                new = status.build(
                    inventory,
                    gpu,
                    steps[gpu.uuid],
                    held,
                    self._settings.resource_prefix,
                    wanted.generation,
                    wanted.status.conditions,
                    now,
                )
            if new != wanted.status:
                self._kube.apply_status(wanted.name, new)
