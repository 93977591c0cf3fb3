"""Events on waiting claims: one for each reason, claim and pod, refreshed but not repeated."""

from typing import Any

import pytest

from gpu_operator.controllers.claims import claim_events, reading
from gpu_operator.controllers.claims.claim_events import AGAIN_S, CHANGED_S, RIPE_S, ClaimEvents
from gpu_operator.controllers.claims.reading import Claim, WaitingPod
from gpu_operator.controllers.claims.selectors import Facts
from gpu_operator.kube.actions import Record
from support.worlds.gpu_world import claimed_slice, node, world
from support.worlds.waiting_claims import (
    CLASSES,
    THREE,
    claim_document,
    exactly,
    offered_gpu,
    pod_document,
)

FULL = world(node("a"), offered_gpu("a", claims=[claimed_slice("7g.80gb@0", "big")]))
FREE = world(node("a"), offered_gpu("a"))


def claim(name: str = "want", **facts: Any) -> Claim:
    found = reading.read_claim(claim_document(name, **facts))
    assert found is not None
    return found


def pod(name: str = "job", *claims: str) -> WaitingPod:
    found = reading.read_waiting_pod(pod_document(name, *(claims or ("want",))))
    assert found is not None
    return found


def on(events: tuple[Record, ...]) -> list[tuple[str, str, str]]:
    return [(one.kind, f"{one.namespace}/{one.name}", one.reason) for one in events]


def test_the_claim_and_its_pod_get_an_event() -> None:
    events = ClaimEvents().take_due_events([claim()], [pod()], CLASSES, FULL, 0.0)
    assert on(events) == [
        ("ResourceClaim", "team/want", "ClaimNoRoom"),
        ("Pod", "team/job", "ClaimNoRoom"),
    ]
    on_claim, on_pod = events
    assert on_claim.message.startswith("request gpu: no 3g.40gb left: of 1 GPU 1 is held by")
    assert on_pod.message == f"claim want, {on_claim.message}"
    assert (on_claim.uid, on_pod.uid) == ("uid-want", "uid-job")
    assert all(one.warning and one.latest for one in events)


def test_a_true_event_is_rewritten_only_before_it_expires() -> None:
    schedule = ClaimEvents()
    wanting = ([claim()], [pod()])
    assert len(schedule.take_due_events(*wanting, CLASSES, FULL, 0.0)) == 2
    assert schedule.take_due_events(*wanting, CLASSES, FULL, AGAIN_S - 1) == ()
    assert len(schedule.take_due_events(*wanting, CLASSES, FULL, AGAIN_S)) == 2


def test_another_message_of_the_reason_waits_for_a_minute() -> None:
    schedule = ClaimEvents()
    schedule.take_due_events([claim()], [pod()], CLASSES, FULL, 0.0)
    other = world(node("a"), offered_gpu("a", claims=[claimed_slice("7g.80gb@0", "other")]))
    assert schedule.take_due_events([claim()], [pod()], CLASSES, other, CHANGED_S - 1) == ()
    events = schedule.take_due_events([claim()], [pod()], CLASSES, other, CHANGED_S)
    assert [one.message.rpartition(" ")[2] for one in events] == ["team/other"] * 2


def test_room_that_the_scheduler_may_be_using_is_not_reported_at_once() -> None:
    schedule = ClaimEvents()
    assert schedule.take_due_events([claim()], [pod()], CLASSES, FREE, 0.0) == ()
    assert schedule.take_due_events([claim()], [pod()], CLASSES, FREE, RIPE_S - 1) == ()
    assert (
        on(schedule.take_due_events([claim()], [pod()], CLASSES, FREE, RIPE_S))[0][2]
        == "ClaimUnmatched"
    )
    schedule.take_due_events([claim()], [pod()], CLASSES, FULL, RIPE_S + 1)
    # the time counts from its return
    assert schedule.take_due_events([claim()], [pod()], CLASSES, FREE, 2 * RIPE_S) == ()


def test_a_claim_without_a_waiting_pod_gets_no_event() -> None:
    schedule = ClaimEvents()
    assert schedule.take_due_events([claim()], [], CLASSES, FULL, 0.0) == ()
    assert schedule.take_due_events([claim()], [pod("job", "another")], CLASSES, FULL, 0.0) == ()
    held = claim("has", held=("a/gpu-0",))
    # another cause keeps the pod waiting
    assert schedule.take_due_events([held], [pod("job", "has")], CLASSES, FULL, 0.0) == ()


def test_a_claim_that_waits_again_gets_another_event() -> None:
    schedule = ClaimEvents()
    schedule.take_due_events([claim()], [pod()], CLASSES, FULL, 0.0)
    assert schedule.take_due_events([claim()], [], CLASSES, FULL, 1.0) == ()
    assert len(schedule.take_due_events([claim()], [pod()], CLASSES, FULL, 2.0)) == 2


def test_a_pass_writes_a_limited_number_of_events_and_all_get_their_turn() -> None:
    schedule = ClaimEvents()
    names = [f"c{number:03}" for number in range(claim_events.MOST)]
    crowd = ([claim(name) for name in names], [pod(f"p-{name}", name) for name in names])
    first, second = (schedule.take_due_events(*crowd, CLASSES, FULL, float(now)) for now in (0, 5))
    assert len(first) == len(second) == claim_events.MOST
    assert {one.uid for one in first} & {one.uid for one in second} == set()
    assert schedule.take_due_events(*crowd, CLASSES, FULL, 10.0) == ()


def test_a_pass_evaluates_a_limited_number_of_claims_and_all_get_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claim_events, "MAX_EVALUATED", 2)
    schedule = ClaimEvents()
    names = ["c1", "c2", "c3"]
    crowd = ([claim(name) for name in names], [pod(f"p-{name}", name) for name in names])
    first = schedule.take_due_events(*crowd, CLASSES, FULL, 0.0)
    assert sorted(one.name for one in first) == ["c1", "c2", "p-c1", "p-c2"]
    assert sorted(one.name for one in schedule.take_due_events(*crowd, CLASSES, FULL, 5.0)) == [
        "c3",
        "p-c3",
    ]
    assert schedule.take_due_events(*crowd, CLASSES, FULL, 10.0) == ()


def test_a_pod_s_event_names_the_claim_that_blocks_it() -> None:
    held = claim("has", held=("a/gpu-0",))
    events = ClaimEvents().take_due_events(
        [claim(), held], [pod("job", "has", "want")], CLASSES, FULL, 0.0
    )
    assert [one.message.partition(",")[0] for one in events if one.kind == "Pod"] == ["claim want"]


def test_pods_that_are_not_unschedulable_are_ignored() -> None:
    gated = pod_document("job", "want", reason="SchedulingGated")
    assert reading.read_waiting_pod(gated) is None
    going = pod_document("job", "want")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert reading.read_waiting_pod(going) is None
    without = pod_document("job", "want")
    without["spec"] = {"resourceClaims": []}
    assert reading.read_waiting_pod(without) is None
    assert pod("job", "own", "made").claims == ("own", "made")


def test_claims_of_other_drivers_or_unknown_classes_use_no_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claim_events, "MAX_EVALUATED", 1)
    theirs = [
        reading.read_claim(claim_document(f"c{n}", exactly("nic.example.org"))) for n in range(3)
    ]
    gone = reading.read_claim(claim_document("c3", exactly("mig-9g.999gb.tessera.dev")))
    every = [*filter(None, theirs), *filter(None, [gone]), claim()]
    assert len(every) == 5
    pods = [pod(f"p-{one.name}", one.name) for one in every]
    classes = {**CLASSES, "nic.example.org": Facts()}
    found = ClaimEvents().take_due_events(every, pods, classes, FULL, 0.0)
    assert sorted(one.name for one in found) == ["p-want", "want"]


def test_a_claim_with_two_requests_names_the_failing_one() -> None:
    found = reading.read_claim(
        claim_document("want", exactly("mig.tessera.dev", "any"), exactly(THREE, "large"))
    )
    assert found is not None
    some = world(
        node("a"), offered_gpu("a", claims=[claimed_slice("4g.40gb@0"), claimed_slice("2g.20gb@4")])
    )
    (event, _) = ClaimEvents().take_due_events([found], [pod()], CLASSES, some, 0.0)
    assert event.message.startswith("request large: no 3g.40gb left")
