"""GPUPolicy: ``default`` is in force; the status of every other policy reports that it is ignored.

The chart writes ``default``, and users may edit it. An edited field keeps its value, whatever
the chart sets later: the object records the values that the chart last set, so a value that
differs from them was set by a user. The conditions name each such field.
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
    refusal_verdicts,
    report,
    verdicts,
    with_write_refusal,
)
from gpu_operator.controllers.common.world import POLICY_NAME, ChartPolicy, Outcome, World
from gpu_operator.controllers.nodes import sharing
from gpu_operator.controllers.pools import daemon_sets
from gpu_operator.kube.actions import Action, Apply, Manager


def reconcile(
    world: World, name: str, node_config: NodeConfig, namespace: str, now: datetime.datetime
) -> Outcome:
    """Apply the chart's values to the policy ``default``, and report the policy's state.

    Fields that a user has edited keep their values. For a policy with any other name, only the
    status is written.
    """
    policy = world.policies.get(name)
    chart = world.chart_policy if name == POLICY_NAME else None
    actions: list[Action] = []
    kept: Mapping[str, Any] = {}
    if chart is not None:
        kept = _find_edits(policy, chart)
        actions.append(_apply_chart(name, chart, kept))
    if policy is None:
        return Outcome(tuple(actions))
    waiting = _explain_wait(world, node_config, namespace) if name == POLICY_NAME else ""
    wanted = _verdicts(name, chart, kept, waiting)
    if name == POLICY_NAME and (wrong := sharing.find_sharing_problem(policy.spec)):
        wanted = {**wanted, ConditionType.DEGRADED: Verdict(True, Reason.SHARING_CONFLICT, wrong)}
    wanted = with_write_refusal(wanted, world.refused_writes.get(("GPUPolicy", name), ""))
    actions += report(policy.meta, policy.status, GPUPolicyStatus(), wanted, now)
    return Outcome(tuple(actions))


def _values(spec: GPUPolicySpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", by_alias=True, exclude_none=True)


def _find_edits(policy: Policy | None, chart: ChartPolicy) -> Mapping[str, Any]:
    """Return the fields of the policy that a user has set, with their values."""
    if policy is None:
        return {}
    previous = _read_chart_values(policy)
    wanted = _values(chart.spec)
    return {
        field: value
        for field, value in _values(policy.spec).items()
        if value != wanted.get(field) and value != previous.get(field)
    }


def _read_chart_values(policy: Policy) -> Mapping[str, Any]:
    try:
        found = documents.read(policy.meta.annotations.get(CHART_VALUES, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _apply_chart(name: str, chart: ChartPolicy, kept: Mapping[str, Any]) -> Apply:
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


def _explain_wait(world: World, node_config: NodeConfig, namespace: str) -> str:
    """Return which pool has not applied the policy yet; empty if all have."""
    held = set(membership.pools_by_node(world).values())
    for pool in (world.pools[name] for name in sorted(held)):
        wanted = daemon_sets.make_documents(world, pool, node_config, namespace)
        missing = daemon_sets.explain_missing(world, wanted)
        if missing:
            return f"pool {pool.name}: {missing}"
        prefix = world.policy.resource_prefix
        if pool.status.resource_prefix != prefix:
            return f"pool {pool.name}: its nodes do not offer their slices as {prefix}/… yet"
    return ""


def _to_manifest_text(value: object) -> str:
    """Format a value as text, as it would be written in a manifest."""
    return value if isinstance(value, str) else json.dumps(value)


def _verdicts(
    name: str, chart: ChartPolicy | None, kept: Mapping[str, Any], waiting: str
) -> Verdicts:
    if name != POLICY_NAME:
        return refusal_verdicts(
            Reason.IGNORED, f"only the GPUPolicy named {POLICY_NAME} has an effect"
        )
    accepted = None
    if chart is not None and kept:
        values = _values(chart.spec)
        edits = [
            f"{field} is {_to_manifest_text(kept[field])}, not the chart's "
            f"{_to_manifest_text(values.get(field))}"
            for field in kept
        ]
        message = f"edited by a user, who has precedence: {'; '.join(edits)}"
        accepted = Verdict(True, Reason.OVERRIDDEN, message)
    if waiting:
        rolling = Verdict(True, Reason.WAITING_FOR_AGENT, waiting)
        ready = Verdict(False, Reason.WAITING_FOR_AGENT, waiting)
        return verdicts(ready, accepted=accepted, progressing=rolling)
    return verdicts(Verdict(True, Reason.RECONCILED, "in force on all nodes"), accepted=accepted)
