"""The HCA's engine among hostile clients: atomics, datagrams, shared receives, windows."""

import random

import pytest

from hca.contract import hca, hca_objects
from hca.contract.verbs import (
    VerbsEvent as Event,
    VerbsMask as Mask,
    VerbsMwType,
    VerbsOpcode as Op,
    VerbsQpType as Type,
    VerbsState as State,
    VerbsStatus as Status,
)
from hca.daemon.common.numbers import Numbers
from support.rigs import hca_rig
from support.rigs.hca_rig import BASE, Client, Pair, Srq, until, write

LARGE = 8 << 20


def shared_pair(engine, first=0):
    """Two clients, and a connection between them whose responder has a shared receive queue."""
    pair = Pair(engine, first=first)
    srq = Srq(pair.b)
    one = pair.a.qp(pair.a_send, pair.a_recv)
    two = pair.b.qp(pair.b_send, pair.b_recv, srq=srq.handle)
    one.connect(two)
    two.connect(one)
    return pair, srq, one, two


@pytest.mark.parametrize("jump", [17, 0x80000000, -1])
def test_an_invalid_shared_queue_ends_the_queue_pairs_that_use_it(engine, jump):
    pair, srq, one, two = shared_pair(engine)
    srq.page.head = jump & 0xFFFFFFFF
    srq.ring()
    one.send(Op.SEND, inline=b"x")
    assert pair.a_send.poll().status == Status.RETRY_EXC_ERR
    assert two.state == State.ERR
    events = pair.b.events()
    assert (Event.SRQ_ERR, srq.handle) in events
    assert (Event.QP_FATAL, two.number) in events
    write(pair)
    assert pair.a_send.poll().status == 0, "its other queue pairs go on"
    pair.close()


def test_a_wrong_shared_receive_ends_the_queue_pair_that_took_it(engine):
    pair, srq, one, two = shared_pair(engine)
    srq.receive(sge_count=99)
    one.send(Op.SEND, inline=b"x")
    assert pair.a_send.poll().status == Status.REM_OP_ERR
    assert pair.b_recv.poll().status == Status.LOC_QP_OP_ERR
    assert until(lambda: two.state == State.ERR)
    srq.receive((BASE, 8, pair.there.key))
    pair.close()


@pytest.mark.parametrize("end", ["destroyed", "in error"])
def test_the_requester_dies_in_the_middle_of_a_message_to_a_shared_queue(engine, end):
    """A receive request taken for a queue pair remains taken; others take the next ones."""
    pair, srq, one, two = shared_pair(engine)
    here, there = pair.a.region(LARGE), pair.b.region(LARGE)
    third = pair.a.qp(pair.a_send, pair.a_recv)
    fourth = pair.b.qp(pair.b_send, pair.b_recv, srq=srq.handle)
    third.connect(fourth)
    fourth.connect(third)
    srq.receive((BASE, LARGE, there.key))
    srq.receive((BASE, 8, pair.there.key))
    one.send(Op.SEND, [(BASE, LARGE, here.key)])
    assert until(lambda: srq.page.tail >= 1)
    if end == "destroyed":
        pair.a.objects.destroy_qp(one.number)
    else:
        one.modify(Mask.STATE, state=State.ERR)
    third.send(Op.SEND, inline=b"other")
    assert until(lambda: pair.there.view[:5] == b"other")
    two.modify(Mask.STATE, state=State.ERR)
    assert until(lambda: pair.b_recv.page.head == 2)
    ids = {pair.b_recv.poll().id for _ in range(2)}
    assert ids == {0, 1}, "each request is completed once"
    pair.close()


def test_a_message_starts_again_after_a_reset_of_the_responder(engine):
    pair = Pair(engine, rnr_retry=7, timeout=18, retry_count=7)
    here, there = pair.a.region(LARGE), pair.b.region(LARGE)
    pair.qb.receive((BASE, LARGE, there.key))
    pair.qa.send(Op.SEND, [(BASE, LARGE, here.key)])
    assert until(lambda: pair.qb.page.recv_tail == 1)
    pair.qb.modify(Mask.STATE, state=State.RESET)
    pair.qb.connect(pair.qa, rnr_retry=7)
    pair.qb.receive((BASE, 8, there.key), id=77)
    status = pair.a_send.poll().status
    assert status in (0, Status.REM_INV_REQ_ERR)
    assert pair.b_recv.page.head <= 1
    pair.close()


def test_a_key_of_a_dead_region_is_no_region_of_a_window(engine):
    """That holds even if another region has the key: the window was not bound to that region."""
    pair = Pair(engine)
    window = pair.b.objects.create_window(
        hca_objects.HcaMwCreate(pair.b.pd, VerbsMwType.TYPE_1)
    ).handle
    slot_key = pair.there.key
    pair.qb.send(
        Op.BIND_MW,
        *([(0, 0, slot_key)],),
        remote_key=window,
        immediate=window,
        remote_address=BASE,
        compare_add=8,
        swap=2,
    )
    assert pair.b_send.poll().status == 0
    write(pair, remote_key=window)
    assert pair.a_send.poll().status == 0
    fresh = hca.HcaMrCreate(pair.b.pd, hca_rig.ALL_ACCESS, BASE, 8192, 1, slot_key)
    fresh.pieces[0] = hca.HcaPiece(pair.there.segment, 0, 0, 8192)
    assert pair.b.objects.create_region(fresh).handle == slot_key
    write(pair, remote_key=window)
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR
    pair.close()


def test_another_client_s_window_cannot_be_bound_freed_or_invalidated(engine):
    pair = Pair(engine)
    window = pair.b.objects.create_window(
        hca_objects.HcaMwCreate(pair.b.pd, VerbsMwType.TYPE_1)
    ).handle
    with pytest.raises(OSError, match="Invalid"):
        pair.a.objects.destroy_window(window)
    pair.qa.send(
        Op.BIND_MW,
        [(0, 0, pair.here.key)],
        remote_key=window,
        immediate=window,
        remote_address=BASE,
        compare_add=8,
        swap=2,
    )
    assert pair.a_send.poll().status == Status.MW_BIND_ERR
    pair.close()


def test_random_requests_of_any_kind_harm_no_neighbour(engine):
    """Slots of every opcode get random fields (from a seed) while a neighbour works."""
    rng = random.Random(10)
    victim = Pair(engine, first=30)
    for round_number in range(40):
        numbers = Numbers()
        client = Client(engine, numbers, 50)
        cq, srq, region = client.cq(), Srq(client), client.region()
        window = client.objects.create_window(
            hca_objects.HcaMwCreate(client.pd, rng.choice((1, 2)))
        ).handle
        ah = client.ah(client.gid)
        qps = [
            client.qp(cq, cq, kind=kind, srq=rng.choice((0, srq.handle)))
            for kind in (Type.RC, Type.UC, Type.UD)
        ]
        for qp in qps:
            if qp.kind == Type.UD:
                qp.listen()
            else:
                qp.connect(qp)
        keys = [region.key, window, ah, 0, rng.getrandbits(32)]
        for _ in range(30):
            qp = rng.choice(qps)
            srq.receive((BASE, rng.choice((0, 8, 8192)), rng.choice(keys)))
            if qp.page.send_head - qp.page.send_tail < qp.sends:
                qp.send(
                    rng.choice((*Op, 10, 1 << 31)),
                    [(BASE + rng.randrange(9000), rng.choice((0, 8, 4096)), rng.choice(keys))],
                    flags=rng.getrandbits(4),
                    inline_bytes=rng.choice((0, 8, 256, 1 << 31)),
                    remote_key=rng.choice((*keys, 0x1234)),
                    immediate=rng.choice(keys),
                    address_handle=rng.choice(keys),
                    remote_qpn=rng.choice((qp.number, 0xFFFFFF, rng.getrandbits(32))),
                    remote_address=rng.choice((BASE, BASE + 4, 2**64 - 8)),
                    compare_add=rng.choice((0, 8, 2**64 - 1)),
                    swap=rng.choice((0, 2, 63, 2**64 - 1)),
                )
            target = rng.choice((qp.map, srq.map, client.map, cq.map))
            at = rng.randrange(4096 - 64)
            if rng.random() < 0.3:
                target[at : at + 8] = rng.randbytes(8)
        victim.qb.receive((BASE, 8, victim.there.key))
        victim.qa.send(Op.SEND, inline=round_number.to_bytes(8, "little"))
        assert victim.a_send.poll().status == 0
        assert victim.b_recv.poll().status == 0
        assert victim.there.view[:8] == round_number.to_bytes(8, "little")
        client.objects.close()
    victim.close()
