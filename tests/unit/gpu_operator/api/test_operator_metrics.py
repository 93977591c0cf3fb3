"""The operator's metrics, and which HTTP requests return them."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient, Configuration
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from gpu_operator import errors, metrics
from gpu_operator.api.v1alpha1.miglayout import MIGLayoutStatus
from gpu_operator.app.health import Health
from gpu_operator.app.object_metrics import ObjectCollector
from gpu_operator.controllers.common.world import Outcome, World
from gpu_operator.engine.queue import Key, WorkQueue
from gpu_operator.engine.store import Store
from gpu_operator.engine.worker import Worker
from gpu_operator.kube.actions import Apply, Manager
from gpu_operator.kube.client import KubernetesCluster
from support.processes.http_stub import Answer, HttpStub
from support.worlds.driven_operator import CONFIG
from support.worlds.fake_cluster import FakeCluster
from support.worlds.gpu_world import gpu, layout, mig_slice, node, pool, world


def value(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


def increase_of(act: Callable[[], object], name: str, **labels: str) -> float:
    before = value(name, **labels)
    act()
    return value(name, **labels) - before


@pytest.mark.parametrize("result", ["success", "error"])
def test_a_reconciliation_is_measured_with_how_it_ended(
    monkeypatch: pytest.MonkeyPatch, result: str
) -> None:
    worker = Worker(FakeCluster(), Store(), WorkQueue(), CONFIG, "ns", lambda: None)

    async def decide(key: Key) -> Outcome:
        if result == "error":
            raise errors.KubeError("away")
        return Outcome()

    monkeypatch.setattr(worker, "_decide_key", decide)

    def act() -> None:
        assert asyncio.run(worker.work(Key("GPUPool", "p"))) is (result == "success")

    counted = {"controller": "GPUPool", "result": result}
    assert increase_of(act, "controller_runtime_reconcile_total", **counted) == 1
    seconds = "controller_runtime_reconcile_time_seconds_count"
    assert increase_of(act, seconds, controller="GPUPool") == 1


@pytest.mark.parametrize(("status", "code"), [(200, "200"), (409, "409"), (None, "<error>")])
def test_a_request_is_counted_by_its_response(status: int | None, code: str) -> None:
    document = {"apiVersion": "gpu.tessera.dev/v1alpha1", "kind": "GPUPool"}
    document |= {"metadata": {"name": "p"}}  # type: ignore[dict-item]

    async def perform(url: str) -> None:
        cluster = KubernetesCluster(ApiClient(Configuration(host=url)))
        try:
            await cluster.perform(Apply(Manager.STATUS, document))
        except errors.KubeError:
            assert status != 200
        finally:
            await cluster.close()

    def act() -> None:
        body: dict[str, Any] = document if status == 200 else {"kind": "Status", "code": status}
        with HttpStub(lambda _: Answer(status or 200, body)) as stub:
            url = stub.url
            if status is not None:
                asyncio.run(perform(url))
        if status is None:
            asyncio.run(perform(url))  # the server has stopped

    assert (
        increase_of(act, "rest_client_requests_total", method="server_side_apply", code=code) == 1
    )


def expose(collector: ObjectCollector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def test_only_the_leader_exports_objects() -> None:
    said = {"reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{**said, "type": "Ready", "status": "False"}]
    known = world(
        node(),
        pool(),
        replace(layout("cut"), status=MIGLayoutStatus.model_validate({"conditions": conditions})),
        gpu(have=(mig_slice("1g.10gb@0", "a/b"), mig_slice("1g.10gb@1"), mig_slice("1g.10gb@2"))),
    )
    text = expose(ObjectCollector(lambda: known))
    assert 'tessera_miglayout_status_condition{condition="Ready",miglayout="cut"} 0.0\n' in text
    assert 'tessera_gpu_slices{held="true",pool="p",profile="1g.10gb"} 1.0\n' in text
    assert 'tessera_gpu_slices{held="false",pool="p",profile="1g.10gb"} 2.0\n' in text
    no_world: Callable[[], World | None] = lambda: None  # noqa: E731
    assert "{" not in expose(ObjectCollector(no_world))


@pytest.mark.parametrize("on", [True, False])
def test_metrics_are_served_on_the_probe_port(on: bool) -> None:
    async def ask() -> tuple[str, str]:
        async with Health(0, lambda: False, metrics.exposition if on else None) as health:
            address = f"http://127.0.0.1:{health.port}/metrics?x=1"
            accept = {"Accept": "application/openmetrics-text;version=1.0.0"}

            def read() -> tuple[str, str]:
                try:
                    request = urllib.request.Request(address, headers=accept)
                    with urllib.request.urlopen(request, timeout=20) as reply:
                        return reply.headers["Content-Type"], reply.read().decode()
                except urllib.error.HTTPError as err:
                    return str(err.code), ""

            return await asyncio.to_thread(read)

    kind, text = asyncio.run(ask())
    if on:
        assert kind.startswith("application/openmetrics-text; version=1.0.0")
        assert "# TYPE workqueue_depth gauge\n" in text
        assert text.endswith("# EOF\n")
    else:
        assert (kind, text) == ("503", "")
