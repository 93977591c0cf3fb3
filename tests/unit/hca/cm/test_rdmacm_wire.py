"""The connection manager's messages on a wire: received ones may be hostile, sent ones may be
lost.
"""

import asyncio
import contextlib
import os
import random
import socket
import struct
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from hca.contract.cm import CM_MAX_IDS, CmEventType as Event, CmPortSpace
from hca.contract.hca import HCA_MAX_MTU
from hca.contract.hca_engine import HcaMad
from hca.daemon.cm import mad_codec, private_data
from hca.daemon.cm.messages import (
    Drep,
    Dreq,
    Message,
    Path,
    Reason,
    Rej,
    Rep,
    Req,
    SidrRep,
    SidrReq,
    SidrStatus,
)
from hca.daemon.cm.policy import Refusal
from hca.daemon.cm.server import CmServer
from hca.daemon.cm.wire import CmWire
from support.connections.cm_rig import Client, Fabric, gid
from support.oracles import roce
from support.oracles.roce import Packet
from support.rigs import hca_rig
from support.wire.wire_rig import End, fresh_address, gid_of

PORT = 7174
SERVICE = CmPortSpace.TCP << 16 | PORT
SMALL = 3  # ibv_mtu of 1024 bytes
GSI_QKEY = 0x80010000
UD_SEND, UD_SEND_IMM = 0x64, 0x65
TRANSACTION = 0x0123456789ABCDEF


class Peer:
    """Another node, simulated by a socket, which sends any message."""

    def __init__(self, ip: str, to: str) -> None:
        self.ip, self.to = ip, to
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((ip, roce.PORT))
        self.socket.setblocking(False)

    def request(self, **changes: Any) -> Req:
        """Return a REQ for the listening port."""
        header = private_data.pack(private_data.Endpoints(gid_of(self.ip), 40000, gid_of(self.to)))
        path = Path(gid_of(self.ip), gid_of(self.to))
        data = header.ljust(92, b"\0")
        return replace(Req(7, SERVICE, path, 0x123, 0x456, mtu=SMALL, data=data), **changes)

    def say(self, message: Message, **changes: Any) -> None:
        """Send a message as a datagram that is valid except for ``changes``."""
        self.send(mad_codec.encode(message, TRANSACTION), **changes)

    def send(self, mad: bytes, qkey: int = GSI_QKEY, source: int = 1, **changes: Any) -> None:
        """Send bytes as a datagram of queue pair 1."""
        deth = struct.pack("!II", qkey, source)
        packet = Packet(UD_SEND, 1, 0, deth, mad, ack=False).but(**changes)
        if packet.opcode == UD_SEND_IMM:
            packet = packet.but(headers=packet.headers + bytes(4))
        self.socket.sendto(packet.seal(self.ip, self.to), (self.to, roce.PORT))

    async def receive(self, pkey: int = 0xFFFF) -> tuple[Message, int]:
        """Return the next message and its transaction; check its packet."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            data, (ip, port) = await loop.sock_recvfrom(self.socket, 4096)
        assert data[-4:] == roce.icrc(ip, port, self.ip, data[:-4])
        opcode, _, said, qpn, _, qkey, source = struct.unpack_from("!BBHIIII", data)
        assert (opcode, said, qpn, qkey, source) == (UD_SEND, pkey, 1, GSI_QKEY, 1)
        return mad_codec.decode(data[20:-4])


class Stage:
    """A node with an address on the wire, and a function with that address in its connection
    manager.
    """

    def __init__(self, end: End) -> None:
        self.end = end
        self.peer = Peer(fresh_address(), end.ip)
        self.server = CmServer()
        self.wire = CmWire(end.engine, self.server.manager)
        self.wire.add(end.wire, gid_of(end.ip))
        self.ids = self.server.new_ids((gid(0), gid_of(end.ip)), SMALL)

    def listen(self, backlog: int = 0) -> None:
        """Listen on the port."""
        client = Client.__new__(Client)
        client.ids = self.ids
        client.channel, self.events = Client.new_channel(client)
        Client.listener(client, PORT, backlog)

    async def wait_for_count(self, name: str, least: int = 1) -> None:
        """Wait until a counter of the wire is at least ``least``."""
        async with asyncio.timeout(60):
            while getattr(self.end.counts, name) < least:  # noqa: ASYNC110 # the engine's own
                await asyncio.sleep(0)

    async def answer(self, message: Message) -> Message:
        """Send a message; return the answer."""
        self.peer.say(message)
        return (await self.peer.receive())[0]

    def close(self) -> None:
        """Close the stage."""
        self.ids.close()
        self.wire.remove(gid_of(self.end.ip))
        self.peer.socket.close()


@pytest.fixture
def end() -> Iterator[End]:
    with hca_rig.running_engine() as engine:
        made = End(engine)
        yield made
        made.close()


def on_stage(end: End, play: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    """Run ``play`` on a stage, in an event loop of its own."""

    async def run() -> None:
        stage = Stage(end)
        try:
            await play(stage)
        finally:
            stage.close()

    asyncio.run(run())


def test_a_request_is_answered_in_its_own_transaction(end):
    async def play(stage: Stage) -> None:
        stage.peer.say(stage.peer.request())
        answer, transaction = await stage.peer.receive()
        assert isinstance(answer, Rej)
        assert (answer.remote_id, answer.reason) == (7, Reason.INVALID_SERVICE_ID)
        assert transaction == TRANSACTION
        sidr = await stage.answer(SidrReq(9, CmPortSpace.UDP << 16 | PORT, data=bytes(216)))
        assert isinstance(sidr, SidrRep)
        assert (sidr.request, sidr.status) == (9, SidrStatus.UNSUPPORTED)
        assert isinstance(await stage.answer(Dreq(7, 1234, 17)), Drep)

    on_stage(end, play)


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({"qkey": 0x11111111}, "malformed"),
        ({"qkey": 0x80010001}, "malformed"),
        ({"source": 2}, "malformed"),
        ({"opcode": UD_SEND_IMM}, "malformed"),
        ({"payload": bytes(252)}, "malformed"),
        ({"payload": bytes(260)}, "malformed"),
        ({"payload": b""}, "malformed"),
        ({"opcode": 0x04, "headers": b""}, "malformed"),
        ({"pkey": 0x8000}, "bad_pkey"),
        ({"qpn": 0}, "unknown_qp"),
    ],
    ids=[
        "Q_Key",
        "other Q_Key",
        "source",
        "immediate",
        "short",
        "long",
        "empty",
        "RC",
        "no P_Key",
        "queue pair 0",
    ],
)
def test_an_invalid_datagram_for_queue_pair_1_is_dropped(end, changes, counted):
    async def play(stage: Stage) -> None:
        stage.peer.say(stage.peer.request(), **changes)
        await stage.wait_for_count(counted)
        answer = await stage.answer(stage.peer.request(psn=1))
        assert isinstance(answer, Rej), "and nothing was answered before"
        assert stage.end.counts.sent == 1

    on_stage(end, play)


def test_a_wrong_checksum_is_dropped(end):
    async def play(stage: Stage) -> None:
        mad = mad_codec.encode(stage.peer.request(), 1)
        packet = Packet(UD_SEND, 1, 0, struct.pack("!II", GSI_QKEY, 1), mad, ack=False)
        data = bytearray(packet.seal(stage.peer.ip, stage.end.ip))
        data[40] ^= 1
        stage.peer.socket.sendto(data, (stage.end.ip, roce.PORT))
        await stage.wait_for_count("bad_icrc")

    on_stage(end, play)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data": bytes(92)}, Reason.UNSUPPORTED),
        ({"mtu": HCA_MAX_MTU}, Reason.INVALID_PATH_MTU),
    ],
    ids=["another address", "a larger MTU than the wire's"],
)
def test_a_request_that_cannot_be_served_is_rejected(end, changes, reason):
    async def play(stage: Stage) -> None:
        stage.listen()
        answer = await stage.answer(stage.peer.request(**changes))
        assert isinstance(answer, Rej)
        assert answer.reason == reason

    on_stage(end, play)


def test_policy_is_checked_for_received_requests(end):
    async def play(stage: Stage) -> None:
        stage.listen()
        checked = []

        def may_connect(*flow: object) -> Refusal:
            checked.append(flow)
            return Refusal("denied by ns/one")

        stage.server.manager.may_connect = may_connect
        answer = await stage.answer(stage.peer.request())
        assert isinstance(answer, Rej)
        assert (answer.reason, answer.data[:16]) == (28, b"denied by ns/one")
        assert checked == [(stage.peer.ip, stage.end.ip, PORT, "TCP")]
        with pytest.raises(BlockingIOError):
            os.read(stage.events, 1)

    on_stage(end, play)


def test_a_local_source_address_over_a_wire_is_ignored(end):
    """A packet with that address is forged."""

    async def play(stage: Stage) -> None:
        here = stage.server.new_ids((gid(1), gid_of(stage.peer.ip)))
        stage.listen()
        stage.peer.say(stage.peer.request())
        after = Peer(fresh_address(), stage.end.ip)
        after.say(after.request(service=SERVICE + 1))  # received packets are read in order
        assert isinstance((await after.receive())[0], Rej)
        assert not stage.server.manager._endpoints
        with pytest.raises(BlockingIOError):
            os.read(stage.events, 1)
        after.socket.close()
        here.close()

    on_stage(end, play)


@pytest.mark.parametrize(
    ("own", "pkey", "received"),
    [
        (0xFFFF, 0x7FFF, True),
        (0xFFFF, 0x8001, False),
        (0x8001, 0x8001, True),
        (0x0001, 0x8001, True),
        (0x0001, 0x0001, False),
        (0x8001, 0xFFFF, False),
    ],
)
def test_messages_use_the_partition_of_the_address_s_owner(end, own, pkey, received):
    async def play(stage: Stage) -> None:
        stage.wire._pkeys = lambda address: (own,)
        stage.peer.say(stage.peer.request(), pkey=pkey)
        stage.peer.say(stage.peer.request(local_id=8), pkey=0x8000 | own)
        first, _ = await stage.peer.receive(pkey=own)
        assert isinstance(first, Rej)
        assert first.remote_id == (7 if received else 8)

    on_stage(end, play)


def test_after_a_flood_other_messages_are_received(end):
    """A flood of random bytes, and of more requests than ids and backlog permit."""

    async def play(stage: Stage) -> None:
        stage.listen(backlog=8)
        choice = random.Random(5)
        for number in range(3000):
            if number % 2:
                stage.peer.send(choice.randbytes(mad_codec.MAD_BYTES))
            else:
                stage.peer.say(stage.peer.request(local_id=100 + number))
            if number % 64 == 0:
                await asyncio.sleep(0)
        async with asyncio.timeout(60):
            while True:
                stage.peer.say(stage.peer.request(service=SERVICE + 1, local_id=3))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        while True:
                            answer, _ = await stage.peer.receive()
                            if isinstance(answer, Rej) and answer.remote_id == 3:
                                return

    on_stage(end, play)
    assert CM_MAX_IDS > 8


class Two:
    """Two nodes; ``loses`` decides which messages are lost."""

    def __init__(self) -> None:
        self.fabrics = Fabric(), Fabric()
        self.loses: Callable[[Message], bool] = lambda message: False
        for here, there in (self.fabrics, self.fabrics[::-1]):
            here.manager.wire = self._wire(there)
        self.active, self.passive = Client(self.fabrics[0], 0), Client(self.fabrics[1], 1)

    def _wire(self, there: Fabric) -> Callable[[bytes, bytes, Message], None]:
        def send(source: bytes, destination: bytes, message: Message) -> None:
            if not self.loses(message):
                there.queue.append(lambda: there.manager.receive(source, destination, message))

        return send

    def run(self) -> None:
        """Deliver all messages."""
        while any(fabric.queue for fabric in self.fabrics):
            for fabric in self.fabrics:
                fabric.run()

    def later(self, seconds: float) -> None:
        """Let time pass."""
        for fabric in self.fabrics:
            fabric.later(seconds)
        self.run()

    def connect(self) -> tuple[int, int]:
        """Connect; return both ids."""
        self.passive.listener(PORT)
        here = self.active.new_routed_id(self.passive.gid, PORT)
        self.active.connect(here)
        self.later(5)
        there = self.passive.event().handle
        self.passive.accept(there)
        self.later(5)
        assert self.active.event().type == Event.CONNECT_RESPONSE
        self.active.ids.establish(here)
        self.later(5)
        assert self.passive.event().type == Event.ESTABLISHED
        return here, there


@pytest.mark.parametrize("lost", [Req, Rep, Dreq, Drep], ids=lambda kind: kind.__name__)
def test_lost_messages_are_repeated(lost):
    """The first message of each kind is lost; no state is left at the end."""
    two = Two()
    seen: list[Message] = []

    def loses(message: Message) -> bool:
        seen.append(message)
        return isinstance(message, lost) and sum(isinstance(one, lost) for one in seen) == 1

    two.loses = loses
    here, there = two.connect()
    two.active.ids.destroy_id(here)
    two.later(5)
    assert two.passive.types() == [Event.DISCONNECTED]
    two.passive.ids.disconnect(there)
    for _ in range(4):
        two.later(5)
    assert not two.fabrics[0].manager._endpoints
    assert two.passive.types() == [Event.TIMEWAIT_EXIT]


def test_a_removed_wire_ends_the_disconnects_over_it():
    two = Two()
    here, _ = two.connect()
    two.loses = lambda message: True
    two.active.ids.destroy_id(here)
    two.later(5)
    assert two.fabrics[0].manager._endpoints
    two.fabrics[0].manager.abandon(two.active.gid)
    assert not two.fabrics[0].manager._endpoints


def test_a_path_s_mtu_is_the_smaller_one_of_two_functions_of_a_node():
    """Checks the MTU in the events, by which queue pairs are set up."""
    fabric = Fabric()
    active, passive = Client(fabric, 0), Client(fabric, 1)
    passive.ids.function.mtu = SMALL
    passive.listener(PORT)
    active.connect(active.new_routed_id(passive.gid, PORT))
    request = passive.event()
    passive.accept(request.handle)
    assert (request.path.path_mtu, active.event().path.path_mtu) == (SMALL, SMALL)


def test_an_address_of_the_other_family_or_without_a_wire_is_not_reached(end):
    async def play(stage: Stage) -> None:
        manager = stage.server.manager
        assert manager.has_path(gid_of(end.ip), gid_of(stage.peer.ip))
        assert not manager.has_path(gid_of(end.ip), b"\xfd" + bytes(15))
        assert not manager.has_path(gid(0), gid_of(stage.peer.ip))

    on_stage(end, play)
    assert HcaMad.data.size == mad_codec.MAD_BYTES
