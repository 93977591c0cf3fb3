"""Objects that the schemas accept mean the same to parser, evaluation, tables, links and
``explain``.
"""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rdma import codec, grants
from rdma.compiling.compiler import Compiler
from rdma.evaluator import Evaluator
from rdma.explain import NO_MEMORY, Question, QuestionError, explain
from rdma.reach import Reach
from rdma.reading import manifests
from rdma.tables import Flow
from rdma.verbs import NAMES
from support.oracles.rdma_oracle import Try, World, allowed_verbs, reachable_memory
from support.worlds.rdma_odd import FLOWS, Odd
from support.worlds.rdma_world import addresses, load, names

CRDS = Path(__file__).parents[4] / "charts" / "tessera" / "files" / "crds"
QUESTIONS = 40


def schema(kind: str) -> Any:
    (version,) = yaml.safe_load((CRDS / f"{kind}.yaml").read_text())["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


# `jsonschema.validate` would compare the schema itself with its own schema each time.
VALIDATORS = {
    "RDMANetworkPolicy": jsonschema.Draft202012Validator(schema("rdmanetworkpolicies")),
    "RDMANetwork": jsonschema.Draft202012Validator(schema("rdmanetworks")),
}


class Implementations:
    """A world, and all implementations that evaluate it."""

    def __init__(self, world: World) -> None:
        self.world, self.compiler = world, load(Compiler(), world)
        world.keys = dict(self.compiler.pkeys)
        made = self.compiler.tables("node-x", 1)
        self.tables = codec.decode(codec.encode(made))
        assert self.tables == made
        self.evaluator, self.reach = Evaluator(self.tables), Reach(self.tables)
        self.pods = [manifests.pod(one) for one in world.pods]
        self.ends = {one.address: one for one in self.tables.endpoints}
        self.identities = {one.number: one for one in self.tables.identities}

    def wrong(self, attempt: Try, verb: str) -> list[str]:
        """Return the implementations whose result for a flow differs from the oracle's."""
        said = (attempt.source, attempt.destination, attempt.pkey, attempt.service, attempt.space)
        verdict = self.evaluator.evaluate(Flow(*said, attempt.qpn, attempt.traffic_class))
        wanted = reachable_memory(self.world, attempt)
        passing, audited = allowed_verbs(self.world, attempt)
        found = []
        if (names(verdict.verbs), names(verdict.audited)) != (passing, audited):
            found.append(f"evaluator {attempt}: {verdict}, oracle {passing}")
        if names(grants.passing_verbs(verdict)) != set(wanted):
            found.append(f"memory {attempt}: {verdict}, oracle {wanted}")
        source, destination = self.ends.get(attempt.source), self.ends.get(attempt.destination)
        if source and destination and source.pod != destination.pod:
            kinds = (self.identities[one.identity] for one in (source, destination))
            if verdict.verbs & ~self.reach.possible_verbs(*kinds):
                found.append(f"rules of links {attempt}: drop what passes")
        question = Question(*said[:2], NAMES[verb], *said[2:], attempt.qpn, attempt.traffic_class)
        try:
            answer = explain(self.compiler, self.pods, question)
        except QuestionError:  # different address families
            return found
        reasons = all(half.allowed for half in answer.halves) and answer.memory != NO_MEMORY
        if {answer.allowed, reasons and answer.partition_shared} != {verb in wanted}:
            found.append(f"explain {attempt}: {answer.lines()}, oracle {wanted}")
        return found


@pytest.mark.parametrize("seed", range(200))
def test_all_implementations_agree_on_random_objects(seed: int) -> None:
    odd = Odd(seed)
    world = odd.world()
    for one in (*world.networks, *world.policies):
        VALIDATORS[one["kind"]].validate(one["spec"])
    requested = Implementations(world)
    there = addresses(world)
    keys = [0xFFFF, 0x7FFF, *(key | 0x8000 for key in world.keys.values()), 0x0005]
    wrong = []
    for _ in range(QUESTIONS):
        flow = odd.choice(FLOWS)
        attempt = Try(odd.choice(there), odd.choice(there), odd.choice(keys), **flow)
        wrong += requested.wrong(attempt, odd.choice(list(NAMES)))
    assert wrong == [], (world.networks, world.policies)
