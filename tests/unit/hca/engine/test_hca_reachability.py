"""The reachability matrix on the engine: how requests end, compared with an oracle over manifests.

Nine pods are on one node, with a connection between each two; verbs are tried in both
directions. Each pod sends datagrams to every pod, and to a group of all.
"""

import ctypes
import itertools
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from hca.binding.addresses import address_of_pod, guid_of
from hca.binding.engine import Engine
from hca.contract import hca, hca_objects
from hca.contract.verbs import (
    VerbsMask,
    VerbsOpcode as Op,
    VerbsQpType,
    VerbsState,
    VerbsStatus as Status,
)
from hca.daemon.common.numbers import Numbers
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties
from rdma.compiling.compiler import Compiler
from support.oracles.rdma_oracle import Try, World, allowed_verbs
from support.rigs import hca_rig
from support.rigs.hca_rig import BASE, OPCODES, Client, Cq, Region
from support.worlds.rdma_world import TRAIN, Dict, load, nine, pairwise_specs, policy

GROUP = "239.20.30.40"
GROUP_GID = bytes(10) + b"\xff\xff" + ip_address(GROUP).packed
TRAFFIC_CLASS = 104
SPECS = pairwise_specs()
NODE = "node"
QKEY = 0x1234


class End:
    """A pod's side of one connection."""

    def __init__(self, client: Client, address: str, region: Region) -> None:
        self.address, self.region = address, region
        self.sent, self.received = client.cq(16), client.cq(16)
        self.qp = client.qp(self.sent, self.received)

    def connect(self, peer: "End") -> bool:
        """Connect to a peer again; return whether policy allows it."""
        self.qp.modify(VerbsMask.STATE, state=VerbsState.RESET)
        for queue in (self.sent, self.received):
            drain(queue)
        try:
            self.qp.connect(peer.qp, traffic_class=TRAFFIC_CLASS, timeout=1, retry_count=0)
        except PermissionError:
            return False
        return True


class Mouth:
    """A pod's datagram queue pair, a member of the group."""

    def __init__(self, client: Client, address: str, region: Region) -> None:
        self.address, self.region, self.client = address, region, client
        self.sent, self.received = client.cq(16), client.cq(128)
        self.qp = client.qp(self.sent, self.received, depth=64, kind=VerbsQpType.UD)
        self.qp.listen()
        client.objects.attach(
            hca_objects.HcaMcast(self.qp.number, 0, (ctypes.c_uint8 * 16)(*GROUP_GID))
        )
        self.group = client.ah(GROUP_GID)
        for _ in range(32):
            self.post()

    def post(self) -> None:
        self.qp.receive((BASE, 64, self.region.key))

    def say(self, handle: int, number: int) -> None:
        """Send a datagram; when this returns, it has arrived or was dropped."""
        named = {"address_handle": handle, "remote_qpn": number, "remote_key": QKEY}
        self.qp.send(Op.SEND, (), b"x", **named)
        assert self.sent.poll().status == Status.SUCCESS

    def count_received(self) -> int:
        """Return how many datagrams have arrived since the last call."""
        count = self.received.page.head - self.received.tail
        drain(self.received)
        for _ in range(count):
            self.post()
        return count


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
        self.mouths = [Mouth(*of) for of in zip(self.clients, addresses, regions, strict=True)]
        self.ways = {
            (one, other): one.client.ah(other.client.gid)
            for one, other in itertools.permutations(self.mouths, 2)
        }

    def enforce(self, policies: list[Dict], networks: tuple[Dict, ...] = ()) -> World:
        """Switch to the tables of some policies."""
        self.generation += 1
        self.world.policies, self.world.networks = policies, list(networks)
        compiler = load(Compiler(), self.world)
        tables = compiler.tables(NODE, self.generation)
        self.world.keys = dict(compiler.pkeys)
        self.enforcer.replace_tables(tables)
        return self.world

    def may(self, source: End, destination: End) -> set[str]:
        """Return the verbs that the oracle allows ``source`` to request from ``destination``."""
        attempt = Try(
            source.address,
            destination.address,
            pkey=self.enforcer.pkeys_at(source.address)[0],  # programs request index 0
            qpn=destination.qp.number,
            traffic_class=TRAFFIC_CLASS,
        )
        return allowed_verbs(self.world, attempt)[0]

    def may_receive(self, source: str, destination: str) -> bool:
        """Whether the oracle allows datagrams, which have neither class nor queue pair."""
        attempt = Try(source, destination, pkey=self.enforcer.pkeys_at(source)[0])
        return "UD" in allowed_verbs(self.world, attempt)[0]

    def close(self) -> None:
        for client in self.clients:
            client.objects.close()


def attempt(source: End, destination: End, verb: str) -> int:
    """Let ``source`` request something from ``destination``; return the request's status."""
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


def expect_status(verb: str, passing: set[str]) -> int:
    """Return the status that the semantics table of docs/rdma.md requires."""
    if verb in passing:
        return Status.SUCCESS
    return Status.REM_ACCESS_ERR if passing else Status.RETRY_EXC_ERR


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_the_engine_agrees_with_the_oracle(lab, number):
    """Every second case also has partitions."""
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
            if status != expect_status(verb, passing):
                wrong.append(f"{verb} {source.address} to {destination.address}: {status}")
    assert wrong == [], spec


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_datagrams_arrive_as_the_oracle_predicts(lab, number):
    """They are sent to pods and to a group: policy is checked for each member and the group."""
    spec, networks = SPECS[number], (TRAIN,) if number % 2 else ()
    lab.enforce([policy(spec), policy(spec, space="b")], networks)
    wrong = []
    for (source, destination), handle in lab.ways.items():
        source.say(handle, destination.qp.number)
        if destination.count_received() != lab.may_receive(source.address, destination.address):
            wrong.append(f"{source.address} to {destination.address}")
    # To the oracle a group is an unknown peer, in the default partition only.
    for source in () if networks else lab.mouths:
        source.say(source.group, hca.HCA_MULTICAST_QPN)
        leaves = lab.may_receive(source.address, GROUP)
        for destination in lab.mouths:
            expected = leaves and lab.may_receive(source.address, destination.address)
            if destination.count_received() != expected:
                wrong.append(f"{source.address} to {destination.address} by the group")
    assert wrong == [], spec
