"""Serves a resource on a socket of its own, and registers it at the kubelet's socket.

The kubelet connects to the socket while it answers Register, so a resource is served a moment
after its plugin starts. The plugin registry directory, the other way to register, is looked at
only once a second, and a new socket of an old name there makes the kubelet drop the resource
first (ADR 222). The socket's name contains the agent pod's name, so an old and a new agent can
overlap during an update.
"""

import logging
import os
import re
import socket
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Final

import grpc

from device_plugin.dp.service import OPTIONS, DevicePlugin
from device_plugin.errors import RegistrationError
from device_plugin.metrics import METRICS
from device_plugin.proto import (
    deviceplugin_pb2 as pb,
    deviceplugin_pb2_grpc as pb_grpc,
)

VERSION: Final = "v1beta1"
_THREADS = 8  # each open ListAndWatch stream blocks one thread
_MAX_PATH = 107
_REGISTER_S = 10.0
UNDER_WAY_S = 3.0  # for calls in progress: the kubelet fails the pod of an aborted one
_log = logging.getLogger(__name__)


class ResourceServer:
    """A running server for one resource, with its own socket."""

    def __init__(self, plugin: DevicePlugin, directory: Path, pod_name: str) -> None:
        self.plugin = plugin
        self.path = socket_path(directory, plugin.resource, pod_name)
        self._server = grpc.server(futures.ThreadPoolExecutor(_THREADS))

    def start(self) -> None:
        """Start to serve the resource.

        Raises:
            OSError: the socket cannot be bound.
        """
        pb_grpc.add_DevicePluginServicer_to_server(self.plugin, self._server)
        self.path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        try:
            self._server.add_insecure_port(f"unix:{self.path}")
        except RuntimeError as err:
            raise OSError(f"{self.path}: {err}") from err
        self._server.start()
        os.chmod(self.path, 0o600)

    def begin_stop(self) -> Callable[[], None]:
        """Begin to stop the server; return a function that waits until calls in progress have
        ended.

        The returned function also deletes the server's socket.
        """
        self.plugin.stop()
        stopped = self._server.stop(UNDER_WAY_S)

        def wait() -> None:
            stopped.wait(UNDER_WAY_S + 2)
            self.path.unlink(missing_ok=True)

        return wait


def register(kubelet_socket: Path, resource: str, endpoint: Path) -> None:
    """Register the resource that is served at ``endpoint``; the kubelet then connects to it.

    Raises:
        RegistrationError: the kubelet does not answer, or refuses the resource.
    """
    # The kubelet joins the endpoint to the directory of its own socket (``server.Register``).
    relative = os.path.relpath(endpoint, kubelet_socket.parent)
    request = pb.RegisterRequest(
        version=VERSION, endpoint=relative, resource_name=resource, options=OPTIONS
    )
    try:
        with grpc.insecure_channel(f"unix:{kubelet_socket}") as channel:
            pb_grpc.RegistrationStub(channel).Register(request, timeout=_REGISTER_S)
    except grpc.RpcError as err:
        METRICS.count_registration(accepted=False)
        raise RegistrationError(f"{resource}: the kubelet did not register it: {err}") from err
    METRICS.count_registration(accepted=True)
    _log.info("%s: registered with the kubelet", resource)


def is_listening(path: Path) -> bool:
    """Return whether a process listens on a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


def socket_path(directory: Path, resource: str, pod_name: str) -> Path:
    """Return the path of a resource's socket, which contains the end of the pod's name."""
    domain, _, name = resource.partition("/")
    vendor = domain.split(".")[-2] if domain.count(".") else domain
    suffix = re.sub(r"[^a-zA-Z0-9-]", "-", pod_name)[-12:]
    path = directory / f"{vendor}-{name}-{suffix}.sock"
    if len(str(path)) > _MAX_PATH:
        raise OSError(f"socket path too long: {path}")
    return path


def remove_stale(directory: Path, resource: str) -> None:
    """Delete the sockets that killed agents have left behind.

    A ``*`` in ``resource`` matches any text.
    """
    pattern = socket_path(directory, resource, "").name.removesuffix(".sock")
    remove_dead(directory, f"{pattern}*.sock")


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
