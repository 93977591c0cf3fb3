"""A client saved by one hcad and loaded by another: replies are the same, and traffic continues."""

import os
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from hca.binding.engine import Engine
from hca.contract import hca, hca_frames, hca_objects
from hca.contract.verbs import VerbsOpcode as Op, VerbsQpType, VerbsState, VerbsStatus as Status
from hca.daemon.cm.bindings import Claim
from hca.daemon.cm.connection import Connection, State
from hca.daemon.cm.policy import Service
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.client_objects import Objects
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties
from support.rigs import hca_rig, rdma_lab
from support.rigs.hca_moves import move
from support.rigs.hca_rig import ALL_ACCESS, BASE, Client, Pair, write


@pytest.fixture
def old():
    with hca_rig.running_engine() as running:
        yield running


@pytest.fixture
def new():
    with hca_rig.running_engine() as running:
        running.suspend()
        yield running
        running.resume()


def answers(objects: Objects) -> dict[str, object]:
    """Return everything that a client can query about its objects."""
    return {
        "queue pairs": {n: bytes(objects.query_qp(n)) for n in objects._qps},
        "domains": dict(objects._pds),
        "queues": {h: (c.channel, c.entries, c.queue_pairs) for h, c in objects._cqs.items()},
        "channels": {h: c.queues for h, c in objects._channels.items()},
        "segments": {h: (s.size, frozenset(s.keys)) for h, s in objects._segments.items()},
        "regions": {k: (r.pd, r.segments, r.wanted) for k, r in objects._regions.items()},
        "shared": {h: bytes(objects.query_srq(h)) for h in objects._srqs},
        "windows": {k: (w.pd, w.wanted) for k, w in objects._windows.items()},
        "paths": {k: (p.pd, p.wanted) for k, p in objects._paths.items()},
        "members": list(objects._members),
        "steers": {h: (s.targets, s.wanted) for h, s in objects._steers.items()},
        "pkeys": objects.pkeys,
        "indices": sorted(objects._free_indices),
        "room": objects._room,
        "next": objects._next,
    }


def something(client: Client, choice: random.Random) -> None:
    """Make, change or remove a random object; a refused request changes nothing."""
    objects = client.objects
    pds, cqs = list(objects._pds), list(objects._cqs)
    channels = [0, *objects._channels]
    removals = [
        (objects.destroy_pd, pds),
        (objects.destroy_cq, cqs),
        (objects.destroy_channel, channels[1:]),
        (objects.destroy_segment, list(objects._segments)),
        (objects.destroy_region, list(objects._regions)),
        (objects.destroy_qp, list(objects._qps)),
        (objects.destroy_srq, list(objects._srqs)),
        (objects.destroy_ah, list(objects._paths)),
        (objects.destroy_window, list(objects._windows)),
        (objects.destroy_steer, list(objects._steers)),
    ]
    kind = choice.randrange(15)
    if kind == 0:
        objects.create_pd()
    elif kind == 1:
        os.close(objects.create_channel()[1])
    elif kind == 2:
        wanted = hca.HcaCqCreate(choice.randint(1, 600), choice.choice(channels))
        os.close(objects.create_cq(wanted)[1])
    elif kind == 3 and pds:
        iova, pd = choice.randrange(1 << 48), choice.choice(pds)
        client.region(choice.randint(1, 20000), choice.choice([1, 7, 0]), pd, iova)
    elif kind in (4, 5) and pds and cqs:
        depth = choice.choice([0, 1, 5, 64])
        ends = (choice.choice(cqs), choice.choice(cqs))
        request = hca.HcaQpCreate(
            *(choice.choice(pds), *ends, choice.choice([2, 4, 8]), depth, depth, kind == 4),
            choice.choice([0, *objects._srqs]),
        )
        created, page = objects.create_qp(request)
        os.close(page)
        attributes = hca.HcaQpAttributes(state=1, port=1, access=choice.choice([0, 7]))
        if request.type == VerbsQpType.RC:
            objects.modify_qp(hca.HcaQpModify(created.handle, hca_rig.TO_INIT, attributes))
    elif kind == 6 and pds:
        wanted_srq = hca_objects.HcaSrqCreate(choice.choice(pds), choice.randint(1, 90), 0)
        os.close(objects.create_srq(wanted_srq)[1])
    elif kind == 7 and pds:
        objects.create_window(hca_objects.HcaMwCreate(choice.choice(pds), choice.choice([1, 2])))
    elif kind == 8 and pds:
        path = hca_objects.HcaAhCreate(
            pd=choice.choice(pds), is_global=1, port=1, hop_limit=choice.randrange(99)
        )
        objects.create_ah(path)
    elif kind == 9 and objects._srqs:
        srq, most = choice.choice([(h, s.count) for h, s in objects._srqs.items()])
        objects.modify_srq(hca_objects.HcaSrqModify(srq, choice.randint(0, most)))
    elif kind == 10:
        datagrams = [n for n, qp in objects._qps.items() if qp.type == VerbsQpType.UD]
        if datagrams:
            wanted_group = hca_objects.HcaMcast(qpn=choice.choice(datagrams))
            wanted_group.gid[0], wanted_group.gid[15] = 0xFF, choice.randrange(4)
            objects.attach(wanted_group)
    elif kind == 11:
        frames = [n for n, qp in objects._qps.items() if qp.type == VerbsQpType.RAW_PACKET]
        if frames:
            wanted_steer = hca_frames.HcaSteerCreate(choice.randrange(9), len(frames))
            wanted_steer.targets[: len(frames)] = frames
            objects.create_steer(wanted_steer)
    elif kind == 12 and cqs:
        entries = hca_objects.HcaCqResize(choice.choice(cqs), choice.randint(1, 600))
        os.close(objects.resize_cq(entries)[1])
    elif kind > 12:
        destroy, there = choice.choice(removals)
        if there:
            with suppress(OSError):  # EBUSY
                destroy(choice.choice(there))


@pytest.mark.parametrize("seed", range(12))
def test_whatever_a_client_has_it_has_the_same_afterwards(old, new, seed):
    choice = random.Random(seed)
    client = Client(old, Numbers(), 0)
    for _ in range(choice.randint(0, 120)):
        something(client, choice)
    old.suspend()
    before = answers(client.objects)
    numbers = Numbers()
    numbers.adopt_pds(1000)
    move(client, new, numbers)
    old.resume()
    assert answers(client.objects) == before
    assert numbers.new_pd() == 1001
    for number in before["queue pairs"]:  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="twice"):
            numbers.adopt_qpn(number)
    for _ in range(40):  # and everything can still be changed
        something(client, choice)
    client.objects.close()


def move_pair(pair: Pair, old: Engine, new: Engine) -> None:
    """Hand both ends of a pair over."""
    old.suspend()
    numbers = Numbers()
    for client in (pair.a, pair.b):
        move(client, new, numbers)
    old.resume()


def test_requests_before_and_after_come_in_order(old, new):
    """Ten writes are done before, six wait in the ring while no engine works, five follow."""
    pair = Pair(old)
    for size in range(10):
        write(pair, 8 + size)
    assert pair.a_send.statuses(10) == [0] * 10
    old.suspend()
    for _ in range(6):
        write(pair, 8)
    numbers = Numbers()
    for client in (pair.a, pair.b):
        move(client, new, numbers)
    old.resume()
    new.resume()
    for _ in range(5):
        write(pair, 8)
    taken = [pair.a_send.poll() for _ in range(11)]
    assert [done.id for done in taken] == list(range(10, 21))
    assert {done.status for done in taken} == {0}
    assert pair.qa.state == pair.qb.state == VerbsState.RTS
    pair.close()


def test_completions_go_on_into_a_queue_that_was_made_larger(old, new):
    """The client maps the new page only, so the successor must write to that one."""
    pair = Pair(old)
    write(pair)
    larger = hca_objects.HcaCqResize(pair.a_send.handle, 300)
    resized, tail = hca_rig.Cq(*pair.a.objects.resize_cq(larger)), pair.a_send.tail
    resized.tail, pair.a_send = tail, resized
    move_pair(pair, old, new)
    new.resume()
    for _ in range(5):
        write(pair)
    assert pair.a_send.statuses(6) == [0] * 6
    pair.close()


def test_a_send_that_waits_for_its_receive_goes_on_waiting(old, new):
    pair = Pair(old, rnr_retry=7, min_rnr_timer=14)
    pair.here.view[:5] = b"hello"
    pair.qa.send(Op.SEND, [(BASE, 5, pair.here.key)])
    assert not hca_rig.until(lambda: pair.a_send.page.head != 0, 0.05)
    move_pair(pair, old, new)
    new.resume()
    pair.qb.receive((BASE, 64, pair.there.key))
    assert pair.b_recv.poll().bytes == 5
    assert pair.a_send.poll().status == 0
    assert pair.there.view[:5] == b"hello"
    pair.close()


def test_what_failed_stays_failed_and_keys_and_rights_are_the_same(old, new):
    pair = Pair(old)
    write(pair, remote_key=pair.there.key ^ 1)
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR
    assert hca_rig.until(lambda: pair.qb.state == VerbsState.ERR)
    good = (pair.a.qp(pair.a_send, pair.a_recv), pair.b.qp(pair.b_send, pair.b_recv))
    good[0].connect(good[1])
    good[1].connect(good[0])
    read_only = pair.b.region(access=ALL_ACCESS & ~2)
    move_pair(pair, old, new)
    new.resume()
    assert pair.qa.state == pair.qb.state == VerbsState.ERR
    write(pair)
    assert pair.a_send.poll().status == Status.WR_FLUSH_ERR
    here = [(BASE, 8, pair.here.key)]
    for key, status in ((pair.there.key, 0), (read_only.key, Status.REM_ACCESS_ERR)):
        good[0].send(Op.RDMA_WRITE, here, remote_address=BASE, remote_key=key)
        assert pair.a_send.poll().status == status
    pair.close()


def test_nothing_is_done_while_an_engine_is_held(old):
    pair = Pair(old)
    old.suspend()
    write(pair)
    assert not hca_rig.until(lambda: pair.a_send.page.head != 0, 0.1)
    old.resume()
    assert pair.a_send.poll().status == 0
    pair.close()


PODS = (rdma_lab.pod(0, app="client"), rdma_lab.pod(1, app="server"))
SERVER = {"app": "server"}
READS = rdma_lab.policy(SERVER, ingress=[rdma_lab.allow("Read")])
CLOSED = rdma_lab.policy(SERVER, policyTypes=["Ingress", "Egress"])


def under(engine: Engine, policy: Mapping[str, Any], pair: Pair | None = None) -> Enforcer:
    """Return the enforcer of an hcad with a policy; ``pair``'s functions are members of its
    fabric.
    """
    enforcer = Enforcer(engine, Parties())
    enforcer.replace_tables(rdma_lab.tables(1, PODS, [policy]))
    if pair is not None:
        for client in (pair.a, pair.b):
            enforcer.parties.add(client.party)
    return enforcer


def move_under(pair: Pair, old: Engine, new: Engine, policy: Mapping[str, Any]) -> Enforcer:
    """Hand both ends over to an hcad with this policy."""
    enforcer, numbers = under(new, policy, pair), Numbers()
    for client in (pair.a, pair.b):
        move(client, new, numbers, enforcer)
    old.resume()
    return enforcer


def test_what_is_denied_stays_denied_from_the_first_instant(old, new):
    """The write waits in the ring while no engine works; the successor is the first to process
    it.
    """
    pair = Pair(old, 0, under(old, READS))
    pair.there.view[:8] = b"untouche"
    old.suspend()
    write(pair)
    enforcer = move_under(pair, old, new, READS)
    new.resume()
    assert pair.a_send.poll().status == Status.REM_ACCESS_ERR
    assert pair.there.view[:8] == b"untouche"
    enforcer.flows.collect_counts()
    assert [rule["denied"] for rule in enforcer.flows.to_json()] == [1]
    pair.close()
    assert (enforcer.connected, len(enforcer.flows)) == (0, 0)


def test_what_is_allowed_stays_allowed_from_the_first_instant(old, new):
    pair = Pair(old, 0, under(old, READS))
    pair.there.view[:8] = b"to read."
    old.suspend()
    write(pair, opcode=Op.RDMA_READ)
    enforcer = move_under(pair, old, new, READS)
    new.resume()
    assert pair.a_send.poll().status == 0
    assert pair.here.view[:8] == b"to read."
    assert enforcer.denials.total == 0
    pair.close()


def test_what_policy_denies_by_then_does_nothing_and_ends_when_it_is_served(old, new):
    pair = Pair(old, 0, under(old, READS))
    old.suspend()
    write(pair, opcode=Op.RDMA_READ)
    enforcer = move_under(pair, old, new, CLOSED)
    assert (pair.qa.state, pair.a_send.page.head) == (VerbsState.RTS, 0), (
        "until GO all is as it was"
    )
    assert pair.a.events() == []
    enforcer.reevaluate()
    new.resume()
    assert pair.a_send.poll().status == Status.WR_FLUSH_ERR
    assert pair.qa.state == pair.qb.state == VerbsState.ERR
    pair.close()


def connected_by(pair: Pair, port: int) -> tuple[hca_rig.Qp, hca_rig.Qp]:
    """Return two more queue pairs, which the connection manager has connected by a service."""
    ends = (pair.a.qp(pair.a_send, pair.a_recv), pair.b.qp(pair.b_send, pair.b_recv))
    for own, peer in (ends, ends[::-1]):
        service = Service(port, "TCP", is_server=own is ends[1])
        claim = Claim(own.client.gid, peer.client.gid, service)
        connection = Connection(State.ESTABLISHED, 1, 1, own.number, peer.number)
        own.client.objects.bindings.update_claim(claim, connection)
        own.connect(peer, sgid_index=1)
    return ends


@pytest.mark.parametrize(("port", "status"), [(7000, 0), (7001, Status.RETRY_EXC_ERR)])
def test_a_connection_keeps_the_service_it_was_made_by(old, new, port, status):
    """The successor's policy permits one port; a connection by another service is denied."""
    pair = Pair(old, 0, under(old, READS))
    ends = connected_by(pair, port)
    old.suspend()
    ends[0].send(
        *(Op.RDMA_READ, [(BASE, 8, pair.here.key)]),
        remote_address=BASE,
        remote_key=pair.there.key,
    )
    ports = {"ports": [{"serviceID": 7000}]}
    enforcer = move_under(
        pair, old, new, rdma_lab.policy(SERVER, ingress=[rdma_lab.allow("Read", **ports)])
    )
    new.resume()
    assert pair.a_send.poll().status == status
    pair.close()
    assert enforcer.connected == 0


def test_a_service_is_taken_over_for_the_peer_that_it_was_written_with_alone(old, new, monkeypatch):
    """The service in the document belongs to another connection: the queue pairs get none."""
    pair = Pair(old, 0, under(old, READS))
    ends = connected_by(pair, 7000)
    saved = Objects._saved_service

    def of_another(objects: Objects, qp: Any) -> Mapping[str, Any]:
        row = saved(objects, qp)
        return {**row, "joins": [*row.get("joins", [])[:2], 1]}

    monkeypatch.setattr(Objects, "_saved_service", of_another)
    old.suspend()
    allowed = rdma_lab.allow("Read", ports=[{"serviceID": 7000}])
    enforcer = move_under(pair, old, new, rdma_lab.policy(SERVER, ingress=[allowed]))
    new.resume()
    ends[0].send(
        *(Op.RDMA_READ, [(BASE, 8, pair.here.key)]),
        remote_address=BASE,
        remote_key=pair.there.key,
    )
    assert pair.a_send.poll().status == Status.RETRY_EXC_ERR
    pair.close()
    assert enforcer.connected == 0


@pytest.mark.parametrize(
    ("policy", "arrived"),
    [(CLOSED, 0), (rdma_lab.policy(SERVER, ingress=[rdma_lab.allow("UD")]), 1)],
    ids=["denied", "allowed"],
)
def test_an_address_handle_is_evaluated_before_its_first_datagram(old, new, policy, arrived):
    enforcer, numbers = under(old, CLOSED), Numbers()
    a, b = (Client(old, numbers, index, enforcer) for index in (0, 1))
    sent, received = a.cq(), b.cq()
    kind = VerbsQpType.UD
    sender, receiver = a.qp(sent, sent, kind=kind), b.qp(received, received, kind=kind)
    for qp in (sender, receiver):
        qp.listen(0x11)
    handle, memory = a.ah(b.gid), b.region()
    receiver.receive((BASE, 4096, memory.key))
    old.suspend()
    named = {"remote_qpn": receiver.number, "remote_key": 0x11, "address_handle": handle}
    sender.send(Op.SEND, inline=b"datagram", **named)
    enforcer, numbers = under(new, policy), Numbers()
    for client in (a, b):
        enforcer.parties.add(client.party)
    for client in (a, b):
        move(client, new, numbers, enforcer)
    old.resume()
    new.resume()
    assert sent.poll().status == 0, "no event is sent"
    assert received.page.head == arrived
    for client in (a, b):
        client.objects.close()
