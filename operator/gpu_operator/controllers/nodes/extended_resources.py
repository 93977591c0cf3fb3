"""A node's extended resources: two places where the kubelet's figures are late, or never come.

The kubelet brings a change of the node agent's lists to the node's status within ten seconds. Until
then the scheduler sends pods to slices that are no longer offered, and each of them fails with
UnexpectedAdmissionError; a ReplicaSet makes ten a second. So what is withdrawn leaves
``allocatable`` here at once, and so does everything while a kubelet or a node agent restarts. It is
never raised: only the kubelet knows when it can admit. Functions of HCAs have no status of their
own: they are lowered while the node has no agent's pod that stays, or no GPU object.

A resource that no slice is offered as any more stays in the status as 0. It is removed here when
nothing on the node could offer it, and its capacity has been 0 for so long that the kubelet
has forgotten it: it puts back what it still remembers, which is for five minutes after the node
agent stopped serving it. A kubelet that was restarted counts these five minutes from its start, and
nothing tells when that was. So a removal that did not hold is tried again every minute: waiting for
as long as the first time could cost six minutes more than are needed. Nor does an operator that has
just started know since when a resource is 0: it, too, tries every minute.

With a prefix that others use too (nvidia.com), only nodes with GPUs of ours are touched. By which
such prefixes a node has offered slices is noted on it, so that their resources are removed also
when another prefix is in force by now, or the node has left its pool.
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
    """Lower and remove what is due; ``clock_s`` is on the scale of ``world.zero_since``."""
    node = world.nodes.get(name)
    if node is None:
        return Outcome()
    actions: list[Action] = list(_note(world, node))
    lowered = _lagging(world, node)
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
        later.append(RETIRE_AGAIN_S)  # it may be put back so soon that no watch shows the gap
    return Outcome(tuple(actions), min(later, default=None))


def _note(world: World, node: Node) -> Iterator[Action]:
    """Note the prefixes by which the node offers slices, and forget those it lists nothing of."""
    noted = node.noted_prefixes
    slices = [s.resource for gpu in _on(world, node) for s in gpu.status.slices]
    offered = {resource.partition("/")[0] for resource in slices if resource} - {GROUP}
    listed = {p for p in noted if any(offers.is_ours(r, p) for r in node.capacity)}
    if offered | listed:
        if noted != offered | listed:
            document = node_render.with_prefixes(node.name, node.uid, offered | listed)
            yield Apply(Manager.RESOURCES, document)
    elif RESOURCE_PREFIXES in node.annotations:
        note = {RESOURCE_PREFIXES: node.annotations[RESOURCE_PREFIXES]}
        yield PatchNode(node.name, node_render.without(node.uid, "annotations", note))


def is_withdrawn(world: World, node: Node, resource: str) -> bool:
    """Return whether the scheduler knows how few slices of this resource the node still offers."""
    return offers.allocatable(node, resource) <= offers.active(world, node).get(resource, 0)


def _on(world: World, node: Node) -> Sequence[Gpu]:
    return world.gpus_by_node().get(node.name, ())


def _lagging(world: World, node: Node) -> dict[str, int]:
    """Return to what the node's resources are to be lowered."""
    gpus = _on(world, node)
    lowered = {}
    if offers.allocatable(node, HCA_RESOURCE) and not (gpus and node.name in world.agents):
        lowered[HCA_RESOURCE] = 0
    if not gpus or not all(gpu.status.conditions for gpu in gpus):
        return lowered  # an agent that has not reported may still offer anything
    admitted = offers.admitted(world, node)
    ours = (r for r in node.allocatable if _is_lowered_here(world, node, gpus, r))
    return lowered | {
        r: admitted.get(r, 0) for r in ours if offers.allocatable(node, r) > admitted.get(r, 0)
    }


def _is_lowered_here(world: World, node: Node, gpus: Sequence[Gpu], resource: str) -> bool:
    """Return whether the node's agent offers a resource, by the prefix in force or an earlier one.

    An agent of an earlier prefix is replaced, and ends when all that it offers is lowered. Once
    another agent is there, names with an earlier prefix may be another vendor's. Sharing may give a
    resource any name, so what the agent reports counts as well, with our prefixes.
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
    if any(gpu.spec.allocation.by_claims for gpu in _on(world, node)):
        return set()  # names that claims serve stay registered, and a 0 keeps nobody from them
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
    return zero - _offered(world, node)


def _offered(world: World, node: Node) -> set[str]:
    """Return what the node's pool asks for: resources of slices that are or are to be, and HCAs."""
    pool = world.pools.get(node.labels.get(POOL_LABEL, ""))
    offered = {HCA_RESOURCE} if pool is not None and pool.spec.hcas is not None else set[str]()
    for gpu in _on(world, node):
        offered |= {s.resource for s in gpu.status.slices}
        for instance in gpu.spec.instances:
            try:
                profile = geometry.board(gpu.spec.board).device_profile(instance.profile)
            except MigError:
                continue
            if resource := gpu.spec.offered_as(profile):
                offered.add(f"{world.policy.resource_prefix}/{resource}")
    return offered
