"""The kubelet's socket at which plugins register their resources.

The kubelet connects to a plugin while it answers Register, so a resource that is already served
is usable a moment after its registration. The plugin registry directory, the other way to
register, is looked at only once a second, and a new socket of an old name there makes the kubelet
drop the resource first (ADR 222).
"""

import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import grpc

from device_plugin.dp.service import OPTIONS
from device_plugin.errors import RegistrationError
from device_plugin.metrics import METRICS
from device_plugin.proto import (
    deviceplugin_pb2 as pb,
    deviceplugin_pb2_grpc as pb_grpc,
)

VERSION: Final = "v1beta1"
_REGISTER_S: Final = 10.0
_CONNECT_S: Final = 5.0
_RECONNECT: Final = (  # after a restart of the kubelet; the default is a second to two minutes
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_log = logging.getLogger(__name__)


class KubeletSocket:
    """A connection to the kubelet's socket, which is kept open for later registrations."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._channel: grpc.Channel | None = None

    def connect(self) -> None:
        """Connect in advance, if the kubelet runs, so that a later registration is quicker."""
        if self.is_listening():
            with suppress(grpc.FutureTimeoutError):
                grpc.channel_ready_future(self._open()).result(timeout=_CONNECT_S)

    def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def is_listening(self) -> bool:
        """Return whether a kubelet listens on the socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(str(self._path)) == 0

    def register(self, endpoints: Mapping[str, Path]) -> dict[str, RegistrationError | None]:
        """Register resources, each with the socket that serves it; the kubelet then connects to it.

        All are registered at the same time. Return for each resource None, or the error: the
        kubelet does not answer, or refuses the resource.
        """
        stub = pb_grpc.RegistrationStub(self._open())
        calls = {
            name: stub.Register.future(self._request(name, path), timeout=_REGISTER_S)
            for name, path in endpoints.items()
        }
        results: dict[str, RegistrationError | None] = {}
        for name, call in calls.items():
            try:
                call.result()
                results[name] = None
                _log.info("%s: registered with the kubelet", name)
            except grpc.RpcError as err:
                results[name] = RegistrationError(f"{name}: the kubelet did not register it: {err}")
            METRICS.count_registration(accepted=results[name] is None)
        return results

    def _open(self) -> grpc.Channel:
        if self._channel is None:
            self._channel = grpc.insecure_channel(f"unix:{self._path}", options=_RECONNECT)
        return self._channel

    def _request(self, resource: str, endpoint: Path) -> pb.RegisterRequest:
        # The kubelet joins the endpoint to the directory of its own socket (``server.Register``).
        relative = os.path.relpath(endpoint, self._path.parent)
        return pb.RegisterRequest(
            version=VERSION, endpoint=relative, resource_name=resource, options=OPTIONS
        )
