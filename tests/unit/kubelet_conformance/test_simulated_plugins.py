"""Device plugins that the simulated kubelet accepts, follows, calls, refuses and forgets."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from device_plugin.proto import (
    deviceplugin_pb2 as dp,
    deviceplugin_pb2_grpc as dp_grpc,
    podresources_pb2 as pr,
    podresources_pb2_grpc as pr_grpc,
    registration_pb2 as reg,
    registration_pb2_grpc as reg_grpc,
)
from kubelet_conformance import kubelet as kubelet_module
from kubelet_conformance.kubelet import SimulatedKubelet, listens
from kubelet_conformance.resource import Refusal, Resource

SOON = 20.0
NAME, OTHER = "example.com/gpu", "example.com/nic"


class Plugin(dp_grpc.DevicePluginServicer, reg_grpc.RegistrationServicer):
    """A device plugin at a socket, whose lists a test sends; it records its calls."""

    def __init__(self, path: Path, **info: Any) -> None:
        self.path = path
        self.info = reg.PluginInfo(**info)
        self.requested: list[Any] = []
        self.problems: list[tuple[bool, str]] = []
        self.notified = threading.Event()
        self._lists: list[dict[str, str] | None] = [{"b": "Healthy", "a": "Healthy"}]
        self._changed = threading.Condition()
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        dp_grpc.add_DevicePluginServicer_to_server(self, self._server)
        reg_grpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def send(self, devices: dict[str, str] | None) -> None:
        """Send another list; None: end all streams."""
        with self._changed:
            self._lists.append(devices)
            self._changed.notify_all()

    def end(self) -> None:
        self.send(None)
        self._server.stop(SOON).wait()
        self.path.unlink(missing_ok=True)

    def GetDevicePluginOptions(self, request: Any, context: Any) -> dp.DevicePluginOptions:
        return dp.DevicePluginOptions(get_preferred_allocation_available=True)

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[dp.ListAndWatchResponse]:
        at = len(self._lists) - 1
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: len(self._lists) > at, 0.2):  # noqa: B023
                    if not context.is_active():
                        return
                    continue
                devices = self._lists[at]
            if devices is None:
                return
            at += 1
            yield dp.ListAndWatchResponse(
                devices=[dp.Device(ID=name, health=health) for name, health in devices.items()]
            )

    def Allocate(self, request: dp.AllocateRequest, context: Any) -> dp.AllocateResponse:
        requested = [list(one.devices_ids) for one in request.container_requests]
        if ["none"] in requested:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such device")
        answers = [dp.ContainerAllocateResponse(envs={"ids": ",".join(ids)}) for ids in requested]
        return dp.AllocateResponse(container_responses=answers)

    def GetPreferredAllocation(self, request: Any, context: Any) -> dp.PreferredAllocationResponse:
        (one,) = request.container_requests
        self.requested.append(
            (list(one.available_deviceIDs), list(one.must_include_deviceIDs), one.allocation_size)
        )
        answer = dp.ContainerPreferredAllocationResponse(deviceIDs=["b", "a"])
        return dp.PreferredAllocationResponse(container_responses=[answer])

    def PreStartContainer(self, request: Any, context: Any) -> dp.PreStartContainerResponse:
        self.requested.append(list(request.devices_ids))
        return dp.PreStartContainerResponse()

    def GetInfo(self, request: Any, context: Any) -> reg.PluginInfo:
        return self.info

    def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        self.problems.append((request.plugin_registered, request.error))
        self.notified.set()
        return reg.RegistrationStatusResponse()


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[SimulatedKubelet]:
    made = SimulatedKubelet(tmp_path / "not" / "yet")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def start(kubelet: SimulatedKubelet) -> Iterator[Callable[..., Plugin]]:
    made: list[Plugin] = []

    def begin(path: Path | None = None, **info: Any) -> Plugin:
        made.append(Plugin(path or kubelet.device_plugins / "p.sock", **info))
        return made[-1]

    yield begin
    for plugin in made:
        plugin.end()


def register(kubelet: SimulatedKubelet, **fields: Any) -> str:
    """Register as plugins do; return the kubelet's refusal, or an empty string."""
    fields = {"version": "v1beta1", "endpoint": "p.sock", "resource_name": NAME, **fields}
    with grpc.insecure_channel(f"unix:{kubelet.device_plugins}/kubelet.sock") as channel:
        try:
            stub = dp_grpc.RegistrationStub(channel)
            stub.Register(dp.RegisterRequest(**fields), timeout=SOON)
        except grpc.RpcError as err:
            return f"{err.code().name}: {err.details()}"
    return ""


def register_and_wait(kubelet: SimulatedKubelet, **fields: Any) -> Resource:
    """Register, and wait for the first list."""
    assert register(kubelet, **fields) == ""
    found = kubelet.resources()[fields.get("resource_name", NAME)]
    assert found.wait(lambda one: bool(one.lists), SOON)
    return found


def test_a_registered_plugin_is_followed_until_its_stream_ends(
    kubelet: SimulatedKubelet, start: Callable[..., Plugin]
) -> None:
    plugin = start()
    options = dp.DevicePluginOptions(get_preferred_allocation_available=True)
    resource = register_and_wait(kubelet, options=options)
    assert (resource.name, resource.endpoint) == (NAME, kubelet.device_plugins / "p.sock")
    assert resource.registered_options == resource.options == options
    assert resource.devices() == {"b": "Healthy", "a": "Healthy"}
    assert resource.healthy() == ["a", "b"]
    assert not resource.ended
    plugin.send({"b": "Healthy", "a": "Unhealthy", "c": "Healthy"})
    assert resource.wait(lambda one: len(one.lists) == 2, SOON)
    assert resource.healthy() == ["b", "c"]
    assert [len(one) for one in resource.lists] == [2, 3]
    assert resource.first_list_again(SOON) == resource.devices()
    assert not resource.wait(lambda one: one.ended, 0.0)
    plugin.send(None)
    assert resource.wait(lambda one: one.ended, SOON)
    assert kubelet.resources() == {}
    assert kubelet.refused == []


def test_the_kubelet_s_calls_arrive_as_they_were_made(
    kubelet: SimulatedKubelet, start: Callable[..., Plugin]
) -> None:
    plugin = start()
    resource = register_and_wait(kubelet)
    assert resource.registered_options is None
    answers = resource.allocate(["a", "b"], ["c"])
    assert [one.envs["ids"] for one in answers] == ["a,b", "c"]
    with pytest.raises(Refusal, match=r"^NOT_FOUND: no such device$"):
        resource.allocate(["none"])
    assert resource.prefer(["a", "b", "c"], ["b"], 2) == ["b", "a"]
    resource.pre_start(["a"])
    assert plugin.requested == [(["a", "b", "c"], ["b"], 2), ["a"]]
    resource.close()
    assert resource.wait(lambda one: one.ended, SOON)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"version": "v1"}, "version 'v1' is not v1beta1"),
        ({"resource_name": "gpu"}, "'gpu' is not the name of an extended resource"),
        ({"endpoint": "/a/p.sock"}, "endpoint '/a/p.sock' is not relative to device-plugins"),
        ({"endpoint": ""}, "endpoint '' is not relative to device-plugins"),
        ({"endpoint": "q.sock"}, "example.com/gpu: GetDevicePluginOptions: UNAVAILABLE"),
    ],
)
def test_an_invalid_registration_is_refused_with_the_reason(
    kubelet: SimulatedKubelet, start: Callable[..., Plugin], fields: dict[str, str], problem: str
) -> None:
    start()
    said = register(kubelet, **fields)
    assert said.startswith(f"INVALID_ARGUMENT: {problem}")
    assert [f"INVALID_ARGUMENT: {one}" for one in kubelet.refused] == [said]
    assert kubelet.resources() == {}


def test_a_second_registration_replaces_only_the_first(
    kubelet: SimulatedKubelet, start: Callable[..., Plugin]
) -> None:
    start()
    first = register_and_wait(kubelet)
    other = register_and_wait(kubelet, resource_name=OTHER)
    again = register_and_wait(kubelet)
    assert first.wait(lambda one: one.ended, SOON)
    assert kubelet.resources() == {NAME: again, OTHER: other}
    kubelet.stop()
    for one in (again, other):
        assert one.wait(lambda one: one.ended, SOON)
    assert kubelet.resources() == {}


def test_a_restart_empties_the_directory_and_serves_again(
    kubelet: SimulatedKubelet, start: Callable[..., Plugin]
) -> None:
    plugin = start()
    register_and_wait(kubelet)
    kept = kubelet.device_plugins / "directory"
    kept.mkdir()
    (kubelet.device_plugins / "file").touch()
    kubelet.stop()
    kubelet.start()
    left = {path.name for path in kubelet.device_plugins.iterdir()}
    assert left == {"directory", "kubelet.sock"}
    assert kubelet.resources() == {}
    plugin.end()
    start()
    assert register_and_wait(kubelet).healthy() == ["a", "b"]


def test_the_pod_resources_api_lists_held_and_healthy_devices(
    kubelet: SimulatedKubelet, start: Callable[..., Plugin]
) -> None:
    plugin = start()
    resource = register_and_wait(kubelet)
    plugin.send({"a": "Healthy", "b": "Unhealthy"})
    assert resource.wait(lambda one: len(one.lists) == 2, SOON)
    with grpc.insecure_channel(f"unix:{kubelet.pod_resources}/kubelet.sock") as channel:
        stub = pr_grpc.PodResourcesListerStub(channel)
        lists: tuple[tuple[Any, Any], ...] = (
            (stub.List, pr.ListPodResourcesRequest()),
            (stub.GetAllocatableResources, pr.AllocatableResourcesRequest()),
        )
        assert list(stub.List(pr.ListPodResourcesRequest()).pod_resources) == []
        kubelet.held = {NAME: ["a", "b"], OTHER: ["n"]}
        (pod,) = stub.List(pr.ListPodResourcesRequest()).pod_resources
        (container,) = pod.containers
        held = [(one.resource_name, list(one.device_ids)) for one in container.devices]
        assert held == [(NAME, ["a"]), (NAME, ["b"]), (OTHER, ["n"])]
        there = stub.GetAllocatableResources(pr.AllocatableResourcesRequest()).devices
        assert [(one.resource_name, list(one.device_ids)) for one in there] == [(NAME, ["a"])]
        kubelet.refuse_lists = True
        for call, request in lists:
            with pytest.raises(grpc.RpcError) as refused:
                call(request, timeout=SOON)
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


FOUND = {"type": "DevicePlugin", "name": NAME, "supported_versions": ["v1", "v1beta1"]}


@pytest.mark.parametrize("endpoint", ["", "own", "/var/lib/kubelet/plugins/p.sock"])
def test_a_plugin_is_found_by_its_socket_wherever_its_service_is(
    kubelet: SimulatedKubelet, start: Callable[..., Plugin], endpoint: str
) -> None:
    path = kubelet.registry / "sub" / "p-reg.sock"
    path.parent.mkdir()
    if endpoint == "own":
        endpoint = str(path)
    elif endpoint:
        start(kubelet.plugins / "p.sock")
    plugin = start(path, **FOUND, endpoint=endpoint)
    assert kubelet.wait(lambda it: NAME in it.resources(), SOON)
    assert plugin.notified.wait(SOON)
    assert plugin.problems == [(True, "")]
    resource = kubelet.resources()[NAME]
    assert resource.registered_options is None
    assert resource.wait(lambda one: one.healthy() == ["a", "b"], SOON)
    path.unlink()
    assert kubelet.wait(lambda it: not it.resources(), SOON)
    assert resource.wait(lambda one: one.ended, SOON)


@pytest.mark.parametrize(
    ("info", "problem"),
    [
        ({"supported_versions": ["v1"]}, "example.com/gpu: v1beta1 is not among ['v1']"),
        ({"name": "gpu"}, "'gpu' is not the name of an extended resource"),
    ],
)
def test_a_socket_s_plugin_that_no_kubelet_takes_is_refused(
    kubelet: SimulatedKubelet, start: Callable[..., Plugin], info: dict[str, Any], problem: str
) -> None:
    plugin = start(kubelet.registry / "p-reg.sock", **{**FOUND, **info})
    assert plugin.notified.wait(SOON)
    assert plugin.problems == [(False, problem)]
    assert kubelet.refused == [problem]
    assert kubelet.resources() == {}


def test_a_driver_s_endpoint_is_translated_to_the_simulated_directory(
    kubelet: SimulatedKubelet, start: Callable[..., Plugin]
) -> None:
    for name, endpoint in (("a", "/var/lib/kubelet/plugins/a/d.sock"), ("b", "/run/b.sock")):
        path = kubelet.registry / f"{name}.sock"
        start(path, type="DRAPlugin", name=name, endpoint=endpoint)
    assert kubelet.wait(lambda it: len(it.drivers()) == 2, SOON)
    found = {name: one.endpoint for name, one in kubelet.drivers().items()}
    assert found == {"a": kubelet.plugins / "a" / "d.sock", "b": Path("/run/b.sock")}


def test_files_that_are_not_plugin_sockets_are_not_queried(
    kubelet: SimulatedKubelet,
    start: Callable[..., Plugin],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files and sockets that are hidden or have no listener are ignored; silence is reported."""
    monkeypatch.setattr(kubelet_module, "_INFO_S", 0.2)
    start(kubelet.registry / ".hidden.sock", **FOUND)
    (kubelet.registry / "file.sock").touch()
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as mute:
        dead.bind(str(kubelet.registry / "dead.sock"))
        assert not listens(kubelet.registry / "dead.sock")
        mute.bind(str(kubelet.registry / "mute.sock"))
        mute.listen()
        assert listens(kubelet.registry / "mute.sock")
        assert kubelet.wait(lambda it: bool(it.refused), SOON)
    assert [one.partition(":")[0] for one in kubelet.refused] == ["mute.sock"]
    start(kubelet.registry / "p.sock", **FOUND)
    assert kubelet.wait(lambda it: NAME in it.resources(), SOON), "it looks on"


def test_wait_returns_whether_the_condition_became_true(kubelet: SimulatedKubelet) -> None:
    assert kubelet.wait(lambda _: True, 0.0)
    assert not kubelet.wait(lambda _: False, 0.01)
