"""Requeued keys, and evictions that are requested only once."""

import asyncio
from types import SimpleNamespace

import pytest

from gpu_operator import errors
from gpu_operator.controllers.common.world import Outcome
from gpu_operator.engine import worker as engine
from gpu_operator.engine.queue import Key, WorkQueue
from gpu_operator.engine.store import Store
from gpu_operator.engine.worker import Worker
from gpu_operator.kube.actions import Action, Evict
from gpu_operator.kube.port import Document
from support.worlds.driven_operator import CONFIG
from support.worlds.fake_cluster import FakeCluster

TRAIN = Evict("default", "train", "uid-train")


class Counting(FakeCluster):
    """Counts evictions, and refuses them while a budget protects the pod."""

    def __init__(self) -> None:
        super().__init__()
        self.requested: list[str] = []

    async def perform(self, action: Action) -> Document | None:
        if isinstance(action, Evict):
            self.requested.append(action.uid)
        return await super().perform(action)


@pytest.fixture
def cluster() -> Counting:
    return Counting()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [1000.0]
    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    return clock


def evict(cluster: Counting, *moments: float, clock: list[float]) -> list[int]:
    """Reconcile at each time; return the number of eviction requests after each."""
    worker = Worker(cluster, Store(), WorkQueue(), CONFIG, "ns", lambda: None)
    counts = []
    for moment in moments:
        clock[0] = 1000.0 + moment
        asyncio.run(worker._perform(TRAIN))
        counts.append(len(cluster.requested))
    return counts


def test_a_pod_s_eviction_is_requested_once_in_ten_seconds(
    cluster: Counting, now: list[float]
) -> None:
    assert evict(cluster, 0.0, 0.5, 9.9, 10.0, 12.0, 20.1, clock=now) == [1, 1, 1, 2, 2, 3]


def test_another_pod_does_not_wait_for_it(cluster: Counting, now: list[float]) -> None:
    worker = Worker(cluster, Store(), WorkQueue(), CONFIG, "ns", lambda: None)
    for action in (TRAIN, Evict("default", "other", "uid-other"), TRAIN):
        asyncio.run(worker._perform(action))
    assert cluster.requested == ["uid-train", "uid-other"]


def test_a_refused_eviction_is_retried_in_the_next_pass(
    cluster: Counting, now: list[float]
) -> None:
    cluster.protected.add("uid-train")
    assert evict(cluster, 0.0, 0.5, clock=now) == [1, 2]


def test_without_the_lease_no_pod_is_evicted(cluster: Counting) -> None:
    def fence() -> None:
        raise errors.NotLeader("lost")

    worker = Worker(cluster, Store(), WorkQueue(), CONFIG, "ns", fence)
    with pytest.raises(errors.NotLeader):
        asyncio.run(worker._perform(TRAIN))
    assert cluster.requested == []


@pytest.mark.parametrize("again_in_s", [None, 0.0, 7.5])
def test_a_key_is_requeued_at_the_time_that_its_controller_returns(
    cluster: Counting, monkeypatch: pytest.MonkeyPatch, again_in_s: float | None
) -> None:
    dates: list[tuple[Key, float]] = []
    queue = WorkQueue()
    monkeypatch.setattr(queue, "add_after", lambda key, delay_s: dates.append((key, delay_s)))
    worker = Worker(cluster, Store(), queue, CONFIG, "ns", lambda: None)

    async def decide(key: Key) -> Outcome:
        return Outcome(again_in_s=again_in_s)

    monkeypatch.setattr(worker, "_decide_key", decide)
    key = Key("MIGLayout", "mixed")
    assert asyncio.run(worker.work(key))
    assert dates == ([] if again_in_s is None else [(key, again_in_s)])
