"""Leader election: one replica writes, a former leader stops, a dead one is replaced."""

import asyncio
import selectors
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_operator import errors
from gpu_operator.kube import lease
from gpu_operator.kube.lease import Elector, Term
from gpu_operator.kube.port import Document
from support.rigs.turned_clock import Clock
from support.worlds.fake_cluster import FakeCluster

TERM_S = 15.0
TERM = Term(TERM_S, 10.0, 2.0)


class Cluster(FakeCluster):
    down = False

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Document:
        if self.down:
            raise errors.Unreachable("no answer")
        return await super().get(kind, name, namespace)

    async def replace(self, document: Document) -> Document:
        if self.down:
            raise errors.Unreachable("no answer")
        return await super().replace(document)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def elector(cluster: FakeCluster, name: str, clock: Clock) -> Elector:
    return Elector(cluster, "lease", "ns", name, TERM, clock)


def attempt(candidate: Elector) -> bool:
    return asyncio.run(candidate._try())


def test_the_first_candidate_leads_and_the_second_waits(cluster: Cluster, clock: Clock) -> None:
    first, second = elector(cluster, "a", clock), elector(cluster, "b", clock)
    assert attempt(first)
    assert not attempt(second)
    first.fence()
    with pytest.raises(errors.NotLeader, match="b does not hold"):
        second.fence()


def test_a_leader_that_renews_is_never_replaced(cluster: Cluster, clock: Clock) -> None:
    first, second = elector(cluster, "a", clock), elector(cluster, "b", clock)
    for _ in range(20):
        assert attempt(first)
        clock.now += TERM_S / 3
        assert not attempt(second)


def test_a_dead_leader_is_replaced_after_a_term_of_the_candidate_s_clock(
    cluster: Cluster, clock: Clock
) -> None:
    first, second = elector(cluster, "a", clock), elector(cluster, "b", clock)
    attempt(first)
    assert not attempt(second)
    clock.now += TERM_S
    assert not attempt(second)
    clock.now += 0.1
    assert attempt(second)
    assert cluster.objects["Lease"]["lease"]["spec"]["leaseTransitions"] == 1
    assert not attempt(first)
    with pytest.raises(errors.NotLeader):
        first.fence()


def test_the_old_leader_has_stopped_before_the_new_one_starts(
    cluster: Cluster, clock: Clock
) -> None:
    first, second = elector(cluster, "a", clock), elector(cluster, "b", clock)
    attempt(first)
    attempt(second)
    cluster.down = True
    while True:
        clock.now += 0.5
        attempt(first)
        if not first.is_leader:
            break
    cluster.down = False
    assert not attempt(second)


def test_a_short_outage_does_not_cost_the_lease(cluster: Cluster, clock: Clock) -> None:
    first = elector(cluster, "a", clock)
    attempt(first)
    cluster.down = True
    clock.now += TERM_S / 2
    attempt(first)
    first.fence()
    cluster.down = False
    assert attempt(first)


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer while every task sleeps."""

    def __init__(self) -> None:
        self._skipped = 0.0
        selector = selectors.DefaultSelector()
        super().__init__(selector)
        select = selector.select

        def skip(timeout: float | None = None) -> list[Any]:
            self._skipped += timeout or 0.0
            return select(0)

        selector.select = skip  # type: ignore[method-assign]

    def time(self) -> float:
        return self._skipped


class Slow(Cluster):
    """Answers each of the next requests only after its number of seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.answers_after_s: list[float] = []
        self.requests: list[str] = []

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Document:
        await self._answer("get")
        return await super().get(kind, name, namespace)

    async def replace(self, document: Document) -> Document:
        await self._answer("replace")
        return await super().replace(document)

    async def _answer(self, request: str) -> None:
        self.requests.append(request)
        if self.answers_after_s:
            await asyncio.sleep(self.answers_after_s.pop(0))


@pytest.mark.parametrize(
    "answers_after_s",
    [
        pytest.param([60.0], id="one response is lost"),
        pytest.param([4.9] * 3, id="an API server that answers within half of the deadline"),
    ],
)
def test_a_slow_api_server_does_not_cost_the_lease(answers_after_s: list[float]) -> None:
    loop = SkippingLoop()

    async def keep() -> None:
        cluster = Slow()
        first = Elector(cluster, "lease", "ns", "a", TERM, loop.time)
        assert await first._try()
        cluster.answers_after_s = list(answers_after_s)
        with pytest.raises(TimeoutError):  # of the test: the clock continues
            await asyncio.wait_for(first.keep(), 3 * TERM_S)
        first.fence()
        assert cluster.answers_after_s == []

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(keep())


def test_a_renewal_is_one_request_until_another_process_changes_the_lease(clock: Clock) -> None:
    cluster = Slow()
    first, other = elector(cluster, "a", clock), elector(cluster, "b", clock)
    assert attempt(first)
    cluster.requests.clear()
    for _ in range(3):
        assert attempt(first)
    assert cluster.requests == ["replace"] * 3
    cluster.objects["Lease"]["lease"]["metadata"]["resourceVersion"] = "another"
    assert attempt(first), "still the holder"
    assert cluster.requests[3:] == ["replace", "get", "replace"]
    clock.now += TERM_S
    assert not attempt(other)
    clock.now += TERM_S + 1
    assert attempt(other)
    assert not attempt(first)
    assert not first.is_leader


def test_a_restarted_container_of_the_same_pod_leads_at_once(
    cluster: Cluster, clock: Clock
) -> None:
    attempt(elector(cluster, "a", clock))
    assert attempt(elector(cluster, "a", clock))


def test_a_released_lease_is_free_at_once(cluster: Cluster, clock: Clock) -> None:
    first, second = elector(cluster, "a", clock), elector(cluster, "b", clock)
    attempt(first)
    asyncio.run(first.release())
    assert not first.is_leader
    assert attempt(second)
    asyncio.run(first.release())  # it must not take the lease from the second
    assert cluster.objects["Lease"]["lease"]["spec"]["holderIdentity"] == "b"


def test_of_two_that_try_at_the_same_time_one_wins(cluster: Cluster, clock: Clock) -> None:
    async def race() -> list[bool]:
        candidates = [elector(cluster, name, clock) for name in "abc"]
        return await asyncio.gather(*(c._try() for c in candidates))

    assert sum(asyncio.run(race())) == 1


def test_keep_ends_when_the_lease_is_lost(cluster: Cluster, clock: Clock) -> None:
    first = Elector(cluster, "lease", "ns", "a", Term(0.05, 0.03, 0.01), clock)
    attempt(first)
    taken = cluster.objects["Lease"]["lease"]
    taken["spec"]["holderIdentity"] = "b"
    cluster._touch(taken)
    with pytest.raises(errors.NotLeader):
        asyncio.run(asyncio.wait_for(first.keep(), 5))


def test_a_leader_s_longer_term_is_respected(cluster: Cluster, clock: Clock) -> None:
    """An upgrade that shortens the term starts the new operator while the old one still leads."""
    old = Elector(cluster, "lease", "ns", "a", Term(60, 40, 8), clock)
    new = Elector(cluster, "lease", "ns", "b", Term(5, 3, 1), clock)
    assert attempt(old)
    assert not attempt(new)
    clock.now += 12
    assert old.is_leader
    assert not attempt(new)
    clock.now += 50
    assert attempt(new)


def test_the_lease_is_owned_by_the_release(cluster: Cluster, clock: Clock) -> None:
    created: list[Document] = []

    class Noting(Cluster):
        async def create(self, document: Document) -> Document:
            created.append(document)
            return await super().create(document)

    owner = {"kind": "ClusterRole", "name": "r", "uid": "1", "apiVersion": "v1"}
    assert attempt(Elector(Noting(), "lease", "ns", "a", TERM, clock, (owner,)))
    assert created[0]["metadata"]["ownerReferences"] == [owner]


def test_after_a_failed_renewal_the_next_follows_at_once(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster, clock: Clock
) -> None:
    first, answers, pauses = elector(cluster, "a", clock), [True, False, True], list[float]()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def renew() -> bool:
        return answers.pop(0) if answers else False

    attempt(first)
    monkeypatch.setattr(lease, "asyncio", SimpleNamespace(sleep=pause))
    monkeypatch.setattr(first, "_try", renew)

    def fence() -> None:
        if not answers:
            raise errors.NotLeader("of the test")

    monkeypatch.setattr(first, "fence", fence)
    with pytest.raises(errors.NotLeader):
        asyncio.run(first.keep())
    usual, _, after_a_failure = pauses
    assert after_a_failure < usual / 5
