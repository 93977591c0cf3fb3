"""The queue pairs that a connection may name, and when a connection releases them."""

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
"""A GID of another node, which is hostile."""


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


@pytest.fixture
def two(fabric) -> Iterator[tuple[Client, Client]]:
    """Yield an active and a passive client; afterwards only queue pair entries may be left."""
    active, passive = Client(fabric, 0), Client(fabric, 1)
    passive.listener(PORT)
    yield active, passive
    for one in (active, passive):
        one.close()
    assert not fabric.manager.bindings


def find(client: Client, number: int, peer: bytes, peer_number: int) -> Found:
    return client.fabric.manager.bindings.find(number, client.gid, peer, peer_number)


@pytest.mark.parametrize("number", [1, 40, 1 << 24, 0xFFFFFFFF], ids=hex)
def test_a_foreign_queue_pair_number_is_refused(two, number):
    active, passive = two
    active.fabric.manager.bindings.add_queue_pair(40, passive.gids, lambda: None)
    here = active.new_routed_id(passive.gid, PORT)
    with pytest.raises(OSError, match=f"queue pair {number}") as refused:
        active.connect(here, qpn=number)
    assert refused.value.errno == errno.EINVAL
    assert passive.types() == []
    active.connect(here)  # the id may still connect with its own
    there = passive.event().handle
    own = active.fabric.manager.bindings
    own.add_queue_pair(41, active.gids, lambda: None)
    for wrong in (41, 17, 1 << 24, 0):
        with pytest.raises(OSError, match=f"queue pair {wrong}") as refused:
            passive.accept(there, qpn=wrong)
        assert refused.value.errno == errno.EINVAL
    passive.accept(there)
    assert active.event().type == Event.CONNECT_RESPONSE


def test_a_queue_pair_is_in_one_connection_at_a_time(two):
    active, passive = two
    here, other = (active.new_routed_id(passive.gid, PORT) for _ in range(2))
    active.connect(here)
    with pytest.raises(OSError, match="queue pair 17 is in a connection already") as refused:
        active.connect(other, qpn=17)
    assert refused.value.errno == errno.EISCONN
    active.connect(other)
    first, second = (event.handle for event in passive.events())
    passive.accept(first, qpn=passive.queue_pair(passive.fabric.answering))
    with pytest.raises(OSError, match="queue pair 18 is in a connection already"):
        passive.accept(second, qpn=18)
    active.ids.destroy_id(here)
    active.fabric.run()
    passive.accept(second, qpn=18)
    assert find(passive, 18, active.gid, 17) == NOT_CONNECTED
    assert find(passive, 18, active.gid, 19).service == Service(PORT, "TCP", is_server=True)


def test_a_request_without_a_queue_pair_joins_nothing(two):
    active, passive = two
    active.connect(active.new_routed_id(passive.gid, PORT), qpn=0)
    there = passive.event().handle
    passive.accept(there)
    assert find(passive, 18, active.gid, 0) == NOT_CONNECTED
    assert len(active.fabric.manager.bindings) == 2, "the server's own, and the requester's peer"


@pytest.mark.parametrize("end", ["reject", "time-out", "asker goes", "server goes", "queue pair"])
def test_an_unanswered_request_is_awaited_until_its_end(two, end):
    """A queue pair that was set to the requester's meanwhile is looked up again."""
    active, passive = two
    changed: list[int] = []
    bindings = active.fabric.manager.bindings
    bindings.add_queue_pair(60, passive.gids, lambda: changed.append(60))
    here = active.new_routed_id(passive.gid, PORT)
    active.connect(here)
    there = passive.event().handle
    assert find(passive, 60, active.gid, 17) == Found(is_awaited=True)
    assert find(passive, 60, active.gid, 19) == NOT_CONNECTED
    assert find(passive, 60, active.gid, 17) == Found(is_awaited=True)
    assert changed == []
    if end == "reject":
        passive.reject(there)
    elif end == "time-out":
        for _ in range(20):
            active.fabric.later(20)
        assert (refused := active.event()).type == Event.REJECTED
        assert refused.status == Reason.TIMEOUT
        assert passive.types() == [Event.UNREACHABLE]
    elif end == "asker goes":
        active.ids.destroy_id(here)
        active.fabric.run()
    elif end == "server goes":
        passive.ids.destroy_id(there)
    else:
        bindings.remove_queue_pair(17)
    assert changed == [60]
    assert find(passive, 60, active.gid, 17) == NOT_CONNECTED


def test_an_unanswered_request_releases_its_queue_pair(two):
    """A pod can forge a request to its own listener: it makes the victim's request stale only for a
    while.
    """
    active, passive = two
    active.connect(active.new_routed_id(passive.gid, PORT))
    bindings = active.fabric.manager.bindings
    assert bindings.is_peer_connected(passive.gid, active.gid, 17)
    passive.events()
    active.fabric.now += LONGEST_ANSWER  # the requester's repetitions are lost
    active.fabric.manager.tick()
    active.fabric.queue.clear()
    assert passive.types() == [Event.UNREACHABLE]
    assert not bindings.is_peer_connected(passive.gid, active.gid, 17)


def test_a_queue_pair_waits_for_one_request_and_is_removed_with_it(fabric):
    """Creating, connecting and destroying queue pairs leaves no entry."""
    active, passive = Client(fabric, 0), Client(fabric, 1)
    passive.listener(PORT)
    active.connect(active.new_routed_id(passive.gid, PORT))
    active.connect(active.new_routed_id(passive.gid, PORT))
    bindings = fabric.manager.bindings
    claims = [bindings._by_peer[active.gid, number][passive.gid] for number in (17, 19)]
    for number in range(100, 200):
        bindings.add_queue_pair(number, passive.gids, lambda: None)
        for peer in (17, 19):
            assert find(passive, number, active.gid, peer).is_awaited
        assert [len(claim.waiting) for claim in claims] == [0, 1]
        bindings.remove_queue_pair(number)
    assert [len(claim.waiting) for claim in claims] == [0, 0]


class Wire:
    """The wire to a hostile node."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric, self.sent = fabric, list[Message]()
        fabric.manager.wire = lambda source, destination, message: self.sent.append(message)

    def request(self, client: Client, **changes: int) -> Message | None:
        """Receive a REQ from the stranger; return the immediate answer."""
        header = private_data.Endpoints(STRANGER, 4000, client.gid)
        data = private_data.pack(header).ljust(92, b"\0")
        service = CmPortSpace.TCP << 16 | PORT
        request = Req(7, service, Path(STRANGER, client.gid), 0x50, 1, data=data)
        self.deliver(client, replace(request, **changes))
        return self.sent.pop() if self.sent else None

    def deliver(self, client: Client, message: Message) -> None:
        """Receive a message from the stranger."""
        self.fabric.manager.receive(STRANGER, client.gid, message)


def test_a_later_request_for_a_connected_queue_pair_is_stale_and_changes_nothing(two):
    _, passive = two
    wire = Wire(passive.fabric)
    assert wire.request(passive) is None
    refused = wire.request(passive, local_id=8)
    assert isinstance(refused, Rej)
    assert refused.reason == Reason.STALE_CONNECTION
    passive.accept(passive.event().handle)
    assert passive.types() == []
    assert isinstance(wire.request(passive), Rep), "the first one, again"
    before = find(passive, 18, STRANGER, 0x50)
    assert before.service == Service(PORT, "TCP", is_server=True)
    assert isinstance(wire.request(passive, local_id=9), Rej)
    assert find(passive, 18, STRANGER, 0x50) == before


def test_a_request_to_another_function_blocks_no_connection_and_gives_no_rights(two):
    """A neighbour can forge a peer's request to its own listener, and never answer it."""
    _, passive = two
    other = Client(passive.fabric, 2)
    other.listener(PORT)
    wire = Wire(passive.fabric)
    assert wire.request(other) is None
    assert wire.request(passive) is None
    passive.accept(passive.event().handle)
    assert isinstance(wire.request(passive), Rep)
    service = Service(PORT, "TCP", is_server=True)
    assert find(passive, 18, STRANGER, 0x50).service == service
    other.close()
    assert find(passive, 18, STRANGER, 0x50).service == service


def test_an_answer_that_names_a_connected_queue_pair_is_refused(two):
    """The stranger answers two requests with the same queue pair: the first connection keeps it."""
    active, _ = two
    wire = Wire(active.fabric)
    answers = []
    for place in (0, 1):
        active.connect(active.new_routed_id(STRANGER, PORT))
        request = wire.sent.pop()
        assert isinstance(request, Req)
        wire.deliver(active, Rep(100 + place, request.local_id, 0x50, 1, data=bytes(196)))
        answers.append(active.event())
    assert [event.type for event in answers] == [Event.CONNECT_RESPONSE, Event.REJECTED]
    assert answers[1].status == Reason.STALE_CONNECTION
    refused = wire.sent.pop()
    assert isinstance(refused, Rej)
    assert (refused.remote_id, refused.reason) == (101, Reason.STALE_CONNECTION)
    assert find(active, 17, STRANGER, 0x50).service == Service(PORT, "TCP")
    assert find(active, 19, STRANGER, 0x50) == NOT_CONNECTED


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


def test_a_request_names_a_queue_pair_that_still_exists(two):
    """The requester's queue pair is destroyed while its request is in flight; the number is then
    reused.
    """
    active, passive = two
    active.ids.connect(
        parameters(active.new_routed_id(passive.gid, PORT), qpn=active.queue_pair(iter([70])))
    )
    bindings = active.fabric.manager.bindings
    bindings.remove_queue_pair(70)
    bindings.add_queue_pair(70, active.gids, lambda: None)
    active.fabric.run()
    assert passive.types() == []


def test_the_table_accepts_an_entry_once_and_only_for_own_queue_pairs():
    """The table itself refuses a second claim and a foreign number."""
    bindings, service = Bindings(), Service(PORT, "TCP")
    bindings.add_queue_pair(5, (gid(0),), lambda: None)
    bindings.add_queue_pair(6, (gid(1),), lambda: None)
    named = ((5, 7, PORT), (5, 7, 1), (5, 8, 2), (6, 9, 3))
    for own, peer, port in named:
        claim = Claim(gid(0), STRANGER, Service(port, "TCP"))
        bindings.update_claim(claim, Connection(State.ESTABLISHED, 1, 1, own, peer))
    assert bindings.find(5, gid(0), STRANGER, 7) == Found(service)
    for own, peer, _ in named[2:]:
        assert bindings.find(own, gid(own - 5), STRANGER, peer) == NOT_CONNECTED
    assert bindings.find(5, gid(1), STRANGER, 7) == NOT_CONNECTED
    bindings.check_unconnected(gid(1), 6)  # its own function may still use it
