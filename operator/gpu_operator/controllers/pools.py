"""GPUPool: nodes get labels, a DaemonSet and one GPU object a device, and lose them in reverse."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpu_operator.api.v1alpha1 import API_VERSION, FINALIZER, GROUP, POOL_LABEL
from gpu_operator.api.v1alpha1.base import ConditionType, Reason
from gpu_operator.api.v1alpha1.gpu import GPUSpec
from gpu_operator.api.v1alpha1.gpupool import GPUPoolStatus
from gpu_operator.api.v1alpha1.resource import Gpu, Meta, Pool
from gpu_operator.config import NodeConfig
from gpu_operator.controllers import membership, offers, rollouts
from gpu_operator.controllers.conditions import (
    Verdict,
    Verdicts,
    blocked,
    refused,
    report,
    verdicts,
)
from gpu_operator.controllers.release import release
from gpu_operator.controllers.world import Node, Outcome, World
from gpu_operator.kube.actions import Action, Apply, Delete, DropFinalizer, Manager, PatchNode
from gpu_operator.render import daemonset, gpu as gpu_render, hca, node as node_render
from mig import geometry

_TOLD = 5  # nodes that a message names before it says how many more


def reconcile(
    world: World, name: str, node_config: NodeConfig, namespace: str, now: datetime.datetime
) -> Outcome:
    """Decide about one pool, or about what is left of one that is gone."""
    pool = world.pools.get(name)
    held = membership.claims(world)
    by_node = world.gpus_by_node()
    nodes = [world.nodes[n] for n, holder in sorted(held.items()) if holder == name]
    gpus = sorted(
        (g for g in world.gpus.values() if g.spec.pool == name),
        key=lambda g: (g.spec.node_name, g.spec.index),
    )
    leaving = [g for g in gpus if not membership.belongs(g, world, held)]
    labelled = [n for n in world.nodes.values() if n.labels.get(POOL_LABEL) == name]

    actions: list[Action] = []
    if pool is not None and not pool.meta.deleting and FINALIZER not in pool.meta.finalizers:
        actions.append(_finalizer(pool.meta))
    for (
        gpu
    ) in leaving:  # first: what is created below may be refused, and must not hold up what leaves
        actions += release(gpu, node_gone=membership.node_is_gone(gpu, world))
    if pool is not None:
        for node in nodes:
            actions += _populate(world, pool, node, by_node.get(node.name, ()))
    actions += _unlabel(world, labelled, nodes, gpus)
    in_use = bool(nodes or gpus)  # a label alone holds nothing up
    document: Mapping[str, Any] | None = None
    updated, rollout = len(nodes), ""
    if pool is not None and in_use:
        document = daemonset.daemon_set(name, pool.spec, world.policy, node_config, namespace)
        actions.append(Apply(Manager.CHILDREN, document))
        updated, rollout = rollouts.progress(world, document)
    elif not in_use and daemonset.name_of(name) in world.daemon_sets:
        actions.append(Delete("DaemonSet", daemonset.name_of(name), namespace))
    more, missing = _hcas(world, name, pool if in_use else None, node_config, namespace)
    actions += more
    rollout = rollout or missing

    if pool is not None:
        problems = {
            node.name: problem
            for node in nodes
            if (problem := _node_problem(world, pool, document, node, by_node.get(node.name, ())))
        }
        if not problems and not rollout and pool.status.resource_prefix != _prefix(world):
            problems = _unoffered(world, nodes, by_node)
        served = nodes and not problems and not rollout
        prefix = _prefix(world) if served else pool.status.resource_prefix
        ready_nodes = min(updated, len(nodes) - len(problems))
        status = _status(world, pool, nodes, gpus, ready_nodes, prefix)
        wanted = _verdicts(world, pool, nodes, gpus, leaving, status, problems, rollout)
        if pool.spec.hcas is not None and not node_config.rdma.enabled:
            wanted = _without_hcas(wanted)
        wanted = blocked(wanted, world.refused_writes.get(("GPUPool", name), ""))
        actions += report(pool.meta, pool.status, status, wanted, now)
        sets = {daemonset.name_of(name), hca.name_of(name)}
        finished = not in_use and sets.isdisjoint(world.daemon_sets)
        if pool.meta.deleting and finished and FINALIZER in pool.meta.finalizers:
            index = pool.meta.finalizers.index(FINALIZER)
            actions.append(DropFinalizer("GPUPool", name, pool.meta.uid, index))
    return Outcome(tuple(actions))


def _hcas(
    world: World, name: str, pool: Pool | None, node_config: NodeConfig, namespace: str
) -> tuple[Sequence[Action], str]:
    """Return what makes the DaemonSet of a pool's HCAs be, or go, and what its rollout lacks."""
    if pool is not None and daemonset.hcas_of(pool.spec, node_config) is not None:
        document = hca.daemon_set(name, node_config, namespace)
        return [Apply(Manager.CHILDREN, document)], rollouts.progress(world, document)[1]
    if hca.name_of(name) in world.daemon_sets:
        return [Delete("DaemonSet", hca.name_of(name), namespace)], ""
    return [], ""


def _finalizer(meta: Meta) -> Apply:
    document = {
        "apiVersion": API_VERSION,
        "kind": meta.kind,
        "metadata": {"name": meta.name, "uid": meta.uid, "finalizers": [FINALIZER]},
    }
    return Apply(Manager.FINALIZER, document)


def _populate(world: World, pool: Pool, node: Node, on_node: Sequence[Gpu]) -> Iterable[Action]:
    if any(g.spec.pool != pool.name for g in on_node):
        return  # another pool has not released the node yet
    wanted = node_render.labels(pool.name, pool.spec, world.policy)
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        yield Apply(Manager.LABELS, node_render.labelled(node.name, node.uid, wanted))
    existing = {g.spec.index: g for g in on_node}
    for index in range(pool.spec.count):
        spec = GPUSpec(
            node_name=node.name,
            index=index,
            board=pool.spec.board,
            uuid=gpu_render.uuid_of(node.name, index),
            pool=pool.name,
            node_budget=pool.spec.node_budget,
            isolation=pool.spec.isolation,
        )
        known = existing.get(index)
        if known is None or not _same(known, spec, node):
            yield Apply(Manager.CHILDREN, gpu_render.gpu(spec, node.uid))


def _same(gpu: Gpu, wanted: GPUSpec, node: Node) -> bool:
    if gpu.meta.deleting or gpu.spec.uuid != wanted.uuid:
        return True  # has to go first
    metadata = gpu_render.gpu(wanted, node.uid)["metadata"]
    return (
        gpu.spec.model_copy(update={"instances": (), "layout": None}) == wanted
        and metadata["labels"].items() <= gpu.meta.labels.items()
        and metadata["annotations"].items() <= gpu.meta.annotations.items()
        and FINALIZER in gpu.meta.finalizers
    )


def _unlabel(
    world: World, labelled: Sequence[Node], nodes: Sequence[Node], gpus: Sequence[Gpu]
) -> Iterable[Action]:
    keep = {n.name for n in nodes} | {g.spec.node_name for g in gpus}
    for node in labelled:
        if node.name not in keep:
            prefixes = {GROUP, _prefix(world), *node.noted_prefixes}
            ours = node_render.ours_of(node.labels, prefixes)
            yield PatchNode(node.name, node_render.without(node.uid, "labels", ours))
            # What is ours by a prefix that is neither in force nor noted.
            yield Apply(Manager.LABELS, node_render.labelled(node.name, node.uid, {}))


def _status(
    world: World,
    pool: Pool,
    nodes: Sequence[Node],
    gpus: Sequence[Gpu],
    ready_nodes: int,
    prefix: str,
) -> GPUPoolStatus:
    held = {n.name for n in nodes}
    conflicts = sorted(
        n.name
        for n in world.nodes.values()
        if membership.selects(pool, n) and n.name not in held and not pool.meta.deleting
    )
    return GPUPoolStatus(
        nodes=len(nodes),
        ready_nodes=ready_nodes,
        gpus=len(gpus),
        resource_prefix=prefix,
        conflicts=tuple(conflicts),
    )


def _verdicts(
    world: World,
    pool: Pool,
    nodes: Sequence[Node],
    gpus: Sequence[Gpu],
    leaving: Sequence[Gpu],
    status: GPUPoolStatus,
    problems: Mapping[str, Verdict],
    rollout: str,
) -> Verdicts:
    if pool.meta.deleting:
        message = _waits(world, leaving) or "its nodes are being released"
        deleting = Verdict(True, Reason.DELETING, message)
        return verdicts(Verdict(False, Reason.DELETING, message), progressing=deleting)
    if pool.spec.board not in geometry.BOARDS:
        known = ", ".join(geometry.BOARDS)
        return refused(
            Reason.UNKNOWN_BOARD, f"unknown board {pool.spec.board!r}; known boards: {known}"
        )
    degraded = next((p for p in problems.values() if p.reason in _FAILURES), None)
    progressing = _progress(world, problems, leaving, rollout)
    if status.conflicts:
        conflict = Verdict(False, Reason.NODE_CONFLICT, _conflicts(world, status.conflicts))
        return verdicts(conflict, accepted=conflict, progressing=progressing, degraded=degraded)
    if not nodes:
        wanted = ",".join(f"{k}={v}" for k, v in sorted(pool.spec.node_selector.items()))
        none = Verdict(False, Reason.NO_NODES, f"no node has the labels {wanted}")
        return verdicts(none, progressing=progressing)
    if problems:
        first = degraded or next(iter(problems.values()))
        told = [f"{node}: {problem.message}" for node, problem in problems.items()]
        ready = Verdict(False, first.reason, _several(told))
    elif rollout:
        ready = Verdict(False, Reason.WAITING_FOR_AGENT, rollout)
    else:
        served = len(gpus) - len(leaving)
        ready = Verdict(True, Reason.RECONCILED, f"{served} GPUs on {len(nodes)} nodes are served")
    return verdicts(ready, progressing=progressing, degraded=degraded)


def _without_hcas(wanted: Verdicts) -> Verdicts:
    """Say of a pool that is accepted otherwise that it gets no HCAs."""
    if not wanted[ConditionType.ACCEPTED].true:
        return wanted
    message = "spec.hcas has no effect: RDMA is off here (the chart's rdma.enabled)"
    partly = Verdict(True, Reason.PARTIALLY_ACCEPTED, message)
    return {**wanted, ConditionType.ACCEPTED: partly}


_FAILURES = (Reason.AGENT_ERROR, Reason.UNHEALTHY, Reason.AGENT_UNREACHABLE)


def _progress(
    world: World, problems: Mapping[str, Verdict], leaving: Sequence[Gpu], rollout: str
) -> Verdict | None:
    for reason in (Reason.WAITING_FOR_AGENT, Reason.WAITING_FOR_KUBELET):
        if any(p.reason is reason for p in problems.values()):
            return Verdict(True, reason, "nodes are being set up")
    if rollout:
        return Verdict(True, Reason.WAITING_FOR_AGENT, rollout)
    if leaving:
        message = _waits(world, leaving) or "GPUs are being removed"
        return Verdict(True, Reason.DELETING, message)
    return None


def _prefix(world: World) -> str:
    return world.policy.resource_prefix


def _unoffered(
    world: World, nodes: Sequence[Node], by_node: Mapping[str, Sequence[Gpu]]
) -> dict[str, Verdict]:
    """Return the nodes whose slices the scheduler does not know by the prefix in force."""
    found = {}
    for node in nodes:
        slices = (s for gpu in by_node.get(node.name, ()) for s in gpu.status.slices)
        late = offers.late(world, node, slices)
        if late:
            found[node.name] = Verdict(True, Reason.WAITING_FOR_KUBELET, late)
    return found


def _node_problem(
    world: World,
    pool: Pool,
    document: Mapping[str, Any] | None,
    node: Node,
    on_node: Sequence[Gpu],
) -> Verdict | None:
    """Return why a node of the pool is not ready, as its Degraded or its waiting verdict."""
    agent = world.agents.get(node.name)
    if not node.ready:
        return Verdict(True, Reason.AGENT_UNREACHABLE, f"node {node.name} is not ready")
    of_node = {g.spec.index: g for g in on_node if g.spec.pool == pool.name}
    for index in range(pool.spec.count):
        gpu = of_node.get(index)
        if gpu is None:
            others = {g.spec.pool for g in on_node} - {pool.name}
            message = (
                f"pool {min(others)} has not released the node yet"
                if others
                else f"GPU {index} is not there yet"
            )
            return Verdict(True, Reason.WAITING_FOR_AGENT, message)
        reported = bool(gpu.status.conditions)
        if agent is not None and agent.problem:
            failed = reported and agent.failing
            reason = Reason.AGENT_UNREACHABLE if failed else Reason.WAITING_FOR_AGENT
            return Verdict(True, reason, f"node agent {agent.name}: {agent.problem}")
        if not reported:
            message = "the node agent has not reported yet"
            if agent is None:  # Pod Security, a quota: only its DaemonSet's events say so
                message = f"there is no pod of DaemonSet {daemonset.name_of(pool.name)} on it yet"
            return Verdict(True, Reason.WAITING_FOR_AGENT, message)
        degraded = next(
            (
                c
                for c in gpu.status.conditions
                if c.type == ConditionType.DEGRADED.value and c.status == "True"
            ),
            None,
        )
        if degraded is not None:
            known = degraded.reason in [r.value for r in _FAILURES]
            reason = Reason(degraded.reason) if known else Reason.AGENT_ERROR
            return Verdict(True, reason, f"{gpu.name}: {degraded.message}")
    late = rollouts.outdated(world, document, node) if document is not None else ""
    return Verdict(True, Reason.WAITING_FOR_AGENT, late) if late else None


def _conflicts(world: World, names: Sequence[str]) -> str:
    held = membership.claims(world)
    told = [
        f"node {name} is held by the older pool {held[name]}"
        if name in held
        else f"node {name} has a name longer than 63 characters"
        for name in names
    ]
    return _several(told)


def _waits(world: World, gpus: Sequence[Gpu]) -> str:
    """Return what GPUs on their way out wait for: pods that hold slices, agents that are away."""
    told = []
    pods = sorted(
        {f"{h.namespace}/{h.name}" for g in gpus for s in g.status.slices for h in s.holders}
    )
    if pods:
        told.append(f"waiting for pods that hold slices to end: {_several(pods)}")
    for name in sorted({g.spec.node_name for g in gpus if g.status.conditions}):
        node, agent = world.nodes.get(name), world.agents.get(name)
        if node is not None and not node.ready:
            told.append(
                f"node {name} is not ready, so nobody can take its slices away"
                " (if it is gone for good, delete the Node)"
            )
        elif agent is not None and agent.problem:
            told.append(f"node agent {agent.name} on {name}: {agent.problem}")
    return _several(told)


def _several(items: Sequence[str]) -> str:
    more = len(items) - _TOLD
    return "; ".join(items[:_TOLD]) + (f"; and {more} more" if more > 0 else "")
