"""Policy in the engine: a denied request ends as the table in docs/rdma.md defines."""

import errno
import time

import pytest

from hca.binding.addresses import address_of
from hca.contract import hca_engine
from hca.contract.verbs import (
    VerbsEvent,
    VerbsMask as Mask,
    VerbsOpcode as Op,
    VerbsQpType,
    VerbsState,
    VerbsStatus as Status,
)
from hca.daemon.cm.bindings import Claim, Found
from hca.daemon.cm.connection import Connection as CmConnection, State
from hca.daemon.cm.policy import Service
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties, Party
from hca.daemon.policy.successors import StaleTables
from rdma.verbs import ALL, Verb
from support.rigs import hca_rig, rdma_lab
from support.rigs.hca_rig import BASE, OPCODES, Pair, sleeps_on, until, write
from support.rigs.rdma_lab import allow, pod, policy

PODS = (pod(0, app="client"), pod(1, app="server"))
SERVER = {"app": "server"}
CLIENT = {"app": "client"}
EVERYTHING_PASSES = rdma_lab.tables(1, PODS)
FROM_CLIENT = {"from": [{"podSelector": {"matchLabels": CLIENT}}]}


@pytest.fixture
def enforcer(engine):
    return Enforcer(engine, Parties())


@pytest.fixture
def pair(engine, enforcer):
    enforcer.replace_tables(EVERYTHING_PASSES)
    made = Pair(engine, 0, enforcer)
    yield made
    made.close()
    assert enforcer.connected == 0
    assert len(enforcer.flows) == 0, "rows go with the queue pairs that have them"


def ask(pair: Pair, verb: str) -> int:
    """Let the first queue pair request something from the second; return the request's status."""
    pair.qb.receive((BASE, 8, pair.there.key))
    write(pair, opcode=OPCODES[verb])
    return pair.a_send.poll().status


@pytest.mark.parametrize("verb", OPCODES)
@pytest.mark.parametrize("side", ["source", "destination"])
def test_a_denied_verb_is_an_access_error_that_ends_only_the_requester(pair, enforcer, verb, side):
    others = [name for name in OPCODES if name != verb]
    if side == "source":
        denying = policy(CLIENT, policyTypes=["Egress"], egress=[allow(*others)])
    else:
        denying = policy(SERVER, ingress=[allow(*others)])
    switched = enforcer.replace_tables(rdma_lab.tables(2, PODS, [denying]))
    assert (switched.revoked, switched.narrowed) == (0, 2)
    assert pair.qa.state == VerbsState.RTS, "the queue pair stays up until it makes a request"
    pair.there.view[:8] = b"untouche"
    assert ask(pair, verb) == Status.REM_ACCESS_ERR
    assert pair.there.view[:8] == b"untouche"
    assert pair.qa.state == VerbsState.ERR
    assert pair.qb.state == VerbsState.RTS, "a denied WRITE does not fail its target"
    assert pair.b.events() == []
    assert pair.b_recv.page.head == 0


@pytest.mark.parametrize("verb", OPCODES)
def test_the_verb_that_is_allowed_passes_and_is_counted(pair, enforcer, verb):
    enforcer.replace_tables(rdma_lab.tables(2, PODS, [policy(SERVER, ingress=[allow(verb)])]))
    assert ask(pair, verb) == Status.SUCCESS
    enforcer.flows.collect_counts()
    (count,) = enforcer.flows.to_json()
    assert count == {
        "policy": "default/p",
        "direction": "ingress",
        "index": 0,
        "operations": 1,
        "bytes": 8,
        "denied": 0,
    }
    assert enforcer.denials.total == 0


def test_an_atomic_write_is_a_write_to_policy(pair, enforcer):
    others = [name for name in OPCODES if name != "Write"]
    enforcer.replace_tables(rdma_lab.tables(2, PODS, [policy(SERVER, ingress=[allow(*others)])]))
    write(pair, opcode=Op.ATOMIC_WRITE)
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR


THIRD = pod(2, app="other")


def change_in_vain(pair: Pair, enforcer: Enforcer) -> None:
    """Let the second queue pair, in SQD, try to change to a peer that no rule allows."""
    enforcer.parties.add(Party.of("f2", address_of(2)))
    allowed = policy(
        SERVER, policyTypes=["Ingress", "Egress"], ingress=[allow("Read", **FROM_CLIENT)]
    )
    enforcer.replace_tables(rdma_lab.tables(2, (*PODS, THIRD), [allowed]))
    pair.qb.modify(Mask.STATE, state=VerbsState.SQD)
    path = {"is_global": 1, "av_port": 1, "sgid_index": 1, "dgid": address_of(2).gids[1]}
    for _ in range(2):  # the second attempt finds the first one's state
        rows, connected = len(enforcer.flows), enforcer.connected
        with pytest.raises(PermissionError):
            pair.qb.modify(Mask.STATE | Mask.AV, state=VerbsState.SQD, **path)
        assert (len(enforcer.flows), enforcer.connected) == (rows, connected)


@pytest.mark.parametrize("state", [VerbsState.SQD, VerbsState.RTS])
def test_a_refused_change_of_address_leaves_the_connection_as_it_was(pair, enforcer, state):
    """In SQD and after it, the peer keeps its access and gets no more."""
    change_in_vain(pair, enforcer)
    assert bytes(pair.b.objects.query_qp(pair.qb.number).dgid) == pair.a.gid
    if state != VerbsState.SQD:
        pair.qb.modify(Mask.STATE, state=state)
    assert ask(pair, "Read") == Status.SUCCESS
    assert ask(pair, "Write") == Status.REM_ACCESS_ERR


@pytest.mark.parametrize("own", [0, 99], ids=["with it", "with another queue pair"])
def test_a_refused_change_of_address_leaves_the_wait_for_an_answer(pair, enforcer, own):
    """A queue pair that is connected to a requester gets the result of its connection."""
    bindings, number = pair.b.objects.bindings, pair.qb.number
    claim = Claim(pair.b.gid, pair.a.gid, Service(7000, "TCP", is_server=True))
    connection = CmConnection(State.REQ_RECEIVED, 1, 1, remote_qpn=pair.qa.number)
    bindings.update_claim(claim, connection)
    pair.qb.modify(Mask.STATE, state=VerbsState.RESET)
    pair.qb.connect(pair.qa, sgid_index=1)
    found = pair.b.objects._qps[number]
    assert found.found == Found(is_awaited=True)
    change_in_vain(pair, enforcer)
    bindings.update_claim(claim, connection._replace(state=State.REP_SENT, qpn=own or number))
    assert found.found == (Found() if own else Found(claim.service))


def test_a_refused_change_of_address_leaves_a_predecessors_service(pair, enforcer):
    bindings, ends = pair.b.objects.bindings, (pair.b.link_local, pair.a.gid)
    service = Service(7000, "TCP", is_server=True)
    bindings.inherit(pair.qb.number, *ends, pair.qa.number, service)
    change_in_vain(pair, enforcer)
    assert bindings.find(pair.qb.number, *ends, pair.qa.number) == Found(service)
    pair.b.objects._reevaluate(pair.qb.number)
    path = {"is_global": 1, "av_port": 1, "dgid": pair.a.gid}
    by_service = policy(
        SERVER,
        policyTypes=["Ingress", "Egress"],
        ingress=[allow("Read", ports=[{"serviceID": 7000}])],
    )
    enforcer.replace_tables(rdma_lab.tables(3, (*PODS, THIRD), [by_service]))
    with pytest.raises(PermissionError):  # naming the peer again drops its previous service
        pair.qb.modify(Mask.STATE | Mask.AV, state=VerbsState.SQD, **path)
    enforcer.replace_tables(rdma_lab.tables(4, (*PODS, THIRD)))
    pair.qb.modify(Mask.STATE | Mask.AV, state=VerbsState.SQD, **path)
    assert bindings.find(pair.qb.number, *ends, pair.qa.number) == Found()


def test_policy_of_one_direction_leaves_the_other_alone(pair, enforcer):
    """The server may write to the client; the client may request nothing, and gets no response."""
    enforcer.replace_tables(rdma_lab.tables(2, PODS, [policy(SERVER)]))
    assert pair.qb.state == VerbsState.RTS
    pair.qb.send(
        *(Op.RDMA_WRITE, [(BASE, 8, pair.there.key)]),
        remote_address=BASE,
        remote_key=pair.here.key,
    )
    assert pair.b_send.poll().status == Status.SUCCESS
    assert ask(pair, "Read") == Status.RETRY_EXC_ERR
    assert pair.qb.state == VerbsState.RTS


def test_a_pod_that_is_denied_every_verb_cannot_connect(engine, enforcer):
    closed = [policy(SERVER, policyTypes=["Ingress", "Egress"])]
    enforcer.replace_tables(rdma_lab.tables(1, PODS, closed))
    with pytest.raises(PermissionError, match="policy denies its peer") as refused:
        Pair(engine, 0, enforcer)
    assert refused.value.errno == errno.EACCES
    (denied,) = enforcer.denials.take()[0]
    assert (denied.verb, denied.source_pod, denied.destination_pod) == (
        "Connect",
        "default/pod0",
        "default/pod1",
    )
    assert denied.policies == ("default/p",)
    assert len(enforcer.flows) == 0


def test_a_wholly_denied_connection_is_revoked_and_flushed_at_both_ends(pair, enforcer, engine):
    pair.qb.receive((BASE, 8, pair.there.key))
    assert until(lambda: sleeps_on(engine)), "so that the revocation must wake it"
    closed = [policy(SERVER, policyTypes=["Ingress", "Egress"])]
    assert enforcer.replace_tables(rdma_lab.tables(2, PODS, closed)).revoked == 2
    assert (pair.qa.state, pair.qb.state) == (VerbsState.ERR, VerbsState.ERR)
    assert pair.a.events() == [(VerbsEvent.QP_FATAL, pair.qa.number)]
    assert pair.b.events() == [(VerbsEvent.QP_FATAL, pair.qb.number)]
    assert pair.b_recv.poll().status == Status.WR_FLUSH_ERR
    write(pair)
    assert pair.a_send.poll().status == Status.WR_FLUSH_ERR
    assert enforcer.replace_tables(rdma_lab.tables(3, PODS, closed)).revoked == 0, "once"
    enforcer.replace_tables(rdma_lab.tables(4, PODS))
    assert pair.qa.state == VerbsState.ERR, "what is allowed again is to be connected again"


def test_a_revoked_queue_pair_may_connect_again_when_it_is_allowed(pair, enforcer):
    closed = [policy(SERVER, policyTypes=["Ingress", "Egress"])]
    enforcer.replace_tables(rdma_lab.tables(2, PODS, closed))
    for qp, peer in ((pair.qa, pair.qb), (pair.qb, pair.qa)):
        qp.modify(1, state=VerbsState.RESET)
        with pytest.raises(PermissionError):
            qp.connect(peer)
        qp.modify(1, state=VerbsState.RESET)
    enforcer.replace_tables(rdma_lab.tables(3, PODS))
    pair.qa.connect(pair.qb)
    pair.qb.connect(pair.qa)
    assert ask(pair, "Write") == Status.SUCCESS


def test_no_byte_moves_after_a_revocation_is_acknowledged(engine, enforcer):
    """Writes of 512 MiB are in progress; no byte arrives after ``replace_tables`` has returned."""
    enforcer.replace_tables(EVERYTHING_PASSES)
    denying = rdma_lab.tables(2, PODS, [policy(SERVER, policyTypes=["Ingress", "Egress"])])
    pair = Pair(engine, 0, enforcer)
    size = 64 << 20
    source, target = pair.a.region(size, iova=1 << 32), pair.b.region(size, iova=1 << 32)
    source.view[:] = b"x" * size
    for _ in range(8):
        pair.qa.send(
            *(Op.RDMA_WRITE, [(1 << 32, size, source.key)]),
            remote_address=1 << 32,
            remote_key=target.key,
        )
    assert until(lambda: target.view[0] == ord("x"))
    enforcer.replace_tables(denying)
    target.view[:] = bytes(size)
    assert pair.a_send.statuses(8).count(Status.WR_FLUSH_ERR) >= 1
    time.sleep(0.05)
    assert not any(target.view[place] for place in range(0, size, 4096))
    pair.close()


def test_a_message_under_way_ends_when_its_verb_is_denied(engine, enforcer):
    enforcer.replace_tables(EVERYTHING_PASSES)
    denying = rdma_lab.tables(2, PODS, [policy(SERVER, ingress=[allow("Read")])])
    pair = Pair(engine, 0, enforcer)
    size = 64 << 20
    source, target = pair.a.region(size, iova=1 << 32), pair.b.region(size, iova=1 << 32)
    source.view[:] = b"x" * size
    pair.qa.send(
        *(Op.RDMA_WRITE, [(1 << 32, size, source.key)]),
        remote_address=1 << 32,
        remote_key=target.key,
    )
    assert until(lambda: target.view[0] == ord("x"))
    enforcer.replace_tables(denying)
    there = target.view[:].count(b"x")
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR
    assert there < size
    assert target.view[:].count(b"x") == there
    pair.close()


def test_a_thousand_queue_pairs_are_revoked_in_one_call(engine, enforcer):
    enforcer.replace_tables(EVERYTHING_PASSES)
    pair = Pair(engine, 0, enforcer)
    others = []
    for _ in range(500):
        here, there = pair.a.qp(pair.a_send, pair.a_recv), pair.b.qp(pair.b_send, pair.b_recv)
        here.connect(there)
        there.connect(here)
        others += [here, there]
    assert enforcer.connected == 1002
    closed = [policy(SERVER, policyTypes=["Ingress", "Egress"])]
    denying = rdma_lab.tables(2, PODS, closed)
    began = time.thread_time()
    assert enforcer.replace_tables(denying).revoked == 1002
    assert time.thread_time() - began < 0.25, "it takes a few milliseconds"
    assert {qp.state for qp in others} == {VerbsState.ERR}
    pair.close()
    assert enforcer.connected == 0


def test_generations_only_rise(enforcer):
    denying = [policy(SERVER)]
    enforcer.replace_tables(rdma_lab.tables(5, PODS, denying))
    with pytest.raises(StaleTables, match="generation 4 is older than the enforced generation 5"):
        enforcer.replace_tables(rdma_lab.tables(4, PODS))
    with pytest.raises(StaleTables, match="but with different tables"):
        enforcer.replace_tables(rdma_lab.tables(5, PODS))
    assert enforcer.replace_tables(rdma_lab.tables(5, PODS, denying)).generation == 5, "said twice"
    assert enforcer.tables == rdma_lab.tables(5, PODS, denying)


def test_tables_of_another_node_are_refused(enforcer):
    enforcer.replace_tables(EVERYTHING_PASSES)
    other = type(EVERYTHING_PASSES)(9, "there")
    with pytest.raises(StaleTables, match="tables are for node 'there', not for 'here'"):
        enforcer.replace_tables(other)


def test_a_pod_that_is_not_in_the_tables_cannot_connect(engine, enforcer):
    enforcer.replace_tables(rdma_lab.tables(1, PODS[1:]))
    with pytest.raises(PermissionError):
        Pair(engine, 0, enforcer)


def test_without_tables_no_pod_connects_where_policy_is_enforced(engine):
    closed = Enforcer(engine, Parties(), managed=True)
    with pytest.raises(PermissionError):
        Pair(engine, 0, closed)


def test_a_pod_that_leaves_the_tables_is_revoked(pair, enforcer):
    assert enforcer.replace_tables(rdma_lab.tables(2, PODS[:1])).revoked >= 1
    assert pair.qb.state == VerbsState.ERR


def test_policy_treats_a_link_local_name_of_a_peer_as_its_address(engine, enforcer):
    closed = [policy(SERVER, policyTypes=["Ingress", "Egress"])]
    enforcer.replace_tables(rdma_lab.tables(1, PODS, closed))
    numbers = hca_rig.Numbers()
    a, b = (hca_rig.Client(engine, numbers, i, enforcer) for i in (0, 1))
    qa, qb = (one.qp(one.cq(), one.cq()) for one in (a, b))
    b.gid = b.link_local
    with pytest.raises(PermissionError):
        qa.connect(qb)
    b.gid = bytes.fromhex("fe80000000000000027e55fffe999999")
    qa.modify(1, state=VerbsState.RESET)
    with pytest.raises(PermissionError):
        qa.connect(qb)
    a.objects.close()
    b.objects.close()


def test_read_only_memory_may_be_read_and_not_written(pair, enforcer):
    rule = allow(memory={"maxAccess": "ReadOnly"})
    enforcer.replace_tables(rdma_lab.tables(2, PODS, [policy(SERVER, ingress=[rule])]))
    assert ask(pair, "Read") == Status.SUCCESS
    assert ask(pair, "Send") == Status.SUCCESS
    assert ask(pair, "Write") == Status.REM_ACCESS_ERR


def test_named_regions_are_refused_closed(pair, enforcer):
    rule = allow(memory={"scope": "Named", "regions": ["weights"]})
    enforcer.replace_tables(rdma_lab.tables(2, PODS, [policy(SERVER, ingress=[rule])]))
    assert ask(pair, "Send") == Status.SUCCESS
    assert ask(pair, "Read") == Status.REM_ACCESS_ERR


def test_denials_name_the_pods_the_verb_and_the_policy(pair, enforcer):
    enforcer.replace_tables(rdma_lab.tables(2, PODS, [policy(SERVER, ingress=[allow("Read")])]))
    ask(pair, "Write")
    enforcer.flows.collect_counts()
    ((denied, count),) = enforcer.denials.take()[0].items()
    assert count == 1
    assert (denied.function, denied.source_pod, denied.destination_pod, denied.verb) == (
        "f0",
        "default/pod0",
        "default/pod1",
        "Write",
    )
    assert denied.policies == ("default/p",)
    assert next(iter(enforcer.flows.to_json()))["denied"] == 1
    assert "Write of default/pod0 (198.18.0.1) to default/pod1" in str(denied)
    assert enforcer.denials.take() == ({}, 0), "taken once"


def test_an_audit_passes_and_is_reported(pair, enforcer):
    audit = policy(SERVER, ingress=[allow("Read")], enforcement="Audit")
    enforcer.replace_tables(rdma_lab.tables(2, PODS, [audit]))
    assert ask(pair, "Write") == Status.SUCCESS
    enforcer.flows.collect_counts()
    ((denied, count),) = enforcer.denials.take()[0].items()
    assert (denied.verb, denied.audited, count) == ("Write", True, 1)
    assert enforcer.denials.total == 0


@pytest.mark.parametrize("least", ["ingress", "egress"])
@pytest.mark.parametrize("beside", [[], [5]], ids=["alone", "beside larger ones"])
def test_limits_of_objects_are_the_least_of_the_rules(pair, enforcer, least, beside):
    """Rules of both directions count: exactly that many are allowed, and never one more."""

    def rules(queue_pairs: list[int]) -> list[dict[str, object]]:
        said = [{"maxQPs": n, "maxMRBytes": n * 8192} for n in queue_pairs]
        return [allow(limits=limits) for limits in said]

    other = "egress" if least == "ingress" else "ingress"
    limited = policy(
        SERVER,
        policyTypes=["Ingress", "Egress"],
        **{least: rules([*beside, 3, *beside]), other: [allow(), *rules(beside)]},
    )
    enforcer.replace_tables(rdma_lab.tables(2, PODS, [limited]))
    cq = pair.b.cq()
    made = [pair.b.qp(cq, cq), pair.b.qp(cq, cq)]
    for _ in range(2):
        with pytest.raises(OSError, match="policy allows it 3 queue pairs") as refused:
            pair.b.qp(cq, cq)
        assert refused.value.errno == errno.EDQUOT
    pair.b.objects.destroy_qp(made.pop().number)
    pair.b.qp(cq, cq)
    pair.a.qp(pair.a_send, pair.a_recv)
    pair.a.region(1 << 20)
    pair.b.region(8192)
    for size in (8193, 12288):
        with pytest.raises(OSError, match="policy allows it to register 24576 bytes"):
            pair.b.region(size)
    pair.b.region(8192)
    with pytest.raises(OSError, match="policy allows it to register 24576 bytes"):
        pair.b.region(1)


def test_limits_of_a_policy_that_only_audits_bound_nothing(pair, enforcer):
    audit = policy(
        SERVER,
        policyTypes=["Ingress", "Egress"],
        enforcement="Audit",
        ingress=[allow(limits={"maxQPs": 1, "maxMRBytes": 1})],
        egress=[allow(limits={"maxQPs": 1, "maxMRBytes": 1})],
    )
    enforcer.replace_tables(rdma_lab.tables(2, PODS, [audit]))
    cq = pair.b.cq()
    pair.b.qp(cq, cq)
    pair.b.region(8192)


def time_writes(pair: Pair, size: int, count: int) -> float:
    """Write some messages; return how many seconds that took."""
    source = pair.a.region(size, iova=1 << 32)
    target = pair.b.region(size, iova=1 << 32)
    began = time.perf_counter()
    for _ in range(count):
        pair.qa.send(
            *(Op.RDMA_WRITE, [(1 << 32, size, source.key)]),
            remote_address=1 << 32,
            remote_key=target.key,
        )
    assert pair.a_send.statuses(count) == [Status.SUCCESS] * count
    return time.perf_counter() - began


@pytest.mark.parametrize(
    ("limits", "size", "count", "seconds"),
    [
        ({"bandwidth": "16Mi"}, 1 << 20, 4, 0.15),
        ({"bandwidth": "16Mi"}, 4 << 20, 2, 0.35),
        ({"ops": "50"}, 8, 12, 0.2),
    ],
    ids=["bytes of messages", "bytes of one message", "operations"],
)
def test_ceilings_hold_a_flow_back(pair, enforcer, limits, size, count, seconds):
    """The next message waits until the excess of the last one is paid back."""
    limited = [policy(SERVER, ingress=[allow(limits=limits)])]
    enforcer.replace_tables(rdma_lab.tables(2, PODS, limited))
    assert time_writes(pair, size, count) > seconds
    assert len(enforcer.flows.rates) == 1
    enforcer.replace_tables(rdma_lab.tables(3, PODS))
    assert len(enforcer.flows.rates) == 0
    assert until(lambda: time_writes(pair, size, count) < seconds, 60), (
        "on a busy machine some time"
    )


@pytest.mark.parametrize("how", ["by a rule", "by its DSCP"])
def test_a_qos_class_holds_a_flow_back_on_one_node_too(engine, enforcer, how):
    network = {
        "metadata": {"name": "lab"},
        "spec": {"qosClasses": [{"name": "slow", "dscp": 10, "maxRate": "16Mi"}]},
    }
    by_rule = [policy(CLIENT, policyTypes=["Egress"], egress=[allow(qosClassName="slow")])]
    enforcer.replace_tables(
        rdma_lab.tables(2, PODS, by_rule if how == "by a rule" else (), [network])
    )
    pair = Pair(engine, 0, enforcer, traffic_class=0 if how == "by a rule" else 41)
    assert time_writes(pair, 1 << 20, 4) > 0.15
    assert len(enforcer.flows.rates) > 0
    enforcer.replace_tables(rdma_lab.tables(3, PODS))
    assert len(enforcer.flows.rates) == 0
    pair.close()


def test_the_flows_of_a_rule_share_its_ceiling(engine, enforcer):
    """Two clients of one server together get the rate that the rule allows for its peers."""
    pods = (*PODS, pod(2, app="client"))
    limited = [policy(SERVER, ingress=[allow(limits={"ops": "50"})])]
    enforcer.replace_tables(rdma_lab.tables(1, pods, limited))
    pair = Pair(engine, 0, enforcer)
    third = hca_rig.Client(engine, hca_rig.Numbers(), 2, enforcer)
    queue = third.cq()
    there = pair.b.qp(pair.b_send, pair.b_recv)
    here = third.qp(queue, queue)
    here.connect(there)
    there.connect(here)
    began = time.perf_counter()
    for _ in range(8):
        for end, memory in ((pair.qa, pair.here), (here, None)):
            end.send(
                *(Op.RDMA_WRITE, [(BASE, 0, memory.key)] if memory else []),
                remote_address=BASE,
                remote_key=pair.there.key,
            )
    assert pair.a_send.statuses(8) + queue.statuses(8) == [Status.SUCCESS] * 16
    assert time.perf_counter() - began > 0.26
    third.objects.close()
    pair.close()
    assert len(enforcer.flows.rates) == 0


def test_members_of_other_partitions_are_strangers(pair, enforcer):
    def member(label):
        return [{"podSelector": {"matchLabels": label}}]

    partitions = [
        {"name": "one", "pkey": 0x11, "members": member(CLIENT)},
        {"name": "two", "pkey": 0x12, "members": member(SERVER)},
    ]
    network = {"metadata": {"name": "n"}, "spec": {"partitions": partitions}}
    assert enforcer.replace_tables(rdma_lab.tables(2, PODS, networks=[network])).revoked == 2
    assert pair.qa.state == VerbsState.ERR


def test_datagrams_that_are_denied_vanish_and_those_allowed_arrive(engine, enforcer):
    """The sender gets no error: its request completes, as for any lost datagram."""
    enforcer.replace_tables(EVERYTHING_PASSES)
    numbers = hca_rig.Numbers()
    a, b = (hca_rig.Client(engine, numbers, index, enforcer) for index in (0, 1))
    sent, received = a.cq(), b.cq()
    sender, receiver = (
        a.qp(sent, sent, kind=VerbsQpType.UD),
        b.qp(received, received, kind=VerbsQpType.UD),
    )
    for qp in (sender, receiver):
        qp.listen(0x11)
    handle, memory = a.ah(b.gid), b.region()
    arrived = 0
    for generation, verbs in enumerate((["UD"], ["Read"], ["UD", "CM"]), 2):
        allowing = [policy(SERVER, ingress=[allow(*verbs)])]
        enforcer.replace_tables(rdma_lab.tables(generation, PODS, allowing))
        receiver.receive((BASE, 4096, memory.key))
        named = {"remote_qpn": receiver.number, "remote_key": 0x11, "address_handle": handle}
        sender.send(Op.SEND, inline=b"datagram", **named)
        assert sent.poll().status == Status.SUCCESS
        arrived += "UD" in verbs
        assert received.page.head == arrived
    enforcer.flows.collect_counts()
    (denied,) = enforcer.denials.take()[0]
    assert (denied.verb, denied.policies) == ("UD", ("default/p",))
    a.objects.close()
    b.objects.close()
    assert enforcer.connected == 0
    assert len(enforcer.flows) == 0


def engines_own(end: hca_rig.Qp) -> int:
    return end.client.objects._qps[end.number].engine


@pytest.mark.parametrize("denier", ["requester", "responder"])
def test_either_end_alone_denies(pair, engine, denier):
    """Two nodes may temporarily have tables of different generations."""
    everything = {"pkey": 0xFFFF, "sends": ALL, "receives": ALL}
    less = (
        {"sends": ALL & ~Verb.WRITE} if denier == "requester" else {"receives": ALL & ~Verb.WRITE}
    )
    denying, open_ = (pair.qa, pair.qb) if denier == "requester" else (pair.qb, pair.qa)
    engine.set_policies(
        [
            hca_engine.HcaPolicyChange(engines_own(open_), **everything),
            hca_engine.HcaPolicyChange(engines_own(denying), **{**everything, **less}),
        ]
    )
    assert ask(pair, "Read") == Status.SUCCESS
    assert ask(pair, "Write") == Status.REM_ACCESS_ERR


@pytest.mark.parametrize(
    ("one", "other", "reach"),
    [
        (0xFFFF, 0xFFFF, True),
        (0x7FFF, 0xFFFF, True),
        (0xFFFF, 0x7FFF, True),
        (0x7FFF, 0x7FFF, False),
        (0x8011, 0x8012, False),
        (0x8011, 0xFFFF, False),
        (0, 0, False),
    ],
)
def test_partitions_are_shared_by_one_full_member_at_least(pair, engine, one, other, reach):
    for end, pkey in ((pair.qa, one), (pair.qb, other)):
        change = hca_engine.HcaPolicyChange(engines_own(end), pkey=pkey, sends=ALL, receives=ALL)
        engine.set_policies([change])
    assert ask(pair, "Write") == (Status.SUCCESS if reach else Status.RETRY_EXC_ERR)


def test_a_new_queue_pair_is_denied_until_it_has_a_policy(pair, engine):
    """By default, the engine denies everything to a queue pair without a verdict."""
    engine.set_policies([hca_engine.HcaPolicyChange(engines_own(pair.qa))])
    assert ask(pair, "Write") == Status.RETRY_EXC_ERR
