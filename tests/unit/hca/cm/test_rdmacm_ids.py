"""Ids of well-behaved and hostile clients, on one fabric in this process."""

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
    """Yield an active client and a passive one."""
    clients = Client(fabric, 0), Client(fabric, 1)
    yield clients
    for one in clients:
        one.close()
    assert not fabric.manager._endpoints, "nothing stays"
    assert not fabric.manager._responders
    assert not fabric.manager.bindings
    assert not fabric.manager._functions


def connect_ids(active: Client, passive: Client, listener: int) -> tuple[int, int]:
    here = active.new_routed_id(passive.gid, PORT)
    active.connect(here)
    there = passive.event().handle
    passive.accept(there)
    assert active.event().type == Event.CONNECT_RESPONSE
    active.ids.establish(here)
    active.fabric.run()
    assert passive.event().type == Event.ESTABLISHED
    return here, there


def test_every_message_arrives(two):
    active, passive = two
    listener = passive.listener(PORT)
    here = active.new_routed_id(passive.gid, PORT)
    active.connect(
        here, b"may I", responder_resources=3, initiator_depth=4, retry_count=6, rnr_retry_count=5
    )
    request = passive.event()
    assert (request.type, request.listener, request.qpn) == (Event.CONNECT_REQUEST, listener, 17)
    assert bytes(request.data[: request.data_bytes]) == b"may I".ljust(56, b"\0")
    assert (request.responder_resources, request.initiator_depth) == (4, 3)
    assert (request.retry_count, request.rnr_retry_count) == (6, 5)
    assert bytes(request.route.source.address) == passive.gid
    assert bytes(request.route.destination.address) == active.gid
    assert (request.route.source.port, request.route.has_device) == (PORT, 1)
    assert bytes(request.path.dgid) == active.gid
    assert (request.path.dest_qpn, request.path.sgid_index) == (17, 1)
    passive.accept(request.handle, b"yes", responder_resources=2, initiator_depth=1)
    answer = active.event()
    assert (answer.type, answer.qpn, answer.handle) == (Event.CONNECT_RESPONSE, 18, here)
    assert bytes(answer.data[:4]) == b"yes\0"
    assert (answer.responder_resources, answer.initiator_depth) == (1, 2)
    assert (answer.path.rq_psn, answer.path.sq_psn) == (request.path.sq_psn, request.path.rq_psn)
    active.ids.establish(here)
    active.fabric.run()
    assert passive.types() == [Event.ESTABLISHED]


@pytest.mark.parametrize("first", [0, 1], ids=["active side", "passive side"])
def test_either_side_disconnects(two, first):
    active, passive = two
    sides = [(active, 0), (passive, 0)]
    handles = connect_ids(active, passive, passive.listener(PORT))
    sides = [(active, handles[0]), (passive, handles[1])]
    (begins, own), (other, its) = sides[first], sides[1 - first]
    begins.ids.disconnect(own)
    begins.fabric.run()
    assert (begins.types(), other.types()) == ([], [Event.DISCONNECTED])
    other.ids.disconnect(its)
    other.ids.disconnect(its)  # as programs do, to be sure
    begins.fabric.run()
    assert begins.types() == [Event.DISCONNECTED]
    begins.fabric.later(2)
    assert (begins.types(), other.types()) == ([Event.TIMEWAIT_EXIT], [Event.TIMEWAIT_EXIT])


def test_a_client_that_dies_disconnects_its_peers(two):
    active, passive = two
    connect_ids(active, passive, passive.listener(PORT))
    active.ids.close()
    active.fabric.run()
    assert passive.types() == [Event.DISCONNECTED]


def test_a_request_without_a_listener_is_rejected(two):
    active, passive = two
    here = active.new_routed_id(passive.gid, PORT)
    active.connect(here)
    refused = active.event()
    assert (refused.type, refused.status) == (Event.REJECTED, Reason.INVALID_SERVICE_ID)


def test_a_destroyed_listener_drops_its_unreported_requests(two):
    active, passive = two
    listener = passive.listener(PORT)
    here, other = (active.new_routed_id(passive.gid, PORT) for _ in range(2))
    active.connect(here)
    request = passive.event().handle
    active.connect(other)
    passive.ids.destroy_id(listener)
    active.fabric.run()
    refused = active.event()
    assert (refused.type, refused.handle, refused.status) == (Event.REJECTED, other, 28)
    passive.accept(request)
    assert active.event().handle == here
    third = active.new_routed_id(passive.gid, PORT)
    active.connect(third)
    assert active.event().status == Reason.INVALID_SERVICE_ID


def test_a_rejection_brings_its_private_data(two):
    active, passive = two
    passive.listener(PORT)
    here = active.new_routed_id(passive.gid, PORT)
    active.connect(here)
    passive.reject(passive.event().handle, b"too late")
    refused = active.event()
    assert (refused.type, refused.status) == (Event.REJECTED, Reason.CONSUMER_DEFINED)
    assert bytes(refused.data[: refused.data_bytes]) == b"too late"


def test_more_requests_than_the_backlog_are_refused_until_some_are_answered(two):
    active, passive = two
    passive.listener(PORT, backlog=2)
    ids = [active.new_routed_id(passive.gid, PORT) for _ in range(4)]
    for one in ids[:3]:
        active.connect(one)
    refused = active.event()
    assert (refused.handle, refused.status) == (ids[2], Reason.CONSUMER_DEFINED)
    passive.accept(passive.events()[0].handle)
    assert active.types() == [Event.CONNECT_RESPONSE]
    active.connect(ids[3])
    assert active.types() == []
    assert passive.types() == [Event.CONNECT_REQUEST]


def test_a_requester_that_ends_frees_its_place_in_the_backlog(two):
    active, passive = two
    passive.listener(PORT, backlog=1)
    for _ in range(3):
        one = active.new_routed_id(passive.gid, PORT)
        active.connect(one)
        assert passive.types() == [Event.CONNECT_REQUEST]
        active.ids.destroy_id(one)
        active.fabric.run()
        assert passive.types() == [Event.REJECTED]


def test_policy_is_checked_for_every_request(two):
    active, passive = two
    checked = []

    def may_connect(*flow: object) -> Refusal | None:
        checked.append(flow)
        return Refusal("no: ns/deny-all") if flow[2] == PORT else None

    active.fabric.manager.may_connect = may_connect
    passive.listener(PORT)
    passive.listener(PORT + 1)
    one, other = (
        active.new_routed_id(passive.gid, PORT),
        active.new_routed_id(passive.gid, PORT + 1),
    )
    active.connect(one)
    active.connect(other)
    assert checked == [
        ("198.18.0.1", "198.18.0.2", PORT, "TCP"),
        ("198.18.0.1", "198.18.0.2", PORT + 1, "TCP"),
    ]
    refused = active.event()
    assert (refused.handle, refused.status) == (one, Reason.CONSUMER_DEFINED)
    assert bytes(refused.data[: refused.data_bytes]) == b"no: ns/deny-all"
    assert [event.listener for event in passive.events()] != []


def test_a_queue_pair_s_service_is_known_before_it_is_connected(two):
    active, passive = two
    connect_ids(active, passive, passive.listener(PORT))
    find = active.fabric.manager.bindings.find
    assert find(17, active.gid, passive.gid, 18).service == Service(PORT, "TCP")
    assert find(18, passive.gid, active.gid, 17).service == Service(PORT, "TCP", is_server=True)
    other = active.queue_pair(active.fabric.asking)
    for wrong in (
        (other, active.gid, passive.gid, 18),
        (17, active.gids[0], passive.gid, 18),
        (17, active.gid, gid(5), 18),
        (17, active.gid, passive.gid, 19),
        (18, passive.gid, active.gid, other),
    ):
        assert find(*wrong).service is None


def test_the_loopback_address_means_the_fabric_s_listener(fabric):
    active, passive = Client(fabric, 0), Client(fabric, 1)
    passive.listener(PORT)
    active.connect(active.new_routed_id(LOOPBACK, PORT))
    assert passive.types() == [Event.CONNECT_REQUEST]
    active.listener(PORT)
    active.connect(active.new_routed_id(LOOPBACK, PORT))
    assert active.types() == [Event.CONNECT_REQUEST], "who passive itself comes first"
    alone = Client(fabric, 2, shared=False)
    alone.connect(alone.new_routed_id(LOOPBACK, PORT))
    assert alone.event().status == Reason.INVALID_SERVICE_ID, "a pod's loopback is its own"


@pytest.mark.parametrize(
    ("address", "status"),
    [
        (gid(77), -errno.EHOSTUNREACH),
        (bytes(10) + b"\xff\xff" + bytes((192, 0, 2, 1)), -errno.ENETUNREACH),
        (bytes.fromhex("20010db8" + "00" * 12), -errno.ENETUNREACH),
    ],
)
def test_unused_addresses_are_errors(two, address, status):
    active, _ = two
    failed = active.resolve(active.id(), address, PORT)
    assert (failed.type, failed.status) == (Event.ADDR_ERROR, status)


def test_each_function_has_its_own_ports(fabric):
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


def test_a_port_is_free_again_after_its_id_is_destroyed(fabric):
    one = Client(fabric, 0)
    one.ids.destroy_id(one.listener(PORT))
    one.listener(PORT)


def test_events_of_an_id_go_with_it_to_another_channel(two):
    active, passive = two
    passive.listener(PORT)
    here, other = (active.new_routed_id(passive.gid, PORT) for _ in range(2))
    for one in (here, other):
        active.connect(one)
    for event in passive.events():
        passive.accept(event.handle)
    channel, fd = active.new_channel()
    active.ids.migrate(cm.CmPair(here, channel))
    assert active.event(fd).handle == here
    assert active.event().handle == other
    with pytest.raises(OSError, match="busy"):
        active.ids.destroy_channel(channel)
    os.close(fd)


def test_events_of_a_destroyed_id_are_not_returned(two):
    active, passive = two
    one = active.id()
    active.resolve(active.id(), passive.gid, PORT)
    wanted = cm.CmBind(one)
    active.ids.resolve_address(wanted)
    active.ids.destroy_id(one)
    assert active.types() == []


@pytest.mark.parametrize(
    ("chosen", "received"), [(0, 0x01234567), (1, 1), (0x01234567, 0x01234567), (MOST, MOST)]
)
def test_datagrams_use_the_responder_s_q_key_or_the_default_one(two, chosen, received):
    """RDMA_UDP_QKEY of the kernel's rdma_cm.h."""
    active, passive = two
    passive.listener(PORT, space=CmPortSpace.UDP)
    active.connect(active.new_routed_id(passive.gid, PORT, CmPortSpace.UDP), qpn=0)
    passive.accept(passive.event().handle, qpn=33, qkey=chosen)
    found = active.event()
    assert (found.type, found.qpn, found.qkey) == (Event.ESTABLISHED, 33, received)


def test_a_sidr_reply_has_queue_pair_and_q_key(two):
    active, passive = two
    passive.listener(PORT, space=CmPortSpace.UDP)
    here = active.new_routed_id(passive.gid, PORT, CmPortSpace.UDP)
    active.connect(here, b"where", qpn=0)
    request = passive.event()
    assert bytes(request.data[:6]) == b"where\0"
    passive.accept(request.handle, b"here", qpn=33, qkey=cm.CM_UDP_QKEY)
    found = active.event()
    assert (found.type, found.qpn, found.qkey) == (Event.ESTABLISHED, 33, cm.CM_UDP_QKEY)
    assert bytes(found.path.dgid) == passive.gid
    other = active.new_routed_id(passive.gid, PORT, CmPortSpace.UDP)
    active.connect(other, qpn=0)
    passive.reject(passive.event().handle)
    refused = active.event()
    assert (refused.type, refused.status) == (Event.UNREACHABLE, 2)


def test_a_peer_that_never_answers_is_unreachable(fabric):
    """The peer is on another node, where no message arrives."""
    sent = []
    fabric.manager.wire = lambda *message: sent.append(message)
    active = Client(fabric, 0)
    here = active.new_routed_id(gid(9), PORT)
    active.connect(here)
    for _ in range(20):
        fabric.later(4.3)
    gone = active.event()
    assert (gone.type, gone.status) == (Event.UNREACHABLE, -errno.ETIMEDOUT)
    assert [type(message) for _, _, message in sent] == [Req] * 16 + [Rej]
    assert {(source, destination) for source, destination, _ in sent} == {(active.gid, gid(9))}
    with pytest.raises(OSError, match="Invalid"):
        active.connect(here)


def test_policy_is_checked_before_a_request_leaves_the_node(fabric):
    sent = []
    fabric.manager.wire = lambda *message: sent.append(message)
    fabric.manager.may_connect = lambda *flow: Refusal(f"no {flow}")
    active = Client(fabric, 0)
    active.connect(active.new_routed_id(gid(9), PORT))
    refused = active.event()
    assert (refused.type, refused.status, sent) == (Event.REJECTED, 28, [])
    assert b"('198.18.0.1', '198.18.0.10', 7174, 'TCP')" in bytes(refused.data)


# Hostile clients.


def test_another_client_s_ids_and_channels_are_unknown(two):
    active, passive = two
    mine = active.listener(PORT)
    for _ in range(5):
        passive.id()
    stranger = Client(active.fabric, 0)  # even if it is a program of the same function
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


def test_a_message_from_another_address_is_ignored(two):
    """The numbers are right, but the message is from or to another address than the
    connection's.
    """
    active, passive = two
    passive.listener(PORT)
    here = active.new_routed_id(passive.gid, PORT)
    active.connect(here)
    passive.events()
    (number,) = (
        one.connection.local_id
        for one in active.fabric.manager._endpoints.values()
        if one.owner and not one.is_server
    )
    no = Rej(9, number, 0, Reason.CONSUMER_DEFINED)
    active.fabric.manager.receive(gid(7), active.gid, no)
    active.fabric.manager.receive(passive.gid, gid(7), no)
    assert active.types() == []
    active.fabric.manager.receive(passive.gid, active.gid, no)
    assert active.types() == [Event.REJECTED]


def test_repeated_mras_use_no_memory(fabric):
    """A peer may change the deadline with each message: no earlier deadline is kept."""
    sent = []
    fabric.manager.wire = lambda *message: sent.append(message)
    active = Client(fabric, 0)
    here = active.new_routed_id(gid(9), PORT)
    active.connect(here)
    (number,) = fabric.manager._endpoints
    for count in range(4000):
        fabric.later(0.05)
        wait = Mra(77, number, Rejected.REQ, 25 if count % 2 else 0)
        fabric.manager.receive(gid(9), active.gid, wait)
        assert len(fabric.manager._deadlines) < 100
    assert (active.types(), len(sent)) == ([], 1), "200 seconds in which it was never due"
    for _ in range(17):
        fabric.later(150)
    assert active.types() == [Event.UNREACHABLE]
    assert [type(message) for _, _, message in sent] == [Req] * 16 + [Rej]
    assert not fabric.manager._deadlines


@pytest.mark.parametrize("kind", [Req, SidrReq])
def test_a_request_with_a_forged_source_is_refused(fabric, kind):
    passive = Client(fabric, 1)
    space = CmPortSpace.TCP if kind is Req else CmPortSpace.UDP
    passive.listener(PORT, space=space)
    sent = []
    fabric.manager.wire = lambda *message: sent.append(message)
    for data in (pack(Endpoints(gid(3), 1, passive.gid)), b"", bytes(36)):
        service = space << 16 | PORT
        path = Path(gid(4), passive.gid)
        request = (
            Req(7, service, path, 1, 1, data=data)
            if kind is Req
            else SidrReq(7, service, data=data)
        )
        fabric.manager.receive(gid(4), passive.gid, request)
    assert passive.types() == []
    assert len(sent) == 3
    assert not fabric.manager._endpoints


def test_ids_and_channels_are_bounded(fabric, monkeypatch):
    monkeypatch.setattr(cm, "CM_MAX_IDS", 8)
    monkeypatch.setattr(cm, "CM_MAX_CHANNELS", 3)
    passive, active = Client(fabric, 1), Client(fabric, 0)
    passive.listener(PORT)
    for _ in range(7):
        passive.id()
    with pytest.raises(OSError, match="memory"):
        passive.id()
    active.connect(active.new_routed_id(passive.gid, PORT))
    assert active.event().status == Reason.CONSUMER_DEFINED, "requests make ids, too"
    for _ in range(2):
        active.new_channel()
    with pytest.raises(OSError, match="memory"):
        active.new_channel()


@pytest.mark.parametrize(
    ("space", "most"), [(CmPortSpace.TCP, MOST_DATA[Req] - 36), (CmPortSpace.UDP, 180)]
)
def test_private_data_is_bounded(two, space, most):
    active, passive = two
    passive.listener(PORT, space=space)
    here = active.new_routed_id(passive.gid, PORT, space)
    for size in (most + 1, cm.CM_MAX_DATA + 1, (1 << 32) - 1):
        wanted = parameters(here, b"")
        wanted.data_bytes = size
        with pytest.raises(OSError, match="private data"):
            active.ids.connect(wanted)
    active.connect(here, b"x" * most)
    there = passive.event().handle
    for call, wanted in (
        (passive.ids.accept, parameters(there)),
        (passive.ids.reject, cm.CmReject(there)),
    ):
        wanted.data_bytes = cm.CM_MAX_DATA + 1
        with pytest.raises(OSError, match="private data"):
            call(wanted)


def test_calls_out_of_order_are_refused(two):
    active, passive = two
    one = active.id()
    for call in (
        lambda: active.ids.resolve_route(one),
        lambda: active.connect(one),
        lambda: active.accept(one),
        lambda: active.ids.establish(one),
        lambda: active.ids.disconnect(one),
        lambda: active.ids.notify(one),
    ):
        with pytest.raises(OSError, match="Invalid argument"):
            call()
    passive.listener(PORT)
    here = active.new_routed_id(passive.gid, PORT)
    active.connect(here)
    for call in (lambda: active.connect(here), lambda: active.accept(here)):
        with pytest.raises(OSError):
            call()
    there = passive.event().handle
    for qpn in (0, 1 << 24):
        with pytest.raises(OSError, match="queue pair"):
            passive.accept(there, qpn=qpn)
    with pytest.raises(OSError, match="not supported"):
        active.id(CmPortSpace.IPOIB)


def test_unread_events_of_a_client_are_kept_and_bounded():
    """Events that do not fit into the pipe wait in hcad, in order; calls that make more are then
    refused.
    """

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


def test_unread_events_are_counted_over_all_channels_of_a_client():
    """With a limit per channel, a client with a thousand channels could have a thousand times as
    many.
    """

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


def test_a_client_can_make_only_its_own_end_blocking(fabric):
    client = Client(fabric, 0)
    os.set_blocking(client.fd, True)
    one = client.id()
    client.ids.destroy_id(one)  # reads the empty pipe
    os.set_blocking(client.fd, False)
    client.close()


def test_connection_numbers_are_unpredictable(fabric):
    numbers = [fabric.manager.new_number() for _ in range(1000)]
    assert len(set(numbers)) == 1000
    assert max(numbers) > 1 << 31
    assert sum(b == a + 1 for a, b in itertools.pairwise(numbers)) < 3


def test_an_id_of_datagrams_uses_groups(two):
    active, passive = two
    group = bytes(10) + b"\xff\xff" + bytes((239, 1, 2, 3))
    wanted = cm.CmBind(active.id(CmPortSpace.UDP))
    ctypes.memmove(wanted.destination.address, group, 16)
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        active.ids.join(wanted)  # it has no address yet
    one = wanted.handle
    assert active.resolve(one, group, 0).type == Event.ADDR_RESOLVED
    active.ids.join(wanted)
    joined = active.event()
    assert (joined.type, joined.handle, joined.qpn) == (Event.MULTICAST_JOIN, one, 0xFFFFFF)
    assert (bytes(joined.path.dgid), joined.qkey) == (group, cm.CM_UDP_QKEY)
    active.ids.resolve_route(one)
    assert active.event().type == Event.ROUTE_RESOLVED
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        active.connect(one)
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        passive.ids.join(wanted)  # another's id
    ctypes.memmove(wanted.destination.address, passive.gid, 16)
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        active.ids.join(wanted)  # no group
    stream = active.id()
    with pytest.raises(OSError, match=os.strerror(errno.EADDRNOTAVAIL)):
        active.resolve(stream, group, 0)
    active.bind(stream, PORT)
    wanted.handle = stream
    ctypes.memmove(wanted.destination.address, group, 16)
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        active.ids.join(wanted)


def test_without_reading_events_a_client_joins_a_bounded_number_of_groups():
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
