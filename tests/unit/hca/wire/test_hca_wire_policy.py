"""Policy over UDP: each end's engine enforces it, and forged packets cannot circumvent it."""

import socket
from contextlib import ExitStack

import pytest

from hca.contract.hca_engine import HcaPolicyChange
from hca.contract.verbs import (
    VerbsAccess,
    VerbsOpcode as Op,
    VerbsQpType,
    VerbsState,
    VerbsStatus as Status,
)
from rdma.verbs import ALL, NONE, Verb
from support.oracles import roce
from support.oracles.roce import Packet, reth
from support.rigs import rdma_lab
from support.rigs.hca_rig import BASE, until
from support.rigs.rdma_lab import allow, policy
from support.wire import wire_rig
from support.wire.wire_judging import Node, nodes, pods_of
from support.wire.wire_rig import End, Ends

QPN = 0x123456


def set_policy(engine, qp, sends=ALL, receives=ALL) -> None:
    own = qp.client.objects._qps[qp.number].engine
    engine.set_policies([HcaPolicyChange(own, pkey=0xFFFF, sends=sends, receives=receives)])


def ask(pair: Ends, opcode: Op) -> int:
    pair.a.qp.send(
        *(opcode, [(BASE, 8, pair.here.key)]),
        remote_address=BASE,
        remote_key=pair.there.key,
        flags=2,
    )
    return pair.a.send_cq.poll().status


@pytest.mark.parametrize("denier", ["requester", "responder"])
def test_either_end_alone_denies_a_verb_and_the_responder_stays(pair, engines, denier):
    if denier == "requester":
        set_policy(engines[0], pair.a.qp, sends=ALL & ~Verb.WRITE)
    else:
        set_policy(engines[1], pair.b.qp, receives=ALL & ~Verb.WRITE)
    pair.here.view[:8] = b"forbid!!"
    assert ask(pair, Op.RDMA_READ) == Status.SUCCESS
    pair.here.view[:8] = b"forbid!!"
    assert ask(pair, Op.RDMA_WRITE) == Status.REM_ACCESS_ERR
    assert bytes(pair.there.view[:8]) == bytes(8)
    assert pair.b.qp.state == VerbsState.RTS


def test_over_a_wire_policy_may_restrict_writes_to_gpu_memory(pair, engines):
    own = pair.b.client.objects._qps[pair.b.qp.number].engine
    change = HcaPolicyChange(own, pkey=0xFFFF, sends=ALL, receives=ALL)
    change.device_only = VerbsAccess.REMOTE_WRITE
    engines[1].set_policies([change])
    pair.here.view[:8] = b"forbid!!"
    assert ask(pair, Op.RDMA_READ) == Status.SUCCESS
    pair.here.view[:8] = b"forbid!!"
    assert ask(pair, Op.RDMA_WRITE) == Status.REM_ACCESS_ERR
    assert bytes(pair.there.view[:8]) == bytes(8)


@pytest.mark.parametrize("denier", ["requester", "responder"])
def test_a_wholly_denied_request_gets_no_answer(engines, denier):
    with wire_rig.ends(*engines, timeout=10, retry_cnt=1) as pair:
        if denier == "requester":
            set_policy(engines[0], pair.a.qp, sends=NONE)
        else:
            set_policy(engines[1], pair.b.qp, receives=NONE)
        assert ask(pair, Op.RDMA_WRITE) == Status.RETRY_EXC_ERR
        assert pair.b.qp.state == VerbsState.RTS


def test_a_forged_packet_with_a_verb_that_is_denied_changes_nothing(engines):
    """Everything else in the packet is valid: source, P_Key, queue pair, PSN, key, checksum."""
    with ExitStack() as stack:
        end = End(engines[0])
        stack.callback(end.close)
        ip = wire_rig.fresh_address()
        peer = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        peer.bind((ip, roce.PORT))
        end.connect(ip, QPN, rq_psn=100, sq_psn=500, path_mtu=1, timeout=18)
        region = end.region()
        write = Packet(
            *(roce.WRITE_ONLY, end.qp.number, 100, reth(BASE, region.key, 8)), payload=b"forged!!"
        )
        set_policy(engines[0], end.qp, receives=ALL & ~Verb.WRITE)
        peer.sendto(write.seal(ip, end.ip), (end.ip, roce.PORT))
        assert until(lambda: end.counts.denied == 1)
        assert bytes(region.view[:8]) == bytes(8)
        assert end.qp.state == VerbsState.RTS
        set_policy(engines[0], end.qp)
        peer.sendto(write.seal(ip, end.ip), (end.ip, roce.PORT))
        assert until(lambda: bytes(region.view[:8]) == b"forged!!"), "policy alone was against it"


@pytest.fixture(params=[VerbsQpType.RC, VerbsQpType.UC], ids=["RC", "UC"])
def policed_pair(engines, request):
    """A client's and a server's queue pair, connected under tables that allow everything."""
    with nodes(*engines, kind=request.param) as (a, b):
        pods = pods_of(a.ip, b.ip)
        for node in (a, b):
            node.replace_tables(rdma_lab.tables(1, pods))
        for node, peer in ((a, b), (b, a)):
            values = {**wire_rig.RELIABLE, "sgid_index": 1, "dgid": peer.gid}
            node.qp.connect(node.qp, **values, dest_qpn=peer.qp.number)
        yield a, b, pods


def seconds(a, b, size: int, count: int) -> float:
    """Execute some WRITEs; return how long they took, from completion to completion."""
    here, there = a.region(1 << 17), b.region(1 << 17)
    for _ in range(count):
        a.qp.send(
            *(Op.RDMA_WRITE, [(BASE, size, here.key)]),
            remote_address=BASE,
            remote_key=there.key,
        )
    stamps = [a.send_cq.poll().timestamp for _ in range(count)]
    return (stamps[-1] - stamps[0]) / 1e9


@pytest.mark.parametrize("side", ["source", "destination"])
def test_a_ceiling_of_bytes_holds_on_the_wire(policed_pair, side):
    a, b, pods = policed_pair
    limits = {"bandwidth": "8Mi", "burst": "64Ki"}
    limited = (
        policy({"app": "client"}, policyTypes=["Egress"], egress=[allow(limits=limits)])
        if side == "source"
        else policy({"app": "server"}, ingress=[allow(limits=limits)])
    )
    for node in (a, b):
        node.replace_tables(rdma_lab.tables(2, pods, [limited]))
    took = seconds(a, b, 1 << 16, 16)
    assert took >= 0.9 * 14 / 128, "a burst, and the rest at 8 MiB/s"
    (rule,) = a.rules()
    assert (rule["operations"], rule["bytes"], rule["denied"]) == (16, 16 << 16, 0)
    assert b.rules()[0]["operations"] == 0, "counted once, at the requester"


def test_a_ceiling_of_operations_holds_on_the_wire(policed_pair):
    a, b, pods = policed_pair
    limited = policy({"app": "server"}, ingress=[allow(limits={"ops": "200"})])
    for node in (a, b):
        node.replace_tables(rdma_lab.tables(2, pods, [limited]))
    assert seconds(a, b, 8, 30) >= 0.9 * 27 / 200


FORGED = {
    "Send": (roce.SEND_ONLY, ""),
    "Send with immediate": (roce.SEND_ONLY_IMM, "imm"),
    "Invalidate": (roce.SEND_ONLY_INV, "imm"),
    "Write": (roce.WRITE_ONLY, "reth"),
    "WriteImm": (roce.WRITE_ONLY_IMM, "reth imm"),
    "Read": (roce.READ_REQUEST, "reth"),
    "AtomicCAS": (roce.COMPARE_SWAP, "atomic"),
    "AtomicFAA": (roce.FETCH_ADD, "atomic"),
}


@pytest.mark.parametrize("kind", [VerbsQpType.RC, VerbsQpType.UC], ids=["RC", "UC"])
@pytest.mark.parametrize("side", ["source", "destination"])
@pytest.mark.parametrize("name", FORGED)
def test_the_responder_checks_each_operation(engines, name, side, kind):
    """The peer is a socket, so no other engine has denied anything. Both sides' rules apply."""
    opcode, parts = FORGED[name]
    unreliable = kind == VerbsQpType.UC
    if unreliable and (opcode > roce.WRITE_ONLY_IMM):
        return  # the side has no such operation
    verb = name.split(" ", 1)[0]
    others = [one for one in FORGED if one != verb and " " not in one]
    others = [one for one in others if verb != "Send" or one != "Invalidate"]
    denying = (
        policy({"app": "client"}, policyTypes=["Egress"], egress=[allow(*others)])
        if side == "source"
        else policy({"app": "server"}, ingress=[allow(*others)])
    )
    with ExitStack() as stack:
        node = Node(engines[0], kind=kind)
        stack.callback(node.close)
        peer = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        ip = wire_rig.fresh_address()
        peer.bind((ip, roce.PORT))
        peer.settimeout(60)
        pods = pods_of(node.ip, ip, labels=("server", "client"))
        node.replace_tables(rdma_lab.tables(1, pods, [denying]))
        values = {**wire_rig.RELIABLE, "sgid_index": 1, "dgid": wire_rig.gid_of(ip)}
        node.qp.connect(node.qp, **values, dest_qpn=QPN, rq_psn=100)
        region = node.region()
        node.qp.receive((BASE, 64, region.key))
        known = {
            "reth": reth(BASE, region.key, 0 if opcode == roce.READ_REQUEST else 8),
            "imm": bytes(4),
            "atomic": roce.atomic_eth(BASE, region.key, 1),
        }
        headers = b"".join(known[part] for part in parts.split())
        payload = b"forged!!" if opcode <= roce.WRITE_ONLY_IMM else b""
        packet = Packet(opcode | (roce.UC if unreliable else 0), node.qp.number, 100, headers)
        data = packet.but(payload=payload).seal(ip, node.ip)
        peer.sendto(data, (node.ip, roce.PORT))
        assert until(lambda: node.counts.denied == 1)
        if not unreliable:
            answer = Packet.parse(peer.recvfrom(4096)[0])
            assert (answer.opcode, answer.syndrome) == (roce.ACKNOWLEDGE, roce.NAK | 2)
        assert not any(region.view[:64])
        assert node.qp.state == VerbsState.RTS
        assert node.recv_cq.page.head == 0
        (rule,) = node.rules()
        assert rule["denied"] == 1, "also of a SEND which is allowed but for its invalidating"


def test_new_tables_apply_to_requests_that_wait(policed_pair):
    """A rate limit has let the first part pass. The rest and the next request are forbidden."""
    a, b, pods = policed_pair
    held = policy({"app": "server"}, ingress=[allow(limits={"bandwidth": "1", "burst": "4Ki"})])
    a.replace_tables(rdma_lab.tables(2, pods, [held]))  # b denies nothing
    here, there = a.region(1 << 17), b.region(1 << 17)
    here.view[:] = bytes([7]) * len(here.view)
    for address in (BASE, BASE + (1 << 16)):
        a.qp.send(
            *(Op.RDMA_WRITE, [(BASE, 1 << 16, here.key)]),
            remote_address=address,
            remote_key=there.key,
        )
    assert until(lambda: there.view[4095] == 7)
    a.replace_tables(rdma_lab.tables(3, pods, [policy({"app": "server"}, ingress=[allow("Send")])]))
    reliable = a.qp.kind == VerbsQpType.RC
    first = Status.REM_ACCESS_ERR if reliable else Status.SUCCESS
    second = Status.WR_FLUSH_ERR if reliable else Status.SUCCESS
    assert a.send_cq.statuses(2) == [first, second]
    assert not any(there.view[1 << 15 :])
    if not reliable:
        a.replace_tables(rdma_lab.tables(4, pods))
        a.qp.send(
            *(Op.RDMA_WRITE, [(BASE, 9, here.key)]), remote_address=BASE, remote_key=there.key
        )
        assert a.send_cq.poll().status == 0
        b.qp.receive((BASE + (1 << 16), 64, there.key))
        a.qp.send(Op.SEND, (), b"after")
        assert b.recv_cq.poll().bytes == 5


@pytest.mark.parametrize("kind", [VerbsQpType.RC, VerbsQpType.UC], ids=["RC", "UC"])
def test_every_packet_but_the_last_counts_as_a_plain_write(engines, kind):
    """Only the last packet shows an immediate, when all others have already been written."""
    with ExitStack() as stack:
        end = End(engines[0], kind=kind)
        stack.callback(end.close)
        ip = wire_rig.fresh_address()
        peer = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        peer.bind((ip, roce.PORT))
        end.connect(ip, QPN, rq_psn=100, path_mtu=1)
        region = end.region()
        end.qp.receive()
        set_policy(engines[0], end.qp, receives=ALL & ~Verb.WRITE)
        transport = roce.UC if kind == VerbsQpType.UC else 0
        first = Packet(
            *(roce.WRITE_FIRST | transport, end.qp.number, 100, reth(BASE, region.key, 264)),
            *(bytes([7]) * 256,),
        )
        last = first.but(
            opcode=roce.WRITE_LAST_IMM | transport, psn=101, headers=bytes(4), payload=b"forged!!"
        )
        only = first.but(
            opcode=roce.WRITE_ONLY_IMM | transport,
            psn=102 if transport else 100,
            headers=reth(BASE + 512, region.key, 8) + bytes(4),
            payload=b"allowed!",
        )
        for packet in (first, last, only):
            peer.sendto(packet.seal(ip, end.ip), (end.ip, roce.PORT))
        assert end.recv_cq.poll().status == Status.SUCCESS
        assert bytes(region.view[512:520]) == b"allowed!"
        assert not any(region.view[:512])


def test_a_long_write_with_immediate_needs_the_right_to_write(pair, engines):
    set_policy(engines[0], pair.a.qp, sends=ALL & ~Verb.WRITE)
    pair.b.qp.receive()
    assert ask(pair, Op.RDMA_WRITE_WITH_IMM) == Status.SUCCESS
    pair.a.qp.send(
        *(Op.RDMA_WRITE_WITH_IMM, [(BASE, 1 << 16, pair.here.key)]),
        remote_address=BASE,
        remote_key=pair.there.key,
    )
    assert pair.a.send_cq.poll().status == Status.REM_ACCESS_ERR
    assert pair.b.counts.denied == 0, "nothing of it was sent"


AGAIN = {
    "Write": (roce.WRITE_ONLY, "reth", b"written!", Verb.WRITE),
    "Read": (roce.READ_REQUEST, "reth", b"", Verb.READ),
    "AtomicFAA": (roce.FETCH_ADD, "atomic", b"", Verb.ATOMIC_FAA),
}


@pytest.mark.parametrize("name", AGAIN)
def test_a_repeated_request_that_is_denied_meanwhile_ends(engines, name):
    """The response was lost: executed requests are acknowledged, but data is refused."""
    opcode, header, payload, verb = AGAIN[name]
    with ExitStack() as stack:
        end = End(engines[0])
        stack.callback(end.close)
        ip = wire_rig.fresh_address()
        peer = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        peer.bind((ip, roce.PORT))
        peer.settimeout(60)
        end.connect(ip, QPN, rq_psn=100)
        region = end.region()
        headers = {"reth": reth(BASE, region.key, 8),
                   "atomic": roce.atomic_eth(BASE, region.key, 1)}  # fmt: skip
        packet = Packet(opcode, end.qp.number, 100, headers[header], payload)
        answers = []
        for receives in (ALL, ALL & ~verb, NONE, ALL & ~verb):
            set_policy(engines[0], end.qp, receives=receives)
            peer.sendto(packet.seal(ip, end.ip), (end.ip, roce.PORT))
            if receives == NONE:
                peer.sendto(packet.but(psn=102).seal(ip, end.ip), (end.ip, roce.PORT))
                assert until(lambda: end.counts.gaps == 1)
                assert until(lambda: end.counts.denied == 2)
            else:
                answers.append(Packet.parse(peer.recvfrom(4096)[0]))
        first, *later = answers
        assert (first.psn, first.syndrome) == (100, 0x1F)
        expected = 0x1F if verb == Verb.WRITE else roce.NAK | 2
        for answer in later:
            assert (answer.opcode, answer.psn) == (roce.ACKNOWLEDGE, 100)
            assert answer.syndrome == expected
        assert end.qp.state == VerbsState.RTS
        if verb == Verb.ATOMIC_FAA:
            assert region.view[0] == 1, "once"


@pytest.mark.parametrize("receives", [ALL & ~Verb.READ, NONE], ids=["READ", "everything"])
def test_a_read_response_under_way_stops_when_it_is_denied(engines, receives):
    """The response is long, and the port slow: most of it would be sent after the switch.

    Everything sent while this process waits for a CPU fits into the peer's socket buffer.
    """
    with ExitStack() as stack:
        end = End(engines[0], bytes_per_second=1 << 15)
        stack.callback(end.close)
        ip = wire_rig.fresh_address()
        peer = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        peer.bind((ip, roce.PORT))
        peer.settimeout(60)
        end.connect(ip, QPN, rq_psn=100, path_mtu=3)
        size = 1 << 20
        region = end.region(size)
        read = Packet(roce.READ_REQUEST, end.qp.number, 100, reth(BASE, region.key, size))
        peer.sendto(read.seal(ip, end.ip), (end.ip, roce.PORT))
        assert Packet.parse(peer.recvfrom(4096)[0]).opcode == roce.RESPONSE_FIRST
        set_policy(engines[0], end.qp, receives=receives)
        assert until(lambda: end.counts.denied == 1)
        gone = 1
        if receives == NONE:
            gone = end.counts.sent
            for _ in range(gone - 1):
                peer.recvfrom(4096)
        else:
            while (last := Packet.parse(peer.recvfrom(4096)[0])).opcode != roce.ACKNOWLEDGE:
                gone += 1
            assert (last.syndrome, last.psn) == (roce.NAK | 2, 100 + gone)
            gone += 1
        assert gone < size >> 10, "it ended before its time"
        assert until(lambda: end.counts.sent == gone)
        assert end.qp.state == VerbsState.RTS
