"""Which pods with unprepared claims are annotated to trigger their kubelet, when, and how often."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from gpu_operator.controllers.claims import kubelet_triggers, reading
from gpu_operator.controllers.claims.kubelet_triggers import (
    FIRST_S,
    MOST,
    MOST_S,
    RETURNED_S,
    KubeletTriggers,
)
from gpu_operator.controllers.claims.reading import Claim, StartingPod
from gpu_operator.controllers.common.world import AgentPod, World
from gpu_operator.kube.actions import Annotate
from support.worlds.gpu_world import claimed_slice, node, world
from support.worlds.waiting_claims import claim_document, offered_gpu, pod_document

THERE = {"a": AgentPod("agent-a", "a", "p")}
UNPREPARED = world(node("a"), offered_gpu("a"), agents=THERE)


def allocated_claim(name: str = "want") -> Claim:
    found = reading.read_claim(claim_document(name, held=("a/gpu-0",)))
    assert found is not None
    return found


def pod_on_a_node(name: str = "job", *claims: str, **status: Any) -> dict[str, Any]:
    document = pod_document(name, *(claims or ("want",)))
    document["spec"]["nodeName"] = "a"
    document["status"] = {**document["status"], "phase": "Pending", "conditions": [], **status}
    return document


def starting(name: str = "job", *claims: str) -> StartingPod:
    found = reading.read_starting_pod(pod_on_a_node(name, *claims))
    assert found is not None
    return found


def test_a_pod_is_triggered_after_a_delay_and_then_less_often() -> None:
    triggers = KubeletTriggers()
    want, pod = allocated_claim(), starting()
    reported = [
        now
        for now in range(400)
        if triggers.take_due_annotations([want], [pod], UNPREPARED, float(now))
    ]
    assert reported[:3] == [FIRST_S, 3 * FIRST_S, 7 * FIRST_S]
    assert {later - one for one, later in pairwise(reported[2:])} == {MOST_S}


def test_each_trigger_changes_the_annotation() -> None:
    triggers = KubeletTriggers()
    triggers.take_due_annotations([allocated_claim()], [starting()], UNPREPARED, 0.0)
    both = [
        triggers.take_due_annotations([allocated_claim()], [starting()], UNPREPARED, now)
        for now in (10.0, 30.0)
    ]
    assert both == [
        (Annotate("team", "job", "uid-job", kubelet_triggers.TRIGGERED, times),)
        for times in ("1", "2")
    ]


def nothing_is_due(claims: list[Claim], pods: list[StartingPod], seen: World) -> bool:
    triggers = KubeletTriggers()
    return not any(
        triggers.take_due_annotations(claims, pods, seen, now) for now in (0.0, 1000.0, 2000.0)
    )


def test_pods_with_prepared_or_foreign_claims_are_ignored() -> None:
    gpu = offered_gpu("a", claims=[claimed_slice("7g.80gb@0", "want")])
    assert nothing_is_due([allocated_claim()], [starting()], world(node("a"), gpu, agents=THERE))
    assert nothing_is_due([], [starting()], UNPREPARED)
    assert nothing_is_due([allocated_claim("other")], [starting()], UNPREPARED)


@pytest.mark.parametrize("agents", [{}, {"a": replace(THERE["a"], problem="is starting")}])
def test_no_pod_is_triggered_while_the_driver_is_away(agents: dict[str, AgentPod]) -> None:
    assert nothing_is_due(
        [allocated_claim()], [starting()], world(node("a"), offered_gpu("a"), agents=agents)
    )


SUCCESSOR = {"a": AgentPod("agent-b", "a", "p")}


@pytest.mark.parametrize(
    "before",
    [{}, {"a": replace(SUCCESSOR["a"], problem="is starting")}, THERE],
    ids=["no agent", "an agent that starts", "the agent before"],
)
def test_a_pod_is_triggered_as_soon_as_its_driver_is_back(
    before: dict[str, AgentPod],
) -> None:
    triggers, away = KubeletTriggers(), world(node("a"), offered_gpu("a"), agents=before)
    back = world(node("a"), offered_gpu("a"), agents=SUCCESSOR)
    assert triggers.take_due_annotations([allocated_claim()], [starting()], away, 0.0) == ()
    if before is THERE:  # the pod ends before its trigger is due
        assert (
            triggers.take_due_annotations(
                [allocated_claim()], [starting()], world(node("a"), offered_gpu("a")), 5.0
            )
            == ()
        )
    assert triggers.take_due_annotations([allocated_claim()], [starting()], back, 100.0) == ()
    assert (
        triggers.take_due_annotations(
            [allocated_claim()], [starting()], back, 100.0 + RETURNED_S - 0.1
        )
        == ()
    )
    assert (
        len(
            triggers.take_due_annotations(
                [allocated_claim()], [starting()], back, 100.0 + RETURNED_S
            )
        )
        == 1
    )
    later = starting("later")  # bound while the driver was there: the kubelet may be working on it
    assert triggers.take_due_annotations([allocated_claim()], [later], back, 101.0) == ()
    assert (
        triggers.take_due_annotations([allocated_claim()], [later], back, 101.0 + FIRST_S - 0.1)
        == ()
    )
    assert (
        len(triggers.take_due_annotations([allocated_claim()], [later], back, 101.0 + FIRST_S)) == 1
    )


def test_a_pass_triggers_a_limited_number_of_pods() -> None:
    triggers = KubeletTriggers()
    pods = [starting(f"job-{number}") for number in range(MOST + 3)]
    triggers.take_due_annotations([allocated_claim()], pods, UNPREPARED, 0.0)
    assert len(triggers.take_due_annotations([allocated_claim()], pods, UNPREPARED, 10.0)) == MOST
    assert len(triggers.take_due_annotations([allocated_claim()], pods, UNPREPARED, 11.0)) == 3


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": [{"name": "c", "state": {"running": {}}}]},
        {"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}]},
    ],
)
def test_a_started_pod_is_ignored(status: dict[str, Any]) -> None:
    assert reading.read_starting_pod(pod_on_a_node(**status)) is None


def test_a_pod_that_waits_for_its_containers_is_parsed() -> None:
    waiting = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
    assert reading.read_starting_pod(pod_on_a_node(containerStatuses=[waiting])) == starting()
    going = pod_on_a_node()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert reading.read_starting_pod(going) is None
