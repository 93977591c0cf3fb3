"""The HCA's engine: memory windows."""

import ctypes

import pytest

from hca.contract import hca_objects
from hca.contract.verbs import (
    VerbsAccess as Access,
    VerbsDone as Done,
    VerbsMask as Mask,
    VerbsMwType,
    VerbsOpcode as Op,
    VerbsState as State,
    VerbsStatus as Status,
    VerbsWcFlag as Flag,
)
from support.rigs.hca_rig import BASE, write

ADD, SWAP = Op.ATOMIC_FETCH_AND_ADD, Op.ATOMIC_CMP_AND_SWP
QKEY = 0x1234


def bind(pair, window, key, access, size, at, region=None):
    """Post a bind request; return the key and its status."""
    while pair.b_send.page.head != pair.b_send.tail:
        pair.b_send.poll()
    qp = pair.qb
    slot = qp.send_slots[qp.page.send_head % qp.sends]
    ctypes.memset(ctypes.byref(slot), 0, ctypes.sizeof(slot))
    slot.opcode, slot.flags = Op.BIND_MW, 2
    slot.remote_key, slot.immediate, slot.remote_address = window, key, at
    slot.compare_add, slot.swap = size, access
    slot.payload.sges[0].lkey = (region or pair.there).key
    qp.page.send_head += 1
    qp.ring()
    return key, pair.b_send.poll()


def new_window(pair, kind):
    made = pair.b.objects.create_window(hca_objects.HcaMwCreate(pair.b.pd, kind)).handle
    return made, made & ~0xFF | (made + 1) & 0xFF


@pytest.mark.parametrize("kind", VerbsMwType)
def test_a_window_opens_what_it_was_bound_to(pair, kind):
    pair.there = pair.b.region(access=Access.LOCAL_WRITE | Access.MW_BIND)
    window, key = new_window(pair, kind)
    key, done = bind(pair, window, key, Access.REMOTE_WRITE, 64, BASE + 128)
    assert (done.status, done.opcode) == (0, Done.BIND_MW)
    pair.here.view[:8] = b"windowed"
    write(pair, remote=BASE + 128 + 56, remote_key=key)
    assert pair.a_send.poll().status == 0
    assert pair.there.view[184:192] == b"windowed"
    write(pair, remote=BASE + 128 + 57, remote_key=key)
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR


@pytest.mark.parametrize(
    "wrong", ["old key", "a read", "region gone", "window gone", "the region itself", "invalidated"]
)
def test_a_window_opens_nothing_else(pair, wrong):
    pair.there = pair.b.region(access=Access.LOCAL_WRITE | Access.MW_BIND)
    window, key = new_window(pair, VerbsMwType.TYPE_2)
    key, done = bind(pair, window, key, Access.REMOTE_WRITE, 64, BASE)
    assert done.status == 0
    values = {"remote_key": key}
    if wrong == "old key":
        values = {"remote_key": window}
    elif wrong == "a read":
        values["opcode"] = Op.RDMA_READ
    elif wrong == "region gone":
        pair.b.objects.destroy_region(pair.there.key)
    elif wrong == "window gone":
        pair.b.objects.destroy_window(window)
    elif wrong == "the region itself":
        values = {}
    else:
        pair.qb.send(Op.LOCAL_INV, immediate=key)
        assert pair.b_send.poll().opcode == Done.LOCAL_INV
    write(pair, **values)
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR
    assert not any(pair.there.view[:64])


def test_windows_are_bound_to_what_permits_it(pair):
    plain = pair.b.region(access=Access.LOCAL_WRITE)
    readable = pair.b.region(access=Access.MW_BIND)
    foreign = pair.here
    cases = [
        (plain, Access.REMOTE_READ, 64, BASE),
        (readable, Access.REMOTE_WRITE, 64, BASE),
        (foreign, Access.REMOTE_READ, 64, BASE),
        (pair.there, Access.REMOTE_READ, 8193, BASE),
        (pair.there, Access.REMOTE_READ, 64, BASE - 1),
        (pair.there, 1 << 40, 64, BASE),
    ]
    for region, access, size, at in cases:
        window, key = new_window(pair, VerbsMwType.TYPE_2)
        _, done = bind(pair, window, key, access, size, at, region)
        assert done.status == Status.MW_BIND_ERR
        for qp, other in ((pair.qb, pair.qa), (pair.qa, pair.qb)):
            qp.modify(Mask.STATE, state=State.RESET)
            qp.connect(other)


def test_a_message_invalidates_the_window_that_it_names(pair):
    window, key = new_window(pair, VerbsMwType.TYPE_2)
    bind(pair, window, key, Access.REMOTE_WRITE, 64, BASE)
    pair.qb.receive((BASE + 512, 8, pair.there.key))
    pair.qa.send(Op.SEND_WITH_INV, inline=b"over", immediate=key)
    got = pair.b_recv.poll()
    assert (got.status, got.flags, got.immediate) == (0, Flag.WITH_INV, key)
    assert pair.a_send.poll().status == 0
    write(pair, remote_key=key)
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR


def test_only_a_window_can_be_invalidated(pair):
    pair.qb.receive((BASE, 8, pair.there.key))
    pair.qa.send(Op.SEND_WITH_INV, inline=b"over", immediate=pair.there.key)
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR
