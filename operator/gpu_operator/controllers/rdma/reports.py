"""Conditions, counts and events of RDMA networks and policies."""

import bisect
import datetime
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from facts.wording import list_first
from gpu_operator.api.v1alpha1.base import Condition, ConditionType, Reason
from gpu_operator.api.v1alpha1.rdma import API_VERSION
from gpu_operator.api.v1alpha1.rdma.common import RDMAStatus
from gpu_operator.api.v1alpha1.rdma.tables import HcadState, SecondLayer
from gpu_operator.api.v1alpha1.resource import Meta
from gpu_operator.controllers.rdma.nodes import NodeState
from gpu_operator.kube.actions import Action, Apply, Manager, Record
from rdma.errors import OverBudgetError, PolicyError

_MESSAGE_LENGTH = 2000
_NAMED = 5  # nodes that a message names
_UNKNOWN = "Unknown"
_FIGURE = re.compile(r"(?<![\w.-])[0-9]+(?![\w.-])")  # numbers that are not part of a name
_MOVED = 4  # a number is rewritten when it has changed by more than a quarter


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition without its times; ``status`` is True, False or Unknown."""

    status: str
    reason: Reason
    message: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """How many nodes have acknowledged a revision of the policies, and the resulting condition."""

    total: int
    ready: int
    finding: Finding


def accepted_finding(unreadable: str, problems: Sequence[PolicyError] = ()) -> Finding:
    """Return the condition Accepted.

    ``unreadable`` is the reason why the spec is invalid; empty if it is valid.
    """
    if unreadable:
        return Finding("False", Reason.INVALID_SPEC, unreadable)
    if problems:
        large = all(isinstance(problem, OverBudgetError) for problem in problems)
        reason = Reason.OUT_OF_BUDGET if large else Reason.INVALID_SPEC
        return Finding("False", reason, "; ".join(map(str, problems)))
    return Finding("True", Reason.ACCEPTED)


class Reaches:
    """Computes how many nodes have acknowledged each revision.

    Results are cached for revisions with the same acknowledgements.
    """

    def __init__(self, nodes: Sequence[NodeState], now_s: float) -> None:
        self._silent = [node.name for node in nodes if node.seconds_until_silent(now_s) <= 0]
        silent = set(self._silent)
        self._below = [
            (-math.inf if node.name in silent else node.enforced_below, node) for node in nodes
        ]
        self._steps = sorted({below for below, _ in self._below})
        self._known: dict[int, Reach] = {}

    def reach_of(self, revision: int) -> Reach:
        """Return how many nodes have acknowledged a revision, and the resulting condition.

        The condition is True if all nodes are alive and have acknowledged the revision.
        """
        step = bisect.bisect_right(self._steps, revision)
        reach = self._known.get(step)
        if reach is None:
            reach = self._known[step] = self._compute(revision)
        return reach

    def _compute(self, revision: int) -> Reach:
        total, silent = len(self._below), self._silent
        late = [node for below, node in self._below if below <= revision]
        waiting = [node for node in late if node.name not in silent]
        if not total:
            finding = Finding("False", Reason.NO_NODES, "no node has an HCA")
        elif silent:
            message = f"no heartbeat for 10 s: {list_first(sorted(silent), _NAMED)}"
            finding = Finding(_UNKNOWN, Reason.NODE_SILENT, message)
        elif failing := [node for node in waiting if _hcad_problem(node)]:
            details = "; ".join(f"{node.name}: {_hcad_problem(node)}" for node in failing[:_NAMED])
            finding = Finding("False", Reason.HCA_UNAVAILABLE, details)
        elif waiting:
            names = sorted(node.name for node in waiting)
            message = f"not acknowledged yet by {list_first(names, _NAMED)}"
            finding = Finding("False", Reason.PENDING, message)
        else:
            finding = Finding("True", Reason.PROGRAMMED, f"enforced on {total} of {total} nodes")
        return Reach(total, total - len(late), finding)


def second_layer_finding(nodes: Sequence[NodeState]) -> Finding:
    """Return the condition SecondLayer.

    It shows whether the rules on all pods' links match hcad's tables.
    """
    lacking: list[str] = []
    for node in nodes:
        if node.second_layer is SecondLayer.ENGINE_ONLY and node.seen is not None:
            lacking.append(f"{node.name}: {node.seen.status.second_layer_message}")
    if lacking:
        details = list_first(lacking, _NAMED, "; ")
        return Finding(
            "False", Reason.ENGINE_ONLY, f"only hcad evaluates policies there: {details}"
        )
    silent = [node.name for node in nodes if node.second_layer is SecondLayer.UNKNOWN]
    if silent or not nodes:
        of = list_first(sorted(silent), _NAMED) if silent else "no node has an HCA"
        return Finding(_UNKNOWN, Reason.PENDING, f"not reported yet: {of}")
    message = f"rules are installed on the pods' links on {len(nodes)} of {len(nodes)} nodes"
    return Finding("True", Reason.ENFORCED, message)


def with_invalid_spec(of: Reach) -> Reach:
    """Return the reach of a policy or network with an invalid spec: no node enforces it.

    The total number of nodes is that of ``of``.
    """
    message = "the spec cannot be enforced as it is, see Accepted"
    return Reach(of.total, 0, Finding("False", Reason.INVALID_SPEC, message))


def report(
    meta: Meta,
    namespace: str,
    old_status: RDMAStatus,
    new_status: RDMAStatus,
    findings: Sequence[tuple[ConditionType, Finding]],
    current_time: datetime.datetime,
) -> tuple[Action, ...]:
    """Return the action that writes the status of an object, and events for changed conditions.

    There are no actions if nothing changed. ``old_status`` is the present status.
    """
    conditions = _conditions(findings, old_status.conditions, meta.generation, current_time)
    update = {"observed_generation": meta.generation, "conditions": conditions}
    complete = new_status.model_copy(update=update)
    if complete == old_status:
        return ()
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": meta.kind,
        "metadata": {"name": meta.name, "uid": meta.uid},
        "status": complete.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    if namespace:
        document["metadata"]["namespace"] = namespace
    write = Apply(Manager.STATUS, document, status=True)
    return (write, *_events(meta, namespace, old_status.conditions, conditions))


def _conditions(
    findings: Sequence[tuple[ConditionType, Finding]],
    old_conditions: Sequence[Condition],
    generation: int,
    current_time: datetime.datetime,
) -> tuple[Condition, ...]:
    conditions_by_type = {condition.type: condition for condition in old_conditions}
    moment = current_time.strftime("%Y-%m-%dT%H:%M:%SZ")
    result = []
    for kind, finding in findings:
        old_condition = conditions_by_type.get(kind.value)
        is_same_status = old_condition is not None and old_condition.status == finding.status
        message = finding.message[:_MESSAGE_LENGTH]
        result.append(
            Condition(
                type=kind.value,
                status=finding.status,
                reason=finding.reason.value,
                message=_keep_message(old_condition, finding, message, generation),
                last_transition_time=old_condition.last_transition_time
                if old_condition and is_same_status
                else moment,
                observed_generation=generation,
            )
        )
    return tuple(result)


def _keep_message(
    old_condition: Condition | None, finding: Finding, message: str, generation: int
) -> str:
    """Return the former message if the new one differs only slightly in its numbers.

    The share of a budget that a policy uses depends on the pods of all namespaces. A tenant who
    creates and deletes a pod must not cause writes to the statuses of all refused policies in
    the cluster.
    """
    if old_condition is None or finding.reason is not Reason.OUT_OF_BUDGET:
        return message
    old_state = (old_condition.status, old_condition.reason, old_condition.observed_generation)
    if old_state != (finding.status, finding.reason.value, generation):
        return message
    if _FIGURE.sub("0", old_condition.message) != _FIGURE.sub("0", message):
        return message
    pairs = zip(_FIGURE.findall(old_condition.message), _FIGURE.findall(message), strict=True)
    near = all(abs(int(a) - int(b)) * _MOVED <= int(a) for a, b in pairs)
    return old_condition.message if near else message


def _events(
    meta: Meta,
    namespace: str,
    old_conditions: Sequence[Condition],
    new_conditions: Sequence[Condition],
) -> Iterator[Record]:
    """Yield the events for changed conditions.

    The reason of an event is Rejected if the spec is not accepted, and otherwise the
    condition's.
    """
    old_states = {c.type: (c.status, c.reason, c.observed_generation) for c in old_conditions}
    for condition in new_conditions:
        old_state = old_states.get(condition.type, ("", "", 0))
        if old_state == (condition.status, condition.reason, condition.observed_generation):
            continue
        reason, message, warning = condition.reason, condition.message, True
        if condition.type == ConditionType.ACCEPTED.value:
            if condition.status == "True":
                continue
            message, reason = f"{reason}: {message}", "Rejected"
        elif condition.type == ConditionType.SECOND_LAYER.value:
            warning = reason == Reason.ENGINE_ONLY.value
            if not warning and (
                condition.status != "True" or old_state[1] != Reason.ENGINE_ONLY.value
            ):
                continue  # of what is not reported yet, and of rules that were never missing
        elif condition.status == "True":
            warning = False
        elif reason not in (Reason.NODE_SILENT.value, Reason.HCA_UNAVAILABLE.value):
            continue
        yield Record(
            meta.kind,
            meta.name,
            meta.uid,
            reason,
            f"generation {meta.generation}: {message}",
            warning,
            namespace or "default",
        )


def _hcad_problem(node: NodeState) -> str:
    status = node.seen.status if node.seen is not None else None
    if status is None or status.hcad in (HcadState.ENFORCING, HcadState.UNKNOWN):
        return ""
    return f"hcad is {status.hcad.value}: {status.message}"[:400]
