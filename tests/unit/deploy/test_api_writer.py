"""The end-to-end tests' writer, against a small API server: creates, replaces, deletes, refusals."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes.client import ApiClient, Configuration
from kubernetes.dynamic import DynamicClient

from support.cluster import api_reader, api_writer
from support.cluster.api_writer import Chosen, RefusedError, parse_deletion

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"a": 1}}


class Store:
    """Pods of one namespace, with the API server's rules about UIDs and versions."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.queries: list[dict[str, list[str]]] = []
        self.terminating_polls = 0
        self.refusal = ""
        self._uids = 0

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        name = path.rpartition("/pods")[2].strip("/")
        if method == "POST":
            return self._create(body)
        if not name:
            return 200, {"items": list(self.pods.values())}
        if name not in self.pods:
            return 404, {"message": "not found"}
        if method == "PUT":
            return self._replace(name, body)
        if method == "DELETE":
            self.pods[name]["metadata"]["deletionTimestamp"] = "now"
        elif "deletionTimestamp" in self.pods[name]["metadata"]:
            self.terminating_polls -= 1
            if self.terminating_polls < 0:
                del self.pods[name]
                return 404, {"message": "not found"}
        return 200, self.pods[name]

    def _create(self, body: Any) -> tuple[int, Any]:
        if self.refusal:
            return 422, {"message": self.refusal}
        name = body["metadata"]["name"]
        if name in self.pods:
            return 409, {"message": "exists"}
        self._uids += 1
        fields = {"uid": str(self._uids), "resourceVersion": "1", "finalizers": ["kept"]}
        self.pods[name] = {**body, "metadata": {**body["metadata"], **fields}, "status": {"s": 1}}
        return 201, self.pods[name]

    def _replace(self, name: str, body: Any) -> tuple[int, Any]:
        if body["metadata"]["resourceVersion"] != self.pods[name]["metadata"]["resourceVersion"]:
            return 409, {"message": "changed"}
        self.pods[name] = body
        return 200, body


def _discovery(path: str) -> Any:
    if path == "/version":
        return {"major": "1", "minor": "36"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        return {"kind": "APIGroupList", "groups": []}
    if path == "/api/v1":
        pods = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod"}
        return {
            "kind": "APIResourceList",
            "resources": [pods | {"verbs": ["create", "delete", "get", "list", "update"]}],
        }
    return None


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    """A store behind the official client, as the writer uses it."""
    found = Store()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            fixed = _discovery(parts.path)
            if fixed is None:
                found.queries.append(parse_qs(parts.query))
            status, said = (200, fixed) if fixed else found.answer(self.command, parts.path, body)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{server.server_address[1]}"
        cache = str(tmp_path / "discovery.json")
        with ApiClient(configuration) as transport:
            client = DynamicClient(transport, cache_file=cache)
            for module in (api_reader, api_writer):
                monkeypatch.setattr(module, "open_client", lambda: client)
            api_reader.find_resource.cache_clear()
            yield found
            api_reader.find_resource.cache_clear()
        server.shutdown()
        thread.join()


def test_an_object_is_created_with_strict_fields(store: Store) -> None:
    api_writer.apply("mine", POD)
    assert store.pods["one"]["spec"] == {"a": 1}
    assert store.queries[-1] == {"fieldValidation": ["Strict"]}


def test_an_existing_object_keeps_what_others_wrote_and_gets_the_manifest_s_fields(
    store: Store,
) -> None:
    api_writer.apply("mine", POD)
    changed = {**POD, "metadata": {"name": "one", "labels": {"l": "2"}}, "spec": {"b": 2}}
    api_writer.apply("mine", changed)
    found = store.pods["one"]
    assert (found["spec"], found["status"]) == ({"b": 2}, {"s": 1})
    assert found["metadata"]["labels"] == {"l": "2"}
    assert found["metadata"]["finalizers"] == ["kept"]


def test_a_pod_that_has_all_of_the_manifest_is_left_as_it_is(store: Store) -> None:
    api_writer.apply("mine", POD)
    store.pods["one"]["spec"] |= {"default": True}
    api_writer.apply("mine", POD)
    assert store.pods["one"]["spec"] == {"a": 1, "default": True}


def test_a_pod_is_created_anew_once_the_deleted_one_is_gone(store: Store) -> None:
    api_writer.apply("mine", POD)
    store.pods["one"]["metadata"]["deletionTimestamp"] = "now"
    store.terminating_polls = 2
    api_writer.apply("mine", POD)
    assert "deletionTimestamp" not in store.pods["one"]["metadata"]
    assert store.pods["one"]["metadata"]["uid"] == "2"


def test_a_refusal_has_the_server_s_message(store: Store) -> None:
    store.refusal = 'strict decoding error: unknown field "spec.x"'
    with pytest.raises(RefusedError, match=r'^strict decoding error: unknown field "spec\.x"$'):
        api_writer.apply("mine", POD)
    with pytest.raises(RefusedError, match="Unknown"):
        api_writer.apply("mine", {**POD, "kind": "Unknown"})


def test_a_deletion_returns_once_the_object_is_gone(store: Store) -> None:
    api_writer.apply("mine", POD)
    api_writer.apply("mine", {**POD, "metadata": {"name": "two"}})
    store.terminating_polls = 3
    api_writer.delete(Chosen(("pod",), ("one", "absent"), "mine"))
    assert store.pods.keys() == {"two"}
    assert store.terminating_polls < 0
    api_writer.delete(Chosen(("pods",), (), "mine"))
    assert store.pods == {}


def test_a_deletion_does_not_wait_for_an_object_that_replaced_the_deleted_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    api_writer.apply("mine", POD)
    first = store.pods["one"]["metadata"]["uid"]
    call = store.answer

    def recreate(method: str, path: str, body: Any) -> tuple[int, Any]:
        found = call(method, path, body)
        if method == "DELETE":
            del store.pods["one"]
            call("POST", path, POD)
        return found

    monkeypatch.setattr(store, "answer", recreate)
    api_writer.delete(Chosen(("pod",), ("one",), "mine"))
    assert store.pods["one"]["metadata"]["uid"] != first


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        ("pod one two", Chosen(("pod",), ("one", "two"), "mine")),
        ("pods --all", Chosen(("pods",), (), "mine")),
        ("miglayout,gpupool s", Chosen(("miglayout", "gpupool"), ("s",), "mine")),
        ("pods,claims --all -n other", Chosen(("pods", "claims"), (), "other")),
    ],
)
def test_arguments_of_kubectl_delete_are_one_choice(arguments: str, chosen: Chosen) -> None:
    assert parse_deletion("mine", tuple(arguments.split())) == chosen


@pytest.mark.parametrize(
    "arguments",
    [
        "-f file",
        "pod",
        "pods one --all",
        "pod one --force",
        "pod/one",
        "gpus.gpu.tessera.dev a",
        "",
    ],
)
def test_other_arguments_are_passed_to_kubectl(arguments: str) -> None:
    assert parse_deletion("mine", tuple(arguments.split())) is None
