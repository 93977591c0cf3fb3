"""GPUPolicy: which one applies, which values take precedence, and when it is in force
everywhere.
"""

import dataclasses
import json
from typing import Any

import pytest

from gpu_operator.api.v1alpha1 import CHART_VALUES
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec, GPUPolicyStatus, NvidiaSmi
from gpu_operator.api.v1alpha1.resource import Meta, Policy, Resource
from gpu_operator.config import NodeConfig
from gpu_operator.controllers import policies
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.common.world import AgentSet, ChartPolicy, Outcome, World
from gpu_operator.kube.actions import Manager, Record
from gpu_operator.render import daemonset
from support.worlds.gpu_world import (
    NOW,
    applied_documents,
    condition,
    gpu,
    mig_slice,
    node,
    pool,
    world,
)
from support.worlds.pool_world import agent_set

CONFIG = NodeConfig(image="tessera:1", service_account="tessera-node")
OURS, THEIRS = "gpu.tessera.dev", "nvidia.com"


def policy(name: str = "default", noted: str = "", **spec: Any) -> Policy:
    """Return a policy; ``noted`` is the prefix that the chart has set before, if any."""
    annotations = {}
    if noted:
        values = GPUPolicySpec(resource_prefix=noted).model_dump(mode="json", by_alias=True)
        annotations[CHART_VALUES] = json.dumps(values)
    meta = Meta("GPUPolicy", name, "u", generation=3, annotations=annotations)
    return Resource(meta, GPUPolicySpec(**spec), GPUPolicyStatus())


def decide(seen: World, name: str = "default") -> Outcome:
    return policies.reconcile(seen, name, CONFIG, "tessera-system", NOW)


def chart(prefix: str = OURS) -> ChartPolicy:
    return ChartPolicy(GPUPolicySpec(resource_prefix=prefix))


def applied_spec(outcome: Outcome) -> dict[str, Any]:
    (document,) = applied_documents(outcome.actions, Manager.POLICY)
    return dict(document["spec"])


def test_only_the_policy_named_default_applies() -> None:
    seen = World(policies={"x": policy("x", resource_prefix=THEIRS)})
    assert seen.policy.resource_prefix == OURS
    assert condition(decide(seen, "x").actions, "Accepted")[:2] == ("False", "Ignored")
    seen = World(policies={"default": policy(resource_prefix=THEIRS)})
    assert seen.policy.resource_prefix == THEIRS


def test_without_a_policy_of_the_chart_none_is_written() -> None:
    assert decide(World()).actions == ()


def test_the_chart_s_policy_is_deleted_with_its_owner() -> None:
    owner = {"kind": "ClusterRole", "name": "r", "uid": "1", "apiVersion": "v1"}
    outcome = decide(World(chart_policy=ChartPolicy(GPUPolicySpec(), (owner,))))
    (document,) = applied_documents(outcome.actions, Manager.POLICY)
    assert document["metadata"]["ownerReferences"] == [owner]


def test_a_refused_write_is_in_the_policy_s_status() -> None:
    refused = {("GPUPolicy", "default"): "an admission policy says no"}
    actions = decide(world(policy(), refused_writes=refused)).actions
    assert condition(actions, "Ready")[:2] == ("False", "Refused")
    assert "says no" in condition(actions, "Degraded")[2]
    assert condition(decide(world(policy())).actions, "Ready")[0] == "True"


def test_an_edited_field_stays_and_is_named() -> None:
    edited = policy(noted=OURS, resource_prefix=THEIRS)
    outcome = decide(world(edited, chart_policy=chart()))
    assert "resourcePrefix" not in applied_spec(outcome)
    assert applied_spec(outcome)["strategy"] == "mixed"
    result, reason, message = condition(outcome.actions, "Accepted")
    assert (result, reason) == ("True", "Overridden")
    assert "resourcePrefix is nvidia.com, not the chart's gpu.tessera.dev" in message
    assert any(isinstance(a, Record) and a.reason == "Overridden" for a in outcome.actions)
    assert condition(outcome.actions, "Ready")[0] == "True"


def test_a_nested_field_is_reported_as_in_a_manifest() -> None:
    edited = policy(noted=OURS, nvidia_smi=NvidiaSmi(enabled=True))
    message = condition(decide(world(edited, chart_policy=chart())).actions, "Accepted")[2]
    assert 'nvidiaSmi is {"enabled": true}, not the chart\'s {"enabled": false}' in message


def test_a_new_chart_value_does_not_undo_an_edit() -> None:
    edited = policy(noted=OURS, resource_prefix=THEIRS)
    outcome = decide(world(edited, chart_policy=chart("example.com")))
    assert "resourcePrefix" not in applied_spec(outcome)
    assert "not the chart's example.com" in condition(outcome.actions, "Accepted")[2]


@pytest.mark.parametrize(
    ("noted", "now", "wanted"),
    [(OURS, OURS, THEIRS), (OURS, THEIRS, THEIRS), (OURS, OURS, OURS)],
    ids=["the chart changed", "both changed to the same", "nothing changed"],
)
def test_unedited_fields_follow_the_chart(noted: str, now: str, wanted: str) -> None:
    seen = world(policy(noted=noted, resource_prefix=now), chart_policy=chart(wanted))
    outcome = decide(seen)
    assert applied_spec(outcome)["resourcePrefix"] == wanted
    assert condition(outcome.actions, "Accepted")[:2] == ("True", "Accepted")


@pytest.mark.parametrize("noted", ["", "not JSON", "7", "[" * 5000 + "]" * 5000])
def test_an_existing_policy_is_not_taken_over(noted: str) -> None:
    before = policy(resource_prefix=THEIRS)
    meta = dataclasses.replace(before.meta, annotations={CHART_VALUES: noted} if noted else {})
    before = Resource(meta, before.spec, before.status)
    outcome = decide(world(before, chart_policy=chart()))
    assert "resourcePrefix" not in applied_spec(outcome)
    assert condition(outcome.actions, "Accepted")[1] == "Overridden"


def rolled_out(prefix: str) -> dict[str, AgentSet]:
    """Return the DaemonSets of pool p, rendered with this prefix and rolled out to all nodes."""
    spec = GPUPolicySpec(resource_prefix=prefix)
    document = daemonset.daemon_set("p", pool().spec, spec, CONFIG, "tessera-system")
    rendered = daemonset.rendered_digest(document)
    agents = AgentSet("p", rendered, observed=True, pods=1, updated=1)
    return {**agent_set(), "tessera-node-p": agents}


def test_ready_means_that_every_pool_has_applied_the_policy() -> None:
    wanted = policy(resource_prefix=THEIRS)

    def ready(at: str, **changes: Any) -> tuple[str, str, str]:
        """Return the condition Ready; assert that Progressing is its opposite."""
        there = pool()
        status = there.status.model_copy(update={"resource_prefix": at})
        served = Resource(there.meta, there.spec, status)
        found = decide(world(node(), served, gpu(), wanted, **changes))
        verdict = condition(found.actions, "Ready")
        progressing = condition(found.actions, "Progressing")
        assert progressing[0] == {"True": "False", "False": "True"}[verdict[0]]
        assert progressing[0] == "False" or progressing[1:] == verdict[1:]
        return verdict

    of_the_past = ready(OURS, daemon_sets=rolled_out(OURS))
    assert of_the_past[:2] == ("False", "WaitingForAgent")
    assert "DaemonSet tessera-node-p is being written" in of_the_past[2]
    half_way = ready(OURS, daemon_sets=rolled_out(THEIRS))
    assert half_way[0] == "False"
    assert "do not offer their slices as nvidia.com/" in half_way[2]
    assert ready(THEIRS, daemon_sets=rolled_out(THEIRS))[0] == "True"


def test_a_pool_without_nodes_does_not_delay_a_policy() -> None:
    elsewhere = pool(node_selector={"no": "node"})
    outcome = decide(world(node(), elsewhere, policy(resource_prefix=THEIRS)))
    assert condition(outcome.actions, "Ready")[0] == "True"


def test_a_slice_with_the_former_prefix_is_not_offered_with_the_new_one() -> None:
    """Unless a pod holds it: the pod keeps it with that name until it ends."""
    there = node(allocatable={f"{THEIRS}/mig-1g.10gb": "7", f"{OURS}/mig-1g.10gb": "7"})
    seen = world(there, pool(), policy(resource_prefix=THEIRS))
    assert "with the prefix nvidia.com" in offers.explain_late_offer(
        seen, there, [mig_slice("1g.10gb@0")]
    )
    assert offers.explain_late_offer(seen, there, [mig_slice("1g.10gb@0", "default/x")]) == ""
