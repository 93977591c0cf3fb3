"""MIGLayout, one decision at a time."""

from typing import Any

import pytest

from gpu_operator.api.v1alpha1 import CHANGED_AT, LAST_APPLIED
from gpu_operator.controllers.layouts import change, orphans
from gpu_operator.kube.actions import Apply, Evict, Manager
from gpu_operator.render import gpu as gpu_render
from support.worlds.gpu_world import (
    NOW,
    agent_conditions,
    applied_documents,
    condition,
    gpu,
    instances,
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


def test_an_empty_gpu_is_filled() -> None:
    outcome = decide(everything(gpu(), layout("l", "7x1g.10gb")))
    assert written_instances(outcome) == {"n1-gpu-0": SEVEN}
    (document,) = applied_documents(outcome.actions, Manager.LAYOUT)
    assert document["spec"]["layout"] == "l"
    assert document["metadata"]["uid"] == "uid-n1-0"
    assert document["metadata"]["annotations"] == {
        CHANGED_AT: NOW.isoformat(timespec="seconds"),
        LAST_APPLIED: "",
    }
    assert condition(outcome.actions, "Ready")[:2] == ("False", "Applying")
    assert status(outcome)["desired"] == 7


def test_nothing_is_written_before_the_agent_s_first_report() -> None:
    outcome = decide(everything(gpu(reported=False), layout("l", "7x1g.10gb")))
    assert written_instances(outcome) == {}
    assert condition(outcome.actions, "Ready")[:2] == ("False", "WaitingForAgent")


def test_ready_requires_that_the_agent_reports_exactly_those_slices() -> None:
    have = [mig_slice(s) for s in SEVEN]
    outcome = decide(everything(gpu(want=SEVEN, layout="l", have=have), layout("l", "7x1g.10gb")))
    assert written_instances(outcome) == {}
    assert condition(outcome.actions, "Ready")[:2] == ("True", "Reconciled")
    assert (status(outcome)["applied"], status(outcome)["desired"]) == (7, 7)


@pytest.mark.parametrize(
    "unsettled",
    [
        gpu(want=SEVEN, layout="l", have=[mig_slice(s) for s in SEVEN], generation=2, seen=1),
        gpu(
            want=SEVEN,
            layout="l",
            have=[mig_slice(s) for s in SEVEN[:6]],
            conditions=agent_conditions(ready=("False", "Applying", "")),
        ),
        gpu(
            want=HALVES[:1],
            layout="l",
            have=[mig_slice("3g.40gb@0"), mig_slice("1g.10gb@6", withdrawing=True)],
            conditions=agent_conditions(ready=("False", "Applying", "")),
        ),
    ],
    ids=["agent is behind", "slice missing", "slice not gone"],
)
def test_a_layout_is_not_ready_before_that_report(unsettled: Any) -> None:
    desired = "3g.40gb" if unsettled.spec.instances[0].profile == "3g.40gb" else "7x1g.10gb"
    outcome = decide(everything(unsettled, layout("l", desired)))
    assert condition(outcome.actions, "Ready")[0] == "False"
    assert condition(outcome.actions, "Ready")[1] in ("Applying", "WaitingForAgent")
    assert written_instances(outcome) == {}


def test_a_false_report_of_completion_is_detected() -> None:
    wrong = gpu(want=SEVEN, layout="l", have=[mig_slice("7g.80gb@0")])
    outcome = decide(everything(wrong, layout("l", "7x1g.10gb")))
    assert condition(outcome.actions, "Degraded")[:2] == ("True", "VerificationFailed")
    assert "7g.80gb@0" in condition(outcome.actions, "Ready")[2]


def test_slices_in_use_are_kept_where_they_fit() -> None:
    have = [mig_slice("1g.10gb@6", "default/x"), *(mig_slice(s) for s in SEVEN[:6])]
    outcome = decide(
        everything(gpu(want=SEVEN, layout="l", have=have), layout("l", "3g.40gb", "1g.10gb"))
    )
    assert written_instances(outcome) == {"n1-gpu-0": ["3g.40gb@0", "1g.10gb@6"]}


def test_a_blocking_slice_is_withdrawn_and_its_pod_named() -> None:
    have = [mig_slice("1g.10gb@6", "default/x"), *(mig_slice(s) for s in SEVEN[:6])]
    outcome = decide(everything(gpu(want=SEVEN, layout="l", have=have), layout("l", "2x3g.40gb")))
    assert written_instances(outcome) == {"n1-gpu-0": HALVES}
    result, reason, message = condition(outcome.actions, "Progressing")
    assert (result, reason) == ("True", "SliceInUse")
    assert "pod default/x" in message


def test_as_few_held_slices_as_possible_are_removed() -> None:
    """3g needs one half of the GPU: it takes the half with one pod, not the one with three."""
    have = [mig_slice(f"1g.10gb@{i}", f"default/x{i}") for i in (0, 1, 2, 5)]
    outcome = decide(everything(gpu(have=have), layout("l", "3g.40gb", "3x1g.10gb")))
    assert written_instances(outcome) == {
        "n1-gpu-0": ["1g.10gb@0", "1g.10gb@1", "1g.10gb@2", "3g.40gb@4"]
    }


def test_a_blocking_pod_is_named_before_the_agent_acts() -> None:
    have = [mig_slice("1g.10gb@6", "default/x"), *(mig_slice(s) for s in SEVEN[:6])]
    behind = changing(*have, want=HALVES, before=SEVEN, generation=2, seen=1)
    outcome = decide(everything(behind, layout("l", "2x3g.40gb")))
    assert condition(outcome.actions, "Ready")[:2] == ("False", "SliceInUse")


def test_waiting_slices_are_counted() -> None:
    held = changing(
        mig_slice("3g.40gb@0"),
        mig_slice("1g.10gb@6", "default/x", withdrawing=True),
        want=HALVES,
        before=SEVEN,
    )
    outcome = decide(everything(held, layout("l", "2x3g.40gb")))
    assert status(outcome)["waiting"] == 1
    assert status(outcome)["applied"] == 1
    assert condition(outcome.actions, "Ready")[1] == "SliceInUse"
    assert "n1-gpu-0: 1g.10gb@6 is held by pod default/x" in condition(outcome.actions, "Ready")[2]
    assert outcome.again_in_s == 600 - 10 + 0.5
    assert not any(isinstance(a, Evict) for a in outcome.actions)


@pytest.mark.parametrize(
    ("desired", "word"),
    [
        ("2x4g.40gb", "4g.40gb"),
        ("1g.5gb", "1g.5gb"),
        ("3g.40gb@2", "legal starts"),
        ("8x1g.10gb", "1g.10gb"),
    ],
)
def test_an_impossible_layout_is_refused_with_the_planner_s_message(
    desired: str, word: str
) -> None:
    outcome = decide(everything(gpu(), layout("l", desired)))
    result, reason, message = condition(outcome.actions, "Accepted")
    assert (result, reason) == ("False", "NotPlaceable")
    assert word in message
    assert "\n" not in message
    assert written_instances(outcome) == {}


def test_an_impossible_edit_removes_no_slice() -> None:
    have = [mig_slice(s) for s in SEVEN]
    seen = everything(gpu(want=SEVEN, layout="l", have=have), layout("l", "8x1g.10gb"))
    assert written_instances(decide(seen)) == {}
    assert orphans.reconcile(seen, "n1-gpu-0").actions == ()
    assert condition(decide(seen).actions, "Accepted")[1] == "NotPlaceable"


def test_the_kubernetes_spelling_of_a_profile_is_understood() -> None:
    (instance,) = written_instances(decide(everything(gpu(), layout("l", "1g.10gb.me"))))[
        "n1-gpu-0"
    ]
    assert instance.startswith("1g.10gb+me@")


def test_the_younger_layout_s_status_names_the_gpu_and_the_older_layout() -> None:
    older = layout("older", "7x1g.10gb", created="2026-01-01T00:00:00Z")
    younger = layout("younger", "7g.80gb", created="2026-01-01T00:00:01Z")
    seen = everything(gpu(), older, younger)
    outcome = decide(seen, "younger")
    result, reason, message = condition(outcome.actions, "Accepted")
    assert (result, reason) == ("False", "LayoutConflict")
    assert "n1-gpu-0" in message
    assert "older" in message
    assert written_instances(outcome) == {}
    assert written_instances(decide(seen, "older")) == {"n1-gpu-0": SEVEN}


def test_a_layout_that_decides_on_some_of_its_gpus_is_accepted_in_part() -> None:
    older = layout("older", "7x1g.10gb", created="2026-01-01T00:00:00Z", select={"indices": [0]})
    younger = layout("younger", "7g.80gb", created="2026-01-01T00:00:01Z")
    outcome = decide(everything(gpu(), gpu(index=1), older, younger), "younger")
    accepted, ready = (condition(outcome.actions, kind) for kind in ("Accepted", "Ready"))
    assert accepted[:2] == ("True", "PartiallyAccepted")
    assert accepted[2] == "on 1 of 2 GPUs: n1-gpu-0 follows the older layout older"
    assert ready[:2] == ("False", "LayoutConflict")
    assert list(written_instances(outcome)) == ["n1-gpu-1"]


@pytest.mark.parametrize(
    ("desired", "select", "says"),
    [
        ("7x1g.10gb", {"pool": "demmo"}, "selector.pool: there is no GPUPool 'demmo'"),
        ("7x1g.10GB", {}, "no profile '1g.10GB' (case counts: 1g.10gb)"),
        ("7x1G.10GB.ME", {}, "no profile '1G.10GB.ME'; legal profiles"),
        ("whole 1g.10gb", {}, "it must be the only entry"),
        ("2xwhole", {}, "it must be the only entry"),
    ],
)
def test_an_error_in_a_layout_is_reported(desired: str, select: dict[str, Any], says: str) -> None:
    outcome = decide(everything(gpu(), layout("l", *desired.split(), select=select)))
    assert says in condition(outcome.actions, "Ready")[2]


def test_a_layout_that_fits_no_board_does_not_keep_others_out() -> None:
    seen = everything(gpu(), layout("a", "8x1g.10gb"), layout("b", "7g.80gb", created="2026-02"))
    assert written_instances(decide(seen, "b")) == {"n1-gpu-0": ["7g.80gb@0"]}


@pytest.mark.parametrize(
    ("select", "names"),
    [
        ({}, ["n1-gpu-0", "n1-gpu-1", "n2-gpu-0"]),
        ({"pool": "p"}, ["n1-gpu-0", "n1-gpu-1", "n2-gpu-0"]),
        ({"pool": "q"}, []),
        ({"node_names": ("n2",)}, ["n2-gpu-0"]),
        ({"indices": (1,)}, ["n1-gpu-1"]),
        ({"node_names": ("n2",), "indices": (1,)}, []),
    ],
)
def test_selectors(select: dict[str, Any], names: list[str]) -> None:
    gpus = [gpu(), gpu(index=1), gpu("n2")]
    outcome = decide(everything(node("n2"), *gpus, layout("l", "7x1g.10gb", select=select)))
    assert list(written_instances(outcome)) == names
    if not names:
        assert condition(outcome.actions, "Ready")[1] == "NoGPUs"


def test_a_layout_for_nodes_without_gpus_names_those_that_have_some() -> None:
    lost = layout("l", "7x1g.10gb", select={"node_names": ("n3", "n4")})
    outcome = decide(everything(node("n2"), gpu(), gpu("n2"), lost))
    ready = condition(outcome.actions, "Ready")
    assert "no GPU is on n3, n4; nodes with GPUs: n1, n2" in ready[2]


def test_gpus_that_are_being_released_are_not_changed() -> None:
    seen = world(node(labels={}), pool(), gpu(), layout("l", "7x1g.10gb"))
    assert written_instances(decide(seen)) == {}


def test_an_edit_while_waiting_restarts_from_what_is_there() -> None:
    held = changing(
        mig_slice("1g.10gb@6", "default/x", withdrawing=True), want=HALVES, before=SEVEN
    )
    outcome = decide(everything(held, layout("l", "7x1g.10gb")))
    assert written_instances(outcome) == {"n1-gpu-0": SEVEN}
    (document,) = applied_documents(outcome.actions, Manager.LAYOUT)
    assert document["metadata"]["annotations"][LAST_APPLIED] == ",".join(SEVEN)


def test_another_placement_is_chosen_when_a_pod_was_faster() -> None:
    """The slice to be removed received a pod before it was withdrawn; an equal slice has none."""
    held = changing(
        mig_slice("2g.20gb@0"),
        mig_slice("2g.20gb@2", "default/x", withdrawing=True),
        want=["2g.20gb@0", "1g.10gb@2", "3g.40gb@4"],
        before=["2g.20gb@0", "2g.20gb@2"],
    )
    outcome = decide(everything(held, layout("l", "2g.20gb", "1g.10gb", "3g.40gb")))
    assert written_instances(outcome)["n1-gpu-0"].count("2g.20gb@2") == 1


def test_the_agent_s_refusal_is_reported() -> None:
    bad = changing(
        want=SEVEN,
        before=[],
        conditions=agent_conditions(degraded="AgentError: gpud refused"),
    )
    outcome = decide(everything(bad, layout("l", "7x1g.10gb")))
    assert condition(outcome.actions, "Degraded")[:2] == ("True", "AgentError")
    assert "gpud refused" in condition(outcome.actions, "Ready")[2]


# left over from a layout

WHOLE_SPEC = {"instances": [{"profile": "whole", "start": 0}], "migMode": "Disabled"}


def test_without_its_layout_a_gpu_is_whole_again() -> None:
    left = gpu(want=SEVEN, layout="gone", have=[mig_slice(s) for s in SEVEN])
    (action,) = orphans.reconcile(everything(left), "n1-gpu-0").actions
    assert isinstance(action, Apply)
    assert action.manager is Manager.LAYOUT
    assert action.document["spec"] == WHOLE_SPEC


def test_a_layout_takes_over_in_one_step() -> None:
    left = gpu(want=SEVEN, layout="gone", have=[mig_slice(s) for s in SEVEN])
    seen = everything(left, layout("l", "4x1g.10gb"))
    assert orphans.reconcile(seen, "n1-gpu-0").actions == ()
    assert len(written_instances(decide(seen))["n1-gpu-0"]) == 4


def test_instances_without_a_layout_are_not_changed() -> None:
    assert orphans.reconcile(everything(gpu(want=SEVEN)), "n1-gpu-0").actions == ()


def test_a_selector_that_no_longer_matches_lets_the_gpu_go() -> None:
    left = gpu(want=SEVEN, layout="l", have=[mig_slice(s) for s in SEVEN])
    seen = everything(left, layout("l", "7x1g.10gb", select={"indices": (1,)}))
    assert len(orphans.reconcile(seen, "n1-gpu-0").actions) == 1


def test_reconciling_every_gpu_once_has_linear_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rack's GPUs are processed at once: quadratic cost would delay the lease's renewal."""
    nodes = [node(f"n{i}") for i in range(30)]
    gpus = [gpu(f"n{i}", index, layout="gone") for i in range(30) for index in range(8)]
    seen = world(*nodes, *gpus, pool(count=8))
    requested = 0
    uuid_of = gpu_render.uuid_of

    def count_uuid(uid: str, index: int) -> str:
        nonlocal requested
        requested += 1
        return uuid_of(uid, index)

    monkeypatch.setattr(gpu_render, "uuid_of", count_uuid)
    assert sum(len(orphans.reconcile(seen, g.name).actions) for g in gpus) == 240
    assert requested <= 240


def test_instances_are_read_back_as_they_are_written() -> None:
    placed = instances("3g.40gb@4", "1g.10gb+me@0")
    assert change.read_places(change.write_places(placed)) == placed
    assert change.read_places("nonsense") == ()


def test_the_last_good_slices_are_noted_when_a_change_begins() -> None:
    have = [mig_slice(s) for s in SEVEN]
    settled = gpu(want=SEVEN, layout="l", have=have, annotations={LAST_APPLIED: "7g.80gb@0"})
    outcome = decide(everything(settled, layout("l", "2x3g.40gb")))
    (document,) = applied_documents(outcome.actions, Manager.LAYOUT)
    assert document["metadata"]["annotations"][LAST_APPLIED] == ",".join(SEVEN)


def test_a_slice_that_is_still_withdrawn_is_not_ready() -> None:
    """After a rollback the agent offers it again only in its next pass."""
    back = changing(
        mig_slice("7g.80gb@0", withdrawing=True),
        want=["7g.80gb@0"],
        before=[],
        conditions=agent_conditions(ready=("False", "Applying", "")),
    )
    outcome = decide(everything(back, layout("l", "7g.80gb")))
    assert condition(outcome.actions, "Ready")[0] == "False"


THIRDS = [f"1c.3g.40gb@4.{at}" for at in range(3)]


def test_compute_instances_use_as_few_gpu_instances_as_possible() -> None:
    (placed,) = written_instances(
        decide(everything(gpu(), layout("l", "3x1c.3g.40gb", "4g.40gb")))
    ).values()
    assert sorted(placed) == [*THIRDS, "4g.40gb@0"]
    have = [mig_slice(s) for s in placed]
    done = decide(
        everything(gpu(want=placed, layout="l", have=have), layout("l", "3x1c.3g.40gb", "4g.40gb"))
    )
    assert condition(done.actions, "Ready")[:2] == ("True", "Reconciled")


def test_kept_compute_instances_are_not_moved_and_their_holders_are_named() -> None:
    have = [mig_slice(THIRDS[0]), mig_slice(THIRDS[2], "team/train")]
    seen = gpu(want=[THIRDS[0], THIRDS[2]], layout="l", have=have)
    grown = written_instances(decide(everything(seen, layout("l", "3x1c.3g.40gb"))))
    assert grown == {"n1-gpu-0": THIRDS}
    waiting = changing(*have, want=["3g.40gb@4"], before=[THIRDS[0], THIRDS[2]])
    outcome = decide(everything(waiting, layout("l", "3g.40gb")))
    status_, reason, message = condition(outcome.actions, "Ready")
    assert (status_, reason) == ("False", "SliceInUse")
    assert "1c.3g.40gb@4.2 is held by pod team/train" in message


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ("7x1c.3g.40gb", "3x3g.40gb"),
        ("1c.1g.10gb", "has no profile '1c.1g.10gb'"),
        ("5c.7g.80gb", "has no profile '5c.7g.80gb'"),
    ],
)
def test_impossible_compute_instances_are_refused_by_name(request_: str, says: str) -> None:
    outcome = decide(everything(gpu(), layout("l", request_)))
    assert written_instances(outcome) == {}
    assert says in condition(outcome.actions, "Ready")[2]


def test_a_rollback_restores_compute_instances() -> None:
    places = instances(*THIRDS, "1g.10gb@0")
    text = change.write_places(places)
    assert text == "1c.3g.40gb@4.0,1c.3g.40gb@4.1,1c.3g.40gb@4.2,1g.10gb@0"
    assert change.read_places(text) == places
    assert change.read_places("1c.3g.40gb@4.16") == ()
