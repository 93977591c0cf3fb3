"""The adapter to the Kubernetes client: its requests, and its errors."""

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


def requests_of(
    action: Action,
    status: int = 200,
    body: dict[str, Any] | None = None,
    pod: dict[str, Any] | None = POD,
) -> list[Request]:
    """Return the requests for an action, without those that read its pod.

    All requests get the same response.
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


def test_apply_is_forced_and_names_its_manager() -> None:
    (request,) = requests_of(Apply(Manager.STATUS, POOL, status=True))
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
    """Otherwise the server would drop it and report success."""
    (request,) = requests_of(action)
    assert request.query["fieldValidation"] == "Strict"


def test_a_namespaced_object_goes_to_its_namespace() -> None:
    document = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "ns"},
    }
    (request,) = requests_of(Apply(Manager.CHILDREN, document), body=document)
    assert request.path == "/apis/apps/v1/namespaces/ns/daemonsets/d"
    (request,) = requests_of(Delete("DaemonSet", "d", "ns"))
    assert request.method == "DELETE"
    assert request.path == "/apis/apps/v1/namespaces/ns/daemonsets/d"


def test_an_eviction_has_the_pod_s_uid_as_precondition() -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}}
    (request,) = requests_of(Evict("default", "x", "uid-x"), body=eviction)
    assert request.method == "POST"
    assert request.path == "/api/v1/namespaces/default/pods/x/eviction"
    preconditions = request.body["deleteOptions"]["preconditions"]
    assert preconditions == {"uid": "uid-x", "resourceVersion": "7"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_not_evicted(phase: str) -> None:
    """The kubelet still lists it for a moment; an eviction would delete it with its logs."""
    ended = POD | {"status": {"phase": phase}}
    assert requests_of(Evict("default", "x", "uid-x"), pod=ended) == []


def test_another_pod_of_that_name_is_not_evicted() -> None:
    assert requests_of(Evict("default", "x", "uid-of-the-former"), pod=POD) == []
    assert requests_of(Evict("default", "x", "uid-x"), pod=None) == []


@pytest.mark.parametrize("status", [False, True])
def test_a_node_is_patched_with_its_tests(status: bool) -> None:
    operations = ({"op": "test", "path": "/status/capacity/x", "value": "0"},)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    (request,) = requests_of(PatchNode("n", operations, status), body=node)
    path = "/api/v1/nodes/n" + ("/status" if status else "")
    assert (request.method, request.path) == ("PATCH", path)
    assert request.content_type == "application/json-patch+json"
    assert request.body == list(operations)


def test_dropping_a_finalizer_tests_the_object_s_uid() -> None:
    (request,) = requests_of(DropFinalizer("GPUPool", "p", "u", 1))
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
        requests_of(action, 422)  # the API server's response


def test_an_annotation_has_the_pod_s_uid_as_precondition() -> None:
    (request,) = requests_of(Annotate("default", "x", "uid-x", "k", "1"))
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/default/pods/x")
    assert request.body == {"metadata": {"uid": "uid-x", "annotations": {"k": "1"}}}


@pytest.mark.parametrize("status", [404, 409])
def test_a_deleted_or_replaced_pod_is_not_annotated(status: int) -> None:
    assert len(requests_of(Annotate("default", "x", "uid-x", "k", "1"), status)) == 1
    with pytest.raises(errors.Refused, match="why not"):
        requests_of(Annotate("default", "x", "uid-x", "k", "1"), 403)


def test_an_event_names_its_object() -> None:
    record = Record("GPUPool", "p", "u", "NodeConflict", "m" * 5000, warning=True)
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {}}
    (request,) = requests_of(record, body=event)
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/default/events")
    assert request.body["involvedObject"]["uid"] == "u"
    assert (request.body["type"], request.body["reason"]) == ("Warning", "NodeConflict")
    assert len(request.body["message"]) == 1024


def test_an_existing_event_only_gets_a_new_time() -> None:
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


def test_an_object_has_one_event_per_reason_with_the_latest_message() -> None:
    def answer(request: Request) -> Answer:
        return Answer(409 if request.method == "POST" else 200, POOL)

    def record_event(message: str) -> tuple[Any, Any]:
        record = Record("ResourceClaim", "c", "u", "Full", message, namespace="ns", latest=True)
        with HttpStub(answer) as stub:
            asyncio.run(use(stub.url, lambda cluster: cluster.perform(record)))
            created, changed = stub.requests
        return created, changed

    first, _ = record_event("two are full")
    second, changed = record_event("three are full")
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
def test_error_responses_become_errors_of_this_package(
    status: int, error: type[errors.KubeError]
) -> None:
    with pytest.raises(error, match="GPUPool p: why not"):
        requests_of(Apply(Manager.STATUS, POOL, status=True), status)


@pytest.mark.parametrize(("status", "error"), [(404, errors.NotFound), (503, errors.Unreachable)])
def test_a_response_without_a_status_object_is_handled(
    status: int, error: type[errors.KubeError]
) -> None:
    """The API server's response for a kind without CRD, and responses of proxies."""
    with (
        HttpStub(lambda _: Answer(status, text="page not found\n")) as stub,
        pytest.raises(error, match=f"list GPU: {status} page not found"),
    ):
        asyncio.run(use(stub.url, lambda cluster: cluster.list("GPU")))


@pytest.mark.parametrize("text", ["{", "<html>"])
def test_an_invalid_json_response_is_an_error(text: str) -> None:
    with HttpStub(lambda _: Answer(text=text)) as stub, pytest.raises(errors.Unreachable):
        asyncio.run(use(stub.url, lambda cluster: cluster.list("GPU")))


def test_a_missing_response_is_an_error_of_this_package() -> None:
    with HttpStub(lambda _: Answer()) as stub:
        closed_url = stub.url
    with pytest.raises(errors.Unreachable, match="Connect call failed"):
        asyncio.run(use(closed_url, lambda cluster: cluster.list("GPUPool")))


def test_without_account_and_kubeconfig_connecting_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    place = "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(place, "/nowhere")
    with pytest.raises(errors.ConfigError, match="no access to a cluster"):
        asyncio.run(KubernetesCluster.connect())


def test_a_request_without_response_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_TIMEOUT_S", 0.05)
    done = threading.Event()

    def answer(_: Request) -> Answer:
        done.wait(30)
        return Answer()

    with HttpStub(answer) as stub:
        try:
            with pytest.raises(errors.Unreachable, match="GPU g: timeout: the API server is busy"):
                asyncio.run(use(stub.url, lambda cluster: cluster.get("GPU", "g")))
        finally:
            done.set()


def test_a_list_is_requested_page_by_page() -> None:
    pages = {"": ("a", "next"), "next": ("b", "last"), "last": ("c", "")}

    def answer(request: Request) -> Answer:
        assert int(request.query["limit"]) > 0
        name, token = pages[request.query.get("continue", "")]
        return Answer(document={"metadata": {"continue": token}, "items": [object_named(name)]})

    with HttpStub(answer) as stub:
        found = asyncio.run(use(stub.url, lambda cluster: cluster.list("Pod", "ns")))
        assert {request.path for request in stub.requests} == {"/api/v1/namespaces/ns/pods"}
    assert [(d["kind"], d["metadata"]["name"]) for d in found] == [
        ("Pod", "a"),
        ("Pod", "b"),
        ("Pod", "c"),
    ]


def test_an_expired_list_is_requested_as_a_whole() -> None:
    def answer(request: Request) -> Answer:
        if "continue" in request.query:
            return Answer(410, {"kind": "Status", "reason": "Expired", "message": "too old"})
        token = "next" if "limit" in request.query else ""
        names = ("a",) if token else ("a", "b")
        items = [object_named(name) for name in names]
        return Answer(document={"metadata": {"continue": token}, "items": items})

    with HttpStub(answer) as stub:
        found = asyncio.run(use(stub.url, lambda cluster: cluster.list("GPU")))
    assert [d["metadata"]["name"] for d in found] == ["a", "b"]


def object_named(name: str) -> dict[str, Any]:
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


def test_deleting_or_evicting_a_missing_object_succeeds() -> None:
    assert len(requests_of(Delete("GPU", "g"), 404)) == 1
    assert len(requests_of(Evict("default", "x", "uid-x"), 404)) == 1


def test_a_pod_that_goes_with_its_namespace_need_not_be_evicted() -> None:
    cause = {"reason": "NamespaceTerminating", "message": "is being terminated"}
    body = {"kind": "Status", "code": 403, "message": "no", "details": {"causes": [cause]}}
    assert len(requests_of(Evict("default", "x", "uid-x"), 403, body)) == 1
    with pytest.raises(errors.Refused, match="why not"):
        requests_of(Evict("default", "x", "uid-x"), 403)


def test_a_disruption_budget_has_its_own_error() -> None:
    with pytest.raises(errors.EvictionBlocked, match="why not"):
        requests_of(Evict("default", "x", "uid-x"), 429)


def read_port(answer: Answer, most_bytes: int = 100) -> bytes:
    with HttpStub(lambda request: answer) as stub:
        try:
            found: bytes = asyncio.run(
                use(stub.url, lambda c: c.read_port("a b", "p/x", 9400, "/metrics", most_bytes))
            )
        finally:
            (request,) = stub.requests
        assert request.method == "GET"
        assert request.path == "/api/v1/namespaces/a%20b/pods/p%2Fx:9400/proxy/metrics"
    return found


def test_a_pods_port_is_read_through_the_proxy() -> None:
    assert read_port(Answer(text="up 1\n")) == b"up 1\n"


def test_an_answer_of_a_pod_is_bounded() -> None:
    assert len(read_port(Answer(text="x" * 100))) == 100
    with pytest.raises(errors.Refused, match="more than 100 bytes"):
        read_port(Answer(text="x" * 101))


def test_a_pods_redirection_is_not_followed() -> None:
    # read_port() also checks that the stub has received one request
    with pytest.raises(errors.Refused, match="the pod redirects the request"):
        read_port(Answer(302, text="x", location="/api/v1/namespaces/kube-system/secrets"))


@pytest.mark.parametrize(
    ("status", "error"),
    [(403, errors.Refused), (404, errors.NotFound), (503, errors.Unreachable)],
)
def test_a_refused_proxy_is_an_error(status: int, error: type[errors.KubeError]) -> None:
    with pytest.raises(error, match="why not"):
        read_port(Answer(status, {"kind": "Status", "code": status, "message": "why not"}))
