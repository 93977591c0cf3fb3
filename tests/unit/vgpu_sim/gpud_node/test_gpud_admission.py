"""Access to contexts: by token for one user, by pod in a cluster."""

import asyncio
import dataclasses

import pytest

from support.rigs import a30_slice
from vgpu_sim.gpud.errors import HelloRefused, RetryLater
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.model import (
    ClaimShare,
    Holder,
    Owner,
    new_instance_uuid,
)
from vgpu_sim.gpud.slices import admission
from vgpu_sim.gpud.slices.admission import HolderTable, PodAdmission, TokenAdmission
from vgpu_sim.gpud.slices.server import MAX_PENDING
from vgpu_sim.system.peers import Peer, PodUid

INSTANCE = a30_slice.make()
POD = Holder(PodUid("8b7a1c2d-0e4f-4a6b-9c8d-7e6f5a4b3c2d"), "team", "train")
PROCESSES = {100: POD.pod_uid, 101: POD.pod_uid, 200: PodUid("f" * 32)}  # pid -> pod


class Cluster:
    def __init__(self, wait_seconds: float = 0.2) -> None:
        self.holders, self.events, self.seen = HolderTable(), EventBus(), []
        self.foreign = False
        self.events.subscribe(self.seen.append)
        self.admission = PodAdmission(
            self.holders, self.events, lambda _: self.foreign, PROCESSES.get, wait_seconds
        )

    def ask(self, peer=100, sender=101):
        return self.admission.authorize(
            INSTANCE, Peer(peer, 0), Peer(sender, 0) if sender else None, bytes(32)
        )

    def allow(self) -> None:
        self.holders.replace({INSTANCE.uuid: [POD]}, complete=True)


@pytest.mark.parametrize(
    ("uid", "sender_uid", "token", "admitted"),
    [
        (7, 7, b"t" * 32, True),
        (7, 7, b"T" * 32, False),
        (7, 7, bytes(32), False),
        (8, 8, b"t" * 32, False),
        (7, 8, b"t" * 32, False),
    ],
)
def test_token_and_uid_must_be_right(uid, sender_uid, token, admitted):
    ask = TokenAdmission(7, b"t" * 32).authorize(INSTANCE, Peer(1, uid), Peer(2, sender_uid), token)
    if admitted:
        assert asyncio.run(ask).pod_uid == ""
        return
    with pytest.raises(HelloRefused) as refused:
        asyncio.run(ask)
    assert refused.value.status == 800


def test_the_listed_pod_is_admitted_at_once():
    async def scenario():
        cluster = Cluster()
        cluster.allow()
        owner = await cluster.ask()
        assert (owner.pod_uid, owner.namespace) == (POD.pod_uid, "team")
        assert cluster.seen == []

    asyncio.run(scenario())


@pytest.mark.parametrize(("peer", "sender"), [(999, 999), (100, 200), (200, 100), (100, None)])
def test_no_pod_or_a_passed_on_socket_is_refused(peer, sender):
    async def scenario():
        cluster = Cluster()
        cluster.allow()
        if peer == 200:
            cluster.holders.replace(
                {INSTANCE.uuid: [POD, Holder(PROCESSES[200], "other", "pod")]}, complete=True
            )
        with pytest.raises(HelloRefused) as refused:
            await cluster.ask(peer, sender)
        assert refused.value.status == 800

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("peer", "sender", "holds"),
    [(100, 101, True), (100, 200, False), (200, 200, False), (100, None, False), (5, 5, False)],
)
def test_a_slices_holder_is_determined_without_waiting(peer, sender, holds):
    cluster = Cluster()
    requested = INSTANCE.uuid, Peer(peer, 0), Peer(sender, 0) if sender else None
    assert not asyncio.run(cluster.admission.is_holder(*requested))
    cluster.allow()
    assert asyncio.run(cluster.admission.is_holder(*requested)) is holds
    of_user = TokenAdmission(0, bytes(32))
    assert asyncio.run(of_user.is_holder(*requested))
    assert not asyncio.run(of_user.is_holder(INSTANCE.uuid, Peer(1, 7), None))


def test_a_pod_that_is_listed_late_waits_and_gets_in():
    async def scenario():
        cluster = Cluster(wait_seconds=5)
        asking = asyncio.create_task(cluster.ask())
        await asyncio.sleep(0.01)
        assert cluster.seen == [
            {"event": "holders_wanted", "instance": INSTANCE.uuid, "pod_uid": POD.pod_uid}
        ]
        cluster.holders.replace({}, complete=True)  # a partial list that does not name it
        await asyncio.sleep(0.01)
        assert not asking.done()
        cluster.allow()
        assert (await asking).namespace == "team"

    asyncio.run(scenario())


def test_however_many_strangers_wait_its_holder_gets_in():
    """Any pod can have a slice's socket mounted; connections of a slice are few."""

    async def scenario():
        cluster = Cluster(wait_seconds=600)
        cluster.allow()
        strangers = [asyncio.create_task(cluster.ask(200, 200)) for _ in range(MAX_PENDING)]
        too_many = MAX_PENDING - admission.MAX_UNLISTED
        for _ in range(10_000):
            refused = [one for one in strangers if one.done()]
            if len(refused) == too_many:
                break
            await asyncio.sleep(0.001)
        assert len(refused) == too_many
        assert all(isinstance(one.exception(), HelloRefused) for one in refused)
        assert (await cluster.ask()).pod_uid == POD.pod_uid
        assert {row["event"] for row in cluster.seen} == {"holders_wanted"}
        for one in strangers:
            one.cancel()
        await asyncio.wait(strangers)
        assert not cluster.admission._unlisted

    asyncio.run(scenario())


@pytest.mark.parametrize("complete", [True, False])
def test_a_pod_that_is_never_listed_gets_46_and_an_event(complete):
    async def scenario():
        cluster = Cluster(wait_seconds=0.05)
        asking = asyncio.create_task(cluster.ask())
        await asyncio.sleep(0.01)
        cluster.holders.replace({} if complete else {INSTANCE.uuid: []}, complete)
        with pytest.raises(HelloRefused) as refused:
            await asking
        assert refused.value.status == 46
        assert [event["event"] for event in cluster.seen] == ["holders_wanted", "refused"]

    asyncio.run(scenario())


OTHER_INSTANCE = new_instance_uuid()


@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [
        (None, None),  # gpud and agent have just started
        ({INSTANCE.uuid: []}, None),  # the list is older than the client, so the agent is away
        (None, {OTHER_INSTANCE: [POD]}),  # a list that does not cover the slice
    ],
)
def test_a_client_is_refused_by_a_list_that_is_newer_than_its_question_and_by_no_other(
    before, meanwhile
):
    """On a refusal that is only temporary gpud disconnects, and client libraries repeat the
    request.
    """

    async def scenario():
        cluster = Cluster(wait_seconds=0.05)
        if before is not None:
            cluster.holders.replace(before, complete=True)
        asking = asyncio.create_task(cluster.ask())
        await asyncio.sleep(0.01)
        if meanwhile is not None:
            cluster.holders.replace(meanwhile, complete=False)
        with pytest.raises(RetryLater, match=r"DaemonSet tessera-node-<pool>\) has not reported"):
            await asking
        assert {event["event"] for event in cluster.seen} == {"holders_wanted"}

    asyncio.run(scenario())


@pytest.mark.parametrize(("reported", "error"), [(False, RetryLater), (True, HelloRefused)])
def test_too_many_that_wait_are_refused_once_there_was_a_list(reported, error):
    async def scenario():
        cluster = Cluster(wait_seconds=600)
        if reported:
            cluster.holders.replace({}, complete=True)
        waiting = [
            asyncio.create_task(cluster.ask(200, 200)) for _ in range(admission.MAX_UNLISTED)
        ]
        for _ in range(10_000):
            if cluster.admission._unlisted[INSTANCE.uuid] == admission.MAX_UNLISTED:
                break
            await asyncio.sleep(0.001)
        with pytest.raises(error, match="other pods already wait"):
            await cluster.ask()
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)

    asyncio.run(scenario())


def test_many_clients_of_a_pod_ask_once_and_go_on_asking(monkeypatch):
    monkeypatch.setattr(admission, "ASK_AGAIN_SECONDS", 0.1)

    async def scenario():
        cluster = Cluster(wait_seconds=0.35)
        asking = [asyncio.create_task(cluster.ask()) for _ in range(20)]
        await asyncio.sleep(0.05)
        assert len(cluster.seen) == 1
        await asyncio.wait(asking)
        wanted = [event for event in cluster.seen if event["event"] == "holders_wanted"]
        assert 3 <= len(wanted) <= 5
        assert {type(task.exception()) for task in asking} == {RetryLater}

    asyncio.run(scenario())


def test_a_new_holder_waits_for_the_old_ones_end():
    async def scenario():
        cluster = Cluster(wait_seconds=5)
        cluster.allow()
        cluster.foreign = True
        asking = asyncio.create_task(cluster.ask())
        await asyncio.sleep(0.02)
        assert not asking.done()
        cluster.foreign = False
        cluster.holders.notify()
        assert (await asking).pod_uid == POD.pod_uid

    asyncio.run(scenario())


def test_a_partial_list_replaces_only_what_it_names():
    other = new_instance_uuid()
    table = HolderTable()
    assert not table.is_known(other)
    table.replace({INSTANCE.uuid: [POD]}, complete=False)
    assert not table.is_known(other)
    table.replace({other: [POD]}, complete=False)
    assert table.of(INSTANCE.uuid) == (POD,)
    table.replace({other: []}, complete=True)
    assert table.of(INSTANCE.uuid) == ()
    assert table.is_known(INSTANCE.uuid)


CLAIMS = [f"claim:{digit * 8}-3333-4333-8333-333333333333" for digit in "ab"]
SHARED = dataclasses.replace(
    INSTANCE,
    shares=(ClaimShare(CLAIMS[0], "team/a", 300), ClaimShare(CLAIMS[1], "team/b", 200)),
)


@pytest.mark.parametrize(
    ("claims", "used", "expected"),
    [
        (CLAIMS[:1], {}, CLAIMS[0]),
        (CLAIMS[1:], {}, CLAIMS[1]),
        (CLAIMS, {}, CLAIMS[0]),
        (CLAIMS, {CLAIMS[0]: 101}, CLAIMS[1]),  # of two shares the one with more left
        ([], {}, None),
        (["claim:cccccccc-3333-4333-8333-333333333333"], {}, None),
    ],
)
def test_a_pod_uses_the_share_of_its_claim(claims, used, expected):
    async def scenario():
        cluster = Cluster()
        stranger = Holder(PROCESSES[200], "other", "pod", claims=tuple(CLAIMS))
        holders = [stranger, dataclasses.replace(POD, claims=tuple(claims))]
        cluster.holders.replace({SHARED.uuid: holders}, complete=True)
        admission = PodAdmission(
            *(cluster.holders, cluster.events, lambda _: False, PROCESSES.get, 0.2),
            used_bytes=lambda uuid, sharer: used.get(sharer, 0),
        )
        return await admission.authorize(SHARED, Peer(100, 0), Peer(101, 0), bytes(32))

    if expected is None:
        with pytest.raises(HelloRefused, match="no claim of the pod has a share") as refused:
            asyncio.run(scenario())
        assert refused.value.status == 46
        return
    owner = asyncio.run(scenario())
    assert (owner.pod_uid, owner.claim, owner.sharer) == (POD.pod_uid, expected, expected)


def test_a_context_is_listed_by_its_claim():
    table = HolderTable()
    table.replace({SHARED.uuid: [dataclasses.replace(POD, claims=(CLAIMS[0],))]}, complete=True)
    listed = [table.has_holder(SHARED.uuid, Owner(POD.pod_uid, "team", c)) for c in ("", *CLAIMS)]
    assert listed == [True, True, False]
    assert not table.has_holder(SHARED.uuid, Owner(PodUid("f" * 32), "team"))
