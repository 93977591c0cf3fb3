"""A verdict's fields besides its verbs: answers, limits, memory and rules."""

from dataclasses import replace

import pytest

from rdma.compiling.compiler import Compiler
from rdma.evaluator import Evaluator
from rdma.reach import Reach
from rdma.tables import (
    Endpoint,
    Flow,
    Identity,
    Limits,
    Membership,
    Memory,
    NodeTables,
    Verdict,
)
from rdma.verbs import ALL, NONE, Verb
from support.worlds.rdma_world import Dict, load, nine, policy

X, Y, BX = "10.0.1.1", "10.0.1.2", "10.0.2.1"


def evaluate(flow: Flow, *specs: Dict) -> Verdict:
    world = nine()
    world.policies = [policy(spec, f"p{at}") for at, spec in enumerate(specs)]
    return Evaluator(load(Compiler(), world).tables("node-x")).evaluate(flow)


def ingress(*rules: Dict) -> Dict:
    return {"podSelector": {"matchLabels": {"pod": "x"}}, "ingress": list(rules)}


def test_a_verb_that_is_denied_to_a_known_peer_is_answered() -> None:
    verdict = evaluate(Flow(Y, X), ingress({"verbs": ["Read"]}))
    assert verdict.verbs == Verb.READ
    assert (verdict.peer_known, verdict.partition_shared) == (True, True)
    assert verdict.denied_by == ("a/p0",)
    assert (verdict.source_pod, verdict.destination_pod) == ("a/y", "a/x")


def test_a_peer_that_is_allowed_nothing_meets_silence() -> None:
    verdict = evaluate(Flow(Y, X), ingress())
    assert (verdict.verbs, verdict.peer_known) == (NONE, False)
    assert any("isolated by a/p0" in reason for reason in verdict.reasons)
    # Each side grants a verb, but none in common.
    verdict = evaluate(
        Flow(Y, X),
        ingress({"verbs": ["Read"]}),
        {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"verbs": ["Write"]}]},
    )
    assert (verdict.verbs, verdict.peer_known) == (NONE, False)


def test_another_partition_meets_silence() -> None:
    verdict = evaluate(Flow(Y, X, pkey=0x8005))
    assert (verdict.verbs, verdict.peer_known, verdict.partition_shared) == (NONE, True, False)


@pytest.mark.parametrize("order", [(True, False), (False, True)])
@pytest.mark.parametrize("side", ["source", "destination"])
def test_of_two_memberships_of_one_partition_the_full_one_counts(
    order: tuple[bool, bool], side: str
) -> None:
    """The compiler writes one membership per partition; hcad and linkd may also read other
    tables.
    """
    twice = Identity(1, partitions=tuple(Membership(0x11, full) for full in order))
    limited = Identity(2, partitions=(Membership(0x11, full=False),))
    ends = (Endpoint("10.0.0.1", 1, "a/x"), Endpoint("10.0.0.2", 2, "a/y"))
    tables = NodeTables(1, "n", identities=(twice, limited), endpoints=ends)
    source, destination = ("10.0.0.1", "10.0.0.2")[:: 1 if side == "source" else -1]
    flow = Flow(source, destination, pkey=0x8011)
    assert Evaluator(tables).evaluate(flow).verbs == ALL
    assert Reach(tables).possible_verbs(twice, limited) == ALL
    neither = replace(tables, identities=(replace(twice, partitions=limited.partitions), limited))
    assert Evaluator(neither).evaluate(flow).verbs == NONE


@pytest.mark.parametrize("pkey", [0xFFFF, 0x7FFF])
def test_the_membership_bit_of_a_packet_gives_a_pod_nothing(pkey: int) -> None:
    """Tables state each pod's membership; a packet's membership bit counts for outside peers
    only.
    """
    assert evaluate(Flow(Y, X, pkey=pkey)).verbs == ALL


@pytest.mark.parametrize(
    "address",
    [
        "",
        "x",
        "10.0.1",
        "010.0.1.1",
        "10.0.1.1 ",
        "fe80::1",
        "127.0.0.1",
        "0.0.0.0",
        "::",
        "fe80::1%eth0",
        "10.0.1.1\0",
    ],
)
@pytest.mark.parametrize("outward", [True, False])
def test_who_cannot_be_named_passes_nowhere(address: str, outward: bool) -> None:
    verdict = evaluate(Flow(X, address) if outward else Flow(address, X))
    assert (verdict.verbs, verdict.peer_known) == (NONE, False)


@pytest.mark.parametrize("group", ["224.0.0.1", "239.1.2.3", "ff02::1", "ff0e::7"])
def test_a_group_is_sent_to_like_a_stranger_and_never_sends(group: str) -> None:
    """Each member is evaluated separately; for the group only the sender's egress matters."""
    assert evaluate(Flow(X, group)).verbs == ALL
    assert evaluate(Flow(group, X)).verbs == NONE
    isolating = {"podSelector": {}, "policyTypes": ["Egress"]}
    assert evaluate(Flow(X, group), isolating).verbs == NONE
    length = 32 if "." in group else 128
    block = {"to": [{"ipBlock": {"cidr": f"{group}/{length}"}}], "verbs": ["UD"]}
    assert evaluate(Flow(X, group), {**isolating, "egress": [block]}).verbs == Verb.UD
    to_pods = {"to": [{"podSelector": {}}]}
    assert evaluate(Flow(X, group), {**isolating, "egress": [to_pods]}).verbs == NONE


def test_a_mapped_address_is_the_pods_own() -> None:
    """Otherwise a pod could avoid its isolation by another form of its address."""
    spec = {"podSelector": {}, "policyTypes": ["Egress"]}
    assert evaluate(Flow(f"::ffff:{X}", BX), spec).verbs == NONE
    assert evaluate(Flow(f"::FFFF:{Y}", X), ingress()).verbs == NONE


def test_an_isolated_pod_reaches_itself() -> None:
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert evaluate(Flow(X, X), spec).verbs == ALL
    assert evaluate(Flow("192.0.2.1", "192.0.2.1"), spec).verbs == ALL


def test_of_limits_the_least_counts() -> None:
    verdict = evaluate(
        Flow(Y, X),
        ingress({"limits": {"bandwidth": "2Gi", "maxQPs": 5}}, {"limits": {"bandwidth": "1Gi"}}),
        ingress({"verbs": ["Read"], "limits": {"ops": 7, "maxQPs": 9}}),
        {
            "podSelector": {},
            "policyTypes": ["Egress"],
            "egress": [{"limits": {"ops": 9, "maxMRBytes": 3}}],
        },
    )
    assert verdict.limits == Limits(1 << 30, None, 7, 5, 3)
    assert evaluate(Flow(X, Y), ingress({"limits": {"ops": 1}})).limits == Limits()


def test_memory_is_granted_verb_by_verb() -> None:
    named = {"scope": "Named", "regions": ["weights"], "maxAccess": "ReadOnly"}
    verdict = evaluate(
        Flow(Y, X), ingress({"verbs": ["Read"], "memory": named}, {"verbs": ["Write", "Send"]})
    )
    weights = Memory(read_only=True, scope="Named", regions=("weights",))
    assert set(verdict.grants) == {
        (Verb.READ, weights),
        (Verb.WRITE | Verb.SEND, Memory()),
    }
    assert verdict.memory == Memory(read_only=False, scope="Named", regions=("weights",))
    assert verdict.verbs == Verb.READ | Verb.WRITE | Verb.SEND
    assert evaluate(Flow(Y, X)).grants == ((ALL, Memory()),)


def test_what_no_grant_has_in_common_is_nothing() -> None:
    verdict = evaluate(
        Flow(Y, X),
        ingress(
            {"verbs": ["Read"], "memory": {"scope": "Named", "regions": ["a", "c"]}},
            {"verbs": ["Write"], "memory": {"scope": "Named", "regions": ["b", "c"]}},
        ),
    )
    assert verdict.memory == Memory(scope="Named", regions=("c",))
    verdict = evaluate(
        Flow(Y, X),
        ingress(
            {"verbs": ["Read"], "memory": {"scope": "Named", "regions": ["a"]}},
            {"verbs": ["Write"], "memory": {"scope": "ProtectionDomain"}},
        ),
    )
    assert verdict.memory == Memory(scope="Named", regions=())


def test_send_says_nothing_about_memory() -> None:
    verdict = evaluate(
        Flow(Y, X),
        ingress({"verbs": ["Send"], "memory": {"scope": "ProtectionDomain"}}, {"verbs": ["Read"]}),
    )
    assert verdict.memory == Memory()


def test_audits_are_counted_and_deny_nothing() -> None:
    audit = {**ingress({"verbs": ["Read"]}), "enforcement": "Audit"}
    verdict = evaluate(Flow(Y, X), audit)
    assert (verdict.verbs, verdict.audited) == (ALL, ALL & ~Verb.READ)
    verdict = evaluate(Flow(Y, X), audit, ingress({"verbs": ["Read", "Send"]}))
    assert (verdict.verbs, verdict.audited) == (Verb.READ | Verb.SEND, NONE)


def test_rules_that_matched_are_named() -> None:
    world = nine()
    world.policies = [policy(ingress({"verbs": ["Read"]}, {"from": [{"podSelector": {}}]}))]
    tables = load(Compiler(), world).tables("node-x")
    verdict = Evaluator(tables).evaluate(Flow(BX, X))
    assert [(tables.rules[at].policy, tables.rules[at].index) for at in verdict.rules] == [
        ("a/p", 0)
    ]
    assert len(Evaluator(tables).evaluate(Flow(Y, X)).rules) == 2
