"""Events of claims that wait: one of a reason for each claim and pod, refreshed and not repeated."""

from typing import Any

import pytest

from gpu_operator.controllers.claims import reading, telling
from gpu_operator.controllers.claims.reading import Claim, WaitingPod
from gpu_operator.controllers.claims.selectors import Facts
from gpu_operator.controllers.claims.telling import AGAIN_S, CHANGED_S, RIPE_S, Telling
from gpu_operator.kube.actions import Record
from support.worlds.gpu_world import claimed, node, world
from support.worlds.waiting_claims import (
    CLASSES,
    THREE,
    claim_document,
    exactly,
    offered,
    pod_document,
)

FULL = world(node("a"), offered("a", claims=[claimed("7g.80gb@0", "big")]))
FREE = world(node("a"), offered("a"))


def claim(name: str = "want", **facts: Any) -> Claim:
    found = reading.claim(claim_document(name, **facts))
    assert found is not None
    return found


def pod(name: str = "job", *claims: str) -> WaitingPod:
    found = reading.pod(pod_document(name, *(claims or ("want",))))
    assert found is not None
    return found


def on(events: tuple[Record, ...]) -> list[tuple[str, str, str]]:
    return [(one.kind, f"{one.namespace}/{one.name}", one.reason) for one in events]


def test_the_claim_and_its_pod_are_told() -> None:
    events = Telling().due([claim()], [pod()], CLASSES, FULL, 0.0)
    assert on(events) == [
        ("ResourceClaim", "team/want", "ClaimNoRoom"),
        ("Pod", "team/job", "ClaimNoRoom"),
    ]
    on_claim, on_pod = events
    assert on_claim.message.startswith("request gpu: no 3g.40gb left: of 1 GPU 1 is held by")
    assert on_pod.message == f"claim want, {on_claim.message}"
    assert (on_claim.uid, on_pod.uid) == ("uid-want", "uid-job")
    assert all(one.warning and one.latest for one in events)


def test_what_stays_true_is_told_again_only_before_it_is_forgotten() -> None:
    told = Telling()
    wanting = ([claim()], [pod()])
    assert len(told.due(*wanting, CLASSES, FULL, 0.0)) == 2
    assert told.due(*wanting, CLASSES, FULL, AGAIN_S - 1) == ()
    assert len(told.due(*wanting, CLASSES, FULL, AGAIN_S)) == 2


def test_another_message_of_the_reason_waits_for_a_minute() -> None:
    told = Telling()
    told.due([claim()], [pod()], CLASSES, FULL, 0.0)
    other = world(node("a"), offered("a", claims=[claimed("7g.80gb@0", "other")]))
    assert told.due([claim()], [pod()], CLASSES, other, CHANGED_S - 1) == ()
    events = told.due([claim()], [pod()], CLASSES, other, CHANGED_S)
    assert [one.message.rpartition(" ")[2] for one in events] == ["team/other"] * 2


def test_room_that_the_scheduler_may_be_about_to_use_is_not_told_at_once() -> None:
    told = Telling()
    assert told.due([claim()], [pod()], CLASSES, FREE, 0.0) == ()
    assert told.due([claim()], [pod()], CLASSES, FREE, RIPE_S - 1) == ()
    assert on(told.due([claim()], [pod()], CLASSES, FREE, RIPE_S))[0][2] == "ClaimUnmatched"
    told.due([claim()], [pod()], CLASSES, FULL, RIPE_S + 1)
    assert (
        told.due([claim()], [pod()], CLASSES, FREE, 2 * RIPE_S) == ()
    )  # it counts from its return


def test_nobody_is_told_of_a_claim_that_no_pod_waits_for() -> None:
    told = Telling()
    assert told.due([claim()], [], CLASSES, FULL, 0.0) == ()
    assert told.due([claim()], [pod("job", "another")], CLASSES, FULL, 0.0) == ()
    held = claim("has", held=("a/gpu-0",))
    assert (
        told.due([held], [pod("job", "has")], CLASSES, FULL, 0.0) == ()
    )  # something else keeps the pod


def test_a_claim_that_waits_again_is_told_again() -> None:
    told = Telling()
    told.due([claim()], [pod()], CLASSES, FULL, 0.0)
    assert told.due([claim()], [], CLASSES, FULL, 1.0) == ()
    assert len(told.due([claim()], [pod()], CLASSES, FULL, 2.0)) == 2


def test_of_a_crowd_some_are_told_at_a_time_and_everybody_in_turn() -> None:
    told = Telling()
    names = [f"c{number:03}" for number in range(telling.MOST)]
    crowd = ([claim(name) for name in names], [pod(f"p-{name}", name) for name in names])
    first, second = (told.due(*crowd, CLASSES, FULL, float(now)) for now in (0, 5))
    assert len(first) == len(second) == telling.MOST
    assert {one.uid for one in first} & {one.uid for one in second} == set()
    assert told.due(*crowd, CLASSES, FULL, 10.0) == ()


def test_so_many_claims_are_judged_at_a_time_and_none_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telling, "MOST_JUDGED", 2)
    told = Telling()
    names = ["c1", "c2", "c3"]
    crowd = ([claim(name) for name in names], [pod(f"p-{name}", name) for name in names])
    first = told.due(*crowd, CLASSES, FULL, 0.0)
    assert sorted(one.name for one in first) == ["c1", "c2", "p-c1", "p-c2"]
    assert sorted(one.name for one in told.due(*crowd, CLASSES, FULL, 5.0)) == ["c3", "p-c3"]
    assert told.due(*crowd, CLASSES, FULL, 10.0) == ()


def test_a_pod_is_told_of_the_claim_that_is_in_its_way() -> None:
    held = claim("has", held=("a/gpu-0",))
    events = Telling().due([claim(), held], [pod("job", "has", "want")], CLASSES, FULL, 0.0)
    assert [one.message.partition(",")[0] for one in events if one.kind == "Pod"] == ["claim want"]


def test_pods_that_the_scheduler_has_not_refused_are_not_followed() -> None:
    gated = pod_document("job", "want", reason="SchedulingGated")
    assert reading.pod(gated) is None
    going = pod_document("job", "want")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert reading.pod(going) is None
    without = pod_document("job", "want")
    without["spec"] = {"resourceClaims": []}
    assert reading.pod(without) is None
    assert pod("job", "own", "made").claims == ("own", "made")


def test_claims_of_other_drivers_and_of_classes_that_are_not_there_take_nobody_s_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telling, "MOST_JUDGED", 1)
    theirs = [reading.claim(claim_document(f"c{n}", exactly("nic.example.org"))) for n in range(3)]
    gone = reading.claim(claim_document("c3", exactly("mig-9g.999gb.tessera.dev")))
    every = [*filter(None, theirs), *filter(None, [gone]), claim()]
    assert len(every) == 5
    pods = [pod(f"p-{one.name}", one.name) for one in every]
    classes = {**CLASSES, "nic.example.org": Facts()}
    found = Telling().due(every, pods, classes, FULL, 0.0)
    assert sorted(one.name for one in found) == ["p-want", "want"]


def test_a_claim_with_two_requests_says_which() -> None:
    found = reading.claim(
        claim_document("want", exactly("mig.tessera.dev", "any"), exactly(THREE, "large"))
    )
    assert found is not None
    some = world(node("a"), offered("a", claims=[claimed("4g.40gb@0"), claimed("2g.20gb@4")]))
    (event, _) = Telling().due([found], [pod()], CLASSES, some, 0.0)
    assert event.message.startswith("request large: no 3g.40gb left")
