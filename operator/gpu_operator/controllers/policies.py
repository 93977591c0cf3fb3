"""GPUPolicy: ``default`` is in force, any other is ignored and says so.

The chart writes ``default``, and so may anybody else. A field that somebody has edited stays as it
was edited, whatever the chart says later: the values that the chart last asked for are noted on the
object, so what differs from them was not written by us. The conditions name each such field.
"""

import datetime
import json
from collections.abc import Mapping
from typing import Any

from gpu_operator.api import documents
from gpu_operator.api.v1alpha1 import API_VERSION, CHART_VALUES
from gpu_operator.api.v1alpha1.base import ConditionType, Reason
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec, GPUPolicyStatus
from gpu_operator.api.v1alpha1.resource import Policy
from gpu_operator.config import NodeConfig
from gpu_operator.controllers.common import membership
from gpu_operator.controllers.common.conditions import (
    Verdict,
    Verdicts,
    blocked,
    refused,
    report,
    verdicts,
)
from gpu_operator.controllers.common.world import POLICY_NAME, ChartPolicy, Outcome, World
from gpu_operator.controllers.nodes import sharing
from gpu_operator.controllers.pools import daemon_sets
from gpu_operator.kube.actions import Action, Apply, Manager


def reconcile(
    world: World, name: str, node_config: NodeConfig, namespace: str, now: datetime.datetime
) -> Outcome:
    """Make ``default`` what the chart says where nobody says otherwise; report on any policy."""
    policy = world.policies.get(name)
    chart = world.chart_policy if name == POLICY_NAME else None
    actions: list[Action] = []
    kept: Mapping[str, Any] = {}
    if chart is not None:
        kept = _edited(policy, chart)
        actions.append(_from_chart(name, chart, kept))
    if policy is None:
        return Outcome(tuple(actions))
    waiting = _waiting(world, node_config, namespace) if name == POLICY_NAME else ""
    wanted = _verdicts(name, chart, kept, waiting)
    if name == POLICY_NAME and (wrong := sharing.problem(policy.spec)):
        wanted = {**wanted, ConditionType.DEGRADED: Verdict(True, Reason.SHARING_CONFLICT, wrong)}
    wanted = blocked(wanted, world.refused_writes.get(("GPUPolicy", name), ""))
    actions += report(policy.meta, policy.status, GPUPolicyStatus(), wanted, now)
    return Outcome(tuple(actions))


def _values(spec: GPUPolicySpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", by_alias=True, exclude_none=True)


def _edited(policy: Policy | None, chart: ChartPolicy) -> Mapping[str, Any]:
    """Return the fields, with their values, that somebody else than the chart has set."""
    if policy is None:
        return {}
    asked = _noted(policy)
    wanted = _values(chart.spec)
    return {
        field: value
        for field, value in _values(policy.spec).items()
        if value != wanted.get(field) and value != asked.get(field)
    }


def _noted(policy: Policy) -> Mapping[str, Any]:
    try:
        found = documents.read(policy.meta.annotations.get(CHART_VALUES, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _from_chart(name: str, chart: ChartPolicy, kept: Mapping[str, Any]) -> Apply:
    values = _values(chart.spec)
    document = {
        "apiVersion": API_VERSION,
        "kind": "GPUPolicy",
        "metadata": {
            "name": name,
            "ownerReferences": [dict(o) for o in chart.owners],
            "annotations": {CHART_VALUES: json.dumps(values, sort_keys=True)},
        },
        "spec": {field: value for field, value in values.items() if field not in kept},
    }
    return Apply(Manager.POLICY, document)


def _waiting(world: World, node_config: NodeConfig, namespace: str) -> str:
    """Say which pool has yet to take the policy over; empty when all have."""
    held = set(membership.claims(world).values())
    for pool in (world.pools[name] for name in sorted(held)):
        wanted = daemon_sets.documents(world, pool, node_config, namespace)
        missing = daemon_sets.missing(world, wanted)
        if missing:
            return f"pool {pool.name}: {missing}"
        prefix = world.policy.resource_prefix
        if pool.status.resource_prefix != prefix:
            return f"pool {pool.name}: its nodes have yet to offer their slices as {prefix}/…"
    return ""


def _text(value: object) -> str:
    """Return a value as a manifest has it."""
    return value if isinstance(value, str) else json.dumps(value)


def _verdicts(
    name: str, chart: ChartPolicy | None, kept: Mapping[str, Any], waiting: str
) -> Verdicts:
    if name != POLICY_NAME:
        return refused(Reason.IGNORED, f"only the GPUPolicy called {POLICY_NAME} counts")
    accepted = None
    if chart is not None and kept:
        values = _values(chart.spec)
        told = [
            f"{field} is {_text(kept[field])}, the chart's {_text(values.get(field))} is not"
            for field in kept
        ]
        message = f"edited by hand, and in force so: {'; '.join(told)}"
        accepted = Verdict(True, Reason.OVERRIDDEN, message)
    if waiting:
        rolling = Verdict(True, Reason.WAITING_FOR_AGENT, waiting)
        ready = Verdict(False, Reason.WAITING_FOR_AGENT, waiting)
        return verdicts(ready, accepted=accepted, progressing=rolling)
    return verdicts(Verdict(True, Reason.RECONCILED, "in force on all nodes"), accepted=accepted)
