"""Ids and channels at their limits: each state, each bound and one beyond it, released quotas."""

import asyncio
import ctypes
import errno
import os
from collections.abc import Callable, Iterator

import pytest

from hca.binding.addresses import NETWORK, address_of
from hca.contract import cm
from hca.contract.cm import CmEventType as Event, CmPortSpace
from hca.daemon.cm import event_channel, identifiers
from hca.daemon.cm.event_channel import EVENT_BYTES, MOST_WAITING, Channel, Channels, Waiting
from hca.daemon.cm.identifiers import Ids
from hca.daemon.cm.messages import Reason
from hca.daemon.common.quotas import Shares
from support.connections.cm_rig import LOOPBACK, Client, Fabric, gid, parameters
from support.oracles.refusals import error
from support.rigs.share_room import room

PORT = 7174


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


# The calls that each state of an id permits.


@pytest.fixture
def client(fabric: Fabric) -> Iterator[Client]:
    one = Client(fabric, 0)
    yield one
    one.close()
    assert not fabric.manager._functions


def states(client: Client) -> dict[str, int]:
    """Return an id in each state that needs no peer."""
    made = {name: client.id() for name in ("new", "bound", "resolved", "routed", "listening")}
    client.bind(made["bound"], 1001)
    client.bind(made["listening"], 1002)
    client.ids.listen(cm.CmPair(made["listening"], 0))
    for name in ("resolved", "routed"):
        client.resolve(made[name], client.gid, PORT)
    client.ids.resolve_route(made["routed"])
    client.events()
    return made


@pytest.mark.parametrize(
    ("call", "allowed"),
    [
        (lambda c, one: c.bind(one, 0), {"new"}),
        (lambda c, one: c.ids.listen(cm.CmPair(one, 0)), {"new", "bound"}),
        (lambda c, one: c.ids.resolve_address(make_bind(one, to=c.gid)), {"new", "bound"}),
        (lambda c, one: c.ids.resolve_route(one), {"resolved"}),
        (lambda c, one: c.connect(one), {"routed"}),
    ],
    ids=["bind", "listen", "resolve_address", "resolve_route", "connect"],
)
def test_a_call_is_allowed_only_in_its_states(
    client: Client, call: Callable[[Client, int], object], allowed: set[str]
) -> None:
    for name, one in states(client).items():
        if name in allowed:
            call(client, one)
        else:
            assert error(lambda one=one: call(client, one)) == "EINVAL", name


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        (bytes(16), False),
        (gid(0), False),
        (address_of(0).gids[0], False),
        (LOOPBACK, False),
        (gid(1), True),
        (map_ipv4(127, 0, 0, 2), True),  # which is not local to this client's node
    ],
)
def test_an_id_is_bound_to_an_address_of_its_function_or_nearby(
    client: Client, address: bytes, refused: bool
) -> None:
    calls = [
        lambda: client.bind(client.id(), 0, address),
        lambda: client.ids.resolve_address(make_bind(client.id(), source=address, to=client.gid)),
    ]
    for call in calls:
        if refused:
            assert error(call) == "EADDRNOTAVAIL"
        else:
            call()


@pytest.mark.parametrize(
    ("requested", "backlog"),
    [(0, 1024), (1, 1), (1023, 1023), (1024, 1024), (1025, 1024), (0xFFFFFFFF, 1024)],
)
def test_a_backlog_is_as_requested_up_to_1024(client: Client, requested: int, backlog: int) -> None:
    one = client.listener(PORT, requested)
    assert client.ids.get(one).backlog == backlog
    second = client.id()
    client.bind(second, 0)
    client.ids.get(second).port = PORT
    assert error(lambda: client.ids.listen(cm.CmPair(second, 1))) == "EADDRINUSE"
    client.ids.get(second).port = 0
    client.ids.get(second).holds_port = False


@pytest.mark.parametrize(
    ("address", "status"),
    [
        (map_ipv4(198, 18, 0, 77), errno.EHOSTUNREACH),
        (map_ipv4(198, 19, 255, 255), errno.EHOSTUNREACH),
        (map_ipv4(198, 20, 0, 0), errno.ENETUNREACH),
        (map_ipv4(198, 17, 255, 255), errno.ENETUNREACH),
        (bytes(12) + bytes((198, 18, 0, 77)), errno.ENETUNREACH),  # the same, but not mapped
    ],
)
def test_an_unused_fabric_address_has_no_host_and_another_no_network(
    client: Client, address: bytes, status: int
) -> None:
    assert str(NETWORK) == "198.18.0.0/15"
    one = client.id()
    failed = client.resolve(one, address, PORT)
    assert (failed.type, failed.status) == (Event.ADDR_ERROR, -status)
    assert client.resolve(one, client.gid, PORT).type == Event.ADDR_RESOLVED  # the next call


def test_ephemeral_ports_are_in_the_range_of_linux(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """32768 to 60999, inclusive; ports in use are skipped, but only those of the same port
    space.
    """
    draws: list[int] = []
    monkeypatch.setattr(
        identifiers.secrets, "randbelow", lambda below: draws.append(below) or answers.pop(0)
    )
    answers = [0, 28231, 0, 5, 0]
    assert client.bind(client.id(), 0).source.port == 32768
    assert client.bind(client.id(), 0).source.port == 60999
    assert client.bind(client.id(), 0).source.port == 32773
    assert client.bind(client.id(CmPortSpace.UDP), 0).source.port == 32768
    assert set(draws) == {28232}


def test_without_a_free_port_none_is_chosen(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []
    monkeypatch.setattr(identifiers.secrets, "randbelow", lambda below: tries.append(below) or 0)
    client.bind(client.id(), 0)
    tries.clear()
    one = client.id()
    assert error(lambda: client.bind(one, 0)) == "EADDRNOTAVAIL"
    assert len(tries) == 4 * 28231
    client.bind(one, 5)  # it has not changed


def test_an_id_and_a_channel_cost_their_share_and_give_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = Shares(100, 1 << 24, 1 << 24)
    share = shares.new_share()
    free = room(share)
    fabric = Fabric()
    ids = Ids(fabric.manager, address_of(0).gids, lambda address: False, share=share)
    begun = room(share)
    made, end = ids.create_channel()
    beside = room(share)
    one = ids.create_id(cm.CmIdCreate(made.handle, CmPortSpace.TCP)).handle
    assert room(share) != beside
    ids.destroy_id(one)
    assert room(share) == beside
    assert (
        error(lambda: ids.create_id(cm.CmIdCreate(made.handle, CmPortSpace.IPOIB)))
        == errno.errorcode[errno.EOPNOTSUPP]
    )
    assert error(lambda: ids.create_id(cm.CmIdCreate(made.handle + 9, CmPortSpace.TCP))) == "EINVAL"
    assert room(share) == beside
    ids.destroy_channel(made.handle)
    assert room(share) == begun
    monkeypatch.setattr(
        event_channel.os, "pipe2", lambda flags: (_ for _ in ()).throw(OSError(24, "full"))
    )
    assert error(ids.create_channel) == "EMFILE"
    assert room(share) == begun
    monkeypatch.undo()
    again, second = ids.create_channel()
    ids.create_id(cm.CmIdCreate(again.handle, CmPortSpace.TCP))
    ids.close()
    assert room(share) == free
    os.close(end)
    os.close(second)


def test_a_migrated_id_frees_its_old_channel_and_uses_the_new_one(client: Client) -> None:
    one = client.id()
    other, end = client.new_channel()
    assert error(lambda: client.ids.destroy_channel(client.channel)) == "EBUSY"
    client.ids.migrate(cm.CmPair(one, other))
    assert error(lambda: client.ids.destroy_channel(other)) == "EBUSY"
    client.ids.destroy_channel(client.channel)
    assert error(lambda: client.ids.destroy_channel(client.channel)) == "EINVAL"
    client.ids.destroy_id(one)
    client.ids.destroy_channel(other)
    os.close(end)


def test_a_request_beyond_the_backlog_leaves_room_for_the_next(fabric: Fabric) -> None:
    active, passive = Client(fabric, 0), Client(fabric, 1)
    listener = passive.listener(PORT, backlog=1)
    first, second, third = (active.new_routed_id(passive.gid, PORT) for _ in range(3))
    active.connect(first)
    active.connect(second)
    assert active.event().status == Reason.CONSUMER_DEFINED
    assert passive.ids.get(listener).waiting == 1
    handle = passive.event().handle
    passive.reject(handle)
    assert passive.ids.get(listener).waiting == 0
    assert active.event().handle == first
    passive.ids.destroy_id(handle)  # it no longer counts: only once
    assert passive.ids.get(listener).waiting == 0
    active.connect(third)
    assert passive.types() == [Event.CONNECT_REQUEST]
    for one in (active, passive):
        one.close()


def test_private_data_of_each_call_has_the_room_of_its_message(fabric: Fabric) -> None:
    """A REP has room for 196 bytes, a REJ for 148, a SIDR_REP for 136."""
    active, passive = Client(fabric, 0), Client(fabric, 1)
    for space, answer, refusal in ((CmPortSpace.TCP, 196, 148), (CmPortSpace.UDP, 136, 136)):
        passive.listener(PORT, space=space)
        handles = []
        for _ in range(2):
            active.connect(
                active.new_routed_id(passive.gid, PORT, space),
                qpn=None if space is CmPortSpace.TCP else 0,
            )
            handles.append(passive.event().handle)
        long = parameters(handles[0], b"x" * (answer + 1), next(fabric.answering))
        assert error(lambda long=long: passive.ids.accept(long)) == "EINVAL"
        passive.accept(handles[0], b"x" * answer)
        assert active.event().data_bytes == answer
        assert error(lambda n=refusal, h=handles[1]: passive.reject(h, b"x" * (n + 1))) == "EINVAL"
        passive.reject(handles[1], b"x" * refusal)
        refused = active.event()
        assert bytes(refused.data[:refusal]) == b"x" * refusal
    for one in (active, passive):
        one.close()


# Channels.


def event(handle: int) -> cm.CmEvent:
    return cm.CmEvent(type=Event.ADDR_RESOLVED, handle=handle)


def handles(channel: Channel) -> list[int]:
    return [one.handle for one in channel._unread()]


def test_a_channel_queues_events_beyond_its_pipe_in_order_and_counts_them() -> None:
    async def play() -> None:
        waits = Waiting()
        channel, other = Channel(waits), Channel(waits)
        end = channel.take_reading_end()
        assert channel.take_reading_end() == -1
        made = 0
        while waits.count < 3:
            channel.emit(event(made))
            made += 1
        other.emit(event(0))
        assert (waits.count, handles(other)) == (3, [0])
        taken = channel.withdraw({0, made - 2})
        assert [one.handle for one in taken] == [0, made - 2]
        assert waits.count == 1  # the pipe's events returned to the queue, less two
        read = os.read(end, 64 * EVENT_BYTES)  # frees a page of the pipe
        assert cm.CmEvent.from_buffer_copy(read).handle == 1
        for _ in range(10):  # iterations of the loop
            await asyncio.sleep(0)
        assert waits.count == 0
        left = range(1 + len(read) // EVENT_BYTES, made)
        assert handles(channel) == [n for n in left if n != made - 2]
        channel.close()
        channel.emit(event(1))  # without a reader
        other.close()
        assert waits.count == 0
        os.close(end)

    asyncio.run(play())


@pytest.mark.parametrize(("count", "full"), [(MOST_WAITING - 1, False), (MOST_WAITING, True)])
def test_a_channel_is_full_at_its_limit(count: int, full: bool) -> None:
    channel = Channel(Waiting(count))
    assert channel.is_full is full
    channel.close()


def test_a_client_has_its_channels_and_one_more_is_not_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cm, "CM_MAX_CHANNELS", 2)
    share = Shares(100, 1 << 24, 1 << 24).new_share()
    free = room(share)
    channels = Channels(share)
    for number in (1, 2):
        channels.make(number)
    held = room(share)
    assert error(lambda: channels.make(3)) == "ENOMEM"
    assert room(share) == held
    channels.end(1)
    assert error(lambda: channels.get(1)) == "EINVAL"
    channels.make(3)
    assert room(share) == held
    channels.close()
    assert room(share) == free
