"""A client of a daemon's administration socket (docs/gpud-admin.md).

Requests and answers are one JSON object in each line.
"""

import json
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from device_plugin.backends.presence import Presence
from device_plugin.errors import DaemonError, DaemonUnreachable
from vgpu_sim.system.json_lines import check_reply, decode_object, read_lines

SUBSCRIBED = "subscribed"


class Administration:
    """Sends requests to a daemon on one connection, one at a time (``_lock``)."""

    daemon: ClassVar[str]
    refused: ClassVar[type[DaemonError]]
    unreachable: ClassVar[type[DaemonUnreachable]]

    def __init__(
        self, path: Path, timeout_s: float = 15.0, presence: Presence | None = None
    ) -> None:
        """Initialize; with ``presence``, that limits the time of each request."""
        self._path = path
        self._timeout_s = timeout_s
        self._presence = presence
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._lines: Iterator[bytes] = iter(())
        self._next_id = 0

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one request to the daemon and return the result.

        Raises:
            DaemonError: the daemon refused the request.
            DaemonUnreachable: there is no connection to the daemon; the next call connects again.
        """
        with self._lock:
            self._next_id += 1
            request = {"id": self._next_id, "method": method, "params": params}
            try:
                reply = self._exchange(request)
            except (OSError, ValueError, StopIteration) as err:
                self.close()
                raise self.unreachable(f"{self.daemon} at {self._path}: {err!r}") from err
            if self._presence is not None:
                self._presence.record_answer()
        if "error" in reply:
            raise self.refused(reply["error"]["code"], reply["error"]["message"])
        result: dict[str, Any] = reply["result"]
        return result

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the daemon's events, on a separate connection, until the connection is lost.

        This method generates the first event, ``subscribed``. No later event of the
        daemon is missed.

        Raises:
            DaemonUnreachable: there is no connection to the daemon, or it was lost.
        """
        try:
            with self._connect() as connection:
                connection.settimeout(None)
                connection.sendall(b'{"id":0,"method":"subscribe","params":{}}\n')
                for line in read_lines(connection):
                    message = decode_object(line)
                    if "event" in message:
                        yield message
                    elif "result" in message:
                        yield {"event": SUBSCRIBED}
                    else:
                        raise ValueError(f"subscribe was refused: {message}")
        except (OSError, ValueError) as err:
            raise self.unreachable(f"{self.daemon} at {self._path}: {err}") from err
        raise self.unreachable(f"{self.daemon} at {self._path}: connection closed")

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._connection is not None and _hung_up(self._connection):
            self.close()  # the daemon was restarted since the last request
        if self._connection is None:
            self._connection = self._connect()
            self._lines = read_lines(self._connection)
        self._connection.settimeout(self._time_limit_s())
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        while True:
            reply = decode_object(next(self._lines))
            if reply.get("id") == request["id"]:
                return check_reply(reply)

    def _time_limit_s(self) -> float:
        return self._timeout_s if self._presence is None else self._presence.time_limit_s()

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._time_limit_s())
        try:
            connection.connect(str(self._path))
        except OSError:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close the connection; the next request connects again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _hung_up(connection: socket.socket) -> bool:
    poller = select.poll()  # select() supports only 1,024 descriptors
    poller.register(connection, select.POLLIN)
    # no request is in progress, so only the end of the stream can arrive
    return bool(poller.poll(0))
