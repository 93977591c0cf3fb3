"""How a layout reaches many GPUs: deadlines, rollbacks, how many at a time."""

import pytest
from gpu_world import (
    applied,
    condition,
    gpu,
    layout,
    mig_slice,
)
from layout_world import HALVES, SEVEN, changing, decide, everything, status, written

from gpu_operator.api.v1alpha1 import CHANGED_AT, ROLLED_BACK
from gpu_operator.kube.actions import Manager


def test_past_the_deadline_the_last_slices_come_back() -> None:
    held = changing(
        mig_slice("1g.10gb@6", "default/x", withdrawing=True),
        want=HALVES,
        before=SEVEN,
        since_s=601,
    )
    wish = layout("l", "2x3g.40gb", generation=4)
    outcome = decide(everything(held, wish))
    assert written(outcome) == {"n1-gpu-0": SEVEN}
    (document,) = applied(outcome.actions, Manager.LAYOUT)
    assert document["metadata"]["annotations"][ROLLED_BACK] == "uid-l/4"
    result, reason, message = condition(outcome.actions, "Degraded")
    assert (result, reason) == ("True", "DeadlineExceeded")
    assert "default/x" in message


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01T00:00:00", ""])
def test_a_broken_annotation_stops_nothing(text: str) -> None:
    broken = gpu(want=SEVEN, layout="l", generation=2, seen=1, annotations={CHANGED_AT: text})
    outcome = decide(everything(broken, layout("l", "7x1g.10gb")))
    assert condition(outcome.actions, "Progressing")[:2] == ("True", "Applying")


def test_what_was_rolled_back_stays_so_until_the_layout_is_edited() -> None:
    have = [mig_slice(s) for s in SEVEN]
    back = gpu(want=SEVEN, layout="l", have=have, annotations={ROLLED_BACK: "uid-l/4"})
    same = decide(everything(back, layout("l", "2x3g.40gb", generation=4)))
    assert written(same) == {}
    assert condition(same.actions, "Degraded")[:2] == ("True", "DeadlineExceeded")
    edited = decide(everything(back, layout("l", "2x3g.40gb", generation=5)))
    assert written(edited) == {"n1-gpu-0": HALVES}


def test_a_rollback_stops_the_rollout() -> None:
    have = [mig_slice(s) for s in SEVEN]
    back = gpu(want=SEVEN, layout="l", have=have, annotations={ROLLED_BACK: "uid-l/1"})
    other = gpu(index=1, want=SEVEN, layout="l", have=have)
    outcome = decide(everything(back, other, layout("l", "2x3g.40gb")))
    assert written(outcome) == {}
    assert "the rollout has stopped" in status(outcome)["gpus"][1]["message"]


@pytest.mark.parametrize(("limit", "begun"), [(1, 1), (2, 2), (5, 3)])
def test_no_more_gpus_than_allowed_lose_slices_at_a_time(limit: int, begun: int) -> None:
    have = [mig_slice(s) for s in SEVEN]
    gpus = [gpu(index=i, want=SEVEN, layout="l", have=have) for i in range(3)]
    wish = layout("l", "2x3g.40gb", rollout={"max_unavailable": limit})
    outcome = decide(everything(*gpus, wish))
    assert list(written(outcome)) == [f"n1-gpu-{i}" for i in range(begun)]


def test_a_gpu_on_its_way_counts_as_unavailable() -> None:
    have = [mig_slice(s) for s in SEVEN]
    moving = changing(*have, want=HALVES, before=SEVEN, generation=2, seen=1)
    other = gpu(index=1, want=SEVEN, layout="l", have=have)
    assert written(decide(everything(moving, other, layout("l", "2x3g.40gb")))) == {}


def test_empty_gpus_do_not_wait_for_their_turn() -> None:
    gpus = [gpu(index=i) for i in range(4)]
    assert len(written(decide(everything(*gpus, layout("l", "7x1g.10gb"))))) == 4
