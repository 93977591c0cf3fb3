"""The simulated kubelet and API server: the calls that they accept, forget and answer."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from device_plugin.proto import registration_pb2 as reg, registration_pb2_grpc as reg_grpc
from kubelet_conformance import api_server
from kubelet_conformance.api_server import ApiServer, _merge
from kubelet_conformance.kubelet import SimulatedKubelet, is_extended_resource

SOON = 20.0


class Registration(reg_grpc.RegistrationServicer):
    """A plugin's socket in plugins_registry."""

    def __init__(self, path: Path, kind: str, name: str) -> None:
        self.info = reg.PluginInfo(
            type=kind, name=name, endpoint="/plugins/dra.sock", supported_versions=["v1.DRAPlugin"]
        )
        self.problems: list[str] = []
        self.notified = threading.Event()
        self._server = grpc.server(futures.ThreadPoolExecutor(1))
        reg_grpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()
        self._path = path

    def GetInfo(self, request: Any, context: Any) -> reg.PluginInfo:
        return self.info

    def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        self.problems.append(request.error)
        self.notified.set()
        return reg.RegistrationStatusResponse()

    def end(self) -> None:
        self._server.stop(SOON).wait()  # after the answer to the last call is sent
        self._path.unlink(missing_ok=True)


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[SimulatedKubelet]:
    made = SimulatedKubelet(tmp_path)
    made.start()
    yield made
    made.stop()


def test_a_driver_is_known_while_its_socket_is_there(kubelet: SimulatedKubelet) -> None:
    path = kubelet.registry / "a.sock"
    other = Registration(kubelet.registry / "b.sock", "DRAPlugin", "b.example.com")
    for _ in range(2):  # the second time after the socket was removed
        plugin = Registration(path, "DRAPlugin", "a.example.com")
        assert kubelet.wait(lambda it: len(it.drivers()) == 2, SOON)
        found = kubelet.drivers()["a.example.com"]
        assert (found.name, found.versions) == ("a.example.com", ("v1.DRAPlugin",))
        assert plugin.notified.wait(SOON)
        plugin.end()
        assert kubelet.wait(lambda it: it.drivers().keys() == {"b.example.com"}, SOON)
        assert plugin.problems == [""]
    assert other.notified.wait(SOON)
    other.end()
    assert kubelet.wait(lambda it: not it.drivers(), SOON)
    assert kubelet.refused == []


def test_a_plugin_of_another_type_is_refused_with_the_reason(kubelet: SimulatedKubelet) -> None:
    plugin = Registration(kubelet.registry / "c.sock", "CSIPlugin", "c.example.com")
    assert kubelet.wait(lambda it: bool(it.refused), SOON)
    assert kubelet.refused == ["no handler registered for plugin type: CSIPlugin"]
    assert kubelet.drivers() == {}
    assert plugin.notified.wait(SOON)
    assert plugin.problems == kubelet.refused
    plugin.end()


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("example.com/gpu", True),
        ("a/b", True),
        ("gpu", False),
        ("kubernetes.io/gpu", False),
        ("node.kubernetes.io/gpu", False),
        ("notkubernetes.io/gpu", True),
        ("requests.example.com/gpu", False),
        ("example.com/", False),
        ("/gpu", False),
        ("Example.com/gpu", False),
        (f"example.com/{'g' * 63}", True),
        (f"example.com/{'g' * 64}", False),
        (f"{'e' * 253}/g", True),
        (f"{'e' * 254}/g", False),
    ],
)
def test_names_of_extended_resources(name: str, is_one: bool) -> None:
    assert is_extended_resource(name) is is_one


def call(api: ApiServer, method: str, path: str, body: Any = None, kind: str = "") -> Any:
    """Send a request; return the status and the body of the answer."""
    request = urllib.request.Request(
        f"{api.url}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": kind or "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=SOON) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as err:
        with err:
            return err.code, json.load(err)


CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"


def test_an_object_is_made_replaced_merged_and_deleted() -> None:
    with ApiServer() as api:
        status, made = call(api, "POST", CLAIMS, {"metadata": {"name": "a"}, "spec": {"x": 1}})
        assert (status, made["metadata"]["generation"], made["metadata"]["namespace"]) == (
            201,
            1,
            "ns",
        )
        one = f"{CLAIMS}/a"
        status, put = call(api, "PUT", one, {"metadata": {"name": "a"}, "spec": {"x": 2}})
        assert (status, put["spec"], put["metadata"]["generation"]) == (200, {"x": 2}, 2)
        assert put["metadata"]["uid"] == made["metadata"]["uid"]
        # A write of the status changes neither the spec nor the generation, whatever its body has.
        status, put = call(api, "PUT", f"{one}/status", {"spec": {"x": 9}, "status": {"s": 1}})
        assert (status, put["spec"], put["status"]) == (200, {"x": 2}, {"s": 1})
        assert put["metadata"]["generation"] == 2
        status, merged = call(api, "PATCH", one, {"spec": {"y": 3, "x": None}})
        assert (status, merged["spec"], merged["status"]) == (200, {"y": 3}, {"s": 1})
        assert call(api, "GET", one) == (200, merged)
        versions = [int(it["metadata"]["resourceVersion"]) for it in (made, put, merged)]
        assert versions == sorted(set(versions))
        assert call(api, "DELETE", one)[0] == 200
        assert call(api, "GET", one)[0] == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("part", ["", "/status"])
def test_a_missing_object_is_not_created_by_other_requests(method: str, part: str) -> None:
    body = None if method in ("GET", "DELETE") else {"metadata": {"name": "a"}, "status": {}}
    with ApiServer() as api:
        assert call(api, method, f"{CLAIMS}/a{part}", body)[0] == 404
        assert call(api, "GET", CLAIMS)[1]["items"] == []


def test_apply_makes_an_object_but_no_status_of_none() -> None:
    apply = "application/apply-patch+yaml"
    with ApiServer() as api:
        assert call(api, "PATCH", f"{CLAIMS}/a/status", {"status": {}}, apply)[0] == 404
        status, made = call(api, "PATCH", f"{CLAIMS}/a", {"spec": {"x": 1}}, apply)
        assert (status, made["metadata"]["name"], made["spec"]) == (200, "a", {"x": 1})


def test_lists_are_of_one_namespace_or_all_and_of_selected_fields() -> None:
    with ApiServer() as api:
        for namespace, name, driver in (("ns", "a", "d"), ("ns", "b", "e"), ("other", "a", "d")):
            api.put(
                "resource.k8s.io/v1/resourceclaims",
                {"metadata": {"name": name}, "spec": {"driver": driver}},
                namespace,
            )

        def names(path: str) -> list[tuple[str, str]]:
            _, found = call(api, "GET", path)
            assert found["kind"] == "ResourceClaimList"
            return [(o["metadata"]["namespace"], o["metadata"]["name"]) for o in found["items"]]

        everywhere = "/apis/resource.k8s.io/v1/resourceclaims"
        assert names(CLAIMS) == [("ns", "a"), ("ns", "b")]
        assert names(everywhere) == [("ns", "a"), ("ns", "b"), ("other", "a")]
        assert names(f"{everywhere}?fieldSelector=spec.driver=d") == [("ns", "a"), ("other", "a")]
        assert names(f"{CLAIMS}?fieldSelector=spec.driver%3D%3De") == [("ns", "b")]
        both = "fieldSelector=spec.driver=d,metadata.name=b"
        assert names(f"{CLAIMS}?{both}") == []


def test_a_watch_yields_each_later_change_of_its_kind_and_namespace_once() -> None:
    kind = "resource.k8s.io/v1/resourceclaims"
    with ApiServer() as api:
        api.put(kind, {"metadata": {"name": "before"}}, "ns")
        since = api.version()
        api.put(kind, {"metadata": {"name": "a"}}, "ns")
        api.put(kind, {"metadata": {"name": "a"}}, "other")
        api.put("v1/pods", {"metadata": {"name": "a"}}, "ns")
        api.put(kind, {"metadata": {"name": "a"}, "spec": {"x": 1}}, "ns")
        api.delete(kind, "a", "ns")
        assert api.delete(kind, "a", "ns") is None
        watch = api.watch(kind, "ns", since)
        seen = [next(watch) for _ in range(3)]
        assert [one["type"] for one in seen] == ["ADDED", "MODIFIED", "DELETED"]
        assert {one["object"]["metadata"]["name"] for one in seen} == {"a"}
        api.put(kind, {"metadata": {"name": "late"}}, "ns")
        assert next(watch)["object"]["metadata"]["name"] == "late"


def test_the_server_sets_names_dates_and_versions() -> None:
    kind = "resource.k8s.io/v1/resourceslices"
    with ApiServer() as api:
        assert api.version() == 1
        first = api.put(kind, {"metadata": {"generateName": "gpu-"}})["metadata"]
        second = api.put(kind, {"metadata": {"generateName": "gpu-"}})["metadata"]
        bare = api.put(kind, {})["metadata"]
        assert first["name"] != second["name"]
        assert all(len(one["name"]) == len("gpu-") + 5 for one in (first, second))
        assert bare["name"].startswith("object-")
        assert "namespace" not in bare
        assert bare["creationTimestamp"]
        assert [int(one["resourceVersion"]) for one in (first, second, bare)] == [2, 3, 4]
        again = api.put(
            kind, {"metadata": {"name": first["name"], "uid": "mine", "creationTimestamp": "t"}}
        )["metadata"]
        assert (again["uid"], again["creationTimestamp"]) == (first["uid"], "t")
        assert (first["generation"], again["generation"]) == (1, 1)
        mine = api.put(kind, {"metadata": {"name": "x", "uid": "mine"}})["metadata"]
        assert mine["uid"] == "mine"
        gone = api.delete(kind, "x")
        assert gone is not None
        assert int(gone["metadata"]["resourceVersion"]) == api.version() == 7
        assert api.get(kind, "x") is None
        assert api.put(kind, {"metadata": {"name": "x"}})["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("path", "kind", "version"),
    [
        ("/api/v1/nodes", "NodeList", "v1"),
        ("/api/v1/namespaces/ns/pods", "PodList", "v1"),
        ("/apis/resource.k8s.io/v1/resourceslices", "ResourceSliceList", "resource.k8s.io/v1"),
        ("/apis/resource.k8s.io/v1/deviceclasses", "DeviceClassList", "resource.k8s.io/v1"),
        ("/apis/example.com/v1/things", "List", "example.com/v1"),
    ],
)
def test_a_list_has_the_kind_that_go_clients_take(path: str, kind: str, version: str) -> None:
    with ApiServer() as api:
        _, found = call(api, "GET", path)
        assert found == {
            "kind": kind,
            "apiVersion": version,
            "metadata": {"resourceVersion": "1"},
            "items": [],
        }


def test_objects_of_the_core_group_and_of_no_namespace_have_paths() -> None:
    with ApiServer() as api:
        api.put("v1/nodes", {"metadata": {"name": "n"}})
        api.put("v1/namespaces", {"metadata": {"name": "ns"}})
        for path in ("/api/v1/nodes/n", "/api/v1/namespaces/ns"):
            status, found = call(api, "GET", path)
            assert (status, found["metadata"]["generation"]) == (200, 1)
        status, found = call(api, "GET", "/api/v1/nodes/other")
        assert (status, found["code"], found["reason"]) == (404, 404, "NotFound")
        assert "/api/v1/nodes/other not found" in found["message"]


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": {"b": 1}}, {"a": {"b": None}}, {"a": {}}),
        ({"a": 1}, {"b": None}, {"a": 1}),
        ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": "text"}, {"a": "text"}),
    ],
)
def test_merging_is_as_rfc_7386_has_it(old: Any, new: Any, merged: Any) -> None:
    before = json.dumps(old)
    assert _merge(old, new) == merged
    assert json.dumps(old) == before, "what was there is not changed in place"


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("application/vnd.kubernetes.protobuf", b"{}", "must begin with"),
        ("application/vnd.kubernetes.protobuf", b"k8s\0\x80", "in the middle"),
    ],
)
def test_a_body_that_cannot_be_read_is_answered(kind: str, body: bytes, message: str) -> None:
    with ApiServer() as api:
        request = urllib.request.Request(
            f"{api.url}{CLAIMS}", method="POST", data=body, headers={"Content-Type": kind}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=SOON)
        with refused.value as answer:
            found = json.load(answer)
        assert (answer.code, found["code"], found["reason"]) == (400, 400, "BadRequest")
        assert (found["kind"], found["status"]) == ("Status", "Failure")
        assert message in found["message"]
        assert api.all("resource.k8s.io/v1/resourceclaims") == []


def test_a_body_that_is_no_object_is_an_empty_one_and_yaml_is_read() -> None:
    with ApiServer() as api:
        for body, name in ((b"[1]", "object-"), (b"", "object-"), (b"metadata:\n  name: y\n", "y")):
            request = urllib.request.Request(f"{api.url}{CLAIMS}", method="POST", data=body)
            with urllib.request.urlopen(request, timeout=SOON) as reply:
                assert json.load(reply)["metadata"]["name"].startswith(name)


def lines(api: ApiServer, query: str, count: int) -> list[tuple[str, str]]:
    """Return the first changes of a watch over HTTP: type and name."""
    found = []
    with urllib.request.urlopen(f"{api.url}{CLAIMS}?watch={query}", timeout=SOON) as reply:
        for _ in range(count):
            event = json.loads(reply.readline())
            found.append((event["type"], event["object"]["metadata"]["name"]))
    return found


def test_a_watch_over_http_begins_after_its_version_and_selects() -> None:
    kind = "resource.k8s.io/v1/resourceclaims"
    with ApiServer() as api:
        for name, driver in (("a", "d"), ("b", "e"), ("c", "d")):
            api.put(kind, {"metadata": {"name": name}, "spec": {"driver": driver}}, "ns")
        assert lines(api, "1&resourceVersion=2", 2) == [("ADDED", "b"), ("ADDED", "c")]
        chosen = "true&resourceVersion=1&fieldSelector=spec.driver%3Dd"
        assert lines(api, chosen, 2) == [("ADDED", "a"), ("ADDED", "c")]
        status, found = call(api, "GET", f"{CLAIMS}?watch=true&sendInitialEvents=true")
        assert (status, found["code"], found["reason"]) == (422, 422, "Invalid")
        assert call(api, "GET", f"{CLAIMS}?watch=false")[1]["kind"] == "ResourceClaimList"


def test_a_watch_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "_WATCH_S", 0.01)
    with ApiServer() as api:
        api.put("v1/pods", {"metadata": {"name": "a"}}, "ns")
        assert list(api.watch("v1/pods", "", api.version())) == []
        assert [one["type"] for one in api.watch("v1/pods", "", 0)] == ["ADDED"]
        with urllib.request.urlopen(f"{api.url}/api/v1/pods?watch=1", timeout=SOON) as reply:
            assert reply.read() == b"", "of changes from now on"


def test_a_configuration_for_clients_leads_to_the_server() -> None:
    with ApiServer() as api:
        found = api.kubeconfig()
        (context,) = found["contexts"]
        assert context["name"] == found["current-context"]
        assert found["clusters"][0]["cluster"]["server"] == api.url
        assert context["context"]["cluster"] == found["clusters"][0]["name"]
        assert context["context"]["user"] == found["users"][0]["name"]


def test_nothing_of_a_server_is_left_when_it_has_ended() -> None:
    before = set(threading.enumerate())
    with ApiServer() as api:
        call(api, "GET", "/api/v1/nodes")
        made = set(threading.enumerate()) - before
    assert made
    for thread in made:
        thread.join(SOON)
        assert not thread.is_alive()
    with pytest.raises(OSError, match="refused"):
        call(api, "GET", "/api/v1/nodes")
