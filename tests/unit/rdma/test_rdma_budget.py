"""The budget of one namespace in the tables: which policies are refused, and which stay."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gpu_operator.api.v1alpha1.rdma.packing import MAX_PACKED_BYTES, Packer
from rdma.compiling import budget
from rdma.compiling.budget import ALL_BYTES, NAMESPACE_BYTES, Charge, find_refused
from rdma.compiling.compiler import Compiler
from rdma.errors import OverBudgetError
from rdma.evaluator import Evaluator
from rdma.reading import manifests
from rdma.tables import (
    Block,
    Direction,
    Flow,
    Limits,
    Memory,
    NodeTables,
    Port,
    Rule,
)
from rdma.verbs import Verb
from support.worlds.rdma_world import Dict, load, namespace, nine, pod, policy

RANDOM = random.Random(23)


def packed_bytes(compiler: Compiler) -> int:
    """Return the bytes of the object that holds a node's tables."""
    return len(Packer().pack(compiler.tables("node-x")).text)


def refused_policies(compiler: Compiler) -> set[str]:
    """Return the policies that the budget refuses."""
    return {
        key
        for (_, key), errors in compiler.problems().items()
        if any(isinstance(one, OverBudgetError) for one in errors)
    }


def address() -> str:
    return ":".join(f"{RANDOM.randrange(1, 0x10000):x}" for _ in range(8)) + "/128"


def blocks(count: int, excepted: int = 0) -> Dict:
    """Return the spec of one rule for all pods of the namespace, with random blocks."""
    peers = [
        {"ipBlock": {"cidr": "::/0", "except": [address() for _ in range(excepted)]}}
        if excepted
        else {"ipBlock": {"cidr": address()}}
        for _ in range(count)
    ]
    return {"podSelector": {}, "ingress": [{"from": peers}]}


def names(spec: Dict) -> Dict:
    """Return a policy's spec with random names of regions."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    regions = ["".join(RANDOM.choices(letters, k=60)) for _ in range(200)]
    return {**spec, "ingress": [{"memory": {"scope": "Named", "regions": regions}}]}


def limits(spec: Dict) -> Dict:
    def number() -> str:
        return str(RANDOM.randrange(1, 1 << 62))

    said = {"bandwidth": number(), "burst": number(), "ops": number(), "maxMRBytes": number()}
    ports = [{"qpn": RANDOM.randrange(1 << 23), "endQPN": (1 << 24) - 1} for _ in range(20)]
    return {**spec, "ingress": [{"limits": said, "ports": ports} for _ in range(50)]}


def subset_rules(spec: Dict) -> Dict:
    """Return rules whose peers are irregular subsets of all pods."""

    def peers() -> Dict:
        values = [f"v{RANDOM.randrange(40)}" for _ in range(RANDOM.randrange(1, 30))]
        said = {"key": "kind", "operator": RANDOM.choice(["In", "NotIn"]), "values": values}
        return {"namespaceSelector": {}, "podSelector": {"matchExpressions": [said]}}

    return {**spec, "ingress": [{"from": [peers()]} for _ in range(100)]}


def odd_subjects(spec: Dict) -> Dict:
    values = [f"v{RANDOM.randrange(40)}" for _ in range(20)]
    said = {"key": "kind", "operator": "In", "values": values}
    return {
        "podSelector": {"matchExpressions": [said]},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"verbs": ["Read"]}] * 30,
        "egress": [{}] * 30,
    }


HEAVY: dict[str, Callable[[], Dict]] = {
    "blocks": lambda: blocks(200),
    "exceptions": lambda: blocks(10, 40),
    "names of regions": lambda: names({"podSelector": {}}),
    "numbers": lambda: limits({"podSelector": {}}),
    "subsets of pods": lambda: subset_rules({"podSelector": {}}),
    "rules of many kinds of pods": lambda: odd_subjects({}),
    "empty rules": lambda: {"podSelector": {}, "ingress": [{}] * 400},
    "no rules": lambda: {"podSelector": {}},
}


def many_kinds(count: int) -> Compiler:
    """Return a compiler with ``count`` pods in two namespaces, each with its own labels."""
    compiler = Compiler()
    for space in "ab":
        compiler.upsert_namespace(manifests.namespace(namespace(space)))
    for number in range(count):
        space = "ab"[number % 2]
        labels = {"kind": f"v{number % 40}", "own": str(number)}
        made = pod(space, f"n{number}", f"10.1.{number >> 8}.{number & 255}", labels)
        compiler.upsert_pod(manifests.pod(made))
    named = {"matchExpressions": [{"key": "own", "operator": "Exists"}]}
    compiler.upsert_policy(manifests.policy(policy({"podSelector": named}, "named", "b")))
    return compiler


@pytest.mark.parametrize("kind", HEAVY)
def test_tables_grow_by_no_more_than_what_is_charged(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every property that can make a policy large; identities may take 10 bytes each in
    addition.
    """
    for name in ("NAMESPACE_BYTES", "ALL_BYTES"):
        monkeypatch.setattr(budget, name, 1 << 40)
    charged: list[int] = []

    def record_charges(charges: Any, find_refused: Any = find_refused) -> Any:
        charged[:] = [sum(one.size for listed in charges.values() for one in listed)]
        return find_refused(charges)

    monkeypatch.setattr(budget, "find_refused", record_charges)
    compiler = many_kinds(300)
    monkeypatch.setattr("gpu_operator.api.v1alpha1.rdma.packing.PLAIN_BYTES", 0)
    before, charged_before = packed_bytes(compiler), charged[0]
    for number in range(12):
        name = f"p{number}-{RANDOM.getrandbits(200):x}"
        compiler.upsert_policy(manifests.policy(policy(HEAVY[kind](), name)))
    grown = packed_bytes(compiler) - before
    assert 0 < grown <= charged[0] - charged_before + 10 * 300


@pytest.mark.parametrize(
    "spec",
    [lambda: blocks(128, 128), lambda: blocks(1000), lambda: {"ingress": [{}] * 1000}],
    ids=["128x128", "1000", "empty rules"],
)
def test_rules_that_no_identity_uses_are_not_in_the_tables(spec: Callable[[], Dict]) -> None:
    compiler = load(Compiler(), nine())
    before = packed_bytes(compiler)
    for space, selector in (("a", {"matchLabels": {"gone": "yes"}}), ("empty", {})):
        said = {**spec(), "podSelector": selector}
        compiler.upsert_policy(manifests.policy(policy(said, "p", space)))
    assert packed_bytes(compiler) == before
    assert compiler.tables("").rules == ()
    assert refused_policies(compiler) == set()
    late = policy({"podSelector": {"matchLabels": {"gone": "yes"}}, "ingress": [{}]}, "late")
    compiler.upsert_policy(manifests.policy(late))
    compiler.upsert_pod(manifests.pod(pod("a", "late", "10.0.9.9", {"gone": "yes"})))
    assert [rule.policy for rule in compiler.tables("").rules if rule.policy] != []


def referenced_rules(tables: NodeTables) -> set[int]:
    return {
        place
        for identity in tables.identities
        for side in (identity.ingress, identity.egress)
        if side is not None
        for place in (*side.rules, *side.audited_rules)
    }


def travelling(tables: NodeTables) -> set[int]:
    return {place for place, rule in enumerate(tables.rules) if rule.policy}


SIZES = st.integers(1, 12)
ATTACKS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("pqrs"), SIZES, st.booleans(), st.booleans()),
    max_size=10,
)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set budgets that three small policies exceed."""
    monkeypatch.setattr(budget, "NAMESPACE_BYTES", 600)
    monkeypatch.setattr(budget, "ALL_BYTES", 900)


@settings(QUICK, suppress_health_check=list(HealthCheck))
@given(ATTACKS, st.permutations(range(10)), st.integers(0))
def test_in_whatever_order_policies_come_the_same_ones_are_refused(
    narrow: None, steps: list[Any], order: list[int], waits: int
) -> None:
    """Policies come one by one, with tables compiled between, and other pods exist temporarily."""
    one_by_one = load(Compiler(), nine())
    said: dict[tuple[str, str], Dict] = {}
    extra = manifests.pod(pod("a", "extra", "10.0.9.9", {"app": "new", "pod": "extra"}))
    for at, (space, name, size, selects, removed) in enumerate(steps):
        selector = {} if selects else {"matchLabels": {"pod": "none"}}
        rules = [{"from": [{"namespaceSelector": {}}], "verbs": ["Read"]}] * size
        made = policy({"podSelector": selector, "ingress": rules}, name, space)
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{order[at] % 4:02}Z"
        said[space, name] = made
        one_by_one.upsert_policy(manifests.policy(made))
        if removed:
            one_by_one.delete_policy(f"{space}/{name}")
            del said[space, name]
            one_by_one.upsert_pod(extra)
        if waits >> at & 1:
            one_by_one.tables("")
    one_by_one.delete_pod(extra.uid)
    at_once = load(Compiler(), nine())
    for made in sorted(said.values(), key=lambda one: str(one["metadata"]), reverse=True):
        at_once.upsert_policy(manifests.policy(made))
    assert refused_policies(one_by_one) == refused_policies(at_once)
    for compiler in (one_by_one, at_once):
        tables = compiler.tables("")
        assert travelling(tables) == referenced_rules(tables)
    assert verdicts(one_by_one) == verdicts(at_once)


def verdicts(compiler: Compiler) -> dict[tuple[str, str], int]:
    evaluator = Evaluator(compiler.tables(""))
    ends = [f"10.0.{i}.{j}" for i in (1, 2, 3) for j in (1, 2, 3)] + ["192.0.2.7"]
    return {(a, b): int(evaluator.evaluate(Flow(a, b)).verbs) for a in ends for b in ends}


SPECS = st.fixed_dictionaries(
    {
        "podSelector": st.sampled_from([{}, {"matchLabels": {"pod": "x"}}]),
        "ingress": st.lists(
            st.sampled_from(
                [
                    {"verbs": ["Read"]},
                    {"from": [{"namespaceSelector": {}}]},
                    {"from": [{"ipBlock": {"cidr": "10.0.0.0/16"}}]},
                ]
            ),
            max_size=2,
        ),
    },
    optional={"policyTypes": st.sampled_from([["Ingress"], ["Ingress", "Egress"]])},
)


@settings(QUICK, suppress_health_check=list(HealthCheck))
@given(st.lists(SPECS, min_size=1, max_size=2), SIZES, st.booleans())
def test_verdicts_of_other_namespaces_stay_whatever_one_writes(
    narrow: None, others: list[Dict], size: int, selects: bool
) -> None:
    """Checked between pods of all namespaces except the one with too many policies."""
    compiler = load(Compiler(), nine())
    for number, spec in enumerate(others):
        compiler.upsert_policy(manifests.policy(policy(spec, f"p{number}", "b")))
    before = verdicts(compiler)
    for number in range(3):
        said = {**blocks(size * 4), "policyTypes": ["Ingress", "Egress"]}
        said["podSelector"] = {} if selects else {"matchLabels": {"pod": "none"}}
        compiler.upsert_policy(manifests.policy(policy(said, f"q{number}")))
    after = verdicts(compiler)
    assert not any(key.startswith("b/") for key in refused_policies(compiler))
    for (one, other), verbs in before.items():
        if "10.0.1." not in one + other:
            assert after[one, other] == verbs


@settings(QUICK, suppress_health_check=list(HealthCheck))
@given(st.lists(SPECS, min_size=1, max_size=4), SIZES)
def test_without_room_a_policy_isolates_and_allows_nothing(
    narrow: None, specs: list[Dict], size: int
) -> None:
    """Verdicts are the same as if the refused policies had no rules."""
    compiler, without_rules = load(Compiler(), nine()), load(Compiler(), nine())
    for number, spec in enumerate(specs):
        large = {**spec, "ingress": [*spec["ingress"], *blocks(size * 2)["ingress"]]}
        compiler.upsert_policy(manifests.policy(policy(large, f"p{number}")))
    refusals = refused_policies(compiler)
    for number, spec in enumerate(specs):
        kept = f"a/p{number}" not in refusals
        rules = compiler_rules(compiler, f"a/p{number}")
        assert bool(rules) is kept
        said = {**spec, "ingress": spec["ingress"] if kept else []}
        without_rules.upsert_policy(manifests.policy(policy(said, f"p{number}")))
    assert verdicts(compiler) == verdicts(without_rules)


def compiler_rules(compiler: Compiler, key: str) -> list[Rule]:
    return [rule for rule in compiler.tables("").rules if rule.policy == key]


def charges(**sizes: list[int]) -> dict[str, list[Charge]]:
    return {
        space: [Charge(f"{space}/p{n}", f"{n:03}", size) for n, size in enumerate(listed)]
        for space, listed in sizes.items()
    }


def test_exactly_the_budget_fits_and_one_byte_more_does_not() -> None:
    half = NAMESPACE_BYTES // 2
    assert find_refused(charges(a=[half, half])) == {}
    assert list(find_refused(charges(a=[half, half + 1]))) == ["a/p1"]
    assert list(find_refused(charges(a=[half + 1, half, half - 1]))) == ["a/p1"], (
        "p2 fits beside p0"
    )
    quarter = ALL_BYTES // 4
    assert find_refused(charges(a=[quarter], b=[quarter], c=[quarter], d=[quarter])) == {}
    more = charges(a=[quarter], b=[quarter], c=[quarter], d=[quarter, 1])
    assert list(find_refused(more)) == ["d/p1"]


def test_the_largest_namespaces_give_way_when_all_together_have_no_room() -> None:
    large = [NAMESPACE_BYTES // 4] * 4
    found = find_refused(charges(a=large, b=large, c=large, d=large, small=[1000] * 50))
    assert sorted(found) == [f"{space}/p3" for space in "abcd"]
    (one, *_) = found.values()
    assert one.allowed == (ALL_BYTES - 50_000) // 4
    assert "all namespaces together" in str(one.error())


def test_a_rule_is_charged_as_on_paper() -> None:
    """8 for the rule; for text 2 and a byte per character (1 more), or 3/4 byte per digit."""
    plain = Rule("a/p", Direction.INGRESS, 0, Verb.READ)
    verbs = len(str(Verb.READ.value)) * 3 // 4 + 1
    name, scope = len("a/p") + 3, len("Pod") + 3
    assert budget.rule_bytes(plain) == 8 + name + verbs + scope
    digits = len("10.0.0.0/16") * 3 // 4 + 2
    more = replace(
        plain,
        index=12,
        blocks=(Block("10.0.0.0/16", ("10.0.0.0/24",)), Block("10.0.0.0/16")),
        ports=(Port(qpns=(1234, 123456)),),
        memory=Memory(read_only=True, scope="Pod", regions=("device",)),
        limits=Limits(queue_pairs=100),
        qos_class="bulk",
    )
    said = 3 * digits + (3 + 1) + (4 + 1) + (len("device") + 3) + (2 + 1) + (len("bulk") + 3)
    assert budget.rule_bytes(more) == budget.rule_bytes(plain) + said + (1 + 1)
    assert budget.isolation_bytes("a/p", 0) == 5
    assert budget.isolation_bytes("a/p", 7) == 5 + 7 * 5


def test_peers_are_charged_as_on_paper() -> None:
    """By the entropy of so many of so many: none and all are free, half is the most expensive."""
    assert budget.peers_bytes(0, 0) == budget.peers_bytes(0, 255) == 16
    assert budget.peers_bytes(256, 256) == budget.peers_bytes(0, 256) == 17
    # 100 of 200: 200 bits are 25 bytes, 33.3 in base64; a fifth is added, and 0.4 for each of the
    # 100; the maximum is a fifth of a byte for each of the 200.
    assert budget.peers_bytes(100, 200) == 16 + 40
    # 10 of 200: 57.3 bits are 7.2 bytes, 9.5 in base64; 11.5 with a fifth added, and 4 for the 10.
    assert budget.peers_bytes(10, 200) == budget.peers_bytes(190, 200) == 16 + 15
    assert budget.peers_bytes(1, 200) == 16 + 2


def test_the_documentation_has_the_budgets() -> None:
    """Tenants plan with the budgets, and a larger object would change them."""
    text = (Path(__file__).parents[3] / "docs" / "rdma-policies.md").read_text()
    assert f"| the policies of one namespace | {NAMESPACE_BYTES:,} at most" in text
    assert f"| the policies of all namespaces | {ALL_BYTES:,} at most" in text
    assert MAX_PACKED_BYTES - ALL_BYTES == 400_000, "for pods"


def test_a_refusal_says_how_much_there_is_and_what_to_do() -> None:
    compiler = load(Compiler(), nine())
    for number in range(2):
        compiler.upsert_policy(manifests.policy(policy(blocks(128, 40), f"p{number}")))
    ((_, problems),) = compiler.problems().items()
    (problem,) = problems
    assert isinstance(problem, OverBudgetError)
    assert f"namespace a, which may take {NAMESPACE_BYTES} in all" in problem.problem
    assert "wider ipBlocks" in problem.remedy
