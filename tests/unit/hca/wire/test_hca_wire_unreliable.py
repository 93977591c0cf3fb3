"""Unreliable connections over UDP: a message arrives whole or not at all, without an error."""

import os
import random
import socket
from contextlib import ExitStack

import pytest

from hca.contract.hca_engine import HcaPolicyChange
from hca.contract.verbs import (
    VerbsDone as Done,
    VerbsOpcode as Op,
    VerbsQpType,
    VerbsState,
    VerbsStatus as Status,
    VerbsWcFlag,
)
from rdma.verbs import ALL, NONE, Verb
from support.oracles import roce
from support.oracles.roce import UC, Packet, reth
from support.rigs.hca_rig import ALL_ACCESS, BASE, until
from support.wire import wire_rig
from support.wire.wire_rig import BadNetwork, End, Ends

KIND = VerbsQpType.UC
QPN = 0x123456
MESSAGE = bytes(i * 7 % 251 for i in range(70000))
BAD = {"drop": 0.04, "twice": 0.04, "late": 0.04, "corrupt": 0.03}
SEEDS = int(os.environ.get("HCA_WIRE_SEEDS", "12"))
ROOM = 4000


@pytest.fixture
def pair(engines):
    with wire_rig.ends(*engines, kind=KIND) as made:
        yield made


class Stage:
    """A queue pair with memory at PSN 100, whose peer is a socket."""

    def __init__(self, engine, stack: ExitStack) -> None:
        self.end = End(engine, kind=KIND)
        stack.callback(self.end.close)
        self.ip = wire_rig.fresh_address()
        self.peer = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.peer.bind((self.ip, roce.PORT))
        self.peer.settimeout(60)
        self.end.connect(self.ip, QPN, rq_psn=100, sq_psn=500, path_mtu=1)
        self.region = self.end.region()
        self.came = 0

    def send(self, opcode: int, psn: int, payload: bytes = b"", headers: bytes = b"") -> None:
        packet = Packet(UC | opcode, self.end.qp.number, psn, headers, payload, ack=False)
        self.peer.sendto(packet.seal(self.ip, self.end.ip), (self.end.ip, roce.PORT))
        self.came += 1
        assert until(lambda: self.end.counts.received == self.came)

    @property
    def completions(self) -> int:
        return self.end.recv_cq.page.head - self.end.recv_cq.tail


@pytest.fixture
def stage(engines):
    with ExitStack() as stack:
        yield Stage(engines[0], stack)


@pytest.mark.parametrize("size", [0, 1, 1024, 1025, 70000])
@pytest.mark.parametrize("opcode", [Op.SEND, Op.SEND_WITH_IMM, Op.RDMA_WRITE_WITH_IMM])
def test_messages_of_every_shape_arrive(pair, opcode, size):
    pair.here.view[:size] = MESSAGE[:size]
    pair.b.qp.receive((BASE, 80000, pair.there.key))
    pair.a.qp.send(
        *(opcode, [(BASE, size, pair.here.key)] if size else []),
        remote_address=BASE,
        remote_key=pair.there.key,
        immediate=0x11223344,
    )
    assert pair.a.send_cq.poll().status == 0
    came = pair.b.recv_cq.poll()
    assert (came.status, came.bytes, came.source_qpn) == (0, size, pair.a.qp.number)
    assert came.opcode == (
        Done.RECV_RDMA_WITH_IMM if opcode == Op.RDMA_WRITE_WITH_IMM else Done.RECV
    )
    if opcode != Op.SEND:
        assert (came.immediate, came.flags) == (0x11223344, VerbsWcFlag.WITH_IMM)
    assert pair.there.view[:size] == MESSAGE[:size]


def test_writes_arrive_and_are_answered_by_nothing(pair):
    pair.here.view[:70000] = MESSAGE
    pair.a.qp.send(
        *(Op.RDMA_WRITE, [(BASE, 70000, pair.here.key)]),
        remote_address=BASE + 5,
        remote_key=pair.there.key,
    )
    done = pair.a.send_cq.poll()
    assert (done.status, done.opcode) == (0, Done.RDMA_WRITE)
    assert until(lambda: pair.there.view[5:70005] == MESSAGE)
    assert pair.b.counts.sent == 0


@pytest.mark.parametrize("opcode", [Op.RDMA_READ, Op.ATOMIC_FETCH_AND_ADD, Op.SEND_WITH_INV])
def test_an_unreliable_connection_has_no_reads_atomics_or_invalidation(pair, opcode):
    pair.a.qp.send(
        *(opcode, [(BASE, 8, pair.here.key)]), remote_address=BASE, remote_key=pair.there.key
    )
    assert pair.a.send_cq.poll().status == Status.LOC_QP_OP_ERR
    assert pair.a.qp.state == VerbsState.SQE


def test_after_an_error_of_its_own_it_sends_again(pair):
    """It changes from SQE back to RTS; the next message does not complete a partly sent one."""
    gone = pair.a.client.region(access=ALL_ACCESS)
    pair.b.qp.receive((BASE, 80000, pair.there.key))
    pair.a.qp.send(Op.SEND, [(BASE, 8, 1)])
    pair.a.qp.send(Op.SEND, [(BASE, 8, gone.key)])
    assert pair.a.send_cq.statuses(2) == [Status.LOC_PROT_ERR, Status.WR_FLUSH_ERR]
    pair.a.qp.modify(1, state=VerbsState.RTS)
    pair.a.qp.send(Op.SEND, (), b"again")
    assert pair.a.send_cq.poll().status == 0
    assert pair.b.recv_cq.poll().bytes == 5


def test_a_message_without_a_receive_request_is_dropped_and_the_next_arrives(pair):
    pair.a.qp.send(Op.SEND, (), b"dropped")
    assert pair.a.send_cq.poll().status == 0
    assert until(lambda: pair.b.counts.received == 1)
    pair.b.qp.receive((BASE, 100, pair.there.key))
    pair.a.qp.send(Op.SEND, (), b"there")
    assert pair.b.recv_cq.poll().bytes == 5
    assert bytes(pair.there.view[:5]) == b"there"
    assert pair.b.qp.state == VerbsState.RTS


@pytest.mark.parametrize(
    ("headers", "payload"),
    [(lambda key: reth(BASE, key ^ 1, 8), b"forged!!"), (lambda key: reth(0, key, 8), b"forged!!")],
    ids=["key", "range"],
)
def test_a_denied_write_ends_no_queue_pair(stage, headers, payload):
    stage.send(roce.WRITE_ONLY, 100, payload, headers(stage.region.key))
    assert not any(stage.region.view[:])
    assert stage.end.qp.state == VerbsState.RTS
    assert stage.end.client.events() == []
    stage.send(roce.WRITE_ONLY, 101, payload, reth(BASE, stage.region.key, 8))
    assert until(lambda: bytes(stage.region.view[:8]) == payload)


def test_a_message_with_a_gap_is_dropped_whole(stage):
    """The message's receive request is used for the next one."""
    stage.end.qp.receive((BASE, 4096, stage.region.key))
    part = b"x" * 256
    stage.send(roce.SEND_FIRST, 100, part)
    stage.send(roce.SEND_MIDDLE, 102, part)
    stage.send(roce.SEND_LAST, 103, b"end")
    stage.send(roce.SEND_LAST, 101, b"end")  # late: the message to which it belongs was dropped
    assert stage.completions == 0
    stage.send(roce.SEND_FIRST, 104, part)
    stage.send(roce.SEND_LAST, 105, b"end")
    came = stage.end.recv_cq.poll()
    assert (came.status, came.id, came.bytes) == (0, 0, 259)
    assert stage.end.counts.gaps == 3


def test_a_first_ends_a_message_whose_last_is_missing(stage):
    stage.end.qp.receive((BASE, 4096, stage.region.key))
    stage.send(roce.SEND_FIRST, 100, b"x" * 256)
    stage.send(roce.SEND_ONLY, 101, b"only")
    assert stage.end.recv_cq.poll().bytes == 4
    stage.send(roce.SEND_LAST, 102, b"end")
    assert stage.end.counts.out_of_sequence == 1
    assert stage.completions == 0


def test_a_duplicate_packet_is_executed_once(stage):
    for _ in range(2):
        stage.end.qp.receive((BASE, 4096, stage.region.key))
    for _ in range(3):
        stage.send(roce.SEND_ONLY, 100, b"only")
    assert stage.end.recv_cq.poll().status == 0
    assert stage.completions == 0
    assert stage.end.counts.duplicates == 2


@pytest.mark.parametrize("opcode", [roce.SEND_ONLY_INV, roce.READ_REQUEST, roce.ACKNOWLEDGE])
def test_an_opcode_without_this_transport_is_malformed(stage, opcode):
    stage.send(opcode, 100, b"", bytes(roce.header_bytes(opcode)))
    assert stage.end.counts.malformed == 1
    assert stage.end.qp.state == VerbsState.RTS


def set_policy(engine, qp, sends=ALL, receives=ALL) -> None:
    own = qp.client.objects._qps[qp.number].engine
    engine.set_policies([HcaPolicyChange(own, pkey=0xFFFF, sends=sends, receives=receives)])


@pytest.mark.parametrize("denier", ["requester", "responder"])
@pytest.mark.parametrize(
    "allowed", [NONE, ALL & ~Verb.WRITE & ~Verb.WRITE_IMM], ids=["nothing", "not this"]
)
def test_a_message_denied_by_either_end_is_dropped_silently(engines, pair, denier, allowed):
    if denier == "requester":
        set_policy(engines[0], pair.a.qp, sends=allowed)
    else:
        set_policy(engines[1], pair.b.qp, receives=allowed)
    pair.here.view[:3000] = MESSAGE[:3000]
    for address in (BASE, BASE + 8192):
        pair.a.qp.send(
            *(Op.RDMA_WRITE, [(BASE, 3000, pair.here.key)]),
            remote_address=address,
            remote_key=pair.there.key,
        )
        assert pair.a.send_cq.poll().status == 0
        if address == BASE and denier == "requester":
            assert pair.a.counts.sent == 0
            set_policy(engines[0], pair.a.qp)
        elif address == BASE:
            assert until(lambda: pair.b.counts.denied == 3)
            set_policy(engines[1], pair.b.qp)
    assert until(lambda: pair.there.view[8192:11192] == MESSAGE[:3000])
    assert not any(pair.there.view[:8192])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_over_a_bad_network_messages_arrive_whole_in_order_and_once(engines, seed):
    chosen, network = random.Random(seed), BadNetwork(seed, **BAD)
    pair = Ends(*engines, network, kind=KIND, path_mtu=1, sq_psn=0xFFFFF0, rq_psn=0xFFFFF0)
    try:
        sizes = [chosen.choice((1, 100, 256, 257, chosen.randrange(ROOM))) for _ in range(60)]
        for place in range(30):
            pair.b.qp.receive((BASE + place * ROOM, ROOM, pair.there.key))
        pair.here.view[:] = chosen.randbytes(len(pair.here.view))
        for place, size in enumerate(sizes):
            if place % 30 == 0 and place:
                wait_until_finished(pair, network)
            pair.a.qp.send(Op.SEND_WITH_IMM, [(BASE + place, size, pair.here.key)], immediate=place)
        assert pair.a.send_cq.statuses(len(sizes)) == [0] * len(sizes)
        wait_until_finished(pair, network)
        before, count = -1, 0
        while pair.b.recv_cq.page.head != pair.b.recv_cq.tail:
            came = pair.b.recv_cq.poll()
            assert (came.status, came.id) == (0, count)
            assert came.immediate > before
            assert came.bytes == sizes[came.immediate]
            at = came.id * ROOM
            found = pair.there.view[at : at + came.bytes]
            assert found == pair.here.view[came.immediate :][: came.bytes]
            before, count = came.immediate, count + 1
        assert count > 5, "some arrive"
    finally:
        pair.close()
        network.close()


def wait_until_finished(pair: Ends, network: BadNetwork) -> None:
    """Wait until all packets sent have arrived or were lost."""
    done = network.done
    assert until(
        lambda: (
            pair.a.send_cq.page.head == pair.a.qp.page.send_head
            and network.passed + done["drop"] - done["twice"] == pair.a.counts.sent
            and pair.b.counts.received == network.passed
        )
    )
