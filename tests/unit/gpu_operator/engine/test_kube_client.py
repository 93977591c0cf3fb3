"""The adapter to the Kubernetes client: requests on the wire, errors as ours."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient, Configuration

from gpu_operator import errors, kinds
from gpu_operator.kube import client as adapter
from gpu_operator.kube.actions import (
    Action,
    Annotate,
    Apply,
    Delete,
    DropFinalizer,
    Evict,
    Manager,
    PatchNode,
    Record,
)
from gpu_operator.kube.client import KubernetesCluster
from support.processes.http_stub import Answer, HttpStub, Request

POOL = {
    "apiVersion": "gpu.tessera.dev/v1alpha1",
    "kind": "GPUPool",
    "metadata": {"name": "p", "uid": "u"},
    "status": {"nodes": 1},
}


POD = {
    "metadata": {"name": "x", "uid": "uid-x", "resourceVersion": "7"},
    "status": {"phase": "Running"},
}


def performed(
    action: Action,
    status: int = 200,
    body: dict[str, Any] | None = None,
    pod: dict[str, Any] | None = POD,
) -> list[Request]:
    """Return the requests that an action makes, looks at the pod it is about aside.

    Each is answered alike.
    """

    def answer(request: Request) -> Answer:
        if isinstance(action, Evict) and request.method == "GET":
            return Answer(document=pod) if pod else Answer(404, {"kind": "Status", "code": 404})
        reply = {"kind": "Status", "code": status, "message": "why not"} if status >= 400 else POOL
        return Answer(status, body or reply)

    with HttpStub(answer) as stub:
        asyncio.run(use(stub.url, lambda cluster: cluster.perform(action)))
        return [request for request in stub.requests if request.method != "GET"]


async def use(url: str, what: Callable[[KubernetesCluster], Any]) -> Any:
    cluster = KubernetesCluster(ApiClient(Configuration(host=url)))
    try:
        return await what(cluster)
    finally:
        await cluster.close()


def test_apply_is_forced_and_by_its_manager() -> None:
    (request,) = performed(Apply(Manager.STATUS, POOL, status=True))
    assert request.method == "PATCH"
    assert request.path == "/apis/gpu.tessera.dev/v1alpha1/gpupools/p/status"
    assert request.query["fieldManager"] == "tessera-status"
    assert request.query["force"] == "true"
    assert request.content_type == "application/apply-patch+yaml"
    assert request.body == POOL


@pytest.mark.parametrize(
    "action",
    [
        Apply(Manager.CHILDREN, POOL),
        Apply(Manager.STATUS, POOL, status=True),
        DropFinalizer("GPUPool", "p", "u", 0),
        Evict("default", "x", "uid-x"),
        Annotate("default", "x", "uid-x", "k", "1"),
        PatchNode("n", ({"op": "remove", "path": "/status/x"},), status=True),
        PatchNode("n", ({"op": "remove", "path": "/metadata/labels/x"},)),
        Record("GPUPool", "p", "u", "NodeConflict", "m"),
    ],
    ids=lambda action: type(action).__name__,
)
def test_a_field_that_the_server_does_not_know_is_refused(action: Action) -> None:
    """It would be dropped, and the write reported as done."""
    (request,) = performed(action)
    assert request.query["fieldValidation"] == "Strict"


def test_a_namespaced_object_goes_to_its_namespace() -> None:
    document = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "ns"},
    }
    (request,) = performed(Apply(Manager.CHILDREN, document), body=document)
    assert request.path == "/apis/apps/v1/namespaces/ns/daemonsets/d"
    (request,) = performed(Delete("DaemonSet", "d", "ns"))
    assert request.method == "DELETE"
    assert request.path == "/apis/apps/v1/namespaces/ns/daemonsets/d"


def test_an_eviction_is_of_just_that_pod() -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}}
    (request,) = performed(Evict("default", "x", "uid-x"), body=eviction)
    assert request.method == "POST"
    assert request.path == "/api/v1/namespaces/default/pods/x/eviction"
    preconditions = request.body["deleteOptions"]["preconditions"]
    assert preconditions == {"uid": "uid-x", "resourceVersion": "7"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_not_evicted(phase: str) -> None:
    """The kubelet lists it for a moment yet; an eviction would delete it, and its logs."""
    ended = POD | {"status": {"phase": phase}}
    assert performed(Evict("default", "x", "uid-x"), pod=ended) == []


def test_another_pod_of_that_name_is_not_evicted() -> None:
    assert performed(Evict("default", "x", "uid-of-the-former"), pod=POD) == []
    assert performed(Evict("default", "x", "uid-x"), pod=None) == []


@pytest.mark.parametrize("status", [False, True])
def test_a_node_is_patched_with_its_tests(status: bool) -> None:
    operations = ({"op": "test", "path": "/status/capacity/x", "value": "0"},)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    (request,) = performed(PatchNode("n", operations, status), body=node)
    path = "/api/v1/nodes/n" + ("/status" if status else "")
    assert (request.method, request.path) == ("PATCH", path)
    assert request.content_type == "application/json-patch+json"
    assert request.body == list(operations)


def test_a_finalizer_is_dropped_from_just_that_object() -> None:
    (request,) = performed(DropFinalizer("GPUPool", "p", "u", 1))
    assert request.method == "PATCH"
    assert request.path == "/apis/gpu.tessera.dev/v1alpha1/gpupools/p"
    assert request.content_type == "application/json-patch+json"
    assert request.body == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/finalizers/1", "value": "gpu.tessera.dev/finalizer"},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]


@pytest.mark.parametrize(
    "action",
    [
        DropFinalizer("GPUPool", "p", "u", 0),
        PatchNode("n", ({"op": "test", "path": "/status/x", "value": "0"},), status=True),
    ],
)
def test_a_json_patch_whose_test_fails_is_a_conflict(action: Action) -> None:
    with pytest.raises(errors.Conflict, match="has changed"):
        performed(action, 422)  # what the API server answers


def test_an_annotation_is_of_just_that_pod() -> None:
    (request,) = performed(Annotate("default", "x", "uid-x", "k", "1"))
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/default/pods/x")
    assert request.body == {"metadata": {"uid": "uid-x", "annotations": {"k": "1"}}}


@pytest.mark.parametrize("status", [404, 409])
def test_a_pod_that_is_gone_or_another_by_now_is_not_annotated(status: int) -> None:
    assert len(performed(Annotate("default", "x", "uid-x", "k", "1"), status)) == 1
    with pytest.raises(errors.Refused, match="why not"):
        performed(Annotate("default", "x", "uid-x", "k", "1"), 403)


def test_an_event_names_its_object() -> None:
    record = Record("GPUPool", "p", "u", "NodeConflict", "m" * 5000, warning=True)
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {}}
    (request,) = performed(record, body=event)
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/default/events")
    assert request.body["involvedObject"]["uid"] == "u"
    assert (request.body["type"], request.body["reason"]) == ("Warning", "NodeConflict")
    assert len(request.body["message"]) == 1024


def test_an_event_that_is_known_is_only_dated_anew() -> None:
    record = Record("GPUPool", "p", "u", "NodeConflict", "m")

    def answer(request: Request) -> Answer:
        return Answer(409 if request.method == "POST" else 200, POOL)

    with HttpStub(answer) as stub:
        asyncio.run(use(stub.url, lambda cluster: cluster.perform(record)))
        created, dated = stub.requests
    assert dated.method == "PATCH"
    assert dated.path == f"{created.path}/{created.body['metadata']['name']}"
    assert dated.content_type == "application/merge-patch+json"
    assert set(dated.body) == {"lastTimestamp"}


def test_an_object_has_one_event_of_a_reason_that_says_the_latest() -> None:
    def answer(request: Request) -> Answer:
        return Answer(409 if request.method == "POST" else 200, POOL)

    def told(message: str) -> tuple[Any, Any]:
        record = Record("ResourceClaim", "c", "u", "Full", message, namespace="ns", latest=True)
        with HttpStub(answer) as stub:
            asyncio.run(use(stub.url, lambda cluster: cluster.perform(record)))
            created, changed = stub.requests
        return created, changed

    first, _ = told("two are full")
    second, changed = told("three are full")
    assert first.path == "/api/v1/namespaces/ns/events"
    assert first.body["involvedObject"]["apiVersion"] == "resource.k8s.io/v1"
    assert first.body["metadata"] == second.body["metadata"]
    assert set(changed.body) == {"lastTimestamp", "message"}
    assert changed.body["message"] == "three are full"


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
    with (
        HttpStub(lambda _: Answer(status, text="page not found\n")) as stub,
        pytest.raises(error, match=f"list GPU: {status} page not found"),
    ):
        asyncio.run(use(stub.url, lambda cluster: cluster.list("GPU")))


@pytest.mark.parametrize("text", ["{", "<html>"])
def test_an_answer_that_is_no_json_is_none(text: str) -> None:
    with HttpStub(lambda _: Answer(text=text)) as stub, pytest.raises(errors.Unreachable):
        asyncio.run(use(stub.url, lambda cluster: cluster.list("GPU")))


def test_silence_is_an_error_of_ours() -> None:
    with HttpStub(lambda _: Answer()) as stub:
        nobody = stub.url
    with pytest.raises(errors.Unreachable, match="Connect call failed"):
        asyncio.run(use(nobody, lambda cluster: cluster.list("GPUPool")))


def test_without_an_account_and_a_kubeconfig_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    place = "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(place, "/nowhere")
    with pytest.raises(errors.ConfigError, match="no access to a cluster"):
        asyncio.run(KubernetesCluster.connect())


def test_an_answer_that_never_comes_ends_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_TIMEOUT_S", 0.05)
    done = threading.Event()

    def answer(_: Request) -> Answer:
        done.wait(30)
        return Answer()

    with HttpStub(answer) as stub:
        try:
            with pytest.raises(errors.Unreachable, match="Timeout"):
                asyncio.run(use(stub.url, lambda cluster: cluster.get("GPU", "g")))
        finally:
            done.set()


def test_a_list_is_asked_for_page_by_page() -> None:
    pages = {"": ("a", "next"), "next": ("b", "last"), "last": ("c", "")}

    def answer(request: Request) -> Answer:
        assert int(request.query["limit"]) > 0
        name, token = pages[request.query.get("continue", "")]
        return Answer(document={"metadata": {"continue": token}, "items": [named(name)]})

    with HttpStub(answer) as stub:
        found = asyncio.run(use(stub.url, lambda cluster: cluster.list("Pod", "ns")))
        assert {request.path for request in stub.requests} == {"/api/v1/namespaces/ns/pods"}
    assert [(d["kind"], d["metadata"]["name"]) for d in found] == [
        ("Pod", "a"),
        ("Pod", "b"),
        ("Pod", "c"),
    ]


def test_pages_that_are_too_old_are_asked_for_at_once() -> None:
    def answer(request: Request) -> Answer:
        if "continue" in request.query:
            return Answer(410, {"kind": "Status", "reason": "Expired", "message": "too old"})
        token = "next" if "limit" in request.query else ""
        names = ("a",) if token else ("a", "b")
        items = [named(name) for name in names]
        return Answer(document={"metadata": {"continue": token}, "items": items})

    with HttpStub(answer) as stub:
        found = asyncio.run(use(stub.url, lambda cluster: cluster.list("GPU")))
    assert [d["metadata"]["name"] for d in found] == ["a", "b"]


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def test_requests_follow_the_table_of_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    widget = kinds.Kind("Widget", "widgets", "example.com", "v2", namespaced=True)
    monkeypatch.setattr(kinds, "KINDS", (*kinds.KINDS, widget))
    document = {"kind": "Widget", "metadata": {"name": "w", "namespace": "ns"}}

    async def everything(cluster: KubernetesCluster) -> None:
        await cluster.list("Widget")
        await cluster.get("Widget", "w", "ns")
        await cluster.create(document)
        await cluster.replace(document)
        await cluster.perform(Apply(Manager.STATUS, document, status=True))

    with HttpStub(lambda _: Answer(document=document)) as stub:
        asyncio.run(use(stub.url, everything))
    assert [r.query.get("fieldValidation") for r in stub.requests] == [None] * 2 + ["Strict"] * 3
    one = "/apis/example.com/v2/namespaces/ns/widgets"
    assert [(r.method, r.path) for r in stub.requests] == [
        ("GET", "/apis/example.com/v2/widgets"),
        ("GET", f"{one}/w"),
        ("POST", one),
        ("PUT", f"{one}/w"),
        ("PATCH", f"{one}/w/status"),
    ]


def test_what_is_gone_need_not_be_deleted_or_evicted() -> None:
    assert len(performed(Delete("GPU", "g"), 404)) == 1
    assert len(performed(Evict("default", "x", "uid-x"), 404)) == 1


def test_a_pod_that_goes_with_its_namespace_need_not_be_evicted() -> None:
    cause = {"reason": "NamespaceTerminating", "message": "is being terminated"}
    body = {"kind": "Status", "code": 403, "message": "no", "details": {"causes": [cause]}}
    assert len(performed(Evict("default", "x", "uid-x"), 403, body)) == 1
    with pytest.raises(errors.Refused, match="why not"):
        performed(Evict("default", "x", "uid-x"), 403)


def test_a_disruption_budget_is_told_apart() -> None:
    with pytest.raises(errors.EvictionBlocked, match="why not"):
        performed(Evict("default", "x", "uid-x"), 429)
