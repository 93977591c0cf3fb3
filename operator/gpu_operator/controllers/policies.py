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
    world: World,
    name: str,
    node_config: NodeConfig,
    namespace: str,
    current_time: datetime.datetime,
) -> Outcome:
    """Apply the chart's values to the policy ``default``, and report the policy's state.

    Fields that a user has edited keep their values. For a policy with any other name, only the
    status is written.
    """
    policy = world.policies.get(name)
    chart = world.chart_policy if name == POLICY_NAME else None
    actions: list[Action] = []
    edited_fields: Mapping[str, Any] = {}
    if chart is not None:
        edited_fields = _find_edits(policy, chart)
        actions.append(_apply_chart(name, chart, edited_fields))
    if policy is None:
        return Outcome(tuple(actions))
    waiting = _explain_wait(world, node_config, namespace) if name == POLICY_NAME else ""
    new_verdicts = _verdicts(name, chart, edited_fields, waiting)
    if name == POLICY_NAME and (wrong := sharing.find_sharing_problem(policy.spec)):
        new_verdicts = {
            **new_verdicts,
            ConditionType.DEGRADED: Verdict(True, Reason.SHARING_CONFLICT, wrong),
        }
    new_verdicts = with_write_refusal(
        new_verdicts, world.refused_writes.get(("GPUPolicy", name), "")
    )
    actions += report(policy.meta, policy.status, GPUPolicyStatus(), new_verdicts, current_time)
    return Outcome(tuple(actions))


def _values(spec: GPUPolicySpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", by_alias=True, exclude_none=True)


def _find_edits(policy: Policy | None, chart: ChartPolicy) -> Mapping[str, Any]:
    """Return the fields of the policy that a user has set, with their values."""
    if policy is None:
        return {}
    previous = _read_chart_values(policy)
    chart_values = _values(chart.spec)
    return {
        field: value
        for field, value in _values(policy.spec).items()
        if value != chart_values.get(field) and value != previous.get(field)
    }


def _read_chart_values(policy: Policy) -> Mapping[str, Any]:
    try:
        chart_values = documents.read(policy.meta.annotations.get(CHART_VALUES, "{}"))
    except ValueError:
        return {}
    return chart_values if isinstance(chart_values, dict) else {}


def _apply_chart(name: str, chart: ChartPolicy, edited_fields: Mapping[str, Any]) -> Apply:
    values = _values(chart.spec)
    document = {
        "apiVersion": API_VERSION,
        "kind": "GPUPolicy",
        "metadata": {
            "name": name,
            "ownerReferences": [dict(o) for o in chart.owners],
            "annotations": {CHART_VALUES: json.dumps(values, sort_keys=True)},
        },
        "spec": {field: value for field, value in values.items() if field not in edited_fields},
    }
    return Apply(Manager.POLICY, document)


def _explain_wait(world: World, node_config: NodeConfig, namespace: str) -> str:
    """Return which pool has not applied the policy yet; empty if all have."""
    pool_names = set(membership.pools_by_node(world).values())
    for pool in (world.pools[name] for name in sorted(pool_names)):
        pool_documents = daemon_sets.make_documents(world, pool, node_config, namespace)
        missing = daemon_sets.explain_missing(world, pool_documents)
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
    name: str, chart: ChartPolicy | None, edited_fields: Mapping[str, Any], waiting: str
) -> Verdicts:
    if name != POLICY_NAME:
        return refusal_verdicts(
            Reason.IGNORED, f"only the GPUPolicy named {POLICY_NAME} has an effect"
        )
    accepted = None
    if chart is not None and edited_fields:
        values = _values(chart.spec)
        edits = [
            f"{field} is {_to_manifest_text(edited_fields[field])}, not the chart's "
            f"{_to_manifest_text(values.get(field))}"
            for field in edited_fields
        ]
        message = f"edited by a user, who has precedence: {'; '.join(edits)}"
        accepted = Verdict(True, Reason.OVERRIDDEN, message)
    if waiting:
        rolling = Verdict(True, Reason.WAITING_FOR_AGENT, waiting)
        ready = Verdict(False, Reason.WAITING_FOR_AGENT, waiting)
        return verdicts(ready, accepted=accepted, progressing=rolling)
    return verdicts(Verdict(True, Reason.RECONCILED, "in force on all nodes"), accepted=accepted)
