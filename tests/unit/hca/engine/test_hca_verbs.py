"""The HCA's engine: atomics, unreliable queue pairs, shared receives, draining, P_Keys."""

import itertools
import struct

import pytest

from hca.contract import hca_objects
from hca.contract.verbs import (
    VerbsAccess as Access,
    VerbsDone as Done,
    VerbsEvent as Event,
    VerbsMask as Mask,
    VerbsOpcode as Op,
    VerbsQpType as Type,
    VerbsState as State,
    VerbsStatus as Status,
)
from support.rigs import hca_rig
from support.rigs.hca_rig import BASE, Pair, Srq, until, write

ADD, SWAP = Op.ATOMIC_FETCH_AND_ADD, Op.ATOMIC_CMP_AND_SWP
QKEY = 0x1234


def atomic(pair, opcode, compare_add, swap=0, at=0, size=8, **values):
    pair.qa.send(
        *(opcode, [(BASE, size, pair.here.key)]),
        remote_address=BASE + at,
        **{"remote_key": pair.there.key, "compare_add": compare_add, "swap": swap, **values},
    )


def word(region, at=0):
    return struct.unpack_from("<Q", region.view, at)[0]


def test_an_atomic_returns_the_previous_value_and_is_executed_once(pair):
    for i in range(100):
        atomic(pair, ADD, 3)
        done = pair.a_send.poll()
        assert (done.status, done.opcode, done.bytes) == (0, Done.FETCH_ADD, 8)
        assert word(pair.here) == 3 * i
    atomic(pair, SWAP, 300, 7)
    assert pair.a_send.poll().opcode == Done.COMP_SWAP
    assert (word(pair.here), word(pair.there)) == (300, 7)
    atomic(pair, SWAP, 8, 9)
    assert pair.a_send.poll().status == 0
    assert (word(pair.here), word(pair.there)) == (7, 7), "it compares before it swaps"
    atomic(pair, ADD, 2**64 - 8)
    assert pair.a_send.poll().status == 0
    assert word(pair.there) == 2**64 - 1


def write_word(pair, value, at=0, flags=2, **values):
    named = {"remote_key": pair.there.key, "compare_add": value, **values}
    pair.qa.send(Op.ATOMIC_WRITE, flags=flags, remote_address=BASE + at, **named)


def test_an_atomic_write_writes_eight_bytes(pair):
    write_word(pair, 0x1122334455667788, at=16)
    done = pair.a_send.poll()
    assert (done.status, done.opcode, done.bytes) == (0, Done.ATOMIC_WRITE, 8)
    assert (word(pair.there, 8), word(pair.there, 16), word(pair.there, 24)) == (
        *(0, 0x1122334455667788, 0),
    )


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"at": 4}, Status.REM_INV_REQ_ERR),
        ({"at": 8192}, Status.REM_ACCESS_ERR),
        ({"at": 8188}, Status.REM_ACCESS_ERR),
        ({"remote_key": 5}, Status.REM_ACCESS_ERR),
        ({"flags": 2 | 8}, Status.LOC_QP_OP_ERR),
    ],
)
def test_a_wrong_atomic_write_changes_nothing(pair, values, status):
    pair.there.view[:] = b"\5" * 8192
    write_word(pair, 7, **values)
    assert pair.a_send.poll().status == status
    assert pair.there.view[:] == b"\5" * 8192


def test_an_atomic_write_needs_write_permission(engine):
    pair = Pair(engine, access=Access.REMOTE_READ | Access.REMOTE_ATOMIC)
    write_word(pair, 7)
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR
    pair.close()


def test_unreliable_connections_have_no_atomic_writes(engine):
    pair = Pair(engine, kind=Type.UC)
    write_word(pair, 7)
    assert pair.a_send.poll().status == Status.LOC_QP_OP_ERR
    pair.close()


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"at": 4}, Status.REM_INV_REQ_ERR),
        ({"at": 8192}, Status.REM_ACCESS_ERR),
        ({"remote_key": 5}, Status.REM_ACCESS_ERR),
        ({"size": 4}, Status.LOC_LEN_ERR),
        ({"size": 16}, Status.LOC_LEN_ERR),
    ],
    ids=str,
)
def test_a_wrong_atomic_changes_nothing(pair, values, status):
    atomic(pair, ADD, 1, **values)
    assert pair.a_send.poll().status == status
    assert not any(pair.there.view[:])


@pytest.mark.parametrize("where", ["region", "queue pair", "responder resources"])
def test_atomics_must_be_permitted(engine, where):
    access = hca_rig.QP_ACCESS & ~Access.REMOTE_ATOMIC
    changed = {"queue pair": {"access": access}, "responder resources": {"max_dest_rd_atomic": 0}}
    pair = Pair(engine, **changed.get(where, {}))
    if where == "region":
        pair.there = pair.b.region(access=access)
    atomic(pair, ADD, 1)
    resources = where == "responder resources"
    wanted = Status.REM_INV_REQ_ERR if resources else Status.REM_ACCESS_ERR
    assert pair.a_send.poll().status == wanted
    event = Event.QP_REQ_ERR if resources else Event.QP_ACCESS_ERR
    assert (event, pair.qb.number) in pair.b.events()
    assert word(pair.there) == 0
    pair.close()


def test_unreliable_connections_move_data_and_report_no_loss(engine):
    pair = Pair(engine, kind=Type.UC)
    pair.qa.send(Op.SEND, inline=b"without a receive")
    assert pair.a_send.poll().status == 0
    write(pair, remote_key=1)
    assert pair.a_send.poll().status == 0
    assert pair.qb.state == State.RTS
    assert pair.b.events() == []
    pair.qb.receive((BASE, 4, pair.there.key))
    pair.qa.send(Op.SEND, inline=b"too long")
    pair.qa.send(Op.SEND_WITH_IMM, inline=b"fits", immediate=5)
    assert pair.a_send.statuses(2) == [0, 0]
    received = pair.b_recv.poll()
    assert (received.status, received.bytes, received.immediate) == (0, 4, 5)
    assert pair.there.view[:4] == b"fits"
    pair.here.view[:8] = b"unreliab"
    write(pair, remote=BASE + 64)
    assert pair.a_send.poll().status == 0
    assert pair.there.view[64:72] == b"unreliab"
    pair.close()


def test_an_unreliable_requester_s_error_stops_only_its_sending(engine):
    pair = Pair(engine, kind=Type.UC)
    pair.qa.send(Op.RDMA_READ, [(BASE, 8, pair.here.key)], remote_key=pair.there.key)
    pair.qa.send(Op.SEND)
    assert pair.a_send.statuses(2) == [Status.LOC_QP_OP_ERR, Status.WR_FLUSH_ERR]
    assert pair.qa.state == State.SQE
    pair.qa.receive((BASE, 8, pair.here.key))
    pair.qb.send(Op.SEND, inline=b"still")
    assert pair.a_recv.poll().status == 0
    pair.qa.modify(Mask.STATE, state=State.RTS)
    pair.qb.receive((BASE, 8, pair.there.key))
    pair.qa.send(Op.SEND, inline=b"again")
    assert pair.b_recv.poll().bytes == 5
    pair.close()


def test_a_connection_of_another_partition_is_silence_and_its_index_counts(engine):
    pair = Pair(engine)
    pair.a.objects.set_pkeys((0xFFFF, 0x8011))
    pair.b.objects.set_pkeys((0xFFFF, 0x0011))
    for index in (0, 1):
        for qp, other in itertools.permutations((pair.qa, pair.qb)):
            qp.modify(Mask.STATE, state=State.RESET)
            qp.connect(other, pkey_index=index)
        write(pair)
        done = pair.a_send.poll()
        assert (done.status, done.pkey_index) == (0, index)
    pair.b.objects.set_pkeys((0xFFFF, 0x8012))
    write(pair)
    assert pair.a_send.poll().status == Status.RETRY_EXC_ERR
    pair.qa.modify(Mask.STATE, state=State.RESET)
    with pytest.raises(OSError, match="no P_Key at index 2"):
        pair.qa.connect(pair.qb, pkey_index=2)
    pair.close()


@pytest.fixture
def shared_queue_pairs(engine):
    """Two connections whose responders share a receive queue."""
    pair = Pair(engine)
    srq = Srq(pair.b)
    pairs = []
    for _ in range(2):
        one = pair.a.qp(pair.a_send, pair.a_recv)
        two = pair.b.qp(pair.b_send, pair.b_recv, srq=srq.handle)
        one.connect(two, min_rnr_timer=20, rnr_retry=7)
        two.connect(one, min_rnr_timer=20, rnr_retry=7)
        pairs.append((one, two))
    yield pair, srq, pairs
    pair.close()


def test_two_queue_pairs_share_receives_in_their_order(shared_queue_pairs):
    pair, srq, pairs = shared_queue_pairs
    for i in range(4):
        srq.receive((BASE + 64 * i, 64, pair.there.key))
    for i in range(4):
        pairs[i % 2][0].send(Op.SEND, inline=b"abcd"[i : i + 1] * 3)
        got = pair.b_recv.poll()
        assert (got.status, got.id, got.qpn) == (0, i, pairs[i % 2][1].number)
        assert pair.there.view[64 * i : 64 * i + 4] == b"abcd"[i : i + 1] * 3 + b"\0"


def test_a_requester_that_waits_for_a_shared_receive_continues_when_it_is_posted(
    shared_queue_pairs,
):
    pair, srq, pairs = shared_queue_pairs
    pairs[0][0].send(Op.SEND, inline=b"early")
    assert not until(lambda: pair.b_recv.page.head != 0, 0.05)
    srq.receive((BASE, 64, pair.there.key))
    assert pair.b_recv.poll(1.0).bytes == 5


def test_a_limit_is_an_event_once(shared_queue_pairs):
    pair, srq, pairs = shared_queue_pairs
    for _ in range(4):
        srq.receive((BASE, 64, pair.there.key))
    pair.b.objects.modify_srq(hca_objects.HcaSrqModify(srq.handle, 3))
    assert pair.b.objects.query_srq(srq.handle).limit == 3
    for _ in range(3):
        pairs[0][0].send(Op.SEND, inline=b"x")
        pair.b_recv.poll()
    assert pair.b.events() == [(Event.SRQ_LIMIT_REACHED, srq.handle)]
    assert pair.b.objects.query_srq(srq.handle).limit == 0


def test_one_queue_pair_dies_and_the_other_keeps_the_queue(shared_queue_pairs):
    pair, srq, pairs = shared_queue_pairs
    srq.receive((BASE, 64, pair.there.key))
    pairs[0][1].modify(Mask.STATE, state=State.ERR)
    last = (Event.QP_LAST_WQE_REACHED, pairs[0][1].number)
    assert until(lambda: last in pair.b.events())
    pair.b.objects.destroy_qp(pairs[0][1].number)
    with pytest.raises(OSError, match="busy"):
        pair.b.objects.destroy_srq(srq.handle)
    pairs[1][0].send(Op.SEND, inline=b"mine")
    assert pair.b_recv.poll().qpn == pairs[1][1].number
    assert pair.there.view[:4] == b"mine"


def test_draining_completes_the_current_request_and_keeps_the_rest(pair):
    pair.qa.modify(Mask.STATE | Mask.EN_SQD_ASYNC_NOTIFY, state=State.SQD, sqd_notify=1)
    assert until(lambda: (Event.SQ_DRAINED, pair.qa.number) in pair.a.events())
    assert pair.a.objects.query_qp(pair.qa.number).sq_draining == 0
    write(pair)
    pair.qa.receive((BASE, 8, pair.here.key))
    pair.qb.send(Op.SEND, inline=b"in")
    assert pair.a_recv.poll().status == 0, "it receives meanwhile"
    assert pair.a_send.page.head == 0
    pair.qa.modify(Mask.STATE, state=State.RTS)
    assert pair.a_send.poll().status == 0


def test_a_completion_queue_is_resized_with_its_entries(pair):
    for i in range(5):
        pair.qa.send(Op.RDMA_WRITE, id=100 + i)
    assert until(lambda: pair.a_send.page.head == 5)
    assert pair.a_send.poll().id == 100
    with pytest.raises(OSError, match="Invalid"):
        pair.a.objects.resize_cq(hca_objects.HcaCqResize(pair.a_send.handle, 2))
    for entries in (4, 256):
        resized = pair.a.objects.resize_cq(hca_objects.HcaCqResize(pair.a_send.handle, entries))
        cq, tail = hca_rig.Cq(*resized), pair.a_send.tail
        cq.tail, pair.a_send = tail, cq
    pair.qa.send(Op.RDMA_WRITE, id=200)
    assert [pair.a_send.poll().id for _ in range(5)] == [101, 102, 103, 104, 200]


def test_completions_have_the_time_of_their_making(pair):
    times = []
    for _ in range(3):
        write(pair)
        times.append(pair.a_send.poll().timestamp)
    assert times == sorted(times)
    assert len(set(times)) == 3
