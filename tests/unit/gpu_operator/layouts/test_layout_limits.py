"""MIGLayout: percentages, label expressions, and a status that stays small at any size."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from gpu_operator.api.v1alpha1.miglayout import Rollout
from support.worlds.gpu_world import agent_conditions, gpu, layout, mig_slice, node, pool, world
from support.worlds.layout_world import SEVEN, decide, status, written_instances


@pytest.mark.parametrize(
    ("limit", "gpus", "at_a_time"),
    [(3, 8, 3), ("25%", 8, 2), ("10%", 8, 1), ("1%", 800, 8), ("1%", 801, 9), ("100%", 7, 7)],
)
def test_a_percentage_is_of_the_selected_gpus_and_rounded_up(
    limit: int | str, gpus: int, at_a_time: int
) -> None:
    assert Rollout(max_unavailable=limit).unavailable_of(gpus) == at_a_time


@pytest.mark.parametrize("limit", [0, -1, "0%", "101%", "5.5%", "%", "-1%", "all"])
def test_an_invalid_limit_is_refused(limit: int | str) -> None:
    with pytest.raises(ValidationError):
        Rollout(max_unavailable=limit)


def test_a_percentage_rollout_begins_on_that_many_gpus() -> None:
    full = [mig_slice(place) for place in SEVEN]
    gpus = [gpu(index=i, want=SEVEN, have=full, layout="l") for i in range(8)]
    desired = layout("l", "2x3g.40gb", rollout={"max_unavailable": "50%"})
    outcome = decide(world(node(), pool(count=8), *gpus, desired))
    assert len(written_instances(outcome)) == 4
    messages = {g["message"] for g in status(outcome)["gpus"] if g["state"] == "Pending"}
    assert messages == {"waits for its turn (rollout.maxUnavailable: 50%)"}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator} | ({"values": values} if values else {})


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ({}, {"a", "b", "c"}),
        ({"match_labels": {"zone": "x"}}, {"a"}),
        ({"match_expressions": [expression("zone", "In", "x", "y")]}, {"a", "b"}),
        ({"match_expressions": [expression("zone", "NotIn", "x")]}, {"b", "c"}),
        ({"match_expressions": [expression("zone", "Exists")]}, {"a", "b"}),
        ({"match_expressions": [expression("zone", "DoesNotExist")]}, {"c"}),
        (
            {
                "match_labels": {"zone": "x"},
                "match_expressions": [expression("zone", "NotIn", "x")],
            },
            set(),
        ),
    ],
)
def test_nodes_are_selected_by_expressions(selector: dict[str, Any], found: set[str]) -> None:
    zones = {"a": {"zone": "x"}, "b": {"zone": "y"}, "c": {}}
    nodes = [node(name, labels={"gpu": "yes", **zone}) for name, zone in zones.items()]
    gpus = [gpu(name) for name in zones]
    desired = layout("l", "7g.80gb", select={"node_label_selector": selector})
    outcome = decide(world(*nodes, pool(), *gpus, desired))
    assert {name.removesuffix("-gpu-0") for name in written_instances(outcome)} == found


def test_a_status_stays_below_16_kib_and_lists_problems_first() -> None:
    nodes = [f"node-{i:03}-{'x' * 54}" for i in range(300)]  # 63 characters, the maximum
    why = agent_conditions(degraded=f"AgentError: {'why ' * 500}")
    gpus = [
        gpu(name, i, want=["7g.80gb@0"], layout="l", have=[mig_slice("7g.80gb@0")])
        for name in nodes[:-20]
        for i in range(4)
    ]
    gpus += [
        gpu(name, want=["7g.80gb@0"], layout="l", conditions=why, have=[mig_slice("7g.80gb@0")])
        for name in nodes[-20:]
    ]
    seen = world(*map(node, nodes), pool(count=4), *gpus, layout("l", "7g.80gb"))
    found = status(decide(seen))
    assert len(json.dumps(found)) < 16 << 10
    assert (found["gpusSelected"], found["gpusApplied"]) == (280 * 4 + 20, 280 * 4)
    assert {g["state"] for g in found["gpus"]} == {"Failed"}
    assert len(found["gpus"]) == 16


def test_a_small_status_names_every_gpu_by_name() -> None:
    gpus = [gpu(index=i) for i in range(8)]
    found = status(decide(world(node(), pool(count=8), *gpus, layout("l", "7g.80gb"))))
    assert [g["name"] for g in found["gpus"]] == [f"n1-gpu-{i}" for i in range(8)]
