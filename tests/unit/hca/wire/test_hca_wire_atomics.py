"""Atomics, windows and shared receive queues over UDP: executed once, with errors at both ends."""

import socket
import struct
from contextlib import ExitStack

import pytest

from hca.contract.hca_objects import HcaMwCreate
from hca.contract.verbs import (
    VerbsAccess as Access,
    VerbsDone as Done,
    VerbsEvent as Event,
    VerbsMask as Mask,
    VerbsMwType,
    VerbsOpcode as Op,
    VerbsSend as Flag,
    VerbsState,
    VerbsStatus as Status,
    VerbsWcFlag,
)
from support.oracles import roce
from support.oracles.roce import Packet, atomic_eth
from support.rigs.hca_rig import BASE, Srq, until
from support.wire import wire_rig
from support.wire.wire_rig import End, Ends

ADD, SWAP = Op.ATOMIC_FETCH_AND_ADD, Op.ATOMIC_CMP_AND_SWP
QPN = 0x123456
MASK = (1 << 64) - 1


@pytest.fixture
def stage(engines):
    """A queue pair with memory at PSN 100, whose peer is a socket."""
    with ExitStack() as stack:
        end = End(engines[0])
        stack.callback(end.close)
        ip = wire_rig.fresh_address()
        peer = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        peer.bind((ip, roce.PORT))
        peer.settimeout(60)
        end.connect(ip, QPN, rq_psn=100, sq_psn=500, path_mtu=1, timeout=18, max_dest_rd_atomic=2)
        yield end, peer, ip, end.region()


def word(region, at: int = 0) -> int:
    return struct.unpack_from("<Q", region.view, at)[0]


def put(region, value: int, at: int = 0) -> None:
    struct.pack_into("<Q", region.view, at, value & MASK)


def ask(pair: Ends, opcode: Op, at: int = 0, local: int = 0, **values: int) -> None:
    pair.a.qp.send(
        *(opcode, [(BASE + local, 8, pair.here.key)]),
        **{"remote_address": BASE + at, "remote_key": pair.there.key, **values},
    )


def receive_packet(peer: socket.socket) -> Packet:
    return Packet.parse(peer.recvfrom(65536)[0])


def test_atomics_behave_as_verbs_define(pair):
    put(pair.there, 5)
    ask(pair, ADD, compare_add=MASK)  # -1
    done = pair.a.send_cq.poll()
    assert (done.status, done.opcode, done.bytes) == (0, Done.FETCH_ADD, 8)
    assert (word(pair.here), word(pair.there)) == (5, 4)
    ask(pair, SWAP, compare_add=4, swap=0x1122334455667788)
    assert pair.a.send_cq.poll().opcode == Done.COMP_SWAP
    assert (word(pair.here), word(pair.there)) == (4, 0x1122334455667788)
    ask(pair, SWAP, compare_add=4, swap=9)
    assert pair.a.send_cq.poll().status == 0
    assert (word(pair.here), word(pair.there)) == (0x1122334455667788,) * 2


def test_results_are_in_the_order_of_the_requests(pair):
    """Atomics are mixed with READs and WRITEs, and there are more than may be in flight at once."""
    for round_ in range(12):
        ask(pair, ADD, compare_add=1, local=8 * round_)
        pair.a.qp.send(
            *(Op.RDMA_READ, [(BASE + 4096, 3000, pair.here.key)]),
            remote_address=BASE + 4096,
            remote_key=pair.there.key,
        )
        ask(pair, Op.RDMA_WRITE, at=512)
    assert pair.a.send_cq.statuses(36) == [0] * 36
    assert [word(pair.here, 8 * i) for i in range(12)] == list(range(12))
    assert word(pair.there) == 12


@pytest.mark.parametrize(
    ("values", "status", "event"),
    [
        ({"remote_address": BASE + 4}, Status.REM_INV_REQ_ERR, Event.QP_REQ_ERR),
        ({"remote_key": 1}, Status.REM_ACCESS_ERR, Event.QP_ACCESS_ERR),
        ({"remote_address": BASE + (1 << 17)}, Status.REM_ACCESS_ERR, Event.QP_ACCESS_ERR),
    ],
    ids=["not a multiple of 8", "no key", "outside"],
)
def test_what_the_responder_refuses(pair, values, status, event):
    ask(pair, ADD, **values)
    assert pair.a.send_cq.poll().status == status
    assert until(lambda: pair.b.qp.state == VerbsState.ERR)
    assert pair.b.client.events() == [(event, pair.b.qp.number)]


def test_a_region_that_is_not_for_atomics(pair):
    there = pair.b.client.region(access=Access.LOCAL_WRITE | Access.REMOTE_WRITE)
    ask(pair, ADD, remote_key=there.key)
    assert pair.a.send_cq.poll().status == Status.REM_ACCESS_ERR


def test_a_repeated_atomic_is_answered_again_and_not_executed_again(stage):
    end, peer, ip, region = stage
    packet = Packet(roce.FETCH_ADD, end.qp.number, 100, atomic_eth(BASE, region.key, 7))
    for _ in range(5):
        peer.sendto(packet.seal(ip, end.ip), (end.ip, roce.PORT))
        answer = receive_packet(peer)
        assert (answer.opcode, answer.qpn, answer.psn) == (roce.ATOMIC_ACKNOWLEDGE, QPN, 100)
        assert answer.headers[0] == 0x1F
        assert struct.unpack("!Q", answer.headers[4:]) == (0,)
    assert word(region) == 7


def test_an_atomic_without_a_stored_result_is_not_executed_again(stage):
    """The peer may have two in flight: a repetition of the third last gets no response."""
    end, peer, ip, region = stage
    packets = [
        Packet(roce.FETCH_ADD, end.qp.number, 100 + i, atomic_eth(BASE, region.key, 1))
        for i in range(3)
    ]
    for packet in packets:
        peer.sendto(packet.seal(ip, end.ip), (end.ip, roce.PORT))
        assert receive_packet(peer).psn == packet.psn
    for packet in packets:
        peer.sendto(packet.seal(ip, end.ip), (end.ip, roce.PORT))
    assert [receive_packet(peer).psn for _ in range(2)] == [101, 102]
    assert word(region) == 3
    assert end.counts.duplicates == 3


def test_an_answer_of_another_kind_is_not_taken(stage):
    end, peer, ip, region = stage
    end.qp.send(ADD, [(BASE, 8, region.key)], remote_address=8, remote_key=1, compare_add=3)
    request = receive_packet(peer)
    assert (request.opcode, request.psn) == (roce.FETCH_ADD, 500)
    assert request.headers == atomic_eth(8, 1, 3)
    wrong = Packet(roce.RESPONSE_ONLY, end.qp.number, 500, roce.aeth(0x1F), bytes([9]) * 8)
    peer.sendto(wrong.seal(ip, end.ip), (end.ip, roce.PORT))
    assert until(lambda: end.counts.malformed == 1)
    assert word(region) == 0
    right = Packet(
        roce.ATOMIC_ACKNOWLEDGE, end.qp.number, 500, roce.aeth(0x1F) + struct.pack("!Q", 77)
    )
    peer.sendto(right.seal(ip, end.ip), (end.ip, roce.PORT))
    assert end.send_cq.poll().status == 0
    assert word(region) == 77


def window(client):
    return client.objects.create_window(HcaMwCreate(client.pd, VerbsMwType.TYPE_2)).handle


def bind(end: End, region, key: int, new: int, access: int = Access.REMOTE_WRITE) -> None:
    end.qp.send(
        *(Op.BIND_MW, [(0, 0, region.key)]),
        sge_count=0,
        remote_address=BASE,
        remote_key=key,
        immediate=new,
        compare_add=4096,
        swap=access,
    )


def test_a_window_is_open_over_the_wire_until_a_send_invalidates_it(pair):
    key = window(pair.b.client)
    new = key & ~0xFF | 0x77
    bind(pair.b, pair.there, key, new)
    assert pair.b.send_cq.poll().status == 0
    pair.here.view[:8] = b"windowed"
    ask(pair, Op.RDMA_WRITE, remote_key=new)
    assert pair.a.send_cq.poll().status == 0
    assert bytes(pair.there.view[:8]) == b"windowed"
    pair.b.qp.receive((BASE + 8192, 64, pair.there.key))
    ask(pair, Op.SEND_WITH_INV, immediate=new)
    assert pair.a.send_cq.poll().status == 0
    came = pair.b.recv_cq.poll()
    assert (came.status, came.flags, came.immediate) == (0, VerbsWcFlag.WITH_INV, new)
    assert bytes(pair.there.view[8192:8200]) == b"windowed"
    ask(pair, Op.RDMA_WRITE, remote_key=new)
    assert pair.a.send_cq.poll().status == Status.REM_ACCESS_ERR


@pytest.mark.parametrize("size", [8, 3000])
def test_a_send_that_invalidates_no_window_is_refused(pair, size):
    pair.b.qp.receive((BASE + 8192, 4096, pair.there.key))
    pair.a.qp.send(Op.SEND_WITH_INV, [(BASE, size, pair.here.key)], immediate=pair.there.key)
    assert pair.a.send_cq.poll().status == Status.REM_ACCESS_ERR
    assert pair.b.recv_cq.poll().status == Status.WR_FLUSH_ERR
    assert pair.b.client.events() == [(Event.QP_ACCESS_ERR, pair.b.qp.number)]


def test_a_window_is_bound_after_earlier_requests_are_answered(pair):
    """Later requests are sent after that, so completions are in order."""
    key = window(pair.a.client)
    ask(pair, Op.RDMA_READ, local=64)
    bind(pair.a, pair.here, key, key & ~0xFF | 1)
    ask(pair, ADD, compare_add=2)
    pair.a.qp.send(Op.LOCAL_INV, immediate=key & ~0xFF | 1)
    kinds = [pair.a.send_cq.poll() for _ in range(4)]
    assert [one.status for one in kinds] == [0] * 4
    assert [one.opcode for one in kinds] == [
        *(Done.RDMA_READ, Done.BIND_MW, Done.FETCH_ADD, Done.LOCAL_INV)
    ]
    pair.a.qp.send(Op.LOCAL_INV, immediate=key & ~0xFF | 1)
    assert pair.a.send_cq.poll().status == Status.MW_BIND_ERR


def test_a_shared_receive_queue_serves_messages_from_the_wire(engines):
    with wire_rig.ends(*engines) as pair:
        srq = Srq(pair.b.client, limit=2)
        first, second = (
            pair.b.client.qp(pair.b.send_cq, pair.b.recv_cq, srq=srq.handle) for _ in range(2)
        )
        others = [pair.a.client.qp(pair.a.send_cq, pair.a.recv_cq) for _ in range(2)]
        values = {**wire_rig.RELIABLE, "sgid_index": 1}
        for here, there in zip(others, (first, second), strict=True):
            here.connect(here, **values, dgid=wire_rig.gid_of(pair.b.ip), dest_qpn=there.number)
            there.connect(there, **values, dgid=wire_rig.gid_of(pair.a.ip), dest_qpn=here.number)
        for place in range(3):
            srq.receive((BASE + 4096 * place, 4096, pair.there.key))
        for turn, qp in enumerate([*others, others[0], others[1]]):
            qp.send(Op.SEND, (), b"%d" % turn)
            if turn < 3:
                assert pair.a.send_cq.poll().status == 0
                came = pair.b.recv_cq.poll()
                assert (came.status, came.id, came.qpn) == (
                    0,
                    turn,
                    (first, second)[turn % 2].number,
                )
        assert (Event.SRQ_LIMIT_REACHED, srq.handle) in pair.b.client.events()
        srq.receive((BASE, 4096, pair.there.key))  # the fourth has waited for it
        assert pair.a.send_cq.poll().status == 0
        assert pair.b.recv_cq.poll().status == 0
        assert [bytes(pair.there.view[4096 * i :][:1]) for i in range(3)] == [b"3", b"1", b"2"]


def test_a_fence_waits_for_an_atomic(stage):
    end, peer, ip, region = stage
    end.qp.send(ADD, [(BASE, 8, region.key)], remote_address=8, remote_key=1, compare_add=3)
    end.qp.send(Op.SEND, (), b"behind", flags=Flag.SIGNALED | Flag.FENCE)
    assert receive_packet(peer).opcode == roce.FETCH_ADD
    peer.settimeout(0.05)
    with pytest.raises(TimeoutError):
        receive_packet(peer)
    peer.settimeout(60)
    right = Packet(
        roce.ATOMIC_ACKNOWLEDGE, end.qp.number, 500, roce.aeth(0x1F) + struct.pack("!Q", 77)
    )
    peer.sendto(right.seal(ip, end.ip), (end.ip, roce.PORT))
    assert receive_packet(peer).opcode == roce.SEND_ONLY


@pytest.mark.parametrize("limit", [0, 1, 16])
def test_how_many_results_are_kept_may_change_while_a_queue_pair_drains(stage, limit):
    end, peer, ip, region = stage
    packet = Packet(roce.FETCH_ADD, end.qp.number, 100, atomic_eth(BASE, region.key, 1))
    for psn in (100, 101, 102):
        peer.sendto(packet.but(psn=psn).seal(ip, end.ip), (end.ip, roce.PORT))
        assert receive_packet(peer).opcode == roce.ATOMIC_ACKNOWLEDGE
    end.qp.modify(1, state=VerbsState.SQD)
    end.qp.modify(1 | Mask.MAX_DEST_RD_ATOMIC, state=VerbsState.SQD, max_dest_rd_atomic=limit)
    saved = end.engine.save_qp(end.client.objects._qps[end.qp.number].engine).wire
    kept = [(one.psn, one.before) for one in saved.results[: saved.result_count]]
    assert kept == [(101, 1), (102, 2)], "two were agreed on"
    peer.sendto(packet.but(psn=102).seal(ip, end.ip), (end.ip, roce.PORT))
    answer = receive_packet(peer)
    assert (answer.psn, answer.headers[4:]) == (102, struct.pack("!Q", 2))
    assert word(region) == 3


def test_an_atomic_write_has_no_packets(pair):
    """An atomic WRITE is an error of the requester, and nothing is sent."""
    sent = pair.a.counts.sent
    ask(pair, Op.ATOMIC_WRITE, compare_add=7)
    assert pair.a.send_cq.poll().status == Status.LOC_QP_OP_ERR
    assert (word(pair.there), pair.a.counts.sent) == (0, sent)
