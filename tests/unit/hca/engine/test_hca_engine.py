"""The HCA's engine: delivery of data, and the errors at both ends."""

import os
import resource
import time

import pytest

from hca.contract.verbs import (
    VerbsAccess,
    VerbsDone,
    VerbsEvent,
    VerbsOpcode as Op,
    VerbsSend,
    VerbsState,
    VerbsStatus as Status,
    VerbsWcFlag,
)
from hca.daemon.common.numbers import Numbers
from support.rigs.hca_rig import BASE, Client, Pair, sleeps_on, until, write

MESSAGE = bytes(range(256)) * 8


def test_a_message_arrives_where_the_receiver_wants_it(pair):
    pair.here.view[: len(MESSAGE)] = MESSAGE
    key = pair.there.key
    pair.qb.receive((BASE + 100, 1000, key), (BASE + 4000, 0, key), (BASE + 4096, 2000, key))
    pair.qa.send(
        Op.SEND_WITH_IMM,
        [(BASE, 700, pair.here.key), (BASE + 700, 1348, pair.here.key)],
        immediate=0x11223344,
    )
    done, received = pair.a_send.poll(), pair.b_recv.poll()
    assert (done.status, done.opcode, done.qpn) == (0, VerbsDone.SEND, pair.qa.number)
    assert (received.status, received.opcode) == (0, VerbsDone.RECV)
    assert (received.bytes, received.immediate) == (2048, 0x11223344)
    assert received.flags == VerbsWcFlag.WITH_IMM
    assert (received.qpn, received.source_qpn) == (pair.qb.number, pair.qa.number)
    assert pair.there.view[100:1100] == MESSAGE[:1000]
    assert pair.there.view[4096:5144] == MESSAGE[1000:]
    assert not any(pair.there.view[1100:4096])
    assert not any(pair.there.view[5144:])


def test_inline_data_needs_no_region_and_may_be_changed_at_once(pair):
    pair.qb.receive((BASE, 256, pair.there.key))
    pair.qa.send(Op.SEND, inline=MESSAGE[:256])
    assert pair.b_recv.poll().bytes == 256
    assert pair.there.view[:256] == MESSAGE[:256]


def test_a_write_and_a_read_move_what_they_name(pair):
    pair.here.view[:300] = MESSAGE[:300]
    remote = {"remote_address": BASE + 5000, "remote_key": pair.there.key}
    pair.qa.send(Op.RDMA_WRITE, [(BASE, 300, pair.here.key)], **remote)
    assert pair.a_send.poll().opcode == VerbsDone.RDMA_WRITE
    assert pair.there.view[5000:5300] == MESSAGE[:300]
    pair.there.view[5000:5003] = b"new"
    pair.qa.send(Op.RDMA_READ, [(BASE + 4000, 300, pair.here.key)], **remote)
    done = pair.a_send.poll()
    assert (done.opcode, done.bytes) == (VerbsDone.RDMA_READ, 300)
    assert pair.here.view[4000:4300] == b"new" + MESSAGE[3:300]
    assert pair.b_recv.page.head == 0, "one-sided operations tell the other side nothing"


def test_a_write_with_immediate_takes_a_receive_request(pair):
    pair.qb.receive()
    pair.qa.send(
        *(Op.RDMA_WRITE_WITH_IMM, [(BASE, 8, pair.here.key)]),
        remote_address=BASE,
        remote_key=pair.there.key,
        immediate=7,
    )
    received = pair.b_recv.poll()
    assert (received.opcode, received.immediate) == (VerbsDone.RECV_RDMA_WITH_IMM, 7)
    assert received.bytes == 8


def test_empty_messages_are_messages(pair):
    pair.qb.receive()
    pair.qa.send(Op.SEND)
    pair.qa.send(Op.RDMA_WRITE, remote_address=123, remote_key=456)
    assert pair.a_send.statuses(2) == [0, 0]
    assert pair.b_recv.poll().bytes == 0


def test_only_signaled_requests_complete_and_in_order(pair):
    for i in range(12):
        flags = VerbsSend.SIGNALED if i % 4 == 3 else 0
        pair.qa.send(Op.RDMA_WRITE, flags=flags)
    assert [pair.a_send.poll().id for _ in range(3)] == [3, 7, 11]
    assert pair.qa.page.send_tail == 12


def test_large_messages_take_turns(engine):
    """A transfer of a gigabyte must not prevent another queue pair from sending eight bytes."""
    pair = Pair(engine)
    size = 64 << 20
    source, target = pair.a.region(size), pair.b.region(size)
    source.view[-4:] = b"last"
    other = Pair(engine, first=10)
    pair.qa.send(
        *(Op.RDMA_WRITE, [(BASE, size, source.key)]),
        remote_address=BASE,
        remote_key=target.key,
    )
    other.qa.send(Op.RDMA_WRITE)
    other.a_send.poll()
    assert pair.a_send.page.head == 0, "the word came after all of the other's bytes"
    assert pair.a_send.poll(30).status == 0
    assert target.view[-4:] == b"last"
    pair.close()
    other.close()


def other_domain(pair):
    return pair.b.region(pd=pair.b.objects.create_pd().handle).key


REMOTE_ACCESS = {
    "an unknown key": lambda p: write(p, remote_key=p.there.key ^ 1),
    "the requester's own key": lambda p: write(p, remote_key=p.here.key),
    "one byte too many": lambda p: write(p, remote=BASE + 8185),
    "one byte before": lambda p: write(p, remote=BASE - 1),
    "an address that wraps": lambda p: write(p, remote=(1 << 64) - 4),
    "another protection domain": lambda p: write(p, remote_key=other_domain(p)),
    "a region that may be read": lambda p: write(
        p, remote_key=p.b.region(access=VerbsAccess.REMOTE_READ).key
    ),
    "a region that may be written": lambda p: write(
        p,
        remote_key=p.b.region(access=VerbsAccess.LOCAL_WRITE | VerbsAccess.REMOTE_WRITE).key,
        opcode=Op.RDMA_READ,
    ),
}


@pytest.mark.parametrize("post", REMOTE_ACCESS.values(), ids=REMOTE_ACCESS)
def test_inaccessible_memory_is_an_access_error_at_both_ends(pair, post):
    pair.here.view[:8] = b"poison!!"
    pair.qb.receive()
    post(pair)
    write(pair)
    assert pair.a_send.statuses(2) == [Status.REM_ACCESS_ERR, Status.WR_FLUSH_ERR]
    assert pair.b_recv.poll().status == Status.WR_FLUSH_ERR
    assert pair.b.events() == [(VerbsEvent.QP_ACCESS_ERR, pair.qb.number)]
    assert (pair.qa.state, pair.qb.state) == (VerbsState.ERR, VerbsState.ERR)
    assert b"poison" not in pair.there.view[:]


def test_a_queue_pair_that_allows_no_writes_gets_none(engine):
    pair = Pair(engine, access=VerbsAccess.REMOTE_READ)
    write(pair, opcode=Op.RDMA_READ)
    write(pair)
    assert pair.a_send.statuses(2) == [0, Status.REM_ACCESS_ERR]
    pair.close()


LOCAL = {
    "an unknown key": (lambda p: write(p, key=99), Status.LOC_PROT_ERR),
    "the peer's key": (lambda p: write(p, key=p.there.key), Status.LOC_PROT_ERR),
    "one byte too many": (lambda p: write(p, local=8185), Status.LOC_PROT_ERR),
    "a read into memory that may not be written": (
        lambda p: write(p, key=p.a.region(access=0).key, opcode=Op.RDMA_READ),
        Status.LOC_PROT_ERR,
    ),
    "no opcode": (lambda p: p.qa.send(10), Status.LOC_QP_OP_ERR),
    "the first number behind all opcodes": (
        lambda p: p.qa.send(max(Op) + 1),
        Status.LOC_QP_OP_ERR,
    ),
    "an opcode of four bytes": (lambda p: p.qa.send(0xFFFFFFFF), Status.LOC_QP_OP_ERR),
    "too many elements": (lambda p: p.qa.send(Op.SEND, sge_count=17), Status.LOC_QP_OP_ERR),
    "elements without end": (
        lambda p: p.qa.send(Op.SEND, sge_count=0xFFFFFFFF),
        Status.LOC_QP_OP_ERR,
    ),
    "too much in line": (
        lambda p: p.qa.send(Op.SEND, inline=b"x", inline_bytes=257),
        Status.LOC_LEN_ERR,
    ),
    "a read in line": (lambda p: p.qa.send(Op.RDMA_READ, inline=b"x"), Status.LOC_QP_OP_ERR),
    "more than a message": (
        lambda p: p.qa.send(Op.SEND, [(BASE, 0x7FFFFFFF, p.here.key)] * 2),
        Status.LOC_LEN_ERR,
    ),
}


@pytest.mark.parametrize(("post", "status"), LOCAL.values(), ids=LOCAL)
def test_a_bad_request_affects_only_the_requester(pair, post, status):
    post(pair)
    assert pair.a_send.poll().status == status
    assert pair.qa.state == VerbsState.ERR
    assert pair.qb.state == VerbsState.RTS


@pytest.mark.parametrize("opcode", [*range(16), 16, 17, 31, 1 << 31])
def test_a_completion_says_what_failed(pair, opcode):
    """Each request opcode has a completion opcode (ibv_wc_opcode); unknown ones have a write's."""
    done = {0: 1, 1: 1, 2: 0, 3: 0, 4: 2, 5: 3, 6: 4, 7: 6, 8: 5, 9: 0, 15: 9}
    pair.qa.send(opcode, [(BASE, 8, 99)])  # an unknown key
    entry = pair.a_send.poll()
    assert entry.status != Status.SUCCESS
    assert entry.opcode == done.get(opcode, int(opcode > 15))


def test_a_receive_that_is_too_short_fails_both_ends(pair):
    pair.qb.receive((BASE, 7, pair.there.key))
    pair.qa.send(Op.SEND, inline=b"8 bytes.")
    assert pair.a_send.poll().status == Status.REM_INV_REQ_ERR
    assert pair.b_recv.poll().status == Status.LOC_LEN_ERR
    assert not any(pair.there.view[:])


@pytest.mark.parametrize("sges", [17, 0xFFFFFFFF, 1], ids=["17", "many", "bad key"])
def test_a_bad_receive_fails_both_ends(pair, sges):
    pair.qb.receive((BASE, 8, 99), sge_count=sges)
    pair.qa.send(Op.SEND, inline=b"8 bytes.")
    assert pair.a_send.poll().status == Status.REM_OP_ERR
    assert pair.b_recv.poll().status in (Status.LOC_PROT_ERR, Status.LOC_QP_OP_ERR)


def test_without_a_receive_request_a_send_waits_and_then_fails(pair):
    pair.qa.send(Op.SEND)
    assert pair.a_send.poll().status == Status.RNR_RETRY_EXC_ERR
    assert pair.qb.state == VerbsState.RTS


def test_a_send_waits_for_a_late_receive_request(engine):
    pair = Pair(engine, rnr_retry=7)
    pair.qa.send(Op.SEND, inline=b"late")
    time.sleep(0.02)
    assert pair.a_send.page.head == 0
    pair.qb.receive((BASE, 4, pair.there.key))
    assert pair.a_send.poll().status == 0
    assert pair.there.view[:4] == b"late"
    pair.close()


@pytest.mark.parametrize(
    ("armed", "flags", "notified"), [(1, 0, True), (2, 0, False), (2, VerbsSend.SOLICITED, True)]
)
def test_an_armed_queue_notifies_once(engine, armed, flags, notified):
    pair = Pair(engine)
    channel, reading = pair.b.objects.create_channel()
    os.set_blocking(reading, False)
    cq = pair.b.cq(16, channel.handle)
    qp, peer = pair.b.qp(cq, cq), pair.a.qp(pair.a_send, pair.a_recv)
    qp.connect(peer)
    peer.connect(qp)
    qp.receive()
    qp.receive()
    cq.page.armed = armed
    for _ in range(2):
        peer.send(Op.SEND, flags=flags | VerbsSend.SIGNALED)
        assert pair.a_send.poll().status == 0
    assert cq.page.events == int(notified)
    if notified:
        assert os.read(reading, 16) == b"\0"
    with pytest.raises(BlockingIOError):
        os.read(reading, 16)
    os.close(reading)
    pair.close()


def test_arming_a_queue_with_entries_notifies_at_once(engine):
    """Hardware does the same; perftest polls once after each event and relies on it."""
    pair = Pair(engine)
    channel, reading = pair.a.objects.create_channel()
    cq = pair.a.cq(16, channel.handle)
    qp, peer = pair.a.qp(cq, cq), pair.b.qp(pair.b_send, pair.b_recv)
    qp.connect(peer)
    peer.connect(qp)
    qp.send(Op.RDMA_WRITE)
    assert until(lambda: cq.page.head == 1)
    assert cq.page.events == 0
    cq.page.armed = pair.a.page.armed = 1
    os.write(pair.a.objects.doorbell_fd, b"x")
    assert until(lambda: cq.page.events == 1)
    assert os.read(reading, 16) == b"\0"
    cq.poll()
    cq.page.armed = pair.a.page.armed = 1
    os.write(pair.a.objects.doorbell_fd, b"x")
    assert until(lambda: pair.a.page.armed == 0)
    assert cq.page.events == 1, "nothing was left in it"
    os.close(reading)
    pair.close()


def test_reset_drops_all_requests(pair):
    pair.qa.send(5)
    pair.a_send.poll()
    for qp, peer in ((pair.qa, pair.qb), (pair.qb, pair.qa)):
        qp.modify(1, state=VerbsState.RESET)
        assert (qp.page.send_head, qp.page.recv_head) == (0, 0)
        qp.connect(peer)
    write(pair)
    assert pair.a_send.poll().status == 0


def test_an_idle_engine_does_nothing(engine):
    pair = Pair(engine)
    write(pair)
    pair.a_send.poll()
    assert until(lambda: engine.counters()[0] > 0)
    time.sleep(0.05)
    turns, used = engine.counters()[1], resource.getrusage(resource.RUSAGE_SELF)
    time.sleep(0.5)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert engine.counters()[1] == turns
    assert after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime < 0.1
    pair.close()


def test_a_thousand_queue_pairs_and_regions(engine):
    numbers = Numbers()
    client = Client(engine, numbers, 0)
    cq = client.cq(4096)
    pairs = [client.qp(cq, cq, depth=1) for _ in range(1000)]
    keys = [client.region(4096) for _ in range(1000)]
    for first, second in zip(pairs[::2], pairs[1::2], strict=True):
        first.connect(second)
        second.connect(first)
    for i, qp in enumerate(pairs):
        keys[i].view[:4] = i.to_bytes(4, "little")
        qp.send(
            *(Op.RDMA_WRITE, [(BASE, 4, keys[i].key)]),
            remote_address=BASE + 8,
            remote_key=keys[i - 1].key,
        )
    assert {cq.poll().status for _ in pairs} == {0}
    assert all(keys[i - 1].view[8:12] == i.to_bytes(4, "little") for i in range(1000))
    for _ in range(24):
        client.qp(cq, cq, depth=1)
    with pytest.raises(OSError, match="Cannot allocate"):
        client.qp(cq, cq, depth=1)
    client.objects.close()


def test_a_connection_does_not_wake_an_idle_engine(engine):
    """A woken engine polls for requests for a while, on a CPU that other processes need."""
    client = Client(engine, Numbers(), 40)
    cq = client.cq()
    idle = [client.qp(cq, cq) for _ in range(20)]
    assert until(lambda: sleeps_on(engine))
    before = engine.counters()
    for one, other in zip(idle[::2], idle[1::2], strict=True):
        one.connect(other)
        other.connect(one)
    assert engine.counters() == before
    client.objects.close()
