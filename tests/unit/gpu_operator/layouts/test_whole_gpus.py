"""GPUs with MIG off: the default, and how a layout divides such a GPU and gives it back."""

import datetime
from dataclasses import replace
from typing import Any

import pytest

from gpu_operator.api.v1alpha1 import LAST_APPLIED, WAS_SPARE
from gpu_operator.api.v1alpha1.gpu import MigMode
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec, Strategy
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.common.world import ChartPolicy, Outcome, World
from gpu_operator.controllers.layouts import orphans
from gpu_operator.controllers.nodes import extended_resources
from gpu_operator.controllers.pools import pools
from gpu_operator.kube.actions import Apply, Manager, PatchNode
from support.worlds.gpu_world import (
    NOW,
    applied_documents,
    condition,
    gpu,
    layout,
    mig_slice,
    node,
    pool,
    world,
)
from support.worlds.layout_world import SEVEN, decide, everything, status, written_instances
from support.worlds.pool_world import CONFIG

WHOLE = "whole@0"
RESOURCE = "gpu.tessera.dev/gpu"


def whole(index: int = 0, *pods: str, **changes: Any) -> Gpu:
    """Return a whole GPU that these pods hold."""
    have = [mig_slice(WHOLE, *pods)]
    return gpu(index=index, **{"want": [WHOLE], "have": have, **changes})


def spec_written(outcome: Outcome) -> dict[str, Any]:
    (document,) = applied_documents(outcome.actions, Manager.LAYOUT)
    return document["spec"]


# a GPU without a layout


def test_a_gpu_that_no_layout_selects_is_made_whole() -> None:
    elsewhere = layout("l", "7x1g.10gb", select={"node_names": ("another",)})
    (action,) = orphans.reconcile(everything(gpu(), elsewhere), "n1-gpu-0").actions
    assert isinstance(action, Apply)
    assert action.document["spec"] == {
        "instances": [{"profile": "whole", "start": 0}],
        "migMode": "Disabled",
    }


def test_a_gpu_of_a_layout_or_a_user_is_not_changed() -> None:
    by_hand = gpu()
    by_hand = replace(by_hand, spec=by_hand.spec.model_copy(update={"mig_mode": MigMode.ENABLED}))
    for seen in (
        everything(whole()),
        everything(gpu(), layout("l", "7x1g.10gb")),
        everything(by_hand),
    ):
        assert orphans.reconcile(seen, "n1-gpu-0").actions == ()


def test_a_gpu_that_is_being_released_is_not_made_whole() -> None:
    seen = world(node(), pool(count=1), gpu(index=1))
    assert orphans.reconcile(seen, "n1-gpu-1").actions == ()


# how a layout divides it


def test_a_spare_gpu_is_divided_at_once_and_makes_nothing_unavailable() -> None:
    spare = [whole(index) for index in range(4)]
    seen = everything(*spare, layout("l", "7x1g.10gb"))
    outcome = decide(seen)
    assert len(written_instances(outcome)) == 4  # maxUnavailable is 1
    for document in applied_documents(outcome.actions, Manager.LAYOUT):
        assert document["spec"]["migMode"] == "Enabled"
        assert document["metadata"]["annotations"][LAST_APPLIED] == WHOLE
        assert document["metadata"]["annotations"][WAS_SPARE] == "true"


def test_gpus_that_pods_hold_are_drained_one_after_the_other() -> None:
    held = [whole(index, f"team/train-{index}") for index in range(3)]
    outcome = decide(everything(*held, layout("l", "7x1g.10gb")))
    assert list(written_instances(outcome)) == ["n1-gpu-0"]
    assert condition(outcome.actions, "Ready")[:2] == ("False", "SliceInUse")
    assert "whole@0 is held by pod team/train-0" in condition(outcome.actions, "Ready")[2]
    states = {g["name"]: g["state"] for g in status(outcome)["gpus"]}
    assert states == {"n1-gpu-0": "Waiting", "n1-gpu-1": "Pending", "n1-gpu-2": "Pending"}


def test_a_gpu_that_was_drained_stays_unavailable_until_it_is_divided() -> None:
    """Its pod has ended, but its slices do not exist yet: the next GPU waits for its turn."""
    first = gpu(
        want=SEVEN,
        layout="l",
        have=[],
        generation=2,
        seen=1,
        annotations={LAST_APPLIED: WHOLE},
    )
    second = whole(1, "team/train-1")
    seen = everything(first, second, layout("l", "7x1g.10gb"))
    assert written_instances(decide(seen)) == {}
    spared = replace(
        first, meta=replace(first.meta, annotations={**first.meta.annotations, WAS_SPARE: "true"})
    )
    seen = everything(spared, second, layout("l", "7x1g.10gb"))
    assert list(written_instances(decide(seen))) == ["n1-gpu-1"]


def test_a_change_past_its_deadline_restores_the_whole_gpu() -> None:
    begun = (NOW - datetime.timedelta(seconds=601)).isoformat()
    stuck = gpu(
        want=SEVEN,
        layout="l",
        have=[mig_slice(WHOLE, "team/train", withdrawing=True)],
        annotations={LAST_APPLIED: WHOLE, "gpu.tessera.dev/changed-at": begun},
    )
    outcome = decide(everything(stuck, layout("l", "7x1g.10gb")))
    assert spec_written(outcome) == {
        "instances": [{"profile": "whole", "start": 0}],
        "layout": "l",
        "migMode": "Disabled",
    }
    assert condition(outcome.actions, "Degraded")[:2] == ("True", "DeadlineExceeded")
    assert "rolled back to whole@0" in condition(outcome.actions, "Degraded")[2]


def test_a_layout_may_keep_a_gpu_whole() -> None:
    outcome = decide(everything(whole(), layout("l", "whole")))
    assert spec_written(outcome)["migMode"] == "Disabled"
    follows = whole(layout="l")
    outcome = decide(everything(follows, layout("l", "whole")))
    assert condition(outcome.actions, "Ready")[:2] == ("True", "Reconciled")
    assert written_instances(outcome) == {}


@pytest.mark.parametrize("requests", [("2xwhole",), ("whole", "1g.10gb"), ("7g.80gb", "whole")])
def test_a_whole_gpu_excludes_other_instances(requests: tuple[str, ...]) -> None:
    outcome = decide(everything(whole(), layout("l", *requests)))
    assert condition(outcome.actions, "Accepted")[:2] == ("False", "NotPlaceable")
    assert written_instances(outcome) == {}


# how it is offered


def strategy_world(strategy: Strategy, *gpus: Gpu, **of_node: Any) -> World:
    seen = world(node(**of_node), pool(), *gpus)
    return replace(seen, chart_policy=ChartPolicy(GPUPolicySpec(strategy=strategy)))


@pytest.mark.parametrize(
    ("labels", "strategy", "problem"),
    [
        ({}, "single", ""),
        ({"gpu.tessera.dev/mig.strategy.config": "none"}, "none", ""),
        (
            {"gpu.tessera.dev/mig.strategy.config": "twofold"},
            "single",
            "mig.strategy.config=twofold",
        ),
        ({"nvidia.com/mig.strategy.config": "none"}, "single", ""),
    ],
)
def test_a_node_s_label_overrides_the_policy(
    labels: dict[str, str], strategy: str, problem: str
) -> None:
    labels = {"gpu": "yes", **labels}
    seen = strategy_world(Strategy.SINGLE, whole(), labels=labels)
    outcome = pools.reconcile(seen, "p", CONFIG, "tessera-system", NOW)
    (labelled,) = applied_documents(outcome.actions, Manager.LABELS)
    said = labelled["metadata"]["labels"].get("gpu.tessera.dev/mig.strategy", "none")
    assert said == strategy
    (made,) = [
        d for d in applied_documents(outcome.actions, Manager.CHILDREN) if d["kind"] == "GPU"
    ]
    assert made["spec"]["migStrategy"] == strategy
    ready = condition(outcome.actions, "Ready")
    assert problem in ready[2]
    assert (ready[1] == "InvalidSpec") == bool(problem)


def test_a_withdrawn_whole_gpu_is_not_allocatable() -> None:
    leaving = gpu(want=SEVEN, have=[mig_slice(WHOLE, withdrawing=True)])
    seen = world(node(allocatable={RESOURCE: "1"}, capacity={RESOURCE: "1"}), pool(), leaving)
    (patch,) = extended_resources.reconcile(seen, "n1", 0.0).actions
    assert isinstance(patch, PatchNode)
    assert {"op": "replace", "path": "/status/allocatable/gpu.tessera.dev~1gpu", "value": "0"} in (
        patch.operations
    )


def test_a_layout_does_not_wait_for_slices_that_the_strategy_does_not_offer() -> None:
    unoffered = mig_slice("1g.10gb@0").model_copy(update={"resource": ""})
    seen = world(node(), pool(), gpu(want=["1g.10gb@0"], have=[unoffered]))
    assert offers.explain_late_offer(seen, seen.nodes["n1"], [unoffered]) == ""
    assert offers.count_active(seen, seen.nodes["n1"]) == {}


def test_a_slice_allocated_under_another_strategy_does_not_count_as_offered() -> None:
    """The kubelet does not list the former name any more, so the operator must not wait for it."""
    held = mig_slice("1g.10gb@0", "team/train").model_copy(update={"resource": RESOURCE})
    seen = world(node(), pool(), gpu(want=["1g.10gb@0"], have=[held]))
    assert offers.explain_late_offer(seen, seen.nodes["n1"], [held]) == ""
    free = held.model_copy(update={"holders": ()})
    seen = world(node(), pool(), gpu(want=["1g.10gb@0"], have=[free]))
    assert f"still offers {RESOURCE}" in offers.explain_late_offer(seen, seen.nodes["n1"], [free])
