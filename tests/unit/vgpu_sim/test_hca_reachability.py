"""The reachability matrix on the engine: what requests end as, against nested loops over manifests.

Nine pods on one node, a connection of each with each other; every verb that the engine carries out is
tried in both directions of each.
"""

import itertools
from collections.abc import Iterator
from ipaddress import ip_address

import hca_rig
import pytest
from hca_rig import BASE, Client, Cq, Region
from rdma_oracle import Try, World, allowed
from rdma_world import TRAIN, Dict, load, nine, pairwise_specs, policy

from rdma.compiler import Compiler
from vgpu_sim.fabric.addresses import address_of_pod, guid_of
from vgpu_sim.fabric.engine import Engine
from vgpu_sim.hal.verbs import VerbsMask, VerbsOpcode as Op, VerbsState, VerbsStatus as Status
from vgpu_sim.hcad.enforcement import Enforcer
from vgpu_sim.hcad.numbers import Numbers
from vgpu_sim.hcad.parties import Parties

OPCODES = {
    "Send": Op.SEND,
    "Write": Op.RDMA_WRITE,
    "WriteImm": Op.RDMA_WRITE_WITH_IMM,
    "Read": Op.RDMA_READ,
}
TRAFFIC_CLASS = 104
SPECS = pairwise_specs()
NODE = "node"


class End:
    """A pod's side of one connection."""

    def __init__(self, client: Client, address: str, region: Region) -> None:
        self.address, self.region = address, region
        self.sent, self.received = client.cq(16), client.cq(16)
        self.qp = client.qp(self.sent, self.received)

    def connect(self, peer: "End") -> bool:
        """Begin anew towards a peer; tell whether policy lets it."""
        self.qp.modify(VerbsMask.STATE, state=VerbsState.RESET)
        for queue in (self.sent, self.received):
            drain(queue)
        try:
            self.qp.connect(peer.qp, traffic_class=TRAFFIC_CLASS, timeout=1, retry_count=0)
        except PermissionError:
            return False
        return True


def drain(queue: Cq) -> None:
    queue.tail = queue.page.tail = queue.page.head


class Lab:
    """The nine pods, and the connections between them."""

    def __init__(self, engine: Engine) -> None:
        self.enforcer = Enforcer(engine, Parties())
        self.world = nine()
        for one in self.world.pods:
            one["spec"]["nodeName"] = NODE
        self.generation = 0
        self.clients: list[Client] = []
        self.enforce([])
        numbers = Numbers()
        addresses = [one["status"]["podIP"] for one in self.world.pods]
        for index, address in enumerate(addresses):
            given = address_of_pod(guid_of(address), ip_address(address))
            self.clients.append(Client(engine, numbers, index, self.enforcer, given))
        regions = [client.region(4096) for client in self.clients]
        self.pairs = [
            tuple(End(self.clients[i], addresses[i], regions[i]) for i in two)
            for two in itertools.combinations(range(len(self.clients)), 2)
        ]
        for one, other in self.pairs:
            assert one.connect(other)
            assert other.connect(one)

    def enforce(self, policies: list[Dict], networks: tuple[Dict, ...] = ()) -> World:
        """Switch to the tables of some policies."""
        self.generation += 1
        self.world.policies, self.world.networks = policies, list(networks)
        compiler = load(Compiler(), self.world)
        tables = compiler.tables(NODE, self.generation)
        self.world.keys = dict(compiler.pkeys)
        self.enforcer.switch(tables)
        return self.world

    def may(self, source: End, destination: End) -> set[str]:
        """What the oracle lets one ask the other for."""
        attempt = Try(
            source.address,
            destination.address,
            pkey=self.enforcer.pkeys_at(source.address)[0],  # programs ask for index 0
            qpn=destination.qp.number,
            traffic_class=TRAFFIC_CLASS,
        )
        return allowed(self.world, attempt)[0]

    def close(self) -> None:
        for client in self.clients:
            client.objects.close()


def attempt(source: End, destination: End, verb: str) -> int:
    """Have one ask the other for something; return how it ended."""
    if verb in ("Send", "WriteImm"):
        destination.qp.receive((BASE, 8, destination.region.key))
    source.qp.send(
        *(OPCODES[verb], [(BASE, 8, source.region.key)]),
        remote_address=BASE,
        remote_key=destination.region.key,
    )
    return source.sent.poll().status


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with hca_rig.running_engine() as engine:
        made = Lab(engine)
        yield made
        made.close()


def expected(verb: str, passing: set[str]) -> int:
    """The semantics table of docs/rdma.md."""
    if verb in passing:
        return Status.SUCCESS
    return Status.REM_ACCESS_ERR if passing else Status.RETRY_EXC_ERR


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_the_engine_does_what_the_oracle_says(lab, number):
    """Every second case has partitions, too."""
    spec, networks = SPECS[number], (TRAIN,) if number % 2 else ()
    lab.enforce([])
    for one, other in lab.pairs:
        if (one.qp.state, other.qp.state) != (VerbsState.RTS, VerbsState.RTS):
            assert one.connect(other)
            assert other.connect(one)
    lab.enforce([policy(spec), policy(spec, space="b")], networks)
    wrong = []
    for pair in lab.pairs:
        ways = [(one, other, lab.may(one, other)) for one, other in (pair, pair[::-1])]
        stays = any(passing for _, _, passing in ways)
        for end in pair:
            if (end.qp.state == VerbsState.RTS) != stays:
                wrong.append(f"{end.address}: {end.qp.state.name}")
        if not stays:
            if pair[0].connect(pair[1]):
                wrong.append(f"{pair[0].address} connects to {pair[1].address}")
            continue
        for (source, destination, passing), verb in itertools.product(ways, OPCODES):
            if {source.qp.state, destination.qp.state} != {VerbsState.RTS}:
                source.connect(destination)
                destination.connect(source)
            status = attempt(source, destination, verb)
            if status != expected(verb, passing):
                wrong.append(f"{verb} {source.address} to {destination.address}: {status}")
    assert wrong == [], spec
