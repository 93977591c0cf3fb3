"""gpud's replies on one slice's socket: of those that nobody reads there are few.

The kernel charges a message to who sent it, until its receiver reads it or closes the socket; also
when the sender has closed long ago. A program that asks and never reads would fill gpud's memory.

There are as many places for holders alone as for all: who was given the socket, but not the slice,
keeps its holder out of none of those. Only where the others are taken is it asked who a client is.
"""

import array
import asyncio
import fcntl
import socket
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from vgpu_sim.system import seqpacket

TIMEOUT_SECONDS: Final = 5.0
MAX_UNREAD: Final = 32  # of a slice, and as many of its holders
_FIRST_LOOK_SECONDS: Final = 0.05
_LAST_LOOK_SECONDS: Final = 1.0


class Replies:
    """Sends replies. ``unread`` is how many of them wait for their readers."""

    def __init__(self) -> None:
        self.unread = 0
        self._of_all = asyncio.Semaphore(MAX_UNREAD)
        self._of_holders = asyncio.Semaphore(MAX_UNREAD)

    async def send(
        self, client: socket.socket, reply: bytes, is_holder: Callable[[], Awaitable[bool]]
    ) -> None:
        """Send the one reply that a client gets, and return when it was read or refused.

        Raises:
            TimeoutError: too many others are not read; at once for who is no holder.
            OSError: the client has gone.
        """
        async with self._place(is_holder):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await seqpacket.send(client, reply)
            with suppress(OSError):  # it has gone
                client.shutdown(socket.SHUT_WR)  # for who reads until the end
            self.unread += 1
            try:
                await _until_read(client)
            finally:
                self.unread -= 1

    @asynccontextmanager
    async def _place(self, is_holder: Callable[[], Awaitable[bool]]) -> AsyncIterator[None]:
        places = self._of_all
        async with asyncio.timeout(TIMEOUT_SECONDS):
            if places.locked():
                if not await is_holder():
                    raise TimeoutError(f"{MAX_UNREAD} replies are not read")
                places = self._of_holders
            await places.acquire()
        try:
            yield
        finally:
            places.release()


async def _until_read(client: socket.socket) -> None:
    """Return when the client has read everything, or has hung up, which nobody can do for it."""
    pause_seconds = _FIRST_LOOK_SECONDS
    while _unread_bytes(client):
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_seconds):
                await seqpacket.readable(client.fileno())
            if _unread_bytes(client):  # it does not hang up, it talks
                await asyncio.sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds, _LAST_LOOK_SECONDS)


def _unread_bytes(sock: socket.socket) -> int:
    """Return what is charged for messages that wait at the other end (SIOCOUTQ, unix(7))."""
    count = array.array("i", [0])
    fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, count)
    return count[0]
