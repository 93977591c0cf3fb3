"""Pods whose claims their kubelet has yet to have prepared: who is touched, when, and how often."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from gpu_operator.controllers.claims import nudging, reading
from gpu_operator.controllers.claims.nudging import FIRST_S, MOST, MOST_S, RETURNED_S, Nudging
from gpu_operator.controllers.claims.reading import Claim, StartingPod
from gpu_operator.controllers.common.world import AgentPod, World
from gpu_operator.kube.actions import Annotate
from support.worlds.gpu_world import claimed, node, world
from support.worlds.waiting_claims import claim_document, offered, pod_document

THERE = {"a": AgentPod("agent-a", "a", "p")}
UNPREPARED = world(node("a"), offered("a"), agents=THERE)


def held(name: str = "want") -> Claim:
    found = reading.claim(claim_document(name, held=("a/gpu-0",)))
    assert found is not None
    return found


def pod_on_a_node(name: str = "job", *claims: str, **status: Any) -> dict[str, Any]:
    document = pod_document(name, *(claims or ("want",)))
    document["spec"]["nodeName"] = "a"
    document["status"] = {**document["status"], "phase": "Pending", "conditions": [], **status}
    return document


def starting(name: str = "job", *claims: str) -> StartingPod:
    found = reading.starting(pod_on_a_node(name, *claims))
    assert found is not None
    return found


def test_a_pod_is_touched_after_a_while_and_then_more_and_more_rarely() -> None:
    nudges = Nudging()
    want, pod = held(), starting()
    told = [now for now in range(400) if nudges.due([want], [pod], UNPREPARED, float(now))]
    assert told[:3] == [FIRST_S, 3 * FIRST_S, 7 * FIRST_S]
    assert {later - one for one, later in pairwise(told[2:])} == {MOST_S}


def test_what_is_written_is_an_annotation_that_changes_each_time() -> None:
    nudges = Nudging()
    nudges.due([held()], [starting()], UNPREPARED, 0.0)
    both = [nudges.due([held()], [starting()], UNPREPARED, now) for now in (10.0, 30.0)]
    assert both == [
        (Annotate("team", "job", "uid-job", nudging.NUDGED, times),) for times in ("1", "2")
    ]


def nothing_is_due(claims: list[Claim], pods: list[StartingPod], seen: World) -> bool:
    nudges = Nudging()
    return not any(nudges.due(claims, pods, seen, now) for now in (0.0, 1000.0, 2000.0))


def test_whose_claim_is_prepared_or_is_not_ours_is_left_alone() -> None:
    gpu = offered("a", claims=[claimed("7g.80gb@0", "want")])
    assert nothing_is_due([held()], [starting()], world(node("a"), gpu, agents=THERE))
    assert nothing_is_due([], [starting()], UNPREPARED)
    assert nothing_is_due([held("other")], [starting()], UNPREPARED)


@pytest.mark.parametrize("agents", [{}, {"a": replace(THERE["a"], problem="is starting")}])
def test_while_the_driver_is_away_nobody_is_touched(agents: dict[str, AgentPod]) -> None:
    assert nothing_is_due([held()], [starting()], world(node("a"), offered("a"), agents=agents))


SUCCESSOR = {"a": AgentPod("agent-b", "a", "p")}


@pytest.mark.parametrize(
    "before",
    [{}, {"a": replace(SUCCESSOR["a"], problem="is starting")}, THERE],
    ids=["no agent", "an agent that starts", "the agent before"],
)
def test_whose_kubelet_asked_while_the_driver_was_away_is_touched_as_soon_as_it_is_back(
    before: dict[str, AgentPod],
) -> None:
    nudges, away = Nudging(), world(node("a"), offered("a"), agents=before)
    back = world(node("a"), offered("a"), agents=SUCCESSOR)
    assert nudges.due([held()], [starting()], away, 0.0) == ()
    if before is THERE:  # it ends before the pod's time has come
        assert nudges.due([held()], [starting()], world(node("a"), offered("a")), 5.0) == ()
    assert nudges.due([held()], [starting()], back, 100.0) == ()
    assert nudges.due([held()], [starting()], back, 100.0 + RETURNED_S - 0.1) == ()
    assert len(nudges.due([held()], [starting()], back, 100.0 + RETURNED_S)) == 1
    later = starting("later")  # came when the driver was there: it may just be at work
    assert nudges.due([held()], [later], back, 101.0) == ()
    assert nudges.due([held()], [later], back, 101.0 + FIRST_S - 0.1) == ()
    assert len(nudges.due([held()], [later], back, 101.0 + FIRST_S)) == 1


def test_so_many_at_a_time_and_the_rest_next_time() -> None:
    nudges = Nudging()
    pods = [starting(f"job-{number}") for number in range(MOST + 3)]
    nudges.due([held()], pods, UNPREPARED, 0.0)
    assert len(nudges.due([held()], pods, UNPREPARED, 10.0)) == MOST
    assert len(nudges.due([held()], pods, UNPREPARED, 11.0)) == 3


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": [{"name": "c", "state": {"running": {}}}]},
        {"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}]},
    ],
)
def test_a_pod_that_has_begun_is_not_read(status: dict[str, Any]) -> None:
    assert reading.starting(pod_on_a_node(**status)) is None


def test_one_that_waits_for_its_containers_is() -> None:
    waiting = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
    assert reading.starting(pod_on_a_node(containerStatuses=[waiting])) == starting()
    going = pod_on_a_node()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert reading.starting(going) is None
