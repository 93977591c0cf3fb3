"""A blocking client of the administration socket, for the command line and tests."""

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vgpu_sim.gpud.admin.server import SOCKET_NAME
from vgpu_sim.gpud.errors import GpudError
from vgpu_sim.hal.admin import Inventory


class AdminRefused(GpudError):
    """gpud refused a request; ``code`` is the wire's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class AdminClient:
    """A connection to a gpud's ``gpud.sock``, or a like one. Raises OSError when nobody serves."""

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
        self._lines = self._socket.makefile("rb")
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
        self._lines.close()
        self._socket.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Make one request.

        Raises:
            AdminRefused: gpud's own error.
            OSError: gpud hung up or does not answer.
        """
        self._number += 1
        request = {"id": self._number, "method": method, "params": params}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            reply = self._read()
            if "event" in reply:
                self._events.append(reply)
                continue
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
        line = self._lines.readline()
        if not line:
            raise ConnectionResetError("gpud closed the administration socket")
        message: dict[str, Any] = json.loads(line)
        return message
