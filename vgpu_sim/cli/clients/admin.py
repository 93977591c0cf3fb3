"""A blocking client of the administration socket, for the command line and tests."""

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
    """gpud refused a request; ``code`` is the wire's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class AdminClient:
    """A connection to a gpud's ``gpud.sock``, or a like one. Raises OSError without a daemon."""

    def __init__(
        self, run_dir: Path, timeout_seconds: float = 30.0, name: str = SOCKET_NAME
    ) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout_seconds)
            self._socket.connect(str(run_dir / name))
        except OSError:
            self._socket.close()
            raise
        self._lines: Iterator[bytes] = read_lines(self._socket)
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

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Make one request.

        Raises:
            AdminRefused: gpud's own error.
            OSError: gpud hung up, does not answer, or sent what is no reply.
        """
        self._number += 1
        request = {"id": self._number, "method": method, "params": params}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            reply = self._read()
            if "event" in reply:
                self._events.append(reply)
                continue
            reply = self._understood(check_reply, reply)
            if "error" in reply:
                raise AdminRefused(reply["error"]["code"], reply["error"]["message"])
            result: dict[str, Any] = reply["result"]
            return result

    def inventory(self) -> Inventory:
        """Ask for a picture of the node.

        Raises:
            DocumentError: gpud is of another version.
            OSError: gpud hung up or does not answer.
        """
        return Inventory.from_json(self.call("inventory"))

    def next_event(self) -> dict[str, Any]:
        """Return the next event after ``subscribe``. Raises OSError (TimeoutError when none)."""
        return self._events.pop(0) if self._events else self._read()

    def queued_events(self) -> list[dict[str, Any]]:
        """Return the events that came before the answer of the last call."""
        events, self._events = self._events, []
        return events

    def _read(self) -> dict[str, Any]:
        line = self._understood(next, self._lines, None)
        if line is None:
            raise ConnectionResetError("gpud closed the administration socket")
        return self._understood(decode_object, line)

    def _understood(self, read: Callable[..., _T], *arguments: Any) -> _T:
        """Read from the daemon; what is no message of the protocol ends the connection."""
        try:
            return read(*arguments)
        except ValueError as err:
            self.close()
            raise ConnectionAbortedError(f"the administration socket: {err}") from err
