"""Whatever the schemas let pass means one thing: to reader, judge, tables, links and ``explain``."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rdma import codec, grants
from rdma.compiling.compiler import Compiler
from rdma.explain import NO_MEMORY, Question, QuestionError, explain
from rdma.judge import Judge
from rdma.reach import Reach
from rdma.reading import manifests
from rdma.tables import Flow
from rdma.verbs import NAMES
from support.oracles.rdma_oracle import Try, World, allowed, reached
from support.worlds.rdma_odd import FLOWS, Odd
from support.worlds.rdma_world import addresses, load, names

CRDS = Path(__file__).parents[4] / "charts" / "tessera" / "files" / "crds"
QUESTIONS = 40


def schema(kind: str) -> Any:
    (version,) = yaml.safe_load((CRDS / f"{kind}.yaml").read_text())["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


SCHEMAS = {
    "RDMANetworkPolicy": schema("rdmanetworkpolicies"),
    "RDMANetwork": schema("rdmanetworks"),
}


class Asked:
    """One world, and all that answers for it."""

    def __init__(self, world: World) -> None:
        self.world, self.compiler = world, load(Compiler(), world)
        world.keys = dict(self.compiler.pkeys)
        made = self.compiler.tables("node-x", 1)
        self.tables = codec.decode(codec.encode(made))
        assert self.tables == made
        self.judge, self.reach = Judge(self.tables), Reach(self.tables)
        self.pods = [manifests.pod(one) for one in world.pods]
        self.ends = {one.address: one for one in self.tables.endpoints}
        self.identities = {one.number: one for one in self.tables.identities}

    def wrong(self, attempt: Try, verb: str) -> list[str]:
        """Return who says another thing than the oracle of one flow."""
        said = (attempt.source, attempt.destination, attempt.pkey, attempt.service, attempt.space)
        verdict = self.judge.judge(Flow(*said, attempt.qpn, attempt.traffic_class))
        wanted = reached(self.world, attempt)
        passing, audited = allowed(self.world, attempt)
        found = []
        if (names(verdict.verbs), names(verdict.audited)) != (passing, audited):
            found.append(f"judge {attempt}: {verdict}, oracle {passing}")
        if names(grants.passing(verdict)) != set(wanted):
            found.append(f"memory {attempt}: {verdict}, oracle {wanted}")
        source, destination = self.ends.get(attempt.source), self.ends.get(attempt.destination)
        if source and destination and source.pod != destination.pod:
            kinds = (self.identities[one.identity] for one in (source, destination))
            if verdict.verbs & ~self.reach.most(*kinds):
                found.append(f"rules of links {attempt}: drop what passes")
        question = Question(*said[:2], NAMES[verb], *said[2:], attempt.qpn, attempt.traffic_class)
        try:
            answer = explain(self.compiler, self.pods, question)
        except QuestionError:  # of two families
            return found
        reasons = all(half.allowed for half in answer.halves) and answer.memory != NO_MEMORY
        if {answer.allowed, reasons and answer.partition_shared} != {verb in wanted}:
            found.append(f"explain {attempt}: {answer.lines()}, oracle {wanted}")
        return found


@pytest.mark.parametrize("seed", range(200))
def test_odd_objects_mean_one_thing(seed: int) -> None:
    odd = Odd(seed)
    world = odd.world()
    for one in (*world.networks, *world.policies):
        jsonschema.validate(one["spec"], SCHEMAS[one["kind"]])
    asked = Asked(world)
    there = addresses(world)
    keys = [0xFFFF, 0x7FFF, *(key | 0x8000 for key in world.keys.values()), 0x0005]
    wrong = []
    for _ in range(QUESTIONS):
        flow = odd.choice(FLOWS)
        attempt = Try(odd.choice(there), odd.choice(there), odd.choice(keys), **flow)
        wrong += asked.wrong(attempt, odd.choice(list(NAMES)))
    assert wrong == [], (world.networks, world.policies)
