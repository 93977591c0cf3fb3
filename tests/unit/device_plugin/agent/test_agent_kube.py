"""The agent's client of the API server: requests on the wire, and the handling of answers."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration

from device_plugin.errors import ClusterError
from device_plugin.inventory.claims import ClaimRef
from device_plugin.inventory.model import HolderPod
from device_plugin.kube import client as adapter
from device_plugin.kube.client import Kube
from gpu_operator.api.v1alpha1.gpu import GPUStatus
from support.processes.http_stub import Answer, HttpStub, Request

GPUS = "/apis/gpu.tessera.dev/v1alpha1/gpus"
SELECTOR = "gpu.tessera.dev/node=n"


def refusal(code: int) -> Answer:
    return Answer(code, {"kind": "Status", "code": code, "message": "why not"})


def kube(stub: HttpStub) -> Kube:
    return Kube("n", ApiClient(Configuration(host=stub.url)))


def gpu(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def test_gpus_of_the_node_are_listed_page_by_page() -> None:
    def answer(request: Request) -> Answer:
        assert int(request.query["limit"]) > 0
        last = request.query.get("continue") == "next"
        token, name = ("", "a") if last else ("next", "b")
        return Answer(document={"metadata": {"continue": token}, "items": [gpu(name)]})

    with HttpStub(answer) as stub:
        assert [found.name for found in kube(stub).gpus()] == ["a", "b"]
    assert {(r.path, r.query["labelSelector"]) for r in stub.requests} == {(GPUS, SELECTOR)}


def test_a_status_is_applied_as_the_agent_s_own_and_checked() -> None:
    with HttpStub(lambda _: Answer(document=gpu("g"))) as stub:
        kube(stub).apply_status("g", GPUStatus(agent_version="1"))
    (request,) = stub.requests
    assert (request.method, request.path) == ("PATCH", f"{GPUS}/g/status")
    assert request.content_type == "application/apply-patch+yaml"
    assert request.query == {
        "fieldManager": "tessera-node-agent",
        "force": "true",
        "fieldValidation": "Strict",
    }
    assert request.body["status"]["agentVersion"] == "1"


def test_a_gpu_that_is_gone_needs_no_status() -> None:
    with HttpStub(lambda _: refusal(404)) as stub:
        kube(stub).apply_status("g", GPUStatus())
    with HttpStub(lambda _: refusal(409)) as stub, pytest.raises(ClusterError, match="why not"):
        kube(stub).apply_status("g", GPUStatus())


@pytest.mark.parametrize(
    ("put", "about", "namespace", "kind"),
    [
        (
            lambda on: on.pod_event(HolderPod("team", "train", "u"), "Why", "words"),
            {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "train", "uid": "u"},
            "team",
            "Warning",
        ),
        (
            lambda on: on.pod_event(HolderPod("team", "train", "u"), "Why", "words", False),
            {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "train", "uid": "u"},
            "team",
            "Normal",
        ),
        (
            lambda on: on.gpu_event("g", "u", "Why", "words", True),
            {"apiVersion": "gpu.tessera.dev/v1alpha1", "kind": "GPU", "name": "g", "uid": "u"},
            "default",
            "Warning",
        ),
        (
            lambda on: on.gpu_event("g", "u", "Why", "words", False),
            {"apiVersion": "gpu.tessera.dev/v1alpha1", "kind": "GPU", "name": "g", "uid": "u"},
            "default",
            "Normal",
        ),
        (
            lambda on: on.claim_event(ClaimRef("team", "job", "u"), "Why", "words"),
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "namespace": "team",
                "name": "job",
                "uid": "u",
            },
            "team",
            "Warning",
        ),
    ],
)
def test_an_event_names_its_object(
    put: Callable[[Kube], None], about: dict[str, str], namespace: str, kind: str
) -> None:
    with HttpStub(lambda _: Answer(document={})) as stub:
        put(kube(stub))
    (request,) = stub.requests
    assert (request.method, request.path) == ("POST", f"/api/v1/namespaces/{namespace}/events")
    sent = request.body
    assert sent["involvedObject"] == about
    assert sent["metadata"]["namespace"] == namespace
    assert (sent["reason"], sent["message"], sent["type"]) == ("Why", "words", kind)
    assert (sent["count"], sent["source"]["host"]) == (1, "n")


def test_an_event_is_put_on_the_pod_and_counted_when_it_is_known() -> None:
    def answer(request: Request) -> Answer:
        return refusal(409) if request.method == "POST" else Answer(document={"count": 2})

    with HttpStub(answer) as stub:
        kube(stub).pod_event(HolderPod("default", "train", "u"), "Faulted", "m" * 5000)
    created, _, counted = stub.requests
    assert created.path == "/api/v1/namespaces/default/events"
    assert created.query == {"fieldValidation": "Strict"}
    assert created.body["involvedObject"]["uid"] == "u"
    assert len(created.body["message"]) == 1024
    assert counted.path == f"{created.path}/{created.body['metadata']['name']}"
    assert counted.content_type == "application/merge-patch+json"
    assert counted.body["count"] == 3


def test_a_watch_goes_on_from_a_version_and_ends_with_the_stream() -> None:
    lines = [{"type": kind, "object": gpu("g")} for kind in ("ADDED", "BOOKMARK", "DELETED")]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    stood: list[bool] = []
    with HttpStub(lambda _: Answer(text=text + '{"cut off')) as stub:
        assert list(kube(stub).watch_gpus("7", lambda: stood.append(True))) == lines
    (request,) = stub.requests
    assert stood == [True]
    assert (request.path, request.query["labelSelector"]) == (GPUS, SELECTOR)
    assert request.query["watch"] == "true"
    assert request.query["resourceVersion"] == "7"
    assert request.query["allowWatchBookmarks"] == "true"
    assert int(request.query["timeoutSeconds"]) > 0


def test_a_watch_that_is_refused_or_is_none_is_an_error() -> None:
    with HttpStub(lambda _: refusal(403)) as stub, pytest.raises(ClusterError, match="why not"):
        list(kube(stub).watch_gpus("7"))
    for text in ("what?\n", "[]\n7\n"):
        with HttpStub(lambda _, t=text: Answer(text=t)) as stub, pytest.raises(ClusterError):
            list(kube(stub).watch_gpus("7"))


@pytest.mark.parametrize("answer", [Answer(text="{"), Answer(503, text="no upstream")])
def test_an_answer_of_something_else_is_an_error(answer: Answer) -> None:
    with HttpStub(lambda _: answer) as stub, pytest.raises(ClusterError, match="API server"):
        kube(stub).gpus()


def test_silence_is_an_error_and_does_not_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_TIMEOUT_S", (0.05, 0.05))
    done = threading.Event()

    def answer(_: Request) -> Answer:
        done.wait(30)
        return Answer(document={"items": []})

    with HttpStub(answer) as stub:
        try:
            with pytest.raises(ClusterError, match="Timeout"):
                kube(stub).gpus()
        finally:
            done.set()
    with pytest.raises(ClusterError):
        kube(stub).gpus()  # the server has stopped


def test_without_an_account_and_a_kubeconfig_the_error_names_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", "/nowhere")
    with pytest.raises(ClusterError, match="cannot configure access to the API server"):
        Kube("n")
