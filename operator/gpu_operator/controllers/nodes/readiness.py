"""Publishes whether a node serves the GPUs of its pool: a condition, and taints.

`kubectl describe node` shows the condition GPUReady beside those of the kubelet. Taints are
optional (the chart's ``nodeTaints``). An annotation of the node records which taints the operator
has set, so that it never removes another owner's taint with the same key.
"""

import datetime
from collections.abc import Iterator

from gpu_operator.api.v1alpha1 import NOT_READY_TAINT, TAINTS
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.resource import Pool
from gpu_operator.config import TaintsConfig
from gpu_operator.controllers.common.conditions import Verdict
from gpu_operator.controllers.common.world import Node
from gpu_operator.kube.actions import Action, Apply, Manager, SetTaints
from gpu_operator.render import node as node_render

_LONGEST_MESSAGE = 1000


def write(
    node: Node,
    pool: Pool,
    problem: Verdict | None,
    prefix: str,
    taints: TaintsConfig,
    current_time: datetime.datetime,
) -> Iterator[Action]:
    """Yield the writes that set a node's condition and taints according to ``problem``."""
    status = "False" if problem else "True"
    reason = (problem.reason if problem else Reason.RECONCILED).value
    served = f"{pool.spec.count} GPUs of pool {pool.name} are served"
    message = (problem.message if problem else served)[:_LONGEST_MESSAGE]
    old_condition = node.gpu_ready
    if old_condition is None or (
        old_condition.status,
        old_condition.reason,
        old_condition.message,
    ) != (status, reason, message):
        is_same_status = old_condition is not None and old_condition.status == status
        since = (
            old_condition.since
            if old_condition and is_same_status
            else current_time.strftime("%Y-%m-%dT%H:%M:%SZ")
        )
        document = node_render.with_condition(node.name, node.uid, status, reason, message, since)
        yield Apply(Manager.CONDITIONS, document, status=True)
    new_taints = {}
    if taints.not_ready and problem is not None:
        new_taints[NOT_READY_TAINT] = ""
    if taints.present:
        new_taints[f"{prefix}/gpu"] = "present"
    yield from _taint(node, new_taints)


def withdraw(node: Node) -> Iterator[Action]:
    """Yield the writes that remove the condition and taints from a node that has left its pool."""
    if node.gpu_ready is not None:
        document = node_render.without_condition(node.name, node.uid)
        yield Apply(Manager.CONDITIONS, document, status=True)
    yield from _taint(node, {})


def _taint(node: Node, new_taints: dict[str, str]) -> Iterator[SetTaints]:
    noted = set(filter(None, node.annotations.get(TAINTS, "").split(",")))
    add = {key: value for key, value in new_taints.items() if key not in node.taints}
    ours = (noted & new_taints.keys()) | add.keys()
    if add or noted != ours:
        remove = tuple(sorted(noted - new_taints.keys()))
        yield SetTaints(
            node.name, node.uid, tuple(sorted(add.items())), remove, tuple(sorted(ours))
        )
