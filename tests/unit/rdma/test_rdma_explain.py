"""Explanations are consistent: the halves and the partition always determine the answer."""

from itertools import product
from typing import Any

import pytest

from rdma.compiling.compiler import Compiler
from rdma.explain import NO_MEMORY, Explanation, Question, QuestionError, _partition, explain
from rdma.reading import manifests
from rdma.tables import Identity, Membership
from rdma.verbs import NAMES
from support.oracles.rdma_oracle import Try, World, reachable_memory
from support.worlds.rdma_world import (
    OUTSIDE,
    TRAIN,
    Dict,
    load,
    namespace,
    nine,
    nine_pods,
    pairwise_specs,
    pod,
    policy,
)

GROUP = "239.1.2.3"
NOBODYS = ("127.0.0.1", "0.0.0.0", "169.254.0.1")


class Explainer:
    """Answers many questions about one set of objects."""

    def __init__(self, world: World) -> None:
        self.compiler = load(Compiler(), world)
        self.pods = [manifests.pod(one) for one in world.pods]

    def __call__(self, source: str, destination: str, verb: str, pkey: int | None = None) -> Any:
        question = Question(source, destination, NAMES[verb], pkey)
        answer = explain(self.compiler, self.pods, question)
        assert adds_up(answer), answer.lines()
        return answer


def adds_up(answer: Explanation) -> bool:
    """Return whether both halves, the partition and the memory determine the answer."""
    reasons = [half.allowed for half in answer.halves]
    return answer.allowed is (
        all(reasons) and answer.partition_shared and answer.memory != NO_MEMORY
    )


@pytest.mark.parametrize("networks", [(), (TRAIN,)])
def test_each_side_that_denies_is_named_and_none_that_does_not(networks: tuple[Dict, ...]) -> None:
    """For a third of the matrix's policies; between pods, with outside peers, and of a pod with
    itself.
    """
    pairs = list(product(("10.0.1.1", "10.0.1.3", "10.0.2.2", OUTSIDE), repeat=2))
    for spec in pairwise_specs()[::3]:
        world = nine()
        world.networks = list(networks)
        world.policies = [policy(spec)]
        ask = Explainer(world)
        world.keys = dict(ask.compiler.pkeys)
        for at, (source, destination) in enumerate(pairs):
            verb = list(NAMES)[at % len(NAMES)]
            answer = ask(source, destination, verb)
            wanted = verb in reachable_memory(world, Try(source, destination, answer.pkey))
            assert answer.allowed is wanted, answer.lines()


@pytest.mark.parametrize("address", NOBODYS)
def test_an_address_without_a_pod_is_denied_by_its_side(address: str) -> None:
    ask = Explainer(nine())
    egress, ingress = ask("a/x", address, "Send").halves
    assert (egress.allowed, ingress.allowed) == (True, False)
    egress, ingress = ask(address, "a/x", "Send").halves
    assert (egress.allowed, ingress.allowed) == (False, True)


def test_a_group_takes_datagrams_and_sends_none() -> None:
    ask = Explainer(nine())
    answer = ask("a/x", GROUP, "UD")
    assert answer.allowed
    assert "each member" in "\n".join(answer.lines())
    with pytest.raises(QuestionError, match="only UD"):
        ask("a/x", GROUP, "Write")
    assert not ask(GROUP, "a/x", "UD").allowed


def test_who_is_not_certain_does_not_even_reach_itself() -> None:
    world = nine()
    world.namespaces = [namespace("b")]
    world.pods.append(pod("b", "twin", "10.0.2.1"))
    ask = Explainer(world)
    for who, words in (("a/x", "nothing is known of its namespace"), ("b/x", "two pods claim")):
        answer = ask(who, who, "Read")
        assert not answer.allowed
        assert all(words in half.note for half in answer.halves)
    assert ask("b/y", "b/y", "Read").allowed


MEMORIES: tuple[Dict | None, ...] = (
    None,
    {"maxAccess": "ReadOnly"},
    {"scope": "ProtectionDomain"},
    {"scope": "Named", "regions": ["device"]},
    {"scope": "Named", "regions": ["weights"]},
    {"scope": "Named", "regions": ["weights", "device"], "maxAccess": "ReadOnly"},
)
SETS: tuple[list[str], ...] = (
    [],
    ["Read", "Send"],
    ["WriteImm", "Read"],
    ["Write", "AtomicCAS", "Read"],
)


def rule(memory: Dict | None, verbs: list[str]) -> Dict:
    return {"verbs": verbs, **({"memory": memory} if memory is not None else {})}


def test_memory_that_rules_open_is_what_is_said() -> None:
    """For all pairs of two rules: the oracle determines the memory that each verb reaches."""
    choices = [rule(memory, verbs) for memory, verbs in product(MEMORIES, SETS)]
    pods = [one for one in nine_pods() if one["metadata"]["name"] == "x"]
    seen = set()
    for pair in product(choices, repeat=2):
        world = World(pods, nine().namespaces)
        world.policies = [policy({"podSelector": {}, "ingress": list(pair)})]
        ask = Explainer(world)
        wanted = reachable_memory(world, Try("10.0.2.1", "10.0.1.1"))
        for verb in ("Send", "Write", "WriteImm", "Read", "AtomicFAA"):
            answer = ask("b/x", "a/x", verb)
            said = {"": "all", "a GPU's alone": "device"}.get(answer.memory, "")
            assert answer.allowed is (verb in wanted), (pair, answer.lines())
            if wanted.get(verb):
                assert said == wanted[verb], (pair, answer.lines())
            seen.add((verb, wanted.get(verb)))
    assert {("Write", one) for one in ("all", "device", None)} <= seen


def test_limits_of_what_passes_are_said() -> None:
    spec = {"podSelector": {}, "ingress": [{"limits": {"bandwidth": "1Ki", "maxQPs": 3}}]}
    world = nine()
    world.policies = [policy(spec)]
    assert "  limits: 1024 bytes/s, 3 queue pairs" in Explainer(world)("b/x", "a/x", "Send").lines()


@pytest.mark.parametrize(
    ("pkey", "line"),
    [
        (0x0001, "from: full member of lab/a; to: no member"),
        (0x8001, "from: full member of lab/a; to: no member"),
        (0x0002, "from: limited member of lab/b; to: full member of lab/b"),
        (0x7FFF, "from: no member; to: full member of the default partition"),
        (0x0003, "from: no member; to: no member"),
    ],
)
def test_of_several_partitions_the_one_in_question_is_named(pkey: int, line: str) -> None:
    one = Identity(
        1, partitions=(Membership(1, True, "lab", "a"), Membership(2, False, "lab", "b"))
    )
    other = Identity(2, partitions=(Membership(2, True, "lab", "b"), Membership(0x7FFF, True)))
    assert line in _partition(pkey, one, other, group=False)
    assert "default partition only" in _partition(pkey, None, other, group=False)
