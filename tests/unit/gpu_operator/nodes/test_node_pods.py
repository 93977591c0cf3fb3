"""In which order a pool's DaemonSets change: gpud first, and node agents where it is there."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gpu_operator.controllers.common.world import AgentPod, AgentSet, World
from gpu_operator.kube.actions import Manager
from support.worlds.gpu_world import applied, condition, gpu, node, pool, world
from support.worlds.pool_world import IN_POOL, agent_set, decide

THERE = agent_set()
GPUD, AGENT = THERE["tessera-gpud-p"].rendered, THERE["tessera-node-p"].rendered
EARLIER = AgentSet("p", "earlier", observed=True, pods=1, updated=1)
COMBINED = {"tessera-node-p": EARLIER}  # as it was when gpud was a container of the agent's pod
BEFORE = {"tessera-gpud-p": EARLIER, "tessera-node-p": EARLIER}
ROLLING = {**COMBINED, "tessera-gpud-p": THERE["tessera-gpud-p"]}


def gpud_pod(name: str, rendered: str, problem: str = "", failing: bool = False) -> AgentPod:
    return AgentPod(name, "n1", "p", problem, failing, rendered, is_gpud=True)


OLD = gpud_pod("old", "earlier")
NEW = gpud_pod("new", GPUD)
STARTING = gpud_pod("new", GPUD, "container gpud: starting")
PULLING = gpud_pod("new", GPUD, "container gpud: ImagePullBackOff", failing=True)


def seen(
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


def written(found: World) -> list[str]:
    children = applied(decide(found).actions, Manager.CHILDREN)
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
        (THERE, [PULLING], True),  # they are what they are to be
    ],
)
def test_agents_change_when_each_node_has_the_gpud_that_comes_with_them(
    sets: Mapping[str, AgentSet], gpuds: Sequence[AgentPod], agents_too: bool
) -> None:
    expected = ["tessera-gpud-p", "tessera-node-p"] if agents_too else ["tessera-gpud-p"]
    assert written(seen(sets, gpuds)) == expected


def test_a_node_that_is_down_holds_no_agent_up() -> None:
    assert "tessera-node-p" in written(seen(ROLLING, [], ready=False))


def test_a_node_that_no_pod_of_ours_may_run_on_holds_no_agent_up() -> None:
    """Affinity or taints keep them away, for good perhaps; and there is none to be ended."""
    assert "tessera-node-p" in written(dataclasses.replace(seen(ROLLING, []), agents={}))


def test_an_agent_that_waits_for_gpud_makes_its_node_no_less_ready() -> None:
    """What keeps the pool from being ready is said of the pool; the node serves as before."""
    waiting = decide(seen(ROLLING, [OLD, PULLING])).actions
    status, reason, message = condition(waiting, "Ready")
    assert (status, reason) == ("False", "WaitingForAgent")
    assert "the node agents follow gpud" in message
    assert "gpud new of node n1: container gpud: ImagePullBackOff" in message
    assert condition(waiting, "Degraded")[0] == "False"
    (of_node,) = (d for d in applied(waiting, Manager.CONDITIONS) if d["kind"] == "Node")
    (ready,) = of_node["status"]["conditions"]
    assert (ready["type"], ready["status"]) == ("GPUReady", "True")


def test_a_gpud_that_cannot_start_makes_no_node_less_ready_where_another_serves() -> None:
    """Where gpud is in the agent's pod, as earlier versions had it, that one serves."""
    combined = AgentPod("agent", "n1", "p", rendered="earlier", has_gpud=True)
    found = seen(ROLLING, [combined, PULLING])
    assert "tessera-node-p" not in written(found)
    (of_node,) = (
        d for d in applied(decide(found).actions, Manager.CONDITIONS) if d["kind"] == "Node"
    )
    (ready,) = of_node["status"]["conditions"]
    assert (ready["type"], ready["status"]) == ("GPUReady", "True")


def test_once_their_daemon_set_is_changed_agents_of_before_are_outdated() -> None:
    rolling = decide(seen(THERE, [NEW])).actions
    assert "node agent agent is about to be replaced" in condition(rolling, "Ready")[2]
    done = decide(seen(THERE, [NEW], agent=AGENT)).actions
    assert condition(done, "Ready")[0] == "True"


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        ([PULLING], "gpud new: container gpud: ImagePullBackOff"),
        ([gpud_pod("old", "earlier", "container gpud: Error", True), STARTING], "gpud old: "),
        ([STARTING], "gpud new: container gpud: starting"),
        ([OLD, PULLING], ""),  # the old one serves
    ],
)
def test_a_node_without_gpud_says_why(pods: Sequence[AgentPod], told: str) -> None:
    actions = decide(seen(THERE, pods, agent=AGENT)).actions
    message = condition(actions, "Ready")[2]
    assert told in message
    (of_node,) = (d for d in applied(actions, Manager.CONDITIONS) if d["kind"] == "Node")
    (ready,) = of_node["status"]["conditions"]
    assert ready["status"] == ("False" if told else "True")


def test_a_roll_out_of_gpud_alone_names_the_pod_that_cannot_start() -> None:
    rolling = dataclasses.replace(THERE["tessera-gpud-p"], updated=0)
    sets = {**THERE, "tessera-gpud-p": rolling}
    message = condition(decide(seen(sets, [OLD, PULLING], agent=AGENT)).actions, "Ready")[2]
    assert "DaemonSet tessera-gpud-p is being rolled out: 0 of 1 pods are up to date" in message
    assert "ImagePullBackOff" in message
