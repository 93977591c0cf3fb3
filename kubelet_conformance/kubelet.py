"""A simulated kubelet without pods: its directories, registrations, and device manager.

As far as a plugin can observe, it acts as kubelet 1.36 does (pkg/kubelet/cm/devicemanager and
pkg/kubelet/pluginmanager). At its start it empties ``device-plugins``, so that plugins notice
the start. It connects at once to a plugin that registers. It queries each socket in
``plugins_registry`` for the plugin's name.
"""

import os
import re
import socket
import stat
import threading
import time
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path

import grpc

from device_plugin.proto import (
    deviceplugin_pb2 as dp,
    deviceplugin_pb2_grpc as dp_grpc,
    podresources_pb2 as pr,
    podresources_pb2_grpc as pr_grpc,
    registration_pb2 as reg,
    registration_pb2_grpc as reg_grpc,
)
from kubelet_conformance.process import KUBELET
from kubelet_conformance.resource import Refusal, Resource

VERSION = "v1beta1"
DRA = "DRAPlugin"
_LOOK_S = 0.1  # the kubelet uses inotify; polling ten times a second is equivalent for a test
_INFO_S = 10.0
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
MAX_DEVICE_ID = 63


@dataclass(frozen=True, slots=True)
class DraDriver:
    """A DRA driver that the kubelet found in the plugin registry."""

    name: str
    endpoint: Path
    versions: tuple[str, ...]


class SimulatedKubelet:
    """A simulated kubelet: a context manager, which starts and stops it. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.device_plugins = directory / "device-plugins"
        self.registry = directory / "plugins_registry"
        self.plugins = directory / "plugins"
        self.pod_resources = directory / "pod-resources"
        for each in (self.device_plugins, self.registry, self.plugins, self.pod_resources):
            each.mkdir(parents=True, exist_ok=True)
        self.held: dict[str, list[str]] = {}
        """The device ids that the pod resources API lists for its one pod, by resource."""
        self.refuse_lists = False
        self.refused: list[str] = []
        """The registrations that the kubelet refused, each with the reason."""
        self._changed = threading.Condition()
        self._resources: dict[str, Resource] = {}
        self._drivers: dict[str, DraDriver] = {}
        self._known: dict[tuple[str, int], str] = {}  # sockets of the registry, by path and inode
        self._servers: list[grpc.Server] = []
        self._stopping = threading.Event()
        self._looker: threading.Thread | None = None

    def start(self) -> None:
        """Start with no registered plugins, as a kubelet does when it is restarted."""
        for entry in self.device_plugins.iterdir():
            if not stat.S_ISDIR(entry.lstat().st_mode):
                entry.unlink(missing_ok=True)
        self._stopping = threading.Event()
        self._serve(
            self.device_plugins / "kubelet.sock", dp_grpc.add_RegistrationServicer_to_server
        )
        self._serve(
            self.pod_resources / "kubelet.sock", pr_grpc.add_PodResourcesListerServicer_to_server
        )
        self._looker = threading.Thread(target=self._look, name="registry", daemon=True)
        self._looker.start()

    def stop(self) -> None:
        """Close all connections to plugins, and forget the plugins."""
        self._stopping.set()
        if self._looker is not None:
            self._looker.join()
        for server in self._servers:
            server.stop(0).wait()
        self._servers = []
        with self._changed:
            for resource in self._resources.values():
                resource.close()
            self._resources, self._drivers, self._known = {}, {}, {}
            self._changed.notify_all()

    def resources(self) -> dict[str, Resource]:
        """Return the registered resources whose plugin still sends lists."""
        with self._changed:
            return {
                name: resource for name, resource in self._resources.items() if not resource.ended
            }

    def drivers(self) -> dict[str, DraDriver]:
        """Return the DRA drivers whose sockets exist."""
        with self._changed:
            return dict(self._drivers)

    def wait(self, condition: Callable[["SimulatedKubelet"], bool], within_s: float) -> bool:
        """Wait for a condition, at most ``within_s`` seconds; return whether it became true."""
        deadline = time.monotonic() + within_s
        while not condition(self):
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return False
            with self._changed:
                self._changed.wait(min(remaining_s, _LOOK_S))
        return True

    def Register(  # noqa: N802 (kubelet API)
        self, request: dp.RegisterRequest, context: grpc.ServicerContext
    ) -> dp.Empty:
        """Check a registration as a kubelet does, and connect to the plugin before answering."""
        problem = ""
        if request.version != VERSION:
            problem = f"version {request.version!r} is not {VERSION}"
        elif not is_extended_resource(request.resource_name):
            problem = f"{request.resource_name!r} is not the name of an extended resource"
        elif not request.endpoint or request.endpoint.startswith("/"):
            problem = f"endpoint {request.endpoint!r} is not relative to device-plugins"
        else:
            endpoint = Path(os.path.normpath(self.device_plugins / request.endpoint))
            options = request.options if request.HasField("options") else None
            problem = self._connect(request.resource_name, endpoint, options)
        if problem:
            self.refused.append(problem)
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        return dp.Empty()

    def List(  # noqa: N802
        self, request: pr.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> pr.ListPodResourcesResponse:
        """Return one pod, to which the devices in ``held`` are allocated."""
        if self.refuse_lists:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        response = pr.ListPodResourcesResponse()
        if self.held:
            pod = response.pod_resources.add(namespace="default", name="conformance")
            container = pod.containers.add(name="main")
            for name, ids in self.held.items():
                for each in ids:  # one entry for each device, as the kubelet does
                    container.devices.add(resource_name=name, device_ids=[each])
        return response

    def GetAllocatableResources(  # noqa: N802
        self, request: pr.AllocatableResourcesRequest, context: grpc.ServicerContext
    ) -> pr.AllocatableResourcesResponse:
        """Return the healthy devices of all resources."""
        if self.refuse_lists:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        response = pr.AllocatableResourcesResponse()
        for name, resource in self.resources().items():
            for each in resource.healthy():
                response.devices.add(resource_name=name, device_ids=[each])
        return response

    def _serve(self, path: Path, add: Callable[["SimulatedKubelet", grpc.Server], None]) -> None:
        path.unlink(missing_ok=True)
        server = grpc.server(futures.ThreadPoolExecutor(4))
        add(self, server)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        self._servers.append(server)

    def _connect(self, name: str, endpoint: Path, options: dp.DevicePluginOptions | None) -> str:
        try:
            resource = Resource(name, endpoint, options)
        except Refusal as err:
            return f"{name}: GetDevicePluginOptions: {err}"
        with self._changed:
            old = self._resources.get(name)
            self._resources[name] = resource
            self._changed.notify_all()
        if old is not None:
            old.close()
        return ""

    def _look(self) -> None:
        """Handle sockets that are new in the registry, and sockets that were removed."""
        while not self._stopping.wait(_LOOK_S):
            sockets = {}
            for path in self.registry.rglob("*"):
                try:
                    info = path.lstat()
                except OSError:
                    continue
                if stat.S_ISSOCK(info.st_mode) and not path.name.startswith("."):
                    sockets[str(path), info.st_ino] = path
            for key in self._known.keys() - sockets.keys():
                self._forget(self._known.pop(key))
            for key in sockets.keys() - self._known.keys():
                if listens(sockets[key]):
                    self._known[key] = self._ask(sockets[key])

    def _forget(self, name: str) -> None:
        with self._changed:
            self._drivers.pop(name, None)
            gone = self._resources.pop(name, None)
            self._changed.notify_all()
        if gone is not None:
            gone.close()

    def _ask(self, path: Path) -> str:
        """Query a plugin's name at its socket in the registry."""
        name = ""
        with grpc.insecure_channel(f"unix:{path}") as channel:
            stub = reg_grpc.RegistrationStub(channel)
            try:
                info = stub.GetInfo(reg.InfoRequest(), timeout=_INFO_S)
                name = str(info.name)
                problem = self._take(info, path)
                if problem:
                    self.refused.append(problem)
                status = reg.RegistrationStatus(plugin_registered=not problem, error=problem)
                stub.NotifyRegistrationStatus(status, timeout=_INFO_S)
            except grpc.RpcError as err:
                self.refused.append(f"{path.name}: {err}")
        return name

    def _here(self, endpoint: Path) -> Path:
        """Translate a path below /var/lib/kubelet to the simulated kubelet's directory."""
        if endpoint.is_relative_to(KUBELET):
            return self.directory / endpoint.relative_to(KUBELET)
        return endpoint

    def _take(self, info: reg.PluginInfo, path: Path) -> str:
        endpoint = self._here(Path(info.endpoint)) if info.endpoint else path
        if info.type == "DevicePlugin":
            if VERSION not in info.supported_versions:
                return f"{info.name}: {VERSION} is not among {list(info.supported_versions)}"
            if not is_extended_resource(info.name):
                return f"{info.name!r} is not the name of an extended resource"
            return self._connect(info.name, endpoint, None)
        if info.type != DRA:
            return f"no handler registered for plugin type: {info.type}"
        with self._changed:
            driver = DraDriver(info.name, endpoint, tuple(info.supported_versions))
            self._drivers[info.name] = driver
            self._changed.notify_all()
        return ""


def is_extended_resource(name: str) -> bool:
    """Return whether the kubelet accepts a resource name (IsExtendedResourceName of Kubernetes)."""
    domain, slash, base_name = name.partition("/")
    if not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        return False
    named = _DOMAIN.fullmatch(domain) and len(domain) <= 253 and _NAME.fullmatch(base_name)
    return bool(named) and not name.startswith("requests.")


def listens(path: Path) -> bool:
    """Return whether a process accepts connections at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_INFO_S)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
