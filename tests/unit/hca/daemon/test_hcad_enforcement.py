"""New tables apply to every connection separately, even if two differ in one member only."""

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from hca.binding.addresses import address_of
from hca.binding.engine import Engine
from hca.contract.hca import HcaQpAttributes
from hca.contract.hca_objects import HcaAhCreate
from hca.contract.verbs import VerbsOpcode as Op, VerbsStatus as Status
from hca.daemon.cm.policy import Service
from hca.daemon.common.numbers import Numbers
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties, Party
from hca.daemon.policy.verdicts import Connection
from support.rigs import rdma_lab
from support.rigs.hca_rig import Client, Pair, write
from support.rigs.rdma_lab import allow, pod, policy

PODS = (pod(0, app="client"), pod(1, app="server"), pod(2, app="other"))
SERVER = {"app": "server"}
FROM_CLIENT = {"from": [{"podSelector": {"matchLabels": {"app": "client"}}}]}


@dataclass(frozen=True)
class ConnectionRequest:
    """A connection, as a program requests it. ``own`` and ``peer`` are indices of pods."""

    own: int = 1
    peer: int = 0
    own_qpn: int = 40
    dest_qpn: int = 50
    pkey_index: int = 0
    traffic_class: int = 0
    service: Service | None = None
    kind: str = "queue pair"

    def enter(self, enforcer: Enforcer, end: int, parties: list[Party]) -> None:
        """Let the enforcer evaluate the connection; a denied one has no rights."""
        attributes = HcaQpAttributes(
            dest_qpn=self.dest_qpn, pkey_index=self.pkey_index, traffic_class=self.traffic_class
        )
        gid = address_of(self.peer).gids[1] if self.peer >= 0 else bytes(16)
        attributes.dgid[:] = gid
        party = parties[self.own]
        if self.kind == "frames":
            enforcer.adopt_raw(party, end)
        elif self.kind == "address handle":
            wanted = HcaAhCreate(traffic_class=self.traffic_class)
            wanted.dgid[:] = gid
            enforcer.authorize_path(party, end, wanted)
        else:
            enforcer.adopt(party, end, self.own_qpn, attributes, self.service)


@dataclass(frozen=True)
class Differ:
    """Two connections that differ in one member, and rules for which this member matters."""

    one: ConnectionRequest
    other: ConnectionRequest
    policies: tuple[Mapping[str, Any], ...] = ()
    networks: tuple[tuple[Mapping[str, Any], ...], tuple[Mapping[str, Any], ...]] = ((), ())
    """The networks in the first tables and in the second."""


def by_port(**port: Any) -> Mapping[str, Any]:
    """Return a policy for servers that permits READ, and WRITE at one port."""
    return policy(SERVER, ingress=[allow("Read"), allow("Write", ports=[port])])


def partitions(first: Sequence[str], second: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Return a network of two partitions, whose members are the pods of these apps."""
    rows = [
        {
            "name": name,
            "pkey": pkey,
            "members": [{"podSelector": {"matchLabels": {"app": app}}} for app in apps],
        }
        for name, pkey, apps in (("first", 0x11, first), ("second", 0x12, second))
    ]
    return ({"metadata": {"name": "n"}, "spec": {"partitions": rows}},)


SERVED = ConnectionRequest(service=Service(7000, "TCP", is_server=True))
BY_SERVICE = by_port(serviceID=7000)
MEMBERS = {
    "party": Differ(
        ConnectionRequest(),
        ConnectionRequest(own=2),
        (policy({"app": "other"}, ingress=[allow("Read")]),),
    ),
    "peer": Differ(
        ConnectionRequest(),
        ConnectionRequest(peer=2),
        (policy(SERVER, ingress=[allow("Read", **FROM_CLIENT)]),),
    ),
    "own number": Differ(ConnectionRequest(), ConnectionRequest(own_qpn=41), (by_port(qpn=40),)),
    "peer's number": Differ(
        ConnectionRequest(),
        ConnectionRequest(dest_qpn=51),
        (policy(SERVER, policyTypes=["Egress"], egress=[allow("Write", ports=[{"qpn": 50}])]),),
    ),
    "index of the P_Key": Differ(
        ConnectionRequest(),
        ConnectionRequest(pkey_index=1),
        networks=(
            partitions(["server", "client"], ["server", "client"]),
            partitions(["server", "client"], ["server"]),
        ),
    ),
    "traffic class": Differ(
        ConnectionRequest(traffic_class=104), ConnectionRequest(), (by_port(trafficClass=104),)
    ),
    "service": Differ(SERVED, ConnectionRequest(), (BY_SERVICE,)),
    "port of the service": Differ(
        SERVED, replace(SERVED, service=Service(7001, "TCP", is_server=True)), (BY_SERVICE,)
    ),
    "space of the service": Differ(
        SERVED, replace(SERVED, service=Service(7000, "IB", is_server=True)), (BY_SERVICE,)
    ),
    "side of the service": Differ(
        SERVED, replace(SERVED, service=Service(7000, "TCP")), (BY_SERVICE,)
    ),
    "an address handle": Differ(
        ConnectionRequest(own_qpn=0, dest_qpn=0),
        ConnectionRequest(own_qpn=0, dest_qpn=0, kind="address handle"),
        (by_port(qpn=0),),
    ),
    "frames": Differ(
        ConnectionRequest(peer=-1, own_qpn=0, dest_qpn=0),
        ConnectionRequest(peer=-1, own_qpn=0, dest_qpn=0, kind="frames"),
        (policy(SERVER, ingress=[allow("Read")]),),
    ),
}


class Ends:
    """Queue pairs and address handles of the engine, for connections."""

    def __init__(self, engine: Engine) -> None:
        self.client = Client(engine, Numbers(), 7)
        self.cq = self.client.cq()

    def make(self, kind: str) -> int:
        """Make a queue pair or an address handle."""
        objects = self.client.objects
        if kind == "address handle":
            return objects._paths[self.client.ah(address_of(0).gids[1])].engine
        return objects._qps[self.client.qp(self.cq, self.cq).number].engine


def verdicts(
    engine: Engine, differ: Differ, requests: list[ConnectionRequest]
) -> list[tuple[int, int]]:
    """Return each connection's rights once tables are in force by which they differ."""
    given: dict[int, tuple[int, int]] = {}
    set_policies = engine.set_policies

    def record(changes: list[Any]) -> None:
        for change in changes:
            change.revoke = 0
            end = change.queue_pair or change.address_handle
            given[end] = change.sends, change.receives
        set_policies(changes)

    engine.set_policies = record  # type: ignore[method-assign]
    enforcer, ends, places = Enforcer(engine, Parties()), Ends(engine), list[int]()
    parties = [Party.of(f"f{place}", address_of(place)) for place in range(3)]
    for party in parties:
        enforcer.parties.add(party)
    try:
        enforcer.replace_tables(rdma_lab.tables(1, PODS, networks=differ.networks[0]))
        places = [ends.make(one.kind) for one in requests]
        for one, end in zip(requests, places, strict=True):
            one.enter(enforcer, end, parties)
        enforcer.replace_tables(rdma_lab.tables(2, PODS, differ.policies, differ.networks[1]))
        return [given[end] for end in places]
    finally:
        for end in places:
            enforcer.forget(end)
        ends.client.objects.close()
        engine.set_policies = set_policies  # type: ignore[method-assign]


@pytest.mark.parametrize("member", MEMBERS)
def test_connections_that_differ_in_one_member_are_evaluated_separately(engine, member):
    """In either order, each connection gets the verdict that it would get alone."""
    differ = MEMBERS[member]
    both = [differ.one, differ.other]
    alone = [verdicts(engine, differ, [one])[0] for one in both]
    assert alone[0] != alone[1], "the rules tell them apart"
    assert verdicts(engine, differ, both) == alone
    assert verdicts(engine, differ, both[::-1]) == alone[::-1]


def test_every_member_of_a_connection_is_tried():
    """A new member of ``Connection`` needs a case here."""
    distinguished = {
        "party": "party",
        "requested": "peer, own number, peer's number, index of the P_Key, traffic class",
        "service": "service, port of the service, space of the service, side of the service",
        "is_path": "an address handle",
        "is_raw": "frames",
    }
    of_its_state = {"verdict", "is_awaited"}
    members = {member.name for member in fields(Connection)}
    assert members == set(distinguished) | of_its_state
    assert ", ".join(distinguished.values()).split(", ") == list(MEMBERS)


# An address belongs to the pod that has it in the tables.


@pytest.mark.parametrize("holder", [0, 1], ids=["its own", "another pod's"])
def test_an_address_that_tables_give_to_another_pod_opens_nothing(engine, holder):
    """The function belongs to pod 0; the stale or forged address belongs to pod 1."""
    addresses = [(f"198.18.9.{place}",) for place in range(2)]
    addresses[holder] = (str(address_of(0).ip),)
    pods = [replace(one, addresses=two) for one, two in zip(PODS[:2], addresses, strict=True)]
    pods.append(PODS[2])
    enforcer, ends = Enforcer(engine, Parties()), Ends(engine)
    party = Party.of("f0", address_of(0), pod="default/pod0", pod_uid="uid-0")
    enforcer.parties.add(party)
    enforcer.replace_tables(rdma_lab.tables(1, pods))
    attributes = HcaQpAttributes(dest_qpn=50)
    attributes.dgid[:] = address_of(2).gids[1]
    end = ends.make("queue pair")
    assert enforcer.is_known(party) == (holder == 0)
    if holder == 0:
        enforcer.authorize_peer(party, end, 40, attributes)
        enforcer.forget(end)
    else:
        with pytest.raises(PermissionError) as refused:
            enforcer.authorize_peer(party, end, 40, attributes)
        assert refused.value.errno == errno.EACCES
    ends.client.objects.close()


def test_what_was_counted_before_new_tables_is_counted_by_the_old_ones(engine):
    """One write is allowed and one is denied; then other tables apply before hcad reads the
    counts.
    """
    pair, enforcer = counted_pair(engine)
    first = policy(SERVER, "first", ingress=[allow("Write")])
    enforcer.replace_tables(rdma_lab.tables(2, PODS, [first]))
    write(pair)
    assert pair.a_send.poll().status == Status.SUCCESS
    write(pair, opcode=Op.RDMA_READ)
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR
    second = policy(SERVER, "second", ingress=[allow("Read")])
    enforcer.replace_tables(rdma_lab.tables(3, PODS, [first, second]))
    counts = {one["policy"]: one for one in enforcer.flows.to_json()}
    assert (counts["default/first"]["operations"], counts["default/first"]["denied"]) == (1, 1)
    assert (counts["default/second"]["operations"], counts["default/second"]["denied"]) == (0, 0)
    ((denial, times),) = enforcer.denials.take()[0].items()
    assert (denial.policies, denial.verb, times) == (("default/first",), "Read", 1)
    pair.close()


def counted_pair(engine: Engine) -> tuple[Pair, Enforcer]:
    """Return a client and a server without restrictions, whose requests are counted."""
    enforcer = Enforcer(engine, Parties())
    enforcer.replace_tables(rdma_lab.tables(1, PODS))
    return Pair(engine, 0, enforcer), enforcer
