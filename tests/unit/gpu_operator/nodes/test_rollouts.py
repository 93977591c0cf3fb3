"""How a layout is rolled out to many GPUs: deadlines, rollbacks and limits."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_operator.api.v1alpha1 import CHANGED_AT, LAST_APPLIED, ROLLED_BACK, ROLLED_BACK_WHY
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import plans, targets
from gpu_operator.controllers.layouts.decisions import PORTION
from gpu_operator.kube.actions import Manager
from mig import planner
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
from support.worlds.layout_world import (
    HALVES,
    SEVEN,
    changing,
    decide,
    everything,
    status,
    written_instances,
)


def test_past_the_deadline_the_previous_slices_are_restored() -> None:
    held = changing(
        mig_slice("1g.10gb@6", "default/x", withdrawing=True),
        want=HALVES,
        before=SEVEN,
        since_s=601,
    )
    desired = layout("l", "2x3g.40gb", generation=4)
    outcome = decide(everything(held, desired))
    assert written_instances(outcome) == {"n1-gpu-0": SEVEN}
    (document,) = applied_documents(outcome.actions, Manager.LAYOUT)
    assert document["metadata"]["annotations"][ROLLED_BACK] == "uid-l/4"
    result, reason, message = condition(outcome.actions, "Degraded")
    assert (result, reason) == ("True", "DeadlineExceeded")
    assert "default/x" in message


def test_a_later_change_of_other_settings_causes_no_rollback() -> None:
    """For sharing, faults or a budget: the agent lags for a moment, but the slices stay."""
    have = [mig_slice(one) for one in HALVES]
    done = changing(*have, want=HALVES, before=SEVEN, since_s=9000, generation=3, seen=2)
    outcome = decide(everything(done, layout("l", "2x3g.40gb")))
    assert written_instances(outcome) == {}
    assert condition(outcome.actions, "Ready")[:2] == ("False", "WaitingForAgent")
    assert condition(outcome.actions, "Degraded")[0] == "False"


@pytest.mark.parametrize(("since_s", "back"), [(599.5, {}), (600, {"n1-gpu-0": SEVEN})])
def test_a_change_is_not_rolled_back_before_its_deadline(
    since_s: float, back: dict[str, list[str]]
) -> None:
    held = changing(
        mig_slice("1g.10gb@6", "default/x", withdrawing=True),
        want=HALVES,
        before=SEVEN,
        since_s=since_s,
    )
    assert written_instances(decide(everything(held, layout("l", "2x3g.40gb")))) == back


@pytest.mark.parametrize("ahead_s", [1, 86400, 10**11])
def test_a_change_that_begins_in_the_future_is_reset_to_now(ahead_s: int) -> None:
    """An operator's clock was set back, or an earlier one's was fast: the deadline still
    applies.
    """
    held = changing(
        mig_slice("1g.10gb@6", "default/x", withdrawing=True),
        want=HALVES,
        before=SEVEN,
        since_s=-ahead_s,
    )
    outcome = decide(everything(held, layout("l", "2x3g.40gb")))
    assert written_instances(outcome) == {"n1-gpu-0": HALVES}
    (document,) = applied_documents(outcome.actions, Manager.LAYOUT)
    noted = document["metadata"]["annotations"]
    assert noted == {CHANGED_AT: NOW.isoformat(), LAST_APPLIED: ",".join(SEVEN)}
    began = replace(held, meta=replace(held.meta, annotations=held.meta.annotations | noted))
    assert written_instances(decide(everything(began, layout("l", "2x3g.40gb")))) == {}


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01T00:00:00", ""])
def test_an_invalid_annotation_is_ignored(text: str) -> None:
    broken = gpu(want=SEVEN, layout="l", generation=2, seen=1, annotations={CHANGED_AT: text})
    outcome = decide(everything(broken, layout("l", "7x1g.10gb")))
    assert condition(outcome.actions, "Progressing")[:2] == ("True", "Applying")


def test_a_rolled_back_gpu_stays_so_until_the_layout_is_edited() -> None:
    have = [mig_slice(s) for s in SEVEN]
    back = gpu(want=SEVEN, layout="l", have=have, annotations={ROLLED_BACK: "uid-l/4"})
    same = decide(everything(back, layout("l", "2x3g.40gb", generation=4)))
    assert written_instances(same) == {}
    assert condition(same.actions, "Degraded")[:2] == ("True", "DeadlineExceeded")
    edited = decide(everything(back, layout("l", "2x3g.40gb", generation=5)))
    assert written_instances(edited) == {"n1-gpu-0": HALVES}


def test_a_rollback_stops_the_rollout() -> None:
    have = [mig_slice(s) for s in SEVEN]
    back = gpu(want=SEVEN, layout="l", have=have, annotations={ROLLED_BACK: "uid-l/1"})
    other = gpu(index=1, want=SEVEN, layout="l", have=have)
    outcome = decide(everything(back, other, layout("l", "2x3g.40gb")))
    assert written_instances(outcome) == {}
    assert "the rollout has stopped" in status(outcome)["gpus"][1]["message"]


@pytest.mark.parametrize(("limit", "begun"), [(1, 1), (2, 2), (5, 3)])
def test_no_more_gpus_than_allowed_lose_slices_at_a_time(limit: int, begun: int) -> None:
    have = [mig_slice(s) for s in SEVEN]
    gpus = [gpu(index=i, want=SEVEN, layout="l", have=have) for i in range(3)]
    desired = layout("l", "2x3g.40gb", rollout={"max_unavailable": limit})
    outcome = decide(everything(*gpus, desired))
    assert list(written_instances(outcome)) == [f"n1-gpu-{i}" for i in range(begun)]


def test_a_changing_gpu_counts_as_unavailable() -> None:
    have = [mig_slice(s) for s in SEVEN]
    moving = changing(*have, want=HALVES, before=SEVEN, generation=2, seen=1)
    other = gpu(index=1, want=SEVEN, layout="l", have=have)
    assert written_instances(decide(everything(moving, other, layout("l", "2x3g.40gb")))) == {}


def test_empty_gpus_do_not_wait_for_their_turn() -> None:
    gpus = [gpu(index=i) for i in range(4)]
    assert len(written_instances(decide(everything(*gpus, layout("l", "7x1g.10gb"))))) == 4


def test_the_gpu_records_why_it_was_rolled_back() -> None:
    """The layout's own status may be lost, truncated or written by another version."""
    have = [mig_slice(s) for s in SEVEN]
    noted = {ROLLED_BACK: "uid-l/4", ROLLED_BACK_WHY: "1g.10gb@6 is held by pod default/x"}
    back = gpu(want=SEVEN, layout="l", have=have, annotations=noted)
    outcome = decide(everything(back, layout("l", "2x3g.40gb", generation=4)))
    assert "held by pod default/x" in condition(outcome.actions, "Degraded")[2]


def test_a_rollback_prevents_earlier_gpus_from_beginning() -> None:
    have = [mig_slice(s) for s in SEVEN]
    first = gpu(index=0, want=SEVEN, layout="l", have=have)
    late = changing(*have, want=HALVES, before=SEVEN, since_s=601, index=1, generation=2, seen=1)
    desired = layout("l", "2x3g.40gb", rollout={"max_unavailable": 5})
    outcome = decide(everything(first, late, desired))
    assert written_instances(outcome) == {"n1-gpu-1": SEVEN}
    assert "the rollout has stopped" in status(outcome)["gpus"][0]["message"]


def a_busy_fleet(nodes: int, limit: int) -> World:
    """Return eight GPUs on each node, all slices in use, and a layout that requests others."""
    gpus = [
        gpu(
            f"n{number}",
            index,
            want=SEVEN,
            layout="l",
            have=[mig_slice(s, f"default/{number}-{index}-{s[-1]}") for s in SEVEN],
        )
        for number in range(nodes)
        for index in range(8)
    ]
    desired = layout("l", "2x3g.40gb", rollout={"max_unavailable": limit})
    return world(*(node(f"n{number}") for number in range(nodes)), pool(count=8), *gpus, desired)


@pytest.mark.parametrize("limit", [1, 3])
def test_a_fleet_is_planned_only_where_a_change_can_begin(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    seen = a_busy_fleet(200, limit)
    calls: list[Any] = []
    choose = plans.choose
    monkeypatch.setattr(plans, "choose", lambda *args: calls.append(args) or choose(*args))
    outcome = decide(seen)
    assert len(written_instances(outcome)) == limit
    assert len(calls) == limit


@pytest.mark.parametrize("busy", [False, True], ids=["whole GPUs", "busy GPUs"])
def test_a_pass_begins_a_limited_number_of_changes(busy: bool) -> None:
    """The layout's status is written after its GPUs, so a pass must not write thousands."""
    nodes = 2 * PORTION // 8 + 1
    whole = [gpu(f"n{number}", index) for number in range(nodes) for index in range(8)]
    those = [node(f"n{number}") for number in range(nodes)]
    desired = layout("l", "7x1g.10gb")
    seen = a_busy_fleet(nodes, 9999) if busy else world(*those, pool(count=8), *whole, desired)
    begun: dict[str, list[str]] = {}
    for portion in (PORTION, PORTION, 8):
        outcome = decide(seen)
        now = written_instances(outcome)
        assert len(now) == portion
        assert not begun.keys() & now.keys()
        assert (outcome.again_in_s == 0.0) == (portion == PORTION)
        begun |= now
        seen = replace(
            seen, gpus={**seen.gpus, **{n: _with_new_instances(seen.gpus[n], now[n]) for n in now}}
        )
    assert len(begun) == 8 * nodes
    assert written_instances(decide(seen)) == {}


def _with_new_instances(one: Gpu, places: list[str]) -> Gpu:
    """Return a GPU whose spec has just been changed to these instances."""
    before = [str(s.place) for s in one.status.slices]
    where: dict[str, Any] = {"on": one.spec.node_name, "index": one.spec.index}
    found: Gpu = changing(
        *one.status.slices, want=places, before=before, generation=2, seen=1, **where
    )
    return found


def test_gpus_that_are_alike_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plans._choose_places.cache_clear()
    seen = a_busy_fleet(4, limit=32)
    calls: list[Any] = []
    relayout = planner.relayout

    def count_relayout(*args: Any, **more: Any) -> Any:
        calls.append(args)
        return relayout(*args, **more)

    monkeypatch.setattr(planner, "relayout", count_relayout)
    decide(seen)
    for_one = len(calls)
    assert for_one > 0
    plans._choose_places.cache_clear()
    calls.clear()
    decide(a_busy_fleet(1, limit=1))
    assert len(calls) == for_one


def test_an_impossible_layout_is_planned_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = a_busy_fleet(4, limit=1)
    impossible = layout("l", "8x1g.10gb", generation=7)
    seen = world(*seen.nodes.values(), *seen.pools.values(), *seen.gpus.values(), impossible)
    calls: list[Any] = []
    diff = planner.diff
    monkeypatch.setattr(planner, "diff", lambda *args: calls.append(args) or diff(*args))
    targets.resolve_target.cache_clear()
    assert condition(decide(seen).actions, "Accepted")[1] == "NotPlaceable"
    assert len(calls) == 1
