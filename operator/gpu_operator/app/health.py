"""Probes: a few lines of HTTP on the operator's own event loop, so that a stuck loop fails them."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

_TIMEOUT_S = 5.0


class Health:
    """Answers every request with 200, or 503 while ``alive`` says no."""

    def __init__(self, port: int, alive: Callable[[], bool]) -> None:
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
        """Return the IPv4 port it listens on; with port 0 the two families get different ones."""
        assert self._server is not None
        listening = next(s for s in self._server.sockets if s.family == socket.AF_INET)
        port: int = listening.getsockname()[1]
        return port

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError
        ):
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _TIMEOUT_S)
            status, body = ("200 OK", b"ok\n") if self._alive() else ("503 Stale", b"stale\n")
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()
