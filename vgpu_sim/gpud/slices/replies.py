"""Sends gpud's replies on one slice's socket, and limits how many of them may be unread.

The kernel charges a message to its sender until the receiver reads it or closes the socket, even
if the sender has closed its end. A program that sends requests and never reads would fill gpud's
memory.

Half of the places for unread replies are open to all clients, and half are reserved for holders.
A process that has the socket but does not hold the slice therefore cannot take the holder's
places. Whether a client is a holder is checked only when the open places are taken.
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
MAX_UNREAD: Final = 32  # per slice, and as many again for its holders
_FIRST_LOOK_SECONDS: Final = 0.05
_LAST_LOOK_SECONDS: Final = 1.0


class Replies:
    """Sends replies to the clients of one slice. ``unread`` is the number of replies that have not
    been read.
    """

    def __init__(self) -> None:
        self.unread = 0
        self._of_all = asyncio.Semaphore(MAX_UNREAD)
        self._of_holders = asyncio.Semaphore(MAX_UNREAD)

    async def send(
        self, client: socket.socket, reply: bytes, is_holder: Callable[[], Awaitable[bool]]
    ) -> None:
        """Send the single reply to a client; return when the client has read it or hung up.

        Raises:
            TimeoutError: too many other replies are unread; raised at once for a client that is not
                a holder.
            OSError: the client has gone.
        """
        async with self._place(is_holder):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await seqpacket.send(client, reply)
            with suppress(OSError):  # the client has gone
                # For a client that reads until the end of the stream.
                client.shutdown(socket.SHUT_WR)
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
                    raise TimeoutError(f"too many replies are unread: {MAX_UNREAD}")
                places = self._of_holders
            await places.acquire()
        try:
            yield
        finally:
            places.release()


async def _until_read(client: socket.socket) -> None:
    """Return when the client has read everything or hung up; only the client itself can hang up."""
    pause_seconds = _FIRST_LOOK_SECONDS
    while _unread_bytes(client):
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_seconds):
                await seqpacket.wait_until_readable(client.fileno())
            if _unread_bytes(client):  # it has sent data instead of hanging up
                await asyncio.sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds, _LAST_LOOK_SECONDS)


def _unread_bytes(sock: socket.socket) -> int:
    """Return the bytes charged for messages that the other end has not read (SIOCOUTQ, unix(7))."""
    count = array.array("i", [0])
    fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, count)
    return count[0]
