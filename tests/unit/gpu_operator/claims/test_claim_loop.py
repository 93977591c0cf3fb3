"""The loop that explains why claims wait: what it watches, when it writes, and when it stops."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_operator import errors
from gpu_operator.controllers.claims.claim_events import ClaimEvents
from gpu_operator.engine import claim_loop, computing
from gpu_operator.engine.claim_loop import ClaimLoop
from gpu_operator.kube.actions import Record
from gpu_operator.kube.port import Chosen, Document
from support.worlds.gpu_world import claimed_slice, node, world
from support.worlds.waiting_claims import (
    CLASS_DOCUMENTS,
    THREE,
    claim_document,
    class_document,
    exactly,
    offered_gpu,
    pod_document,
)

(OF_THREE,) = (
    one["spec"]["selectors"][0]["cel"]["expression"]
    for one in CLASS_DOCUMENTS
    if one["metadata"]["name"] == THREE
)
FULL = world(node("a"), offered_gpu("a", claims=[claimed_slice("7g.80gb@0", "big")]))


class Server:
    """Lists and watches of claims and pods."""

    def __init__(self) -> None:
        self.objects: dict[str, list[Document]] = {
            "ResourceClaim": [claim_document("want")],
            "Pod": [pod_document("job", "want")],
            "DeviceClass": [*CLASS_DOCUMENTS],
        }
        self.requested: dict[str, Chosen] = {}
        self.listable = asyncio.Event()
        self.watches: dict[str, asyncio.Queue[Document]] = {
            kind: asyncio.Queue() for kind in self.objects
        }
        self.refusal: errors.KubeError | None = None
        self.reported: asyncio.Queue[Record] = asyncio.Queue()

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        del token
        self.requested[kind] = chosen
        if kind == "ResourceClaim":
            await self.listable.wait()
        return {"items": self.objects[kind], "metadata": {"resourceVersion": "1"}}

    async def watch(self, kind: str, chosen: Chosen, version: str) -> AsyncIterator[Document]:
        del chosen, version
        while True:
            yield await self.watches[kind].get()

    def add(self, kind: str, document: Document) -> None:
        document["metadata"]["resourceVersion"] = "2"
        self.watches[kind].put_nowait({"type": "ADDED", "object": document})

    async def perform(self, event: Record) -> None:
        self.reported.put_nowait(event)
        if self.refusal is not None:
            raise self.refusal


def play(
    scene: Callable[[Server, "asyncio.Task[None]"], Coroutine[Any, Any, None]],
    fence: Callable[[], None] = lambda: None,
) -> None:
    async def run() -> None:
        server = Server()
        kube: Any = server
        loop = ClaimLoop(kube, lambda: FULL, fence, gather_s=0.0)
        running = asyncio.create_task(loop.run())
        try:
            async with asyncio.timeout(60):
                await scene(server, running)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_no_event_is_written_before_all_claims_are_listed() -> None:
    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        while "Pod" not in server.requested:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert server.reported.empty()
        server.listable.set()
        assert (await server.reported.get()).kind == "ResourceClaim"
        assert (await server.reported.get()).kind == "Pod"

    play(scene)


def test_only_pods_without_a_node_are_watched() -> None:
    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.listable.set()
        await server.reported.get()
        assert server.requested["Pod"] == Chosen(fields="spec.nodeName=,status.phase=Pending")
        assert server.requested["ResourceClaim"] == Chosen()

    play(scene)


def test_later_claims_get_events_and_a_refused_event_does_not_end_the_loop() -> None:
    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.refusal = errors.Refused("namespace is terminating")
        server.listable.set()
        assert {(await server.reported.get()).name for _ in range(2)} == {"want", "job"}
        server.add("ResourceClaim", claim_document("late"))
        server.add("Pod", pod_document("later", "late"))
        assert {(await server.reported.get()).name for _ in range(2)} == {"late", "later"}

    play(scene)


def test_a_class_that_is_created_later_is_used() -> None:
    """A class applies even to claims that were created before it."""

    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.objects["ResourceClaim"] = [claim_document("want", exactly("big.example.org"))]
        server.listable.set()
        for _ in range(100):
            await asyncio.sleep(0)
        assert server.reported.empty()
        server.add("DeviceClass", class_document("big.example.org", OF_THREE))
        assert (await server.reported.get()).message.startswith("request gpu: no 3g.40gb left")

    play(scene)


def test_gpus_are_evaluated_again_while_a_pod_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []

    def due(*_: Any) -> tuple[Record, ...]:
        rounds.append(len(rounds))
        return ()

    monkeypatch.setattr(claim_loop, "_AGAIN_S", 0.001)
    monkeypatch.setattr(ClaimEvents, "take_due_events", due)

    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.listable.set()
        while len(rounds) < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    play(scene)


def test_evaluation_uses_at_most_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count()  # each reading of the clock advances it by a second
    rests: list[float] = []
    sleep = asyncio.sleep

    async def note_sleep(seconds: float) -> None:
        rests.append(seconds)
        await sleep(0)

    clock = SimpleNamespace(monotonic=lambda: float(next(now)))
    monkeypatch.setattr(computing, "time", clock)
    monkeypatch.setattr(claim_loop, "_AGAIN_S", 0.001)
    monkeypatch.setattr(claim_loop.asyncio, "sleep", note_sleep)

    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.listable.set()
        while 9.0 not in rests:
            await sleep(0.001)

    play(scene)


def test_an_error_in_one_object_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    due = ClaimEvents.take_due_events
    failures = iter([ValueError("what"), None])

    def failing(*args: Any) -> tuple[Record, ...]:
        failure = next(failures, None)
        if failure is not None:
            raise failure
        return due(*args)

    monkeypatch.setattr(claim_loop, "_AGAIN_S", 0.001)
    monkeypatch.setattr(ClaimEvents, "take_due_events", failing)

    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.listable.set()
        assert (await server.reported.get()).reason == "ClaimNoRoom"

    play(scene)


def test_without_the_lease_the_loop_writes_nothing_and_ends() -> None:
    def fence() -> None:
        raise errors.NotLeader("another")

    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.listable.set()
        with pytest.raises(errors.NotLeader):
            await running
        assert server.reported.empty()

    play(scene, fence)
