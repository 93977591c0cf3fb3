"""A change of address in SQD: packets go only to the peer for which policy was evaluated.

The wire's peers are sockets, so that each packet is observed where it arrives.
"""

import errno
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hca.binding.addresses import address_of
from hca.contract.verbs import (
    VerbsMask as Mask,
    VerbsOpcode as Op,
    VerbsQpType,
    VerbsState as State,
    VerbsStatus as Status,
)
from hca.daemon.common.numbers import Numbers
from support.oracles import roce
from support.oracles.roce import Packet, aeth, reth
from support.rigs import rdma_lab
from support.rigs.hca_rig import BASE, Client, until
from support.rigs.rdma_lab import allow, policy
from support.wire import wire_rig
from support.wire.wire_judging import Node, pods_of
from support.wire.wire_peer import Peer
from support.wire.wire_rig import End

SENT, COMES = 500, 100
"""PSNs of the first packet in each direction: sent, received."""
ACK = 0x1F


class Stage:
    """A queue pair, two peers on the wire and one on its node, all with the same number."""

    def __init__(self, stack: ExitStack, node: Node) -> None:
        self.node, self.qp = node, node.qp
        self.first, self.second = (Peer(wire_rig.fresh_address()) for _ in range(2))
        for peer in (self.first, self.second):
            stack.callback(peer.socket.close)
        self.neighbour = Client(node.engine, Numbers(), 1, node.enforcer)
        stack.callback(self.neighbour.objects.close)
        cq = self.neighbour.cq()
        self.near = self.neighbour.qp(cq, cq, kind=node.qp.kind)
        self.here, self.there = node.region(), self.neighbour.region()

    def connect(self, gid: bytes) -> None:
        """Connect to an address, up to RTS."""
        values = {**wire_rig.RELIABLE, "sgid_index": 1, "dgid": gid, "path_mtu": 1}
        numbers = {"dest_qpn": self.near.number, "sq_psn": SENT, "rq_psn": COMES}
        self.qp.connect(self.qp, **values, **numbers)  # type: ignore[arg-type]

    def expect(self, sends: int, receives: int) -> None:
        """Make the neighbour's queue pair the peer, with these PSNs."""
        values = {**wire_rig.RELIABLE, "sgid_index": 1, "dgid": self.node.gid, "path_mtu": 1}
        numbers = {"dest_qpn": self.qp.number, "sq_psn": sends, "rq_psn": receives}
        self.near.connect(self.near, **values, **numbers)  # type: ignore[arg-type]

    def turn(self, gid: bytes) -> None:
        """Change to another address and return to RTS. Raises OSError."""
        self.qp.modify(Mask.STATE, state=State.SQD)
        self.address(gid)
        self.qp.modify(Mask.STATE, state=State.RTS)

    def address(self, gid: bytes) -> None:
        """Set another address in SQD. Raises OSError."""
        path = {"is_global": 1, "av_port": 1, "sgid_index": 1, "dgid": gid}
        self.qp.modify(Mask.STATE | Mask.AV, state=State.SQD, **path)

    def write(self, data: bytes = b"written!") -> None:
        """Post a WRITE to the address of the neighbour's memory."""
        self.here.view[: len(data)] = data
        self.qp.send(
            *(Op.RDMA_WRITE, [(BASE, len(data), self.here.key)]),
            remote_address=BASE,
            remote_key=self.there.key,
        )

    def answer(self, peer: Peer, psn: int) -> None:
        """Let a peer acknowledge a packet."""
        acknowledge = Packet(roce.ACKNOWLEDGE, self.qp.number, psn, aeth(ACK, 1))
        peer.send(self.node, acknowledge)  # type: ignore[arg-type]

    def arrives(self, peer: Peer) -> int:
        """Post a WRITE and check that it arrives at a peer and completes; return its PSN."""
        self.write()
        came = peer.receive()
        assert came.payload == b"written!"
        if self.qp.kind == VerbsQpType.RC:
            self.answer(peer, came.psn)
        assert self.node.send_cq.poll().status == Status.SUCCESS
        return came.psn

    def ask(self, peer: Peer, opcode: int, psn: int, payload: bytes, size: int = 0) -> None:
        """Let a peer write into the queue pair's memory."""
        first = opcode & 31 in (roce.WRITE_FIRST, roce.WRITE_ONLY)
        header = reth(BASE + 4096, self.here.key, size or len(payload)) if first else b""
        packet = Packet(opcode, self.qp.number, psn, header, payload)
        peer.send(self.node, packet)  # type: ignore[arg-type]

    @property
    def written(self) -> bytes:
        """Return what peers have written."""
        return bytes(self.here.view[4096:4104])


def gid(peer: Peer) -> bytes:
    return wire_rig.gid_of(peer.ip)


def has_nothing(peer: Peer) -> bool:
    peer.socket.setblocking(False)
    try:
        peer.socket.recv(4096)
    except BlockingIOError:
        return True
    finally:
        peer.socket.settimeout(60)
    return False


def on_stage(engines, kind: VerbsQpType) -> Iterator[Stage]:
    with ExitStack() as stack:
        node = Node(engines[0], kind=kind)
        stack.callback(node.close)
        yield Stage(stack, node)


@pytest.fixture
def stage(engines):
    yield from on_stage(engines, VerbsQpType.RC)


@pytest.fixture(params=[VerbsQpType.RC, VerbsQpType.UC], ids=["RC", "UC"])
def each_kind(engines, request):
    yield from on_stage(engines, request.param)


def test_a_wire_leads_to_the_address_that_the_queue_pair_has(each_kind):
    stage = each_kind
    stage.connect(gid(stage.first))
    assert stage.arrives(stage.first) == SENT
    stage.turn(gid(stage.second))
    assert stage.arrives(stage.second) == SENT + 1, "its PSNs go on"
    assert has_nothing(stage.first)
    stage.turn(gid(stage.first))
    assert stage.arrives(stage.first) == SENT + 2
    assert has_nothing(stage.second)


def test_packets_of_the_previous_peer_are_dropped_and_psns_continue(stage):
    stage.connect(gid(stage.first))
    assert stage.arrives(stage.first) == SENT
    stage.ask(stage.first, roce.WRITE_ONLY, COMES, b"by first")
    assert stage.first.receive().syndrome == ACK
    stage.turn(gid(stage.second))
    stage.write()
    sent = stage.second.receive().psn
    stage.answer(stage.first, sent)  # too late, and for another peer
    stage.ask(stage.first, roce.WRITE_ONLY, COMES + 1, b"no more!")
    assert until(lambda: stage.node.counts.wrong_source == 2)
    assert stage.node.send_cq.page.head == 1
    assert stage.written == b"by first"
    stage.answer(stage.second, sent)
    assert stage.node.send_cq.poll().status == Status.SUCCESS
    stage.ask(stage.second, roce.WRITE_ONLY, COMES + 1, b"bysecond")
    assert (answer := stage.second.receive()).syndrome == ACK
    assert answer.psn == COMES + 1
    assert stage.written == b"bysecond"


def test_a_message_of_the_peer_before_is_not_the_next_one_s(stage):
    """Its key and address came from the first peer: the second must not continue with them."""
    stage.connect(gid(stage.first))
    stage.ask(stage.first, roce.WRITE_FIRST, COMES, bytes(256), size=264)
    assert until(lambda: stage.node.counts.received == 1)
    stage.turn(gid(stage.second))
    stage.ask(stage.second, roce.WRITE_LAST, COMES + 1, b"goes on!")
    stage.ask(stage.second, roce.WRITE_ONLY, COMES + 1, b"its own!")
    assert stage.second.receive().psn == COMES + 1
    assert stage.node.counts.out_of_sequence == 1
    assert stage.written == b"its own!"


def test_a_message_of_the_peer_before_keeps_its_receive_request_for_the_next(stage):
    stage.connect(gid(stage.first))
    stage.qp.receive((BASE + 8192, 512, stage.here.key))
    stage.ask(stage.first, roce.SEND_FIRST, COMES, bytes(256))
    assert until(lambda: stage.node.counts.received == 1)
    stage.turn(gid(stage.second))
    stage.ask(stage.second, roce.WRITE_ONLY, COMES + 1, b"written!")
    assert stage.second.receive().psn == COMES + 1
    assert stage.node.recv_cq.page.head == 0, "a WRITE completes no receive request"
    stage.ask(stage.second, roce.SEND_ONLY, COMES + 2, b"received")
    done = stage.node.recv_cq.poll()
    assert (done.status, done.bytes) == (Status.SUCCESS, 8)
    assert bytes(stage.here.view[8192:8200]) == b"received"


def test_a_read_of_the_previous_peer_is_not_answered_to_the_next(engines):
    """The port sends a response slowly: most of it would be sent after the change."""
    with ExitStack() as stack:
        end = End(engines[0], bytes_per_second=1 << 15)
        stack.callback(end.close)
        first, second = (Peer(wire_rig.fresh_address()) for _ in range(2))
        for peer in (first, second):
            stack.callback(peer.socket.close)
        end.connect(first.ip, 0x123456, rq_psn=COMES, path_mtu=3)
        size = 1 << 20
        region = end.region(size)
        request = reth(BASE, region.key, size)
        first.send(end, Packet(roce.READ_REQUEST, end.qp.number, COMES, request))
        assert first.receive().opcode == roce.RESPONSE_FIRST
        end.qp.modify(Mask.STATE, state=State.SQD)
        path = {"is_global": 1, "av_port": 1, "sgid_index": 1, "dgid": gid(second)}
        end.qp.modify(Mask.STATE | Mask.AV, state=State.SQD, **path)
        end.qp.modify(Mask.STATE, state=State.RTS)
        psn = COMES + (size >> 10)
        write = Packet(roce.WRITE_ONLY, end.qp.number, psn, reth(BASE, region.key, 8), b"written!")
        second.send(end, write)
        answer = second.receive()
        assert (answer.opcode, answer.psn) == (roce.ACKNOWLEDGE, psn)


def test_from_the_wire_to_a_queue_pair_of_the_node(each_kind):
    stage = each_kind
    stage.connect(gid(stage.first))
    assert stage.arrives(stage.first) == SENT
    stage.expect(sends=COMES, receives=SENT + 1)
    stage.turn(stage.neighbour.gid)
    assert stage.node.client.objects.query_qp(stage.qp.number).sq_psn == SENT + 1
    stage.write(b"to node!")
    assert stage.node.send_cq.poll().status == Status.SUCCESS
    assert bytes(stage.there.view[:8]) == b"to node!"
    stage.answer(stage.first, SENT + 1)
    assert until(lambda: stage.node.counts.unknown_qp == 1)
    assert has_nothing(stage.first)
    stage.turn(gid(stage.second))
    assert stage.arrives(stage.second) == SENT + 1


def test_from_a_queue_pair_of_the_node_to_the_wire(each_kind):
    stage = each_kind
    stage.expect(sends=COMES, receives=SENT)
    stage.connect(stage.neighbour.gid)
    stage.write(b"to node!")
    assert stage.node.send_cq.poll().status == Status.SUCCESS
    stage.turn(gid(stage.first))
    assert stage.arrives(stage.first) == SENT
    assert bytes(stage.there.view[:8]) == b"to node!"
    transport = roce.UC if stage.qp.kind == VerbsQpType.UC else 0
    stage.ask(stage.first, roce.WRITE_ONLY | transport, COMES, b"by first")
    assert until(lambda: stage.written == b"by first")


def test_an_address_stays_while_a_request_is_under_way(stage):
    stage.connect(gid(stage.first))
    stage.write()
    sent = stage.first.receive()
    stage.qp.modify(Mask.STATE, state=State.SQD)
    for target in (gid(stage.second), stage.neighbour.gid):
        with pytest.raises(OSError, match="not drained") as err:
            stage.address(target)
        assert err.value.errno == errno.EINVAL
    stage.answer(stage.first, sent.psn)
    assert stage.node.send_cq.poll().status == Status.SUCCESS
    stage.address(gid(stage.second))
    stage.qp.modify(Mask.STATE, state=State.RTS)
    assert stage.arrives(stage.second) == SENT + 1
    assert has_nothing(stage.first)


def apply(stage: Stage, **verbs: str) -> None:
    """Allow the client these verbs with each peer; allow the peers nothing with the client."""
    pods = pods_of(
        *(stage.node.ip, stage.first.ip, stage.second.ip, str(address_of(1).ip)),
        labels=("client", "first", "second", "neighbour"),
    )
    rules = [
        allow(verb, to=[{"podSelector": {"matchLabels": {"app": app}}}])
        for app, verb in verbs.items()
    ]
    isolating = policy({"app": "client"}, policyTypes=["Ingress", "Egress"], egress=rules)
    stage.node.replace_tables(rdma_lab.tables(1, pods, [isolating]))


def test_a_peer_that_policy_denies_is_reached_by_no_other_s_rights(stage):
    """The client may write to the second peer only: no WRITE arrives at the first."""
    apply(stage, first="Read", second="Write")
    stage.connect(gid(stage.first))
    stage.turn(gid(stage.second))
    assert stage.arrives(stage.second) == SENT
    stage.turn(gid(stage.first))
    stage.write()
    assert stage.node.send_cq.poll().status == Status.REM_ACCESS_ERR
    assert has_nothing(stage.first)
    assert has_nothing(stage.second)


def test_a_change_refused_by_policy_keeps_the_peer(stage):
    apply(stage, first="Write")
    stage.connect(gid(stage.first))
    assert stage.arrives(stage.first) == SENT
    stage.qp.modify(Mask.STATE, state=State.SQD)
    for target in (gid(stage.second), stage.neighbour.gid):
        with pytest.raises(PermissionError):
            stage.address(target)
    stage.qp.modify(Mask.STATE, state=State.RTS)
    assert stage.arrives(stage.first) == SENT + 1
    assert has_nothing(stage.second)
