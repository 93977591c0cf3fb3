"""The engine's limits: the last value accepted, the first one refused, and the state after it."""

import os
import random
import time
from contextlib import ExitStack

import pytest

from hca.contract import hca, hca_frames, hca_objects
from hca.contract.hca_engine import HcaPolicyChange
from hca.contract.verbs import (
    VerbsEvent,
    VerbsMask as Mask,
    VerbsMwType,
    VerbsOpcode as Op,
    VerbsQpType,
    VerbsState,
    VerbsStatus as Status,
)
from hca.daemon.common.numbers import Numbers
from rdma.verbs import ALL
from support.rigs import hca_rig
from support.rigs.hca_moves import move
from support.rigs.hca_rig import BASE, Client, Pair, until, write
from support.wire import wire_rig


@pytest.fixture
def engine(engines):
    return engines[0]


@pytest.mark.parametrize("entries", [1, 2, 64])
def test_a_completion_queue_holds_its_capacity_and_no_more(engine, entries):
    client = Client(engine, Numbers(), 20)
    cq, other = client.cq(entries), client.cq()
    qp = client.qp(cq, other, depth=256)
    qp.connect(qp)
    for _ in range(cq.count):
        qp.send(Op.RDMA_WRITE)
    assert until(lambda: cq.page.head == cq.count)
    assert (client.events(), qp.state) == ([], VerbsState.RTS)
    qp.send(Op.RDMA_WRITE)
    assert until(lambda: qp.state == VerbsState.ERR)
    assert (VerbsEvent.CQ_ERR, cq.handle) in client.events()
    assert [cq.poll().id for _ in range(cq.count)] == list(range(cq.count))
    assert cq.page.head == cq.count
    client.objects.close()


def test_a_pause_saves_up_a_burst_and_no_more(engine):
    """At 1,000 operations a second, 190 of 200 must wait, however long the flow was idle before."""
    pair = Pair(engine)
    flow, limit = engine.add_flow(), engine.add_limit(0, 0, 1000, 10)
    engine.limit_flow(flow, [limit])
    for qp, out in ((pair.qa, flow), (pair.qb, 0)):
        own = qp.client.objects._qps[qp.number].engine
        change = HcaPolicyChange(own, out=out, pkey=0xFFFF, sends=ALL, receives=ALL)
        engine.set_policies([change])
    time.sleep(0.3)  # enough tokens for 300
    started = time.monotonic()
    for _ in range(200):
        assert until(lambda: pair.qa.page.send_head - pair.qa.page.send_tail < pair.qa.sends)
        write(pair)
        pair.a_send.tail = pair.a_send.page.tail = pair.a_send.page.head
    assert until(lambda: pair.qa.page.send_tail == 200)
    assert time.monotonic() - started >= 0.18
    pair.close()
    engine.remove_flow(flow)
    engine.remove_limit(limit)


def _home(key: int, room: int = 64) -> int:
    """Return a key's home slot in a table of the engine with ``room`` slots (table.c)."""
    return (key * 2654435769 & 0xFFFFFFFF) >> 7 & room - 1


@pytest.mark.parametrize("seed", range(4))
def test_keys_of_one_home_are_found_whichever_goes_first(engine, monkeypatch, seed):
    """The regions' keys fill adjacent slots, also across the table's end; gaps must be closed."""
    choose = random.Random(seed)
    pair = Pair(engine)
    wanted = (62, 62, 62, 63, 62, 0, 1)
    keys = [
        next(k for k in iter(lambda: choose.randrange(1 << 8, 1 << 32), 0) if _home(k) == home)
        for home in wanted
    ]
    given = iter(keys)
    monkeypatch.setattr(pair.numbers, "new_key", lambda: next(given))
    monkeypatch.setattr(pair.numbers, "free_key", lambda key: None)
    regions = [pair.b.region(4096) for _ in wanted]
    left = list(regions)
    while left:
        gone = left.pop(choose.randrange(len(left)))
        pair.b.objects.destroy_region(gone.key)
        for region in left:
            write(pair, remote_key=region.key)
            assert pair.a_send.poll().status == Status.SUCCESS, (keys, region.key)
    pair.close()


@pytest.mark.parametrize("newer", [3, 2, 4])
def test_of_rules_of_one_priority_the_older_wins(engine, newer):
    """The older rule has priority 3; the smaller number has precedence."""
    clients = [Client(engine, Numbers(), 40 + i) for i in range(3)]
    queues, pairs = [client.cq() for client in clients], []
    for client, cq in zip(clients, queues, strict=True):
        qp = client.qp(cq, cq, kind=VerbsQpType.RAW_PACKET)
        qp.modify(Mask.STATE | Mask.PORT, state=VerbsState.INIT, port=1)
        qp.modify(Mask.STATE, state=VerbsState.RTR)
        qp.modify(Mask.STATE, state=VerbsState.RTS)
        pairs.append(qp)
    for which, priority in ((1, 3), (2, newer)):
        rule = hca_frames.HcaSteerCreate(priority, 1)
        rule.targets[0] = pairs[which].number
        clients[which].objects.create_steer(rule)
        region = clients[which].region()
        pairs[which].receive((BASE, 4096, region.key))
    source = clients[0].region()
    source.view[:16] = b"\x02" + bytes(11) + b"\x88\xb5.."
    pairs[0].send(Op.SEND, [(BASE, 64, source.key)])
    assert queues[0].poll().status == 0
    assert [cq.page.head for cq in queues] == ([1, 0, 1] if newer < 3 else [1, 1, 0])
    for client in clients:
        client.objects.close()


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_pipe_that_is_replaced_is_closed(engines):
    with ExitStack() as stack:
        end = wire_rig.End(engines[0])
        stack.callback(end.close)
        ends = os.pipe2(os.O_NONBLOCK)
        for descriptor in ends:
            stack.callback(os.close, descriptor)
        engines[0].set_mad_pipe(end.wire, ends[1])
        before = _descriptors()
        for _ in range(3):
            engines[0].set_mad_pipe(end.wire, ends[1])
            assert _descriptors() == before


def test_a_window_of_a_removed_region_opens_no_other_after_a_handover(engines):
    """Another region has the key by then: the successor must not use it for the removed one."""
    numbers = Numbers()
    old, new = engines
    a, b = (Client(old, numbers, 50 + i) for i in range(2))
    sends, others = [client.cq() for client in (a, b)], [client.cq() for client in (a, b)]
    qa, qb = (
        client.qp(send, other) for client, send, other in zip((a, b), sends, others, strict=True)
    )
    qa.connect(qb)
    qb.connect(qa)
    here, there = a.region(), b.region()
    window = b.objects.create_window(hca_objects.HcaMwCreate(b.pd, VerbsMwType.TYPE_1)).handle
    qb.send(
        Op.BIND_MW,
        [(0, 0, there.key)],
        remote_key=window,
        immediate=window,
        remote_address=BASE,
        compare_add=8,
        swap=2,
    )
    assert sends[1].poll().status == 0
    fresh = hca.HcaMrCreate(b.pd, hca_rig.ALL_ACCESS, BASE, 8192, 1, there.key)
    fresh.pieces[0] = hca.HcaPiece(there.segment, 0, 0, 8192)
    assert b.objects.create_region(fresh).handle == there.key
    old.suspend()
    new.suspend()
    later = Numbers()
    for client in (a, b):
        move(client, new, later)
    old.resume()
    new.resume()
    for key, status in ((there.key, Status.SUCCESS), (window, Status.REM_ACCESS_ERR)):
        qa.send(Op.RDMA_WRITE, [(BASE, 8, here.key)], remote_address=BASE, remote_key=key)
        assert sends[0].poll().status == status
    for client in (a, b):
        client.objects.close()
