"""Connections by IPv4 and IPv6: on a wire a function has an address of each family."""

import errno
import ipaddress
from collections.abc import Iterator

import pytest

from hca.binding.addresses import Address
from hca.contract.cm import CmEventType as Event, CmPortSpace
from hca.daemon.cm import private_data
from hca.daemon.cm.messages import Message, Path, Rep, Req, SidrRep, SidrReq
from hca.daemon.policy.parties import Parties, Party
from support.connections.cm_rig import Client, Fabric

PORT = 7174
FIRST, SECOND = 0, 1  # indices of GIDs


def pack_gid(text: str) -> bytes:
    ip = ipaddress.ip_address(text)
    return b"\0" * 10 + b"\xff\xff" + ip.packed if ip.version == 4 else ip.packed


OWN = pack_gid("fd78::1"), pack_gid("10.78.0.1")
PEER = pack_gid("fd78::2"), pack_gid("10.78.0.2")
both = pytest.mark.parametrize("index", [FIRST, SECOND], ids=["IPv6", "IPv4"])


class Node:
    """A function with an address of each family on the wire; the test delivers its incoming
    messages.
    """

    def __init__(self) -> None:
        self.fabric = Fabric()
        self.sent: list[tuple[bytes, bytes, Message]] = []
        self.manager = self.fabric.manager
        self.manager.wire = lambda *message: self.sent.append(message)
        self.wires = set(OWN)
        self.manager.reaches = lambda source, to: (
            source in self.wires and (private_data.is_mapped(source) == private_data.is_mapped(to))
        )
        self.client = Client(self.fabric, 0, gids=OWN)

    def receive(self, index: int, message: Message) -> None:
        self.manager.receive(PEER[index], OWN[index], message)
        self.fabric.run()

    def take(self) -> tuple[bytes, bytes, Message]:
        """Return the one message that was sent."""
        (message,) = self.sent
        self.sent.clear()
        return message


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.client.close()
    for gid in OWN:
        made.manager.abandon(gid)
    assert not made.manager._endpoints
    assert not made.manager._functions


@both
def test_a_requester_uses_its_address_of_the_peer_s_family(node: Node, index: int) -> None:
    client = node.client
    one = client.id()
    resolved = client.resolve(one, PEER[index], PORT)
    assert (resolved.type, bytes(resolved.route.source.address)) == (
        Event.ADDR_RESOLVED,
        OWN[index],
    )
    client.ids.resolve_route(one)
    assert bytes(client.event().route.source.address) == OWN[index]
    client.connect(one)
    source, destination, request = node.take()
    assert (source, destination) == (OWN[index], PEER[index])
    assert isinstance(request, Req)
    assert (request.path.source, request.path.destination) == (OWN[index], PEER[index])
    said = private_data.unpack(request.data)
    assert (said.source, said.destination) == (OWN[index], PEER[index])
    node.receive(index, Rep(9, request.local_id, 0x77, 5))
    answer = client.event()
    assert (answer.type, answer.path.sgid_index) == (Event.CONNECT_RESPONSE, index)
    assert bytes(answer.path.dgid) == PEER[index]


@both
def test_a_responder_answers_from_the_requested_address(node: Node, index: int) -> None:
    client = node.client
    client.listener(PORT)  # any address
    header = private_data.pack(private_data.Endpoints(PEER[index], 40000, OWN[index]))
    path = Path(PEER[index], OWN[index])
    request = Req(7, CmPortSpace.TCP << 16 | PORT, path, 0x123, 5, data=header.ljust(92, b"\0"))
    node.receive(index, request)
    request = client.event()
    assert (request.type, request.path.sgid_index) == (Event.CONNECT_REQUEST, index)
    assert bytes(request.route.source.address) == OWN[index]
    assert bytes(request.route.destination.address) == PEER[index]
    client.accept(request.handle)
    source, destination, answer = node.take()
    assert (source, destination, type(answer)) == (OWN[index], PEER[index], Rep)


@both
def test_datagrams_go_from_that_address(node: Node, index: int) -> None:
    client = node.client
    client.connect(client.new_routed_id(PEER[index], PORT, CmPortSpace.UDP))
    source, _, request = node.take()
    assert source == OWN[index]
    assert isinstance(request, SidrReq)
    node.receive(index, SidrRep(request.request, 0, 0x77, request.service, 3))
    found = client.event()
    assert (found.type, found.path.sgid_index) == (Event.ESTABLISHED, index)


@both
def test_without_a_wire_of_that_family_no_peer_is_reached(node: Node, index: int) -> None:
    node.wires.remove(OWN[index])
    one = node.client.id()
    resolved = node.client.resolve(one, PEER[index], PORT)
    assert (resolved.type, resolved.status) == (Event.ADDR_ERROR, -errno.ENETUNREACH)
    assert node.client.resolve(one, PEER[1 - index], PORT).type == Event.ADDR_RESOLVED


def test_policy_identifies_a_peer_by_its_known_address() -> None:
    parties = Parties()
    parties.add(Party.of("f0", Address(bytes(8), OWN)))
    assert parties.address_in_tables("fd78::1", "fd78::2") == "10.78.0.1"
    assert parties.address_in_tables("10.78.0.1", "10.78.0.2") == "10.78.0.1"
    assert parties.address_in_tables("fd78::2", "fd78::1") == "fd78::2"
    parties.add(Party.of("f1", Address(bytes(8), PEER), ["10.78.0.2", "fd78::9"]))
    assert parties.address_in_tables("fd78::2", "fd78::1") == "fd78::9", "of the peer's family"
