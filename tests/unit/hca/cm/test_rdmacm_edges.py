"""The connection manager at the edges: each limit and the one beyond, two that differ in one member,
and what the next call finds after a refusal."""

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


def mapped(*parts: int) -> bytes:
    return bytes(10) + b"\xff\xff" + bytes(parts)


def bound(
    handle: int, *, source: bytes = bytes(16), to: bytes = bytes(16), port: int = 0
) -> cm.CmBind:
    wanted = cm.CmBind(handle)
    ctypes.memmove(wanted.source.address, source, 16)
    ctypes.memmove(wanted.destination.address, to, 16)
    wanted.source.port = wanted.destination.port = port
    return wanted


class Recorded(Fabric):
    """A fabric whose wire leads to whoever is not on it; what is sent there is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[bytes, bytes, Message]] = []
        self.manager.wire = lambda *message: self.sent.append(message)

    def take(self) -> list[Message]:
        taken = [message for _, _, message in self.sent]
        self.sent.clear()
        return taken


FAR, OTHER = gid(9), gid(10)


def requested(
    serves: Client, number: int = 7, source: bytes = FAR, qpn: int = 33, mtu: int = 5
) -> int:
    """Let a request come over the wire; return the id that it made."""
    request = Req(
        *(number, SERVICE, Path(source, serves.gid), qpn, 3),
        mtu=mtu,
        data=pack(Endpoints(source, 1, serves.gid)).ljust(92, b"\0"),
    )
    serves.fabric.manager.receive(source, serves.gid, request)
    return serves.event().handle


# What is whose.


@pytest.mark.parametrize("wrong", ["source", "destination", "local", "remote", "none"])
@pytest.mark.parametrize("kind", [Rtu, Dreq])
def test_a_message_is_of_a_connection_by_both_addresses_and_both_numbers(
    kind: type, wrong: str
) -> None:
    fabric = Recorded()
    serves, neighbour = Client(fabric, 1), Client(fabric, 2)
    serves.listener(PORT)
    serves.accept(requested(serves))
    (answer,) = fabric.take()
    assert isinstance(answer, Rep)
    local, remote = (8 if wrong == "local" else 7), answer.local_id + (wrong == "remote")
    source = OTHER if wrong == "source" else FAR
    destination = neighbour.gid if wrong == "destination" else serves.gid
    message = kind(local, remote) if kind is Rtu else kind(local, remote, answer.qpn)
    fabric.manager.receive(source, destination, message)
    event = {Rtu: Event.ESTABLISHED, Dreq: Event.DISCONNECTED}[kind]
    assert serves.types() == ([event] if wrong == "none" else [])
    said = fabric.take()
    # Whoever ends what is not there any more is told that it has ended, and nothing else.
    assert said == ([Drep(remote, local)] if kind is Dreq and wrong != "none" else [])
    for one in (serves, neighbour):
        one.close()


@pytest.mark.parametrize(
    ("source", "number", "heard"), [(FAR, 7, True), (OTHER, 7, False), (FAR, 8, False)]
)
def test_a_requester_that_gives_up_is_found_by_its_own_number(
    source: bytes, number: int, heard: bool
) -> None:
    """Its REJ names no number of ours, as it has heard of none."""
    fabric = Recorded()
    serves = Client(fabric, 1)
    serves.listener(PORT)
    requested(serves)
    fabric.manager.receive(source, serves.gid, Rej(number, 0, 2, Reason.TIMEOUT))
    assert serves.types() == ([Event.REJECTED] if heard else [])
    serves.close()


def test_a_request_that_comes_again_is_the_same_one_and_another_s_number_is_not() -> None:
    fabric = Recorded()
    serves = Client(fabric, 1)
    serves.listener(PORT)
    first = requested(serves)
    request = Req(7, SERVICE, Path(FAR, serves.gid), 33, 3)
    fabric.manager.receive(FAR, serves.gid, request)
    (wait,) = fabric.take()
    assert (type(wait).__name__, wait.remote_id) == ("Mra", 7)
    assert serves.types() == []
    assert requested(serves, source=OTHER) != first
    assert requested(serves, number=8, qpn=34) != first
    serves.close()
    assert not fabric.manager._asked


@pytest.mark.parametrize(("mtu", "refused"), [(3, False), (4, True)])
def test_a_path_of_a_larger_mtu_than_the_function_s_is_refused(mtu: int, refused: bool) -> None:
    fabric = Recorded()
    own = address_of(1).gids
    ids = Ids(fabric.manager, own, lambda address: False, mtu=3)
    handle, end = ids.create_channel()
    one = ids.create_id(cm.CmIdCreate(handle.handle, CmPortSpace.TCP)).handle
    ids.bind(bound(one, port=PORT))
    ids.listen(cm.CmPair(one, 0))
    data = pack(Endpoints(FAR, 1, own[1])).ljust(92, b"\0")
    fabric.manager.receive(
        FAR, own[1], Req(7, SERVICE, Path(FAR, own[1]), 33, 3, mtu=mtu, data=data)
    )
    said = fabric.take()
    assert [one.reason for one in said] == ([Reason.INVALID_PATH_MTU] if refused else [])
    ids.close()
    os.close(end)


def test_a_queue_pair_that_is_connected_is_not_asked_for_again() -> None:
    fabric = Recorded()
    serves = Client(fabric, 1)
    serves.listener(PORT)
    requested(serves, qpn=33)
    data = pack(Endpoints(FAR, 1, serves.gid)).ljust(92, b"\0")
    again = Req(8, SERVICE, Path(FAR, serves.gid), 33, 3, data=data)
    fabric.manager.receive(FAR, serves.gid, again)
    (no,) = fabric.take()
    assert no == Rej(0, 8, 0, Reason.STALE_CONNECTION)
    serves.close()


def test_a_refusal_of_datagrams_is_cut_to_its_private_data() -> None:
    fabric = Recorded()
    fabric.manager.may_connect = lambda *flow: Refusal("n" * 140)
    asks = Client(fabric, 0)
    here = asks.routed(FAR, PORT, CmPortSpace.UDP)
    asks.connect(here, qpn=0)
    refused = asks.event()
    assert (refused.type, refused.status, refused.data_bytes) == (Event.UNREACHABLE, 2, 136)
    assert fabric.take() == []
    asks.close()


def test_datagrams_are_asked_for_fifteen_times_more_each_four_seconds() -> None:
    fabric = Recorded()
    asks = Client(fabric, 0)
    asks.connect(asks.routed(FAR, PORT, CmPortSpace.UDP), qpn=0)
    wait = 4.096e-6 * 2**20
    fabric.later(0.999 * wait)
    assert len(fabric.take()) == 1
    fabric.later(0.002 * wait)
    assert len(fabric.take()) == 1
    for _ in range(14):
        fabric.later(wait)
    assert len(fabric.take()) == 14
    assert asks.types() == []
    fabric.later(wait)
    assert fabric.take() == []
    assert asks.types() == [Event.UNREACHABLE]
    asks.close()


def test_the_address_of_a_function_goes_with_the_last_who_has_entered() -> None:
    manager = Fabric().manager
    own = address_of(3).gids
    first, second = manager.enter(own, 4), manager.enter(own, 5)
    assert first is second
    assert (first.mtu, first.clients) == (4, 2)
    manager.leave(first)
    assert manager.function_at(own[0]) is manager.function_at(own[1]) is first
    manager.leave(first)
    assert manager.function_at(own[0]) is manager.function_at(own[1]) is None


def test_the_path_s_mtu_is_the_smaller_known_one() -> None:
    manager = Fabric().manager
    here, there = manager.enter(address_of(1).gids, 3), manager.enter(address_of(2).gids, 4)
    assert manager.mtu_of(here, there.gid) == manager.mtu_of(there, here.gid) == 3
    assert (manager.mtu_of(here, FAR), manager.mtu_of(there, FAR)) == (3, 4)


def test_of_several_that_serve_the_least_address_is_meant_unless_one_serves_itself(
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


def test_a_wire_that_goes_takes_what_ends_from_its_address_to_another_node_and_no_more() -> None:
    """Connections of one function and of its neighbour, ended by their ids and not yet answered."""
    fabric = Recorded()
    here, neighbour = Client(fabric, 1), Client(fabric, 2)
    ends = {}
    for one in (here, neighbour):
        one.listener(PORT)
        ends[one.gid] = [requested(one, number, qpn=30 + number) for number in (7, 8)]
        for handle in ends[one.gid]:
            one.accept(handle)
        for answer, number in zip(fabric.take(), (7, 8), strict=True):
            fabric.manager.receive(FAR, one.gid, Rtu(number, answer.local_id))
        assert one.types() == [Event.ESTABLISHED] * 2
        one.ids.destroy_id(ends[one.gid][0])  # a DREQ that nobody answers
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


def test_who_ends_over_a_wire_repeats_it_and_between_neighbours_says_it_once(
    fabric: Fabric,
) -> None:
    asks, serves = Client(fabric, 0), Client(fabric, 1)
    serves.listener(PORT)
    one = asks.routed(serves.gid, PORT)
    asks.connect(one)
    serves.accept(serves.event().handle)
    asks.event()
    asks.ids.establish(one)
    fabric.run()
    serves.event()
    asks.ids.destroy_id(one)
    assert len(fabric.queue) == 1
    fabric.run()
    assert serves.types() == [Event.DISCONNECTED]
    assert all(end.local == serves.gid for end in fabric.manager._endpoints.values())
    for client in (asks, serves):
        client.close()
    assert not fabric.manager._endpoints


def test_the_manager_is_woken_at_the_earliest_deadline() -> None:
    woken: list[float] = []
    manager = Manager(lambda: 10.0, lambda call: None, woken.append, wire=lambda *message: None)
    manager.enter(address_of(0).gids)
    for number, timeout in ((1, 20), (2, 18), (3, 21)):
        request = Req(number, SERVICE, Path(gid(0), FAR), 5, 6, response_timeout=timeout)
        manager.request(gid(0), FAR, request, None)  # type: ignore[arg-type]
    waits = [10 + 4.096e-6 * 2**code for code in (20, 18)]
    assert woken == pytest.approx(waits)
    manager.tick()
    assert woken[2:] == pytest.approx([waits[1]])


def test_an_answer_of_datagrams_is_of_the_number_that_was_asked_with() -> None:
    fabric = Recorded()
    asks = Client(fabric, 0)
    here = asks.routed(FAR, PORT, CmPortSpace.UDP)
    asks.connect(here, qpn=0)
    (request,) = fabric.take()
    for source, number in ((FAR, request.request + 1), (OTHER, request.request)):
        fabric.manager.receive(source, asks.gid, SidrRep(number, 0, 44, SERVICE, 5))
    assert asks.types() == []
    fabric.manager.receive(FAR, asks.gid, SidrRep(request.request, 0, 44, SERVICE, 5))
    found = asks.event()
    assert (found.type, found.qpn, found.qkey, found.handle) == (Event.ESTABLISHED, 44, 5, here)
    assert not fabric.manager._endpoints
    asks.close()
