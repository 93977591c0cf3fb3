"""Watched objects are stored and reported, and every wait of a watch has a timeout."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import kopf
import pytest

from gpu_operator import kinds
from gpu_operator.engine import watch
from gpu_operator.engine.store import Store
from gpu_operator.kube.port import Chosen, Document
from support.watches.loop_iterations import run_measured


def pool(version: int, **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "GPUPool",
        "metadata": {"name": "p", "uid": "u", "resourceVersion": str(version), **metadata},
        "spec": {"nodeSelector": {"a": "b"}, "board": "a30", "count": version},
    }


def test_kopf_watches_and_does_nothing_else() -> None:
    chosen = watch.make_settings()
    assert not chosen.posting.enabled, "an event for each change, with rights that are not granted"
    assert chosen.scanning.disabled, "it would list namespaces and definitions"


def test_every_wait_of_a_watch_times_out_the_server_first() -> None:
    """The server's timeout ends a watch in order; a client that gives up earlier loses events.

    Without a timeout, the client waits endlessly, even for a connection to an unreachable API
    server.
    """
    watching = watch.make_settings().watching
    assert isinstance(watching.server_timeout, int), "the API server refuses 300.0"
    assert watching.client_timeout is not None
    assert watching.server_timeout < watching.client_timeout <= watching.server_timeout + 60
    assert watching.connect_timeout is not None
    assert 1 <= watching.connect_timeout <= 30


def test_objects_are_stored_and_each_change_is_reported_once() -> None:
    store, reported = Store(), list[tuple[str, str]]()
    handlers = watch.make_registry(store, lambda kind, name: reported.append((kind, name)))
    (handler,) = [h for h in handlers._watching.get_all_handlers() if h.id == "GPUPool"]

    def handle(kind: str | None, document: dict[str, Any]) -> list[tuple[str, str]]:
        reported.clear()
        function: Any = handler.fn
        asyncio.run(function(type=kind, body=kopf.Body(document), retry=0))
        return list(reported)

    assert handle(None, pool(1)) == [("GPUPool", "p")]  # from the first list
    assert handle("MODIFIED", pool(1)) == []
    assert handle("MODIFIED", pool(2)) == [("GPUPool", "p")]
    assert store.world().pools["p"].spec.count == 2
    assert handle("DELETED", pool(3, uid="of one before")) == []
    assert handle("DELETED", pool(3)) == [("GPUPool", "p")]
    assert store.world().pools == {}
    assert handle("DELETED", pool(3)) == []


def make_configurations() -> str:
    """Return a mig-parted document of the largest size."""
    gpus = "[{devices: [0, 1], mig-enabled: true, mig-devices: {1g.10gb: 7}}]"
    lines = (f"  c{number}: {gpus}" for number in range(800))
    return "\n".join(("version: v1", "mig-configs:", *lines))


LARGEST: dict[str, dict[str, Any]] = {
    "ConfigMap": {"data": {"config.yaml": make_configurations()}},
    "DaemonSet": {"spec": {"template": {"spec": {"containers": [{"name": "c"}] * 20_000}}}},
    "GPUFault": {"spec": {f"field{number}": number for number in range(20_000)}},
    "GPUPolicy": {"spec": {f"field{number}": number for number in range(20_000)}},
    "GPUPool": {"spec": {"nodeSelector": {f"k{n}": "v" for n in range(50_000)}, "board": "a30"}},
    "MIGLayout": {"spec": {"gpus": [{"slices": [{"profile": "1g.10gb"}] * 64}] * 500}},
}
"""The content of the largest object of each kind that kopf watches, or more than a schema allows."""


@pytest.mark.parametrize(
    "kind", [kind.name for kind in kinds.watched_kinds() if not kind.many], ids=str
)
def test_the_largest_object_costs_the_loop_little(kind: str) -> None:
    store, reported = Store(), list[str]()
    handlers = watch.make_registry(store, lambda kind, name: reported.append(name))
    (handler,) = [h for h in handlers._watching.get_all_handlers() if h.id == kind]
    metadata = {"name": "x", "uid": "u", "resourceVersion": "1", "namespace": "n"}
    function: Any = handler.fn
    body = kopf.Body({"kind": kind, "metadata": metadata, **LARGEST[kind]})
    loop = run_measured(function(type="ADDED", body=body, retry=0))
    assert reported == ["x"]
    assert loop.longest_s < 0.05


def node(version: int, uid: str = "u", **labels: str) -> Document:
    metadata = {"name": "n1", "uid": uid, "resourceVersion": str(version), "labels": labels}
    return {"metadata": metadata}


class Nodes:
    """An API server with one node in its list, and a watch that ends after some events."""

    def __init__(self, *events: tuple[str, Document]) -> None:
        self.events = events

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        return {"items": [node(1)], "metadata": {"resourceVersion": "1"}}

    async def watch(self, kind: str, chosen: Chosen, version: str) -> AsyncIterator[Document]:
        for what, found in self.events:
            yield {"type": what, "object": found}
        yield {"type": "ERROR", "object": {"message": "too old resource version"}}


def test_kinds_with_many_objects_are_watched_without_kopf() -> None:
    store, reported = Store(), list[tuple[str, str]]()

    def on_change(kind: str, name: str) -> None:
        reported.append((kind, name))

    source = Nodes(
        ("MODIFIED", node(2)),
        ("MODIFIED", node(3, a="b")),
        ("BOOKMARK", {"metadata": {"resourceVersion": "4"}}),
    )
    followed = {one._kind: one for one in watch.make_reflectors(source, store, on_change, "ns")}
    handled = {h.id for h in watch.make_registry(store, on_change)._watching.get_all_handlers()}
    assert followed.keys() | handled == {kind.name for kind in kinds.watched_kinds()}
    assert not followed.keys() & handled, "each change would be taken twice"
    assert followed["Pod"]._chosen.namespace == "ns"
    assert not followed["Node"]._chosen.namespace

    nodes = followed["Node"]
    asyncio.run(nodes.follow())
    assert reported == [("Node", "n1")] * 2, "once by the list, and once by what differed"
    source.events = (("DELETED", node(5)), ("DELETED", node(6)))
    asyncio.run(nodes.follow())
    assert store.world().nodes == {}
    assert reported == [("Node", "n1")] * 3


def test_the_deletion_of_a_predecessor_does_not_remove_its_successor() -> None:
    store = Store()
    source = Nodes(("DELETED", node(2)))
    nodes = next(
        one
        for one in watch.make_reflectors(source, store, lambda *_: None, "ns")
        if one._kind == "Node"
    )
    # the response to a write arrives before the watch's event
    store.put("Node", node(3, uid="later"))
    asyncio.run(nodes.follow())
    assert store.world().nodes["n1"].uid == "later"


@pytest.mark.parametrize("in_a_pod", [True, False])
def test_the_service_account_precedes_the_kubeconfig(
    monkeypatch: pytest.MonkeyPatch, in_a_pod: bool
) -> None:
    account, file = kopf.ConnectionInfo(server="account"), kopf.ConnectionInfo(server="file")
    monkeypatch.setattr(
        kopf, "login_with_service_account", lambda **_: account if in_a_pod else None
    )
    monkeypatch.setattr(kopf, "login_with_kubeconfig", lambda **_: file)
    assert watch._login() == (account if in_a_pod else file)
