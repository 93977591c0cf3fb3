"""Reconciles a GPUPool: its nodes get labels, DaemonSets and a GPU object for each device.

Nodes that leave the pool lose them in reverse order.
"""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from facts.wording import list_first
from gpu_operator.api.v1alpha1 import API_VERSION, FINALIZER, GROUP
from gpu_operator.api.v1alpha1.base import ConditionType, Reason
from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec, GPUPoolStatus
from gpu_operator.api.v1alpha1.resource import Gpu, Meta, Pool
from gpu_operator.config import NodeConfig
from gpu_operator.controllers.common import membership, offers
from gpu_operator.controllers.common.conditions import (
    Verdict,
    Verdicts,
    refusal_verdicts,
    report,
    verdicts,
    with_write_refusal,
)
from gpu_operator.controllers.common.world import Node, Outcome, World
from gpu_operator.controllers.nodes import readiness
from gpu_operator.controllers.pools import (
    clocks,
    daemon_sets,
    fragmentation,
    pool_book,
    pool_nodes,
    rollouts,
)
from gpu_operator.controllers.pools.pool_book import Part, PoolBook
from gpu_operator.controllers.pools.pool_nodes import FAILURES
from gpu_operator.controllers.pools.release import release
from gpu_operator.kube.actions import Action, Apply, DropFinalizer, Manager, PatchNode
from gpu_operator.render import node as node_render
from mig import geometry

_MAX_NAMED = 5  # nodes that a message names; for the others it states their number


@dataclass(slots=True)
class Decision:
    """The state of one pass over a pool, or over the remains of a deleted pool.

    Each step of the pass adds actions.
    """

    world: World
    name: str
    pool: Pool | None
    node_config: NodeConfig
    namespace: str
    now: datetime.datetime
    book: PoolBook
    leaving: Sequence[Gpu]
    updated: int
    """The number of nodes whose agent has the current rendering."""
    rollout: str = ""
    """What the rollout of the DaemonSets waits for; empty if no rollout is running."""
    problems: Mapping[str, Verdict] = field(default_factory=dict)
    """The reason why a node is not ready, for each such node."""
    actions: list[Action] = field(default_factory=list)

    @property
    def in_use(self) -> bool:
        """Return whether the pool has nodes or GPU objects.

        The labels of nodes that have left the pool do not count.
        """
        return bool(self.book.nodes or self.book.gpus)


def reconcile(
    world: World,
    name: str,
    node_config: NodeConfig,
    namespace: str,
    current_time: datetime.datetime,
    book: PoolBook | None = None,
) -> Outcome:
    """Reconcile one pool, or release what is left of a deleted pool.

    Each function in ``STEPS`` adds its actions to the result.
    """
    book = pool_book.make_book(world, name) if book is None else book
    leaving = sorted(
        (world.gpus[n] for n in book.leaving), key=lambda g: (g.spec.node_name, g.spec.index)
    )
    pool, nodes = world.pools.get(name), len(book.nodes)
    decision = Decision(
        world, name, pool, node_config, namespace, current_time, book, leaving, nodes
    )
    for step in STEPS:
        step(decision)
    return Outcome(tuple(decision.actions))


def add_finalizer(decision: Decision) -> None:
    """Add the finalizer, which keeps the pool until its nodes and GPUs are released."""
    pool = decision.pool
    if pool is not None and not pool.meta.deleting and FINALIZER not in pool.meta.finalizers:
        decision.actions.append(_finalizer(pool.meta))


def release_gpus(decision: Decision) -> None:
    """Release the GPUs that no longer belong to the pool."""
    for gpu in decision.leaving:
        decision.actions += release(gpu, node_gone=membership.node_is_gone(gpu, decision.world))


def write_pods(decision: Decision) -> None:
    """Write the pool's DaemonSets.

    They are written before the GPU objects, so that the DaemonSets' pods start while the GPU
    objects are being written.
    """
    if decision.pool is not None and decision.in_use:
        documents = daemon_sets.make_documents(
            decision.world, decision.pool, decision.node_config, decision.namespace
        )
        _look_at_nodes(
            decision.world,
            decision.pool,
            decision.book,
            documents,
            decision.node_config,
            decision.now,
        )
        decision.updated, _ = rollouts.progress(decision.world, documents.agent)
        pods, decision.rollout = daemon_sets.write(
            decision.world, documents, decision.namespace, decision.book
        )
        decision.actions += pods


def write_gpus(decision: Decision) -> None:
    """Write the labels and GPU objects of the nodes that changed."""
    if decision.pool is not None and decision.in_use:
        parts = decision.book.parts
        decision.actions += [action for name in sorted(parts) for action in parts[name].populate]


def unlabel_nodes(decision: Decision) -> None:
    """Remove the labels of each node that has left the pool, once its GPUs in the pool are gone."""
    decision.actions += _unlabel(decision.world, decision.book, decision.world.gpus_by_node())


def withdraw_pods(decision: Decision) -> None:
    """Delete the DaemonSets of a pool without nodes."""
    if decision.pool is None or not decision.in_use:
        decision.actions += daemon_sets.withdraw(decision.world, decision.name, decision.namespace)


def write_readiness(decision: Decision) -> None:
    """Write each node's readiness.

    After a change of the resource prefix, a node is ready only when its status lists the new
    prefix.
    """
    if decision.pool is None:
        return
    world, book, pool = decision.world, decision.book, decision.pool
    decision.problems = {n: book.problems[n] for n in sorted(book.problems)}
    prefix, taints = _prefix(world), decision.node_config.taints
    if decision.problems or decision.rollout or pool.status.resource_prefix == prefix:
        decision.actions += [a for n in sorted(book.parts) for a in book.parts[n].readiness]
        return
    members = [world.nodes[n] for n in sorted(book.nodes)]
    decision.problems = _find_late_nodes(world, members, world.gpus_by_node())
    for node in members:
        problem = decision.problems.get(node.name)
        decision.actions += readiness.write(node, pool, problem, prefix, taints, decision.now)


def write_status(decision: Decision) -> None:
    """Write the pool's status and conditions."""
    if decision.pool is None:
        return
    world, book, pool = decision.world, decision.book, decision.pool
    nodes = len(book.nodes)
    served = nodes and not decision.problems and not decision.rollout
    status = GPUPoolStatus(
        nodes=nodes,
        ready_nodes=min(decision.updated, nodes - len(decision.problems)),
        gpus=len(book.gpus),
        resource_prefix=_prefix(world) if served else pool.status.resource_prefix,
        conflicts=tuple(sorted(book.conflicts)),
    )
    new_verdicts = _verdicts(
        world, pool, nodes, decision.leaving, status, decision.problems, decision.rollout
    )
    new_verdicts = _with_idle_fields(new_verdicts, pool.spec, decision.node_config)
    new_verdicts = with_write_refusal(
        new_verdicts, world.refused_writes.get(("GPUPool", decision.name), "")
    )
    if (scattered := fragmentation.fragmentation_verdict(book.room.rooms)) is not None:
        new_verdicts = {**new_verdicts, ConditionType.FRAGMENTED: scattered}
    if (clock := clocks.clock_verdict(pool, len(book.modelled), len(book.gpus))) is not None:
        new_verdicts = {**new_verdicts, ConditionType.MODELLED_CLOCK: clock}
    decision.actions += report(pool.meta, pool.status, status, new_verdicts, decision.now)


def drop_finalizer(decision: Decision) -> None:
    """Remove the finalizer of a deleted pool once nothing is left of it."""
    pool = decision.pool
    if pool is None or not pool.meta.deleting or FINALIZER not in pool.meta.finalizers:
        return
    sets = {of(decision.name) for of in daemon_sets.NAMES}
    if not decision.in_use and sets.isdisjoint(decision.world.daemon_sets):
        index = pool.meta.finalizers.index(FINALIZER)
        decision.actions.append(DropFinalizer("GPUPool", decision.name, pool.meta.uid, index))


# The order of the actions. The API server may refuse creations, which must not delay releases;
# nodes and status come after the objects that they describe.
STEPS: tuple[Callable[[Decision], None], ...] = (
    add_finalizer,
    release_gpus,
    write_pods,
    write_gpus,
    unlabel_nodes,
    withdraw_pods,
    write_readiness,
    write_status,
    drop_finalizer,
)


def _look_at_nodes(
    world: World,
    pool: Pool,
    book: PoolBook,
    documents: daemon_sets.Documents,
    node_config: NodeConfig,
    current_time: datetime.datetime,
) -> None:
    """Update the book for changed nodes, or for all nodes if the rules have changed."""
    # The running agents are not outdated until their DaemonSet is changed.
    in_force = None if documents.agents_change(world) else documents.agent
    dra, taints = node_config.dra.enabled, node_config.taints
    rules = (
        pool.meta.uid,
        pool.spec,
        world.policy,
        documents.digests,
        in_force is None,
        taints,
        dra,
    )
    book.invalidate_if_rules_changed(repr(rules))
    by_node, prefix = world.gpus_by_node(), _prefix(world)
    for name in sorted(book.dirty):
        node, on_node = world.nodes[name], by_node.get(name, ())
        problem = pool_nodes.find_problem(world, pool, in_force, node, on_node)
        part = Part(
            tuple(pool_nodes.populate(world, pool, node, on_node, current_time, dra=dra)),
            tuple(readiness.write(node, pool, problem, prefix, taints, current_time)),
        )
        book.parts.pop(name, None)
        book.problems.pop(name, None)
        if part.populate or part.readiness:
            book.parts[name] = part
        if problem is not None:
            book.problems[name] = problem
        book.late_gpuds.pop(name, None)
        if late := rollouts.explain_late_gpud(world, documents.gpud, node):
            book.late_gpuds[name] = late
    book.dirty.clear()


def _finalizer(meta: Meta) -> Apply:
    document = {
        "apiVersion": API_VERSION,
        "kind": meta.kind,
        "metadata": {"name": meta.name, "uid": meta.uid, "finalizers": [FINALIZER]},
    }
    return Apply(Manager.FINALIZER, document)


def _unlabel(
    world: World, book: PoolBook, by_node: Mapping[str, Sequence[Gpu]]
) -> Iterable[Action]:
    for name in sorted(book.labelled - book.nodes):
        node = world.nodes[name]
        if not any(gpu.name in book.gpus for gpu in by_node.get(name, ())):
            prefixes = {GROUP, _prefix(world), *node.noted_prefixes}
            ours = node_render.own_labels(node.labels, prefixes)
            yield PatchNode(node.name, node_render.removal_patch(node.uid, "labels", ours))
            yield from readiness.withdraw(node)
            # Labels with a prefix that is neither in force nor noted.
            yield Apply(Manager.LABELS, node_render.with_labels(node.name, node.uid, {}))


def _verdicts(
    world: World,
    pool: Pool,
    nodes: int,
    leaving: Sequence[Gpu],
    status: GPUPoolStatus,
    problems: Mapping[str, Verdict],
    rollout: str,
) -> Verdicts:
    if pool.meta.deleting:
        message = _explain_wait(world, leaving) or "its nodes are being released"
        deleting = Verdict(True, Reason.DELETING, message)
        return verdicts(Verdict(False, Reason.DELETING, message), progressing=deleting)
    if pool.spec.board not in geometry.BOARDS:
        known_boards = ", ".join(geometry.BOARDS)
        return refusal_verdicts(
            Reason.UNKNOWN_BOARD, f"unknown board {pool.spec.board!r}; known boards: {known_boards}"
        )
    degraded = next((p for p in problems.values() if p.reason in FAILURES), None)
    progressing = _progressing_verdict(world, problems, leaving, rollout)
    if status.conflicts:
        conflict = Verdict(
            False, Reason.NODE_CONFLICT, _describe_conflicts(world, status.conflicts)
        )
        return verdicts(conflict, accepted=conflict, progressing=progressing, degraded=degraded)
    if not nodes:
        selector_text = ",".join(f"{k}={v}" for k, v in sorted(pool.spec.node_selector.items()))
        none = Verdict(False, Reason.NO_NODES, f"no node has the labels {selector_text}")
        return verdicts(none, progressing=progressing)
    if problems:
        first = degraded or next(iter(problems.values()))
        messages = [f"{node}: {problem.message}" for node, problem in problems.items()]
        ready = Verdict(False, first.reason, list_first(messages, _MAX_NAMED, "; "))
    elif rollout:
        ready = Verdict(False, Reason.WAITING_FOR_AGENT, rollout)
    else:
        served = status.gpus - len(leaving)
        ready = Verdict(True, Reason.RECONCILED, _describe_served(served, nodes))
    return verdicts(ready, progressing=progressing, degraded=degraded)


def _with_idle_fields(
    new_verdicts: Verdicts, spec: GPUPoolSpec, node_config: NodeConfig
) -> Verdicts:
    """Return the conditions, with fields without effect in the message of Accepted."""
    idle = []
    if spec.hcas is not None and not node_config.rdma.enabled:
        idle.append("spec.hcas has no effect: RDMA is off (the chart's rdma.enabled)")
    if spec.allocation.by_claims and not node_config.dra.enabled:
        idle.append("spec.allocation has no effect: DRA is off (the chart's dra.enabled)")
    if not idle or not new_verdicts[ConditionType.ACCEPTED].true:
        return new_verdicts
    partly = Verdict(True, Reason.PARTIALLY_ACCEPTED, "; ".join(idle))
    return {**new_verdicts, ConditionType.ACCEPTED: partly}


def _progressing_verdict(
    world: World, problems: Mapping[str, Verdict], leaving: Sequence[Gpu], rollout: str
) -> Verdict | None:
    for reason in (Reason.WAITING_FOR_AGENT, Reason.WAITING_FOR_KUBELET):
        if any(p.reason is reason for p in problems.values()):
            return Verdict(True, reason, "nodes are being set up")
    if rollout:
        return Verdict(True, Reason.WAITING_FOR_AGENT, rollout)
    if leaving:
        message = _explain_wait(world, leaving) or "GPUs are being removed"
        return Verdict(True, Reason.DELETING, message)
    return None


def _prefix(world: World) -> str:
    return world.policy.resource_prefix


def _find_late_nodes(
    world: World, nodes: Sequence[Node], by_node: Mapping[str, Sequence[Gpu]]
) -> dict[str, Verdict]:
    """Return the nodes that do not offer their slices with the prefix in force yet."""
    late_nodes = {}
    for node in nodes:
        slices = (s for gpu in by_node.get(node.name, ()) for s in gpu.status.slices)
        late = offers.explain_late_offer(world, node, slices)
        if late:
            late_nodes[node.name] = Verdict(True, Reason.WAITING_FOR_KUBELET, late)
    return late_nodes


def _describe_conflicts(world: World, names: Sequence[str]) -> str:
    node_pools = membership.pools_by_node(world)
    messages = [
        f"node {name} belongs to the older pool {node_pools[name]}"
        if name in node_pools
        else f"node {name} has a name longer than 63 characters"
        for name in names
    ]
    return list_first(messages, _MAX_NAMED, "; ")


def _explain_wait(world: World, gpus: Sequence[Gpu]) -> str:
    """Return what the release of GPUs waits for: pods or claims with slices, unavailable agents."""
    messages = []
    pods = sorted(
        {f"{h.namespace}/{h.name}" for g in gpus for s in g.status.slices for h in s.holders}
    )
    if pods:
        messages.append(
            f"waiting for pods that hold slices to end: {list_first(pods, _MAX_NAMED, '; ')}"
        )
    claims = sorted({f"{c.claim.namespace}/{c.claim.name}" for g in gpus for c in g.status.claims})
    if claims:
        messages.append(
            f"waiting for claims to be released: {list_first(claims, _MAX_NAMED, '; ')}"
        )
    for name in sorted({g.spec.node_name for g in gpus if g.status.conditions}):
        node, agent = world.nodes.get(name), world.agents.get(name)
        if node is not None and not node.ready:
            messages.append(
                f"node {name} is not ready, so its slices cannot be removed"
                " (if it is gone for good, delete the Node)"
            )
        elif agent is not None and agent.problem:
            messages.append(f"node agent {agent.name} on {name}: {agent.problem}")
    return list_first(messages, _MAX_NAMED, "; ")


def _describe_served(gpus: int, nodes: int) -> str:
    where = f"on {nodes} node{'' if nodes == 1 else 's'}"
    return f"{gpus} GPU {where} is served" if gpus == 1 else f"{gpus} GPUs {where} are served"
