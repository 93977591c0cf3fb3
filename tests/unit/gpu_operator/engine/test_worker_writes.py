"""Which writes the worker runs concurrently, which in order, and what it reconciles after a
change.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gpu_operator import errors
from gpu_operator.controllers.common.world import Outcome, World
from gpu_operator.controllers.fleet import Fleet
from gpu_operator.controllers.layouts.tally import Tally
from gpu_operator.engine.queue import Key, WorkQueue
from gpu_operator.engine.store import Store
from gpu_operator.engine.worker import _AT_ONCE, Worker
from gpu_operator.kube.actions import Action, Apply, Manager
from gpu_operator.kube.port import Document
from support.worlds.driven_operator import CONFIG


def apply(kind: str, name: str, note: str = "", *, status: bool = False) -> Apply:
    document = {"kind": kind, "metadata": {"name": name}, "note": note}
    return Apply(Manager.LAYOUT, document, status)


class Slow:
    """A cluster whose responses wait until as many requests run as are expected to be
    concurrent.
    """

    def __init__(self, fail: Callable[[Action], BaseException | None] = lambda _: None) -> None:
        self.begun: list[str] = []
        self.most = self._now = 0
        self._fail = fail

    async def perform(self, action: Action) -> Document | None:
        assert isinstance(action, Apply)
        self.begun.append(f"{action.what}{action.document['note']}")
        self._now += 1
        self.most = max(self.most, self._now)
        for _ in range(5):
            await asyncio.sleep(0)
        self._now -= 1
        if (failure := self._fail(action)) is not None:
            raise failure
        return None


def perform(cluster: Any, *actions: Action) -> None:
    worker = Worker(cluster, Store(), WorkQueue(), CONFIG, "ns", lambda: None)
    asyncio.run(worker._perform_all(actions))


def test_gpus_are_written_concurrently_and_the_report_after_them() -> None:
    cluster = Slow()
    gpus = [apply("GPU", f"g{i}") for i in range(3 * _AT_ONCE)]
    perform(cluster, *gpus, apply("MIGLayout", "l", status=True))
    assert cluster.most == _AT_ONCE
    assert cluster.begun[-1] == "MIGLayout l"
    assert sorted(cluster.begun[:-1]) == sorted(f"GPU g{i}" for i in range(3 * _AT_ONCE))


def test_writes_to_one_object_keep_their_order() -> None:
    cluster = Slow()
    perform(cluster, apply("Node", "n", "1"), apply("GPU", "g"), apply("Node", "n", "2"))
    nodes = [what for what in cluster.begun if what.startswith("Node")]
    assert nodes == ["Node n1", "Node n2"]


@pytest.mark.parametrize(
    ("failures", "raised"),
    [
        ({"g1": errors.Unreachable("a"), "g2": errors.Refused("b")}, errors.Refused),
        ({"g1": errors.Refused("b"), "g2": errors.NotLeader("c")}, errors.NotLeader),
        ({"g3": errors.Conflict("d")}, errors.Conflict),
        ({"g3": asyncio.CancelledError()}, errors.Unreachable),
    ],
)
def test_a_failed_write_stops_no_other_and_is_raised(
    failures: dict[str, BaseException], raised: type[Exception]
) -> None:
    cluster = Slow(lambda action: failures.get(action.document["metadata"]["name"]))  # type: ignore[union-attr]
    with pytest.raises(raised):
        perform(cluster, *(apply("GPU", f"g{i}") for i in range(5)), apply("MIGLayout", "l"))
    assert cluster.begun == [f"GPU g{i}" for i in range(5)]


def test_a_burst_of_changes_causes_one_update() -> None:
    async def burst() -> int:
        store, queue = Store(), WorkQueue()
        cluster: Any = Slow()
        worker = Worker(cluster, store, queue, CONFIG, "ns", lambda: None)
        looks = 0
        see = worker._fleet.update

        def count_update(*seen: Any) -> Any:
            nonlocal looks
            looks += 1
            return see(*seen)

        worker._fleet.update = count_update  # type: ignore[method-assign]
        for number in range(20):
            store.put("Node", {"metadata": {"name": f"n{number}", "uid": "u"}})
            worker.on_change("Node", f"n{number}")
        assert worker._looking is not None
        await worker._looking
        assert {Key("Node", f"n{number}") for number in range(20)} <= queue._waiting
        return looks

    assert asyncio.run(burst()) == 1


async def _observe_node(worker: Worker, store: Store, name: str) -> None:
    store.put("Node", {"metadata": {"name": name, "uid": "u"}})
    worker.on_change("Node", name)
    assert worker._looking is not None
    await worker._looking


def test_changes_are_enqueued_even_if_the_current_key_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def decide(self: Worker, key: Key, world: World) -> Outcome:
        raise ZeroDivisionError(key)

    monkeypatch.setattr(Worker, "_decide", decide)

    async def scene() -> None:
        store, queue = Store(), WorkQueue()
        cluster: Any = Slow()
        worker = Worker(cluster, store, queue, CONFIG, "ns", lambda: None)
        await _observe_node(worker, store, "first")
        store.put("Node", {"metadata": {"name": "other", "uid": "u"}})
        assert not await worker.work(Key("Node", "first"))
        assert Key("Node", "other") in queue._timers

    asyncio.run(scene())


def test_a_failed_update_is_repeated_with_all_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        store, queue = Store(), WorkQueue()
        cluster: Any = Slow()
        worker = Worker(cluster, store, queue, CONFIG, "ns", lambda: None)
        await _observe_node(worker, store, "first")

        def fail(*_: object) -> set[tuple[str, str]]:
            raise ZeroDivisionError

        with monkeypatch.context() as broken:
            broken.setattr(Fleet, "_update_node", fail)
            await _observe_node(worker, store, "second")
        assert Key("Node", "second") not in queue._waiting
        await _observe_node(worker, store, "third")
        assert {Key("Node", "second"), Key("Node", "third")} <= queue._waiting

    asyncio.run(scene())


def test_an_unchanged_list_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    store, read = Store(), list[str]()
    document = {"metadata": {"name": "n", "uid": "u", "resourceVersion": "5"}}
    store.put("Node", document)
    assert store.take_changes() == {("Node", "n")}
    monkeypatch.setattr("gpu_operator.engine.store.read", lambda kind, _: read.append(kind))
    store.replace("Node", [{**document}], as_of=float("inf"))
    assert read == []
    assert store.take_changes() == set()


def test_a_tally_stays_sorted() -> None:
    tally: Tally[int] = Tally()
    for step in range(200):
        name = f"{step * 37 % 50:02d}"
        tally.drop(name) if step % 3 == 0 else tally.put(name, step % 4)
        for group in range(4):
            expected = sorted(n for n, g in tally.groups.items() if g == group)
            assert list(tally.names(group)) == expected
            assert tally.count(group) == len(expected)


def test_a_recreated_object_is_written_again() -> None:
    """The new object's generation starts at 1 again, as that of the applied one did."""
    versions = iter(range(1, 9))
    written: list[str] = []

    def a_set(uid: str) -> Document:
        version = str(next(versions))
        metadata = {"name": "d", "uid": uid, "generation": 1, "resourceVersion": version}
        return {"kind": "DaemonSet", "metadata": metadata}

    class Cluster:
        async def perform(self, action: Action) -> Document:
            written.append(action.what)
            return a_set("ours")

    async def scene() -> None:
        store, cluster = Store(), Cluster()
        port: Any = cluster
        worker = Worker(port, store, WorkQueue(), CONFIG, "ns", lambda: None)
        wanted = apply("DaemonSet", "d")
        for _ in range(2):
            await worker._perform_all([wanted])
        assert len(written) == 1
        store.put("DaemonSet", a_set("theirs"))
        await worker._perform_all([wanted])
        assert len(written) == 2

    asyncio.run(scene())
