"""The wire over a network that loses, repeats, delays and damages packets: once, and in order."""

import hashlib
import os
import random

import pytest

from hca.contract.verbs import VerbsOpcode as Op, VerbsStatus as Status
from support.rigs.hca_rig import BASE, until
from support.wire.wire_rig import BadNetwork, Ends

SEEDS = int(os.environ.get("HCA_WIRE_SEEDS", "20"))
PLACES = 24
ROOM = 5000
COUNTER = 1 << 17  # a word after the places
ATOMIC = Op.ATOMIC_FETCH_AND_ADD
KINDS = (
    *(Op.SEND, Op.SEND_WITH_IMM, Op.RDMA_WRITE, Op.RDMA_WRITE_WITH_IMM, Op.RDMA_READ),
    *(ATOMIC, ATOMIC),
)
BAD = {"drop": 0.04, "twice": 0.04, "late": 0.04, "corrupt": 0.03}


def play(pair: Ends, chosen: random.Random, rounds: int) -> None:
    """Post random messages, each with its own place; compare all memory."""
    key_here, key_there = pair.here.key, pair.there.key
    for _ in range(rounds):
        expected, received, kinds = [], [], []
        counted = 0
        pair.here.view[:] = chosen.randbytes(len(pair.here.view))
        pair.there.view[:] = chosen.randbytes(len(pair.there.view))
        pair.there.view[COUNTER - 8 :] = bytes(8)
        before = bytes(pair.there.view[:])
        for place in range(PLACES):
            size = chosen.choice((0, 1, 100, 1024, 1025, chosen.randrange(ROOM)))
            at = place * ROOM
            kind = chosen.choice(KINDS)
            if kind == ATOMIC:
                expected.append((pair.here, at, counted.to_bytes(8, "little")))
                counted += 1 + place
                kinds.append((kind, at, 8, place))
                continue
            if kind in (Op.SEND, Op.SEND_WITH_IMM, Op.RDMA_WRITE_WITH_IMM):
                pair.b.qp.receive((BASE + at, ROOM, key_there))
                received.append((size, place if kind != Op.SEND else 0))
            source, target = (before, pair.here) if kind == Op.RDMA_READ else (None, pair.there)
            data = (source or pair.here.view)[at : at + size]
            expected.append((target, at, bytes(data)))
            kinds.append((kind, at, size, place))
        # Receives are posted before, in the order of the requests that use them.
        for kind, at, size, place in kinds:
            pair.a.qp.send(
                *(kind, [(BASE + at, size, key_here)] if size else []),
                remote_address=BASE + (COUNTER - 8 if kind == ATOMIC else at),
                remote_key=key_there,
                immediate=place,
                compare_add=1 + place,
                flags=2 | chosen.choice((0, 1)),
            )
        for place in range(PLACES):
            done = pair.a.send_cq.poll()
            assert done.status == Status.SUCCESS, (place, done.status)
        for size, immediate in received:
            came = pair.b.recv_cq.poll()
            assert (came.status, came.bytes, came.immediate) == (0, size, immediate)
        assert int.from_bytes(pair.there.view[COUNTER - 8 :], "little") == counted
        for target, at, data in expected:
            found = target.view[at : at + len(data)]
            assert hashlib.sha256(found).digest() == hashlib.sha256(data).digest(), at
    assert pair.b.recv_cq.page.head == pair.b.recv_cq.tail, "nothing arrived twice"
    assert pair.a.send_cq.page.head == pair.a.send_cq.tail


def found_damaged(pair: Ends) -> int:
    """Return how many packets were refused as damaged, for any reason."""
    return sum(
        getattr(counts, name)
        for counts in (pair.a.counts, pair.b.counts)
        for name in ("bad_icrc", "malformed", "unknown_qp", "bad_pkey")
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_message_arrives_exactly_once(engines, seed):
    chosen = random.Random(seed)
    network = BadNetwork(seed, **BAD)
    first_psn = chosen.choice((0, 5, 0xFFFFF0, 0x7FFFF8))
    pair = Ends(
        *(*engines, network),
        timeout=14,
        path_mtu=chosen.choice((1, 3, 5)),
        sq_psn=first_psn,
        rq_psn=first_psn,
    )
    try:
        play(pair, chosen, 3)
        assert network.unsound == 0, "every checksum is right, by another implementation"
        assert min(network.done.values()) > 0, "harm was done"
        assert until(lambda: found_damaged(pair) == network.done["corrupt"]), "all is found"
    finally:
        pair.close()
        network.close()


def test_a_link_that_loses_everything_is_an_error(engines):
    network = BadNetwork(1, drop=1.0)
    pair = Ends(*engines, network, timeout=9, retry_count=2)
    try:
        pair.a.qp.send(
            *(Op.RDMA_WRITE, [(BASE, 8, pair.here.key)]),
            remote_address=BASE,
            remote_key=pair.there.key,
        )
        assert pair.a.send_cq.poll().status == Status.RETRY_EXC_ERR
        # The network counts in its own thread, which may run later than the completion.
        assert until(lambda: network.done["drop"] >= 3), "the first and two more"
        assert network.done["drop"] == 3
    finally:
        pair.close()
        network.close()
