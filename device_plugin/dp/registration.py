"""Serves a resource on a socket of its own, to which the kubelet connects at the registration.

The socket's name contains the agent pod's name, so an old and a new agent can overlap during an
update.
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

from device_plugin.dp.service import DevicePlugin
from device_plugin.proto import (
    deviceplugin_pb2 as pb,
    deviceplugin_pb2_grpc as pb_grpc,
)
from vgpu_sim.records import dataclass
from vgpu_sim.system import socket_paths

_THREADS = 8  # each open ListAndWatch stream blocks one thread
_WARM_UP_S: Final = 1.0
UNDER_WAY_S = 3.0  # for calls in progress: the kubelet fails the pod of an aborted one
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The socket at which a resource is served.

    ``connected`` is whether a kubelet follows its list, and ``ended_streams`` the number of times
    that one has stopped to do so.
    """

    path: Path
    ended_streams: int = 0
    connected: bool = False


class ResourceServer:
    """A running server for one resource, with its own socket."""

    def __init__(self, plugin: DevicePlugin, directory: Path, pod_name: str) -> None:
        self.plugin = plugin
        self.path = socket_path(directory, plugin.resource, pod_name)
        self._server = grpc.server(futures.ThreadPoolExecutor(_THREADS))
        self._channel: grpc.Channel | None = None

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
        self._warm_up()

    def _warm_up(self) -> None:
        """Load code and fill caches that the kubelet's first calls need.

        A call that is in progress when the process is killed fails a pod, so calls must be short.
        """
        self.plugin.warm_up()
        self.is_answering(_WARM_UP_S)

    def is_answering(self, within_s: float) -> bool:
        """Return whether a call of this server's own socket is answered in time.

        One connection serves for all calls of this kind, which therefore cost little.
        """
        if self._channel is None:
            self._channel = grpc.insecure_channel(f"unix:{self.path}")
        stub = pb_grpc.DevicePluginStub(self._channel)
        try:
            stub.GetDevicePluginOptions(pb.Empty(), timeout=within_s)
        except (grpc.RpcError, ValueError):  # the latter if the channel was closed
            return False
        return True

    @property
    def endpoint(self) -> Endpoint:
        """Return the socket, and whether and how often the kubelet has followed its list."""
        return Endpoint(self.path, self.plugin.ended_streams, self.plugin.connected)

    def begin_stop(self) -> Callable[[], None]:
        """Begin to stop the server; return a function that waits until calls in progress have
        ended.

        The returned function also deletes the server's socket.
        """
        self.plugin.stop()
        if self._channel is not None:
            self._channel.close()
        stopped = self._server.stop(UNDER_WAY_S)

        def wait() -> None:
            stopped.wait(UNDER_WAY_S + 2)
            self.path.unlink(missing_ok=True)

        return wait


def socket_path(directory: Path, resource: str, pod_name: str) -> Path:
    """Return the path of a resource's socket, which contains the end of the pod's name."""
    domain, _, name = resource.partition("/")
    vendor = domain.split(".")[-2] if domain.count(".") else domain
    path = directory / f"{vendor}-{name}-{_suffix(pod_name)}.sock"
    if len(str(path)) > socket_paths.MAX_PATH_BYTES:
        raise OSError(f"socket path too long: {path}")
    return path


def remove_stale(directory: Path, resource: str, pod_name: str) -> None:
    """Delete the sockets that killed agents of other pods have left behind.

    A ``*`` in ``resource`` matches any text. A socket of this pod may have been bound a moment ago,
    and not listen yet; its next server replaces it anyway.
    """
    pattern = socket_path(directory, resource, "").name.removesuffix(".sock")
    remove_dead(directory, f"{pattern}*.sock", kept_suffix=f"-{_suffix(pod_name)}.sock")


def _suffix(pod_name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9-]", "-", pod_name)[-12:]


def remove_dead(directory: Path, pattern: str, kept_suffix: str | None = None) -> None:
    """Delete the sockets in a directory that match the pattern and on which no process listens.

    Those whose names end with ``kept_suffix`` stay.
    """
    for path in directory.glob(pattern):
        if kept_suffix is not None and path.name.endswith(kept_suffix):
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
                _log.info("%s: removed, no process serves it", path.name)
            except OSError as err:
                _log.warning("%s: %s", path.name, err)
