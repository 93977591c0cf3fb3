"""The adapter to lightkube: requests on the wire, errors as ours. The transport is replaced."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from lightkube import AsyncClient
from lightkube.config.kubeconfig import KubeConfig

from gpu_operator import errors
from gpu_operator.kube.actions import (
    Action,
    Apply,
    Delete,
    DropFinalizer,
    Evict,
    Manager,
    PatchNodeStatus,
    Record,
)
from gpu_operator.kube.client import LightkubeCluster

CONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "http://cluster"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}
POOL = {
    "apiVersion": "gpu.tessera.dev/v1alpha1",
    "kind": "GPUPool",
    "metadata": {"name": "p", "uid": "u"},
    "status": {"nodes": 1},
}


def performed(
    action: Action, status: int = 200, body: dict[str, Any] | None = None
) -> list[tuple[str, str, str, Any]]:
    """Method, path with query, content type and body of each request."""
    seen: list[tuple[str, str, str, Any]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        content = json.loads(request.content) if request.content else None
        path = request.url.raw_path.decode()
        seen.append((request.method, path, request.headers.get("content-type", ""), content))
        reply = {"kind": "Status", "code": status, "message": "why not"} if status >= 400 else POOL
        return httpx2.Response(status, json=body or reply)

    asyncio.run(_with(answer, lambda cluster: cluster.perform(action)))
    return seen


async def _with(answer: Callable[..., Any], use: Callable[[LightkubeCluster], Any]) -> Any:
    config = KubeConfig.from_dict(CONFIG).get()
    client = AsyncClient(config=config, transport=httpx2.MockTransport(answer))
    cluster = LightkubeCluster(client)
    try:
        return await use(cluster)
    finally:
        await cluster.close()


def test_apply_is_forced_and_by_its_manager() -> None:
    ((method, path, kind, body),) = performed(Apply(Manager.STATUS, POOL, status=True))
    assert method == "PATCH"
    assert path.startswith("/apis/gpu.tessera.dev/v1alpha1/gpupools/p/status?")
    assert "fieldManager=tessera-status" in path
    assert "force=true" in path
    assert kind == "application/apply-patch+yaml"
    assert body == POOL


def test_a_namespaced_object_goes_to_its_namespace() -> None:
    document = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "ns"},
    }
    ((_, path, _, _),) = performed(Apply(Manager.CHILDREN, document), body=document)
    assert path.startswith("/apis/apps/v1/namespaces/ns/daemonsets/d?")
    ((method, path, _, _),) = performed(Delete("DaemonSet", "d", "ns"))
    assert (method, path) == ("DELETE", "/apis/apps/v1/namespaces/ns/daemonsets/d")


def test_an_eviction_is_of_just_that_pod() -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}}
    ((method, path, _, body),) = performed(Evict("default", "x", "uid-x"), body=eviction)
    assert (method, path) == ("POST", "/api/v1/namespaces/default/pods/x/eviction")
    assert body["deleteOptions"]["preconditions"] == {"uid": "uid-x"}


def test_a_node_s_status_is_patched_with_its_tests() -> None:
    operations = ({"op": "test", "path": "/status/capacity/x", "value": "0"},)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    ((method, path, kind, body),) = performed(PatchNodeStatus("n", operations), body=node)
    assert (method, path) == ("PATCH", "/api/v1/nodes/n/status")
    assert kind == "application/json-patch+json"
    assert body == list(operations)


def test_a_finalizer_is_dropped_from_just_that_object() -> None:
    ((method, path, kind, body),) = performed(DropFinalizer("GPUPool", "p", "u", 1))
    assert (method, path) == ("PATCH", "/apis/gpu.tessera.dev/v1alpha1/gpupools/p")
    assert kind == "application/json-patch+json"
    assert body == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/finalizers/1", "value": "gpu.tessera.dev/finalizer"},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]


@pytest.mark.parametrize(
    "action", [DropFinalizer("GPUPool", "p", "u", 0), PatchNodeStatus("n", ())]
)
def test_a_json_patch_whose_test_fails_is_a_conflict(action: Action) -> None:
    with pytest.raises(errors.Conflict, match="has changed"):
        performed(action, 422)  # what the API server answers


def test_an_event_names_its_object() -> None:
    record = Record("GPUPool", "p", "u", "NodeConflict", "m" * 5000, warning=True)
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {}}
    ((method, path, _, body),) = performed(record, body=event)
    assert (method, path.partition("?")[0]) == ("POST", "/api/v1/namespaces/default/events")
    assert body["involvedObject"]["uid"] == "u"
    assert (body["type"], body["reason"]) == ("Warning", "NodeConflict")
    assert len(body["message"]) == 1024


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, errors.NotFound),
        (409, errors.Conflict),
        (403, errors.Refused),
        (422, errors.Refused),
        (429, errors.Unreachable),
        (500, errors.Unreachable),
    ],
)
def test_answers_become_our_errors(status: int, error: type[errors.KubeError]) -> None:
    with pytest.raises(error, match="GPUPool p: why not"):
        performed(Apply(Manager.STATUS, POOL, status=True), status)


@pytest.mark.parametrize(("status", "error"), [(404, errors.NotFound), (503, errors.Unreachable)])
def test_an_answer_without_a_status_object_is_understood(
    status: int, error: type[errors.KubeError]
) -> None:
    """What the API server says of a kind whose definition is gone, and proxies of anything."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, text="page not found\n")

    with pytest.raises(error, match=f"list GPU: {status} page not found"):
        asyncio.run(_with(answer, lambda cluster: cluster.list("GPU")))


def test_silence_is_an_error_of_ours() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    with pytest.raises(errors.Unreachable, match="refused"):
        asyncio.run(_with(answer, lambda cluster: cluster.list("GPUPool")))


def test_what_is_gone_need_not_be_deleted_or_evicted() -> None:
    assert len(performed(Delete("GPU", "g"), 404)) == 1
    assert len(performed(Evict("default", "x", "u"), 404)) == 1


def test_a_pod_that_goes_with_its_namespace_need_not_be_evicted() -> None:
    cause = {"reason": "NamespaceTerminating", "message": "is being terminated"}
    body = {"kind": "Status", "code": 403, "message": "no", "details": {"causes": [cause]}}
    assert len(performed(Evict("default", "x", "u"), 403, body)) == 1
    with pytest.raises(errors.Refused, match="why not"):
        performed(Evict("default", "x", "u"), 403)


def test_a_disruption_budget_is_told_apart() -> None:
    with pytest.raises(errors.EvictionBlocked, match="why not"):
        performed(Evict("default", "x", "u"), 429)
