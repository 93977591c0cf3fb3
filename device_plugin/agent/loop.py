"""The reconcile loop: level-triggered, in one thread, with steps that can be repeated safely.

Existing slices are served whatever else fails: without the API server, slices stay as they are;
without the kubelet, no slice is destroyed; without gpud, slices are offered as unhealthy.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Never

from device_plugin.agent import faults, libraries, orphans
from device_plugin.agent.claims import ClaimOffer, NoClaims
from device_plugin.agent.desired_state import Desired, current_configuration, desired_from_objects
from device_plugin.agent.functions import FunctionBinder
from device_plugin.agent.holders import Holders
from device_plugin.agent.leaving.allocatable import LOOK_AGAIN_S
from device_plugin.agent.listing import SETTLE_S
from device_plugin.agent.offer_record import OfferRecord
from device_plugin.agent.offering import Offering
from device_plugin.agent.passes import Pass, Pulse
from device_plugin.agent.reporting.clocks import Clocks
from device_plugin.agent.reporting.healths import Healths
from device_plugin.agent.reporting.kubelet_side_loss import KubeletSideLoss
from device_plugin.agent.reporting.notices import Notices
from device_plugin.agent.reporting.reporter import Refusals, Reporter
from device_plugin.agent.reporting.rivals import Rivals
from device_plugin.agent.steps import Steps, plan_steps
from device_plugin.agent.withdrawals import Withdrawals
from device_plugin.backends.gpud import Gpud
from device_plugin.backends.presence import Presence
from device_plugin.config import Settings
from device_plugin.dp.kubelet_side import KubeletSide
from device_plugin.errors import (
    AgentError,
    ClusterError,
    GpudError,
    GpudUnreachable,
    KubeletSideLost,
    PodResourcesError,
)
from device_plugin.inventory.model import Gpu, Inventory, MigSlice, mark_all_unhealthy
from device_plugin.kube.gpu_object import GpuObject
from device_plugin.kube.gpu_watch import Gpus
from device_plugin.kube.node_status import NodeStatus
from device_plugin.metrics import METRICS
from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.base import Reason
from mig import planner

_RESYNC_S = 5.0
_UNSETTLED_S = 1.0
_MIN_INTERVAL_S = 0.5  # between passes, however often the loop is woken
GPUD_LOST_S = 20.0  # longer than a restart of gpud takes
_log = logging.getLogger(__name__)


class Agent:
    """Reconciles the node with its GPU objects. Used by the reconcile thread only."""

    def __init__(
        self,
        settings: Settings,
        gpud: Gpud,
        holders: Holders,
        gpu_objects: Gpus,
        kubelet_side: KubeletSide,
        libraries_dir: Path,
        wake: threading.Event,
        notices: Notices,
        binder: FunctionBinder,
        claims: ClaimOffer | None = None,
        rivals: Rivals | None = None,
        node_status: Callable[[], NodeStatus] | None = None,
        clock: Callable[[], float] = lambda: time.monotonic(),
        record: OfferRecord | None = None,
        presence: Presence | None = None,
    ) -> None:
        self._rivals = rivals
        self._binder = binder
        self._claims = claims or NoClaims()
        self._settings = settings
        self._default_budget_bytes = quantity.to_bytes(settings.budget)
        self._gpud = gpud
        self._holders = holders
        self._gpu_objects = gpu_objects
        self._reporter = Reporter(gpu_objects)
        self._kubelet_side = kubelet_side
        self._libraries_dir = libraries_dir
        self._offering = Offering(
            settings,
            libraries_dir,
            kubelet_side,
            holders,
            binder,
            self._claims,
            look=node_status,
            clock=clock,
            record=record,
        )
        self._wake = wake
        self._withdrawals = Withdrawals(notices)
        self._healths, self._clocks = Healths(notices), Clocks(notices)
        self._objects: Sequence[GpuObject] | None = None  # None: the API server has never answered
        self._configured: object = None
        self._inventory: Inventory | None = None
        self._side_loss = KubeletSideLoss(self._reporter, gpu_objects, clock)
        self._presence = presence or Presence(GPUD_LOST_S)
        self._leaving, self._left = threading.Event(), threading.Event()
        self.served = frozenset[str]()  # resources whose devices are listed; set by each pass
        self.pulse = Pulse()

    def report_leaving(self, within_s: float) -> None:
        """Report that pods are no longer admitted.

        Returns when the report was made, or after ``within_s`` seconds. Any thread may call
        this.
        """
        self._leaving.set()
        self._wake.set()
        self._left.wait(within_s)

    def stop_writing_cdi(self) -> None:
        """Stop writing CDI files; if the node has left its pool, delete them.

        Any thread may call this. Passes may continue.
        """
        try:
            self._offering.stop_writing_cdi()
        except OSError as err:
            _log.warning("CDI files stay on the node: %s", err)

    def run(self) -> Never:
        """Reconcile forever: one pass at every wake-up, and one every few seconds."""
        while True:
            self.pulse.began = time.monotonic()
            if self._leaving.is_set() and not self._left.is_set():
                self._report_leaving()
            settled = self.attempt()
            least_s = LOOK_AGAIN_S if self._offering.unlisting.has_pending else _MIN_INTERVAL_S
            self._wake.wait(_RESYNC_S if settled else min(2 * least_s, _UNSETTLED_S))
            time.sleep(max(0.0, self.pulse.began + least_s - time.monotonic()))
            self._wake.clear()

    def _report_leaving(self) -> None:
        """Report that pods are no longer admitted. This does not need gpud, which may be gone."""
        try:
            objects = self._gpu_objects.gpus()
            desired = desired_from_objects(objects, self._default_budget_bytes)
            self._offering.set_desired(desired, in_pool=bool(objects))
            self._reporter.report_leaving(objects)
        except ClusterError as err:
            _log.warning("cannot report that pods are no longer admitted: %s", err)
        self._left.set()

    def attempt(self) -> bool:
        """Make one pass of the reconcile loop, and log errors instead of raising them.

        Return whether nothing is left in progress.
        """
        began = time.monotonic()
        succeeded, settled = self._attempt()
        METRICS.count_pass(time.monotonic() - began, succeeded=succeeded)
        return settled

    def _attempt(self) -> tuple[bool, bool]:
        """Make one pass; return whether it succeeded, and whether nothing is in progress."""
        try:
            settled = self.reconcile()
            self.pulse.succeeded = time.monotonic()
            self._side_loss.clear()
        except GpudUnreachable as err:
            _log.warning("will retry: %s", err)
            self._without_gpud(str(err))
        except KubeletSideLost as err:
            _log.warning("will retry: %s", err)
            self._side_loss.report(err)
        except (AgentError, OSError) as err:
            _log.warning("will retry: %s", err)
        else:
            return True, settled
        return False, False

    def reconcile(self) -> bool:
        """Make one pass: run ``STAGES`` in order. Return whether nothing is left in progress.

        Raises:
            AgentError: a request to gpud, the kubelet or the API server failed; the rest of the
                pass was completed.
            OSError: a file or socket on the node could not be written.
        """
        pass_state = Pass()
        for stage in STAGES:
            stage(self, pass_state)
        if pass_state.failures:
            raise pass_state.failures[0]
        settled = not pass_state.refused and all(step.settled for step in pass_state.steps.values())
        waits = self._offering.unlisting.has_pending or self._kubelet_side.has_pending()
        return settled and not waits

    def _list_pods(self, pass_state: Pass) -> None:
        """List the kubelet's pods and their devices; if that fails, no slice counts as free."""
        try:
            view = self._holders.refresh()
        except PodResourcesError as err:
            pass_state.failures.append(err)
        else:
            pass_state.held = view.holders
            self._kubelet_side.confirm_listed(view.devices)
            self._binder.wake()

    def _read_objects(self, pass_state: Pass) -> None:
        """Read the node's GPU objects; without the API server, keep those of the last pass."""
        try:
            self._objects = self._gpu_objects.gpus()
        except ClusterError as err:
            pass_state.failures.append(err)
        if self._objects is not None:
            pass_state.desired = desired_from_objects(self._objects, self._default_budget_bytes)
            self._offering.set_desired(pass_state.desired, in_pool=bool(self._objects))

    def _configure_gpus(self, pass_state: Pass) -> None:
        pass_state.inventory, pass_state.refused = self._configure(pass_state.desired)

    def _plan(self, pass_state: Pass) -> None:
        """Plan what each GPU creates and destroys; no slice is destroyed before it is unlisted."""
        steps = {gpu.uuid: self._steps(gpu, pass_state) for gpu in pass_state.inventory.gpus}
        pass_state.steps = self._offering.advance_unlisting(pass_state.inventory, steps)

    def _set_shares(self, pass_state: Pass) -> None:
        """Report to gpud how many pods share a slice: a pod may hold a share once it is listed."""
        self._send_sharing(pass_state.inventory, pass_state.steps)

    def _offer(self, pass_state: Pass) -> None:
        """Update the kubelet's lists; a slice that is to be destroyed leaves its list first."""
        self._offering.offer(pass_state.inventory, pass_state.steps)

    def _change_instances(self, pass_state: Pass) -> None:
        """Destroy and create instances, then update the lists."""
        if not any(step.destroy or step.create for step in pass_state.steps.values()):
            return
        for gpu in pass_state.inventory.gpus:
            pass_state.steps[gpu.uuid] = self._take(gpu, pass_state.steps[gpu.uuid])
        pass_state.inventory = self._gpud.inventory()
        self._set_shares(pass_state)
        self._offer(pass_state)

    def _offer_claims(self, pass_state: Pass) -> None:
        if self._objects is not None:
            self._claims.offer(self._objects, pass_state.desired, pass_state.inventory)

    def _inject_faults(self, pass_state: Pass) -> None:
        """Inject the faults that GPU objects request, and record that gpud answered."""
        objects = self._objects or ()
        pass_state.faults = faults.carry_out_all(
            self._gpud, objects, pass_state.inventory, pass_state.refused
        )
        self._inventory = pass_state.inventory
        self._presence.record_answer()

    def _forget_devices(self, pass_state: Pass) -> None:
        """Collect the node's devices, and make the kubelet's side forget all others."""
        self._kubelet_side.report_claim_health(orphans.health_by_device(pass_state.inventory))
        pass_state.devices = {s.uuid for s in pass_state.inventory.slices()}
        pass_state.devices |= {function.id for function in self._binder.functions}
        self._kubelet_side.keep_only(pass_state.devices)

    def _remove_libraries(self, pass_state: Pass) -> None:
        """Remove libraries of older versions once every pod that may have them is known."""
        view = self._holders.last_view()
        pass_state.holders = view.holders
        claimed = {s.uuid for s in pass_state.inventory.claimed_slices()}
        in_use = (pass_state.devices - claimed) & pass_state.holders.keys()
        if pass_state.held is not None and view.complete and self._kubelet_side.all_ours(in_use):
            libraries.remove_others(self._libraries_dir)

    def _send_events(self, pass_state: Pass) -> None:
        self._withdrawals.notify(
            pass_state.inventory, pass_state.steps, pass_state.holders, pass_state.desired.gpus
        )
        self._healths.notify(self._objects or (), pass_state.inventory.gpus, pass_state.holders)
        self._clocks.notify(self._objects or (), pass_state.inventory, pass_state.holders)

    def _report(self, pass_state: Pass) -> None:
        """Write the status of the GPU objects, unless the API server has failed in this pass."""
        if any(isinstance(failure, ClusterError) for failure in pass_state.failures):
            return
        connected = self._kubelet_side.connected_resources()
        self.served = connected & self._offering.listed
        served = frozenset[str]() if self._leaving.is_set() else connected
        rivals = self._look_for_rivals(pass_state)
        self._reporter.report(
            self._objects or (),
            pass_state.inventory,
            pass_state.steps,
            pass_state.holders,
            served - rivals.keys(),
            {**self._claims.problems(), **pass_state.refused},
            *self._offering.name_resources(pass_state.inventory, pass_state.steps),
            pass_state.faults,
            rivals,
        )

    def _look_for_rivals(self, pass_state: Pass) -> Mapping[str, str]:
        if self._rivals is None:
            return {}
        resources = set(
            self._offering.name_resources(pass_state.inventory, pass_state.steps)[0].names.values()
        )
        own_ids = {
            s.uuid for s in pass_state.inventory.slices()
        } | self._offering.unlisting.unlisted
        return self._rivals.find_rivals(resources, own_ids, self._objects or ())

    def _configure(self, desired: Desired) -> tuple[Inventory, Refusals]:
        """Send gpud the GPUs that should exist, unless it has exactly these."""
        inventory = self._gpud.inventory()
        if self._objects is None:
            return inventory, {}
        gpus = desired.configuration(inventory)
        requested = gpus, desired.budget_bytes
        if current_configuration(inventory) == gpus and self._configured == requested:
            return inventory, desired.refused
        try:
            self._gpud.configure(gpus, desired.budget_bytes)
        except GpudError as err:
            _log.warning("gpud refused the GPUs: %s", err)
            refused = {o.name: (Reason.AGENT_ERROR, err.message) for o in self._objects}
            return inventory, {**refused, **desired.refused}
        self._configured = requested
        return self._gpud.inventory(), desired.refused

    def _steps(self, gpu: Gpu, pass_state: Pass) -> Steps:
        holders, instances = pass_state.held, pass_state.desired.instances(gpu)
        unlisting = self._offering.unlisting
        listed_instances = (s.instance for s in gpu.unclaimed if s.uuid not in unlisting.unlisted)
        desired_places = (
            map(planner.place_of, listed_instances)
            if instances is None
            else (i.place for i in instances)
        )
        releasable = {
            s.uuid
            for s in gpu.slices
            if holders is not None
            and not holders.get(s.uuid)
            and not s.contexts
            and unlisting.unlisted_for(s.uuid) >= SETTLE_S
        }
        return plan_steps(gpu, list(desired_places), releasable)

    def _take(self, gpu: Gpu, steps: Steps) -> Steps:
        """Destroy and create instances of one GPU; return the steps that are left."""
        destroyed_uuids: set[str] = set()
        created_instances = set()
        problem = steps.problem
        try:
            destroyed_uuids.update(s.uuid for s in steps.destroy if self._destroy(gpu, s))
            for instance in steps.create:
                place = planner.place_of(instance)
                self._gpud.create_instance(
                    gpu.uuid, place.profile, place.start, compute_start=place.compute_start
                )
                # a whole GPU with this UUID may have been destroyed before
                if instance.profile.is_whole:
                    self._kubelet_side.allow(gpu.uuid)
                created_instances.add(instance)
                _log.info("created %s on GPU %d", instance, gpu.index)
        except GpudError as err:
            _log.warning("GPU %d: %s", gpu.index, err)
            problem = str(err)
        return Steps(
            withdraw=tuple(s for s in steps.withdraw if s.uuid not in destroyed_uuids),
            listed=steps.listed,
            create=tuple(i for i in steps.create if i not in created_instances),
            claimed=steps.claimed,
            renamed=steps.renamed,
            problem=problem,
        )

    def _destroy(self, gpu: Gpu, mig_slice: MigSlice) -> bool:
        if not self._kubelet_side.forbid(mig_slice.uuid):
            return False  # the kubelet has just allocated it to a pod
        try:
            self._gpud.destroy_instance(mig_slice.uuid)
        except AgentError as err:
            self._kubelet_side.allow(mig_slice.uuid)
            if isinstance(err, GpudError) and err.code == "in_use":
                return False
            raise
        self._offering.unlisting.forget(mig_slice.uuid)
        _log.info("destroyed %s on GPU %d", mig_slice.instance, gpu.index)
        return True

    def _send_sharing(self, inventory: Inventory, steps: Mapping[str, Steps]) -> None:
        shares = self._offering.shares(inventory, steps)
        if shares is not None:  # otherwise gpud keeps what it has
            self._gpud.set_sharing(shares)

    def _without_gpud(self, message: str) -> None:
        """Mark the node's slices unhealthy if gpud has been away for too long."""
        if not self._presence.is_lost:
            return
        if self._inventory is not None:
            self._inventory = mark_all_unhealthy(self._inventory, message)
            self._offering.offer(self._inventory, {})
        try:
            self._objects = self._gpu_objects.gpus()
            if self._inventory is not None:
                desired = desired_from_objects(self._objects, self._default_budget_bytes)
                self._claims.offer(self._objects, desired, self._inventory)
            self._reporter.report_failure(self._objects, message)
        except ClusterError as err:
            _log.warning("status not written: %s", err)


# Each stage writes what later stages read. The order is part of the contract: the pods that hold a
# slice are known before it may be destroyed, it leaves the kubelet's list before it is destroyed,
# and a device is listed only when gpud can serve it.
STAGES: tuple[Callable[[Agent, Pass], None], ...] = (
    Agent._list_pods,
    Agent._read_objects,
    Agent._configure_gpus,
    Agent._plan,
    Agent._set_shares,
    Agent._offer,
    Agent._change_instances,
    Agent._offer_claims,
    Agent._inject_faults,
    Agent._forget_devices,
    Agent._remove_libraries,
    Agent._send_events,
    Agent._report,
)
