"""Offers to ResourceClaims what layouts leave of the node's GPUs.

What exists and was not made for a claim is taken; so is what a layout is about to have made, as far
as no claim is in its way. Claims' own slices stay in the offer: the scheduler counts them.
"""

from collections.abc import Sequence
from typing import Protocol

from device_plugin.agent.desired import Desired
from device_plugin.agent.reporting import node_facts
from device_plugin.agent.reporting.notices import Notices
from device_plugin.agent.reporting.reporter import Refusals
from device_plugin.config import Settings
from device_plugin.dp.offer import KEPT, Offer
from device_plugin.dra.devices import Node
from device_plugin.dra.publisher import Publisher
from device_plugin.dra.slices import Offered, resource_slices
from device_plugin.inventory.model import Gpu, Inventory
from device_plugin.inventory.numa import numa_nodes
from device_plugin.kube.gpu_object import GpuObject
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import PlacedInstance
from gpu_operator.api.v1alpha1.gpupool import Allocation
from mig import geometry, planner
from mig.errors import MigError


class ClaimOffer(Protocol):
    """What the reconcile loop asks."""

    def offer(
        self, objects: Sequence[GpuObject], desired: Desired, inventory: Inventory
    ) -> None: ...
    def kept(self) -> dict[str, Offer]: ...
    def problems(self) -> Refusals: ...


class NoClaims:
    """Where the device plugin gives all GPUs to pods."""

    def kept(self) -> dict[str, Offer]:
        return {}

    def problems(self) -> Refusals:
        return {}

    def offer(self, objects: Sequence[GpuObject], desired: Desired, inventory: Inventory) -> None:
        del objects, desired, inventory


class PublishedOffer:
    """Publishes the node's ResourceSlices; ``offer`` belongs to the reconcile thread."""

    def __init__(self, settings: Settings, publisher: Publisher, notices: Notices) -> None:
        self._settings = settings
        self._publisher = publisher
        self._notices = notices
        self._told = ""
        self._said: object = None
        self._objects: list[GpuObject] = []
        self._boards: set[geometry.Board] = set()
        self._node = Node(
            settings.node_name,
            node_facts.driver_version(),
            node_facts.cuda_version(),
            numa_nodes(),
        )

    def kept(self) -> dict[str, Offer]:
        """Return the extended resources that claims serve: the plugin offers none of them, and
        does not unregister them.
        """
        if not self._settings.dra_extended:
            return {}
        prefix = self._settings.resource_prefix
        profiles = (one for board in self._boards for one in (*board.profiles, board.whole))
        return {f"{prefix}/{profile.resource_name}": KEPT for profile in profiles}

    def offer(self, objects: Sequence[GpuObject], desired: Desired, inventory: Inventory) -> None:
        """Have the slices say what there is room for; without objects there are none."""
        gpus = [
            Offered(
                gpu,
                taken(gpu, desired.instances(gpu) or ()),
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
        if said != self._said:  # to describe 200 devices takes longer than the rest of a pass
            self._publisher.offer(resource_slices(self._node, gpus), owners)
            self._said = said
        offered = {one.gpu.uuid for one in gpus}
        self._objects = [one for one in objects if one.uuid in offered]
        self._tell()

    def problems(self) -> Refusals:
        """Return why nobody can have the GPUs that are for claims alone, by the GPUs' names.

        Layouts on other GPUs are not judged by what claims lack.
        """
        told = (Reason.AGENT_ERROR, self._message())
        alone = (o for o in self._objects if o.spec and o.spec.allocation is Allocation.DRA)
        return {one.name: told for one in alone} if self._publisher.problem else {}

    def _tell(self) -> None:
        """Put an event on each GPU when the slices cannot be written."""
        problem = self._publisher.problem
        if problem and problem != self._told:
            for one in self._objects:
                told = Reason.AGENT_ERROR, self._message()
                self._notices.post_gpu(one.name, one.object_uid, *told, warning=True)
        self._told = problem

    def _message(self) -> str:
        problem = self._publisher.problem
        return f"ResourceSlices of node {self._node.name} are not as they should be: {problem}"


def _matters(offered: Offered) -> object:
    """Return all of a GPU that its ResourceSlices say something of.

    Of its slices those whose health is another than its own: a claim's comes and goes while pods
    start and end, and is published either way.
    """
    gpu = offered.gpu
    there = [(s.instance, s.health) for s in gpu.slices if s.health != gpu.health]
    identity = gpu.uuid, gpu.index, gpu.board.key, gpu.health
    return *identity, there, offered.taken, offered.shared


def taken(gpu: Gpu, wanted: Sequence[PlacedInstance]) -> tuple[geometry.Instance, ...]:
    """Return what claims cannot have of a GPU: what is there without one, and what will be.

    Of instances that its board cannot have, as those of another board are while a pool changes its
    own, none is made (``steps``).
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
