"""Congestion on the wire: senders of marked packets slow down, and forging does no harm."""

import contextlib
import socket
import time
from contextlib import ExitStack

import pytest

from hca.contract.verbs import VerbsOpcode as Op, VerbsStatus as Status
from support.oracles import roce
from support.oracles.roce import Packet, reth
from support.rigs.hca_rig import BASE, until
from support.wire import wire_rig
from support.wire.wire_rig import BadNetwork, End, Ends
from support.wire.wire_watcher import CNP, ECT_0, MARKED, Watcher, notification

QPN = 0x123456
NOTIFY_SECONDS = 50e-6
LEAST_RATE = 5e6
SIZE = 1 << 17


@pytest.fixture
def engine(engines):
    return engines[0]


@pytest.fixture
def stage(engine):
    """A queue pair at PSN 100, its memory, and a connected peer."""
    with ExitStack() as stack:
        end = End(engine)
        stack.callback(end.close)
        peer = Watcher()
        stack.callback(peer.socket.close)
        end.connect(peer.ip, QPN, rq_psn=100, sq_psn=500, path_mtu=1, timeout=18)
        yield end, peer, end.region()


def write_of(end: End, region, psn: int) -> bytes:
    """Return a WRITE packet that will be executed."""
    header = reth(BASE, region.key, 8)
    return Packet(roce.WRITE_ONLY, end.qp.number, psn, header, b"12345678").encode()


def test_packets_have_the_requested_dscp_and_are_ecn_capable(engine):
    with ExitStack() as stack:
        end = End(engine)
        stack.callback(end.close)
        peer = Watcher()
        stack.callback(peer.socket.close)
        region = end.region()
        end.connect(peer.ip, QPN, sq_psn=500, traffic_class=0x68 | 1, timeout=18)
        end.qp.send(
            *(Op.RDMA_WRITE, [(BASE, 8, region.key)]), remote_address=BASE, remote_key=7, flags=2
        )
        tos, data = peer.receive()
        assert (tos, data[0]) == (0x68 | ECT_0, roce.WRITE_ONLY), "its ECN bits are the engine's"


def test_a_marked_packet_s_sender_is_notified(stage):
    end, peer, region = stage
    peer.send(end, write_of(end, region, 100), ECT_0)
    assert peer.receive()[1][0] == roce.ACKNOWLEDGE
    assert end.counts.np_ecn_marked == 0
    peer.send(end, write_of(end, region, 101), MARKED)
    kinds = {}
    for _ in range(2):
        tos, data = peer.receive()
        kinds[data[0]] = tos, data
    assert set(kinds) == {CNP, roce.ACKNOWLEDGE}, "and it is carried out"
    tos, data = kinds[CNP]
    assert tos == 48 << 2, "CS6, and not to be marked itself"
    assert data[:-4] == notification(QPN)
    assert (end.counts.np_ecn_marked, end.counts.np_cnp_sent) == (1, 1)


def test_a_peer_is_notified_once_in_fifty_microseconds(stage):
    end, peer, region = stage
    began = time.monotonic()
    for psn in range(100, 400):
        peer.send(end, write_of(end, region, psn), MARKED)
    assert until(lambda: end.counts.np_ecn_marked == 300)
    passed = time.monotonic() - began
    notified = end.counts.np_cnp_sent
    assert 1 <= notified <= 1 + passed / NOTIFY_SECONDS
    while notified:
        notified -= peer.receive()[1][0] == CNP
    assert end.counts.np_cnp_sent <= 1 + passed / NOTIFY_SECONDS, "and no more come later"


def test_a_marked_acknowledgement_causes_no_notification(stage):
    end, peer, region = stage
    end.qp.send(*(Op.RDMA_WRITE, [(BASE, 8, region.key)]), remote_address=BASE, remote_key=7)
    peer.receive()
    answer = Packet(roce.ACKNOWLEDGE, end.qp.number, 500, roce.aeth(0x1F), ack=False)
    peer.send(end, answer.encode(), MARKED)
    assert end.send_cq.poll().status == Status.SUCCESS
    assert end.counts.np_ecn_marked == 0


FORGED = {
    "unknown queue pair": ({"_7": 0, "_6": 0, "_5": 0}, "unknown_qp"),
    "of another partition": ({"_3": 0x12}, "bad_pkey"),
    "without its mark": ({"_4": 0}, "malformed"),
    "of another version": ({"_1": 0x41}, "malformed"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_notification_that_is_wrong_changes_nothing(stage, name):
    end, peer, region = stage
    changes, counter = FORGED[name]
    end.qp.send(*(Op.RDMA_WRITE, [(BASE, 8, region.key)]), remote_address=BASE, remote_key=7)
    peer.receive()
    peer.send(end, notification(end.qp.number, **changes))
    assert until(lambda: getattr(end.counts, counter) == 1)
    assert end.counts.rp_cnp_handled == 0


def test_a_notification_of_another_address_or_with_a_wrong_checksum_is_dropped(stage):
    end, peer, region = stage
    end.qp.send(*(Op.RDMA_WRITE, [(BASE, 8, region.key)]), remote_address=BASE, remote_key=7)
    peer.receive()
    stranger = Watcher()
    stranger.send(end, notification(end.qp.number))
    assert until(lambda: end.counts.wrong_source == 1)
    stranger.socket.close()
    peer.socket.sendto(notification(end.qp.number) + bytes(4), (end.ip, roce.PORT))
    assert until(lambda: end.counts.bad_icrc == 1)
    peer.socket.sendto(notification(end.qp.number)[:-4] + bytes(4), (end.ip, roce.PORT))
    assert until(lambda: end.counts.malformed == 1), "its length"
    assert end.counts.rp_cnp_handled == 0


def test_a_notification_about_nothing_and_one_too_many_are_ignored(stage):
    end, peer, region = stage
    peer.send(end, notification(end.qp.number))
    assert until(lambda: end.counts.rp_cnp_ignored == 1), "it has sent nothing"
    end.qp.send(*(Op.RDMA_WRITE, [(BASE, 8, region.key)]), remote_address=BASE, remote_key=7)
    peer.receive()
    for _ in range(2):
        peer.send(end, notification(end.qp.number))
    assert until(lambda: end.counts.rp_cnp_ignored == 2)
    assert end.counts.rp_cnp_handled == 1


def write_all(pair: Ends, count: int, size: int = SIZE) -> float:
    """Execute ``count`` WRITEs; return how many seconds they took."""
    began = time.monotonic()
    for _ in range(count):
        pair.a.qp.send(
            *(Op.RDMA_WRITE, [(BASE, size, pair.here.key)]),
            remote_address=BASE,
            remote_key=pair.there.key,
        )
    assert pair.a.send_cq.statuses(count) == [Status.SUCCESS] * count
    return time.monotonic() - began


class Marking(BadNetwork):
    """A network that marks every packet."""

    def __init__(self) -> None:
        super().__init__(1)
        for bound in self._sockets:
            bound.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, MARKED)


@pytest.mark.parametrize("opcode", [Op.RDMA_WRITE, Op.RDMA_READ])
def test_a_sender_through_congestion_slows_down_and_completes(engines, opcode):
    """The sender of the data is notified, which for a READ is the responder."""
    network = Marking()
    pair = Ends(*engines, network, timeout=14, path_mtu=5)
    try:
        pair.here.view[:] = bytes(range(256)) * 512
        pair.there.view[:] = bytes(range(256)) * 512
        for _ in range(8):
            pair.a.qp.send(
                *(opcode, [(BASE, SIZE, pair.here.key)]),
                remote_address=BASE,
                remote_key=pair.there.key,
            )
            assert pair.a.send_cq.poll().status == Status.SUCCESS
        assert bytes(pair.there.view) == bytes(pair.here.view)
        sender, receiver = (pair.a, pair.b) if opcode == Op.RDMA_WRITE else (pair.b, pair.a)
        assert receiver.counts.np_ecn_marked > 0
        assert receiver.counts.np_cnp_sent > 0
        assert 0 < sender.counts.rp_cnp_handled <= receiver.counts.np_cnp_sent
        assert sender.counts.np_cnp_sent == 0
    finally:
        pair.close()
        network.close()


def test_without_congestion_no_sender_is_notified(engines):
    with wire_rig.ends(*engines, path_mtu=5) as pair:
        write_all(pair, 8)
        for end in (pair.a, pair.b):
            assert end.counts.np_cnp_sent == end.counts.rp_cnp_handled == 0


class Flood:
    """Sends forged notifications with the connected peer's address, as fast as possible."""

    def __init__(self, pair: Ends) -> None:
        self._raw = pair.b.ip, pair.a.ip, pair.a.qp.number
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((pair.b.ip, 0))
        self.socket.setblocking(False)
        port = self.socket.getsockname()[1]
        data = notification(pair.a.qp.number)
        self._data = data + roce.icrc(pair.b.ip, port, pair.a.ip, data)

    def send(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.socket.sendto(self._data, (self._raw[1], roce.PORT))


def test_a_flood_of_forged_notifications_does_not_stop_a_flow(engines):
    """They have the connected peer's address, a valid queue pair and a correct checksum."""
    with wire_rig.ends(*engines, path_mtu=5, timeout=20) as pair:
        flood = Flood(pair)
        pair.a.qp.send(
            *(Op.RDMA_WRITE, [(BASE, SIZE, pair.here.key)]),
            remote_address=BASE,
            remote_key=pair.there.key,
        )
        began = time.monotonic()
        while pair.a.send_cq.page.head == pair.a.send_cq.tail:
            flood.send()
            assert time.monotonic() - began < 60 + SIZE / LEAST_RATE
        assert pair.a.send_cq.poll().status == Status.SUCCESS
        began = time.monotonic()
        for _ in range(4):
            pair.a.qp.send(
                *(Op.RDMA_WRITE, [(BASE, SIZE, pair.here.key)]),
                remote_address=BASE,
                remote_key=pair.there.key,
            )
        while pair.a.send_cq.page.head < 5:
            flood.send()
            assert time.monotonic() - began < 60, "the least rate is 5 MB/s"
        flood.socket.close()
        assert pair.a.send_cq.statuses(4) == [Status.SUCCESS] * 4
        counts = pair.a.counts
        assert counts.rp_cnp_handled > 0
        assert counts.rp_cnp_ignored > 0, "more than one in 50 us"
        assert counts.timeouts == 0, "what is held back is not late"
