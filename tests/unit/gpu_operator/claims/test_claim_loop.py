"""The loop that tells why claims wait: what it follows, when it tells, and when it stops."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_operator import errors
from gpu_operator.controllers.claims.telling import Telling
from gpu_operator.engine import claim_loop, computing
from gpu_operator.engine.claim_loop import ClaimLoop
from gpu_operator.kube.actions import Record
from gpu_operator.kube.port import Chosen, Document
from support.worlds.gpu_world import claimed, node, world
from support.worlds.waiting_claims import (
    CLASS_DOCUMENTS,
    THREE,
    claim_document,
    class_document,
    exactly,
    offered,
    pod_document,
)

(OF_THREE,) = (
    one["spec"]["selectors"][0]["cel"]["expression"]
    for one in CLASS_DOCUMENTS
    if one["metadata"]["name"] == THREE
)
FULL = world(node("a"), offered("a", claims=[claimed("7g.80gb@0", "big")]))


class Server:
    """Lists and watches of claims and pods."""

    def __init__(self) -> None:
        self.objects: dict[str, list[Document]] = {
            "ResourceClaim": [claim_document("want")],
            "Pod": [pod_document("job", "want")],
            "DeviceClass": [*CLASS_DOCUMENTS],
        }
        self.asked: dict[str, Chosen] = {}
        self.listable = asyncio.Event()
        self.watches: dict[str, asyncio.Queue[Document]] = {
            kind: asyncio.Queue() for kind in self.objects
        }
        self.refusal: errors.KubeError | None = None
        self.told: asyncio.Queue[Record] = asyncio.Queue()

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        del token
        self.asked[kind] = chosen
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
        self.told.put_nowait(event)
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


def test_nothing_is_told_before_all_claims_are_known() -> None:
    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        while "Pod" not in server.asked:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert server.told.empty()
        server.listable.set()
        assert (await server.told.get()).kind == "ResourceClaim"
        assert (await server.told.get()).kind == "Pod"

    play(scene)


def test_of_pods_only_those_without_a_node_are_followed() -> None:
    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.listable.set()
        await server.told.get()
        assert server.asked["Pod"] == Chosen(fields="spec.nodeName=,status.phase=Pending")
        assert server.asked["ResourceClaim"] == Chosen()

    play(scene)


def test_what_comes_later_is_told_and_a_refused_event_ends_nothing() -> None:
    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.refusal = errors.Refused("namespace is terminating")
        server.listable.set()
        assert {(await server.told.get()).name for _ in range(2)} == {"want", "job"}
        server.add("ResourceClaim", claim_document("late"))
        server.add("Pod", pod_document("later", "late"))
        assert {(await server.told.get()).name for _ in range(2)} == {"late", "later"}

    play(scene)


def test_a_class_that_somebody_writes_later_is_followed() -> None:
    """What a class means is what it says now, also of claims that were there before."""

    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.objects["ResourceClaim"] = [claim_document("want", exactly("big.example.org"))]
        server.listable.set()
        for _ in range(100):
            await asyncio.sleep(0)
        assert server.told.empty()
        server.add("DeviceClass", class_document("big.example.org", OF_THREE))
        assert (await server.told.get()).message.startswith("request gpu: no 3g.40gb left")

    play(scene)


def test_gpus_are_looked_at_again_while_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []

    def due(*_: Any) -> tuple[Record, ...]:
        rounds.append(len(rounds))
        return ()

    monkeypatch.setattr(claim_loop, "_AGAIN_S", 0.001)
    monkeypatch.setattr(Telling, "due", due)

    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.listable.set()
        while len(rounds) < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    play(scene)


def test_judging_takes_a_tenth_of_the_time_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count()  # a second passes at each look at the clock
    rests: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        rests.append(seconds)
        await sleep(0)

    clock = SimpleNamespace(monotonic=lambda: float(next(now)))
    monkeypatch.setattr(computing, "time", clock)
    monkeypatch.setattr(claim_loop, "_AGAIN_S", 0.001)
    monkeypatch.setattr(claim_loop.asyncio, "sleep", noted)

    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.listable.set()
        while 9.0 not in rests:
            await sleep(0.001)

    play(scene)


def test_a_fault_in_one_object_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    due = Telling.due
    failures = iter([ValueError("what"), None])

    def failing(*args: Any) -> tuple[Record, ...]:
        failure = next(failures, None)
        if failure is not None:
            raise failure
        return due(*args)

    monkeypatch.setattr(claim_loop, "_AGAIN_S", 0.001)
    monkeypatch.setattr(Telling, "due", failing)

    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.listable.set()
        assert (await server.told.get()).reason == "ClaimNoRoom"

    play(scene)


def test_who_does_not_lead_tells_nothing_and_ends() -> None:
    def fence() -> None:
        raise errors.NotLeader("another")

    async def scene(server: Server, running: "asyncio.Task[None]") -> None:
        server.listable.set()
        with pytest.raises(errors.NotLeader):
            await running
        assert server.told.empty()

    play(scene, fence)
