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
    now: datetime.datetime,
) -> Iterator[Action]:
    """Yield the writes that set a node's condition and taints according to ``problem``."""
    status = "False" if problem else "True"
    reason = (problem.reason if problem else Reason.RECONCILED).value
    served = f"{pool.spec.count} GPUs of pool {pool.name} are served"
    message = (problem.message if problem else served)[:_LONGEST_MESSAGE]
    seen = node.gpu_ready
    if seen is None or (seen.status, seen.reason, seen.message) != (status, reason, message):
        same = seen is not None and seen.status == status
        since = seen.since if seen and same else now.strftime("%Y-%m-%dT%H:%M:%SZ")
        document = node_render.with_condition(node.name, node.uid, status, reason, message, since)
        yield Apply(Manager.CONDITIONS, document, status=True)
    wanted = {}
    if taints.not_ready and problem is not None:
        wanted[NOT_READY_TAINT] = ""
    if taints.present:
        wanted[f"{prefix}/gpu"] = "present"
    yield from _taint(node, wanted)


def withdraw(node: Node) -> Iterator[Action]:
    """Yield the writes that remove the condition and taints from a node that has left its pool."""
    if node.gpu_ready is not None:
        document = node_render.without_condition(node.name, node.uid)
        yield Apply(Manager.CONDITIONS, document, status=True)
    yield from _taint(node, {})


def _taint(node: Node, wanted: dict[str, str]) -> Iterator[SetTaints]:
    noted = set(filter(None, node.annotations.get(TAINTS, "").split(",")))
    add = {key: value for key, value in wanted.items() if key not in node.taints}
    ours = (noted & wanted.keys()) | add.keys()
    if add or noted != ours:
        remove = tuple(sorted(noted - wanted.keys()))
        yield SetTaints(
            node.name, node.uid, tuple(sorted(add.items())), remove, tuple(sorted(ours))
        )
