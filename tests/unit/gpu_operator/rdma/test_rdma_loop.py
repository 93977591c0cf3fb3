"""Reflectors and the loop that writes: nothing is missed, and nothing is written too early or
late.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from gpu_operator import errors
from gpu_operator.controllers.rdma.cluster import TABLES_KIND
from gpu_operator.engine.rdma_loop import RdmaLoop, object_selectors
from gpu_operator.kube.actions import Action, Apply, Delete
from gpu_operator.kube.port import Chosen, Document
from gpu_operator.kube.reflector import Reflector
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from support.worlds.policy_cluster import OWNER, RdmaWorld

KINDS = ("Namespace", "Node", "Pod", "Lease", NETWORK_KIND, POLICY_KIND, TABLES_KIND)


class Server:
    """The API server's lists and watches over the objects of a ``RdmaWorld``."""

    def __init__(self) -> None:
        self.world = RdmaWorld()
        self.watches: dict[str, asyncio.Queue[Document | None]] = {}
        self.listable = {kind: asyncio.Event() for kind in KINDS}
        for event in self.listable.values():
            event.set()
        self.lists: list[tuple[str, str]] = []
        self.page_size = 2
        self.refuse: Callable[[Action], bool] = lambda action: False
        self.performed: list[tuple[float, Action]] = []
        store = self.world._store

        def storing(kind: str, key: str, document: Document) -> None:
            known = (kind, key) in self.world.objects
            store(kind, key, document)
            self.tell(kind, "MODIFIED" if known else "ADDED", self.world.objects[kind, key])

        self.world._store = storing  # type: ignore[method-assign]

    def tell(self, kind: str, what: str, document: Document) -> None:
        if kind in self.watches:
            self.watches[kind].put_nowait({"type": what, "object": document})

    def remove(self, kind: str, key: str) -> None:
        document = self.world.objects[kind, key]
        self.world.remove(kind, key)
        self.tell(kind, "DELETED", document)

    def end_watch(self, kind: str) -> None:
        """End the watch without an event, as a restarting server does."""
        self.watches.pop(kind).put_nowait(None)

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        await self.listable[kind].wait()
        self.lists.append((kind, token))
        found = [d for (k, _), d in self.world.objects.items() if k == kind]
        first = int(token or 0)
        rest = len(found) > first + self.page_size
        metadata = {"resourceVersion": str(next(self.world._numbers))}
        if rest:
            metadata["continue"] = str(first + self.page_size)
        else:
            self.watches[kind] = asyncio.Queue()
        return {"items": found[first : first + self.page_size], "metadata": metadata}

    async def watch(self, kind: str, chosen: Chosen, version: str) -> AsyncIterator[Document]:
        queue = self.watches.setdefault(kind, asyncio.Queue())
        while (event := await queue.get()) is not None:
            yield event

    async def perform(self, action: Action) -> Document | None:
        if self.refuse(action):
            raise errors.Unreachable("500")
        self.performed.append((time.monotonic(), action))
        if isinstance(action, Delete):
            self.remove(action.kind, action.name)
            return None
        self.world.perform(action)
        if not isinstance(action, Apply):
            return None
        metadata = action.document["metadata"]
        key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        return self.world.objects.get((action.document["kind"], key))

    def writes(self, kind: str) -> list[float]:
        """Return the times at which objects of a kind were written, without statuses."""
        return [
            when
            for when, a in self.performed
            if isinstance(a, Apply) and not a.status and a.document["kind"] == kind
        ]


async def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the condition may depend on anything
            await asyncio.sleep(0.001)


def play(scene: Callable[[Server, RdmaLoop], Coroutine[Any, Any, None]], *held: str) -> None:
    """Run a loop against a server with two nodes during a scene."""

    async def run() -> None:
        server = Server()
        for kind in held:
            server.listable[kind].clear()
        world = server.world
        for node in ("a", "b"):
            world.node(node)
        world.namespace("ml")
        world.pod("ml/x", "a", "10.0.0.1", app="x")
        kube: Any = server
        loop = RdmaLoop(kube, "ns", [OWNER], lambda: None)
        running = asyncio.create_task(loop.run())
        scene_task = asyncio.create_task(scene(server, loop))
        try:
            await asyncio.wait({running, scene_task}, return_when=asyncio.FIRST_COMPLETED)
            if not scene_task.done():
                running.result()
            scene_task.result()
        finally:
            for task in (running, scene_task):
                task.cancel()
            await asyncio.gather(running, scene_task, return_exceptions=True)

    asyncio.run(run())


def test_nothing_is_written_before_everything_is_listed() -> None:
    """Tables without policies that are not listed yet would allow what these deny."""

    async def scene(server: Server, loop: RdmaLoop) -> None:
        server.world.policy("ml/p")
        await until(lambda: len({kind for kind, _ in server.lists}) == len(KINDS) - 1)
        await asyncio.sleep(0.1)
        assert server.performed == []
        server.listable[POLICY_KIND].set()
        await until(lambda: len(server.writes(TABLES_KIND)) == 2)
        tables = server.world.tables("a")
        (pod,) = tables.pods
        identity = next(one for one in tables.identities if one.number == pod.identity)
        assert identity.ingress is not None

    play(scene, POLICY_KIND)


def test_an_edit_is_written_within_a_tenth_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's own delays are shorter; ``make bench-rdma`` measures the computation."""
    waits: list[float] = []
    sleep = asyncio.sleep

    async def note_sleep(seconds: float) -> None:
        if asyncio.current_task() is not scenes[0]:
            waits.append(seconds)
        await sleep(seconds)

    scenes: list[asyncio.Task[Any] | None] = []

    async def scene(server: Server, loop: RdmaLoop) -> None:
        scenes.append(asyncio.current_task())
        await until(lambda: len(server.writes(TABLES_KIND)) == 2)
        monkeypatch.setattr(asyncio, "sleep", note_sleep)
        for count in range(1, 8):
            before, waited = len(server.writes(TABLES_KIND)), len(waits)
            server.world.policy("ml/p", ingress=[{"limits": {"maxQPs": count}}])
            await until(lambda before=before: len(server.writes(TABLES_KIND)) == before + 2)
            assert sum(waits[waited:]) < 0.1, waits
        assert waits, "it gathers what comes in bursts"

    play(scene)


def test_a_burst_of_changes_causes_one_write_per_node() -> None:
    async def scene(server: Server, loop: RdmaLoop) -> None:
        await until(lambda: len(server.writes(TABLES_KIND)) == 2)
        for number in range(40):
            server.world.pod(f"ml/p{number}", "a", f"10.0.1.{number}")
        await until(lambda: len(server.world.tables("a").pods) == 41)
        assert len(server.writes(TABLES_KIND)) <= 8

    play(scene)


def test_failed_writes_are_retried() -> None:
    async def scene(server: Server, loop: RdmaLoop) -> None:
        await until(lambda: len(server.writes(TABLES_KIND)) == 2)
        failures = iter([True, True])
        server.refuse = lambda action: next(failures, False)
        server.world.policy("ml/p", ingress=[{"limits": {"maxQPs": 3}}])
        await until(lambda: len(server.writes(TABLES_KIND)) == 4)
        assert server.world.tables("a").rules == server.world.tables("b").rules != ()

    play(scene)


def test_acknowledgements_and_silence_change_conditions() -> None:
    async def scene(server: Server, loop: RdmaLoop) -> None:
        server.world.policy("ml/p")
        await until(lambda: len(server.writes(TABLES_KIND)) == 2)
        for node in ("a", "b"):
            server.world.agent(node)
        await until(lambda: server.world.programmed_condition("ml/p")[0] == "True")
        for state in loop._cluster._nodes.values():
            state._heartbeat_s -= 9.5
        loop.on_change("Namespace", "none", None)
        await until(lambda: server.world.programmed_condition("ml/p")[1] == "NodeSilent", 5.0)

    play(scene)


def test_without_the_lease_no_table_is_written() -> None:
    async def run() -> None:
        server = Server()
        server.world.node("a")
        kube: Any = server

        def fence() -> None:
            raise errors.NotLeader("lost")

        with pytest.raises(errors.NotLeader):
            await RdmaLoop(kube, "ns", [], fence).run()
        assert server.performed == []

    asyncio.run(run())


@pytest.mark.parametrize("owner_stores", [False, True])
def test_a_list_delivers_changes_that_a_watch_missed(owner_stores: bool) -> None:
    async def run() -> None:
        server = Server()
        for number in range(5):
            server.world.namespace(f"n{number}")
        reported: list[tuple[str, Any]] = []
        source: Any = server
        stored: dict[str, Any] = {}

        def store(kind: str, key: str, value: Any) -> None:
            reported.append((key, value))
            stored[key] = value
            if value is None:
                del stored[key]

        keys = stored if owner_stores else None
        reflector = Reflector(source, "Namespace", Chosen(), dict, store, 0.01, stored=keys)
        running = asyncio.create_task(reflector.run())
        await asyncio.wait_for(reflector.listed.wait(), 5)
        assert [key for key, _ in reported] == [f"n{number}" for number in range(5)]
        assert [token for _, token in server.lists] == ["", "2", "4"]
        reported.clear()
        server.end_watch("Namespace")  # while no watch runs, one node is deleted and one created
        del server.world.objects["Namespace", "n0"]
        await until(lambda: "Namespace" in server.watches)
        server.watches["Namespace"].put_nowait({"type": "ERROR", "object": {"code": 410}})
        await until(lambda: ("n0", None) in reported)
        server.world.namespace("later")
        await until(lambda: any(key == "later" for key, _ in reported))
        server.remove("Namespace", "later")
        await until(lambda: ("later", None) in reported)
        assert bool(reflector._known) is not owner_stores  # its keys are in memory once
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_an_object_that_becomes_irrelevant_is_removed() -> None:
    reported: list[tuple[str, Any]] = []
    source: Any = None
    reflector = Reflector(
        source,
        "Pod",
        Chosen(),
        lambda document: document["metadata"].get("labels"),
        lambda kind, key, value: reported.append((key, value)),
    )
    for labels in (None, {"a": "b"}, None, None):
        reflector._apply({"metadata": {"namespace": "ml", "name": "x", "labels": labels}})
    assert reported == [("ml/x", {"a": "b"}), ("ml/x", None)]


def test_the_api_server_selects_pods_by_fields() -> None:
    assert "spec.nodeName!=," in object_selectors("Pod", "ns").fields
    assert "status.phase!=Succeeded" in object_selectors("Pod", "ns").fields
    assert object_selectors("Lease", "ns").namespace == "ns"
    assert object_selectors(POLICY_KIND, "ns") == Chosen()
