"""The order in which a pool's DaemonSets change: gpud first, then node agents on top of it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gpu_operator.controllers.common.world import AgentPod, AgentSet, World
from gpu_operator.kube.actions import Manager
from support.worlds.gpu_world import applied_documents, condition, gpu, node, pool, world
from support.worlds.pool_world import IN_POOL, agent_set, decide

THERE = agent_set()
GPUD, AGENT = THERE["tessera-gpud-p"].rendered, THERE["tessera-node-p"].rendered
EARLIER = AgentSet("p", "earlier", observed=True, pods=1, updated=1)
COMBINED = {"tessera-node-p": EARLIER}  # as when gpud was a container of the agent's pod
BEFORE = {"tessera-gpud-p": EARLIER, "tessera-node-p": EARLIER}
ROLLING = {**COMBINED, "tessera-gpud-p": THERE["tessera-gpud-p"]}


def gpud_pod(name: str, rendered: str, problem: str = "", failing: bool = False) -> AgentPod:
    return AgentPod(name, "n1", "p", problem, failing, rendered, is_gpud=True)


OLD = gpud_pod("old", "earlier")
NEW = gpud_pod("new", GPUD)
STARTING = gpud_pod("new", GPUD, "container gpud: starting")
PULLING = gpud_pod("new", GPUD, "container gpud: ImagePullBackOff", failing=True)


def world_with(
    sets: Mapping[str, AgentSet], gpuds: Sequence[AgentPod], agent: str = "earlier", **changes: Any
) -> World:
    return world(
        node(labels=IN_POOL, **changes),
        pool(),
        gpu(),
        daemon_sets=sets,
        agents={"n1": AgentPod("agent", "n1", "p", rendered=agent)},
        gpuds={"n1": gpuds} if gpuds else {},
    )


def written_sets(found: World) -> list[str]:
    children = applied_documents(decide(found).actions, Manager.CHILDREN)
    return [one["metadata"]["name"] for one in children if one["kind"] == "DaemonSet"]


@pytest.mark.parametrize(
    ("sets", "gpuds", "agents_too"),
    [
        ({}, [], True),  # a new pool
        (COMBINED, [], False),
        (BEFORE, [OLD], False),
        (ROLLING, [OLD], False),
        (ROLLING, [OLD, STARTING], False),
        (ROLLING, [OLD, PULLING], False),
        (ROLLING, [OLD, NEW], True),
        (ROLLING, [NEW], True),
        (THERE, [NEW], True),
        (THERE, [PULLING], True),  # all are up to date
    ],
)
def test_agents_are_updated_once_each_node_has_the_new_gpud(
    sets: Mapping[str, AgentSet], gpuds: Sequence[AgentPod], agents_too: bool
) -> None:
    expected = ["tessera-gpud-p", "tessera-node-p"] if agents_too else ["tessera-gpud-p"]
    assert written_sets(world_with(sets, gpuds)) == expected


def test_a_node_that_is_down_does_not_delay_agents() -> None:
    assert "tessera-node-p" in written_sets(world_with(ROLLING, [], ready=False))


def test_a_node_that_excludes_the_pods_does_not_delay_agents() -> None:
    """Affinity or taints prevent its pods, perhaps for good; it has no agent that would end."""
    assert "tessera-node-p" in written_sets(dataclasses.replace(world_with(ROLLING, []), agents={}))


def test_an_agent_that_waits_for_gpud_makes_its_node_no_less_ready() -> None:
    """The pool reports what it waits for; the node serves as before."""
    waiting = decide(world_with(ROLLING, [OLD, PULLING])).actions
    status, reason, message = condition(waiting, "Ready")
    assert (status, reason) == ("False", "WaitingForAgent")
    assert "the node agents are updated after gpud" in message
    assert "gpud new of node n1: container gpud: ImagePullBackOff" in message
    assert condition(waiting, "Degraded")[0] == "False"
    (of_node,) = (d for d in applied_documents(waiting, Manager.CONDITIONS) if d["kind"] == "Node")
    (ready,) = of_node["status"]["conditions"]
    assert (ready["type"], ready["status"]) == ("GPUReady", "True")


def test_a_gpud_that_cannot_start_does_not_affect_readiness_if_another_serves() -> None:
    """If gpud is still in the agent's pod, as in earlier versions, that one serves."""
    combined = AgentPod("agent", "n1", "p", rendered="earlier", has_gpud=True)
    found = world_with(ROLLING, [combined, PULLING])
    assert "tessera-node-p" not in written_sets(found)
    (of_node,) = (
        d
        for d in applied_documents(decide(found).actions, Manager.CONDITIONS)
        if d["kind"] == "Node"
    )
    (ready,) = of_node["status"]["conditions"]
    assert (ready["type"], ready["status"]) == ("GPUReady", "True")


def test_agents_are_outdated_once_their_daemon_set_changes() -> None:
    rolling = decide(world_with(THERE, [NEW])).actions
    assert "node agent agent is about to be replaced" in condition(rolling, "Ready")[2]
    done = decide(world_with(THERE, [NEW], agent=AGENT)).actions
    assert condition(done, "Ready")[0] == "True"


@pytest.mark.parametrize(
    ("pods", "reported"),
    [
        ([PULLING], "gpud new: container gpud: ImagePullBackOff"),
        ([gpud_pod("old", "earlier", "container gpud: Error", True), STARTING], "gpud old: "),
        ([STARTING], "gpud new: container gpud: starting"),
        ([OLD, PULLING], ""),  # the old one serves
    ],
)
def test_a_node_without_gpud_reports_the_reason(pods: Sequence[AgentPod], reported: str) -> None:
    actions = decide(world_with(THERE, pods, agent=AGENT)).actions
    message = condition(actions, "Ready")[2]
    assert reported in message
    (of_node,) = (d for d in applied_documents(actions, Manager.CONDITIONS) if d["kind"] == "Node")
    (ready,) = of_node["status"]["conditions"]
    assert ready["status"] == ("False" if reported else "True")


def test_a_rollout_of_gpud_names_the_pod_that_cannot_start() -> None:
    rolling = dataclasses.replace(THERE["tessera-gpud-p"], updated=0)
    sets = {**THERE, "tessera-gpud-p": rolling}
    message = condition(decide(world_with(sets, [OLD, PULLING], agent=AGENT)).actions, "Ready")[2]
    assert "DaemonSet tessera-gpud-p is being rolled out: 0 of 1 pods are up to date" in message
    assert "ImagePullBackOff" in message
