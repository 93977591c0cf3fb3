"""GPUs with MIG off: what is so by default, and how a layout divides one and gives it back."""

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
    applied,
    condition,
    gpu,
    layout,
    mig_slice,
    node,
    pool,
    world,
)
from support.worlds.layout_world import SEVEN, decide, everything, status, written
from support.worlds.pool_world import CONFIG

WHOLE = "whole@0"
RESOURCE = "gpu.tessera.dev/gpu"


def whole(index: int = 0, *pods: str, **changes: Any) -> Gpu:
    """A GPU that is whole, and held by these pods."""
    have = [mig_slice(WHOLE, *pods)]
    return gpu(index=index, **{"want": [WHOLE], "have": have, **changes})


def spec_written(outcome: Outcome) -> dict[str, Any]:
    (document,) = applied(outcome.actions, Manager.LAYOUT)
    return document["spec"]


# what a GPU is without a layout


def test_a_gpu_that_no_layout_selects_is_made_whole() -> None:
    elsewhere = layout("l", "7x1g.10gb", select={"node_names": ("another",)})
    (action,) = orphans.reconcile(everything(gpu(), elsewhere), "n1-gpu-0").actions
    assert isinstance(action, Apply)
    assert action.document["spec"] == {
        "instances": [{"profile": "whole", "start": 0}],
        "migMode": "Disabled",
    }


def test_a_gpu_is_left_as_it_is_where_a_layout_or_a_person_decides() -> None:
    by_hand = gpu()
    by_hand = replace(by_hand, spec=by_hand.spec.model_copy(update={"mig_mode": MigMode.ENABLED}))
    for seen in (
        everything(whole()),
        everything(gpu(), layout("l", "7x1g.10gb")),
        everything(by_hand),
    ):
        assert orphans.reconcile(seen, "n1-gpu-0").actions == ()


def test_a_gpu_on_its_way_out_is_not_made_whole_again() -> None:
    seen = world(node(), pool(count=1), gpu(index=1))
    assert orphans.reconcile(seen, "n1-gpu-1").actions == ()


# how a layout divides it


def test_a_spare_gpu_is_divided_at_once_and_makes_nothing_unavailable() -> None:
    spare = [whole(index) for index in range(4)]
    seen = everything(*spare, layout("l", "7x1g.10gb"))
    outcome = decide(seen)
    assert len(written(outcome)) == 4  # maxUnavailable is 1
    for document in applied(outcome.actions, Manager.LAYOUT):
        assert document["spec"]["migMode"] == "Enabled"
        assert document["metadata"]["annotations"][LAST_APPLIED] == WHOLE
        assert document["metadata"]["annotations"][WAS_SPARE] == "true"


def test_gpus_that_pods_hold_are_drained_one_after_the_other() -> None:
    held = [whole(index, f"team/train-{index}") for index in range(3)]
    outcome = decide(everything(*held, layout("l", "7x1g.10gb")))
    assert list(written(outcome)) == ["n1-gpu-0"]
    assert condition(outcome.actions, "Ready")[:2] == ("False", "SliceInUse")
    assert "whole@0 is held by pod team/train-0" in condition(outcome.actions, "Ready")[2]
    states = {g["name"]: g["state"] for g in status(outcome)["gpus"]}
    assert states == {"n1-gpu-0": "Waiting", "n1-gpu-1": "Pending", "n1-gpu-2": "Pending"}


def test_a_gpu_that_was_drained_stays_unavailable_until_it_is_divided() -> None:
    """Its pod has gone, and its slices are not there yet: the next one waits for its turn."""
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
    assert written(decide(seen)) == {}
    spared = replace(
        first, meta=replace(first.meta, annotations={**first.meta.annotations, WAS_SPARE: "true"})
    )
    seen = everything(spared, second, layout("l", "7x1g.10gb"))
    assert list(written(decide(seen))) == ["n1-gpu-1"]


def test_what_is_not_done_in_time_gives_the_whole_gpu_back() -> None:
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
    assert written(outcome) == {}


@pytest.mark.parametrize("requests", [("2xwhole",), ("whole", "1g.10gb"), ("7g.80gb", "whole")])
def test_nothing_is_beside_a_whole_gpu(requests: tuple[str, ...]) -> None:
    outcome = decide(everything(whole(), layout("l", *requests)))
    assert condition(outcome.actions, "Accepted")[:2] == ("False", "NotPlaceable")
    assert written(outcome) == {}


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
def test_a_nodes_label_says_otherwise_than_the_policy(
    labels: dict[str, str], strategy: str, problem: str
) -> None:
    labels = {"gpu": "yes", **labels}
    seen = strategy_world(Strategy.SINGLE, whole(), labels=labels)
    outcome = pools.reconcile(seen, "p", CONFIG, "tessera-system", NOW)
    (labelled,) = applied(outcome.actions, Manager.LABELS)
    said = labelled["metadata"]["labels"].get("gpu.tessera.dev/mig.strategy", "none")
    assert said == strategy
    (made,) = [d for d in applied(outcome.actions, Manager.CHILDREN) if d["kind"] == "GPU"]
    assert made["spec"]["migStrategy"] == strategy
    ready = condition(outcome.actions, "Ready")
    assert problem in ready[2]
    assert (ready[1] == "InvalidSpec") == bool(problem)


def test_a_whole_gpu_that_goes_is_no_longer_allocatable() -> None:
    leaving = gpu(want=SEVEN, have=[mig_slice(WHOLE, withdrawing=True)])
    seen = world(node(allocatable={RESOURCE: "1"}, capacity={RESOURCE: "1"}), pool(), leaving)
    (patch,) = extended_resources.reconcile(seen, "n1", 0.0).actions
    assert isinstance(patch, PatchNode)
    assert {"op": "replace", "path": "/status/allocatable/gpu.tessera.dev~1gpu", "value": "0"} in (
        patch.operations
    )


def test_slices_that_the_strategy_does_not_offer_are_waited_for_by_nobody() -> None:
    unoffered = mig_slice("1g.10gb@0").model_copy(update={"resource": ""})
    seen = world(node(), pool(), gpu(want=["1g.10gb@0"], have=[unoffered]))
    assert offers.late(seen, seen.nodes["n1"], [unoffered]) == ""
    assert offers.active(seen, seen.nodes["n1"]) == {}


def test_a_slice_that_a_pod_got_by_another_strategy_is_not_counted_as_offered() -> None:
    """The kubelet lists nothing by that name any more, and nobody waits that it does."""
    held = mig_slice("1g.10gb@0", "team/train").model_copy(update={"resource": RESOURCE})
    seen = world(node(), pool(), gpu(want=["1g.10gb@0"], have=[held]))
    assert offers.late(seen, seen.nodes["n1"], [held]) == ""
    free = held.model_copy(update={"holders": ()})
    seen = world(node(), pool(), gpu(want=["1g.10gb@0"], have=[free]))
    assert f"offers {RESOURCE} yet" in offers.late(seen, seen.nodes["n1"], [free])
