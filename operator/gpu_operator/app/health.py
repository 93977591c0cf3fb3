"""Probe endpoints: minimal HTTP on the operator's own event loop.

If that loop is blocked, the probes fail.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

_TIMEOUT_S = 5.0


class Health:
    """HTTP server for probes: every request gets 200, or 503 while ``alive`` returns False.

    ``metrics`` makes the response to ``/metrics``: it receives the Accept header, and returns
    content type and body.
    """

    def __init__(
        self,
        port: int,
        alive: Callable[[], bool],
        metrics: Callable[[str], tuple[str, bytes]] | None = None,
    ) -> None:
        self._metrics = metrics
        self._port = port
        self._alive = alive
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._answer, None, self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def port(self) -> int:
        """Return the port on which the server listens over IPv4.

        If the requested port was 0, the server has another port over IPv6.
        """
        assert self._server is not None
        listening = next(s for s in self._server.sockets if s.family == socket.AF_INET)
        port: int = listening.getsockname()[1]
        return port

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError
        ):
            request = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _TIMEOUT_S)
            kind = "text/plain; charset=utf-8"
            path, accept = _read(request)
            if path == "/metrics" and self._metrics is not None:
                # In a thread: with thousands of GPUs this takes a while.
                kind, body = await asyncio.to_thread(self._metrics, accept)
                status = "200 OK"
            elif self._alive():
                status, body = "200 OK", b"ok\n"
            else:
                status, body = "503 Stale", b"stale\n"
            fields = {"Content-Type": kind, "Content-Length": len(body), "Connection": "close"}
            head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
            writer.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)
            await asyncio.wait_for(writer.drain(), _TIMEOUT_S)
        writer.close()


def _read(request: bytes) -> tuple[str, str]:
    """Return the path, without its query, and the Accept header of an HTTP request."""
    first, *lines = request.decode("latin-1").split("\r\n")
    words = first.split(" ")
    path = words[1].partition("?")[0] if len(words) > 1 else ""
    fields = (line.partition(":") for line in lines)
    accept = (value.strip() for name, _, value in fields if name.lower() == "accept")
    return path, next(accept, "")
