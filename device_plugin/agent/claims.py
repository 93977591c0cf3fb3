"""Offers to ResourceClaims the part of the node's GPUs that layouts leave free.

Claims cannot have the slices that exist and were not made for a claim, nor those that a layout
is about to create and no claim blocks. Slices made for claims stay in the offer: the scheduler
counts them.
"""

from collections.abc import Sequence
from typing import Protocol

from device_plugin.agent.desired_state import Desired
from device_plugin.agent.reporting import node_facts
from device_plugin.agent.reporting.notices import Notices
from device_plugin.agent.reporting.reporter import Refusals
from device_plugin.config import Settings
from device_plugin.dp.offer import CLAIM_SERVED, Offer
from device_plugin.dra.devices import Node
from device_plugin.dra.publisher import Publisher
from device_plugin.dra.slices import OfferedGpu, resource_slices
from device_plugin.inventory.model import Gpu, Inventory
from device_plugin.inventory.numa import numa_nodes
from device_plugin.kube.gpu_object import GpuObject
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import PlacedInstance
from gpu_operator.api.v1alpha1.gpupool import Allocation
from mig import geometry, planner
from mig.errors import MigError


class ClaimOffer(Protocol):
    """The calls with which the reconcile loop offers GPUs to ResourceClaims."""

    def offer(
        self, objects: Sequence[GpuObject], desired: Desired, inventory: Inventory
    ) -> None: ...
    def claim_resources(self) -> dict[str, Offer]: ...
    def problems(self) -> Refusals: ...


class NoClaims:
    """Stands in for ``PublishedOffer`` on a node that offers no GPUs to ResourceClaims."""

    def claim_resources(self) -> dict[str, Offer]:
        return {}

    def problems(self) -> Refusals:
        return {}

    def offer(self, objects: Sequence[GpuObject], desired: Desired, inventory: Inventory) -> None:
        del objects, desired, inventory


class PublishedOffer:
    """Publishes the node's ResourceSlices; only the reconcile thread calls ``offer``."""

    def __init__(self, settings: Settings, publisher: Publisher, notices: Notices) -> None:
        self._settings = settings
        self._publisher = publisher
        self._notices = notices
        self._reported = ""
        self._said: object = None
        self._objects: list[GpuObject] = []
        self._boards: set[geometry.Board] = set()
        self._node = Node(
            settings.node_name,
            node_facts.driver_version(),
            node_facts.cuda_version(),
            numa_nodes(),
        )

    def claim_resources(self) -> dict[str, Offer]:
        """Return an empty offer for each extended resource that pods get through ResourceClaims.

        The device plugin keeps these resources registered, without devices.
        """
        if not self._settings.dra_extended:
            return {}
        prefix = self._settings.resource_prefix
        profiles = (one for board in self._boards for one in (*board.profiles, board.whole))
        return {f"{prefix}/{profile.resource_name}": CLAIM_SERVED for profile in profiles}

    def offer(self, objects: Sequence[GpuObject], desired: Desired, inventory: Inventory) -> None:
        """Publish the free resources of the node's GPUs as ResourceSlices.

        Without GPU objects no ResourceSlice is published.
        """
        gpus = [
            OfferedGpu(
                gpu,
                unavailable_instances(gpu, desired.instances(gpu) or ()),
                desired.gpus[gpu.uuid].allow_multiple_allocations,
            )
            for gpu in inventory.gpus
            if gpu.uuid in desired.gpus and desired.gpus[gpu.uuid].allocation.by_claims
        ]
        self._boards = {one.gpu.board for one in gpus}
        uid = next((one.node_uid for one in objects if one.node_uid), "")
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node.name, "uid": uid}
        owners = [{**owner, "controller": True}] if uid else []
        said = [_matters(one) for one in gpus], uid
        if said != self._said:  # describing 200 devices takes longer than the rest of a pass
            self._publisher.offer(resource_slices(self._node, gpus), owners)
            self._said = said
        offered = {one.gpu.uuid for one in gpus}
        self._objects = [one for one in objects if one.uuid in offered]
        self._notify()

    def problems(self) -> Refusals:
        """Return why GPUs that are reserved for claims cannot be allocated, by GPU name.

        GPUs with layouts are omitted, because they can be allocated without claims.
        """
        problem = (Reason.AGENT_ERROR, self._message())
        alone = (o for o in self._objects if o.spec and o.spec.allocation is Allocation.DRA)
        return {one.name: problem for one in alone} if self._publisher.problem else {}

    def _notify(self) -> None:
        """Post an event on each GPU if the slices cannot be written."""
        problem = self._publisher.problem
        if problem and problem != self._reported:
            for one in self._objects:
                event = Reason.AGENT_ERROR, self._message()
                self._notices.post_gpu(one.name, one.object_uid, *event, warning=True)
        self._reported = problem

    def _message(self) -> str:
        problem = self._publisher.problem
        return f"cannot bring the ResourceSlices of node {self._node.name} up to date: {problem}"


def _matters(offered: OfferedGpu) -> object:
    """Return everything about a GPU that affects its ResourceSlices, to compare it.

    The GPU's slices matter only if their health differs from the GPU's: a claim's slice comes
    and goes with its pods, but its device is published either way.
    """
    gpu = offered.gpu
    there = [(s.instance, s.health) for s in gpu.slices if s.health != gpu.health]
    identity = gpu.uuid, gpu.index, gpu.board.key, gpu.health
    return *identity, there, offered.taken, offered.shared


def unavailable_instances(
    gpu: Gpu, wanted: Sequence[PlacedInstance]
) -> tuple[geometry.Instance, ...]:
    """Return the instances of a GPU that claims cannot get.

    These are the existing instances that no claim has, and the planned instances (``wanted``)
    that can still be created. If the board cannot have the planned instances, for example while
    a pool changes its board, the agent creates none of them. The result then omits all planned
    instances.
    """
    there = [s.instance for s in gpu.slices]
    result = [s.instance for s in gpu.unclaimed]
    try:
        instances = [gpu.board.instance(*one.place) for one in wanted]
        planner.check(gpu.board, instances)
    except MigError:
        return tuple(result)
    for instance in instances:
        if instance not in there and not planner.violations(gpu.board, [*there, instance]):
            there.append(instance)
            result.append(instance)
    return tuple(result)
