"""The HCA's engine among hostile, broken and dead clients."""

import os
import random

import pytest

from hca.contract import hca
from hca.contract.verbs import (
    VerbsEvent,
    VerbsOpcode as Op,
    VerbsState,
    VerbsStatus as Status,
)
from support.rigs import hca_rig
from support.rigs.hca_rig import BASE, Pair, until, write


@pytest.mark.parametrize(
    "changed",
    [{"dest_qpn": 2}, {"rq_psn": 6}, {"dgid": bytes(16)}],
    ids=["its peer is another", "its sequence is another", "its peer is elsewhere"],
)
def test_an_unconnected_queue_pair_is_not_reached(engine, changed):
    """There is no reply, as on a wire: the requester's retries end, the peer gets no event."""
    pair = Pair(engine)
    stranger = pair.b.qp(pair.b_send, pair.b_recv)
    alone = pair.a.qp(pair.a_send, pair.a_recv)
    alone.connect(stranger)
    stranger.connect(alone, **changed)
    stranger.receive((BASE, 8, pair.there.key))
    alone.send(Op.SEND, inline=b"hello")
    assert pair.a_send.poll().status == Status.RETRY_EXC_ERR
    assert pair.b_recv.page.head == 0
    assert stranger.state == VerbsState.RTS
    pair.close()


def test_a_dead_client_is_silence_and_its_keys_are_gone(engine):
    pair = Pair(engine)
    pair.b.objects.close()
    write(pair)
    assert pair.a_send.poll().status == Status.RETRY_EXC_ERR
    pair.a.objects.close()


def test_a_key_is_worth_nothing_after_its_region(pair):
    write(pair)
    assert pair.a_send.poll().status == 0
    pair.b.objects.destroy_region(pair.there.key)
    write(pair)
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR


def test_shared_memory_cannot_be_truncated(pair):
    _, fd = pair.b.objects.create_segment(hca.HcaSegmentCreate(8192))
    for change in (0, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, change)
    os.close(fd)


@pytest.mark.parametrize("whose", ["here", "there"])
def test_memory_that_vanishes_is_an_error_completion(engine, whose):
    """Even if the memory has no seal, hcad must not crash, because the copy is guarded, too."""
    pair = Pair(engine)
    client = pair.a if whose == "here" else pair.b
    fd = os.memfd_create("unsealed")
    os.ftruncate(fd, 8192)
    segment = engine.add_segment(fd, 8192)
    wanted = hca.HcaMrCreate(client.pd, hca_rig.ALL_ACCESS, BASE, 8192, 1)
    wanted.pieces[0] = hca.HcaPiece(0, 0, 0, 8192)
    region = engine.add_region(client.objects._client, 77, wanted, [segment])
    os.ftruncate(fd, 0)
    if whose == "here":
        write(pair, key=77)
        assert pair.a_send.poll().status == Status.LOC_PROT_ERR
        assert pair.qb.state == VerbsState.RTS
    else:
        write(pair, remote_key=77)
        assert pair.a_send.poll().status == Status.REM_ACCESS_ERR
    engine.remove_region(region)
    engine.remove_segment(segment)
    os.close(fd)
    pair.close()


@pytest.mark.parametrize("ring", ["send_head", "recv_head"])
def test_an_invalid_ring_index_ends_only_its_queue_pair(pair, engine, ring):
    other = Pair(engine, first=20)
    setattr(pair.qb.page, ring, 0x80000000)
    pair.qb.ring()
    if ring == "recv_head":  # it is not read before a peer sends
        pair.qa.send(Op.SEND)
        assert pair.a_send.poll().status == Status.RETRY_EXC_ERR
    assert until(lambda: pair.qb.state == VerbsState.ERR)
    assert (VerbsEvent.QP_FATAL, pair.qb.number) in pair.b.events()
    other.qa.send(Op.RDMA_WRITE)
    assert other.a_send.poll().status == 0
    other.close()


def test_a_full_completion_queue_is_an_event_and_an_end(engine):
    pair = Pair(engine)
    small = pair.a.cq(1)
    qp = pair.a.qp(small, small)
    peer = pair.b.qp(pair.b_send, pair.b_recv)
    qp.connect(peer)
    peer.connect(qp)
    for _ in range(3):
        qp.send(Op.RDMA_WRITE)
    assert until(lambda: qp.state == VerbsState.ERR)
    events = pair.a.events()
    assert (VerbsEvent.CQ_ERR, small.handle) in events
    assert (VerbsEvent.QP_FATAL, qp.number) in events
    pair.close()


def test_random_bytes_in_rings_and_pages_harm_no_neighbour(engine):
    """Seeded: random bytes are written over a client's shared memory while its neighbour works."""
    rng = random.Random(9)
    victim = Pair(engine, first=30)
    for round_number in range(60):
        pair = Pair(engine, first=40)
        for _ in range(20):
            qp = rng.choice((pair.qa, pair.qb))
            target = rng.choice((qp.map, qp.map, pair.a.map, pair.a_send.map, pair.b_recv.map))
            size = rng.choice((1, 4, 8, 64, 320))
            at = rng.randrange(min(len(target), 4096) - size)
            target[at : at + size] = rng.choice((rng.randbytes(size), bytes(size), b"\xff" * size))
            qp.page.send_head += rng.randrange(3)
            qp.ring()
        victim.qb.receive((BASE, 8, victim.there.key))
        victim.qa.send(Op.SEND, inline=round_number.to_bytes(8, "little"))
        assert victim.a_send.poll().status == 0
        assert victim.b_recv.poll().status == 0
        assert victim.there.view[:8] == round_number.to_bytes(8, "little")
        pair.close()
    victim.close()
