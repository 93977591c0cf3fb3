"""Receive a program's messages and reply to them in callbacks of the event loop.

Nearly every reply is ready at once. If a coroutine waited for each message, every message would
cost one more iteration of the loop and two more system calls. So a coroutine runs only for
replies that take longer.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from vgpu_sim.system import seqpacket
from vgpu_sim.system.seqpacket import Packet

Rest = Callable[[], Awaitable[object]]
"""The work that remains for a reply that could not be sent at once."""
Respond = Callable[[Packet], Rest | None]
"""A function that replies to a message. The message is never empty: an empty one is
the end of file. An exception ends the exchange.
"""


class Exchange:
    """Receives the messages of one socket and sends the replies.

    The kernel rejects messages that carry descriptors. Every received message must get a reply,
    so messages are received only while the event ``serving`` is set; until then they stay in the
    socket.
    """

    def __init__(
        self, client: socket.socket, limit_bytes: int, respond: Respond, serving: asyncio.Event
    ) -> None:
        self._client: Final = client
        self._limit_bytes: Final = limit_bytes
        self._respond: Final = respond
        self._serving: Final = serving

    async def run(self) -> None:
        """Reply to messages until the peer closes the socket.

        Raises OSError, and any exception raised while a reply is made.
        """
        while True:
            await self._serving.wait()
            remaining_work = await self._until_one_takes_longer()
            if remaining_work is None:
                return
            await remaining_work()

    async def _until_one_takes_longer(self) -> Rest | None:
        """Reply to messages until a reply takes longer.

        Return the remaining work of that reply, or None at the end of file.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Rest | None] = loop.create_future()
        descriptor = self._client.fileno()
        loop.add_reader(descriptor, self._take, future)
        try:
            return await future
        finally:
            loop.remove_reader(descriptor)

    def _take(self, future: "asyncio.Future[Rest | None]") -> None:
        """Reply to one message; the event loop serves other sockets before the next one."""
        if future.done():
            return
        if not self._serving.is_set():
            future.set_result(self._serving.wait)
            return
        try:
            packet = seqpacket.receive_now(self._client, self._limit_bytes)
            if packet is None:
                return
            remaining_work = self._respond(packet) if packet.data else None
        except Exception as err:  # noqa: BLE001 # it is raised in the coroutine that waits
            future.set_exception(err)
            return
        if remaining_work is not None or not packet.data:
            future.set_result(remaining_work)
