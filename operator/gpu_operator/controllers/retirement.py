"""Resources that no slice is offered as any more leave the node's status; the kubelet keeps them.

A resource is removed only when nothing on the node could offer it, and its capacity has been 0 for
so long that the kubelet has forgotten it: it puts back what it still remembers, which is for five
minutes after the node agent stopped serving it.
"""

from gpu_operator.controllers.world import Node, Outcome, World
from gpu_operator.kube.actions import PatchNodeStatus
from gpu_operator.render import node as node_render
from mig import geometry
from mig.errors import MigError

AFTER_S = 345.0  # the agent stops serving after 30 s, the kubelet forgets 300 s later; and a margin


def reconcile(world: World, name: str, clock_s: float) -> Outcome:
    """Remove what is due; ``clock_s`` is on the scale of ``world.zero_since``."""
    node = world.nodes.get(name)
    if node is None:
        return Outcome()
    due: list[str] = []
    later: list[float] = []
    for resource in sorted(_candidates(world, node)):
        left_s = world.zero_since.get((name, resource), clock_s) + AFTER_S - clock_s
        if left_s <= 0:
            due.append(resource)
        else:
            later.append(left_s + 0.1)
    actions = (PatchNodeStatus(name, node_render.without_resources(due)),) if due else ()
    return Outcome(actions, min(later, default=None))


def _candidates(world: World, node: Node) -> set[str]:
    prefix = f"{world.policy.resource_prefix}/mig-"
    zero = {
        resource
        for resource, count in node.capacity.items()
        if resource.startswith(prefix) and count == "0" and resource in node.allocatable
    }
    return zero - _offered(world, node)


def _offered(world: World, node: Node) -> set[str]:
    """Return resources that a GPU of the node has a slice of, or shall have."""
    prefix = world.policy.resource_prefix
    offered: set[str] = set()
    for gpu in world.gpus.values():
        if gpu.spec.node_name != node.name:
            continue
        offered |= {s.resource for s in gpu.status.slices}
        for instance in gpu.spec.instances:
            try:
                profile = geometry.board(gpu.spec.board).profile(instance.profile)
            except MigError:
                continue
            offered.add(f"{prefix}/{profile.resource_name}")
    return offered
