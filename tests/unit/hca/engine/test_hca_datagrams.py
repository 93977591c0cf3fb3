"""The HCA's engine: datagrams, groups and partitions."""

import ctypes
import struct
from contextlib import ExitStack

import pytest

from hca.contract import hca, hca_frames, hca_objects
from hca.contract.verbs import (
    VerbsMask as Mask,
    VerbsOpcode as Op,
    VerbsQpType as Type,
    VerbsState as State,
    VerbsStatus as Status,
    VerbsWcFlag as Flag,
)
from hca.daemon.common.numbers import Numbers
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.guard import Guard
from hca.daemon.policy.parties import Parties, Party
from support.rigs import hca_rig
from support.rigs.hca_rig import BASE, Client, until

ADD, SWAP = Op.ATOMIC_FETCH_AND_ADD, Op.ATOMIC_CMP_AND_SWP
QKEY = 0x1234


class Datagrams:
    """Three clients, each with a datagram queue pair."""

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
def test_an_unaccepted_datagram_is_dropped_silently(datagrams, wrong):
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


def test_the_highest_bit_selects_the_senders_own_q_key(datagrams):
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


def test_an_address_handle_is_invalid_after_its_end_and_in_other_domains(datagrams):
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


def test_every_group_member_receives_a_datagram(datagrams):
    group = bytes([0xFF, 0x0E, *range(14)])
    for who in (1, 2):
        datagrams.post(who)
        member = hca_objects.HcaMcast(datagrams.qps[who].number, 0, (ctypes.c_uint8 * 16)(*group))
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


def test_a_sender_to_many_members_does_not_starve_others(engine, datagrams):
    """A datagram to 60 members is charged 60 times, whether or not they accept it."""
    group = bytes([0xFF, 0x0E, *range(14)])
    hearer = datagrams.clients[2]
    pairs = [hearer.qp(datagrams.sends[2], datagrams.receives[2], depth=32, kind=Type.UD)
             for _ in range(60)]  # fmt: skip
    for qp in pairs:
        qp.listen()
        wanted = hca_objects.HcaMcast(qp.number, 0, (ctypes.c_uint8 * 16)(*group))
        hearer.objects.attach(wanted)
    for _ in range(17):
        pairs[0].receive((BASE, 4136, datagrams.regions[2].key))
    to_group, to_one = datagrams.clients[1].ah(group), datagrams.clients[0].ah(hearer.gid)
    data = [(BASE, 4096, datagrams.regions[1].key)]
    named = {"remote_qpn": pairs[0].number, "remote_key": QKEY}
    engine.suspend()
    for _ in range(16):
        datagrams.qps[1].send(Op.SEND, data, address_handle=to_group, **named)
    datagrams.qps[0].send(Op.SEND, (), b"one", address_handle=to_one, **named)
    engine.resume()
    came = [datagrams.receives[2].poll().source_qpn for _ in range(17)]
    assert came.index(datagrams.qps[0].number) < 8


def test_all_programs_of_a_function_share_the_cost_of_group_and_rule_checks(engine):
    enforcer, party = Enforcer(engine, Parties()), Party("f", "f", (), (bytes(16), b"x" * 16))
    guards = [Guard(enforcer, party) for _ in range(2)]
    group, other = bytes([0xFF] * 16), bytes([0xFF] * 15 + [0])
    with ExitStack() as stack:
        for place in range(hca.HCA_MAX_MCAST_ATTACH):
            stack.enter_context(guards[place % 2].as_group_member(group))
        for guard in guards:
            with pytest.raises(OSError, match="too many queue pairs"), guard.as_group_member(group):
                pass
        stack.enter_context(guards[0].as_group_member(other))
    assert not party.members
    for place in range(hca_frames.HCA_MAX_STEERS):
        guards[place % 2].charge_steering_rule()
    with pytest.raises(OSError, match="too many rules"):
        guards[0].charge_steering_rule()
    guards[1].release_steering_rule()
    guards[0].charge_steering_rule()


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


def test_an_undelivered_datagram_is_charged_completely(datagrams, engine):
    size, key = 4096, datagrams.regions[0].key
    costs = []
    for data in ([], [(BASE, size, key)], [(BASE, size // 4, key)] * 4):
        engine.restart_work()
        for _ in range(4):
            datagrams.qps[0].send(
                *(Op.SEND, data),
                address_handle=datagrams.clients[0].ah(datagrams.clients[1].gid),
                remote_qpn=2,
                remote_key=QKEY,
            )
            assert datagrams.sends[0].poll().status == 0
        costs.append(engine.work_of(datagrams.clients[0].gid).cost)
    assert costs[1] - costs[0] >= 4 * size
    assert costs[2] > costs[1], "each part costs, too"
