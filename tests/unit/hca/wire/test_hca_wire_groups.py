"""Multicast groups over UDP: delivery, policy verdicts for senders, and forgeries."""

import ctypes
import errno
import secrets
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from hca.binding.addresses import Address, address_of
from hca.contract import hca_objects
from hca.contract.verbs import VerbsOpcode as Op, VerbsQpType, VerbsStatus as Status
from hca.daemon.common.numbers import Numbers
from support.oracles import roce
from support.oracles.roce import UD, Packet, deth
from support.rigs import rdma_lab
from support.rigs.hca_rig import BASE, Client, until
from support.rigs.rdma_lab import allow, policy
from support.wire import wire_rig
from support.wire.wire_judging import QKEY, Node, nodes, pods_of, writes_alone

GRH = 40
MULTICAST_QPN = 0xFFFFFF
SERVER, CLIENT = {"app": "server"}, {"app": "client"}


@pytest.fixture
def group() -> str:
    """A group that no other test is likely to use: groups are visible on the whole machine."""
    return f"239.{secrets.randbelow(256)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"


@pytest.fixture
def stage(engines, group):
    """A queue pair in the group, and a socket that sends arbitrary packets."""
    with ExitStack() as stack:
        node = Node(engines[0])
        stack.callback(node.close)
        node.qp.listen(QKEY)
        node.enter(gid(group))
        yield node, stack.enter_context(Forger(group))


class Forger(socket.socket):
    """A peer simulated by a socket."""

    def __init__(self, group: str) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_DGRAM)
        self.ip, self.group = wire_rig.fresh_address(), group
        self.bind((self.ip, roce.PORT))

    def say(self, data: bytes = b"forged!!", ip: str = "", **changes: object) -> None:
        """Send the group a valid datagram with ``changes``; its ICRC is for ``ip``."""
        packet = Packet(UD | roce.SEND_ONLY, MULTICAST_QPN, 1, deth(QKEY, 0x55), data, ack=False)
        sealed = packet.but(**changes).seal(ip or self.ip, self.group)
        self.sendto(sealed, (self.group, roce.PORT))


def gid(group: str) -> bytes:
    return wire_rig.gid_of(group)


def send(node: Node, group: str, data: bytes = b"hello", size: int = 0) -> int:
    """Send to a group; return the status."""
    sges = [(BASE, size, node.region().key)] if size else ()
    node.qp.send(
        *(Op.SEND, sges, None if size else data),
        address_handle=node.client.ah(gid(group)),
        remote_qpn=MULTICAST_QPN,
        remote_key=QKEY,
    )
    return node.send_cq.poll().status


def is_entered(group: str) -> bool:
    """Return whether the kernel has joined a group (IGMP)."""
    number = bytes(reversed(gid(group)[12:])).hex().upper()
    return number in Path("/proc/net/igmp").read_text().split()


def test_a_group_s_datagram_arrives_once_on_every_node(listeners, group):
    a, b = listeners
    regions = [node.region() for node in listeners]
    for node, region in zip(listeners, regions, strict=True):
        node.enter(gid(group))
        node.enter(gid(group))
        for place in range(4):
            node.qp.receive((BASE + 256 * place, 256, region.key))
    for text in (b"first", b"other"):
        assert send(a, group, text) == 0
    for node, region in zip(listeners, regions, strict=True):
        for place, text in enumerate((b"first", b"other")):
            came = node.recv_cq.poll()
            assert (came.status, came.bytes, came.source_qpn) == (0, GRH + 5, a.qp.number)
            header = region.view[256 * place : 256 * place + GRH]
            assert header[32:] == a.gid[12:] + gid(group)[12:]
            assert region.view[256 * place + GRH : 256 * place + GRH + 5] == text
    # The kernel returns the datagram to its sender's node, where it was delivered in memory before.
    assert until(lambda: a.counts.duplicates == 2)
    assert [node.recv_cq.page.head for node in listeners] == [2, 2]
    assert b.counts.unjudged == 0


def test_only_current_members_receive_a_group_s_datagrams(listeners, group):
    a, b = listeners
    b.qp.receive((BASE, 256, b.region().key))
    assert send(a, group) == 0
    b.enter(gid(group))
    assert is_entered(group)
    assert send(a, group, b"hello") == 0
    assert b.recv_cq.poll().bytes == GRH + 5
    b.leave(gid(group))
    assert not is_entered(group), "routers would still send it here"
    b.qp.receive((BASE, 256, b.region().key))
    assert send(a, group) == 0
    with pytest.raises(OSError) as refused:
        b.leave(gid(group))
    assert refused.value.errno == errno.EINVAL
    b.enter(gid(group))
    assert send(a, group, b"again!") == 0
    assert b.recv_cq.poll().bytes == GRH + 6
    assert (b.recv_cq.page.head, b.counts.received) == (2, 2)


def test_a_wire_is_in_a_group_until_its_last_queue_pair_leaves(listeners, group):
    _, b = listeners
    other = b.client.qp(b.send_cq, b.recv_cq, kind=VerbsQpType.UD)
    for qp in (b.qp, other):
        b.enter(gid(group), qp)
    b.leave(gid(group))
    assert is_entered(group)
    b.client.objects.destroy_qp(other.number)
    assert not is_entered(group)


def test_all_member_queue_pairs_with_its_q_key_receive_a_datagram(listeners, group):
    a, b = listeners
    others = [b.client.qp(b.send_cq, b.recv_cq, kind=VerbsQpType.UD) for _ in range(2)]
    others[0].listen(QKEY)
    others[1].listen(QKEY + 1)
    region = b.region()
    for qp in (b.qp, *others):
        qp.receive((BASE, 256, region.key))
        b.enter(gid(group), qp)
    assert send(a, group) == 0
    receivers = {b.recv_cq.poll().qpn for _ in range(2)}
    assert receivers == {b.qp.number, others[0].number}
    assert send(a, group) == 0  # no member has a receive request for it
    assert until(lambda: b.counts.received == 2)
    assert b.recv_cq.page.head == 2


def test_a_message_longer_than_the_path_carries_is_an_error(engines, group):
    with nodes(*engines, path_mtu=3) as (a, b):
        for node in (a, b):
            node.qp.listen(QKEY)
        b.enter(gid(group))
        b.qp.receive((BASE, 8192, b.region().key))
        assert send(a, group, size=1024) == 0
        assert b.recv_cq.poll().bytes == GRH + 1024
        assert send(a, group, size=1025) == Status.LOC_LEN_ERR


def test_a_group_of_the_other_family_stays_on_the_node(listeners):
    a, b = listeners
    six = bytes([0xFF, 0x0E, *secrets.token_bytes(14)])
    for node in listeners:
        node.enter(six)
        node.qp.receive((BASE, 256, node.region().key))
    a.qp.send(
        *(Op.SEND, (), b"x"),
        address_handle=a.client.ah(six),
        remote_qpn=MULTICAST_QPN,
        remote_key=QKEY,
    )
    assert a.recv_cq.poll().bytes == GRH + 1
    assert (a.counts.sent, b.counts.received) == (0, 0)


@pytest.mark.parametrize(
    ("changes", "counter"),
    [
        ({"headers": deth(QKEY + 1, 0x55)}, "bad_qkey"),
        ({"pkey": 0x8001}, "bad_pkey"),
        ({"qpn": 0xABCDEF}, "malformed"),
        ({"qpn": 1, "headers": deth(0x80010000, 1), "payload": bytes(256)}, "malformed"),
        ({"opcode": UD | roce.SEND_FIRST}, "malformed"),
        ({"opcode": roce.SEND_ONLY, "headers": b""}, "malformed"),
        ({"opcode": 0x81, "headers": b"", "payload": bytes(16)}, "malformed"),
        ({"ip": "127.1.2.3"}, "bad_icrc"),
    ],
    ids=["qkey", "pkey", "qpn", "management", "first", "connected", "congestion", "icrc"],
)
def test_an_invalid_datagram_changes_nothing_and_needs_no_verdict(stage, changes, counter):
    node, peer = stage
    region = node.region()
    node.qp.receive((BASE, 100, region.key))
    peer.say(**changes)
    assert until(lambda: getattr(node.counts, counter) == 1)
    assert node.enforcer.connected == 0
    peer.say()
    assert node.recv_cq.poll().bytes == GRH + 8
    assert bytes(region.view[GRH : GRH + 8]) == b"forged!!"


def test_a_queue_pair_s_own_number_is_no_way_to_pass_as_its_group(stage):
    """Rules for all peers apply to groups only."""
    node, peer = stage
    packet = Packet(UD | roce.SEND_ONLY, MULTICAST_QPN, 1, deth(QKEY, 5), b"forged!!")
    peer.sendto(packet.seal(peer.ip, node.ip), (node.ip, roce.PORT))
    assert until(lambda: node.counts.unknown_qp == 1)


@pytest.mark.parametrize("side", ["source", "destination"])
def test_the_responder_evaluates_the_policies_of_both_sides(stage, side):
    """The peer is a socket, so no other engine can have denied anything."""
    node, peer = stage
    region = node.region()
    pods = pods_of(node.ip, peer.ip, labels=("server", "client"))
    node.replace_tables(rdma_lab.tables(1, pods))
    for _ in range(2):
        node.qp.receive((BASE, 100, region.key))
    peer.say()
    assert node.recv_cq.poll().status == 0
    node.replace_tables(rdma_lab.tables(2, pods, [writes_alone(side)]))
    region.view[:100] = bytes(100)
    for _ in range(3):
        peer.say()
    assert until(lambda: node.counts.denied == 3)
    assert not any(region.view[:100])
    node.replace_tables(rdma_lab.tables(3, pods))
    peer.say()
    assert node.recv_cq.poll().status == 0


def test_datagrams_of_a_pod_in_no_tables_are_dropped(stage):
    node, peer = stage
    node.replace_tables(rdma_lab.tables(1, pods_of(node.ip, labels=["server"])))
    node.qp.receive((BASE, 100, node.region().key))
    peer.say()
    assert until(lambda: node.counts.denied == 1)


def test_a_pod_with_isolated_egress_sends_only_to_groups_of_a_rule(listeners, group):
    a, b = listeners
    b.enter(gid(group))
    b.qp.receive((BASE, 256, b.region().key))
    pods = pods_of(a.ip, b.ip)
    to_pod = {"to": [{"podSelector": {"matchLabels": SERVER}}], "verbs": ["UD"]}
    to_group = {"to": [{"ipBlock": {"cidr": f"{group}/32"}}], "verbs": ["UD"]}
    isolating = {"policyTypes": ["Egress"]}
    b.replace_tables(
        rdma_lab.tables(1, pods, [policy(CLIENT, **isolating, egress=[to_pod, to_group])])
    )
    a.replace_tables(rdma_lab.tables(1, pods, [policy(CLIENT, **isolating, egress=[to_pod])]))
    assert send(a, group, b"denied") == 0
    assert a.counts.sent == 0
    a.replace_tables(
        rdma_lab.tables(2, pods, [policy(CLIENT, **isolating, egress=[to_pod, to_group])])
    )
    assert send(a, group, b"allowed") == 0
    assert b.recv_cq.poll().bytes == GRH + 7
    # A rule allows only the group: the datagram is sent, and policy is checked for each member.
    for node in listeners:
        node.replace_tables(
            rdma_lab.tables(3, pods, [policy(CLIENT, **isolating, egress=[to_group])])
        )
    b.qp.receive((BASE, 256, b.region().key))
    assert send(a, group, b"dropped") == 0
    assert until(lambda: b.counts.denied == 1)
    assert (a.counts.sent, b.recv_cq.page.head) == (2, 1)


def test_policy_is_evaluated_for_each_member_of_a_node(engines, group):
    """A group must not be a way around a policy between two pods of one engine."""
    with ExitStack() as stack:
        node = Node(engines[0])
        stack.callback(node.close)
        numbers, hearers = Numbers(), {}
        for index, app in enumerate(("friend", "server"), 1):
            own = address_of(index)
            client = Client(node.engine, numbers, index, node.enforcer, Address(own.guid, own.gids))
            stack.callback(client.objects.close)
            cq = client.cq()
            qp = client.qp(cq, cq, kind=VerbsQpType.UD)
            qp.listen(QKEY)
            hearers[app] = client, cq, qp
            client.objects.attach(member(qp.number, group))
            for _ in range(8):
                qp.receive((BASE, 256, client.region().key))
        node.qp.listen(QKEY)
        ips = (node.ip, *(str(address_of(index).ip) for index in (1, 2)))
        pods = pods_of(*ips, labels=("client", "friend", "server"))
        assert send(node, group, b"x") == 0  # no pod is allowed to send
        friends = {"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}]}
        denying = policy(SERVER, ingress=[allow(**friends)])
        for generation, policies in enumerate(([], [denying], []), 1):
            node.replace_tables(rdma_lab.tables(generation, pods, policies))
            assert send(node, group, b"x") == 0
        assert hearers["friend"][1].statuses(4) == [0] * 4
        assert hearers["server"][1].statuses(3) == [0] * 3
        assert hearers["server"][1].page.head == 3
        # Policy is also evaluated for a member that joins later.
        node.replace_tables(rdma_lab.tables(4, pods, [denying]))
        client, cq, qp = hearers["server"]
        client.objects.detach(member(qp.number, group))
        client.objects.attach(member(qp.number, group))
        assert send(node, group, b"x") == 0
        assert hearers["friend"][1].poll().status == 0
        assert cq.page.head == 3


def member(number: int, group: str) -> hca_objects.HcaMcast:
    return hca_objects.HcaMcast(number, 0, (ctypes.c_uint8 * 16)(*gid(group)))


def test_a_failed_join_is_an_error_and_leaves_nothing(listeners, group):
    _, b = listeners

    async def refuses(sockets: object, wanted: bytes) -> socket.socket:
        assert wanted == gid(group)
        raise OSError(errno.ENETUNREACH, "no groups here")

    b.wire_groups._opener = refuses
    with pytest.raises(OSError, match="no groups here"):
        b.enter(gid(group))
    assert not b.wire_groups._groups
    assert not b.client.objects._members
