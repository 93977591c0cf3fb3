"""The node's offer to the kubelet: slices by resource, and HCA functions.

A device leaves a list only after the scheduler cannot bind pods to it (``unlisting``), whether
its layout, its name, the node's strategy, its sharing or its pool changes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from device_plugin.agent.cdi_files import CdiFiles
from device_plugin.agent.claims import ClaimOffer
from device_plugin.agent.desired_state import Desired
from device_plugin.agent.functions import FunctionBinder
from device_plugin.agent.holders import Holders
from device_plugin.agent.leaving.unlisting import Unlisting
from device_plugin.agent.listing import Listing
from device_plugin.agent.offer_record import OfferRecord, Sharing
from device_plugin.agent.steps import Steps
from device_plugin.cdi import nvidia
from device_plugin.config import Settings
from device_plugin.dp.functions import FunctionOffer
from device_plugin.dp.kubelet_side import KubeletSide
from device_plugin.dp.offer import HEALTHY, Offer
from device_plugin.dp.slices import SliceOffer, left_over_ids
from device_plugin.inventory.functions import RESOURCE, HcaFunction
from device_plugin.inventory.model import Inventory, is_allocatable
from device_plugin.inventory.numa import numa_nodes
from device_plugin.inventory.resources import (
    Kind,
    OfferedResources,
    assign_resources,
    group_by_resource,
)
from device_plugin.kube.node_status import NodeStatus
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.api.v1alpha1.sharing import Shared


class Offering:
    """Updates the lists of devices that the node offers to the kubelet.

    Used by the reconcile thread only.

    ``informed`` is true once the API server has reported the node's GPU objects, even if there are
    none. Before that, the node repeats the last offer of an earlier agent, which ``record``
    contains. ``in_pool`` is true if the last report contained a GPU object. ``listed`` are the
    resources whose last lists had a healthy device.
    """

    def __init__(
        self,
        settings: Settings,
        libraries_dir: Path,
        kubelet_side: KubeletSide,
        holders: Holders,
        binder: FunctionBinder,
        claims: ClaimOffer,
        look: Callable[[], NodeStatus] | None = None,
        clock: Callable[[], float] = time.monotonic,
        record: OfferRecord | None = None,
    ) -> None:
        self.cdi = CdiFiles(settings, libraries_dir)
        self.unlisting = Unlisting(look, clock)
        self._listing = Listing(holders.seen_at, clock)
        self._settings = settings
        self._libraries_dir = str(libraries_dir)
        self._kubelet_side = kubelet_side
        self._holders = holders
        self._binder = binder
        self._claims = claims
        self._numa_nodes = numa_nodes()
        self._record = record
        recorded_offer = record.read() if record is not None else None
        self._strategy: Strategy
        self._sharing: Sharing
        self._strategy, self._sharing = recorded_offer or (Strategy.MIXED, {})
        # otherwise pods were bound to resources that were not recorded
        self._knows_names = recorded_offer is not None
        self._shared: Mapping[str, Shared] = {}  # as last reported to gpud, by UUID
        self.informed = self.in_pool = False
        self.listed = frozenset[str]()

    def set_desired(self, desired: Desired, in_pool: bool) -> None:
        """Record how slices are to be named and shared, and whether the node has GPU objects.

        GPUs of refused objects keep their sharing. If all objects of the node are refused, the
        node also keeps its strategy.
        """
        frozen_sharing = {
            uuid: how for uuid, how in self._sharing.items() if desired.is_frozen(uuid)
        }
        self._sharing = frozen_sharing | desired.sharing
        if desired.gpus:
            self._strategy = desired.strategy
        self.informed, self.in_pool, self._knows_names = True, in_pool, True

    @property
    def has_left_pool(self) -> bool:
        """Return whether the API server has reported that the node has no GPU objects."""
        return self.informed and not self.in_pool

    def name_resources(
        self, inventory: Inventory, steps: Mapping[str, Steps]
    ) -> tuple[OfferedResources, Mapping[str, Kind]]:
        """Return the current resources of all slices, and the former resources of some slices.

        The second result has, by UUID, only the slices that a pod holds under a resource other
        than the current one.
        """
        target = self._target(inventory, steps)
        resources = self._listing.current_resources(target, inventory.unclaimed_slices())
        allocated_kinds = self._holders.allocated_kinds()
        return resources, {
            uuid: min(former_kinds)
            for uuid, kind in resources.kinds.items()
            if (former_kinds := allocated_kinds.get(uuid, frozenset()) - {kind})
        }

    def shares(
        self, inventory: Inventory, steps: Mapping[str, Steps]
    ) -> dict[str, tuple[str, int]] | None:
        """Return the kind of sharing and the number of shares of each shared slice, by its UUID.

        The result is None until the API server has reported the GPU objects. If a pod holds a
        slice under a former resource, the slice keeps the sharing of that resource.
        """
        if not self.informed:
            return None
        resources, elsewhere = self.name_resources(inventory, steps)
        shared = dict(resources.shared)
        for uuid, kind in elsewhere.items():
            if not kind.is_share:
                shared.pop(uuid, None)
            elif uuid not in shared and uuid in self._shared:
                shared[uuid] = self._shared[uuid]
        self._shared = shared
        return {
            uuid: (shared_resource.kind.value, shared_resource.replicas)
            for uuid, shared_resource in shared.items()
        }

    def advance_unlisting(
        self, inventory: Inventory, steps: Mapping[str, Steps]
    ) -> dict[str, Steps]:
        """Decide which devices leave their lists now.

        Return ``steps`` with ``listed`` and ``renamed`` set according to the decision.
        """
        slices, target = inventory.unclaimed_slices(), self._target(inventory, steps)
        _, elsewhere = self.name_resources(inventory, steps)
        withdrawn = {s.uuid for step in steps.values() for s in step.withdraw}
        moving = self._listing.find_leaving(target, slices)
        allocatable_uuids = {
            s.uuid for gpu in inventory.gpus for s in gpu.unclaimed if is_allocatable(gpu, s)
        }
        leaving: dict[str, str] = {}
        for uuid in withdrawn | moving:
            entry = self._listing.entry(uuid, target)
            # The scheduler binds no pod to an unhealthy slice, and the kubelet does not count it.
            on_list = entry is not None and uuid in allocatable_uuids and uuid not in elsewhere
            leaving[uuid] = entry.resource if on_list and entry is not None else ""
        leaving |= {function.id: RESOURCE for function in self._leaving_functions()}
        staying = self._listing.count_remaining(target, inventory, withdrawn | elsewhere.keys())
        self.unlisting.choose_unlisted(leaving, staying)
        unlisted_uuids = moving & self.unlisting.unlisted
        self._listing.unlist(unlisted_uuids, target)
        for uuid in unlisted_uuids - withdrawn:
            self.unlisting.forget(uuid)
        renamed = self._listing.find_changing(target, slices) - withdrawn
        of_gpus = {gpu.uuid: gpu.unclaimed for gpu in inventory.gpus}
        return {
            gpu: replace(
                step,
                listed=tuple(s for s in step.withdraw if s.uuid not in self.unlisting.unlisted),
                renamed=tuple(s for s in of_gpus[gpu] if s.uuid in renamed),
            )
            for gpu, step in steps.items()
        }

    def offer(self, inventory: Inventory, steps: Mapping[str, Steps]) -> None:
        """Update the kubelet's lists and the CDI files of their devices.

        Raises:
            OSError: a file or socket on the node could not be written.
        """
        slices, target = inventory.unclaimed_slices(), self._target(inventory, steps)
        resources, elsewhere = self.name_resources(inventory, steps)
        withdrawn = {s.uuid for step in steps.values() for s in step.withdraw}
        gone = withdrawn & self.unlisting.unlisted | elsewhere.keys()
        gone |= self._listing.find_unlisted(target, slices)
        leaving = withdrawn | self._listing.find_leaving(target, slices)
        prefix = self._settings.resource_prefix
        programs = nvidia.optional_mounts(
            self._libraries_dir,
            nvidia_smi=self._settings.nvidia_smi,
            device_files=self._settings.device_files,
        )
        self.cdi.write_slices(inventory, programs)
        names, claim_offers = resources.names, self._claims.claim_resources()
        over = left_over_ids(resources.shared, self._holders.devices())
        active = group_by_resource(names, (s for s in slices if s.uuid not in gone))
        former = group_by_resource(names, (s for s in slices if s.uuid in gone))
        offers: dict[str, Offer] = {
            name: SliceOffer(
                active.get(name, ()),
                inventory.gpus,
                self._libraries_dir,
                former.get(name, ()),
                prefix,
                self._numa_nodes,
                programs,
                resources.shared,
                name in claim_offers,
                frozenset(leaving),
                over,
                self._settings.pytorch,
            )
            for name in sorted(active.keys() | former.keys())
        }
        offers = claim_offers | offers | self._functions(inventory)
        self._kubelet_side.update(offers)
        if self._knows_names:
            self._listing.record(resources, {s.uuid for group in active.values() for s in group})
        self._keep_record()
        self.listed = frozenset(
            name
            for name, offer in offers.items()
            if any(device.health == HEALTHY for device in offer.devices())
        )

    def _keep_record(self) -> None:
        if self._record is None or not self.informed:
            return
        if self.has_left_pool:
            self._record.remove()
        else:
            self._record.write(self._strategy, self._sharing)

    def stop_writing_cdi(self) -> None:
        """Stop writing CDI files; if the node has left its pool, delete them.

        Any thread may call this. Raises OSError.
        """
        self.cdi.stop_writing(remove=self.has_left_pool)
        if self._record is not None and self.has_left_pool:
            self._record.remove()

    def _target(self, inventory: Inventory, steps: Mapping[str, Steps]) -> OfferedResources:
        """Return the target resources of the slices."""
        withdrawn = {s.uuid for step in steps.values() for s in step.withdraw}
        prefix, slices = self._settings.resource_prefix, inventory.unclaimed_slices()
        return assign_resources(prefix, self._strategy, slices, withdrawn, self._sharing)

    def _leaving_functions(self) -> Sequence[HcaFunction]:
        """Return the HCA functions to withdraw: all of them once the node has left its pool."""
        return self._binder.functions if self.has_left_pool and RESOURCE in self.listed else ()

    def _functions(self, inventory: Inventory) -> dict[str, Offer]:
        functions = self._binder.functions
        if self.has_left_pool:
            waiting = {
                function.id for function in self._leaving_functions()
            } - self.unlisting.unlisted
            functions = tuple(function for function in functions if function.id in waiting)
        self.cdi.write_functions(functions)
        if not functions:
            return {}
        roots = {s.uuid: gpu.index for gpu in inventory.gpus for s in gpu.slices}
        healthy, nodes = self._binder.healthy, self._numa_nodes
        return {RESOURCE: FunctionOffer(functions, self._libraries_dir, healthy, roots, nodes)}
