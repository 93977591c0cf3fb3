"""Serves a resource through the kubelet's plugin registry.

One socket carries both the registration service and the device plugin service. The socket's name
contains the agent pod's name. So an old and a new agent can overlap during an update, and a
stopping server never deletes its successor's socket.
"""

import logging
import os
import re
import socket
from collections.abc import Callable
from concurrent import futures
from pathlib import Path

import grpc

from device_plugin.dp.service import DevicePlugin
from device_plugin.metrics import METRICS
from device_plugin.proto import (
    deviceplugin_pb2_grpc,
    registration_pb2 as pb,
    registration_pb2_grpc as pb_grpc,
)

_THREADS = 8  # each open ListAndWatch stream blocks one thread
_MAX_PATH = 107
UNDER_WAY_S = 3.0  # for calls in progress: the kubelet fails the pod of an aborted one
_log = logging.getLogger(__name__)


class Registration:
    """Reports to the kubelet which resource this socket serves."""

    def __init__(self, resource: str, endpoint: Path) -> None:
        self._resource = resource
        self._endpoint = endpoint

    def GetInfo(  # noqa: N802 (kubelet API)
        self, request: pb.InfoRequest, context: grpc.ServicerContext
    ) -> pb.PluginInfo:
        return pb.PluginInfo(
            type="DevicePlugin",
            name=self._resource,
            endpoint=str(self._endpoint),
            supported_versions=["v1beta1"],
        )

    def NotifyRegistrationStatus(  # noqa: N802
        self, request: pb.RegistrationStatus, context: grpc.ServicerContext
    ) -> pb.RegistrationStatusResponse:
        METRICS.count_registration(accepted=request.plugin_registered)
        if request.plugin_registered:
            _log.info("%s: registered with the kubelet", self._resource)
        else:
            _log.error("%s: the kubelet refused: %s", self._resource, request.error)
        return pb.RegistrationStatusResponse()


class ResourceServer:
    """A running server for one resource, with its own socket."""

    def __init__(self, plugin: DevicePlugin, registry_dir: Path, pod_name: str) -> None:
        self.plugin = plugin
        self._path = socket_path(registry_dir, plugin.resource, pod_name)
        self._server = grpc.server(futures.ThreadPoolExecutor(_THREADS))

    def start(self) -> None:
        """Start to serve the resource; the kubelet connects within about a second.

        Raises:
            OSError: the socket cannot be bound.
        """
        registration = Registration(self.plugin.resource, self._path)
        pb_grpc.add_RegistrationServicer_to_server(registration, self._server)
        deviceplugin_pb2_grpc.add_DevicePluginServicer_to_server(self.plugin, self._server)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        try:
            self._server.add_insecure_port(f"unix:{self._path}")
        except RuntimeError as err:
            raise OSError(f"{self._path}: {err}") from err
        self._server.start()
        os.chmod(self._path, 0o600)

    def begin_stop(self) -> Callable[[], None]:
        """Begin to stop the server; return a function that waits until calls in progress have
        ended.

        The returned function also deletes the server's socket.
        """
        self.plugin.stop()
        stopped = self._server.stop(UNDER_WAY_S)

        def wait() -> None:
            stopped.wait(UNDER_WAY_S + 2)
            self._path.unlink(missing_ok=True)

        return wait


def socket_path(registry_dir: Path, resource: str, pod_name: str) -> Path:
    """Return the path of a resource's socket, which contains the end of the pod's name."""
    domain, _, name = resource.partition("/")
    vendor = domain.split(".")[-2] if domain.count(".") else domain
    suffix = re.sub(r"[^a-zA-Z0-9-]", "-", pod_name)[-12:]
    path = registry_dir / f"{vendor}-{name}-{suffix}.sock"
    if len(str(path)) > _MAX_PATH:
        raise OSError(f"socket path too long: {path}")
    return path


def remove_stale(registry_dir: Path, resource: str) -> None:
    """Delete the sockets that killed agents have left behind.

    A ``*`` in ``resource`` matches any text. This must be called before any resource is served.
    If a socket that once announced a resource is removed, the kubelet drops the resource, even
    if a newer socket serves it by then.
    """
    pattern = socket_path(registry_dir, resource, "").name.removesuffix(".sock")
    remove_dead(registry_dir, f"{pattern}*.sock")


def remove_dead(directory: Path, pattern: str) -> None:
    """Delete the sockets in a directory that match the pattern and on which no process listens."""
    for path in directory.glob(pattern):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
                _log.info("%s: removed, no process serves it", path.name)
            except OSError as err:
                _log.warning("%s: %s", path.name, err)
