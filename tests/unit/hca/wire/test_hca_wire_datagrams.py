"""Datagrams over UDP: delivery, policy verdicts for senders, and forgeries."""

import random
import socket
import struct
from contextlib import ExitStack

import pytest

from hca.contract import hca_engine
from hca.contract.verbs import (
    VerbsDone as Done,
    VerbsOpcode as Op,
    VerbsQpType,
    VerbsStatus as Status,
    VerbsWcFlag as Flag,
)
from support.oracles import roce
from support.oracles.roce import UD, Packet, atomic_eth, deth, reth
from support.rigs import rdma_lab
from support.rigs.hca_rig import BASE, until
from support.rigs.rdma_lab import allow, policy
from support.wire import wire_rig
from support.wire.wire_judging import QKEY, Node, nodes, pods_of, writes_alone

GRH = 40
MESSAGE = bytes(i * 7 % 251 for i in range(4096))
SERVER = {"app": "server"}


@pytest.fixture
def stage(engines):
    """A datagram queue pair, and a socket that sends arbitrary packets."""
    with ExitStack() as stack:
        node = Node(engines[0])
        stack.callback(node.close)
        node.qp.listen(QKEY)
        yield node, stack.enter_context(Forger())


class Forger(socket.socket):
    """A peer simulated by a socket."""

    def __init__(self) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_DGRAM)
        self.ip = wire_rig.fresh_address()
        self.bind((self.ip, roce.PORT))

    def say(self, node: Node, data: bytes = b"forged!!", **changes: object) -> None:
        """Send a datagram that is valid except for ``changes``."""
        packet = Packet(
            UD | roce.SEND_ONLY, node.qp.number, 1, deth(QKEY, 0x55), data, ack=False
        ).but(**changes)
        self.sendto(packet.seal(self.ip, node.ip), (node.ip, roce.PORT))


def send(a: Node, b: Node, data: bytes = b"hello", opcode=Op.SEND, qkey=QKEY, **values: int) -> int:
    ah = a.client.ah(b.gid)
    a.qp.send(
        *(opcode, (), data), address_handle=ah, remote_qpn=b.qp.number, remote_key=qkey, **values
    )
    return a.send_cq.poll().status


@pytest.mark.parametrize("size", [0, 1, 255, 4096])
@pytest.mark.parametrize("opcode", [Op.SEND, Op.SEND_WITH_IMM])
def test_a_datagram_arrives_behind_the_header_that_hardware_shows(listeners, size, opcode):
    a, b = listeners
    here, there = a.region(), b.region()
    here.view[:size] = MESSAGE[:size]
    b.qp.receive((BASE, 4096 + GRH, there.key))
    a.qp.send(
        *(opcode, [(BASE, size, here.key)] if size else []),
        address_handle=a.client.ah(b.gid),
        remote_qpn=b.qp.number,
        remote_key=QKEY,
        immediate=0x01020304,
    )
    assert a.send_cq.poll().status == 0
    came = b.recv_cq.poll()
    assert (came.status, came.opcode, came.bytes) == (0, Done.RECV, GRH + size)
    assert (came.source_qpn, came.qpn) == (a.qp.number, b.qp.number)
    if opcode == Op.SEND:
        assert came.flags == Flag.GRH
    else:
        assert (came.flags, came.immediate) == (Flag.GRH | Flag.WITH_IMM, 0x01020304)
    header = bytes(there.view[:GRH])
    assert (header[20] >> 4, header[29]) == (4, 17)
    assert struct.unpack_from("!H", header, 22) == (20 + 8 + 12 + 8 + size + 4,)
    assert header[32:36] == a.gid[12:]
    assert header[36:] == b.gid[12:]
    assert bytes(there.view[GRH : GRH + size]) == MESSAGE[:size]


def test_many_arrive_in_their_order_and_the_first_is_not_lost(listeners):
    a, b = listeners
    there = b.region()
    for place in range(60):
        b.qp.receive((BASE + 64 * place, 64, there.key))
    ah = a.client.ah(b.gid)
    for place in range(60):
        named = {"address_handle": ah, "remote_qpn": b.qp.number, "remote_key": QKEY}
        a.qp.send(Op.SEND, (), b"%04d" % place, **named)
    assert a.send_cq.statuses(60) == [0] * 60
    assert b.recv_cq.statuses(60) == [0] * 60
    assert [int(there.view[64 * i + GRH :][:4]) for i in range(60)] == list(range(60))
    assert b.counts.unjudged == 0


def test_a_datagram_is_answered_by_its_header(listeners):
    """ibv_create_ah_from_wc does the same: it replies to the source's GID and queue pair."""
    a, b = listeners
    here, there = a.region(), b.region()
    b.qp.receive((BASE, 64, there.key))
    a.qp.receive((BASE, 64, here.key))
    assert send(a, b, b"ask") == 0
    came = b.recv_cq.poll()
    back = b.client.ah(bytes(10) + b"\xff\xff" + bytes(there.view[32:36]))
    b.qp.send(
        *(Op.SEND, (), b"tell"), address_handle=back, remote_qpn=came.source_qpn, remote_key=QKEY
    )
    assert a.recv_cq.poll().bytes == GRH + 4
    assert bytes(here.view[GRH : GRH + 4]) == b"tell"


def test_a_message_longer_than_the_path_carries_is_an_error(engines):
    with nodes(*engines, path_mtu=3) as (a, b):
        for node in (a, b):
            node.qp.listen(QKEY)
        here, there = a.region(), b.region()
        b.qp.receive((BASE, 8192, there.key))
        for size, status in ((1024, Status.SUCCESS), (1025, Status.LOC_LEN_ERR)):
            a.qp.send(
                *(Op.SEND, [(BASE, size, here.key)]),
                address_handle=a.client.ah(b.gid),
                remote_qpn=b.qp.number,
                remote_key=QKEY,
            )
            assert a.send_cq.poll().status == status
        assert b.recv_cq.poll().bytes == GRH + 1024


@pytest.mark.parametrize(
    ("changes", "counter"),
    [
        ({"headers": deth(QKEY + 1, 0x55)}, "bad_qkey"),
        ({"pkey": 0x8001}, "bad_pkey"),
        ({"qpn": 0xABCDEF}, "unknown_qp"),
        ({"opcode": UD | roce.SEND_FIRST}, "malformed"),
        ({"opcode": UD | roce.WRITE_ONLY}, "malformed"),
        ({"opcode": roce.SEND_ONLY, "headers": b""}, "unknown_qp"),
    ],
    ids=["qkey", "pkey", "qpn", "first", "write", "connected"],
)
def test_an_invalid_datagram_changes_nothing_and_needs_no_verdict(stage, changes, counter):
    node, peer = stage
    region = node.region()
    node.qp.receive((BASE, 100, region.key))
    peer.say(node, **changes)
    assert until(lambda: getattr(node.counts, counter) == 1)
    assert node.enforcer.connected == 0
    peer.say(node)
    assert node.recv_cq.poll().bytes == GRH + 8
    assert bytes(region.view[GRH : GRH + 8]) == b"forged!!"


def test_a_wrong_checksum_changes_nothing(stage):
    node, peer = stage
    packet = Packet(UD | roce.SEND_ONLY, node.qp.number, 1, deth(QKEY, 5), b"forged!!")
    data = bytearray(packet.seal(peer.ip, node.ip))
    data[-5] ^= 1
    peer.sendto(data, (node.ip, roce.PORT))
    assert until(lambda: node.counts.bad_icrc == 1)
    assert node.enforcer.connected == 0


def test_a_sender_evicted_by_a_flood_is_evaluated_again(stage, monkeypatch):
    monkeypatch.setattr("hca.daemon.policy.sources.MAX_SOURCES", 3)
    node, first = stage
    region = node.region()
    with ExitStack() as stack:
        peers = [first, *(stack.enter_context(Forger()) for _ in range(9))]
        for peer in (*peers, first):
            node.qp.receive((BASE, 100, region.key))
            peer.say(node)
            assert node.recv_cq.poll().status == 0
            assert node.enforcer.connected <= 3


def test_datagrams_that_wait_for_a_verdict_are_bounded(engines):
    """While hcad is busy, 64 datagrams wait: the oldest are lost, the others arrive in order."""
    with ExitStack() as stack:
        node = Node(engines[0], depth=128)
        stack.callback(node.close)
        peer = stack.enter_context(Forger())
        node.qp.listen(QKEY)
        region = node.region()
        for place in range(70):
            node.qp.receive((BASE + 64 * place, 64, region.key))
        with node.busy():
            for place in range(70):
                peer.say(node, b"%04d" % place)
                assert until(lambda expected=place + 1: node.counts.received == expected)
            assert node.counts.unjudged == 6
            assert node.recv_cq.page.head == 0
        assert node.recv_cq.statuses(64) == [0] * 64
        came = [int(region.view[64 * i + GRH :][:4]) for i in range(64)]
        assert came == list(range(6, 70))
        assert node.counts.received == 70


@pytest.mark.parametrize("side", ["source", "destination"])
def test_the_responder_evaluates_the_policies_of_both_sides(stage, side):
    """The peer is a socket, so no other engine can have denied anything."""
    node, peer = stage
    region = node.region()
    pods = pods_of(node.ip, peer.ip, labels=("server", "client"))
    node.replace_tables(rdma_lab.tables(1, pods))
    for _ in range(2):
        node.qp.receive((BASE, 100, region.key))
    peer.say(node)
    assert node.recv_cq.poll().status == 0
    node.replace_tables(rdma_lab.tables(2, pods, [writes_alone(side)]))
    region.view[:100] = bytes(100)
    for _ in range(3):
        peer.say(node)
    assert until(lambda: node.counts.denied == 3)
    assert not any(region.view[:100])
    (rule,) = node.rules()
    assert rule["denied"] == 3
    node.replace_tables(rdma_lab.tables(3, pods))
    peer.say(node)
    assert node.recv_cq.poll().status == 0


def test_a_pod_in_no_tables_reaches_no_peer(stage):
    node, peer = stage
    node.replace_tables(rdma_lab.tables(1, pods_of(node.ip, labels=["server"])))
    node.qp.receive((BASE, 100, node.region().key))
    peer.say(node)
    assert until(lambda: node.counts.denied == 1)


def test_a_denied_sender_sends_nothing_and_gets_no_error(listeners):
    a, b = listeners
    denying = policy(SERVER, ingress=[allow("Write")])
    a.replace_tables(rdma_lab.tables(1, pods_of(a.ip, b.ip), [denying]))
    assert send(a, b) == 0
    assert a.counts.sent == 0
    assert a.rules()[0]["denied"] == 1


def test_a_ceiling_holds_datagrams_on_the_wire_back(listeners):
    a, b = listeners
    limited = policy(SERVER, ingress=[allow(limits={"ops": "200"})])
    a.replace_tables(rdma_lab.tables(1, pods_of(a.ip, b.ip), [limited]))
    assert send(a, b) == 0  # the burst is 2
    assert send(a, b) == 0
    row = next(iter(a.enforcer.flows._rows.values()))
    before = row_operations(a, row)
    ah = a.client.ah(b.gid)
    named = {"address_handle": ah, "remote_qpn": b.qp.number, "remote_key": QKEY}
    for _ in range(20):
        a.qp.send(Op.SEND, (), b"x", **named)
    first = a.send_cq.poll()
    stamps = [first.timestamp, *(a.send_cq.poll().timestamp for _ in range(19))]
    assert stamps[-1] - stamps[0] >= 0.9 * 18 / 200 * 1e9
    assert row_operations(a, row) == before + 20


def row_operations(node: Node, row) -> int:
    counts: hca_engine.HcaFlowCounts = node.engine.read_flows([row.engine])[0]
    return sum(counts.operations)


@pytest.mark.parametrize("seed", range(4))
def test_the_engine_survives_any_packet(engines, seed):
    """Packets of any opcode, half of them plausible, are sent to queue pairs of each type."""
    chosen = random.Random(seed)
    with ExitStack() as stack:
        node = Node(engines[0], depth=16)
        stack.callback(node.close)
        peer = stack.enter_context(Forger())
        node.qp.listen(QKEY)
        guarded, region = node.client.region(access=0), node.region()
        pairs = [
            node.client.qp(node.send_cq, node.recv_cq, kind=kind)
            for kind in (VerbsQpType.RC, VerbsQpType.UC)
        ]
        values = {**wire_rig.RELIABLE, "sgid_index": 1, "dgid": wire_rig.gid_of(peer.ip)}
        for qp in pairs:
            qp.connect(qp, **values, path_mtu=1, dest_qpn=0x55, rq_psn=100)
        numbers = [node.qp.number, *(qp.number for qp in pairs)]
        for qp in (node.qp, *pairs):
            for place in range(8):
                qp.receive((BASE + 512 * place, 512, region.key))
        for sent in range(400):
            opcode = chosen.choice(
                (*range(24), *(roce.UC | one for one in range(12)), UD | 4, UD | 5)
            )
            if chosen.random() < 0.1:
                opcode = chosen.randrange(256)
            key = chosen.choice((region.key, guarded.key, 5))
            size = chosen.choice((0, 8, chosen.randrange(1 << 32)))
            known = (
                *(deth(QKEY, 7), reth(BASE + chosen.randrange(4096), key, size)),
                atomic_eth(BASE + chosen.randrange(16), key, 1, 0),
                chosen.randbytes(chosen.randrange(32)),
            )
            length = chosen.choice((0, 8, 255, 256, 257))
            headers = b"".join(chosen.sample(known, chosen.randrange(3)))
            psn = chosen.choice((100 + sent // 3, chosen.randrange(1 << 24)))
            packet = Packet(opcode, chosen.choice(numbers), psn, headers, chosen.randbytes(length))
            peer.sendto(packet.seal(peer.ip, node.ip), (node.ip, roce.PORT))
            assert until(lambda expected=sent + 1: node.counts.received == expected)
        assert not any(guarded.view[:])
    with nodes(*engines) as (a, b):
        a.qp.listen(QKEY)
        b.qp.listen(QKEY)
        b.qp.receive((BASE, 100, b.region().key))
        assert send(a, b) == 0
        assert b.recv_cq.poll().status == 0
