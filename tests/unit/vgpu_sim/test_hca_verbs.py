"""The HCA's engine: atomics, unreliable queue pairs, shared receives, windows, draining, P_Keys."""

import ctypes
import itertools
import struct

import hca_rig
import pytest
from hca_rig import BASE, Client, Pair, Srq, until, write

from vgpu_sim.hal import hca
from vgpu_sim.hal.verbs import (
    VerbsAccess as Access,
    VerbsDone as Done,
    VerbsEvent as Event,
    VerbsMask as Mask,
    VerbsMwType,
    VerbsOpcode as Op,
    VerbsQpType as Type,
    VerbsState as State,
    VerbsStatus as Status,
    VerbsWcFlag as Flag,
)
from vgpu_sim.hcad.numbers import Numbers

ADD, SWAP = Op.ATOMIC_FETCH_AND_ADD, Op.ATOMIC_CMP_AND_SWP
QKEY = 0x1234


@pytest.fixture(scope="module")
def engine():
    with hca_rig.running_engine() as running:
        yield running


@pytest.fixture
def pair(engine):
    made = Pair(engine)
    yield made
    made.close()


def atomic(pair, opcode, compare_add, swap=0, at=0, size=8, **values):
    pair.qa.send(
        *(opcode, [(BASE, size, pair.here.key)]),
        remote_address=BASE + at,
        **{"remote_key": pair.there.key, "compare_add": compare_add, "swap": swap, **values},
    )


def word(region, at=0):
    return struct.unpack_from("<Q", region.view, at)[0]


def test_an_atomic_answers_what_was_there_and_happens_once(pair):
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


def test_unreliable_connections_move_data_and_tell_nobody_what_was_lost(engine):
    pair = Pair(engine, kind=Type.UC)
    pair.qa.send(Op.SEND, inline=b"nobody waits for it")
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


def test_what_an_unreliable_requester_does_wrong_stops_its_sending_alone(engine):
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


class Datagrams:
    """Three clients with a datagram queue pair each."""

    def __init__(self, engine, **values):
        numbers = Numbers()
        self.clients = [Client(engine, numbers, 60 + i) for i in range(3)]
        self.sends = [client.cq() for client in self.clients]
        self.receives = [client.cq() for client in self.clients]
        self.qps = [
            client.qp(send, recv, kind=Type.UD)
            for client, send, recv in zip(self.clients, self.sends, self.receives, strict=True)
        ]
        self.regions = [client.region() for client in self.clients]
        for qp in self.qps:
            qp.listen()

    def post(self, who, size=4096 + 40):
        self.qps[who].receive((BASE, size, self.regions[who].key))

    def send(self, to, ah=None, opcode=Op.SEND, inline=b"hello", qkey=QKEY, **values):
        ah = self.clients[0].ah(self.clients[to].gid) if ah is None else ah
        named = {"address_handle": ah, "remote_qpn": self.qps[to].number, "remote_key": qkey}
        self.qps[0].send(opcode, inline=inline, **{**named, **values})
        return self.sends[0].poll().status

    def close(self):
        for client in self.clients:
            client.objects.close()


@pytest.fixture
def datagrams(engine):
    made = Datagrams(engine)
    yield made
    made.close()


def test_a_datagram_brings_its_senders_address(datagrams):
    datagrams.post(1)
    assert datagrams.send(1, opcode=Op.SEND_WITH_IMM, immediate=9) == 0
    got = datagrams.receives[1].poll()
    assert (got.status, got.bytes, got.immediate) == (0, 45, 9)
    assert (got.source_qpn, got.flags) == (datagrams.qps[0].number, Flag.GRH | Flag.WITH_IMM)
    view = datagrams.regions[1].view
    assert not any(view[:20])
    header = view[20:40]
    assert (header[0], header[9]) == (0x45, 17)
    assert header[12:20] == datagrams.clients[0].gid[12:] + datagrams.clients[1].gid[12:]
    total = sum(struct.unpack(">10H", header))
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF, "the checksum of IPv4"
    assert struct.unpack_from(">H", header, 2)[0] == 20 + 8 + 12 + 8 + 5 + 4
    assert view[40:45] == b"hello"


def test_a_link_local_datagram_has_an_ipv6_header(engine, datagrams):
    first = hca_rig.address_of(61).gids[0]
    ah = datagrams.clients[0].ah(first, sgid_index=0, hop_limit=9, traffic_class=0xAB)
    datagrams.post(1)
    assert datagrams.send(1, ah=ah) == 0
    assert datagrams.receives[1].poll().bytes == 45
    header = datagrams.regions[1].view[:40]
    assert header[:2] == b"\x6a\xb0"
    assert (header[6], header[7]) == (17, 9)
    assert header[8:24] == hca_rig.address_of(60).gids[0]
    assert header[24:40] == first


@pytest.mark.parametrize("wrong", ["qkey", "queue pair", "address", "nothing posted", "too short"])
def test_a_datagram_that_is_not_wanted_is_silence(datagrams, wrong):
    if wrong != "nothing posted":
        datagrams.post(1, 44 if wrong == "too short" else 4136)
    values = {
        "qkey": {"qkey": QKEY + 1},
        "queue pair": {"remote_qpn": 2},
        "address": {"ah": datagrams.clients[0].ah(datagrams.clients[2].gid)},
    }.get(wrong, {})
    assert datagrams.send(1, **values) == 0
    assert datagrams.receives[1].page.head == 0
    assert datagrams.qps[1].state == State.RTS
    if wrong == "too short":
        assert datagrams.send(1, inline=b"fits") == 0
        assert datagrams.receives[1].poll().bytes == 44


def test_the_highest_bit_asks_for_the_senders_own_q_key(datagrams):
    datagrams.post(1)
    assert datagrams.send(1, qkey=0x80000000) == 0
    assert datagrams.receives[1].poll().status == 0
    datagrams.qps[0].modify(Mask.QKEY, qkey=5)
    datagrams.post(1)
    assert datagrams.send(1, qkey=0x80001234) == 0
    assert datagrams.receives[1].page.head == 1


def test_a_datagram_is_at_most_a_packet(datagrams):
    region = datagrams.regions[0]
    datagrams.post(1)
    ah = datagrams.clients[0].ah(datagrams.clients[1].gid)
    named = {"address_handle": ah, "remote_qpn": datagrams.qps[1].number, "remote_key": QKEY}
    datagrams.qps[0].send(Op.SEND, [(BASE, 4096, region.key)], **named)
    assert datagrams.receives[1].poll().bytes == 4136
    datagrams.qps[0].send(Op.SEND, [(BASE, 4097, region.key)], **named)
    assert datagrams.sends[0].statuses(2) == [0, Status.LOC_LEN_ERR]
    assert datagrams.qps[0].state == State.SQE


def test_an_address_handle_is_worth_nothing_after_it_or_in_other_domains(datagrams):
    client = datagrams.clients[0]
    ah = client.ah(datagrams.clients[1].gid)
    client.objects.destroy_ah(ah)
    others = client.ah(datagrams.clients[1].gid, pd=client.objects.create_pd().handle)
    foreign = datagrams.clients[2].ah(datagrams.clients[1].gid)
    datagrams.post(1)
    for handle in (ah, others, foreign, 0):
        assert datagrams.send(1, ah=handle) == Status.LOC_QP_OP_ERR
        datagrams.qps[0].modify(Mask.STATE, state=State.RTS)
    assert datagrams.receives[1].page.head == 0


def test_what_is_sent_to_a_group_is_every_members(datagrams):
    group = bytes([0xFF, 0x0E, *range(14)])
    for who in (1, 2):
        datagrams.post(who)
        member = hca.HcaMcast(datagrams.qps[who].number, 0, (ctypes.c_uint8 * 16)(*group))
        datagrams.clients[who].objects.attach(member)
        datagrams.clients[who].objects.attach(member)
    ah = datagrams.clients[0].ah(group)
    assert datagrams.send(1, ah=ah, remote_qpn=hca.HCA_MULTICAST_QPN) == 0
    for who in (1, 2):
        assert datagrams.receives[who].poll().bytes == 45
        assert datagrams.receives[who].page.head == 1
    datagrams.clients[2].objects.detach(member)
    for who in (1, 2):
        datagrams.post(who)
    assert datagrams.send(1, ah=ah, remote_qpn=hca.HCA_MULTICAST_QPN) == 0
    assert datagrams.receives[1].poll().bytes == 45
    assert datagrams.receives[2].page.head == 1


@pytest.mark.parametrize(
    ("first", "second", "arrives"),
    [
        (0xFFFF, 0xFFFF, True),
        (0x8005, 0x0005, True),
        (0x0005, 0x8005, True),
        (0x0005, 0x0005, False),
        (0x8005, 0x8006, False),
        (0, 0x8000, False),
        (0x8000, 0x8000, False),
    ],
)
def test_partitions_match_as_infiniband_has_it(datagrams, first, second, arrives):
    datagrams.clients[0].objects.set_pkeys((first,))
    datagrams.clients[1].objects.set_pkeys((second,))
    datagrams.post(1)
    assert datagrams.send(1) == 0
    assert until(lambda: datagrams.receives[1].page.head == 1, 10 if arrives else 0.05) == arrives


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
def shared(engine):
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


def test_two_queue_pairs_share_receives_in_their_order(shared):
    pair, srq, pairs = shared
    for i in range(4):
        srq.receive((BASE + 64 * i, 64, pair.there.key))
    for i in range(4):
        pairs[i % 2][0].send(Op.SEND, inline=b"abcd"[i : i + 1] * 3)
        got = pair.b_recv.poll()
        assert (got.status, got.id, got.qpn) == (0, i, pairs[i % 2][1].number)
        assert pair.there.view[64 * i : 64 * i + 4] == b"abcd"[i : i + 1] * 3 + b"\0"


def test_who_waits_for_a_shared_receive_goes_on_when_it_comes(shared):
    pair, srq, pairs = shared
    pairs[0][0].send(Op.SEND, inline=b"early")
    assert not until(lambda: pair.b_recv.page.head != 0, 0.05)
    srq.receive((BASE, 64, pair.there.key))
    assert pair.b_recv.poll(1.0).bytes == 5


def test_a_limit_is_an_event_once(shared):
    pair, srq, pairs = shared
    for _ in range(4):
        srq.receive((BASE, 64, pair.there.key))
    pair.b.objects.modify_srq(hca.HcaSrqModify(srq.handle, 3))
    assert pair.b.objects.query_srq(srq.handle).limit == 3
    for _ in range(3):
        pairs[0][0].send(Op.SEND, inline=b"x")
        pair.b_recv.poll()
    assert pair.b.events() == [(Event.SRQ_LIMIT_REACHED, srq.handle)]
    assert pair.b.objects.query_srq(srq.handle).limit == 0


def test_one_queue_pair_dies_and_the_other_keeps_the_queue(shared):
    pair, srq, pairs = shared
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
    made = pair.b.objects.create_window(hca.HcaMwCreate(pair.b.pd, kind)).handle
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


def test_nobody_invalidates_what_is_no_window(pair):
    pair.qb.receive((BASE, 8, pair.there.key))
    pair.qa.send(Op.SEND_WITH_INV, inline=b"over", immediate=pair.there.key)
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR


def test_draining_ends_what_is_begun_and_keeps_the_rest(pair):
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


def test_a_completion_queue_is_resized_with_what_lies_in_it(pair):
    for i in range(5):
        pair.qa.send(Op.RDMA_WRITE, id=100 + i)
    assert until(lambda: pair.a_send.page.head == 5)
    assert pair.a_send.poll().id == 100
    with pytest.raises(OSError, match="Invalid"):
        pair.a.objects.resize_cq(hca.HcaCqResize(pair.a_send.handle, 2))
    for entries in (4, 256):
        resized = pair.a.objects.resize_cq(hca.HcaCqResize(pair.a_send.handle, entries))
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
