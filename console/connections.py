"""Connections to the console: those without a complete request are bounded in time and number."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S: Final = 10.0  # from the connection to the end of the first request's head
MOST_WAITING: Final = 128  # connections whose first request's head is incomplete


class Connection(H11Protocol):
    """A connection that must send a request soon.

    Every local user can connect. If too many connections wait for a request, the oldest of them is
    closed, so that a browser, which sends its request at once, is answered.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Limit the time until the request, and the number of connections without one."""
        super().connection_made(transport)
        waiting = [
            connection
            for connection in self.connections
            if isinstance(connection, Connection) and connection._deadline is not None
        ]
        if len(waiting) >= MOST_WAITING:
            min(waiting, key=Connection._due)._give_up()
        self._deadline = self.loop.call_later(HEAD_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget_deadline()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Process received data; the deadline is met as soon as there is a request."""
        super().handle_events()
        if self.cycle is not None:
            self._forget_deadline()

    def _due(self) -> float:
        assert self._deadline is not None
        return self._deadline.when()

    def _give_up(self) -> None:
        self._forget_deadline()
        self.transport.abort()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
