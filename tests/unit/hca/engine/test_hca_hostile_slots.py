"""Invalid receive slots, for every path on which a message reaches one.

A client can write its slots in shared memory at any time. Each path has its own check, so
each is tested with the same slots, and with the largest valid slot.
"""

import ctypes
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from hca.contract import hca, hca_frames
from hca.contract.verbs import (
    VerbsOpcode as Op,
    VerbsQpType as Type,
    VerbsState,
    VerbsStatus as Status,
)
from hca.daemon.common.numbers import Numbers
from support.rigs import hca_rig
from support.rigs.hca_rig import BASE, Client, Cq, Qp, Region, Srq, until
from support.wire import wire_rig
from support.wire.wire_judging import QKEY, listening

DATA = b"\x01" + bytes(11) + b"\x88\xb5" + b"a frame, or a message"
"""A frame with the EtherType for local experiments (IEEE 802), sent to a group."""

MOST = hca.HCA_MAX_SGE
ELEMENT = 8
HEADERS = {Type.UD: 40}
COUNTS = [MOST + 1, MOST + 2, 200, 0x10000, 0x80000000, 0xFFFFFFFF]


@dataclass
class Way:
    """A path for a message: posts the message and a receive request for it."""

    sender: Qp
    receiver: Qp
    send_cq: Cq
    recv_cq: Cq
    there: Region
    srq: Srq | None
    opcode: int = Op.SEND
    values: dict[str, int] = field(default_factory=dict)
    here: Region | None = None

    def send(self) -> int:
        """Send the data; return the sender's status."""
        if self.here is None:
            self.sender.send(self.opcode, inline=DATA, **self.values)
        else:
            self.here.view[: len(DATA)] = DATA
            self.sender.send(self.opcode, [(BASE, len(DATA), self.here.key)])
        return self.send_cq.poll().status

    def receive(self, count: int, size: int = ELEMENT, **values: int) -> None:
        """Post a slot with ``count`` elements, each at its own place in the region."""
        sges = [(BASE + ELEMENT * i, size, self.there.key) for i in range(min(count, MOST))]
        (self.srq or self.receiver).receive(*sges, sge_count=count, **values)


def _in_memory(stack: ExitStack, engines, kind: Type, shared: bool) -> Way:
    """Return the path between two programs of the same engine."""
    numbers = Numbers()
    a, b = (Client(engines[0], numbers, 30 + i) for i in range(2))
    for client in (a, b):
        stack.callback(client.objects.close)
    send_cq, recv_cq = a.cq(), b.cq()
    srq = Srq(b) if shared else None
    sender = a.qp(send_cq, a.cq(), kind=kind)
    receiver = b.qp(b.cq(), recv_cq, kind=kind, srq=srq.handle if srq else 0)
    way = Way(sender, receiver, send_cq, recv_cq, b.region(), srq)
    if kind == Type.UD:
        sender.listen(QKEY)
        receiver.listen(QKEY)
        way.values = {
            "address_handle": a.ah(b.gid), "remote_qpn": receiver.number, "remote_key": QKEY
        }  # fmt: skip
    elif kind == Type.RAW_PACKET:
        for qp in (sender, receiver):
            qp.modify(1 | hca_rig.Mask.PORT, state=VerbsState.INIT, port=1)
            qp.modify(1, state=VerbsState.RTR)
            qp.modify(1, state=VerbsState.RTS)
        wanted = hca_frames.HcaSteerCreate(0, 1)
        wanted.targets[0] = receiver.number
        b.objects.create_steer(wanted)
        way.here = a.region()
    else:
        sender.connect(receiver)
        receiver.connect(sender)
    return way


def _over_a_wire(stack: ExitStack, engines, kind: Type, shared: bool) -> Way:
    """Return the path from one engine to another."""
    if kind == Type.UD:
        a, b = stack.enter_context(listening(*engines))
        client = b.client
    else:
        pair = stack.enter_context(wire_rig.ends(*engines, kind=kind))
        a, b, client = pair.a, pair.b, pair.b.client
    srq, receiver, sender = None, b.qp, a.qp
    if shared:
        srq = Srq(client)
        receiver = client.qp(b.send_cq, b.recv_cq, kind=kind, srq=srq.handle)
    way = Way(sender, receiver, a.send_cq, b.recv_cq, b.region(), srq)
    if kind == Type.UD:
        if shared:
            receiver.listen(QKEY)
        way.values = {
            "address_handle": a.client.ah(b.gid),
            "remote_qpn": receiver.number,
            "remote_key": QKEY,
        }
    elif shared:
        way.sender = sender = a.client.qp(a.send_cq, a.recv_cq, kind=kind)
        for qp, ip, other in ((sender, b.ip, receiver), (receiver, a.ip, sender)):
            values = {**wire_rig.RELIABLE, "sgid_index": 1, "dgid": wire_rig.gid_of(ip)}
            qp.connect(other, **values)
    return way


WAYS = {
    f"{kind.name} {name}{' shared' * shared}": (made, kind, shared)
    for name, made, kinds in (
        ("memory", _in_memory, (Type.RC, Type.UC, Type.UD, Type.RAW_PACKET)),
        ("wire", _over_a_wire, (Type.RC, Type.UC, Type.UD)),
    )
    for kind in kinds
    for shared in (False, True)
    if not (kind == Type.RAW_PACKET and shared)
}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def way(request, engines):
    make, kind, shared = request.param
    with ExitStack() as stack:
        yield make(stack, engines, kind, shared)


def _is_refused(way: Way, status: Status) -> None:
    """Check that a receive was not used: by its status or, if unreliable, by silence."""
    if way.receiver.kind == Type.UC:
        # There is neither a completion nor an error; the state is read when the engine is done.
        assert way.send() == Status.SUCCESS
        assert until(lambda: count_taken_receives(way) == 1)
        assert way.receiver.state == VerbsState.RTS
        assert way.recv_cq.page.head == way.recv_cq.tail
    else:
        sent = way.send()
        reliable = way.receiver.kind == Type.RC
        assert sent == (Status.REM_OP_ERR if reliable else Status.SUCCESS)
        assert way.recv_cq.poll().status == status
        assert until(lambda: way.receiver.state == VerbsState.ERR)
    assert not any(way.there.view[:])


def count_taken_receives(way: Way) -> int:
    """Return how many receive requests the engine has taken."""
    return way.srq.page.tail if way.srq else way.receiver.page.recv_tail


@pytest.mark.parametrize("count", COUNTS)
def test_more_elements_than_a_slot_has_are_refused(way, count):
    """The first sixteen are valid and have enough room: without a check, all data would arrive."""
    way.receive(count)
    _is_refused(way, Status.LOC_QP_OP_ERR)


def test_as_many_elements_as_a_slot_has_are_filled(way):
    way.receive(MOST)
    assert way.send() == Status.SUCCESS
    done = way.recv_cq.poll()
    header = HEADERS.get(way.receiver.kind, 0)
    assert (done.status, done.bytes) == (Status.SUCCESS, header + len(DATA))
    assert bytes(way.there.view[header : header + len(DATA)]) == DATA
    assert not any(way.there.view[header + len(DATA) :])


def test_an_element_with_an_unknown_key_is_refused(way):
    way.there.key ^= 1
    way.receive(MOST)
    _is_refused(way, Status.LOC_PROT_ERR)


def test_a_message_one_byte_beyond_its_region_is_refused(way):
    size = len(way.there.view)
    room = HEADERS.get(way.receiver.kind, 0) + len(DATA)
    (way.srq or way.receiver).receive((BASE + size - room + 1, room, way.there.key))
    _is_refused(way, Status.LOC_PROT_ERR)


def test_a_message_that_ends_with_its_region_arrives(way):
    size = len(way.there.view)
    room = HEADERS.get(way.receiver.kind, 0) + len(DATA)
    (way.srq or way.receiver).receive((BASE + size - room, room, way.there.key))
    assert way.send() == Status.SUCCESS
    assert way.recv_cq.poll().status == Status.SUCCESS
    assert bytes(way.there.view[size - len(DATA) :]) == DATA


def test_a_slot_that_changes_after_it_was_taken_is_used_as_it_was(way):
    """The engine uses a copy, so later writes by the client have no effect."""
    way.receive(MOST)
    ring = way.srq.slots if way.srq else way.receiver.recv_slots
    assert way.send() == Status.SUCCESS
    assert way.recv_cq.poll().status == Status.SUCCESS
    ctypes.memset(ctypes.byref(ring[0]), 0xFF, ctypes.sizeof(ring[0]))
    assert way.receiver.state == VerbsState.RTS
