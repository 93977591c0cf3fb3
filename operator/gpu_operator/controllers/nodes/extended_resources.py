"""A node's extended resources, which the kubelet updates late, or never removes.

The kubelet copies a change of the node agent's lists to the node's status within ten seconds. Until
then the scheduler sends pods to slices that are no longer offered, and each of them fails with
UnexpectedAdmissionError; a ReplicaSet creates ten per second. So the operator at once lowers
``allocatable`` for withdrawn slices, and for all slices while the kubelet or the node agent
restarts. The operator never raises ``allocatable``: only the kubelet knows when it can admit pods.
Functions of HCAs have no status of their own: ``allocatable`` is lowered for them while the node
has no permanent agent pod, or no GPU object.

A resource that is no longer offered stays in the status as 0. The operator removes it when
nothing on the node can offer it and its capacity has been 0 for RETIRE_AFTER_S: the kubelet
restores a resource that it still remembers. It remembers a resource for five minutes after the
node agent has stopped serving it, or, if the kubelet restarts meanwhile, for five minutes after
its start, whose time is unknown. So a removal that was undone is repeated every minute: waiting
for the first period again could take six minutes longer than necessary. An operator that has
just started does not know how long a resource has been 0, so it tries every minute, too.

With a prefix that other vendors use (nvidia.com), only nodes with simulated GPUs are changed.
The operator records on the node the other vendors' prefixes with which it has offered slices, so
that their resources are removed even after the prefix has changed or the node has left its pool.
"""

from collections.abc import Iterator, Sequence

from gpu_operator.api.v1alpha1 import GROUP, HCA_RESOURCE, POOL_LABEL, RESOURCE_PREFIXES
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.common.world import Node, Outcome, World
from gpu_operator.kube.actions import Action, Apply, Manager, PatchNode
from gpu_operator.render import node as node_render
from mig import geometry
from mig.errors import MigError

KUBELET_REMEMBERS_S = 300.0  # endpointStopGracePeriod of its device manager
RETIRE_AFTER_S = KUBELET_REMEMBERS_S + 45  # the agent stops serving after 30 s
RETIRE_AGAIN_S = 60.0


def reconcile(world: World, name: str, clock_s: float) -> Outcome:
    """Lower the node's allocatable counts that are too high, and remove resources that have
    expired.

    ``clock_s`` is the current time on the scale of ``world.zero_since``.
    """
    node = world.nodes.get(name)
    if node is None:
        return Outcome()
    actions: list[Action] = list(_note_prefixes(world, node))
    lowered = _find_lagging(world, node)
    if lowered:
        actions.append(
            PatchNode(name, node_render.with_allocatable(node.allocatable, lowered), status=True)
        )
    due: list[str] = []
    later: list[float] = []
    for resource in sorted(_candidates(world, node)):
        key = (name, resource)
        wait_s = RETIRE_AGAIN_S if key in world.put_back else RETIRE_AFTER_S
        left_s = world.zero_since.get(key, clock_s) + wait_s - clock_s
        if left_s <= 0:
            due.append(resource)
        else:
            later.append(left_s + 0.1)
    if due:
        actions.append(PatchNode(name, node_render.without_resources(due), status=True))
        # the kubelet may restore it so soon that no watch shows the gap
        later.append(RETIRE_AGAIN_S)
    return Outcome(tuple(actions), min(later, default=None))


def _note_prefixes(world: World, node: Node) -> Iterator[Action]:
    """Yield the write that records the prefixes with which the node offers slices.

    Prefixes without listed resources are dropped from the record.
    """
    noted = node.noted_prefixes
    slices = [s.resource for gpu in _gpus_on(world, node) for s in gpu.status.slices]
    offered = {resource.partition("/")[0] for resource in slices if resource} - {GROUP}
    listed = {p for p in noted if any(offers.is_ours(r, p) for r in node.capacity)}
    if offered | listed:
        if noted != offered | listed:
            document = node_render.with_prefixes(node.name, node.uid, offered | listed)
            yield Apply(Manager.RESOURCES, document)
    elif RESOURCE_PREFIXES in node.annotations:
        note = {RESOURCE_PREFIXES: node.annotations[RESOURCE_PREFIXES]}
        yield PatchNode(node.name, node_render.removal_patch(node.uid, "annotations", note))


def is_withdrawn(world: World, node: Node, resource: str) -> bool:
    """Return whether the node's status lists at most as many slices as the node's agent offers.

    Only slices of ``resource`` are counted.
    """
    return offers.allocatable_count(node, resource) <= offers.count_active(world, node).get(
        resource, 0
    )


def _gpus_on(world: World, node: Node) -> Sequence[Gpu]:
    return world.gpus_by_node().get(node.name, ())


def _find_lagging(world: World, node: Node) -> dict[str, int]:
    """Return the new values of ``allocatable`` for the resources for which it must be lowered."""
    gpus = _gpus_on(world, node)
    lowered = {}
    if offers.allocatable_count(node, HCA_RESOURCE) and not (gpus and node.name in world.agents):
        lowered[HCA_RESOURCE] = 0
    if not gpus or not all(gpu.status.conditions for gpu in gpus):
        return lowered  # an agent that has not reported may still offer anything
    admitted = offers.count_admitted(world, node)
    ours = (r for r in node.allocatable if _is_lowered_here(world, node, gpus, r))
    return lowered | {
        r: admitted.get(r, 0)
        for r in ours
        if offers.allocatable_count(node, r) > admitted.get(r, 0)
    }


def _is_lowered_here(world: World, node: Node, gpus: Sequence[Gpu], resource: str) -> bool:
    """Return whether the node's agent offers a resource, with the current prefix or an earlier one.

    An agent with an earlier prefix is replaced, and ends when all that it offers is lowered.
    Once its successor runs, names with the earlier prefix may be another vendor's. Sharing may
    give a resource any name, so resources that the agent reports count as well, if they have a
    prefix of Tessera.
    """
    prefix = world.policy.resource_prefix
    if offers.is_ours(resource, prefix):
        return True
    if not any(s.resource == resource for gpu in gpus for s in gpu.status.slices):
        return False
    domain, slash, _ = resource.partition("/")
    if bool(slash) and domain in (GROUP, prefix):
        return True
    ends = node.name not in world.agents
    return ends and any(offers.is_ours(resource, noted) for noted in node.noted_prefixes)


def _candidates(world: World, node: Node) -> set[str]:
    if any(gpu.spec.allocation.by_claims for gpu in _gpus_on(world, node)):
        # resources that claims serve stay registered, and a 0 excludes no pod from them
        return set()
    prefixes = {GROUP, *node.noted_prefixes}
    if POOL_LABEL in node.labels:
        prefixes.add(world.policy.resource_prefix)
    zero = {
        resource
        for resource, count in node.capacity.items()
        if (resource == HCA_RESOURCE or any(offers.is_ours(resource, p) for p in prefixes))
        and count == "0"
        and resource in node.allocatable
    }
    return zero - _find_offered(world, node)


def _find_offered(world: World, node: Node) -> set[str]:
    """Return the resources that the node's pool needs.

    These are the resources of current and planned slices, and of HCAs.
    """
    pool = world.pools.get(node.labels.get(POOL_LABEL, ""))
    offered = {HCA_RESOURCE} if pool is not None and pool.spec.hcas is not None else set[str]()
    for gpu in _gpus_on(world, node):
        offered |= {s.resource for s in gpu.status.slices}
        for instance in gpu.spec.instances:
            try:
                profile = geometry.board(gpu.spec.board).device_profile(instance.profile)
            except MigError:
                continue
            if resource := gpu.spec.resource_of(profile):
                offered.add(f"{world.policy.resource_prefix}/{resource}")
    return offered
