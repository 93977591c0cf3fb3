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
        profiles = (profile for board in self._boards for profile in (*board.profiles, board.whole))
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
        self._boards = {offered_gpu.gpu.board for offered_gpu in gpus}
        uid = next((gpu_object.node_uid for gpu_object in objects if gpu_object.node_uid), "")
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node.name, "uid": uid}
        owners = [{**owner, "controller": True}] if uid else []
        publication_key = [_matters(offered_gpu) for offered_gpu in gpus], uid
        # Describing 200 devices takes longer than the rest of a pass.
        if publication_key != self._said:
            self._publisher.offer(resource_slices(self._node, gpus), owners)
            self._said = publication_key
        offered = {offered_gpu.gpu.uuid for offered_gpu in gpus}
        self._objects = [gpu_object for gpu_object in objects if gpu_object.uuid in offered]
        self._notify()

    def problems(self) -> Refusals:
        """Return why GPUs that are reserved for claims cannot be allocated, by GPU name.

        GPUs with layouts are omitted, because they can be allocated without claims.
        """
        problem = (Reason.AGENT_ERROR, self._message())
        dra_objects = (o for o in self._objects if o.spec and o.spec.allocation is Allocation.DRA)
        return (
            {gpu_object.name: problem for gpu_object in dra_objects}
            if self._publisher.problem
            else {}
        )

    def _notify(self) -> None:
        """Post an event on each GPU if the slices cannot be written."""
        problem = self._publisher.problem
        if problem and problem != self._reported:
            for gpu_object in self._objects:
                self._notices.post_gpu(
                    gpu_object.name,
                    gpu_object.object_uid,
                    Reason.AGENT_ERROR,
                    self._message(),
                    warning=True,
                )
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
    differing_slices = [(s.instance, s.health) for s in gpu.slices if s.health != gpu.health]
    return (
        gpu.uuid,
        gpu.index,
        gpu.board.key,
        gpu.health,
        differing_slices,
        offered.taken,
        offered.shared,
    )


def unavailable_instances(
    gpu: Gpu, planned_instances: Sequence[PlacedInstance]
) -> tuple[geometry.Instance, ...]:
    """Return the instances of a GPU that claims cannot get.

    These are the existing instances that no claim has, and those of ``planned_instances`` that
    can still be created. If the board cannot have the planned instances, for example while a pool
    changes its board, the agent creates none of them. The result then omits all planned instances.
    """
    existing_instances = [s.instance for s in gpu.slices]
    unavailable = [s.instance for s in gpu.unclaimed]
    try:
        instances = [
            gpu.board.instance(*placed_instance.place) for placed_instance in planned_instances
        ]
        planner.check(gpu.board, instances)
    except MigError:
        return tuple(unavailable)
    for instance in instances:
        if instance not in existing_instances and not planner.violations(
            gpu.board, [*existing_instances, instance]
        ):
            existing_instances.append(instance)
            unavailable.append(instance)
    return tuple(unavailable)
