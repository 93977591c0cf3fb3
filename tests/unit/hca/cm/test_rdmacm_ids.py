"""Ids of clients that behave and of clients that do not, on one fabric in this process."""

import asyncio
import contextlib
import ctypes
import errno
import itertools
import os

import pytest

from hca.contract import cm
from hca.contract.cm import CmEventType as Event, CmPortSpace
from hca.daemon.cm.event_channel import MOST_WAITING
from hca.daemon.cm.messages import MOST_DATA, Mra, Path, Reason, Rej, Rejected, Req, SidrReq
from hca.daemon.cm.policy import Refusal, Service
from hca.daemon.cm.private_data import Endpoints, pack
from support.connections.cm_rig import LOOPBACK, Client, Fabric, gid, parameters

PORT = 7174
MOST = (1 << 32) - 1


@pytest.fixture
def fabric():
    return Fabric()


@pytest.fixture
def two(fabric):
    """A client that will ask and one that serves."""
    clients = Client(fabric, 0), Client(fabric, 1)
    yield clients
    for one in clients:
        one.close()
    assert not fabric.manager._endpoints, "nothing stays"
    assert not fabric.manager._asked
    assert not fabric.manager.bindings
    assert not fabric.manager._functions


def connected(asks: Client, serves: Client, listener: int) -> tuple[int, int]:
    here = asks.routed(serves.gid, PORT)
    asks.connect(here)
    there = serves.event().handle
    serves.accept(there)
    assert asks.event().type == Event.CONNECT_RESPONSE
    asks.ids.establish(here)
    asks.fabric.run()
    assert serves.event().type == Event.ESTABLISHED
    return here, there


def test_everything_that_is_said_arrives(two):
    asks, serves = two
    listener = serves.listener(PORT)
    here = asks.routed(serves.gid, PORT)
    asks.connect(
        here, b"may I", responder_resources=3, initiator_depth=4, retry_count=6, rnr_retry_count=5
    )
    request = serves.event()
    assert (request.type, request.listener, request.qpn) == (Event.CONNECT_REQUEST, listener, 17)
    assert bytes(request.data[: request.data_bytes]) == b"may I".ljust(56, b"\0")
    assert (request.responder_resources, request.initiator_depth) == (4, 3)
    assert (request.retry_count, request.rnr_retry_count) == (6, 5)
    assert bytes(request.route.source.address) == serves.gid
    assert bytes(request.route.destination.address) == asks.gid
    assert (request.route.source.port, request.route.has_device) == (PORT, 1)
    assert bytes(request.path.dgid) == asks.gid
    assert (request.path.dest_qpn, request.path.sgid_index) == (17, 1)
    serves.accept(request.handle, b"yes", responder_resources=2, initiator_depth=1)
    answer = asks.event()
    assert (answer.type, answer.qpn, answer.handle) == (Event.CONNECT_RESPONSE, 18, here)
    assert bytes(answer.data[:4]) == b"yes\0"
    assert (answer.responder_resources, answer.initiator_depth) == (1, 2)
    assert (answer.path.rq_psn, answer.path.sq_psn) == (request.path.sq_psn, request.path.rq_psn)
    asks.ids.establish(here)
    asks.fabric.run()
    assert serves.types() == [Event.ESTABLISHED]


@pytest.mark.parametrize("first", [0, 1], ids=["who asked", "who served"])
def test_either_side_disconnects(two, first):
    asks, serves = two
    sides = [(asks, 0), (serves, 0)]
    handles = connected(asks, serves, serves.listener(PORT))
    sides = [(asks, handles[0]), (serves, handles[1])]
    (begins, own), (hears, its) = sides[first], sides[1 - first]
    begins.ids.disconnect(own)
    begins.fabric.run()
    assert (begins.types(), hears.types()) == ([], [Event.DISCONNECTED])
    hears.ids.disconnect(its)
    hears.ids.disconnect(its)  # as programs do, to be sure
    begins.fabric.run()
    assert begins.types() == [Event.DISCONNECTED]
    begins.fabric.later(2)
    assert (begins.types(), hears.types()) == ([Event.TIMEWAIT_EXIT], [Event.TIMEWAIT_EXIT])


def test_a_client_that_dies_disconnects_its_peers(two):
    asks, serves = two
    connected(asks, serves, serves.listener(PORT))
    asks.ids.close()
    asks.fabric.run()
    assert serves.types() == [Event.DISCONNECTED]


def test_nobody_listens(two):
    asks, serves = two
    here = asks.routed(serves.gid, PORT)
    asks.connect(here)
    refused = asks.event()
    assert (refused.type, refused.status) == (Event.REJECTED, Reason.INVALID_SERVICE_ID)


def test_a_listener_that_goes_takes_what_nobody_has_heard_of(two):
    asks, serves = two
    listener = serves.listener(PORT)
    here, other = (asks.routed(serves.gid, PORT) for _ in range(2))
    asks.connect(here)
    heard = serves.event().handle
    asks.connect(other)
    serves.ids.destroy_id(listener)
    asks.fabric.run()
    refused = asks.event()
    assert (refused.type, refused.handle, refused.status) == (Event.REJECTED, other, 28)
    serves.accept(heard)
    assert asks.event().handle == here
    third = asks.routed(serves.gid, PORT)
    asks.connect(third)
    assert asks.event().status == Reason.INVALID_SERVICE_ID


def test_a_rejection_brings_its_private_data(two):
    asks, serves = two
    serves.listener(PORT)
    here = asks.routed(serves.gid, PORT)
    asks.connect(here)
    serves.reject(serves.event().handle, b"too late")
    refused = asks.event()
    assert (refused.type, refused.status) == (Event.REJECTED, Reason.CONSUMER_DEFINED)
    assert bytes(refused.data[: refused.data_bytes]) == b"too late"


def test_more_requests_than_the_backlog_are_refused_until_some_are_answered(two):
    asks, serves = two
    serves.listener(PORT, backlog=2)
    ids = [asks.routed(serves.gid, PORT) for _ in range(4)]
    for one in ids[:3]:
        asks.connect(one)
    refused = asks.event()
    assert (refused.handle, refused.status) == (ids[2], Reason.CONSUMER_DEFINED)
    serves.accept(serves.events()[0].handle)
    assert asks.types() == [Event.CONNECT_RESPONSE]
    asks.connect(ids[3])
    assert asks.types() == []
    assert serves.types() == [Event.CONNECT_REQUEST]


def test_a_requester_that_goes_makes_room_in_the_backlog(two):
    asks, serves = two
    serves.listener(PORT, backlog=1)
    for _ in range(3):
        one = asks.routed(serves.gid, PORT)
        asks.connect(one)
        assert serves.types() == [Event.CONNECT_REQUEST]
        asks.ids.destroy_id(one)
        asks.fabric.run()
        assert serves.types() == [Event.REJECTED]


def test_policies_are_asked_for_every_request(two):
    asks, serves = two
    asked = []

    def may_connect(*flow: object) -> Refusal | None:
        asked.append(flow)
        return Refusal("no: ns/deny-all") if flow[2] == PORT else None

    asks.fabric.manager.may_connect = may_connect
    serves.listener(PORT)
    serves.listener(PORT + 1)
    one, other = asks.routed(serves.gid, PORT), asks.routed(serves.gid, PORT + 1)
    asks.connect(one)
    asks.connect(other)
    assert asked == [
        ("198.18.0.1", "198.18.0.2", PORT, "TCP"),
        ("198.18.0.1", "198.18.0.2", PORT + 1, "TCP"),
    ]
    refused = asks.event()
    assert (refused.handle, refused.status) == (one, Reason.CONSUMER_DEFINED)
    assert bytes(refused.data[: refused.data_bytes]) == b"no: ns/deny-all"
    assert [event.listener for event in serves.events()] != []


def test_what_a_queue_pair_was_connected_by_is_known_before_it_is(two):
    asks, serves = two
    connected(asks, serves, serves.listener(PORT))
    find = asks.fabric.manager.bindings.find
    assert find(17, asks.gid, serves.gid, 18).service == Service(PORT, "TCP")
    assert find(18, serves.gid, asks.gid, 17).service == Service(PORT, "TCP", is_server=True)
    other = asks.queue_pair(asks.fabric.asking)
    for wrong in (
        (other, asks.gid, serves.gid, 18),
        (17, asks.gids[0], serves.gid, 18),
        (17, asks.gid, gid(5), 18),
        (17, asks.gid, serves.gid, 19),
        (18, serves.gid, asks.gid, other),
    ):
        assert find(*wrong).service is None


def test_the_loopback_means_whoever_of_the_fabric_serves(fabric):
    asks, serves = Client(fabric, 0), Client(fabric, 1)
    serves.listener(PORT)
    asks.connect(asks.routed(LOOPBACK, PORT))
    assert serves.types() == [Event.CONNECT_REQUEST]
    asks.listener(PORT)
    asks.connect(asks.routed(LOOPBACK, PORT))
    assert asks.types() == [Event.CONNECT_REQUEST], "who serves itself comes first"
    alone = Client(fabric, 2, shared=False)
    alone.connect(alone.routed(LOOPBACK, PORT))
    assert alone.event().status == Reason.INVALID_SERVICE_ID, "a pod's loopback is its own"


@pytest.mark.parametrize(
    ("address", "status"),
    [
        (gid(77), -errno.EHOSTUNREACH),
        (bytes(10) + b"\xff\xff" + bytes((192, 0, 2, 1)), -errno.ENETUNREACH),
        (bytes.fromhex("20010db8" + "00" * 12), -errno.ENETUNREACH),
    ],
)
def test_addresses_that_nobody_has_are_errors(two, address, status):
    asks, _ = two
    failed = asks.resolve(asks.id(), address, PORT)
    assert (failed.type, failed.status) == (Event.ADDR_ERROR, status)


def test_ports_are_a_functions_own_and_held_once(fabric):
    one, neighbour = Client(fabric, 0), Client(fabric, 1)
    same = Client(fabric, 0)
    one.listener(PORT)
    with pytest.raises(OSError, match="in use"):
        same.bind(same.id(), PORT)
    neighbour.listener(PORT)
    one.bind(one.id(CmPortSpace.UDP), PORT)
    one.bind(one.id(), PORT + 1, reuse=1)
    one.bind(one.id(), PORT + 1, reuse=1)
    with pytest.raises(OSError, match="in use"):
        one.bind(one.id(), PORT + 1)
    free = {one.bind(one.id(), 0).source.port for _ in range(20)}
    assert len(free) == 20
    assert min(free) >= 32768
    with pytest.raises(OSError, match="assign"):
        one.bind(one.id(), 5, neighbour.gid)


def test_a_port_is_free_again_when_its_id_has_gone(fabric):
    one = Client(fabric, 0)
    one.ids.destroy_id(one.listener(PORT))
    one.listener(PORT)


def test_events_of_an_id_go_with_it_to_another_channel(two):
    asks, serves = two
    serves.listener(PORT)
    here, other = (asks.routed(serves.gid, PORT) for _ in range(2))
    for one in (here, other):
        asks.connect(one)
    for event in serves.events():
        serves.accept(event.handle)
    channel, fd = asks.new_channel()
    asks.ids.migrate(cm.CmPair(here, channel))
    assert asks.event(fd).handle == here
    assert asks.event().handle == other
    with pytest.raises(OSError, match="busy"):
        asks.ids.destroy_channel(channel)
    os.close(fd)


def test_events_of_an_id_that_is_destroyed_are_not_read_any_more(two):
    asks, serves = two
    one = asks.id()
    asks.resolve(asks.id(), serves.gid, PORT)
    wanted = cm.CmBind(one)
    asks.ids.resolve_address(wanted)
    asks.ids.destroy_id(one)
    assert asks.types() == []


@pytest.mark.parametrize(
    ("chosen", "learnt"), [(0, 0x01234567), (1, 1), (0x01234567, 0x01234567), (MOST, MOST)]
)
def test_datagrams_have_the_key_that_who_answers_chose_or_that_of_all(two, chosen, learnt):
    """RDMA_UDP_QKEY of the kernel's rdma_cm.h."""
    asks, serves = two
    serves.listener(PORT, space=CmPortSpace.UDP)
    asks.connect(asks.routed(serves.gid, PORT, CmPortSpace.UDP), qpn=0)
    serves.accept(serves.event().handle, qpn=33, qkey=chosen)
    found = asks.event()
    assert (found.type, found.qpn, found.qkey) == (Event.ESTABLISHED, 33, learnt)


def test_datagrams_learn_queue_pair_and_key(two):
    asks, serves = two
    serves.listener(PORT, space=CmPortSpace.UDP)
    here = asks.routed(serves.gid, PORT, CmPortSpace.UDP)
    asks.connect(here, b"where", qpn=0)
    request = serves.event()
    assert bytes(request.data[:6]) == b"where\0"
    serves.accept(request.handle, b"here", qpn=33, qkey=cm.CM_UDP_QKEY)
    found = asks.event()
    assert (found.type, found.qpn, found.qkey) == (Event.ESTABLISHED, 33, cm.CM_UDP_QKEY)
    assert bytes(found.path.dgid) == serves.gid
    other = asks.routed(serves.gid, PORT, CmPortSpace.UDP)
    asks.connect(other, qpn=0)
    serves.reject(serves.event().handle)
    refused = asks.event()
    assert (refused.type, refused.status) == (Event.UNREACHABLE, 2)


def test_a_peer_that_never_answers_is_unreachable(fabric):
    """Its node is not this one, and nothing that is sent there arrives."""
    sent = []
    fabric.manager.wire = lambda *message: sent.append(message)
    asks = Client(fabric, 0)
    here = asks.routed(gid(9), PORT)
    asks.connect(here)
    for _ in range(20):
        fabric.later(4.3)
    gone = asks.event()
    assert (gone.type, gone.status) == (Event.UNREACHABLE, -errno.ETIMEDOUT)
    assert [type(message) for _, _, message in sent] == [Req] * 16 + [Rej]
    assert {(source, destination) for source, destination, _ in sent} == {(asks.gid, gid(9))}
    with pytest.raises(OSError, match="Invalid"):
        asks.connect(here)


def test_policies_are_asked_before_a_request_leaves_the_node(fabric):
    sent = []
    fabric.manager.wire = lambda *message: sent.append(message)
    fabric.manager.may_connect = lambda *flow: Refusal(f"no {flow}")
    asks = Client(fabric, 0)
    asks.connect(asks.routed(gid(9), PORT))
    refused = asks.event()
    assert (refused.type, refused.status, sent) == (Event.REJECTED, 28, [])
    assert b"('198.18.0.1', '198.18.0.10', 7174, 'TCP')" in bytes(refused.data)


# What clients do that mean no good.


def test_nobody_names_anothers_ids_or_channels(two):
    asks, serves = two
    mine = asks.listener(PORT)
    for _ in range(5):
        serves.id()
    stranger = Client(asks.fabric, 0)  # a program of the same function, even
    for call in (
        lambda: stranger.ids.destroy_id(mine),
        lambda: stranger.ids.listen(cm.CmPair(mine, 1)),
        lambda: stranger.ids.migrate(cm.CmPair(mine, stranger.channel)),
        lambda: stranger.ids.create_id(cm.CmIdCreate(99, CmPortSpace.TCP)),
        lambda: stranger.ids.destroy_channel(99),
        lambda: stranger.accept(mine),
        lambda: stranger.reject(mine),
    ):
        with pytest.raises(OSError, match="Invalid argument"):
            call()
    stranger.close()


def test_nobody_answers_for_another(two):
    """Messages with the right numbers, from or to an address that the connection is not with."""
    asks, serves = two
    serves.listener(PORT)
    here = asks.routed(serves.gid, PORT)
    asks.connect(here)
    serves.events()
    (number,) = (
        one.connection.local_id
        for one in asks.fabric.manager._endpoints.values()
        if one.owner and not one.is_server
    )
    no = Rej(9, number, 0, Reason.CONSUMER_DEFINED)
    asks.fabric.manager.receive(gid(7), asks.gid, no)
    asks.fabric.manager.receive(serves.gid, gid(7), no)
    assert asks.types() == []
    asks.fabric.manager.receive(serves.gid, asks.gid, no)
    assert asks.types() == [Event.REJECTED]


def test_who_puts_a_deadline_off_again_and_again_fills_nothing(fabric):
    """A peer may have us wait for longer, and shorter, with each message: none of it is kept."""
    sent = []
    fabric.manager.wire = lambda *message: sent.append(message)
    asks = Client(fabric, 0)
    here = asks.routed(gid(9), PORT)
    asks.connect(here)
    (number,) = fabric.manager._endpoints
    for count in range(4000):
        fabric.later(0.05)
        wait = Mra(77, number, Rejected.REQ, 25 if count % 2 else 0)
        fabric.manager.receive(gid(9), asks.gid, wait)
        assert len(fabric.manager._deadlines) < 100
    assert (asks.types(), len(sent)) == ([], 1), "200 seconds in which it was never due"
    for _ in range(17):
        fabric.later(150)
    assert asks.types() == [Event.UNREACHABLE]
    assert [type(message) for _, _, message in sent] == [Req] * 16 + [Rej]
    assert not fabric.manager._deadlines


@pytest.mark.parametrize("kind", [Req, SidrReq])
def test_a_request_in_anothers_name_is_refused(fabric, kind):
    serves = Client(fabric, 1)
    space = CmPortSpace.TCP if kind is Req else CmPortSpace.UDP
    serves.listener(PORT, space=space)
    sent = []
    fabric.manager.wire = lambda *message: sent.append(message)
    for data in (pack(Endpoints(gid(3), 1, serves.gid)), b"", bytes(36)):
        service = space << 16 | PORT
        path = Path(gid(4), serves.gid)
        request = (
            Req(7, service, path, 1, 1, data=data)
            if kind is Req
            else SidrReq(7, service, data=data)
        )
        fabric.manager.receive(gid(4), serves.gid, request)
    assert serves.types() == []
    assert len(sent) == 3
    assert not fabric.manager._endpoints


def test_ids_and_channels_are_bounded(fabric, monkeypatch):
    monkeypatch.setattr(cm, "CM_MAX_IDS", 8)
    monkeypatch.setattr(cm, "CM_MAX_CHANNELS", 3)
    serves, asks = Client(fabric, 1), Client(fabric, 0)
    serves.listener(PORT)
    for _ in range(7):
        serves.id()
    with pytest.raises(OSError, match="memory"):
        serves.id()
    asks.connect(asks.routed(serves.gid, PORT))
    assert asks.event().status == Reason.CONSUMER_DEFINED, "requests make ids, too"
    for _ in range(2):
        asks.new_channel()
    with pytest.raises(OSError, match="memory"):
        asks.new_channel()


@pytest.mark.parametrize(
    ("space", "most"), [(CmPortSpace.TCP, MOST_DATA[Req] - 36), (CmPortSpace.UDP, 180)]
)
def test_private_data_is_bounded(two, space, most):
    asks, serves = two
    serves.listener(PORT, space=space)
    here = asks.routed(serves.gid, PORT, space)
    for size in (most + 1, cm.CM_MAX_DATA + 1, (1 << 32) - 1):
        wanted = parameters(here, b"")
        wanted.data_bytes = size
        with pytest.raises(OSError, match="private data"):
            asks.ids.connect(wanted)
    asks.connect(here, b"x" * most)
    there = serves.event().handle
    for call, wanted in (
        (serves.ids.accept, parameters(there)),
        (serves.ids.reject, cm.CmReject(there)),
    ):
        wanted.data_bytes = cm.CM_MAX_DATA + 1
        with pytest.raises(OSError, match="private data"):
            call(wanted)


def test_calls_out_of_order_are_refused(two):
    asks, serves = two
    one = asks.id()
    for call in (
        lambda: asks.ids.resolve_route(one),
        lambda: asks.connect(one),
        lambda: asks.accept(one),
        lambda: asks.ids.establish(one),
        lambda: asks.ids.disconnect(one),
        lambda: asks.ids.notify(one),
    ):
        with pytest.raises(OSError, match="Invalid argument"):
            call()
    serves.listener(PORT)
    here = asks.routed(serves.gid, PORT)
    asks.connect(here)
    for call in (lambda: asks.connect(here), lambda: asks.accept(here)):
        with pytest.raises(OSError):
            call()
    there = serves.event().handle
    for qpn in (0, 1 << 24):
        with pytest.raises(OSError, match="queue pair"):
            serves.accept(there, qpn=qpn)
    with pytest.raises(OSError, match="not supported"):
        asks.id(CmPortSpace.IPOIB)


def test_a_client_that_reads_no_events_keeps_them_all_and_makes_no_more_than_it_may():
    """More than the pipe holds wait in hcad, in order; calls that make more are refused then."""

    async def many() -> None:
        fabric = Fabric()
        client = Client(fabric, 0)
        one, made = client.id(), 0
        wanted = cm.CmBind(one)
        wanted.destination.address[0] = 0x20
        while not client.ids._channels.get(client.channel).is_full:
            client.ids.resolve_address(wanted)
            made += 1
        with pytest.raises(OSError, match="buffer space"):
            client.ids.resolve_address(wanted)
        assert MOST_WAITING < made < MOST_WAITING + 1000
        read = 0
        while read < made:
            read += len(client.events())
            await asyncio.sleep(0)
        client.ids.resolve_address(cm.CmBind(one))
        await asyncio.sleep(0)
        assert client.event().type == Event.ADDR_RESOLVED
        client.close()

    asyncio.run(many())


def test_events_that_nobody_reads_are_counted_over_all_channels_of_a_client():
    """As calls make them, a thousand channels would keep a thousand times as many."""

    async def play() -> None:
        client = Client(Fabric(), 0)
        ids = []
        for _ in range(64):
            channel, fd = client.new_channel()
            ids.append((client.id(channel=channel), fd))
        kept = 0
        with contextlib.suppress(OSError):
            for one, _ in itertools.cycle(ids):
                wanted = cm.CmBind(one)
                ctypes.memmove(wanted.destination.address, gid(7), 16)
                client.ids.resolve_address(wanted)
                kept += 1
        assert client.ids._channels._waits.count == MOST_WAITING
        read = sum(len(client.events(fd)) for _, fd in ids)
        assert kept - read == MOST_WAITING
        for _, fd in ids:
            os.close(fd)
        client.close()
        assert client.ids._channels._waits.count == 0

    asyncio.run(play())


def test_its_own_end_is_all_that_a_client_can_make_blocking(fabric):
    client = Client(fabric, 0)
    os.set_blocking(client.fd, True)
    one = client.id()
    client.ids.destroy_id(one)  # reads the pipe, in which nothing is
    os.set_blocking(client.fd, False)
    client.close()


def test_numbers_of_connections_are_not_to_be_guessed(fabric):
    numbers = [fabric.manager.new_number() for _ in range(1000)]
    assert len(set(numbers)) == 1000
    assert max(numbers) > 1 << 31
    assert sum(b == a + 1 for a, b in itertools.pairwise(numbers)) < 3


def test_an_id_of_datagrams_uses_groups(two):
    asks, serves = two
    group = bytes(10) + b"\xff\xff" + bytes((239, 1, 2, 3))
    wanted = cm.CmBind(asks.id(CmPortSpace.UDP))
    ctypes.memmove(wanted.destination.address, group, 16)
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        asks.ids.join(wanted)  # it has no address yet
    one = wanted.handle
    assert asks.resolve(one, group, 0).type == Event.ADDR_RESOLVED
    asks.ids.join(wanted)
    joined = asks.event()
    assert (joined.type, joined.handle, joined.qpn) == (Event.MULTICAST_JOIN, one, 0xFFFFFF)
    assert (bytes(joined.path.dgid), joined.qkey) == (group, cm.CM_UDP_QKEY)
    asks.ids.resolve_route(one)
    assert asks.event().type == Event.ROUTE_RESOLVED
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        asks.connect(one)
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        serves.ids.join(wanted)  # another's id
    ctypes.memmove(wanted.destination.address, serves.gid, 16)
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        asks.ids.join(wanted)  # no group
    stream = asks.id()
    with pytest.raises(OSError, match=os.strerror(errno.EADDRNOTAVAIL)):
        asks.resolve(stream, group, 0)
    asks.bind(stream, PORT)
    wanted.handle = stream
    ctypes.memmove(wanted.destination.address, group, 16)
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        asks.ids.join(wanted)


def test_who_reads_no_events_joins_no_more_groups_than_fit():
    async def many() -> None:
        client = Client(Fabric(), 0)
        wanted = cm.CmBind(client.id(CmPortSpace.UDP))
        wanted.destination.address[0] = 0xFF
        client.resolve(wanted.handle, bytes(wanted.destination.address), 0)
        while not client.ids._channels.get(client.channel).is_full:
            client.ids.join(wanted)
        with pytest.raises(OSError, match="buffer space"):
            client.ids.join(wanted)
        client.close()

    asyncio.run(many())
