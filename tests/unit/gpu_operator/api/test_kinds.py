"""A kind that is added to the table is handled everywhere."""

import asyncio
import dataclasses
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import pytest

from gpu_operator import errors, kinds
from gpu_operator.api.v1alpha1 import GROUP, crd
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicyStatus
from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec
from gpu_operator.api.v1alpha1.resource import Broken, Resource
from gpu_operator.app import check, cleanup, validation
from gpu_operator.config import Config, Identity, NodeConfig
from gpu_operator.controllers.common.world import World
from gpu_operator.engine import routes, store, watch
from gpu_operator.engine.queue import Key, WorkQueue
from gpu_operator.engine.store import Store
from gpu_operator.engine.worker import Worker
from gpu_operator.kinds import Uninstall
from gpu_operator.kube.port import Document
from support.worlds.fake_cluster import FakeCluster

WIDGET = crd.Kind("Widget", "widgets", (), GPUPoolSpec, GPUPolicyStatus, (), "Widget is made up.")
SPEC = {"nodeSelector": {"pool": "p"}, "board": "a30"}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Wider(World):
    """A world with a field for the new kind."""

    widgets: Mapping[str, Any] = field(default_factory=dict)


@pytest.fixture(autouse=True)
def widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the row and the field that it names, and nothing else."""
    row = kinds.make_kind(
        WIDGET,
        collection="widgets",
        always=("main",),
        wakes=("Widget",),
        wakes_named={"Node": lambda widget: widget.spec.node_selector["node"]},
        woken_by={"GPUPolicy": lambda widget: widget.spec.board},
        survived_by={"GPUPool": lambda widget: widget.spec.node_selector["pool"]},
        on_uninstall=Uninstall.DELETE,
    )
    monkeypatch.setattr(kinds, "KINDS", (*kinds.KINDS, row))
    monkeypatch.setattr(store, "World", Wider)


def widget(name: str, **selector: str) -> Document:
    spec = {"nodeSelector": {"pool": "p", "node": "n", **selector}, "board": "b"}
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec}


def make_store(*documents: Document) -> Store:
    filled = Store()
    for document in documents:
        assert filled.put("Widget", document)
    return filled


def test_the_store_parses_it_and_records_broken_objects() -> None:
    bad = widget("bad") | {"spec": {"board": 7}}
    world = make_store(widget("good"), bad).world()
    assert isinstance(world, Wider)
    assert isinstance(world.widgets["good"], Resource)
    assert world.widgets["good"].meta.kind == "Widget"
    assert list(world.widgets) == ["good"]
    assert isinstance(world.broken["Widget", "bad"], Broken)


def test_the_kind_is_watched() -> None:
    handlers = watch.make_registry(Store(), lambda kind, name: None)._watching.get_all_handlers()
    (selector,) = [h.selector for h in handlers if h.id == "Widget"]
    assert selector is not None
    assert (selector.group, selector.version, selector.any_name) == (GROUP, "v1alpha1", "widgets")


def test_the_kind_is_listed() -> None:
    cluster = FakeCluster()
    cluster.add("Widget", "w", {**SPEC})
    config = Config(node=NodeConfig(image="i", service_account="a"))
    filled = Store()
    worker = Worker(cluster, filled, WorkQueue(), config, "ns", lambda: None)
    asyncio.run(worker.list_all())
    assert filled.document("Widget", "w") is not None


def test_the_kind_is_reconciled_with_the_kinds_that_it_wakes() -> None:
    world = make_store(widget("a"), widget("b", pool="gone")).world()
    everything = routes.all_keys(world)
    assert {Key("Widget", name) for name in ("a", "b", "main")} <= everything
    assert Key("GPUPool", "gone") in everything
    changed = set(routes.keys_affected_by("Widget", "a", world))
    assert changed == {Key("Widget", n) for n in ("a", "b", "main")} | {Key("Node", "n")}
    assert Key("Widget", "a") in set(routes.keys_affected_by("GPUPolicy", "b", world))
    assert Key("Widget", "a") not in set(routes.keys_affected_by("GPUPolicy", "c", world))


class Clusters(FakeCluster):
    """A cluster whose API server may not serve the new kind."""

    serves = True

    async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
        if kind == "Widget" and not self.serves:
            raise errors.NotFound("list Widget: 404 page not found")
        return await super().list(kind, namespace)


def run_check(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    monkeypatch.setattr(check, "_TIMEOUT_S", 0.0)
    cluster.add("Deployment", "o")["status"] = {"availableReplicas": 1}
    cluster.add("Lease", "o", {"holderIdentity": "me"})
    said: list[str] = []
    who = Identity(namespace="ns", pod_name="me")
    return asyncio.run(
        check.check(cluster, who, "o", validation.Image("i"), said.append)
    ), "\n".join(said)


def test_the_check_reports_a_kind_that_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_check(Clusters(), monkeypatch)[0] == 0
    without = Clusters()
    without.serves = False
    status, said = run_check(without, monkeypatch)
    assert status == 1
    assert "Widget is not served" in said


def test_the_cleanup_deletes_its_objects_and_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "_EVERY_S", 0.0)
    cluster = FakeCluster()
    cluster.add("Widget", "w", finalizers=["f"])
    said: list[str] = []
    request = cleanup.Request(evict=False, timeout_s=0.0)
    assert asyncio.run(cleanup.cleanup(cluster, request, said.append)) == 1
    assert "deleting Widget w" in said
    assert "left: Widget w" in "\n".join(said)


def test_rows_and_crd_definitions_match() -> None:
    assert [k.name for k in kinds.own_kinds() if k.name != "Widget"] == [k.kind for k in crd.KINDS]


def test_rows_refer_to_existing_kinds_and_fields() -> None:
    fields = {f.name for f in dataclasses.fields(Wider)}
    for row in kinds.KINDS:
        assert row.collection in fields | {""}
        for other in (*row.wakes, *row.wakes_named, *row.woken_by, *row.survived_by):
            assert kinds.find_kind(other).watched
    with pytest.raises(KeyError, match="Gadget"):
        kinds.find_kind("Gadget")
