"""The administration socket: JSON lines for the node agent and the command line.

The socket's mode is 0600. The peer must have the daemon's uid; a daemon that runs as a user of
its own can allow further uids. Requests of one connection are answered in order. A connection
whose peer does not read is closed.
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from vgpu_sim.system.admin_socket.errors import InvalidRequest, RequestError
from vgpu_sim.system.admin_socket.events import EventBus
from vgpu_sim.system.peers import peer_of

logger = logging.getLogger("tessera.admin")

MAX_LINE_BYTES = 1 << 20
MAX_CONNECTIONS = 32
MAX_UNSENT_BYTES = 8 << 20

Operation = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class AdminServer:
    """Serves administration requests. ``operations`` maps each method name to the function that
    performs the request. The server implements the method ``subscribe`` itself.
    """

    def __init__(
        self,
        operations: dict[str, Operation],
        events: EventBus,
        further_uids: Collection[int] = (),
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        """Create a server. ``further_uids`` are further uids that are allowed; the socket's
        directory must keep all other users out.
        """
        self._uids = {os.geteuid(), *further_uids}
        self._mode = 0o666 if further_uids else 0o600
        self._max_line_bytes = max_line_bytes
        self._operations = operations
        self._events = events
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, path: Path, listener: socket.socket | None = None) -> None:
        """Start to serve at ``path``. If a socket is already bound to ``path``, pass it as
        ``listener``. Raises OSError.
        """
        self._path = path
        sock = listener or bind(path, self._mode)
        self._server = await asyncio.start_unix_server(
            self._serve_connection, sock=sock, limit=self._max_line_bytes
        )

    async def close(self) -> None:
        """Stop serving and close all connections."""
        if self._server is not None and self._path is not None:
            self._server.close()
            _unlink(self._path)
        for task in tuple(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(tuple(self._connections))

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        unsubscribe: list[Callable[[], None]] = []
        try:
            sock: socket.socket = writer.get_extra_info("socket")
            if peer_of(sock).uid not in self._uids or len(self._connections) > MAX_CONNECTIONS:
                return
            await self._serve(reader, writer, unsubscribe)
        except (OSError, asyncio.CancelledError):
            pass  # the peer has gone, or the daemon is closing: nothing is left to send
        finally:
            for remove in unsubscribe:
                remove()
            self._connections.discard(task)
            writer.close()

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        unsubscribe: list[Callable[[], None]],
    ) -> None:
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                message = f"a line is longer than {self._max_line_bytes} bytes"
                _write(writer, _failure(None, InvalidRequest(message)))
                return
            if not line.endswith(b"\n"):
                return
            number, method, reply = await self._reply(line)
            if method == "subscribe" and not unsubscribe:
                unsubscribe.append(self._events.subscribe(lambda event: _write(writer, event)))
                reply = {"id": number, "result": {}}
            _write(writer, reply)
            await writer.drain()

    async def _reply(self, line: bytes) -> tuple[object, str, dict[str, Any]]:
        number: object = None
        method = ""
        try:
            number, method, params = _parse(line)
            if method == "subscribe":
                return number, method, {"id": number, "result": {}}
            operation = self._operations.get(method)
            if operation is None:
                methods = ", ".join(sorted((*self._operations, "subscribe")))
                raise InvalidRequest(f"unknown method {method!r}; known: {methods}")
            return number, method, {"id": number, "result": await operation(params)}
        except RequestError as err:
            return number, "", _failure(number, err)
        except Exception as err:
            # A defect in an operation must fail only this request and not the daemon.
            logger.exception("admin_request_failed method=%s", method)
            return number, "", _failure(number, RequestError(f"internal error: {err}"))


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)


def bind(path: Path, mode: int = 0o600) -> socket.socket:
    """Bind a socket for ``AdminServer.open``, replacing an existing one. Raises OSError."""
    _unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    earlier_mask = os.umask(0o777 & ~mode)
    try:
        listener.bind(str(path))
    finally:
        os.umask(earlier_mask)
    return listener


def _parse(line: bytes) -> tuple[object, str, dict[str, Any]]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as err:
        raise InvalidRequest("not a line of JSON") from err
    if not isinstance(request, dict):
        raise InvalidRequest("a request must be an object")
    number = request.get("id")
    if not isinstance(number, int | str):
        raise InvalidRequest("id must be a number or a string")
    unknown = set(request) - {"id", "method", "params"}
    method, params = request.get("method"), request.get("params", {})
    if unknown or not isinstance(method, str) or not isinstance(params, dict):
        raise InvalidRequest("a request must be {id, method, params}")
    return number, method, params


def _failure(number: object, error: RequestError) -> dict[str, Any]:
    return {"id": number, "error": {"code": error.code, "message": str(error)}}


def _write(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    if writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
        logger.warning("admin_connection_dropped reason='does not read'")
        writer.transport.abort()
        return
    with suppress(RuntimeError):  # the transport is closing
        writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
