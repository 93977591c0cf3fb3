"""Layouts beside slices of ResourceClaims: these are planned around or waited for, never moved."""

from gpu_operator.controllers.pools import release
from gpu_operator.kube.actions import Evict
from support.worlds.gpu_world import claimed_slice, condition, gpu, layout, mig_slice
from support.worlds.layout_world import changing, decide, everything, status, written_instances


def test_slices_are_placed_beside_those_of_claims() -> None:
    seen = everything(gpu(claims=[claimed_slice("1g.10gb@0")]), layout("l", "3g.40gb", "2g.20gb"))
    assert written_instances(decide(seen)) == {"n1-gpu-0": ["2g.20gb@2", "3g.40gb@4"]}


def test_a_layout_without_room_names_the_claim_that_it_waits_for() -> None:
    outcome = decide(everything(gpu(claims=[claimed_slice("1g.10gb@3")]), layout("l", "7x1g.10gb")))
    assert written_instances(outcome) == {}
    state, reason, message = condition(outcome.actions, "Ready")
    assert (state, reason) == ("False", "SliceInUse")
    assert "1g.10gb@3 is held by claim team/job" in message


def test_a_layout_waits_for_a_claim_at_a_fixed_placement() -> None:
    outcome = decide(everything(gpu(claims=[claimed_slice("1g.10gb@4")]), layout("l", "3g.40gb@4")))
    assert written_instances(outcome) == {}
    assert condition(outcome.actions, "Ready")[1] == "SliceInUse"


def test_a_change_moves_when_a_claim_takes_its_placement() -> None:
    seen = everything(
        changing(want=["1g.10gb@0"], before=[], claims=[claimed_slice("1g.10gb@0")]),
        layout("l", "1g.10gb"),
    )
    (places,) = written_instances(decide(seen)).values()
    assert places != ["1g.10gb@0"]


def test_a_change_without_alternative_waits_and_evicts_no_pod() -> None:
    seen = everything(
        changing(want=["3g.40gb@4"], before=[], claims=[claimed_slice("1g.10gb@4")]),
        layout("l", "3g.40gb@4", rollout={"onInUse": "Evict"}),
    )
    outcome = decide(seen)
    assert written_instances(outcome) == {}
    assert not [action for action in outcome.actions if isinstance(action, Evict)]
    (one,) = status(outcome)["gpus"]
    assert one["state"] == "Waiting"
    assert "1g.10gb@4 is held by claim team/job" in one["message"]


def test_a_layout_beside_a_claim_is_ready() -> None:
    there = gpu(
        want=["3g.40gb@4"],
        layout="l",
        have=[mig_slice("3g.40gb@4")],
        claims=[claimed_slice("1g.10gb@0")],
    )
    outcome = decide(everything(there, layout("l", "3g.40gb")))
    assert condition(outcome.actions, "Ready")[:2] == ("True", "Reconciled")


def test_a_gpu_with_a_claim_is_not_released() -> None:
    assert not list(release.release(gpu(claims=[claimed_slice("1g.10gb@0")]), node_gone=False))
    assert list(release.release(gpu(), node_gone=False))
