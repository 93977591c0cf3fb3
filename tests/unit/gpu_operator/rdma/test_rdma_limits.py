"""Objects that are too large or invalid: they are reported, deny their own pods, and block no
others.
"""

import datetime
import random
from typing import Any

import pytest

from gpu_operator.api.v1alpha1.base import Condition, ConditionType
from gpu_operator.api.v1alpha1.rdma import packing
from gpu_operator.controllers.rdma import reports
from gpu_operator.kube.actions import Apply
from rdma.compiling import budget, compiled_policy, excess
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from rdma.tables import DEFAULT_PKEY, Identity
from support.worlds.policy_cluster import RdmaWorld

A, B = "a", "b"
TRAIN: dict[str, Any] = {"name": "train", "members": [{"podSelector": {}}]}
# The schema does not require values for In, so the API server accepts this.
UNREADABLE = {"podSelector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}


@pytest.fixture
def world() -> RdmaWorld:
    """Return two nodes with a pod each, in two namespaces."""
    made = RdmaWorld()
    for node, space in ((A, "ml"), (B, "other")):
        made.node(node)
        made.namespace(space)
        made.pod(f"{space}/pod", node, f"10.0.0.{len(space)}", app="x")
    return made


def identity(world: RdmaWorld, pod: str, node: str = A) -> Identity:
    """Return a pod's identity in a node's tables."""
    tables = world.tables(node)
    number = next(one.identity for one in tables.endpoints if one.pod == pod)
    return next(one for one in tables.identities if one.number == number)


def pkeys(world: RdmaWorld) -> list[int]:
    return [one.pkey for one in identity(world, "ml/pod").partitions]


def test_tables_that_are_too_large_are_never_programmed(
    world: RdmaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acknowledgements of earlier tables do not count for tables that were never sent."""
    world.policy("ml/p")
    world.settle(A, B)
    monkeypatch.setattr(packing, "PLAIN_BYTES", 10)
    monkeypatch.setattr(packing, "MAX_PACKED_BYTES", 100)
    world.policy("ml/p", ingress=[{"verbs": ["Send"]}])
    for _ in range(3):
        world.step(A, B)
        status, reason, message = world.programmed_condition("ml/p")
        assert (status, reason) == ("False", "Pending")
        assert "the limit is 100" in message
    monkeypatch.undo()
    world.settle(A, B)
    assert world.programmed_condition("ml/p")[0] == "True"
    assert len(world.tables(A).rules) == 1


@pytest.mark.parametrize(
    "partitions",
    [
        pytest.param([{**TRAIN, "members": [UNREADABLE]}], id="a member"),
        pytest.param([{**TRAIN, "pkey": 0x8001}], id="a P_Key"),
        pytest.param({"train": TRAIN}, id="all of them"),
    ],
)
def test_an_invalid_network_allows_nothing_after_a_restart(
    world: RdmaWorld, partitions: Any
) -> None:
    """Its members were in a partition, so they must not enter the default one."""
    world.network("lab", partitions=[TRAIN])
    world.settle(A, B)
    (given,) = pkeys(world)
    world.network("lab", partitions=partitions)
    world.settle(A, B)
    assert pkeys(world) == [given], "the last one that could be read stays"
    world.restart()
    world.settle(A, B)
    assert pkeys(world) == []
    assert world.condition(NETWORK_KIND, "lab", "Accepted")[0] == "False"
    world.network("lab", partitions=[TRAIN])
    world.settle(A, B)
    assert len(pkeys(world)) == 1


def test_an_invalid_network_keeps_its_p_keys_and_valid_partitions(world: RdmaWorld) -> None:
    world.network("lab", partitions=[TRAIN])
    world.settle(A, B)
    world.objects[NETWORK_KIND, "lab"]["status"]["partitions"] = [{"name": "train", "pkey": 77}]
    world.network("lab", partitions=[{**TRAIN, "members": [UNREADABLE]}])
    world.restart()
    world.settle(A, B)
    assert pkeys(world) == []
    world.network("lab", partitions=[TRAIN])
    world.settle(A, B)
    assert pkeys(world) == [77]
    world.network("lab", partitions=[TRAIN], qosClasses=[{"name": "c", "maxRate": "9999E"}])
    world.restart()
    world.settle(A, B)
    assert pkeys(world) == [77], "what is wrong is in a QoS class"


def test_a_network_that_never_was_in_force_denies_nothing(world: RdmaWorld) -> None:
    world.network("lab", partitions=[{**TRAIN, "members": [UNREADABLE]}])
    world.settle(A, B)
    world.restart()
    world.settle(A, B)
    assert pkeys(world) == [DEFAULT_PKEY]


@pytest.mark.parametrize("enforcement", ["Enforce", "Audit"])
def test_rules_up_to_the_budget_are_enforced(
    world: RdmaWorld, enforcement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excess, "MAX_RULES_OF_A_POD", 6)
    for name, rules in (("p", 4), ("q", 2), ("r", 1)):
        world.policy(f"ml/{name}", ingress=[{}] * rules, enforcement=enforcement)
        world.settle(A, B)
        found = identity(world, "ml/pod").ingress
        assert found is not None
        count = {"p": 4, "q": 6, "r": 0}[name]
        assert len(found.rules) + len(found.audited_rules) == count
        assert world.condition(POLICY_KIND, "ml/p", "Accepted")[0] == str(name != "r")


def test_rules_over_the_budget_close_only_their_own_pods(
    world: RdmaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Policies of other namespaces are still programmed."""
    many, rules = 4, [{"ports": [{"qpn": number}]} for number in range(16)]
    monkeypatch.setattr(excess, "MAX_RULES_OF_A_POD", many * len(rules))
    for number in range(many):
        world.policy(f"ml/p{number}", ingress=rules)
    world.policy("other/p", ingress=[{}])
    world.settle(A, B)
    assert world.condition(POLICY_KIND, "ml/p0", "Accepted")[0] == "True"
    found = identity(world, "ml/pod").ingress
    assert found is not None
    assert len(found.rules) == many * len(rules)
    world.policy("ml/more", ingress=[{"verbs": ["Read"]}])
    world.settle(A, B)
    for name in ("p0", "more"):
        status, _, message = world.condition(POLICY_KIND, f"ml/{name}", "Accepted")
        assert status == "False"
        assert "none of them allows anything" in message
    found = identity(world, "ml/pod").ingress
    assert found is not None
    assert (found.rules, found.enforced) == ((), True)
    assert world.programmed_condition("other/p")[0] == "True"
    assert world.condition(POLICY_KIND, "other/p", "Accepted")[0] == "True"
    world.remove(POLICY_KIND, "ml/more")
    world.settle(A, B)
    assert world.condition(POLICY_KIND, "ml/p0", "Accepted")[0] == "True"


@pytest.mark.parametrize("enforcement", ["Enforce", "Audit"])
def test_policies_over_the_budget_close_only_their_own_pods(
    world: RdmaWorld, enforcement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them allows anything; those that only audit still deny nothing."""
    for module in (excess, compiled_policy):
        monkeypatch.setattr(module, "MAX_POLICIES_OF_A_POD", 20)
    for number in range(20):
        world.policy(f"ml/p{number:04}", ingress=[{}], enforcement=enforcement)
    world.settle(A, B)
    found = identity(world, "ml/pod").ingress
    assert found is not None
    assert len(found.rules) + len(found.audited_rules) == 20, "exactly as many are evaluated"
    assert world.condition(POLICY_KIND, "ml/p0000", "Accepted")[0] == "True"
    world.policy("ml/p0020", ingress=[{}], enforcement=enforcement)
    world.settle(A, B)
    found = identity(world, "ml/pod").ingress
    assert found is not None
    assert (found.rules, found.audited_rules) == ((), ())
    assert not any(rule.policy for rule in world.tables(A).rules), "they are in no table"
    assert found.enforced is (enforcement == "Enforce")
    assert len(found.policies) + len(found.audited_policies) == 20
    assert world.condition(POLICY_KIND, "ml/p0000", "Accepted")[0] == "False"


def large(rules: int) -> list[dict[str, Any]]:
    """Return rules with random addresses, which are hardly compressible."""
    picked = random.Random(rules)
    blocks = [":".join(f"{picked.randrange(1, 0x10000):x}" for _ in range(8)) for _ in range(rules)]
    return [{"from": [{"ipBlock": {"cidr": f"{one}/128"}} for one in blocks]}]


@pytest.fixture
def small_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits of objects to a hundredth of the real ones, and the budgets accordingly."""
    monkeypatch.setattr(packing, "PLAIN_BYTES", 10)
    monkeypatch.setattr(packing, "MAX_PACKED_BYTES", 14_000)
    monkeypatch.setattr(budget, "NAMESPACE_BYTES", 2600)
    monkeypatch.setattr(budget, "ALL_BYTES", 10_000)


@pytest.mark.parametrize("space", ["ml", "empty"], ids=["with a pod", "without pods"])
@pytest.mark.parametrize(("policies", "rules"), [(60, 10), (3, 170)])
@pytest.mark.usefixtures("small_object")
def test_an_editor_of_one_namespace_cannot_block_other_policies(
    world: RdmaWorld, space: str, policies: int, rules: int
) -> None:
    world.namespace("empty")
    for number in range(policies):
        world.policy(f"{space}/p{number:02}", ingress=large(rules))
    world.settle(A, B)
    world.policy("other/deny")
    world.settle(A, B)
    assert world.programmed_condition("other/deny")[0] == "True"
    assert world.condition(POLICY_KIND, "other/deny", "Accepted")[0] == "True"
    found = identity(world, "other/pod", B).ingress
    assert found is not None
    assert (found.rules, found.enforced) == ((), True)
    refused = [
        key
        for kind, key in world.objects
        if kind == POLICY_KIND and world.condition(kind, key, "Accepted")[0] == "False"
    ]
    assert bool(refused) is (space == "ml")
    assert all(key.startswith("ml/") for key in refused)


@pytest.mark.usefixtures("small_object")
def test_the_policy_over_the_budget_is_refused_and_older_ones_stay(
    world: RdmaWorld,
) -> None:
    world.policy("ml/z-first", ingress=large(60))
    world.seconds += 10
    world.policy("ml/a-second", ingress=large(20))
    world.settle(A, B)
    status, reason, message = world.condition(POLICY_KIND, "ml/a-second", "Accepted")
    assert (status, reason) == ("False", "OutOfBudget")
    assert "namespace ml, which may take 2600 in all" in message
    assert world.condition(POLICY_KIND, "ml/z-first", "Accepted")[0] == "True"
    found = identity(world, "ml/pod").ingress
    assert found is not None
    assert len(found.rules) == 1, "it isolates, and allows nothing"
    assert set(found.policies) == {"ml/z-first", "ml/a-second"}
    world.restart()
    world.settle(A, B)
    assert world.condition(POLICY_KIND, "ml/a-second", "Accepted")[1] == "OutOfBudget"
    world.policy("ml/z-first", ingress=large(30))
    world.settle(A, B)
    for name in ("a-second", "z-first"):
        assert world.condition(POLICY_KIND, f"ml/{name}", "Accepted")[0] == "True"
    assert len({one.policy for one in world.tables(A).rules if one.policy}) == 2


@pytest.mark.usefixtures("small_object")
def test_a_policy_is_charged_for_new_pods_that_it_selects(world: RdmaWorld) -> None:
    world.namespace("empty")
    world.policy("empty/p", ingress=large(100))
    world.settle(A, B)
    assert world.condition(POLICY_KIND, "empty/p", "Accepted")[0] == "True"
    world.pod("empty/pod", A, "10.0.0.9")
    world.settle(A, B)
    assert world.condition(POLICY_KIND, "empty/p", "Accepted")[1] == "OutOfBudget"
    found = identity(world, "empty/pod").ingress
    assert found is not None
    assert (found.rules, found.enforced) == ((), True)
    world.remove("Pod", "empty/pod")
    world.settle(A, B)
    assert world.condition(POLICY_KIND, "empty/p", "Accepted")[0] == "True"


def refused_writes(world: RdmaWorld, seen: int) -> int:
    """Return how often the status of a policy in namespace ml was written after ``seen`` writes."""
    metadata = [a.document["metadata"] for a in world.written[seen:] if isinstance(a, Apply)]
    return sum(one.get("namespace") == "ml" for one in metadata)


@pytest.mark.usefixtures("small_object")
def test_pods_of_another_tenant_cause_no_status_writes_for_refused_policies(
    world: RdmaWorld,
) -> None:
    """The cost of a policy depends on the number of different pods in the cluster."""
    for number in range(40):
        world.pod(f"ml/pod{number}", A, f"10.0.1.{number}", app=f"a{number}")
    half = [f"a{n}" for n in range(0, 40, 2)]
    some = {"matchExpressions": [{"key": "app", "operator": "In", "values": half}]}
    for number in range(30):
        world.policy(f"ml/p{number:02}", ingress=[{"from": [{"podSelector": some}]}] * 10)
    world.settle(A, B)
    refused = [
        key
        for kind, key in world.objects
        if kind == POLICY_KIND and world.condition(kind, key, "Accepted")[1] == "OutOfBudget"
    ]
    assert len(refused) > 10
    texts = {world.condition(POLICY_KIND, key, "Accepted")[2] for key in refused}
    seen = len(world.written)
    for number in range(3):
        world.pod("other/more", B, "10.0.2.1", app=f"b{number}", kind=f"k{number}")
        world.pod(f"other/more{number}", B, f"10.0.2.{2 + number}", app=f"c{number}")
        world.settle(A, B)
    assert refused_writes(world, seen) == 0
    world.policy(refused[0], ingress=[{}] * 300)
    world.settle(A, B)
    after = {world.condition(POLICY_KIND, key, "Accepted")[2] for key in refused}
    assert after != texts, "an edit of its own is shown at once"


@pytest.mark.parametrize(("moved", "written"), [(25, False), (26, True), (-26, True)])
def test_a_refusal_s_numbers_are_rewritten_after_a_change_of_a_quarter(
    moved: int, written: bool
) -> None:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def conditions_for(
        size: int, generation: int = 1, space: str = "ml-7"
    ) -> tuple[Condition, ...]:
        refusal = budget.Refusal(space, size, 50, budget.NAMESPACE_BYTES)
        finding = reports.accepted_finding("", [refusal.error()])
        kinds = [(ConditionType.ACCEPTED, finding)]
        return reports._conditions(kinds, before, generation, now)

    before: tuple[Condition, ...] = ()
    before = conditions_for(100)
    assert (conditions_for(100 + moved) != before) is written
    assert conditions_for(101, generation=2)[0].message != before[0].message
    assert conditions_for(100, space="ml-8") != before
