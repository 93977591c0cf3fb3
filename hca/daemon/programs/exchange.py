"""A program's messages, taken and answered in the event loop's own callbacks.

Nearly every answer is ready at once. A coroutine that waits for each message costs a second turn
of the loop, and two system calls more than the message itself; so one waits only for what takes
longer.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from vgpu_sim.system import seqpacket
from vgpu_sim.system.seqpacket import Packet

Rest = Callable[[], Awaitable[object]]
"""What is left to do of an answer that could not be given at once."""
Respond = Callable[[Packet], Rest | None]
"""Answers a message, which is not the end; what it raises ends the exchange."""


class Exchange:
    """Messages of one socket, into which nobody can send descriptors, and their answers.

    While ``serving`` is not set nothing is taken: what was taken is always answered.
    """

    def __init__(
        self, client: socket.socket, limit_bytes: int, respond: Respond, serving: asyncio.Event
    ) -> None:
        self._client: Final = client
        self._limit_bytes: Final = limit_bytes
        self._respond: Final = respond
        self._serving: Final = serving

    async def run(self) -> None:
        """Answer until the other side hangs up. Raises OSError, and what an answer raises."""
        while True:
            await self._serving.wait()
            rest = await self._until_one_takes_longer()
            if rest is None:
                return
            await rest()

    async def _until_one_takes_longer(self) -> Rest | None:
        """Answer what comes; return the rest of an answer, or None at the end."""
        loop = asyncio.get_running_loop()
        left: asyncio.Future[Rest | None] = loop.create_future()
        descriptor = self._client.fileno()
        loop.add_reader(descriptor, self._take, left)
        try:
            return await left
        finally:
            loop.remove_reader(descriptor)

    def _take(self, left: "asyncio.Future[Rest | None]") -> None:
        """Answer one message; others have their turns in between."""
        if left.done():
            return
        if not self._serving.is_set():
            left.set_result(self._serving.wait)
            return
        try:
            packet = seqpacket.receive_now(self._client, self._limit_bytes)
            if packet is None:
                return
            rest = self._respond(packet) if packet.data else None
        except Exception as err:  # noqa: BLE001 # it is raised where somebody waits
            left.set_exception(err)
            return
        if rest is not None or not packet.data:
            left.set_result(rest)
