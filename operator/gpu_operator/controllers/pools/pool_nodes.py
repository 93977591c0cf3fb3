"""The labels and GPUs that a pool gives to one of its nodes, and why a node is not ready."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpu_operator.api.v1alpha1 import FINALIZER
from gpu_operator.api.v1alpha1.base import ConditionType, Reason
from gpu_operator.api.v1alpha1.gpu import GPUSpec
from gpu_operator.api.v1alpha1.resource import Gpu, Pool
from gpu_operator.api.v1alpha1.sharing import resolve_sharing
from gpu_operator.controllers.common.conditions import Verdict
from gpu_operator.controllers.common.world import AgentPod, Node, World
from gpu_operator.controllers.nodes import allocations, labels, strategies
from gpu_operator.controllers.pools import rollouts
from gpu_operator.kube.actions import Action, Apply, Manager
from gpu_operator.render import daemonset, gpu as gpu_render

FAILURES = (Reason.AGENT_ERROR, Reason.UNHEALTHY, Reason.AGENT_UNREACHABLE)
# What a GPU's condition Degraded says of its whole node. Any other reason is the agent's failure.
_DEGRADATIONS = (*FAILURES, Reason.MIXED_PROFILES, Reason.RESOURCE_CONFLICT)
# A suspect GPU and its slices are given to new pods, so the node serves them.
_HARMLESS = (Reason.SUSPECT,)


def populate(
    world: World,
    pool: Pool,
    node: Node,
    on_node: Sequence[Gpu],
    current_time: datetime.datetime,
    *,
    dra: bool,
) -> Iterable[Action]:
    """Yield the writes of a node's labels and GPUs."""
    if any(g.spec.pool != pool.name for g in on_node):
        return  # another pool has not released the node yet
    yield from labels.write(world, pool, node, on_node, current_time)
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
            mig_strategy=strategies.policy_on(world, node).strategy,
            allocation=allocations.allocation_on(pool, node, dra=dra),
            allow_multiple_allocations=pool.spec.allow_multiple_allocations,
            sharing=resolve_sharing(
                world.policy.sharing, index, gpu_render.uuid_of(node.name, index)
            ),
            **pool.spec.facts.to_json(),
        )
        existing_gpu = existing.get(index)
        if existing_gpu is None or not _is_current(existing_gpu, spec, node):
            yield Apply(Manager.CHILDREN, gpu_render.gpu(spec, node.uid))


_OTHERS: Final[Mapping[str, Any]] = {  # fields of other field managers
    "instances": (),
    "layout": None,
    "mig_mode": None,
    "faults": (),
}


def _is_current(gpu: Gpu, expected_spec: GPUSpec, node: Node) -> bool:
    if gpu.meta.deleting or gpu.spec.uuid != expected_spec.uuid:
        return True  # it must be deleted first
    metadata = gpu_render.gpu(expected_spec, node.uid)["metadata"]
    return (
        gpu.spec.model_copy(update=_OTHERS) == expected_spec
        and metadata["labels"].items() <= gpu.meta.labels.items()
        and metadata["annotations"].items() <= gpu.meta.annotations.items()
        and FINALIZER in gpu.meta.finalizers
    )


def find_problem(
    world: World,
    pool: Pool,
    document: Mapping[str, Any] | None,
    node: Node,
    on_node: Sequence[Gpu],
) -> Verdict | None:
    """Return the reason why a node of the pool is not ready; None if there is none.

    The reason is returned as a verdict for the pool's condition Degraded or Progressing.
    """
    agent = world.agents.get(node.name)
    if not node.ready:
        return Verdict(True, Reason.AGENT_UNREACHABLE, f"node {node.name} is not ready")
    of_node = {g.spec.index: g for g in on_node if g.spec.pool == pool.name}
    for index in range(pool.spec.count):
        gpu = of_node.get(index)
        if gpu is None:
            other_pools = {g.spec.pool for g in on_node} - {pool.name}
            message = (
                f"pool {min(other_pools)} has not released the node yet"
                if other_pools
                else f"GPU {index} does not exist yet"
            )
            return Verdict(True, Reason.WAITING_FOR_AGENT, message)
        reported = bool(gpu.status.conditions)
        if (without := _find_failing_gpud(world, node)) is not None:
            failed = reported and without.failing
            reason = Reason.AGENT_UNREACHABLE if failed else Reason.WAITING_FOR_AGENT
            return Verdict(True, reason, f"gpud {without.name}: {without.problem}")
        if agent is not None and agent.problem:
            failed = reported and agent.failing
            reason = Reason.AGENT_UNREACHABLE if failed else Reason.WAITING_FOR_AGENT
            return Verdict(True, reason, f"node agent {agent.name}: {agent.problem}")
        if not reported:
            message = "the node agent has not reported yet"
            # Pod Security or a quota may prevent it: only the DaemonSet's events show that.
            if agent is None:
                message = f"DaemonSet {daemonset.name_of(pool.name)} has no pod on it yet"
            return Verdict(True, Reason.WAITING_FOR_AGENT, message)
        degraded = next(
            (
                c
                for c in gpu.status.conditions
                if c.type == ConditionType.DEGRADED.value and c.status == "True"
            ),
            None,
        )
        if degraded is not None and degraded.reason not in _HARMLESS:
            is_reported = degraded.reason in _DEGRADATIONS
            reason = Reason(degraded.reason) if is_reported else Reason.AGENT_ERROR
            return Verdict(True, reason, f"{gpu.name}: {degraded.message}")
    if problem := strategies.find_label_problem(world, node) or allocations.find_label_problem(
        node
    ):
        return Verdict(True, Reason.INVALID_SPEC, problem)
    late = rollouts.explain_old_agent(world, document, node) if document is not None else ""
    return Verdict(True, Reason.WAITING_FOR_AGENT, late) if late else None


def _find_failing_gpud(world: World, node: Node) -> AgentPod | None:
    """Return the pod that explains why a node has no gpud; None if one serves, or no pod is
    known.
    """
    pods = world.gpuds.get(node.name, ())
    if not pods or any(not pod.problem for pod in pods):
        return None
    return next((pod for pod in pods if pod.failing), pods[0])
