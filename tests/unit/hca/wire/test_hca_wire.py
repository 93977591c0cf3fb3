"""Reliable connections over UDP: delivery of data, and the errors at both ends.

The tests are like those of test_hca_engine.
"""

import socket
import time
from contextlib import ExitStack

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
from support.oracles import roce
from support.rigs.hca_rig import BASE, until
from support.wire import wire_rig
from support.wire.wire_rig import Ends

MESSAGE = bytes(i * 7 % 251 for i in range(70000))


@pytest.fixture(params=[False, True], ids=["packets", "segments"])
def pair(engines, request):
    made = Ends(*engines, segments=request.param)
    yield made
    made.close()


@pytest.fixture
def plain(engines):
    made = Ends(*engines)
    yield made
    made.close()


def ask(pair: Ends, opcode: int, size: int, remote: int = BASE, flags: int = 2, **values: int):
    """Post a request from ``a``; it uses the first regions of ``a`` and ``b``."""
    pair.a.qp.send(
        *(opcode, [(BASE, size, pair.here.key)] if size else []),
        **{"remote_address": remote, "remote_key": pair.there.key, "flags": flags, **values},
    )


SIZES = (0, 1, 3, 1023, 1024, 1025, 4096, 70000)


@pytest.mark.parametrize("size", SIZES)
def test_writes_of_every_shape_arrive(pair, size):
    pair.here.view[:size] = MESSAGE[:size]
    ask(pair, Op.RDMA_WRITE, size, BASE + 5)
    done = pair.a.send_cq.poll()
    assert (done.status, done.opcode, done.qpn) == (0, VerbsDone.RDMA_WRITE, pair.a.qp.number)
    assert pair.there.view[5 : 5 + size] == MESSAGE[:size]
    assert not any(pair.there.view[5 + size : 5 + size + 64])
    assert not any(pair.there.view[:5])


def test_each_end_counts_the_bytes_of_its_packets(pair):
    """BTH, RETH, ICRC (12, 16 and 4 bytes) and the padded data; an ACK has AETH (4 bytes)."""
    ask(pair, Op.RDMA_WRITE, 1025)
    pair.a.send_cq.poll()
    here, there = pair.a.counts, pair.b.counts
    assert (here.sent, there.received) == (2, 2)
    sent = (12 + 16 + 1024 + 4) + (12 + 4 + 4)
    assert (here.sent_bytes, there.received_bytes) == (sent, sent)
    assert (there.sent, here.received) == (1, 1)
    assert (there.sent_bytes, here.received_bytes) == (12 + 4 + 4, 12 + 4 + 4)


@pytest.mark.parametrize("size", SIZES)
def test_reads_of_every_shape_arrive(pair, size):
    pair.there.view[7 : 7 + size] = MESSAGE[:size]
    ask(pair, Op.RDMA_READ, size, BASE + 7)
    done = pair.a.send_cq.poll()
    assert (done.status, done.opcode) == (0, VerbsDone.RDMA_READ)
    assert pair.here.view[:size] == MESSAGE[:size]
    assert not any(pair.here.view[size : size + 64])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("opcode", [Op.SEND, Op.SEND_WITH_IMM, Op.RDMA_WRITE_WITH_IMM])
def test_what_takes_a_receive_request(pair, opcode, size):
    pair.here.view[:size] = MESSAGE[:size]
    key = pair.there.key
    pair.b.qp.receive((BASE, 1000, key), (BASE + 1000, 0, key), (BASE + 2000, 80000, key))
    ask(pair, opcode, size, BASE, immediate=0x11223344)
    assert pair.a.send_cq.poll().status == 0
    received = pair.b.recv_cq.poll()
    write = opcode == Op.RDMA_WRITE_WITH_IMM
    kind = VerbsDone.RECV_RDMA_WITH_IMM if write else VerbsDone.RECV
    assert (received.status, received.opcode, received.bytes) == (0, kind, size)
    assert (received.qpn, received.source_qpn) == (pair.b.qp.number, pair.a.qp.number)
    if opcode == Op.SEND:
        assert received.flags == 0
    else:
        assert (received.immediate, received.flags) == (0x11223344, VerbsWcFlag.WITH_IMM)
    there = pair.there.view
    arrived = there[:size] if write else there[: min(size, 1000)] + there[2000 : 1000 + size]
    assert arrived[:size] == MESSAGE[:size]


def test_inline_data_and_lists_of_addresses(pair):
    pair.a.qp.send(*(Op.RDMA_WRITE, ()), b"inline", remote_address=BASE, remote_key=pair.there.key)
    pair.here.view[:4096] = MESSAGE[:4096]
    key = pair.here.key
    pair.a.qp.send(
        *(Op.RDMA_WRITE, [(BASE, 1, key), (BASE + 1, 0, key), (BASE + 1, 4000, key)]),
        remote_address=BASE + 100,
        remote_key=pair.there.key,
    )
    assert pair.a.send_cq.statuses(2) == [0, 0]
    assert pair.there.view[:6] == b"inline"
    assert pair.there.view[100:4101] == MESSAGE[:4001]


def test_many_requests_end_in_their_order_and_numbers_of_packets_wrap(engines):
    """There are more requests than the window holds, and PSNs exceed 24 bits."""
    with wire_rig.ends(*engines, sq_psn=0xFFFFF0, rq_psn=0xFFFFF0) as pair:
        count = 0
        for round_ in range(8):
            for i in range(40):
                pair.a.qp.send(
                    *(Op.RDMA_WRITE, [(BASE + i * 1100, 1100, pair.here.key)]),
                    remote_address=BASE + i * 1100,
                    remote_key=pair.there.key,
                )
            pair.here.view[:44000] = MESSAGE[round_ : 44000 + round_]
            for _ in range(40):
                done = pair.a.send_cq.poll()
                assert (done.status, done.id) == (0, count)
                count += 1
        ask(pair, Op.RDMA_WRITE, 44000)
        assert pair.a.send_cq.poll().status == 0
        assert pair.there.view[:44000] == MESSAGE[7:44007]


def test_both_directions_at_once(plain):
    for _ in range(30):
        ask(plain, Op.RDMA_WRITE, 5000)
        plain.b.qp.send(
            *(Op.RDMA_READ, [(BASE + 60000, 5000, plain.there.key)]),
            remote_address=BASE,
            remote_key=plain.here.key,
        )
    assert plain.a.send_cq.statuses(30) == [0] * 30
    assert plain.b.send_cq.statuses(30) == [0] * 30


def test_a_fenced_request_waits_for_reads(plain):
    """The WRITE overwrites what the earlier READ fetches; later READs see the new data."""
    for round_ in range(20):
        before, after = bytes([round_ * 2 + 1]) * 60000, bytes([round_ * 2 + 2]) * 60000
        plain.there.view[:60000] = before
        plain.here.view[65000:125000] = after
        ask(plain, Op.RDMA_READ, 60000)
        plain.a.qp.send(
            *(Op.RDMA_WRITE, [(BASE + 65000, 60000, plain.here.key)]),
            remote_address=BASE,
            remote_key=plain.there.key,
            flags=VerbsSend.FENCE | VerbsSend.SIGNALED,
        )
        assert plain.a.send_cq.statuses(2) == [0, 0]
        assert plain.here.view[:60000] == before
        assert plain.there.view[:60000] == after


def test_only_solicited_completions_wake_a_queue_armed_for_them(plain):
    plain.b.recv_cq.page.armed = 2
    for flags in (VerbsSend.SIGNALED, VerbsSend.SIGNALED | VerbsSend.SOLICITED):
        plain.b.qp.receive((BASE, 100, plain.there.key))
        assert plain.b.recv_cq.page.events == 0
        ask(plain, Op.SEND, 8, flags=flags)
        plain.b.recv_cq.poll()
    assert until(lambda: plain.b.recv_cq.page.events == 1)


def other_key(pair):
    return {"remote_key": pair.there.key ^ 0x55555}


@pytest.mark.parametrize(
    ("opcode", "change"),
    [
        (Op.RDMA_WRITE, other_key),
        (Op.RDMA_READ, other_key),
        (Op.RDMA_WRITE, lambda pair: {"remote": BASE + (1 << 17) - 10}),
        (Op.RDMA_READ, lambda pair: {"remote": BASE - 1}),
        (Op.RDMA_WRITE_WITH_IMM, lambda pair: {"remote": (1 << 64) - 5}),
    ],
    ids=["key", "key-read", "beyond", "before", "around"],
)
def test_remote_errors_end_both_and_nothing_changes(plain, opcode, change):
    ask(plain, Op.RDMA_WRITE, 16, flags=0)
    plain.b.qp.receive()
    ask(plain, opcode, 3000, **change(plain))
    assert plain.a.send_cq.poll().status == Status.REM_ACCESS_ERR
    assert until(lambda: plain.b.qp.state == VerbsState.ERR)
    assert plain.a.qp.state == VerbsState.ERR
    events = plain.b.client.events()
    assert events == [(VerbsEvent.QP_ACCESS_ERR, plain.b.qp.number)]
    assert plain.b.recv_cq.poll().status == Status.WR_FLUSH_ERR
    assert not any(plain.there.view[16:])


@pytest.mark.parametrize("opcode", [Op.RDMA_WRITE, Op.RDMA_READ])
def test_a_queue_pair_that_does_not_allow_it(engines, opcode):
    with wire_rig.ends(*engines, access=VerbsAccess.LOCAL_WRITE) as pair:
        ask(pair, opcode, 8)
        assert pair.a.send_cq.poll().status == Status.REM_ACCESS_ERR


def test_a_receive_request_that_is_too_short(plain):
    plain.b.qp.receive((BASE, 2000, plain.there.key))
    ask(plain, Op.SEND, 3000)
    assert plain.a.send_cq.poll().status == Status.REM_INV_REQ_ERR
    assert plain.b.recv_cq.poll().status == Status.LOC_LEN_ERR
    assert plain.b.qp.state == VerbsState.ERR


@pytest.mark.parametrize(
    ("values", "there"),
    [({}, Status.LOC_PROT_ERR), ({"sge_count": 17}, Status.LOC_QP_OP_ERR)],
    ids=["key", "count"],
)
def test_a_receive_request_with_an_error(plain, values, there):
    plain.b.qp.receive((BASE, 2000, plain.there.key ^ 1), **values)
    ask(plain, Op.SEND, 8)
    assert plain.a.send_cq.poll().status == Status.REM_OP_ERR
    assert plain.b.recv_cq.poll().status == there


def test_local_errors_complete_in_order_and_do_not_reach_the_peer(plain):
    ask(plain, Op.RDMA_WRITE, 8)
    plain.a.qp.send(
        *(Op.RDMA_WRITE, [(BASE, 8, plain.here.key ^ 1)]),
        remote_address=BASE,
        remote_key=plain.there.key,
    )
    ask(plain, Op.RDMA_WRITE, 8)
    statuses = plain.a.send_cq.statuses(3)
    assert statuses == [0, Status.LOC_PROT_ERR, Status.WR_FLUSH_ERR]
    assert plain.b.qp.state == VerbsState.RTS


def test_no_receive_request_is_waited_for_and_ends(engines):
    with wire_rig.ends(*engines, rnr_retry=2, min_rnr_timer=14) as pair:
        started = time.monotonic()
        ask(pair, Op.SEND, 8)
        assert pair.a.send_cq.poll().status == Status.RNR_RETRY_EXC_ERR
        assert 2 * 0.00128 <= time.monotonic() - started < 60
        assert pair.b.qp.state == VerbsState.RTS, "nothing happens there"


@pytest.mark.parametrize("opcode", [Op.SEND, Op.RDMA_WRITE_WITH_IMM])
def test_a_receive_request_that_comes_late_is_used(plain, opcode):
    for _ in range(5):
        ask(plain, opcode, 3000)
    plain.here.view[:3000] = MESSAGE[:3000]
    assert until(lambda: plain.a.counts.received >= 3)
    for i in range(5):
        plain.b.qp.receive((BASE + 4000 * i, 4000, plain.there.key))
    assert plain.a.send_cq.statuses(5) == [0] * 5
    assert [plain.b.recv_cq.poll().bytes for _ in range(5)] == [3000] * 5
    assert plain.b.recv_cq.page.head == 5, "each once"


def test_an_absent_peer_is_waited_for_and_ends(engines):
    with wire_rig.ends(*engines, timeout=9, retry_count=2) as pair:
        pair.b.qp.modify(1, state=VerbsState.RESET)
        started = time.monotonic()
        ask(pair, Op.RDMA_WRITE, 8)
        assert pair.a.send_cq.poll().status == Status.RETRY_EXC_ERR
        assert 3 * 0.0020 <= time.monotonic() - started < 60
        assert pair.a.counts.timeouts == 2
        assert until(lambda: pair.b.counts.unknown_qp >= 3)


def test_a_queue_pair_can_be_connected_again(plain):
    ask(plain, Op.RDMA_WRITE, 8)
    assert plain.a.send_cq.poll().status == 0
    for end in (plain.a, plain.b):
        end.qp.modify(1, state=VerbsState.RESET)
    plain.a.connect(plain.b.ip, plain.b.qp.number, sq_psn=9, rq_psn=77)
    plain.b.connect(plain.a.ip, plain.a.qp.number, sq_psn=77, rq_psn=9)
    plain.here.view[:8] = b"once more"[:8]
    ask(plain, Op.RDMA_WRITE, 8)
    assert plain.a.send_cq.poll().status == 0
    assert plain.there.view[:8] == b"once mor"


def test_a_full_completion_queue_ends_its_queue_pair(engines):
    with wire_rig.ends(*engines) as pair:
        small = pair.a.client.cq(4)
        qp = pair.a.client.qp(small, pair.a.recv_cq)
        qp.connect(
            qp,
            **{**wire_rig.RELIABLE, "sgid_index": 1, "dgid": wire_rig.gid_of(pair.b.ip)},
            dest_qpn=pair.b.qp.number,
        )
        pair.b.qp.modify(1, state=VerbsState.RESET)
        pair.b.connect(pair.a.ip, qp.number)
        for _ in range(6):
            qp.send(
                *(Op.RDMA_WRITE, [(BASE, 8, pair.here.key)]),
                remote_address=BASE,
                remote_key=pair.there.key,
            )
        assert until(lambda: qp.state == VerbsState.ERR)
        kinds = {kind for kind, _ in pair.a.client.events()}
        assert kinds == {VerbsEvent.CQ_ERR, VerbsEvent.QP_FATAL}


def test_memory_that_goes_away_under_a_request(plain):
    """The responder's program deregisters the memory."""
    plain.b.client.objects.destroy_region(plain.there.key)
    ask(plain, Op.RDMA_READ, 60000)
    assert plain.a.send_cq.poll().status == Status.REM_ACCESS_ERR


def test_a_path_mtu_is_bounded_by_the_ports(plain):
    plain.a.client.objects._mtu = 3
    plain.a.qp.modify(1, state=VerbsState.RESET)
    with pytest.raises(OSError, match="path MTU 4, at most 3"):
        plain.a.connect(plain.b.ip, plain.b.qp.number, path_mtu=4)


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5])
def test_every_path_mtu(engines, code):
    with wire_rig.ends(*engines, path_mtu=code) as pair:
        pair.here.view[:70000] = MESSAGE
        ask(pair, Op.RDMA_WRITE, 70000)
        ask(pair, Op.RDMA_READ, 70000)
        assert pair.a.send_cq.statuses(2) == [0, 0]
        assert pair.there.view[:70000] == MESSAGE
        assert pair.a.counts.sent >= 70000 // (128 << code)


def test_queue_pairs_of_one_engine_need_no_packets(engines):
    """An address of the same engine is reached through memory, as without a wire."""
    with wire_rig.ends(engines[0], engines[0]) as pair:
        pair.here.view[:8] = b"directly"
        ask(pair, Op.RDMA_WRITE, 8)
        assert pair.a.send_cq.poll().status == 0
        assert pair.there.view[:8] == b"directly"
        assert pair.a.counts.sent == 0


def test_flow_labels_choose_the_port(engines):
    """A label always selects the same port, so packets stay in order; several select several."""
    ports = set()
    with wire_rig.ends(*engines) as pair:
        watched = wire_rig.fresh_address()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as watching:
            watching.bind((watched, roce.PORT))
            watching.settimeout(60)
            for label in range(1, 9):
                qp = pair.a.client.qp(pair.a.send_cq, pair.a.recv_cq)
                values = {**wire_rig.RELIABLE, "dgid": wire_rig.gid_of(watched), "sgid_index": 1}
                qp.connect(qp, **values, flow_label=label, dest_qpn=label)
                seen, came = set(), 0
                for _ in range(2):
                    qp.send(Op.SEND, ())
                while came < 2:  # earlier queue pairs repeat packets that got no response
                    packet, sender = watching.recvfrom(4096)
                    if int.from_bytes(packet[5:8], "big") == label:
                        seen.add(sender[1])
                        came += 1
                assert len(seen) == 1
                ports |= seen
    assert len(ports) == 2


def test_a_removed_wire_ends_its_connections(engines):
    with ExitStack() as stack:
        pair = Ends(*engines)
        stack.callback(pair.b.close)
        stack.callback(pair.a.sockets.close)
        stack.callback(pair.a.client.objects.close)
        engines[0].remove_wire(pair.a.wire)
        assert pair.a.qp.state == VerbsState.ERR
        assert pair.a.client.events() == [(VerbsEvent.QP_FATAL, pair.a.qp.number)]


def test_idle_engines_sleep(engines):
    with wire_rig.ends(*engines) as pair:
        ask(pair, Op.RDMA_WRITE, 8)
        assert pair.a.send_cq.poll().status == 0
        time.sleep(0.2)
        before = [engine.counters()[1] for engine in engines]
        time.sleep(0.3)
        after = [engine.counters()[1] for engine in engines]
        assert [now - then for now, then in zip(after, before, strict=True)] == [0, 0]
        ask(pair, Op.RDMA_WRITE, 8)
        assert pair.a.send_cq.poll().status == 0, "a packet wakes the responder"


def test_where_the_kernel_cannot_cut_packets_they_go_one_by_one(engines, monkeypatch):
    """Without UDP checksums the kernel refuses segmentation (EINVAL), as for links without it."""
    opened = wire_rig.open_sockets

    def unable(*given, **named):
        made = opened(*given, **named)
        for one in made.sockets:
            one.setsockopt(socket.SOL_SOCKET, 11, 1)  # SO_NO_CHECK
        return made

    monkeypatch.setattr(wire_rig, "open_sockets", unable)
    made = Ends(*engines, segments=True)
    try:
        made.here.view[: len(MESSAGE)] = MESSAGE
        ask(made, Op.RDMA_WRITE, len(MESSAGE))
        assert made.a.send_cq.poll().status == 0
        assert made.there.view[: len(MESSAGE)] == MESSAGE
        refused = made.a.counts.send_errors
        assert refused >= 1
        ask(made, Op.RDMA_WRITE, len(MESSAGE))
        assert made.a.send_cq.poll().status == 0
        assert made.a.counts.send_errors == refused, "it is tried once"
    finally:
        made.close()
