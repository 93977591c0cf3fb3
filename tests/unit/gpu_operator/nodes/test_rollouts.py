"""How a layout reaches many GPUs: deadlines, rollbacks, how many at a time."""

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
    applied,
    condition,
    gpu,
    layout,
    mig_slice,
    node,
    pool,
    world,
)
from support.worlds.layout_world import HALVES, SEVEN, changing, decide, everything, status, written


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


def test_what_else_a_gpu_is_told_long_after_its_change_rolls_nothing_back() -> None:
    """A policy's sharing, a fault, a budget: the agent is behind for a moment, the slices stay."""
    have = [mig_slice(one) for one in HALVES]
    done = changing(*have, want=HALVES, before=SEVEN, since_s=9000, generation=3, seen=2)
    outcome = decide(everything(done, layout("l", "2x3g.40gb")))
    assert written(outcome) == {}
    assert condition(outcome.actions, "Ready")[:2] == ("False", "WaitingForAgent")
    assert condition(outcome.actions, "Degraded")[0] == "False"


@pytest.mark.parametrize(("since_s", "back"), [(599.5, {}), (600, {"n1-gpu-0": SEVEN})])
def test_a_change_has_all_of_its_time(since_s: float, back: dict[str, list[str]]) -> None:
    held = changing(
        mig_slice("1g.10gb@6", "default/x", withdrawing=True),
        want=HALVES,
        before=SEVEN,
        since_s=since_s,
    )
    assert written(decide(everything(held, layout("l", "2x3g.40gb")))) == back


@pytest.mark.parametrize("ahead_s", [1, 86400, 10**11])
def test_a_change_that_was_dated_by_a_clock_ahead_is_dated_anew(ahead_s: int) -> None:
    """An operator's clock was set back, or the one before it had another: the deadline is kept."""
    held = changing(
        mig_slice("1g.10gb@6", "default/x", withdrawing=True),
        want=HALVES,
        before=SEVEN,
        since_s=-ahead_s,
    )
    outcome = decide(everything(held, layout("l", "2x3g.40gb")))
    assert written(outcome) == {"n1-gpu-0": HALVES}
    (document,) = applied(outcome.actions, Manager.LAYOUT)
    noted = document["metadata"]["annotations"]
    assert noted == {CHANGED_AT: NOW.isoformat(), LAST_APPLIED: ",".join(SEVEN)}
    began = replace(held, meta=replace(held.meta, annotations=held.meta.annotations | noted))
    assert written(decide(everything(began, layout("l", "2x3g.40gb")))) == {}


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


def test_why_a_gpu_was_rolled_back_is_remembered_by_the_gpu() -> None:
    """The layout's own status may be lost, cut or written by another version."""
    have = [mig_slice(s) for s in SEVEN]
    noted = {ROLLED_BACK: "uid-l/4", ROLLED_BACK_WHY: "1g.10gb@6 is held by pod default/x"}
    back = gpu(want=SEVEN, layout="l", have=have, annotations=noted)
    outcome = decide(everything(back, layout("l", "2x3g.40gb", generation=4)))
    assert "held by pod default/x" in condition(outcome.actions, "Degraded")[2]


def test_a_rollback_underway_lets_no_gpu_begin_that_comes_before_it() -> None:
    have = [mig_slice(s) for s in SEVEN]
    first = gpu(index=0, want=SEVEN, layout="l", have=have)
    late = changing(*have, want=HALVES, before=SEVEN, since_s=601, index=1, generation=2, seen=1)
    wish = layout("l", "2x3g.40gb", rollout={"max_unavailable": 5})
    outcome = decide(everything(first, late, wish))
    assert written(outcome) == {"n1-gpu-1": SEVEN}
    assert "the rollout has stopped" in status(outcome)["gpus"][0]["message"]


def a_busy_fleet(nodes: int, limit: int) -> World:
    """Eight GPUs on each node, every slice of them in use, and a layout that wants others."""
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
    wish = layout("l", "2x3g.40gb", rollout={"max_unavailable": limit})
    return world(*(node(f"n{number}") for number in range(nodes)), pool(count=8), *gpus, wish)


@pytest.mark.parametrize("limit", [1, 3])
def test_a_fleet_is_planned_only_where_a_change_can_begin(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    seen = a_busy_fleet(200, limit)
    asked: list[Any] = []
    choose = plans.choose
    monkeypatch.setattr(plans, "choose", lambda *wish: asked.append(wish) or choose(*wish))
    outcome = decide(seen)
    assert len(written(outcome)) == limit
    assert len(asked) == limit


@pytest.mark.parametrize("busy", [False, True], ids=["whole GPUs", "busy GPUs"])
def test_a_pass_begins_a_portion_and_the_next_follows_at_once(busy: bool) -> None:
    """The layout's status is written after its GPUs', so a pass must not write thousands."""
    nodes = 2 * PORTION // 8 + 1
    whole = [gpu(f"n{number}", index) for number in range(nodes) for index in range(8)]
    those = [node(f"n{number}") for number in range(nodes)]
    wish = layout("l", "7x1g.10gb")
    seen = a_busy_fleet(nodes, 9999) if busy else world(*those, pool(count=8), *whole, wish)
    begun: dict[str, list[str]] = {}
    for portion in (PORTION, PORTION, 8):
        outcome = decide(seen)
        now = written(outcome)
        assert len(now) == portion
        assert not begun.keys() & now.keys()
        assert (outcome.again_in_s == 0.0) == (portion == PORTION)
        begun |= now
        seen = replace(seen, gpus={**seen.gpus, **{n: _asked(seen.gpus[n], now[n]) for n in now}})
    assert len(begun) == 8 * nodes
    assert written(decide(seen)) == {}


def _asked(one: Gpu, places: list[str]) -> Gpu:
    """Return a GPU that has been asked for these instances a moment ago."""
    before = [str(s.place) for s in one.status.slices]
    where: dict[str, Any] = {"on": one.spec.node_name, "index": one.spec.index}
    found: Gpu = changing(
        *one.status.slices, want=places, before=before, generation=2, seen=1, **where
    )
    return found


def test_gpus_that_are_alike_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plans._chosen.cache_clear()
    seen = a_busy_fleet(4, limit=32)
    asked: list[Any] = []
    relayout = planner.relayout

    def counted(*wish: Any, **more: Any) -> Any:
        asked.append(wish)
        return relayout(*wish, **more)

    monkeypatch.setattr(planner, "relayout", counted)
    decide(seen)
    for_one = len(asked)
    assert for_one > 0
    plans._chosen.cache_clear()
    asked.clear()
    decide(a_busy_fleet(1, limit=1))
    assert len(asked) == for_one


def test_a_layout_that_no_board_can_hold_is_worked_out_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = a_busy_fleet(4, limit=1)
    impossible = layout("l", "8x1g.10gb", generation=7)
    seen = world(*seen.nodes.values(), *seen.pools.values(), *seen.gpus.values(), impossible)
    asked: list[Any] = []
    diff = planner.diff
    monkeypatch.setattr(planner, "diff", lambda *wish: asked.append(wish) or diff(*wish))
    targets.wish.cache_clear()
    assert condition(decide(seen).actions, "Accepted")[1] == "NotPlaceable"
    assert len(asked) == 1
