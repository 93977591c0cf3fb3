"""Forged packets change nothing, and the counters record why they were dropped."""

import ctypes
import socket
import struct
from contextlib import ExitStack

import pytest

from hca.contract.hca_engine import HcaPolicyChange
from hca.contract.verbs import VerbsOpcode as Op, VerbsState, VerbsStatus as Status
from rdma.verbs import ALL
from support.oracles import roce
from support.oracles.roce import Packet, aeth, reth
from support.rigs.hca_rig import BASE, until
from support.wire import wire_rig
from support.wire.wire_peer import QPN, Peer
from support.wire.wire_rig import End

SECRET = bytes(range(1, 65)) * 4


@pytest.fixture
def stage(engine):
    """A queue pair with memory at PSN 100, and a connected peer."""
    with ExitStack() as stack:
        end = End(engine, segments=True)
        stack.callback(end.close)
        peer = Peer(wire_rig.fresh_address())
        stack.callback(peer.socket.close)
        end.connect(peer.ip, QPN, rq_psn=100, sq_psn=500, path_mtu=1, timeout=18)
        region = end.region()
        region.view[: len(SECRET)] = SECRET
        yield end, peer, region


def write_only(end, region, **changes):
    """Return a WRITE packet that would be executed."""
    data = b"forged!!"
    packet = Packet(
        roce.WRITE_ONLY, end.qp.number, 100, reth(BASE, region.key, len(data)), payload=data
    )
    return packet.but(**changes)


def works_still(end, peer, region):
    """Check that the next valid packet is executed and acknowledged, so the state is unchanged."""
    assert region.view[: len(SECRET)] == SECRET
    assert not any(region.view[len(SECRET) :])
    assert end.qp.state == VerbsState.RTS
    assert end.client.events() == []
    assert end.recv_cq.page.head == end.send_cq.page.head == 0
    peer.send(end, write_only(end, region))
    answer = peer.receive()
    while answer.opcode == roce.ACKNOWLEDGE and answer.syndrome == roce.NAK:
        answer = peer.receive()  # a gap was reported, which is not a change
    assert (answer.opcode, answer.qpn, answer.psn) == (roce.ACKNOWLEDGE, QPN, 100)
    assert answer.syndrome == 0x1F
    assert region.view[:8] == b"forged!!"


def wait_for_count(end, name):
    """Wait until a counter has counted one event."""
    assert until(lambda: getattr(end.counts, name) >= 1), name


CHANGES = {
    "qpn": ("unknown_qp", lambda packet: packet.but(qpn=packet.qpn ^ 1)),
    "pkey": ("bad_pkey", lambda packet: packet.but(pkey=0x8001)),
    "pkey 0": ("bad_pkey", lambda packet: packet.but(pkey=0x8000)),
    "psn ahead": ("gaps", lambda packet: packet.but(psn=101)),
    "psn far ahead": ("gaps", lambda packet: packet.but(psn=100 + (1 << 22))),
    "psn behind": ("duplicates", lambda packet: packet.but(psn=99)),
    "unreliable": ("malformed", lambda packet: packet.but(opcode=packet.opcode | 0x20)),
    "datagram": (
        "malformed",
        lambda packet: packet.but(opcode=0x64, headers=bytes(8)),
    ),
    "no opcode": ("malformed", lambda packet: packet.but(opcode=0x1F)),
    "middle without first": (
        "out_of_sequence",
        lambda packet: packet.but(opcode=roce.WRITE_MIDDLE, headers=b"", payload=bytes(256)),
    ),
    "last without first": (
        "out_of_sequence",
        lambda packet: packet.but(opcode=roce.SEND_LAST, headers=b""),
    ),
    "first that is short": (
        "out_of_sequence",
        lambda packet: packet.but(opcode=roce.WRITE_FIRST),
    ),
    "longer than it says": (
        "out_of_sequence",
        lambda packet: packet.but(payload=bytes(200)),
    ),
    "longer than the path": ("malformed", lambda packet: packet.but(payload=bytes(512))),
    "an acknowledgement of nothing": (
        "received",
        lambda packet: packet.but(
            opcode=roce.ACKNOWLEDGE, psn=500, headers=aeth(roce.NAK | 2), payload=b""
        ),
    ),
    "an answer to nothing": (
        "received",
        lambda packet: packet.but(opcode=roce.RESPONSE_ONLY, psn=500, headers=aeth(0x1F)),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_forged_packet_changes_nothing(stage, name):
    counter, change = CHANGES[name]
    end, peer, region = stage
    peer.send(end, change(write_only(end, region)))
    wait_for_count(end, counter)
    if name == "psn behind":
        assert peer.receive().psn == 99, "what was done is acknowledged again"
    works_still(end, peer, region)


def test_a_wrong_source_changes_nothing(stage):
    end, peer, region = stage
    other = Peer(wire_rig.fresh_address())
    other.send(end, write_only(end, region))
    other.socket.close()
    wait_for_count(end, "wrong_source")
    works_still(end, peer, region)


@pytest.mark.parametrize("length", [0, 1, 12, 15, 16, 19, 28, 41, 5000])
def test_invalid_lengths_are_refused(stage, length):
    end, peer, region = stage
    good = write_only(end, region).encode()
    data = (good + bytes(5000))[:length]
    peer.raw(end, data)
    peer.raw(end, data[:-4] + roce.icrc(peer.ip, roce.PORT, end.ip, data[:-4]))
    assert until(lambda: end.counts.received + end.counts.malformed >= 1 or length == 0)
    works_still(end, peer, region)


def test_a_wrong_checksum(stage):
    end, peer, region = stage
    data = write_only(end, region).seal(peer.ip, end.ip)
    for place in (*range(4), *range(5, len(data))):
        peer.raw(end, data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
    assert until(lambda: end.counts.received >= len(data) - 1)
    assert end.counts.bad_icrc > 20
    works_still(end, peer, region)


def test_congestion_marks_are_no_damage(stage):
    end, peer, region = stage
    data = bytearray(write_only(end, region).seal(peer.ip, end.ip))
    data[4] = 0xC0
    peer.raw(end, bytes(data))
    assert peer.receive().syndrome == 0x1F


def test_segments_of_one_buffer_are_checked_separately(stage):
    """The kernel segments one buffer into a packet for another queue pair and a forbidden WRITE."""
    end, peer, region = stage
    send = Packet(roce.SEND_ONLY, end.qp.number ^ 1, 100, payload=bytes(24))
    forged = write_only(end, region, psn=101, headers=reth(BASE, region.key ^ 1, 8))
    parts = [send, send, write_only(end, region), forged]
    encoded = [part.encode() for part in parts]
    assert len({len(data) for data in encoded}) == 1
    joined = b"".join(
        data + roce.icrc(peer.ip, roce.PORT, end.ip, data, identification)
        for identification, data in enumerate(encoded)
    )
    peer.socket.setsockopt(socket.IPPROTO_UDP, 103, len(encoded[0]) + 4)  # UDP_SEGMENT
    peer.raw(end, joined)
    answer = peer.receive()
    assert (answer.psn, answer.syndrome) == (101, roce.NAK | 2), "one is right, the next is not"
    assert end.counts.unknown_qp == 2
    assert region.view[:8] == b"forged!!"
    assert region.view[8 : len(SECRET)] == SECRET[8:]


def test_a_guessed_key_ends_the_guessing_connection(stage):
    """As verbs define, the responder's queue pair is in ERR, and its memory is unchanged."""
    end, peer, region = stage
    peer.send(end, write_only(end, region, headers=reth(BASE, region.key ^ 1, 8)))
    assert peer.receive().syndrome == roce.NAK | 2
    assert until(lambda: end.qp.state == VerbsState.ERR)
    assert region.view[: len(SECRET)] == SECRET


@pytest.mark.parametrize("size", [1 << 30, (1 << 32) - 1])
def test_reads_of_more_than_there_is(stage, size):
    end, peer, region = stage
    peer.send(
        *(end, Packet(roce.READ_REQUEST, end.qp.number, 100, reth(BASE, region.key, size))),
    )
    if size > 1 << 30:
        wait_for_count(end, "out_of_sequence")
        works_still(end, peer, region)
    else:
        assert peer.receive().syndrome == roce.NAK | 2


def test_more_reads_than_were_agreed_on(engine):
    with ExitStack() as stack:
        end = End(engine)
        stack.callback(end.close)
        peer = Peer(wire_rig.fresh_address())
        stack.callback(peer.socket.close)
        end.connect(peer.ip, QPN, rq_psn=100, path_mtu=1, max_dest_rd_atomic=0)
        region = end.region()
        ask = Packet(roce.READ_REQUEST, end.qp.number, 100, reth(BASE, region.key, 8))
        peer.send(end, ask)
        wait_for_count(end, "out_of_sequence")


def test_a_repeated_read_is_answered_again_within_its_length(stage):
    end, peer, region = stage
    ask = Packet(roce.READ_REQUEST, end.qp.number, 100, reth(BASE, region.key, 200))
    for _ in range(2):
        peer.send(end, ask)
        answer = peer.receive()
        assert (answer.opcode, answer.psn) == (roce.RESPONSE_ONLY, 100)
        assert answer.payload == SECRET[:200]
    peer.send(end, ask.but(headers=reth(BASE, region.key, 300)))  # two packets: more than requested
    peer.send(end, ask.but(headers=reth(BASE, region.key ^ 1, 200)))
    peer.send(end, ask.but(psn=101))
    assert peer.receive().psn == 101
    assert end.qp.state == VerbsState.RTS


def test_a_read_response_must_match_its_request(stage):
    end, peer, region = stage
    end.qp.send(Op.RDMA_READ, [(BASE + 1000, 300, region.key)], remote_address=0, remote_key=1)
    request = peer.receive()
    assert request.opcode == roce.READ_REQUEST
    first = Packet(roce.RESPONSE_FIRST, end.qp.number, 500, aeth(0x1F), bytes([7]) * 256)
    for wrong in (
        first.but(payload=bytes([9]) * 255),
        first.but(psn=499),
        first.but(psn=502),
        first.but(psn=501),  # before its turn
        first.but(psn=501, opcode=roce.RESPONSE_LAST, payload=bytes([9]) * 45),
    ):
        peer.send(end, wrong)
    assert until(lambda: end.counts.received >= 5)
    assert not any(region.view[1000:1300])
    peer.send(end, first)
    last = first.but(psn=501, opcode=roce.RESPONSE_LAST, payload=bytes([8]) * 44)
    peer.send(end, last)
    assert end.send_cq.poll().status == Status.SUCCESS
    assert region.view[1000:1300] == bytes([7]) * 256 + bytes([8]) * 44


def test_a_message_that_never_ends(stage):
    """Middle packets arrive without a Last packet; the receive request limits their total size."""
    end, peer, region = stage
    end.qp.receive((BASE + 4096, 1000, region.key))
    first = Packet(roce.SEND_FIRST, end.qp.number, 100, payload=b"x" * 256)
    peer.send(end, first)
    for psn in range(101, 105):
        peer.send(end, first.but(opcode=roce.SEND_MIDDLE, psn=psn))
    assert end.recv_cq.poll().status == Status.LOC_LEN_ERR
    assert not any(region.view[4096 + 1000 :])


def test_an_invalid_ring_ends_its_queue_pair(stage):
    end, peer, region = stage
    end.qp.page.recv_head = 0x80000000
    peer.send(end, Packet(roce.SEND_ONLY, end.qp.number, 100, payload=b"x"))
    assert until(lambda: end.qp.state == VerbsState.ERR)
    other = end.client.qp(end.send_cq, end.recv_cq)
    other.page.send_head = 0x80000000
    other.ring()
    assert region.view[: len(SECRET)] == SECRET


def test_an_invalid_send_head_ends_its_queue_pair(stage):
    end, _, _ = stage
    end.qp.page.send_head = 0x80000000
    end.qp.ring()
    assert until(lambda: end.qp.state == VerbsState.ERR)


def test_requests_that_change_after_they_were_posted_are_checked_as_they_are_sent(stage):
    """The copy is used: the slot is changed while the request is in flight."""
    end, peer, region = stage
    region.view[2000:2008] = b"rightful"
    end.qp.send(Op.RDMA_WRITE, [(BASE + 2000, 8, region.key)], remote_address=5, remote_key=6)
    assert peer.receive().payload == b"rightful"
    end.qp.send_slots[0].payload.sges[0].address = 0
    end.qp.send_slots[0].payload.sges[0].bytes = 1 << 20
    peer.send(end, Packet(roce.ACKNOWLEDGE, end.qp.number, 500, aeth(roce.NAK)))  # send it again
    again = peer.receive()
    assert (again.psn, again.payload) == (500, b"rightful")
    peer.send(end, Packet(roce.ACKNOWLEDGE, end.qp.number, 500, aeth(0x1F, 1)))
    assert end.send_cq.poll().status == Status.SUCCESS


def test_the_engine_parses_the_headers_of_the_tests(stage):
    end, peer, region = stage
    end.qp.send(
        *(Op.RDMA_WRITE_WITH_IMM, [(BASE, 3, region.key)]),
        remote_address=0x1122334455667788,
        remote_key=0x99AABBCC,
        immediate=int.from_bytes(b"\1\2\3\4", "little"),
        flags=6,
    )
    came = peer.receive()
    assert (came.opcode, came.qpn, came.psn) == (roce.WRITE_ONLY_IMM, QPN, 500)
    assert came.headers == struct.pack("!QII", 0x1122334455667788, 0x99AABBCC, 3) + b"\1\2\3\4"
    assert (came.payload, came.ack, came.solicited, came.pkey) == (SECRET[:3], True, True, 0xFFFF)


def test_a_queue_pair_handed_over_may_be_freed_before_its_answer_is_sent(stage):
    """An acknowledgement is due when the program frees the queue pair, before the first turn."""
    end, peer, region = stage
    engine, objects = end.engine, end.client.objects
    engine.suspend()
    saved = engine.save_qp(objects._qps[end.qp.number].engine)
    saved.wire.answers = 1
    taken_over = [end.client.qp(end.send_cq, end.recv_cq) for _ in range(2)]
    for qp in taken_over:
        engine.load_qp(objects._qps[qp.number].engine, saved)
    objects.destroy_qp(taken_over[0].number)
    engine.resume()
    answer = peer.receive()
    assert (answer.opcode, answer.psn, answer.syndrome) == (roce.ACKNOWLEDGE, 99, 0x1F)
    objects.destroy_qp(taken_over[1].number)
    works_still(end, peer, region)


def test_a_queue_pair_loaded_twice_has_left_its_first_wire(stage):
    """An acknowledgement was due each time: the first must not be sent on the old connection."""
    end, peer, region = stage
    engine, objects = end.engine, end.client.objects
    engine.suspend()
    saved = engine.save_qp(objects._qps[end.qp.number].engine)
    saved.wire.answers = 1
    loaded = end.client.qp(end.send_cq, end.recv_cq)
    for _ in range(3):
        engine.load_qp(objects._qps[loaded.number].engine, saved)
    objects.destroy_qp(loaded.number)
    engine.load_qp(objects._qps[end.qp.number].engine, saved)
    engine.resume()
    assert (answer := peer.receive()).syndrome == 0x1F
    assert answer.psn == 99
    works_still(end, peer, region)


def test_a_read_under_way_is_completed_while_its_queue_pair_drains(stage):
    end, peer, region = stage
    end.qp.send(Op.RDMA_READ, [(BASE + 1000, 8, region.key)], remote_address=0, remote_key=1)
    assert peer.receive().opcode == roce.READ_REQUEST
    end.qp.modify(1, state=VerbsState.SQD)
    peer.send(end, Packet(roce.RESPONSE_ONLY, end.qp.number, 500, aeth(0x1F), b"answered"))
    assert end.send_cq.poll().status == Status.SUCCESS
    assert region.view[1000:1008] == b"answered"


def test_a_read_is_requested_again_in_the_same_parts_after_a_handover(stage):
    """For a peer a request is new or a repetition, never both. Connections were added since."""
    end, peer, _ = stage
    engine, objects, size = end.engine, end.client.objects, 1 << 20
    region = end.region(size)
    end.qp.send(Op.RDMA_READ, [(BASE, size, region.key)], remote_address=0, remote_key=1)
    request = [peer.receive()]
    parts = struct.unpack("!QII", request[0].headers)[2]
    assert parts < size, "more than one part"
    engine.suspend()
    saved = engine.save_qp(objects._qps[end.qp.number].engine)
    successor = end.client.qp(end.send_cq, end.recv_cq)
    ctypes.memmove(successor.send_slots, end.qp.send_slots, ctypes.sizeof(successor.send_slots))
    successor.page.send_head = end.qp.page.send_head
    for _ in range(16):
        other = end.client.qp(end.send_cq, end.recv_cq)
        other.connect(other, **wire_rig.RELIABLE, sgid_index=1, dgid=wire_rig.gid_of(peer.ip))
    own = objects._qps[successor.number].engine
    engine.load_qp(own, saved)
    engine.set_policies([HcaPolicyChange(own, pkey=0xFFFF, sends=ALL, receives=ALL)])
    objects.destroy_qp(end.qp.number)
    peer.drain()
    engine.resume()
    again = peer.receive()
    assert (again.opcode, again.psn, again.headers) == (request[0].opcode, 500, request[0].headers)


def test_a_peer_is_answered_while_its_queue_pair_drains(stage):
    end, peer, region = stage
    end.qp.modify(1, state=VerbsState.SQD)
    peer.send(end, Packet(roce.READ_REQUEST, end.qp.number, 100, reth(BASE, region.key, 8)))
    answer = peer.receive()
    assert (answer.opcode, answer.payload) == (roce.RESPONSE_ONLY, SECRET[:8])
