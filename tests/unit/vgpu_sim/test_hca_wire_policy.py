"""Policy over UDP: each end's own engine denies, and a forged packet gains nothing by it."""

import socket
from contextlib import ExitStack

import hca_rig
import pytest
import roce
import wire_rig
from hca_rig import BASE, until
from roce import Packet, reth
from wire_rig import End, Ends

from rdma.verbs import ALL, NONE, Verb
from vgpu_sim.hal.hca_engine import HcaPolicyChange
from vgpu_sim.hal.verbs import (
    VerbsAccess,
    VerbsOpcode as Op,
    VerbsState,
    VerbsStatus as Status,
)

QPN = 0x123456


@pytest.fixture(scope="module")
def engines():
    with ExitStack() as stack:
        yield [stack.enter_context(hca_rig.running_engine()) for _ in range(2)]


@pytest.fixture
def pair(engines):
    with wire_rig.ends(*engines) as made:
        yield made


def judge(engine, qp, sends=ALL, receives=ALL) -> None:
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
        judge(engines[0], pair.a.qp, sends=ALL & ~Verb.WRITE)
    else:
        judge(engines[1], pair.b.qp, receives=ALL & ~Verb.WRITE)
    pair.here.view[:8] = b"forbid!!"
    assert ask(pair, Op.RDMA_READ) == Status.SUCCESS
    pair.here.view[:8] = b"forbid!!"
    assert ask(pair, Op.RDMA_WRITE) == Status.REM_ACCESS_ERR
    assert bytes(pair.there.view[:8]) == bytes(8)
    assert pair.b.qp.state == VerbsState.RTS


def test_over_a_wire_too_a_gpu_s_memory_may_be_all_that_is_written(pair, engines):
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
def test_where_nothing_passes_nobody_answers(engines, denier):
    with wire_rig.ends(*engines, timeout=10, retry_cnt=1) as pair:
        if denier == "requester":
            judge(engines[0], pair.a.qp, sends=NONE)
        else:
            judge(engines[1], pair.b.qp, receives=NONE)
        assert ask(pair, Op.RDMA_WRITE) == Status.RETRY_EXC_ERR
        assert pair.b.qp.state == VerbsState.RTS


def test_a_forged_packet_with_a_verb_that_is_denied_changes_nothing(engines):
    """Everything in it is right: source, P_Key, queue pair, PSN, key, checksum."""
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
        judge(engines[0], end.qp, receives=ALL & ~Verb.WRITE)
        peer.sendto(write.sealed(ip, end.ip), (end.ip, roce.PORT))
        assert until(lambda: end.counts.denied == 1)
        assert bytes(region.view[:8]) == bytes(8)
        assert end.qp.state == VerbsState.RTS
        judge(engines[0], end.qp)
        peer.sendto(write.sealed(ip, end.ip), (end.ip, roce.PORT))
        assert until(lambda: bytes(region.view[:8]) == b"forged!!"), "policy alone was against it"
