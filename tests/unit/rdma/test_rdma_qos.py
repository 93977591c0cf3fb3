"""The QoS class of a flow, compared with nested loops over the manifests, and in plain cases."""

import pytest

from rdma.compiling.compiler import Compiler
from rdma.explain import Question, explain
from rdma.reading.manifests import pod as pod_of
from rdma.verbs import Verb
from support.oracles.rdma_oracle import Try, qos_class
from support.worlds.rdma_world import differences, load, network, nine, policy

CLASSES = [
    {"name": "bulk", "dscp": 10, "weight": 4, "maxRate": "1Gi"},
    {"name": "soon", "dscp": 26},
    {"name": "aside", "dscp": 26},
    {"name": "plain"},
]
X, Y = "10.0.1.1", "10.0.1.2"


def world_of(*specs):
    world = nine()
    world.networks = [network([], qosClasses=CLASSES)]
    world.policies = [policy(spec, f"p{at}") for at, spec in enumerate(specs)]
    return world


def egress(*rules, **more):
    return {"podSelector": {}, "policyTypes": ["Egress"], "egress": list(rules), **more}


CASES = {
    "no rule names a class": ([], 0, None),
    "by its traffic class, whatever its ECN bits": ([], 10 << 2 | 1, "bulk"),
    "of two with that DSCP the first by name": ([], 26 << 2, "aside"),
    "a DSCP that no class has": ([], 11 << 2, None),
    "by a rule": ([egress({"qosClassName": "bulk"})], 0, "bulk"),
    "a class without DSCP, by name alone": ([egress({"qosClassName": "plain"})], 0, "plain"),
    "a rule before the traffic class": ([egress({"qosClassName": "bulk"})], 26 << 2, "bulk"),
    "a rule for a traffic class": (
        [egress({"ports": [{"trafficClass": 104}], "qosClassName": "soon"}, {})],
        104,
        "soon",
    ),
    "and for another": (
        [egress({"ports": [{"trafficClass": 104}], "qosClassName": "soon"}, {})],
        40,
        "bulk",
    ),
    "a rule for another peer": (
        [egress({"to": [{"podSelector": {"matchLabels": {"pod": "z"}}}], "qosClassName": "soon"})],
        0,
        None,
    ),
    "the first of two rules that name one": (
        [egress({"qosClassName": "soon"}, {"qosClassName": "bulk"})],
        0,
        "soon",
    ),
    "the first policy by name": (
        [egress({"qosClassName": "plain"}), egress({"qosClassName": "bulk"})],
        0,
        "plain",
    ),
    "a policy that only audits marks nothing": (
        [egress({"qosClassName": "bulk"}, enforcement="Audit")],
        0,
        None,
    ),
    "an unknown class": ([egress({"qosClassName": "unknown"})], 10 << 2, "bulk"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_flow_is_in_the_class_that(name):
    specs, traffic_class, expected = CASES[name]
    world = world_of(*specs)
    compiler = load(Compiler(), world)
    assert qos_class(world, Try(X, Y, traffic_class=traffic_class)) == expected
    assert differences(world, compiler, ({"traffic_class": traffic_class},)) == []


def test_explain_says_the_class_and_what_it_does():
    world = world_of(egress({"qosClassName": "bulk"}))
    compiler = load(Compiler(), world)
    said = explain(compiler, map(pod_of, world.pods), Question("a/x", "a/y", Verb.WRITE))
    line = "  QoS class lab/bulk: DSCP 10, weight 4, at most 1073741824 bytes/s"
    assert line in said.lines()
    assert said.document()["qosClass"] == "bulk"
    question = Question("b/x", "a/y", Verb.WRITE)
    said = explain(compiler, map(pod_of, world.pods), question)
    assert said.document()["qosClass"] is None
    assert not any("QoS" in line for line in said.lines())
