"""Properties for any objects in any order.

Compiling step by step has the same result as at once, and objects that allow more deny no more.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rdma import codec
from rdma.bits import numbers
from rdma.compiling.compiler import Compiler
from rdma.evaluator import Evaluator
from rdma.reading import manifests
from rdma.tables import UNIDENTIFIED, Flow, Isolation
from support.oracles.rdma_oracle import World
from support.worlds.rdma_world import Dict, differences, load, namespace, network, nine, pod, policy

LABELS = st.dictionaries(
    st.sampled_from(["app", "tier", "pod"]), st.sampled_from("uvw"), max_size=3
)
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(["app", "tier", "ns"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from("uvwab"), min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["app", "tier", "team"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
SELECTORS = st.one_of(
    st.just({}),
    st.builds(lambda labels: {"matchLabels": labels}, LABELS),
    st.builds(
        lambda items: {"matchExpressions": items}, st.lists(EXPRESSIONS, min_size=1, max_size=2)
    ),
)
PEERS = st.one_of(
    st.builds(lambda pods: {"podSelector": pods}, SELECTORS),
    st.builds(lambda spaces: {"namespaceSelector": spaces}, SELECTORS),
    st.builds(
        lambda pods, spaces: {"podSelector": pods, "namespaceSelector": spaces},
        SELECTORS,
        SELECTORS,
    ),
    st.sampled_from(
        [
            {"ipBlock": {"cidr": "10.0.0.0/30"}},
            {"ipBlock": {"cidr": "10.0.0.0/24", "except": ["10.0.0.4/30"]}},
            {"partition": {"name": "one"}},
            {"partition": {"name": "two", "membership": "Limited"}, "podSelector": {}},
        ]
    ),
)
VERBS = st.lists(st.sampled_from(["Read", "Write", "Send", "UD"]), max_size=2)


def rule(side: str) -> st.SearchStrategy[Dict]:
    return st.builds(
        lambda peers, verbs: {side: peers, "verbs": verbs}, st.lists(PEERS, max_size=2), VERBS
    )


def egress_rule() -> st.SearchStrategy[Dict]:
    named = st.sampled_from([None, None, "bulk", "soon", "unknown"])
    return st.builds(
        lambda said, name: said if name is None else {**said, "qosClassName": name},
        rule("to"),
        named,
    )


SPECS = st.fixed_dictionaries(
    {"podSelector": SELECTORS},
    optional={
        "policyTypes": st.sampled_from([["Ingress"], ["Egress"], ["Ingress", "Egress"]]),
        "ingress": st.lists(rule("from"), max_size=2),
        "egress": st.lists(egress_rule(), max_size=2),
        "enforcement": st.sampled_from(["Enforce", "Audit"]),
    },
)
MEMBERS = st.lists(
    st.builds(
        lambda pods, level: {"podSelector": pods, "membership": level},
        SELECTORS,
        st.sampled_from(["Full", "Limited"]),
    ),
    max_size=2,
)
PARTITIONS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["one", "two"]), "members": MEMBERS},
        optional={"pkey": st.sampled_from([3, 4, 0x7FFF])},
    ),
    max_size=2,
    unique_by=lambda partition: partition["name"],
)
CLASSES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["bulk", "soon"])},
        optional={"dscp": st.sampled_from([0, 10, 26]), "weight": st.integers(1, 256)},
    ),
    max_size=2,
    unique_by=lambda one: one["name"],
)
SPACES = st.sampled_from("abc")
STEPS = st.one_of(
    st.builds(
        lambda *said: ("pod", *said),
        SPACES,
        st.sampled_from("xyz"),
        st.integers(1, 9),
        LABELS,
        st.booleans(),
    ),
    st.tuples(st.just("no pod"), SPACES, st.sampled_from("xyz")),
    st.tuples(st.just("namespace"), SPACES, st.sampled_from(["u", "v"])),
    st.tuples(st.just("no namespace"), SPACES),
    st.tuples(st.just("policy"), SPACES, st.sampled_from("pq"), SPECS),
    st.tuples(st.just("no policy"), SPACES, st.sampled_from("pq")),
    st.tuples(st.just("network"), st.sampled_from(["lab", "late"]), PARTITIONS, CLASSES),
    st.tuples(st.just("no network"), st.sampled_from(["lab", "late"])),
    st.just(("look",)),
)


class Both:
    """A compiler that receives each change, and the manifests that result."""

    def __init__(self) -> None:
        self.compiler = Compiler()
        self.objects: dict[tuple[str, ...], Dict] = {}
        for space in "ab":
            self.do(("namespace", space, "u"))

    def do(self, step: Any) -> None:
        kind, *said = step
        compiler = self.compiler
        if kind == "pod":
            space, name, last, labels, running = said
            phase = {"phase": "Running" if running else "Failed"}
            made = pod(space, name, f"10.0.0.{last}", labels, status=phase)
            self.objects["pod", space, name] = made
            compiler.upsert_pod(manifests.pod(made))
        elif kind == "no pod":
            self.objects.pop(("pod", *said), None)
            compiler.delete_pod("-".join(said))
        elif kind == "namespace":
            made = namespace(said[0], team=said[1])
            self.objects["namespace", said[0]] = made
            compiler.upsert_namespace(manifests.namespace(made))
        elif kind == "no namespace":
            self.objects.pop(("namespace", *said), None)
            compiler.delete_namespace(said[0])
        elif kind == "policy":
            made = policy(said[2], said[1], said[0])
            self.objects["policy", said[0], said[1]] = made
            compiler.upsert_policy(manifests.policy(made))
        elif kind == "no policy":
            self.objects.pop(("policy", *said), None)
            compiler.delete_policy("/".join(said))
        elif kind == "network":
            made = network(said[1], said[0], qosClasses=said[2])
            self.objects["network", said[0]] = made
            compiler.upsert_network(manifests.network(made))
        elif kind == "no network":
            self.objects.pop(("network", *said), None)
            compiler.delete_network(said[0])
        else:
            compiler.tables("node-x")

    def world(self) -> World:
        def of(kind: str) -> list[Dict]:
            return [made for key, made in self.objects.items() if key[0] == kind]

        return World(of("pod"), of("namespace"), of("network"), of("policy"))


def meaning(compiler: Compiler) -> Any:
    """Return the content of tables without numbers of identities and rules."""
    tables = compiler.tables("node-x")
    pods = [one for node in compiler.nodes() for one in compiler.tables(node).pods]
    of_identity: dict[int, frozenset[str]] = {
        identity.number: frozenset(one.uid for one in pods if one.identity == identity.number)
        for identity in tables.identities
    }
    assert all(uids or number == UNIDENTIFIED for number, uids in of_identity.items()), (
        "a dead identity"
    )

    def uids(peers: int | None) -> Any:
        return (
            None if peers is None else frozenset(of_identity[number] for number in numbers(peers))
        )

    rules = {
        place: (
            *(one.policy, one.direction, one.index, one.verbs, uids(one.peers), one.blocks),
            one.qos_class,
        )
        for place, one in enumerate(tables.rules)
        if one.policy
    }

    def side(isolation: Isolation | None) -> Any:
        if isolation is None:
            return None
        return (
            frozenset(rules[place] for place in isolation.rules),
            frozenset(rules[place] for place in isolation.audited_rules),
            isolation.enforced,
            isolation.audited,
            isolation.policies,
            isolation.audited_policies,
        )

    return (
        frozenset(rules.values()),
        {
            of_identity[one.number]: (side(one.ingress), side(one.egress), one.partitions)
            for one in tables.identities
        },
        {one.address: (one.pod, of_identity[one.identity]) for one in tables.endpoints},
        {one.uid: (one.name, one.addresses) for one in pods},
        tables.qos_classes,
    )


QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


PODS_AT_FIRST = st.tuples(
    *(
        st.tuples(
            st.just("pod"), st.just(space), st.just(name), st.just(last), LABELS, st.just(True)
        )
        for last, (space, name) in enumerate([(s, n) for s in "ab" for n in "xy"], 1)
    )
)
POLICIES_AT_FIRST = st.lists(
    st.tuples(st.just("policy"), st.sampled_from("ab"), st.sampled_from("pq"), SPECS),
    min_size=1,
    max_size=3,
)


@settings(QUICK, max_examples=150)
@given(
    *(PODS_AT_FIRST, POLICIES_AT_FIRST, PARTITIONS, CLASSES, st.lists(STEPS, max_size=12)),
    st.integers(0),
)
def test_step_by_step_is_the_same_as_at_once_and_as_the_oracle(
    pods: Any,
    policies: list[Any],
    partitions: list[Dict],
    classes: list[Dict],
    steps: list[Any],
    waits: int,
) -> None:
    """Tables are compiled after each step, except where a bit of ``waits`` postpones that."""
    both = Both()
    for step in (*pods, *policies, ("network", "lab", partitions, classes), ("look",)):
        both.do(step)
    for at, step in enumerate(steps):
        both.do(step)
        if not waits >> at & 1:
            both.do(("look",))
    world = both.world()
    at_once = load(Compiler(both.compiler.pkeys), world)
    assert meaning(both.compiler) == meaning(at_once)
    assert both.compiler.pkeys == at_once.pkeys
    pkeys = {0xFFFF, *(key | 0x8000 for key in both.compiler.pkeys.values())}
    tries = ({}, {"traffic_class": 42})
    assert differences(world, both.compiler, tries, sorted(pkeys)) == []
    tables = both.compiler.tables("node-x", 7)
    assert codec.decode(codec.encode(tables)) == tables


def test_a_world_of_many_identities_is_the_same_step_by_step() -> None:
    """There are so many that numbers are reused, and sets are longer than a machine word."""
    both = Both()
    for space in "abc":
        both.do(("namespace", space, "u"))
    both.do(
        (
            "policy",
            "a",
            "p",
            {"podSelector": {"matchExpressions": [{"key": "n", "operator": "Exists"}]}},
        )
    )
    both.do(
        (
            "policy",
            "b",
            "p",
            {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]},
        )
    )

    def put(number: int, label: str) -> None:
        space = "abc"[number % 3]
        made = pod(space, f"n{number}", f"10.1.0.{number}", {"n": label})
        both.objects["pod", space, f"n{number}"] = made
        both.compiler.upsert_pod(manifests.pod(made))

    for number in range(200):
        put(number, str(number))
    assert len(both.compiler.tables("").identities) == 201
    for number in range(0, 200, 2):
        put(number, "same")
    assert meaning(both.compiler) == meaning(load(Compiler(), both.world()))
    assert len(both.compiler.tables("").identities) == 104
    for number in range(0, 200, 3):
        put(number, f"new{number}")
    assert meaning(both.compiler) == meaning(load(Compiler(), both.world()))
    both.do(("no policy", "a", "p"))
    assert len(both.compiler.tables("").identities) == 4, "labels that no selector names are pruned"
    assert max(one.number for one in both.compiler.tables("").identities) < 201 + 3


def everything_passing(compiler: Compiler) -> dict[tuple[str, str], int]:
    evaluator = Evaluator(compiler.tables("node-x"))
    addresses = [f"10.0.{i}.{j}" for i in (1, 2, 3) for j in (1, 2, 3)] + ["192.0.2.7"]
    return {
        (one, other): int(evaluator.evaluate(Flow(one, other)).verbs)
        for one in addresses
        for other in addresses
    }


ENFORCED = SPECS.filter(lambda spec: spec.get("enforcement") != "Audit")


@QUICK
@given(ENFORCED, SPECS, st.sampled_from("ab"))
def test_a_policy_for_whom_others_isolate_removes_nothing(
    first: Dict, second: Dict, space: str
) -> None:
    world = nine()
    both_ways: Dict = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    world.policies = [policy(both_ways, "all", space), policy(first, "first", space)]
    compiler = load(Compiler(), world)
    before = everything_passing(compiler)
    compiler.upsert_policy(manifests.policy(policy(second, "second", space)))
    after = everything_passing(compiler)
    assert all(before[pair] & ~after[pair] == 0 for pair in before)


@QUICK
@given(SPECS, SPECS)
def test_the_order_of_policies_means_nothing(first: Dict, second: Dict) -> None:
    found = []
    for specs in ([("1", first), ("2", second)], [("2", second), ("1", first)]):
        world = nine()
        world.policies = [policy(spec, name) for name, spec in specs]
        found.append(everything_passing(load(Compiler(), world)))
    assert found[0] == found[1]


@pytest.mark.parametrize("direction", ["Ingress", "Egress"])
def test_no_peer_reaches_pods_that_a_policy_without_rules_selects(direction: str) -> None:
    world = nine()
    world.policies = [
        policy({"podSelector": {}, "policyTypes": [direction]}, space=s) for s in "abc"
    ]
    passing = everything_passing(load(Compiler(), world))
    inward = direction == "Ingress"
    for (source, destination), verbs in passing.items():
        selected = destination if inward else source
        assert bool(verbs) == (source == destination or selected == "192.0.2.7")


def test_compiling_nothing_anew_makes_nothing_anew() -> None:
    compiler = load(Compiler(), nine())
    before = compiler.tables("node-x")
    revision = compiler.revision
    load(compiler, nine())
    assert compiler.tables("node-x").identities is before.identities
    assert compiler.revision == revision


def test_a_pod_of_known_facts_leaves_rules_and_identities_as_they_are() -> None:
    """The part that nodes share is encoded once, as long as it is the same object."""
    world = nine()
    world.policies = [policy({"podSelector": {}, "ingress": [{}]})]
    compiler = load(Compiler(), world)
    before = compiler.tables("node-x")
    compiler.upsert_pod(manifests.pod(pod("a", "more", "10.0.9.9", {"app": "web", "pod": "x"})))
    after = compiler.tables("node-x")
    assert after.rules is before.rules
    assert after.identities is before.identities
    assert len(after.endpoints) == len(before.endpoints) + 1
