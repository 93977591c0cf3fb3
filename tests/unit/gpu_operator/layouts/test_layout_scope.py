"""Which part of a layout's selection is applied, and when the scheduler can use it."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import orphans
from gpu_operator.controllers.nodes import extended_resources
from support.worlds.gpu_world import GPU_NODE, condition, gpu, layout, mig_slice, node, pool, world
from support.worlds.layout_world import (
    HALVES,
    SEVEN,
    changing,
    decide,
    everything,
    status,
    written_instances,
)


def of_board(board: str, found: Any) -> Any:
    return replace(found, spec=found.spec.model_copy(update={"board": board}))


def two_boards(*more: Any) -> World:
    """Return one GPU of each of two boards, in two pools."""
    small = of_board("a30", gpu("n2", pool="q"))
    pools = pool(), pool("q", node_selector={"a30": "yes"}, board="a30")
    return world(node(), node("n2", labels={"a30": "yes"}), *pools, gpu(), small, *more)


def test_a_board_that_cannot_hold_the_slices_is_named_and_left_alone() -> None:
    outcome = decide(two_boards(layout("l", "2x3g.40gb")))
    assert written_instances(outcome) == {"n1-gpu-0": HALVES}
    assert condition(outcome.actions, "Accepted")[:2] == ("True", "PartiallyAccepted")
    assert condition(outcome.actions, "Ready")[:2] == ("False", "NotPlaceable")
    assert condition(outcome.actions, "Progressing")[:2] == ("True", "Applying")
    for kind in ("Accepted", "Ready"):
        message = condition(outcome.actions, kind)[2]
        assert "not applied on a30 (n2-gpu-0)" in message
        assert "board a30 has no profile '3g.40gb'" in message
        assert "n1-gpu-0" not in message
    reported = {g["name"]: g["state"] for g in status(outcome)["gpus"]}
    assert reported == {"n1-gpu-0": "Applying", "n2-gpu-0": "Failed"}
    assert status(outcome)["desired"] == 4


def test_a_layout_is_applied_on_the_boards_that_can_hold_it() -> None:
    done = gpu(want=HALVES, layout="l", have=[mig_slice(s) for s in HALVES])
    small = of_board("a30", gpu("n2", pool="q"))
    seen = two_boards(layout("l", "2x3g.40gb"))
    seen = world(*seen.nodes.values(), *seen.pools.values(), *seen.layouts.values(), done, small)
    outcome = decide(seen)
    assert (status(outcome)["applied"], status(outcome)["desired"]) == (2, 4)
    assert condition(outcome.actions, "Progressing")[0] == "False"
    assert condition(outcome.actions, "Degraded")[0] == "False"
    assert condition(outcome.actions, "Ready")[:2] == ("False", "NotPlaceable")


def test_an_edit_that_one_board_cannot_hold_changes_nothing_there() -> None:
    wanted = layout("l", "1g.10gb")
    small = of_board("a30", gpu("n2", pool="q", want=["1g.6gb@0"], layout="l"))
    seen = two_boards(wanted)
    seen = world(*seen.nodes.values(), *seen.pools.values(), wanted, gpu(), small)
    outcome = decide(seen)
    assert list(written_instances(outcome)) == ["n1-gpu-0"]
    assert orphans.reconcile(seen, "n2-gpu-0").actions == ()
    assert condition(outcome.actions, "Accepted")[1] == "PartiallyAccepted"


@pytest.mark.parametrize(
    "select", [{"boards": ("h100-80gb",)}, {"node_selector": GPU_NODE}, {"pool": "p"}]
)
def test_boards_and_nodes_can_be_selected(select: dict[str, Any]) -> None:
    outcome = decide(two_boards(layout("l", "2x3g.40gb", select=select)))
    assert written_instances(outcome) == {"n1-gpu-0": HALVES}
    assert condition(outcome.actions, "Accepted")[:2] == ("True", "Accepted")


def test_an_unknown_board_in_a_selector_is_refused() -> None:
    outcome = decide(everything(gpu(), layout("l", "7x1g.10gb", select={"boards": ("h1000",)})))
    assert condition(outcome.actions, "Accepted")[:2] == ("False", "UnknownBoard")
    assert "'h1000'" in condition(outcome.actions, "Accepted")[2]
    assert "rtx-pro-6000" in condition(outcome.actions, "Accepted")[2]


def test_ready_waits_until_the_node_offers_the_slices() -> None:
    """A pod that is created once the layout is ready must find the slices on the node."""
    have = [mig_slice(s) for s in SEVEN]
    done = gpu(want=SEVEN, layout="l", have=have)
    resource = "gpu.tessera.dev/mig-1g.10gb"
    for offered, ready in (("0", "False"), ("6", "False"), ("7", "True"), ("8", "True")):
        there = node(allocatable={resource: offered})
        outcome = decide(world(there, pool(), done, layout("l", "7x1g.10gb")))
        assert condition(outcome.actions, "Ready")[0] == ready, offered
        assert (status(outcome)["applied"], status(outcome)["desired"]) == (7, 7)
    there = node(allocatable={"cpu": "1"})
    outcome = decide(world(there, pool(), done, layout("l", "7x1g.10gb")))
    assert condition(outcome.actions, "Progressing")[:2] == ("True", "WaitingForKubelet")
    assert f"node n1 offers 0 of 7 {resource} so far" in condition(outcome.actions, "Ready")[2]


def test_ready_waits_until_the_agent_has_reported_that_pods_are_admitted() -> None:
    """Until then the operator lowers resources that a fast kubelet has published too early."""
    resource = "gpu.tessera.dev/mig-1g.10gb"
    there = node(allocatable={resource: "7"})
    for admitted, ready in ((False, "False"), (True, "True")):
        have = [mig_slice(s).model_copy(update={"admitted": admitted}) for s in SEVEN]
        seen = world(
            there, pool(), gpu(want=SEVEN, layout="l", have=have), layout("l", "7x1g.10gb")
        )
        assert condition(decide(seen).actions, "Ready")[0] == ready
        assert bool(extended_resources.reconcile(seen, "n1", 0.0).actions) is not admitted


def test_ready_does_not_wait_for_the_slices_of_another_gpu_that_is_sick() -> None:
    """The kubelet offers them when that GPU is healthy again, which is not known to happen."""
    resource = "gpu.tessera.dev/mig-1g.10gb"
    done = gpu(want=SEVEN, layout="l", have=[mig_slice(s) for s in SEVEN])
    other = gpu(index=1, want=SEVEN, layout="other", have=[mig_slice(s) for s in SEVEN])
    sick = other.status.model_copy(update={"health": "Unhealthy: Xid 79"})
    one = mig_slice(SEVEN[0]).model_copy(update={"health": "Unhealthy: Xid 94"})
    partly = other.status.model_copy(update={"slices": (one, *other.status.slices[1:])})
    layouts = (
        layout("l", "7x1g.10gb", select={"indices": (0,)}),
        layout("other", "7x1g.10gb", select={"indices": (1,)}),
    )
    for status_of_other, offered in ((sick, 7), (partly, 13)):
        for late in (0, 1):
            there = node(allocatable={resource: str(offered - late)})
            beside = replace(other, status=status_of_other)
            outcome = decide(world(there, pool(count=2), done, beside, *layouts))
            ready = condition(outcome.actions, "Ready")
            assert ready[0] == ("False" if late else "True"), (offered, late, ready)


def test_a_late_kubelet_causes_no_rollback() -> None:
    late = changing(*map(mig_slice, HALVES), want=HALVES, before=SEVEN, since_s=9999)
    other = gpu(index=1, want=SEVEN, layout="l", have=[mig_slice(s) for s in SEVEN])
    there = node(allocatable={"gpu.tessera.dev/mig-1g.10gb": "7"})
    outcome = decide(world(there, pool(count=2), late, other, layout("l", "2x3g.40gb")))
    assert written_instances(outcome) == {}
    assert condition(outcome.actions, "Degraded")[0] == "False"
    assert "waits for its turn" in status(outcome)["gpus"][1]["message"]
