"""QoS classes on the wire: DSCP marks, sharing by weight, minimum and maximum rates."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from hca.contract.hca_engine import HcaPolicyChange, HcaQosClass
from hca.contract.verbs import VerbsOpcode as Op, VerbsState, VerbsStatus as Status
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties
from rdma.objects import PodFacts
from rdma.verbs import ALL
from support.oracles import roce
from support.oracles.roce import Packet, reth
from support.rigs import hca_rig, rdma_lab
from support.rigs.hca_rig import BASE, Qp, until
from support.wire import wire_rig
from support.wire.wire_rig import RELIABLE, End
from support.wire.wire_watcher import CNP, ECT_0, MARKED, Watcher

QPN = 0x123456
MESSAGE = 1 << 16
PORT_RATE = 10_000_000


@pytest.fixture(autouse=True)
def no_classes(engines) -> Iterator[None]:
    yield
    engines[0].set_qos_classes([])


def put(engine, qp: Qp, qos_class: int) -> None:
    """Set a queue pair's class."""
    own = qp.client.objects._qps[qp.number].engine
    change = HcaPolicyChange(own, pkey=0xFFFF, sends=ALL, receives=ALL, qos_class=qos_class)
    engine.set_policies([change])


@dataclass
class Flow:
    """A queue pair of one end, and its requests to its peer at the other end."""

    qp: Qp
    cq: hca_rig.Cq
    here: hca_rig.Region
    there: hca_rig.Region
    peer: Qp
    times: list[int] = field(default_factory=list)

    def post(self, count: int, opcode: Op = Op.RDMA_WRITE) -> None:
        """Post ``count`` messages."""
        for _ in range(count):
            self.qp.send(
                *(opcode, [(BASE, MESSAGE, self.here.key)]),
                remote_address=BASE,
                remote_key=self.there.key,
            )

    def gather(self) -> int:
        """Return how many have been executed so far."""
        while self.cq.page.head != self.cq.tail:
            taken = self.cq.poll()
            assert taken.status == Status.SUCCESS
            self.times.append(taken.timestamp)
        return len(self.times)

    def gathered_with(self, other: "Flow") -> int:
        """Return how many had been executed when the other flow's last message was.

        The engine's timestamps are used, because this test may check much later.
        """
        self.gather()
        return sum(time <= other.times[-1] for time in self.times)


class Port:
    """An end whose packets share a port, and some flows from it to one other end."""

    def __init__(self, engines, stack: ExitStack, rate: int = 0) -> None:
        self.engine = engines[0]
        self.a = End(engines[0], bytes_per_second=rate)
        stack.callback(self.a.close)
        self.b = End(engines[1])
        stack.callback(self.b.close)

    def flow(self, qos_class: int = 0) -> Flow:
        """Connect two queue pairs, the first one in a class."""
        a, b = self.a.client, self.b.client
        cq = a.cq(256)
        first, second = a.qp(cq, cq, depth=64), b.qp(self.b.send_cq, self.b.recv_cq, depth=64)
        values = {**RELIABLE, "timeout": 20, "sgid_index": 1}
        first.connect(first, **values, dgid=wire_rig.gid_of(self.b.ip), dest_qpn=second.number)
        second.connect(second, **values, dgid=wire_rig.gid_of(self.a.ip), dest_qpn=first.number)
        put(self.engine, first, qos_class)
        return Flow(first, cq, a.region(MESSAGE), b.region(MESSAGE), second)


def test_packets_have_their_class_s_dscp_whatever_the_program_sets(engines):
    with ExitStack() as stack:
        end, peer = End(engines[0]), Watcher()
        stack.callback(end.close)
        stack.callback(peer.socket.close)
        region = end.region()
        end.connect(peer.ip, QPN, rq_psn=100, sq_psn=500, traffic_class=0x68, path_mtu=1)
        engines[0].set_qos_classes(
            [HcaQosClass(weight=1), HcaQosClass(weight=1, traffic_class=40, cnp_traffic_class=96)]
        )
        put(engines[0], end.qp, 2)
        end.qp.send(*(Op.RDMA_WRITE, [(BASE, 8, region.key)]), remote_address=BASE, remote_key=7)
        tos, data = peer.receive()
        assert (tos, data[0]) == (40 | ECT_0, roce.WRITE_ONLY)
        header = reth(BASE, region.key, 8)
        write = Packet(roce.WRITE_ONLY, end.qp.number, 100, header, b"12345678").encode()
        peer.send(end, write, MARKED)
        kinds = {}
        while CNP not in kinds:
            tos, data = peer.receive()
            kinds[data[0]] = tos
        assert kinds[CNP] == 96


@pytest.mark.parametrize("weights", [(4, 1), (1, 4)])
def test_classes_share_a_port_by_weight(engines, weights):
    with ExitStack() as stack:
        port = Port(engines, stack, PORT_RATE)
        port.engine.set_qos_classes([HcaQosClass(weight=one) for one in weights])
        flows = [port.flow(1), port.flow(2)]
        for flow in flows:
            flow.post(60)
        heavy, light = sorted(flows, key=lambda one: weights[flows.index(one)], reverse=True)
        assert until(lambda: heavy.gather() == 60, 60)
        assert 60 / 8 <= light.gathered_with(heavy) <= 60 / 2.5, "a quarter of it"
        assert until(lambda: light.gather() == 60, 60), "and then it has all"


def test_a_class_keeps_its_share_against_any_number_of_unclassified_flows(engines):
    with ExitStack() as stack:
        port = Port(engines, stack, PORT_RATE)
        port.engine.set_qos_classes([HcaQosClass(weight=4)])
        chosen, others = port.flow(1), [port.flow() for _ in range(4)]
        for flow in (chosen, *others):
            flow.post(60)
        assert until(lambda: chosen.gather() == 60, 60)
        assert sum(flow.gathered_with(chosen) for flow in others) <= 60 / 2.5


def test_a_class_gets_its_minimum_before_weights_apply(engines):
    with ExitStack() as stack:
        port = Port(engines, stack, PORT_RATE)
        port.engine.set_qos_classes(
            [HcaQosClass(weight=200), HcaQosClass(weight=1, bytes_at_least=PORT_RATE // 2)]
        )
        heavy, promised = port.flow(1), port.flow(2)
        heavy.post(60)
        promised.post(60)
        assert until(lambda: heavy.gather() == 60, 60)
        assert promised.gathered_with(heavy) >= 30, "by weights it would be none"


def test_a_class_has_no_more_than_its_ceiling(engines):
    rate, times = 4_000_000, 16
    with ExitStack() as stack:
        port = Port(engines, stack)
        port.engine.set_qos_classes([HcaQosClass(weight=1, bytes_at_most=rate)])
        flow = port.flow(1)
        began = time.monotonic()
        flow.post(times)
        assert until(lambda: flow.gather() == times, 60)
        assert time.monotonic() - began >= (times - 2) * MESSAGE / rate


def test_all_flows_of_a_class_have_its_ceiling_together(engines):
    rate, times = 4_000_000, 8
    with ExitStack() as stack:
        port = Port(engines, stack)
        port.engine.set_qos_classes([HcaQosClass(weight=1, bytes_at_most=rate)])
        flows = [port.flow(1), port.flow(1)]
        began = time.monotonic()
        for flow in flows:
            flow.post(times)
        assert until(lambda: all(flow.gather() == times for flow in flows), 60)
        assert time.monotonic() - began >= (2 * times - 2) * MESSAGE / rate
        assert port.a.counts.timeouts == 0, "what is held back is not late"


def test_a_read_responder_sends_in_its_own_class(engines):
    rate, times = 4_000_000, 16
    with ExitStack() as stack:
        port = Port(engines, stack)
        flow = port.flow()
        engines[1].set_qos_classes([HcaQosClass(weight=1, bytes_at_most=rate)])
        stack.callback(engines[1].set_qos_classes, [])
        peers = [qp for qp in port.b.client.objects._qps if qp != port.b.qp.number]
        answering = port.b.client.objects._qps[peers[0]].engine
        engines[1].set_policies(
            [HcaPolicyChange(answering, pkey=0xFFFF, sends=ALL, receives=ALL, qos_class=1)]
        )
        flow.there.view[:] = bytes(range(256)) * (MESSAGE // 256)
        began = time.monotonic()
        flow.post(times, Op.RDMA_READ)
        assert until(lambda: flow.gather() == times, 60)
        assert time.monotonic() - began >= (times - 2) * MESSAGE / rate
        assert bytes(flow.here.view) == bytes(flow.there.view)


def test_a_responding_queue_pair_obeys_its_rate(engines):
    """In RTR it only has the turns for which it waits."""
    rate, times = 4_000_000, 8
    with ExitStack() as stack:
        a, b = End(engines[0]), End(engines[1], bytes_per_second=rate)
        for end in (a, b):
            stack.callback(end.close)
        here, there = a.region(MESSAGE), b.region(MESSAGE)
        values: dict[str, Any] = {**RELIABLE, "timeout": 20, "sgid_index": 1}
        values |= {"dgid": wire_rig.gid_of(a.ip), "dest_qpn": a.qp.number}
        b.qp.connect(b.qp, last=VerbsState.RTR, **values)
        a.connect(b.ip, b.qp.number, timeout=20)
        flow = Flow(a.qp, a.send_cq, here, there, b.qp)
        flow.post(times, Op.RDMA_READ)
        assert until(lambda: flow.gather() == times, 60)
        assert a.counts.timeouts == 0, "nothing was retransmitted"


def test_a_port_has_a_rate_without_classes(engines):
    times = 16
    with ExitStack() as stack:
        port = Port(engines, stack, 4_000_000)
        flow = port.flow()
        began = time.monotonic()
        flow.post(times)
        assert until(lambda: flow.gather() == times, 60)
        assert time.monotonic() - began >= (times - 2) * MESSAGE / 4_000_000


def test_a_failed_queue_pair_does_not_delay_others(engines):
    """It was ready to send, and the other class had to wait for it."""
    with ExitStack() as stack:
        port = Port(engines, stack, PORT_RATE)
        port.engine.set_qos_classes([HcaQosClass(weight=200), HcaQosClass(weight=1)])
        failing, other = port.flow(1), port.flow(2)
        failing.post(60)
        other.post(20)
        assert until(lambda: failing.gather() >= 2, 60)
        failing.qp.modify(1, state=6)  # ERR
        assert until(lambda: other.gather() == 20, 60)
        failing.cq.tail = failing.cq.page.head


def test_classes_may_be_replaced_while_they_send(engines):
    with ExitStack() as stack:
        port = Port(engines, stack, PORT_RATE)
        port.engine.set_qos_classes([HcaQosClass(weight=1), HcaQosClass(weight=9)])
        flows = [port.flow(1), port.flow(2)]
        for flow in flows:
            flow.post(40)
        for round_ in range(20):
            port.engine.set_qos_classes([HcaQosClass(weight=1 + i) for i in range(round_ % 3)])
        assert until(lambda: all(flow.gather() == 40 for flow in flows), 60)


def test_tables_say_which_class_a_connection_is_in(engines):
    """A rule, a traffic class's rule, or a DSCP selects it; new tables apply from then on."""
    classes = [{"name": "bulk", "dscp": 10}, {"name": "soon", "dscp": 26, "cnpDscp": 24}]
    network = {"metadata": {"name": "lab"}, "spec": {"qosClasses": classes}}
    rule = {"qosClassName": "bulk"}
    enforcer = Enforcer(engines[0], Parties())
    with ExitStack() as stack:
        end, peer = End(engines[0], enforcer=enforcer), Watcher()
        stack.callback(end.close)
        stack.callback(peer.socket.close)
        pods = [
            PodFacts(f"u{at}", "default", f"p{at}", rdma_lab.NODE, {"at": str(at)}, (ip,))
            for at, ip in enumerate((end.ip, peer.ip))
        ]
        region = end.region()

        def tables(*rules):
            egress = [rdma_lab.policy({"at": "0"}, policyTypes=["Egress"], egress=list(rules))]
            switch(rdma_lab.tables(next(generation), pods, egress if rules else (), [network]))

        def send_and_receive() -> int:
            end.qp.send(
                *(Op.RDMA_WRITE, [(BASE, 8, region.key)]), remote_address=BASE, remote_key=7
            )
            return peer.receive()[0]

        generation, switch = count(1), enforcer.replace_tables
        tables(rule)
        end.connect(peer.ip, QPN, sq_psn=500, path_mtu=1, traffic_class=104, timeout=20)
        assert send_and_receive() == 40 | ECT_0
        tables({"ports": [{"dscp": 26}], "qosClassName": "soon"}, {})
        assert send_and_receive() == 104 | ECT_0
        tables({"ports": [{"dscp": 8}], "qosClassName": "bulk"}, {})
        assert send_and_receive() == 104 | ECT_0, "by its own DSCP"
        tables({"qosClassName": "bulk"})
        assert send_and_receive() == 40 | ECT_0


def test_no_class_waits_for_one_limited_by_its_own_maximum(engines):
    """It always has an answer to send but sends little, so the other class is always ahead."""
    rate, times = 1 << 16, 60  # at its rate the other class would take a minute
    with ExitStack() as stack:
        port = Port(engines, stack)
        port.engine.set_qos_classes(
            [HcaQosClass(weight=1, bytes_at_most=rate), HcaQosClass(weight=1)]
        )
        held, free = port.flow(1), port.flow(2)
        held.here.view[:] = bytes([7]) * MESSAGE
        for _ in range(30):
            held.peer.send(
                *(Op.RDMA_READ, [(BASE, MESSAGE, held.there.key)]),
                remote_address=BASE,
                remote_key=held.here.key,
            )
        assert until(lambda: held.there.view[MESSAGE - 1] == 7), "the burst is over"
        began = time.monotonic()
        free.post(times)
        assert until(lambda: free.gather() == times, 60)
        assert time.monotonic() - began < times * MESSAGE / rate / 2, "as slow as the other"


def work_of_a_packet(engines, classes: tuple[int, int]) -> float:
    """Return the work per packet while two functions send, each in its class."""
    times, engine = 40, engines[0]
    with ExitStack() as stack:
        ports = [Port(engines, stack) for _ in classes]
        engine.set_qos_classes([HcaQosClass(weight=1), HcaQosClass(weight=16)])
        flows = [port.flow(one) for port, one in zip(ports, classes, strict=True) for _ in range(6)]
        engine.suspend()
        for flow in flows:
            flow.post(times)
        engine.restart_work()
        engine.resume()
        assert until(lambda: all(flow.gather() == times for flow in flows), 60)
        cost = sum(engine.work_of(port.a.client.gid).cost for port in ports)
        return cost / sum(port.a.counts.sent for port in ports)


def test_a_function_whose_class_is_ahead_yields_its_turn(engines):
    """It cannot send until others have sent, and must not use up its turns to detect that."""
    assert work_of_a_packet(engines, (1, 2)) < 1.2 * work_of_a_packet(engines, (1, 1))
