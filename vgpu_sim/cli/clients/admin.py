"""A blocking client for gpud's administration socket, for the command line and tests."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from vgpu_sim.gpud.admin import SOCKET_NAME
from vgpu_sim.gpud.errors import GpudError
from vgpu_sim.hal.management.admin import Inventory
from vgpu_sim.system.json_lines import check_reply, decode_object, read_lines

_T = TypeVar("_T")


class AdminRefused(GpudError):
    """gpud refused a request; ``code`` is the protocol's error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class AdminClient:
    """A connection to a gpud's ``gpud.sock``. The constructor raises OSError if no daemon
    listens.
    """

    def __init__(
        self, run_dir: Path, timeout_seconds: float = 30.0, name: str = SOCKET_NAME
    ) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout_seconds)
            connection.connect(str(run_dir / name))
        except OSError:
            connection.close()
            raise
        self._adopt(connection)

    @classmethod
    def from_descriptor(cls, descriptor: int, timeout_seconds: float = 30.0) -> Self:
        """Return a client on a connection that another process opened, and take it over."""
        connection = socket.socket(fileno=descriptor)
        connection.settimeout(timeout_seconds)
        client = cls.__new__(cls)
        client._adopt(connection)
        return client

    def _adopt(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lines: Iterator[bytes] = read_lines(connection)
        self._number = 0
        self._events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the connection's descriptor, to hand it to a new process."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Make one request and return its result.

        Raises:
            AdminRefused: gpud answered with an error.
            OSError: gpud closed the connection, did not answer, or sent an invalid reply.
        """
        self._number += 1
        request = {"id": self._number, "method": method, "params": params}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            reply = self._read()
            if "event" in reply:
                self._events.append(reply)
                continue
            reply = self._decode(check_reply, reply)
            if "error" in reply:
                raise AdminRefused(reply["error"]["code"], reply["error"]["message"])
            result: dict[str, Any] = reply["result"]
            return result

    def inventory(self) -> Inventory:
        """Request the inventory of the node's GPUs and slices.

        Raises:
            DocumentError: gpud is of another version.
            OSError: gpud closed the connection or does not answer.
        """
        return Inventory.from_json(self.call("inventory"))

    def next_event(self) -> dict[str, Any]:
        """Return the next event after a ``subscribe`` request. Raises OSError (TimeoutError if none
        arrives).
        """
        return self._events.pop(0) if self._events else self._read()

    def queued_events(self) -> list[dict[str, Any]]:
        """Return the events that arrived before the reply to the last request, and remove them."""
        events, self._events = self._events, []
        return events

    def _read(self) -> dict[str, Any]:
        line = self._decode(next, self._lines, None)
        if line is None:
            raise ConnectionResetError("gpud closed the administration socket")
        return self._decode(decode_object, line)

    def _decode(self, read: Callable[..., _T], *arguments: Any) -> _T:
        """Decode a message from the daemon; an invalid message closes the connection."""
        try:
            return read(*arguments)
        except ValueError as err:
            self.close()
            raise ConnectionAbortedError(
                f"invalid message on the administration socket: {err}"
            ) from err
