"""Lengths near the longest message, 2^31 and 2^32, in every check of a length.

A handover is used to make a partly received message long: in the saved state nearly the longest
message has been received, and the next packet is the last one that fits, or the first one that
does not.
"""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from hca.contract import hca
from hca.contract.hca import HCA_MAX_DATAGRAM_BYTES, HCA_MAX_MESSAGE_BYTES as MOST
from hca.contract.hca_frames import HCA_MAX_FRAME_BYTES
from hca.contract.verbs import (
    VerbsMask as Mask,
    VerbsOpcode as Op,
    VerbsQpType as Type,
    VerbsState,
    VerbsStatus as Status,
)
from hca.daemon.common.numbers import Numbers
from support.oracles import roce
from support.oracles.roce import Packet, reth
from support.rigs import hca_rig
from support.rigs.hca_rig import BASE, Client, Pair, Qp, until
from support.wire import wire_rig
from support.wire.wire_peer import QPN, Peer
from support.wire.wire_rig import End
from support.wire.wire_saving import hand_over

MTU, FIRST_PSN, PIECE, REGION = 256, 100, 1 << 20, 68 << 20
"""Sixteen elements of the region exceed the longest message."""
EDGES = (MOST - 1, MOST, MOST + 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 1)
KINDS = {Type.RC: 0, Type.UC: roce.UC}
REFUSED = roce.NAK | 2  # a remote access error


@pytest.fixture(scope="module")
def engines():
    with ExitStack() as stack:
        yield [stack.enter_context(hca_rig.running_engine()) for _ in range(2)]


@dataclass
class Stage:
    """A queue pair of an engine, connected to a peer simulated by a socket."""

    end: End
    peer: Peer
    kind: Type

    def send(self, opcode: int, psn: int, headers: bytes = b"", size: int = 0) -> None:
        """Send a packet of the connection, and wait until the engine has processed it."""
        number = self.end.qp.number
        packet = Packet(opcode | KINDS[self.kind], number, psn, headers, b"x" * size)
        self.peer.send(self.end, packet)
        before = self.end.counts.unknown_qp
        self.peer.send(self.end, packet.but(qpn=number ^ 1))  # it has been processed by then
        assert until(lambda: self.end.counts.unknown_qp > before)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def stage(engines, request):
    with ExitStack() as stack:
        end = End(engines[0], kind=request.param)
        stack.callback(end.close)
        peer = Peer(wire_rig.fresh_address())
        stack.callback(peer.socket.close)
        end.connect(peer.ip, QPN, rq_psn=FIRST_PSN, sq_psn=500, path_mtu=1, timeout=18)
        yield Stage(end, peer, request.param)


def repeating_region(client: Client) -> int:
    """Register REGION bytes that map a few pages repeatedly; return the key."""
    handle, fd = client.objects.create_segment(hca.HcaSegmentCreate(PIECE))
    os.pwrite(fd, bytes(PIECE), 0)
    os.close(fd)
    wanted = hca.HcaMrCreate(client.pd, hca_rig.ALL_ACCESS, BASE, REGION, REGION // PIECE)
    for place in range(REGION // PIECE):
        wanted.pieces[place] = hca.HcaPiece(handle.handle, 0, 0, PIECE)
    return int(client.objects.create_region(wanted).handle)


def hand_over_with(stage: Stage, engine: Any, monkeypatch: Any, **changes: int) -> None:
    """Hand the end over, with ``changes`` of the saved state."""
    save = stage.end.engine.save_qp

    def save_changed(qp: Any) -> Any:
        progress = save(qp)
        for name, value in changes.items():
            setattr(progress.wire, name, value)
        return progress

    monkeypatch.setattr(stage.end.engine, "save_qp", save_changed)
    hand_over(stage.end, engine)


@pytest.mark.parametrize(
    ("opcode", "done", "size", "fits"),
    [
        (roce.SEND_MIDDLE, MOST - MTU, MTU, True),
        (roce.SEND_MIDDLE, MOST - MTU + 1, MTU, False),
        (roce.SEND_LAST, MOST - MTU, MTU, True),
        (roce.SEND_LAST, MOST - MTU + 1, MTU, False),
        (roce.SEND_LAST, MOST - 1, 1, True),
        (roce.SEND_LAST, MOST, 1, False),
        (roce.SEND_LAST_IMM, MOST - 8, 8, True),
        (roce.SEND_LAST_IMM, MOST - 8, 9, False),
    ],
)
def test_a_send_of_many_packets_is_no_longer_than_the_longest(
    stage, engines, monkeypatch, opcode, done, size, fits
):
    """It is refused even if its receive request has room for more."""
    end = stage.end
    end.qp.receive(*[(BASE, REGION, repeating_region(end.client))] * 16)
    stage.send(roce.SEND_FIRST, FIRST_PSN, size=MTU)
    hand_over_with(stage, engines[1], monkeypatch, done=done)
    stage.send(opcode, FIRST_PSN + 1, bytes(4) if opcode == roce.SEND_LAST_IMM else b"", size)
    assert end.counts.out_of_sequence == (not fits)
    if opcode == roce.SEND_MIDDLE:
        return
    assert end.recv_cq.page.head == fits
    if fits:
        assert end.recv_cq.poll().bytes == done + size


@pytest.mark.parametrize("size", [0, 1, MTU - 1, MTU, *EDGES])
def test_a_write_of_many_packets_says_how_long_it_is(stage, size):
    """A valid length is checked against the memory, which is too short for it."""
    region = stage.end.region()
    header = reth(BASE, region.key, size)
    stage.send(roce.WRITE_FIRST, FIRST_PSN, header, MTU)
    right = MTU < size <= MOST
    assert stage.end.counts.out_of_sequence == (not right)
    assert (stage.end.qp.state == VerbsState.ERR) == (right and stage.kind == Type.RC)
    assert not any(region.view[:])


@pytest.mark.parametrize("size", [0, 7, 9, MOST + 8, (1 << 31) + 8, (1 << 32) - 1])
def test_a_write_of_one_packet_is_as_long_as_it_says(stage, size):
    region = stage.end.region()
    for opcode in (roce.WRITE_ONLY, roce.WRITE_ONLY_IMM):
        immediate = bytes(4) if opcode == roce.WRITE_ONLY_IMM else b""
        psn = FIRST_PSN + (opcode == roce.WRITE_ONLY_IMM and stage.kind == Type.UC)
        stage.send(opcode, psn, reth(BASE, region.key, size) + immediate, 8)
    assert stage.end.counts.out_of_sequence == 2
    assert not any(region.view[:])


@pytest.mark.parametrize(
    ("opcode", "left", "size", "fits"),
    [
        *((roce.WRITE_LAST, 8, 8, True), (roce.WRITE_LAST, 8, 7, False)),
        *((roce.WRITE_LAST, 8, 9, False), (roce.WRITE_MIDDLE, MTU, MTU, False)),
        *((roce.WRITE_MIDDLE, MTU + 1, MTU, True), (roce.WRITE_LAST, MTU, MTU, True)),
    ],
)
def test_the_rest_of_a_write_has_the_remaining_length(
    stage, engines, monkeypatch, opcode, left, size, fits
):
    whole = 1 << 15
    region = stage.end.region(whole)
    stage.send(roce.WRITE_FIRST, FIRST_PSN, reth(BASE, region.key, whole), MTU)
    hand_over_with(stage, engines[1], monkeypatch, done=whole - left)
    stage.send(opcode, FIRST_PSN + 1, size=size)
    assert stage.end.counts.out_of_sequence == (not fits)
    expected = b"x" * size if fits else b""
    assert region.view[whole - left : whole] == expected.ljust(left, b"\0")


@pytest.mark.parametrize("size", [0, *EDGES])
@pytest.mark.parametrize("stage", [Type.RC], indirect=True, ids=["RC"])
def test_a_read_is_no_longer_than_the_longest(stage, size):
    region = stage.end.region()
    stage.send(roce.READ_REQUEST, FIRST_PSN, reth(BASE, region.key, size))
    assert stage.end.counts.out_of_sequence == (size > MOST)
    if size <= MOST:
        answer = stage.peer.receive()
        assert answer.opcode == roce.ACKNOWLEDGE if size else roce.RESPONSE_ONLY
        assert answer.syndrome == (REFUSED if size else 0x1F)


def elements(size: int, key: int) -> list[tuple[int, int, int]]:
    """Return a list of ``size`` bytes of absent memory; each element holds less than 2^32."""
    found = []
    while size or not found:
        here = min(size, (1 << 32) - 1)
        found.append((BASE, here, key))
        size -= here
    return found


LONGEST = {
    Type.RC: (MOST, (Op.SEND, Op.SEND_WITH_IMM, Op.RDMA_WRITE, Op.RDMA_READ)),
    Type.UC: (MOST, (Op.SEND, Op.SEND_WITH_IMM, Op.RDMA_WRITE, Op.RDMA_WRITE_WITH_IMM)),
    Type.UD: (HCA_MAX_DATAGRAM_BYTES, (Op.SEND, Op.SEND_WITH_IMM)),
    Type.RAW_PACKET: (HCA_MAX_FRAME_BYTES, (Op.SEND,)),
}
BEYOND = (1 << 31, 1 << 32, (1 << 32) + 8)


def make_ready(qp: Qp, kind: Type) -> None:
    """Let a queue pair send to itself, or without a connected peer."""
    if kind == Type.UD:
        qp.listen()
    elif kind == Type.RAW_PACKET:
        qp.modify(Mask.STATE | Mask.PORT, state=VerbsState.INIT, port=1)
        qp.modify(Mask.STATE, state=VerbsState.RTR)
        qp.modify(Mask.STATE, state=VerbsState.RTS)
    else:
        qp.connect(qp)


@pytest.mark.parametrize("kind", LONGEST, ids=lambda kind: kind.name)
def test_a_request_is_no_longer_than_the_longest(engines, kind):
    """A request's length is checked before its memory, so too long a request needs no look-up."""
    most, opcodes = LONGEST[kind]
    client = Client(engines[0], Numbers(), 0)
    for opcode in opcodes:
        for size in (most, most + 1, *BEYOND):
            cq = client.cq()
            qp = client.qp(cq, cq, kind=kind)
            make_ready(qp, kind)
            qp.send(opcode, elements(size, 0xBAD00))
            wanted = Status.LOC_LEN_ERR if size > most else Status.LOC_PROT_ERR
            assert cq.poll().status == wanted, (opcode, size)
            client.objects.destroy_qp(qp.number)
            client.objects.destroy_cq(cq.handle)
    client.objects.close()


@pytest.mark.parametrize("opcode", [Op.ATOMIC_CMP_AND_SWP, Op.ATOMIC_FETCH_AND_ADD])
@pytest.mark.parametrize("size", [0, 7, 8, 9, (1 << 32) + 8])
def test_an_atomic_has_eight_bytes(engines, opcode, size):
    pair = Pair(engines[0])
    pair.qa.send(opcode, elements(size, 0xBAD00), remote_address=BASE, remote_key=pair.there.key)
    wanted = Status.LOC_PROT_ERR if size == 8 else Status.LOC_LEN_ERR
    assert pair.a_send.poll().status == wanted
    pair.close()


@pytest.mark.parametrize("room", [0, 7, 8, 9, (1 << 31) + 8, 1 << 32, (1 << 32) + 7])
def test_a_receive_request_takes_a_message_that_is_no_longer_than_it(engines, room):
    """A long list has room even if its sum exceeds 32 bits; its memory is absent."""
    pair = Pair(engines[0])
    key = pair.there.key if room < 10 else 0xBAD00
    pair.qb.receive(*elements(room, key))
    pair.qa.send(Op.SEND, [(BASE, 8, pair.here.key)])
    status = pair.b_recv.poll().status
    if room < 8:
        assert status == Status.LOC_LEN_ERR
    else:
        assert status == (Status.SUCCESS if room < 10 else Status.LOC_PROT_ERR)
    pair.close()
