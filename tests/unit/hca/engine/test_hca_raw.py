"""The HCA's engine: frames of raw packet queue pairs, steering rules, and policy."""

import ctypes
import errno
import socket
import struct

import pytest

from hca.contract import hca_frames
from hca.contract.verbs import (
    VerbsEvent,
    VerbsMask as Mask,
    VerbsOpcode as Op,
    VerbsQpType as Type,
    VerbsState as State,
    VerbsStatus as Status,
)
from hca.daemon.common.numbers import Numbers
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties
from support.rigs import hca_rig, rdma_lab
from support.rigs.hca_moves import move
from support.rigs.hca_rig import BASE, Client, until
from support.rigs.rdma_lab import pod, policy

GROUP, ONE, OTHER = b"\x01\x50\x56\x19\x20\xa7", b"\x02" + bytes(5), b"\x04" + bytes(5)
PODS = (pod(0, app="sender"), pod(1, app="getter"), pod(2, app="other"))
UDP, TCP = socket.IPPROTO_UDP, socket.IPPROTO_TCP


def udp(source: int, destination: int) -> bytes:
    return struct.pack(">4H", source, destination, 8, 0) + b"payload."


def ipv4(rest: bytes, *, protocol: int = UDP, fragment: int = 0, options: int = 0) -> bytes:
    words = 5 + options
    head = struct.pack(
        ">2B3H2BH", 0x40 | words, 3, words * 4 + len(rest), 0, fragment, 9, protocol, 0
    )
    return head + bytes([1, 1, 1, 1, 2, 2, 2, 2]) + bytes(options * 4) + rest


def ipv6(rest: bytes, *, first: int = UDP) -> bytes:
    return (
        struct.pack(">IHBB", 6 << 28, len(rest), first, 9)
        + bytes(15)
        + b"\1"
        + bytes(15)
        + b"\2"
        + rest
    )


def frame(
    rest: bytes, kind: int = 0x0800, *, to: bytes = GROUP, tags: tuple[int, ...] = ()
) -> bytes:
    tagged = b"".join(struct.pack(">2H", tag, 5) for tag in tags)
    return to + b"\x24\x8a\x07\xa5\x28\xc8" + tagged + struct.pack(">H", kind) + rest


def rule(
    *targets: int, priority: int = 0, hashing: int = 0, **fields: bytes
) -> hca_frames.HcaSteerCreate:
    """Return a rule whose masks cover whole fields."""
    wanted = hca_frames.HcaSteerCreate(priority, len(targets), hashing)
    for name, value in fields.items():
        place = getattr(hca_frames.HcaFrameFields, name).offset
        ctypes.memmove(ctypes.byref(wanted.value, place), value, len(value))
        ctypes.memset(ctypes.addressof(wanted.mask) + place, 0xFF, len(value))
    ctypes.memmove(wanted.hash_key, bytes(range(1, 41)), 40)
    wanted.targets[: len(targets)] = targets
    return wanted


class Raw:
    """Three clients, each with a raw packet queue pair; the first sends frames to the others."""

    def __init__(self, engine, enforcer=None):
        numbers = Numbers()
        self.clients = [Client(engine, numbers, i, enforcer) for i in range(3)]
        self.sends = [client.cq() for client in self.clients]
        self.receives = [client.cq() for client in self.clients]
        self.regions = [client.region(16384) for client in self.clients]
        self.qps = [
            client.qp(send, receive, kind=Type.RAW_PACKET)
            for client, send, receive in zip(self.clients, self.sends, self.receives, strict=True)
        ]

    def start(self, *which):
        for i in which or range(3):
            self.qps[i].modify(Mask.STATE | Mask.PORT, state=State.INIT, port=1)
            self.qps[i].modify(Mask.STATE, state=State.RTR)
            self.qps[i].modify(Mask.STATE, state=State.RTS)

    def steer(self, who, **fields):
        number = self.qps[who].number
        return self.clients[who].objects.create_steer(rule(number, **fields)).handle

    def post(self, who, size=4096):
        self.qps[who].receive((BASE, size, self.regions[who].key))

    def send(self, data):
        region = self.regions[0]
        region.view[8192 : 8192 + len(data)] = data
        self.qps[0].send(Op.SEND, [(BASE + 8192, len(data), region.key)])
        return self.sends[0].poll().status

    def got(self, who):
        """Return how many frames have arrived; all have when the sender's requests are complete."""
        return self.receives[who].page.head

    def close(self):
        for client in self.clients:
            client.objects.close()


@pytest.fixture
def raw(engine):
    made = Raw(engine)
    made.start()
    yield made
    made.close()


ORDINARY = frame(ipv4(udp(1234, 5678)))


def test_a_frame_arrives_as_it_was_sent(raw):
    raw.steer(1, destination_mac=GROUP)
    raw.post(1)
    assert raw.send(ORDINARY) == Status.SUCCESS
    done = raw.receives[1].poll()
    assert (done.status, done.bytes, done.flags) == (Status.SUCCESS, len(ORDINARY), 0)
    assert raw.regions[1].view[: len(ORDINARY)] == ORDINARY
    assert raw.got(2) == 0, "no rule of its own"


def test_multicast_frames_match_all_rules_and_unicast_frames_the_first(raw):
    for who, priority in ((1, 7), (2, 3)):
        raw.steer(who, priority=priority)
        raw.steer(who, priority=9)
        for _ in range(2):
            raw.post(who)
    assert raw.send(ORDINARY) == Status.SUCCESS
    assert (raw.got(1), raw.got(2)) == (1, 1), "each once, however many rules name it"
    assert raw.send(frame(ipv4(udp(1, 2)), to=ONE)) == Status.SUCCESS
    assert (raw.got(1), raw.got(2)) == (1, 2)


def test_a_default_rule_gets_unmatched_frames(raw):
    raw.steer(1, priority=hca_frames.HCA_STEER_DEFAULT)
    raw.steer(2, ether_type=b"\x08\x06")
    for who in (1, 2):
        raw.post(who)
    assert raw.send(frame(bytes(28), 0x0806)) == Status.SUCCESS
    assert (raw.got(1), raw.got(2)) == (0, 1)
    assert raw.send(ORDINARY) == Status.SUCCESS
    assert (raw.got(1), raw.got(2)) == (1, 1)


@pytest.mark.parametrize(
    ("fields", "data"),
    [
        ({"source": b"\1\1\1\1", "protocol": b"\x11"}, ORDINARY),
        ({"destination": b"\2\2\2\2", "traffic_class": b"\3", "hop_limit": b"\t"}, ORDINARY),
        ({"source_port": b"\x04\xd2", "destination_port": b"\x16\x2e"}, ORDINARY),
        ({"destination_port": b"\x16\x2e"}, frame(ipv4(udp(1, 5678), options=2))),
        ({"vlan": b"\0\5", "protocol": b"\x11"}, frame(ipv4(udp(1, 2)), tags=(0x88A8, 0x8100))),
        ({"destination_port": b"\0\2"}, frame(ipv6(udp(1, 2)), 0x86DD)),
        ({"destination": bytes(15) + b"\2"}, frame(ipv6(udp(1, 2)), 0x86DD)),
        (
            {"destination_port": b"\0\2"},
            frame(
                ipv6(bytes([60, 0]) + bytes(6) + bytes([17, 1]) + bytes(14) + udp(1, 2), first=0),
                0x86DD,
            ),
        ),
    ],
    ids=range(8),
)
def test_rules_find_their_fields(raw, fields, data):
    raw.steer(1, **fields)
    raw.steer(2, **{name: bytes(x ^ 0x40 for x in value) for name, value in fields.items()})
    for who in (1, 2):
        raw.post(who)
    assert raw.send(data) == Status.SUCCESS
    assert (raw.got(1), raw.got(2)) == (1, 0)


ROCE = udp(0xC000, 4791)
HIDDEN = [
    frame(ipv4(ROCE)),
    frame(ipv4(udp(4791, 9))),
    frame(ipv4(ROCE, options=10)),
    frame(ipv4(ROCE), tags=(0x8100,)),
    frame(ipv4(ROCE), tags=(0x88A8, 0x8100)),
    frame(ipv4(udp(1, 2)), tags=(0x8100, 0x8100, 0x8100)),
    frame(ipv4(udp(1, 2), fragment=0x2000)),
    frame(ipv4(b"part", fragment=0x0001)),
    frame(ipv4(ROCE)[:-9]),
    frame(ipv4(b"")[:19]),
    frame(ipv6(ROCE), 0x86DD),
    frame(ipv6(bytes([17, 0]) + bytes(6) + ROCE, first=0), 0x86DD),
    frame(ipv6(bytes([17, 0]) + bytes(6) + ROCE, first=43), 0x86DD),
    frame(ipv6(bytes([17, 1]) + bytes(10) + ROCE, first=51), 0x86DD),
    frame(ipv6(bytes([17, 0]) + bytes(6) + udp(1, 2), first=44), 0x86DD),
    frame(ipv6((bytes([60, 0]) + bytes(6)) * 9 + ROCE, first=60), 0x86DD),
    frame(ipv6(bytes([17, 200]) + bytes(6), first=60), 0x86DD),
    frame(bytes(40), 0x8915),
    frame(b"", 0x8100),
]


@pytest.mark.parametrize("data", HIDDEN, ids=range(len(HIDDEN)))
def test_frames_that_are_or_hide_rdma_are_dropped(raw, data):
    raw.steer(1)
    raw.post(1)
    assert raw.send(data) == Status.SUCCESS, "as on a network that drops it"
    assert raw.send(ORDINARY) == Status.SUCCESS
    assert raw.got(1) == 1
    assert raw.regions[1].view[: len(ORDINARY)] == ORDINARY


def test_a_hash_spreads_frames_over_queue_pairs_and_keeps_flows_together(raw):
    client, cq = raw.clients[1], raw.receives[1]
    pairs = [client.qp(raw.sends[1], cq, kind=Type.RAW_PACKET) for _ in range(4)]
    for qp in pairs:
        qp.modify(Mask.STATE | Mask.PORT, state=State.INIT, port=1)
        qp.modify(Mask.STATE, state=State.RTR)
        for _ in range(16):
            qp.receive((BASE, 4096, raw.regions[1].key))
    client.objects.create_steer(rule(*(qp.number for qp in pairs), hashing=1 | 1 << 6))
    seen = {}
    for port in [*range(1, 13), *range(1, 13)]:
        assert raw.send(frame(ipv4(udp(port, 9)))) == Status.SUCCESS
        seen.setdefault(port, set()).add(cq.poll().qpn)
    assert all(len(numbers) == 1 for numbers in seen.values())
    assert len(set.union(*seen.values())) > 1


@pytest.mark.parametrize("size", [13, 4097])
def test_an_invalid_frame_is_its_sender_s_error(raw, size):
    assert raw.send(bytes(size)) == Status.LOC_LEN_ERR
    assert raw.qps[0].state == State.SQE


def test_a_receive_that_is_too_small_waits_for_a_frame_that_fits(raw):
    raw.steer(1)
    raw.post(1, len(ORDINARY) - 1)
    assert raw.send(ORDINARY) == Status.SUCCESS
    assert raw.got(1) == 0
    assert raw.send(frame(bytes(4), 0x9000)) == Status.SUCCESS
    assert raw.receives[1].poll().bytes == 18


def test_rules_end_with_their_queue_pairs(raw):
    client = raw.clients[1]
    handle = raw.steer(1)
    with pytest.raises(OSError, match="Invalid"):
        raw.clients[2].objects.create_steer(rule(raw.qps[1].number))
    client.objects.destroy_qp(raw.qps[1].number)
    assert raw.send(ORDINARY) == Status.SUCCESS
    with pytest.raises(OSError, match="Invalid"):
        client.objects.destroy_steer(handle)


@pytest.mark.parametrize("count", [0, hca_frames.HCA_STEER_TARGETS + 1])
def test_rules_have_targets_and_not_too_many(raw, count):
    wanted = rule(raw.qps[1].number)
    wanted.target_count = count
    with pytest.raises(OSError, match=f"{count}: must be"):
        raw.clients[1].objects.create_steer(wanted)


def test_rules_are_of_raw_packet_queue_pairs_and_bounded(raw):
    client = raw.clients[1]
    other = client.qp(raw.sends[1], raw.receives[1], kind=Type.UD)
    with pytest.raises(OSError, match="Invalid"):
        client.objects.create_steer(rule(other.number))
    for _ in range(hca_frames.HCA_MAX_STEERS):
        raw.steer(1)
    with pytest.raises(OSError, match="memory"):
        raw.steer(1)


@pytest.fixture
def enforcer(engine):
    return Enforcer(engine, Parties())


def make_policy(direction: str, app: str, **spec: object):
    return policy({"app": app}, policyTypes=[direction], **spec)


@pytest.mark.parametrize(
    ("direction", "app", "passes"),
    [
        ("Egress", "sender", False),
        ("Ingress", "getter", False),
        ("Ingress", "sender", True),
        ("Egress", "getter", True),
        ("Ingress", "other", True),
    ],
)
def test_an_isolated_pod_has_no_frames_in_that_direction(engine, enforcer, direction, app, passes):
    """That does not depend on the rules, because a frame's source address may be forged."""
    everything = {direction.lower(): [{}]}
    enforcer.replace_tables(rdma_lab.tables(1, PODS, [make_policy(direction, app, **everything)]))
    raw = Raw(engine, enforcer)
    raw.start()
    raw.steer(1)
    raw.post(1)
    assert raw.send(ORDINARY) == Status.SUCCESS
    assert raw.got(1) == passes
    raw.close()
    assert enforcer.connected == 0


@pytest.mark.parametrize("to", [ONE, GROUP], ids=["one", "group"])
def test_a_rule_of_a_denied_pod_does_not_keep_frames_from_others(engine, enforcer, to):
    """Every tenant may add rules, even a rule that matches all frames first."""
    enforcer.replace_tables(rdma_lab.tables(1, PODS, [make_policy("Ingress", "other")]))
    raw = Raw(engine, enforcer)
    raw.start()
    raw.steer(2, priority=0)
    raw.steer(1, priority=hca_frames.HCA_STEER_DEFAULT)
    for who in (1, 2):
        raw.post(who)
    assert raw.send(frame(ipv4(udp(1, 2)), to=to)) == Status.SUCCESS
    assert (raw.got(1), raw.got(2)) == (1, 0)
    raw.close()


def test_new_tables_hold_for_the_next_frame(engine, enforcer):
    enforcer.replace_tables(rdma_lab.tables(1, PODS))
    raw = Raw(engine, enforcer)
    raw.start()
    raw.steer(1)
    for _ in range(3):
        raw.post(1)
    assert raw.send(ORDINARY) == Status.SUCCESS
    assert raw.got(1) == 1
    enforcer.replace_tables(rdma_lab.tables(2, PODS, [make_policy("Ingress", "getter")]))
    assert raw.send(ORDINARY) == Status.SUCCESS
    assert raw.got(1) == 1
    enforcer.replace_tables(rdma_lab.tables(3, PODS))
    assert raw.send(ORDINARY) == Status.SUCCESS
    assert raw.got(1) == 2
    raw.close()


def test_a_fully_isolated_pod_has_no_frames_and_loses_its_rules(engine, enforcer):
    enforcer.replace_tables(rdma_lab.tables(1, PODS))
    raw = Raw(engine, enforcer)
    raw.start(0, 1)
    closed = [
        policy({"app": app}, app, policyTypes=["Ingress", "Egress"]) for app in ("getter", "other")
    ]
    assert enforcer.replace_tables(rdma_lab.tables(2, PODS, closed)).revoked == 1
    assert raw.qps[1].state == State.ERR
    assert raw.clients[1].events() == [(VerbsEvent.QP_FATAL, raw.qps[1].number)]
    with pytest.raises(OSError, match="may not use raw frames") as refused:
        raw.start(2)
    assert refused.value.errno == errno.EACCES
    assert raw.qps[0].state == State.RTS
    denials, _ = enforcer.denials.take()
    assert {reason for denial in denials for reason in denial.reasons} == {
        "a pod that a policy isolates may not use raw frames"
    }
    raw.close()


def test_a_managed_fabric_without_tables_lets_no_frame_pass(engine):
    enforcer = Enforcer(engine, Parties(), managed=True)
    raw = Raw(engine, enforcer)
    with pytest.raises(OSError, match="may not use raw frames"):
        raw.start(0)
    raw.close()


def test_a_policy_that_only_audits_stops_no_frame(engine, enforcer):
    audit = make_policy("Ingress", "getter", enforcement="Audit")
    enforcer.replace_tables(rdma_lab.tables(1, PODS, [audit]))
    raw = Raw(engine, enforcer)
    raw.start()
    raw.steer(1)
    raw.post(1)
    assert raw.send(ORDINARY) == Status.SUCCESS
    assert until(lambda: raw.got(1) == 1)
    raw.close()


@pytest.mark.parametrize("denied", [False, True])
def test_a_successor_uses_its_own_tables(engine, denied):
    """Under the successor's tables, frames continue, or stop before the first one passes."""
    with hca_rig.running_engine() as new:
        new.suspend()
        raw = Raw(engine, Enforcer(engine, Parties()))
        raw.start()
        raw.steer(1)
        raw.post(1)
        engine.suspend()
        numbers, enforcer = Numbers(), Enforcer(new, Parties())
        closed = policy({"app": "getter"}, policyTypes=["Ingress", "Egress"])
        enforcer.replace_tables(rdma_lab.tables(1, PODS, [closed] if denied else []))
        for client in raw.clients:
            enforcer.parties.add(client.party)
            move(client, new, numbers, enforcer)
        engine.resume()
        new.resume()
        assert raw.send(ORDINARY) == Status.SUCCESS
        assert raw.got(1) == (not denied)
        raw.close()
