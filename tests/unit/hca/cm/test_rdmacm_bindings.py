"""Which queue pairs a connection may name, and when what it names is free again."""

import errno
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hca.contract.cm import CmEventType as Event, CmPortSpace
from hca.daemon.cm import private_data
from hca.daemon.cm.bindings import NOT_CONNECTED, Bindings, Claim, Found
from hca.daemon.cm.connection import LONGEST_ANSWER, Connection, State
from hca.daemon.cm.messages import Message, Path, Reason, Rej, Rep, Req
from hca.daemon.cm.policy import Service
from support.connections.cm_rig import Client, Fabric, gid, parameters

PORT = 7174
STRANGER = gid(9)
"""A GID of another node, which says what it likes."""


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


@pytest.fixture
def two(fabric) -> Iterator[tuple[Client, Client]]:
    """A client that asks and one that serves; in the end no entry is left but queue pairs."""
    asks, serves = Client(fabric, 0), Client(fabric, 1)
    serves.listener(PORT)
    yield asks, serves
    for one in (asks, serves):
        one.close()
    assert not fabric.manager.bindings


def find(client: Client, number: int, peer: bytes, peer_number: int) -> Found:
    return client.fabric.manager.bindings.find(number, client.gid, peer, peer_number)


@pytest.mark.parametrize("number", [1, 40, 1 << 24, 0xFFFFFFFF], ids=hex)
def test_a_number_that_is_no_own_queue_pair_is_refused(two, number):
    asks, serves = two
    asks.fabric.manager.bindings.add_queue_pair(40, serves.gids, lambda: None)
    here = asks.routed(serves.gid, PORT)
    with pytest.raises(OSError, match=f"queue pair {number}") as refused:
        asks.connect(here, qpn=number)
    assert refused.value.errno == errno.EINVAL
    assert serves.types() == []
    asks.connect(here)  # the id may still ask with its own
    there = serves.event().handle
    own = asks.fabric.manager.bindings
    own.add_queue_pair(41, asks.gids, lambda: None)
    for wrong in (41, 17, 1 << 24, 0):
        with pytest.raises(OSError, match=f"queue pair {wrong}") as refused:
            serves.accept(there, qpn=wrong)
        assert refused.value.errno == errno.EINVAL
    serves.accept(there)
    assert asks.event().type == Event.CONNECT_RESPONSE


def test_a_queue_pair_is_in_one_connection_at_a_time(two):
    asks, serves = two
    here, other = (asks.routed(serves.gid, PORT) for _ in range(2))
    asks.connect(here)
    with pytest.raises(OSError, match="queue pair 17 is in a connection already") as refused:
        asks.connect(other, qpn=17)
    assert refused.value.errno == errno.EISCONN
    asks.connect(other)
    first, second = (event.handle for event in serves.events())
    serves.accept(first, qpn=serves.queue_pair(serves.fabric.answering))
    with pytest.raises(OSError, match="queue pair 18 is in a connection already"):
        serves.accept(second, qpn=18)
    asks.ids.destroy_id(here)
    asks.fabric.run()
    serves.accept(second, qpn=18)
    assert find(serves, 18, asks.gid, 17) == NOT_CONNECTED
    assert find(serves, 18, asks.gid, 19).service == Service(PORT, "TCP", is_server=True)


def test_a_request_without_a_queue_pair_joins_nothing(two):
    asks, serves = two
    asks.connect(asks.routed(serves.gid, PORT), qpn=0)
    there = serves.event().handle
    serves.accept(there)
    assert find(serves, 18, asks.gid, 0) == NOT_CONNECTED
    assert len(asks.fabric.manager.bindings) == 2, "the server's own, and the asker's peer"


@pytest.mark.parametrize("end", ["reject", "time-out", "asker goes", "server goes", "queue pair"])
def test_an_unanswered_request_is_awaited_until_its_end(two, end):
    """A queue pair that is set to the asker's meanwhile is looked up again."""
    asks, serves = two
    changed: list[int] = []
    bindings = asks.fabric.manager.bindings
    bindings.add_queue_pair(60, serves.gids, lambda: changed.append(60))
    here = asks.routed(serves.gid, PORT)
    asks.connect(here)
    there = serves.event().handle
    assert find(serves, 60, asks.gid, 17) == Found(is_awaited=True)
    assert find(serves, 60, asks.gid, 19) == NOT_CONNECTED
    assert find(serves, 60, asks.gid, 17) == Found(is_awaited=True)
    assert changed == []
    if end == "reject":
        serves.reject(there)
    elif end == "time-out":
        for _ in range(20):
            asks.fabric.later(20)
        assert (refused := asks.event()).type == Event.REJECTED
        assert refused.status == Reason.TIMEOUT
        assert serves.types() == [Event.UNREACHABLE]
    elif end == "asker goes":
        asks.ids.destroy_id(here)
        asks.fabric.run()
    elif end == "server goes":
        serves.ids.destroy_id(there)
    else:
        bindings.remove_queue_pair(17)
    assert changed == [60]
    assert find(serves, 60, asks.gid, 17) == NOT_CONNECTED


def test_a_request_that_nothing_answers_lets_go_of_the_queue_pair_that_it_names(two):
    """A pod can forge one to its own listener: the victim's own request is stale only for a while."""
    asks, serves = two
    asks.connect(asks.routed(serves.gid, PORT))
    bindings = asks.fabric.manager.bindings
    assert bindings.is_peer_connected(serves.gid, asks.gid, 17)
    serves.events()
    asks.fabric.now += LONGEST_ANSWER  # what the asker repeats meanwhile is lost
    asks.fabric.manager.tick()
    asks.fabric.queue.clear()
    assert serves.types() == [Event.UNREACHABLE]
    assert not bindings.is_peer_connected(serves.gid, asks.gid, 17)


def test_a_queue_pair_waits_for_one_request_and_is_forgotten_with_it(fabric):
    """A function that makes, sets and destroys queue pairs leaves nothing here."""
    asks, serves = Client(fabric, 0), Client(fabric, 1)
    serves.listener(PORT)
    asks.connect(asks.routed(serves.gid, PORT))
    asks.connect(asks.routed(serves.gid, PORT))
    bindings = fabric.manager.bindings
    claims = [bindings._by_peer[asks.gid, number][serves.gid] for number in (17, 19)]
    for number in range(100, 200):
        bindings.add_queue_pair(number, serves.gids, lambda: None)
        for peer in (17, 19):
            assert find(serves, number, asks.gid, peer).is_awaited
        assert [len(claim.waiting) for claim in claims] == [0, 1]
        bindings.remove_queue_pair(number)
    assert [len(claim.waiting) for claim in claims] == [0, 0]


class Wire:
    """What goes to a node that says what it likes."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric, self.sent = fabric, list[Message]()
        fabric.manager.wire = lambda source, destination, message: self.sent.append(message)

    def request(self, client: Client, **changes: int) -> Message | None:
        """Receive a REQ of the stranger's; return what is answered at once."""
        header = private_data.Endpoints(STRANGER, 4000, client.gid)
        data = private_data.pack(header).ljust(92, b"\0")
        service = CmPortSpace.TCP << 16 | PORT
        request = Req(7, service, Path(STRANGER, client.gid), 0x50, 1, data=data)
        self.say(client, replace(request, **changes))
        return self.sent.pop() if self.sent else None

    def say(self, client: Client, message: Message) -> None:
        """Receive a message of the stranger's."""
        self.fabric.manager.receive(STRANGER, client.gid, message)


def test_a_later_request_for_a_connected_queue_pair_is_stale_and_changes_nothing(two):
    _, serves = two
    wire = Wire(serves.fabric)
    assert wire.request(serves) is None
    refused = wire.request(serves, local_id=8)
    assert isinstance(refused, Rej)
    assert refused.reason == Reason.STALE_CONNECTION
    serves.accept(serves.event().handle)
    assert serves.types() == []
    assert isinstance(wire.request(serves), Rep), "the first one, again"
    before = find(serves, 18, STRANGER, 0x50)
    assert before.service == Service(PORT, "TCP", is_server=True)
    assert isinstance(wire.request(serves, local_id=9), Rej)
    assert find(serves, 18, STRANGER, 0x50) == before


def test_a_request_to_another_function_blocks_no_connection_and_gives_no_rights(two):
    """A neighbour can forge a peer's request to its own listener, and never answer it."""
    _, serves = two
    other = Client(serves.fabric, 2)
    other.listener(PORT)
    wire = Wire(serves.fabric)
    assert wire.request(other) is None
    assert wire.request(serves) is None
    serves.accept(serves.event().handle)
    assert isinstance(wire.request(serves), Rep)
    service = Service(PORT, "TCP", is_server=True)
    assert find(serves, 18, STRANGER, 0x50).service == service
    other.close()
    assert find(serves, 18, STRANGER, 0x50).service == service


def test_an_answer_that_names_a_connected_queue_pair_is_refused(two):
    """The stranger answers two requests with one queue pair: the first has it."""
    asks, _ = two
    wire = Wire(asks.fabric)
    answers = []
    for place in (0, 1):
        asks.connect(asks.routed(STRANGER, PORT))
        request = wire.sent.pop()
        assert isinstance(request, Req)
        wire.say(asks, Rep(100 + place, request.local_id, 0x50, 1, data=bytes(196)))
        answers.append(asks.event())
    assert [event.type for event in answers] == [Event.CONNECT_RESPONSE, Event.REJECTED]
    assert answers[1].status == Reason.STALE_CONNECTION
    refused = wire.sent.pop()
    assert isinstance(refused, Rej)
    assert (refused.remote_id, refused.reason) == (101, Reason.STALE_CONNECTION)
    assert find(asks, 17, STRANGER, 0x50).service == Service(PORT, "TCP")
    assert find(asks, 19, STRANGER, 0x50) == NOT_CONNECTED


def test_an_inherited_entry_ends_when_its_queue_pair_is_set_to_a_peer_again():
    bindings, service = Bindings(), Service(PORT, "TCP")
    bindings.add_queue_pair(5, (gid(0),), lambda: None)
    for wrong in ((5, gid(1)), (6, gid(0))):
        bindings.inherit(*wrong, STRANGER, 7, service)
        assert not bindings
    bindings.inherit(5, gid(0), STRANGER, 7, service)
    bindings.inherit(5, gid(0), STRANGER, 8, Service(1, "TCP"))
    assert bindings.find(5, gid(0), STRANGER, 7) == Found(service)
    assert bindings.find(5, gid(0), STRANGER, 8) == NOT_CONNECTED
    assert bindings.find(5, gid(0), STRANGER, 7, inherited=False) == NOT_CONNECTED
    assert bindings.find(5, gid(0), STRANGER, 7) == Found(service), "a lookup ends nothing"
    bindings.end_inherited(5)
    assert bindings.find(5, gid(0), STRANGER, 7) == NOT_CONNECTED
    assert not bindings


def test_a_connection_is_asked_for_with_the_queue_pair_that_it_still_has(two):
    """Its queue pair goes while the request is under way; the next one of that number is another."""
    asks, serves = two
    asks.ids.connect(parameters(asks.routed(serves.gid, PORT), qpn=asks.queue_pair(iter([70]))))
    bindings = asks.fabric.manager.bindings
    bindings.remove_queue_pair(70)
    bindings.add_queue_pair(70, asks.gids, lambda: None)
    asks.fabric.run()
    assert serves.types() == []


def test_an_entry_is_made_once_and_of_own_queue_pairs_whatever_was_checked_before():
    """The table itself refuses a second claim and a foreign number."""
    bindings, service = Bindings(), Service(PORT, "TCP")
    bindings.add_queue_pair(5, (gid(0),), lambda: None)
    bindings.add_queue_pair(6, (gid(1),), lambda: None)
    named = ((5, 7, PORT), (5, 7, 1), (5, 8, 2), (6, 9, 3))
    for own, peer, port in named:
        claim = Claim(gid(0), STRANGER, Service(port, "TCP"))
        bindings.follow(claim, Connection(State.ESTABLISHED, 1, 1, own, peer))
    assert bindings.find(5, gid(0), STRANGER, 7) == Found(service)
    for own, peer, _ in named[2:]:
        assert bindings.find(own, gid(own - 5), STRANGER, peer) == NOT_CONNECTED
    assert bindings.find(5, gid(1), STRANGER, 7) == NOT_CONNECTED
    bindings.check_own(gid(1), 6)  # its own function may still use it
