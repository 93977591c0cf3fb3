"""Handover of connections over a wire during traffic: each message arrives once, in order."""

import itertools
import random
import threading
from contextlib import ExitStack

import pytest

from hca.contract.verbs import VerbsOpcode as Op, VerbsState, VerbsStatus as Status
from support.rigs import hca_rig
from support.rigs.hca_rig import BASE
from support.wire.wire_rig import BadNetwork, End, Ends, ends
from support.wire.wire_saving import POSTING, hand_over

BYTES = 100_000
HAND_OVERS = 12
BAD = {"drop": 0.02, "twice": 0.02, "late": 0.02}


@pytest.fixture
def engines():
    with ExitStack() as stack:
        yield [stack.enter_context(hca_rig.running_engine()) for _ in range(4)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("network", [None, BAD], ids=["sound", "bad"])
def test_every_message_arrives_exactly_once_across_hand_overs(engines, seed, network):
    """Both ends are handed over repeatedly while requests are posted and packets in flight."""
    chosen, pauses = random.Random(seed), random.Random(seed)
    bad = BadNetwork(seed, **network) if network is not None else None
    pair = Ends(engines[0], engines[1], bad)
    spare = [engines[2], engines[3]]
    failed: list[BaseException] = []
    ending = threading.Event()

    def replace() -> None:
        try:
            while not ending.wait(pauses.random() / 100):
                which = pauses.randrange(2)
                end = (pair.a, pair.b)[which]
                before = end.engine
                hand_over(end, spare[which])
                spare[which] = before
                moved.append(which)
        except BaseException as err:  # noqa: BLE001 # whatever it is, the other thread says it
            failed.append(err)

    moved: list[int] = []
    replacing = threading.Thread(target=replace)
    replacing.start()
    try:
        for turn in itertools.takewhile(lambda _: len(moved) < HAND_OVERS, itertools.count()):
            assert not failed, failed
            kind = (Op.SEND, Op.RDMA_WRITE, Op.RDMA_READ, Op.RDMA_WRITE_WITH_IMM)[turn % 4]
            pair.here.view[:BYTES] = chosen.randbytes(BYTES)
            pair.there.view[:BYTES] = chosen.randbytes(BYTES)
            source, target = pair.here, pair.there
            if kind == Op.RDMA_READ:
                source, target = target, source
            expected = bytes(source.view[:BYTES])
            with POSTING:
                if kind in (Op.SEND, Op.RDMA_WRITE_WITH_IMM):
                    pair.b.qp.receive((BASE, BYTES, pair.there.key))
                pair.a.qp.send(
                    *(kind, [(BASE, BYTES, pair.here.key)]),
                    remote_address=BASE,
                    remote_key=pair.there.key,
                    immediate=turn,
                    flags=2,
                )
            assert pair.a.send_cq.poll().status == Status.SUCCESS
            if kind in (Op.SEND, Op.RDMA_WRITE_WITH_IMM):
                came = pair.b.recv_cq.poll()
                assert (came.status, came.bytes) == (0, BYTES)
                assert came.immediate == (turn if kind != Op.SEND else 0)
            assert bytes(target.view[:BYTES]) == expected
    finally:
        ending.set()
        replacing.join()
        if bad is not None:
            bad.close()
    assert not failed, failed
    assert pair.b.recv_cq.page.head == pair.b.recv_cq.tail, "nothing arrived twice"
    assert pair.a.send_cq.page.head == pair.a.send_cq.tail
    pair.close()


def test_a_request_that_was_shortened_fails_its_own_queue_pair(engines):
    """Half of it has been acknowledged; then the program changes it, which makes it invalid."""
    with ends(engines[0], engines[1]) as pair:
        pair.b.engine.suspend()
        pair.a.qp.send(
            Op.RDMA_WRITE,
            [(BASE, BYTES, pair.here.key)],
            remote_address=BASE,
            remote_key=pair.there.key,
            flags=2,
        )
        pair.a.engine.suspend()
        saved = pair.a.engine.save_qp(engine_of(pair.a))
        saved.wire.oldest_psn = (saved.wire.first_psn + 5) & 0xFFFFFF  # five packets had responses
        slot = pair.a.qp.send_slots[0]
        slot.payload.sges[0].bytes = 100
        pair.a.engine.load_qp(engine_of(pair.a), saved)
        pair.a.engine.resume()
        pair.b.engine.resume()
        assert pair.a.send_cq.poll().status == Status.LOC_QP_OP_ERR
        assert pair.a.qp.state == VerbsState.ERR


def engine_of(end: End) -> int:
    return end.client.objects._qps[end.qp.number].engine
