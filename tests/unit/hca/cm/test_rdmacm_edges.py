"""The connection manager at its limits, and after refusals.

Each limit and one beyond, messages that differ in one field, and the state after a refusal.
"""

import ctypes
import os

import pytest

from hca.binding.addresses import address_of
from hca.contract import cm
from hca.contract.cm import CmEventType as Event, CmPortSpace
from hca.daemon.cm.identifiers import Ids
from hca.daemon.cm.manager import Manager
from hca.daemon.cm.messages import Drep, Dreq, Message, Path, Reason, Rej, Rep, Req, Rtu, SidrRep
from hca.daemon.cm.policy import Refusal
from hca.daemon.cm.private_data import Endpoints, pack
from support.connections.cm_rig import Client, Fabric, gid

PORT = 7174
SERVICE = CmPortSpace.TCP << 16 | PORT


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


def map_ipv4(*parts: int) -> bytes:
    return bytes(10) + b"\xff\xff" + bytes(parts)


def make_bind(
    handle: int, *, source: bytes = bytes(16), to: bytes = bytes(16), port: int = 0
) -> cm.CmBind:
    wanted = cm.CmBind(handle)
    ctypes.memmove(wanted.source.address, source, 16)
    ctypes.memmove(wanted.destination.address, to, 16)
    wanted.source.port = wanted.destination.port = port
    return wanted


class Recorded(Fabric):
    """A fabric whose wire leads to all other addresses and records sent messages."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[bytes, bytes, Message]] = []
        self.manager.wire = lambda *message: self.sent.append(message)

    def take(self) -> list[Message]:
        taken = [message for _, _, message in self.sent]
        self.sent.clear()
        return taken


FAR, OTHER = gid(9), gid(10)


def receive_request(
    passive: Client, number: int = 7, source: bytes = FAR, qpn: int = 33, mtu: int = 5
) -> int:
    """Deliver a request over the wire; return the id that it created."""
    request = Req(
        *(number, SERVICE, Path(source, passive.gid), qpn, 3),
        mtu=mtu,
        data=pack(Endpoints(source, 1, passive.gid)).ljust(92, b"\0"),
    )
    passive.fabric.manager.receive(source, passive.gid, request)
    return passive.event().handle


# Ownership.


@pytest.mark.parametrize("wrong", ["source", "destination", "local", "remote", "none"])
@pytest.mark.parametrize("kind", [Rtu, Dreq])
def test_a_message_matches_a_connection_by_both_addresses_and_both_numbers(
    kind: type, wrong: str
) -> None:
    fabric = Recorded()
    passive, neighbour = Client(fabric, 1), Client(fabric, 2)
    passive.listener(PORT)
    passive.accept(receive_request(passive))
    (answer,) = fabric.take()
    assert isinstance(answer, Rep)
    local, remote = (8 if wrong == "local" else 7), answer.local_id + (wrong == "remote")
    source = OTHER if wrong == "source" else FAR
    destination = neighbour.gid if wrong == "destination" else passive.gid
    message = kind(local, remote) if kind is Rtu else kind(local, remote, answer.qpn)
    fabric.manager.receive(source, destination, message)
    event = {Rtu: Event.ESTABLISHED, Dreq: Event.DISCONNECTED}[kind]
    assert passive.types() == ([event] if wrong == "none" else [])
    said = fabric.take()
    # The sender of a DREQ for a connection that does not exist receives a DREP.
    assert said == ([Drep(remote, local)] if kind is Dreq and wrong != "none" else [])
    for one in (passive, neighbour):
        one.close()


@pytest.mark.parametrize(
    ("source", "number", "known"), [(FAR, 7, True), (OTHER, 7, False), (FAR, 8, False)]
)
def test_a_requester_that_times_out_is_found_by_its_own_number(
    source: bytes, number: int, known: bool
) -> None:
    """Its REJ contains no number of this side, because it has not received one."""
    fabric = Recorded()
    passive = Client(fabric, 1)
    passive.listener(PORT)
    receive_request(passive)
    fabric.manager.receive(source, passive.gid, Rej(number, 0, 2, Reason.TIMEOUT))
    assert passive.types() == ([Event.REJECTED] if known else [])
    passive.close()


def test_a_repeated_request_is_recognised_by_its_number() -> None:
    fabric = Recorded()
    passive = Client(fabric, 1)
    passive.listener(PORT)
    first = receive_request(passive)
    request = Req(7, SERVICE, Path(FAR, passive.gid), 33, 3)
    fabric.manager.receive(FAR, passive.gid, request)
    (wait,) = fabric.take()
    assert (type(wait).__name__, wait.remote_id) == ("Mra", 7)
    assert passive.types() == []
    assert receive_request(passive, source=OTHER) != first
    assert receive_request(passive, number=8, qpn=34) != first
    passive.close()
    assert not fabric.manager._responders


@pytest.mark.parametrize(("mtu", "refused"), [(3, False), (4, True)])
def test_a_path_of_a_larger_mtu_than_the_function_s_is_refused(mtu: int, refused: bool) -> None:
    fabric = Recorded()
    own = address_of(1).gids
    ids = Ids(fabric.manager, own, lambda address: False, mtu=3)
    handle, end = ids.create_channel()
    one = ids.create_id(cm.CmIdCreate(handle.handle, CmPortSpace.TCP)).handle
    ids.bind(make_bind(one, port=PORT))
    ids.listen(cm.CmPair(one, 0))
    data = pack(Endpoints(FAR, 1, own[1])).ljust(92, b"\0")
    fabric.manager.receive(
        FAR, own[1], Req(7, SERVICE, Path(FAR, own[1]), 33, 3, mtu=mtu, data=data)
    )
    said = fabric.take()
    assert [one.reason for one in said] == ([Reason.INVALID_PATH_MTU] if refused else [])
    ids.close()
    os.close(end)


def test_a_connected_queue_pair_is_not_requested_again() -> None:
    fabric = Recorded()
    passive = Client(fabric, 1)
    passive.listener(PORT)
    receive_request(passive, qpn=33)
    data = pack(Endpoints(FAR, 1, passive.gid)).ljust(92, b"\0")
    again = Req(8, SERVICE, Path(FAR, passive.gid), 33, 3, data=data)
    fabric.manager.receive(FAR, passive.gid, again)
    (no,) = fabric.take()
    assert no == Rej(0, 8, 0, Reason.STALE_CONNECTION)
    passive.close()


def test_a_sidr_rejection_is_cut_to_its_private_data() -> None:
    fabric = Recorded()
    fabric.manager.may_connect = lambda *flow: Refusal("n" * 140)
    active = Client(fabric, 0)
    here = active.new_routed_id(FAR, PORT, CmPortSpace.UDP)
    active.connect(here, qpn=0)
    refused = active.event()
    assert (refused.type, refused.status, refused.data_bytes) == (Event.UNREACHABLE, 2, 136)
    assert fabric.take() == []
    active.close()


def test_a_sidr_request_is_repeated_fifteen_times_every_four_seconds() -> None:
    fabric = Recorded()
    active = Client(fabric, 0)
    active.connect(active.new_routed_id(FAR, PORT, CmPortSpace.UDP), qpn=0)
    wait = 4.096e-6 * 2**20
    fabric.later(0.999 * wait)
    assert len(fabric.take()) == 1
    fabric.later(0.002 * wait)
    assert len(fabric.take()) == 1
    for _ in range(14):
        fabric.later(wait)
    assert len(fabric.take()) == 14
    assert active.types() == []
    fabric.later(wait)
    assert fabric.take() == []
    assert active.types() == [Event.UNREACHABLE]
    active.close()


def test_a_function_s_address_is_removed_with_its_last_member() -> None:
    manager = Fabric().manager
    own = address_of(3).gids
    first, second = manager.add_client(own, 4), manager.add_client(own, 5)
    assert first is second
    assert (first.mtu, first.clients) == (4, 2)
    manager.remove_client(first)
    assert manager.function_at(own[0]) is manager.function_at(own[1]) is first
    manager.remove_client(first)
    assert manager.function_at(own[0]) is manager.function_at(own[1]) is None


def test_the_path_s_mtu_is_the_smaller_known_one() -> None:
    manager = Fabric().manager
    here, there = (
        manager.add_client(address_of(1).gids, 3),
        manager.add_client(address_of(2).gids, 4),
    )
    assert manager.mtu_of(here, there.gid) == manager.mtu_of(there, here.gid) == 3
    assert (manager.mtu_of(here, FAR), manager.mtu_of(there, FAR)) == (3, 4)


def test_a_loopback_request_goes_to_the_own_listener_or_to_the_lowest_address(
    fabric: Fabric,
) -> None:
    clients = [Client(fabric, index) for index in (3, 1, 2)]
    for one in clients[:2]:
        one.listener(PORT)
    server_of = fabric.manager.server_of
    assert server_of(SERVICE, clients[2].ids.function).gid == clients[1].gid
    assert server_of(SERVICE, clients[0].ids.function).gid == clients[0].gid
    assert server_of(SERVICE + 1, clients[0].ids.function).gid == clients[0].gid
    for one in clients:
        one.close()


def test_a_removed_wire_ends_only_disconnects_from_its_address_to_other_nodes() -> None:
    """A function and its neighbour have connections with unanswered DREQs."""
    fabric = Recorded()
    here, neighbour = Client(fabric, 1), Client(fabric, 2)
    ends = {}
    for one in (here, neighbour):
        one.listener(PORT)
        ends[one.gid] = [receive_request(one, number, qpn=30 + number) for number in (7, 8)]
        for handle in ends[one.gid]:
            one.accept(handle)
        for answer, number in zip(fabric.take(), (7, 8), strict=True):
            fabric.manager.receive(FAR, one.gid, Rtu(number, answer.local_id))
        assert one.types() == [Event.ESTABLISHED] * 2
        one.ids.destroy_id(ends[one.gid][0])  # an unanswered DREQ
        assert [type(said) for said in fabric.take()] == [Dreq]
    manager = fabric.manager
    assert len(manager._endpoints) == 4
    manager.abandon(here.gid)
    left = [(one.local, one.owner is None) for one in manager._endpoints.values()]
    assert sorted(left) == sorted(
        [(here.gid, False), (neighbour.gid, False), (neighbour.gid, True)]
    )
    for one in (here, neighbour):
        one.close()
        manager.abandon(one.gid)
    assert not manager._endpoints


def test_a_dreq_is_repeated_over_a_wire_and_sent_once_to_a_neighbour(
    fabric: Fabric,
) -> None:
    active, passive = Client(fabric, 0), Client(fabric, 1)
    passive.listener(PORT)
    one = active.new_routed_id(passive.gid, PORT)
    active.connect(one)
    passive.accept(passive.event().handle)
    active.event()
    active.ids.establish(one)
    fabric.run()
    passive.event()
    active.ids.destroy_id(one)
    assert len(fabric.queue) == 1
    fabric.run()
    assert passive.types() == [Event.DISCONNECTED]
    assert all(end.local == passive.gid for end in fabric.manager._endpoints.values())
    for client in (active, passive):
        client.close()
    assert not fabric.manager._endpoints


def test_the_manager_is_woken_at_the_earliest_deadline() -> None:
    woken: list[float] = []
    manager = Manager(lambda: 10.0, lambda call: None, woken.append, wire=lambda *message: None)
    manager.add_client(address_of(0).gids)
    for number, timeout in ((1, 20), (2, 18), (3, 21)):
        request = Req(number, SERVICE, Path(gid(0), FAR), 5, 6, response_timeout=timeout)
        manager.request(gid(0), FAR, request, None)  # type: ignore[arg-type]
    waits = [10 + 4.096e-6 * 2**code for code in (20, 18)]
    assert woken == pytest.approx(waits)
    manager.tick()
    assert woken[2:] == pytest.approx([waits[1]])


def test_a_sidr_reply_has_the_number_of_its_request() -> None:
    fabric = Recorded()
    active = Client(fabric, 0)
    here = active.new_routed_id(FAR, PORT, CmPortSpace.UDP)
    active.connect(here, qpn=0)
    (request,) = fabric.take()
    for source, number in ((FAR, request.request + 1), (OTHER, request.request)):
        fabric.manager.receive(source, active.gid, SidrRep(number, 0, 44, SERVICE, 5))
    assert active.types() == []
    fabric.manager.receive(FAR, active.gid, SidrRep(request.request, 0, 44, SERVICE, 5))
    found = active.event()
    assert (found.type, found.qpn, found.qkey, found.handle) == (Event.ESTABLISHED, 44, 5, here)
    assert not fabric.manager._endpoints
    active.close()
