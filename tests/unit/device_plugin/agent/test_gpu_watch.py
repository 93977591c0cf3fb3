"""The agent's GPU objects: listed once, then watched, and never replaced by an older version."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from device_plugin.errors import ClusterError
from device_plugin.kube.client import Kube
from device_plugin.kube.gpu_watch import GpuWatch
from gpu_operator.api.v1alpha1.gpu import GPUStatus
from support.processes.api_server import ApiServer, wait_for
from support.processes.endless import endless

SPEC = {"nodeName": "node-1", "index": 0, "board": "h100-80gb", "uuid": "GPU-1", "pool": "p"}


def document(name: str, version: int, uid: str = "u", generation: int = 1) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "uid": uid,
            "resourceVersion": str(version),
            "generation": generation,
        },
        "spec": SPEC,
    }


class Script:
    """Stands in for ``Kube``: its lists and watches are given by a test."""

    def __init__(self, lists: list[Any], watches: list[list[Any]]) -> None:
        self.lists = lists
        self.watches = watches
        self.versions: list[str] = []
        self.answer: dict[str, Any] | None = None

    def list_gpus(self) -> tuple[list[dict[str, Any]], str]:
        found = self.lists.pop(0)
        if isinstance(found, ClusterError):
            raise found
        return found

    def watch_gpus(self, version: str, standing: Callable[[], None]) -> Iterator[dict[str, Any]]:
        self.versions.append(version)
        for event in self.watches.pop(0):
            if isinstance(event, ClusterError):
                raise event
            standing()
            yield event

    def apply_status(self, name: str, status: GPUStatus) -> dict[str, Any] | None:
        del name, status
        return self.answer


class Stop(Exception):
    """Ends ``GpuWatch.run``."""


def following(kube: Any, rounds: int = 1) -> tuple[GpuWatch, list[int]]:
    """Follow ``rounds`` watches; return the GpuWatch, and the object count at each wake-up."""
    seen: list[int] = []

    def wait(_: float) -> None:
        nonlocal rounds
        rounds -= 1
        if not rounds:
            raise Stop

    watch = GpuWatch(kube, lambda: seen.append(len(watch.gpus())), wait)
    with pytest.raises(Stop):
        watch.run()
    return watch, seen


def generations(watch: GpuWatch) -> dict[str, int]:
    return {gpu.name: gpu.generation for gpu in watch.gpus()}


def test_each_change_wakes_the_loop_and_a_bookmark_does_not() -> None:
    events = [
        {"type": "ADDED", "object": document("b", 8)},
        {"type": "MODIFIED", "object": document("a", 9, generation=2)},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "12"}}},
        {"type": "DELETED", "object": document("b", 13)},
    ]
    kube = Script([([document("a", 5)], "7")], [events, []])
    watch, seen = following(kube, rounds=2)
    assert seen == [1, 2, 2, 1]
    assert generations(watch) == {"a": 2}
    assert kube.versions == ["7", "13"]  # the second watch continues where the first ended


def test_an_own_write_is_applied_at_once_and_wakes_no_loop() -> None:
    echo = {"type": "MODIFIED", "object": document("a", 9, generation=3)}
    kube = Script([([document("a", 5)], "7")], [[], [echo]])
    watch, seen = following(kube)
    kube.answer = document("a", 9, generation=3)
    watch.apply_status("a", GPUStatus())
    assert generations(watch) == {"a": 3}
    watch.follow()
    assert len(seen) == 1


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    late = {"type": "MODIFIED", "object": document("a", 8, generation=1)}
    kube = Script([([document("a", 5)], "7")], [[], [late]])
    watch, _ = following(kube)
    kube.answer = document("a", 9, generation=2)
    watch.apply_status("a", GPUStatus())
    watch.follow()
    assert generations(watch) == {"a": 2}


def test_an_answer_that_comes_after_the_deletion_brings_nothing_back() -> None:
    gone = {"type": "DELETED", "object": document("a", 8)}
    kube = Script([([document("a", 5)], "7")], [[gone]])
    watch, _ = following(kube)
    kube.answer = document("a", 6)
    watch.apply_status("a", GPUStatus())
    assert watch.gpus() == []


@pytest.mark.parametrize(("others", "known"), [(1023, []), (1024, ["a"])])
def test_so_many_deletions_are_remembered_for_late_answers(others: int, known: list[str]) -> None:
    """Only the last 1024 deletions are remembered, however many objects a node has had."""
    names = ["a", *(f"x{number}" for number in range(others))]
    gone = [{"type": "DELETED", "object": document(one, 8, uid=one)} for one in names]
    kube = Script([([document("a", 5, uid="a")], "7")], [gone])
    watch, _ = following(kube)
    kube.answer = document("a", 6, uid="a")
    watch.apply_status("a", GPUStatus())
    assert [one.name for one in watch.gpus() or ()] == known


def test_the_deletion_of_a_predecessor_does_not_take_the_successor() -> None:
    events = [
        {"type": "MODIFIED", "object": document("a", 8, uid="new")},
        {"type": "DELETED", "object": document("a", 7, uid="old")},
    ]
    watch, seen = following(Script([([document("a", 5, uid="old")], "6")], [events]))
    assert len(watch.gpus()) == 1
    assert seen == [1, 1]  # the list and the successor; the late deletion changes nothing


def test_a_deletion_wakes_the_agent_once_and_only_for_a_known_object() -> None:
    gone = {"type": "DELETED", "object": document("a", 8)}
    stranger = {"type": "DELETED", "object": document("b", 9, uid="b")}
    kube = Script([([document("a", 5), document("c", 6, uid="c")], "7")], [[gone, gone, stranger]])
    watch, seen = following(kube)
    assert seen == [2, 1]
    assert generations(watch) == {"c": 1}


def test_a_version_that_is_forgotten_is_listed_anew_and_a_broken_connection_is_not() -> None:
    expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
    kube = Script(
        [([document("a", 5), document("b", 6)], "7"), ([document("a", 3)], "4")],
        [[ClusterError("reset")], [ClusterError("gone", 410)], [expired], []],
    )
    kube.lists.insert(1, ([document("a", 5), document("b", 6)], "7"))
    watch, seen = following(kube, rounds=4)
    assert kube.versions == ["7", "7", "7", "4"]
    # a list is trusted even if it is older: the database may have been restored
    assert generations(watch) == {"a": 1}
    assert seen[-1] == 1


def test_without_a_watch_gpus_raises_and_sends_no_query() -> None:
    kube = Script([([], "7")], [[ClusterError("API server: 500 etcd is away", 500)]])
    watch, _ = following(kube)
    with pytest.raises(ClusterError, match="etcd is away"):
        watch.gpus()
    kube.watches.append([{"type": "BOOKMARK", "object": {"metadata": {}}}])
    watch.follow()
    assert watch.gpus() == []
    assert kube.versions == ["7", "7"]


def test_on_the_wire_it_lists_once_despite_many_reads_and_writes() -> None:
    with ApiServer() as api:
        api.put_gpu("gpu-1", SPEC)
        kube = Kube("node-1", api.client())
        watch = GpuWatch(kube, lambda: None)
        with endless(watch.run, wake=lambda: setattr(api, "broken", True)):
            for number in range(5):
                api.put_gpu("gpu-1", {**SPEC, "index": number})
                wait_for(api, lambda n=number: watch.gpus()[0].generation == n + 2)
                watch.apply_status("gpu-1", GPUStatus(agent_version=str(number)))
                assert watch.gpus()[0].status.agent_version == str(number)
            api.delete_gpu("gpu-1")
            wait_for(api, lambda: not watch.gpus())
            assert (api.lists, api.watches) == (1, 1)
