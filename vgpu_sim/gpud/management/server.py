"""gpud's management socket: NVML for the node's administrator, who may see and change everything.

The socket's mode is 0600, its peer must be root or have gpud's uid, and no pod has the socket
mounted. Each connection carries one request, as on a slice's socket.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from vgpu_sim.gpud.slices.hello import MalformedHello
from vgpu_sim.gpud.slices.management import REQUEST_BYTES, Ask, parse
from vgpu_sim.system import seqpacket
from vgpu_sim.system.peers import peer_of

logger = logging.getLogger("tessera.gpud")

TIMEOUT_SECONDS = 5.0
MAX_PENDING = 64
_ACCEPT_FAILED_PAUSE_SECONDS = 0.5


class ManagementServer:
    """Serves the management socket at ``path`` until closed; ``answer`` returns the whole reply to
    a request.
    """

    def __init__(self, path: Path, answer: Callable[[Ask], Awaitable[bytes]]) -> None:
        self._path = path
        self._answer = answer
        self._uids = {0, os.geteuid()}
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Bind the socket and start to serve. Raises OSError."""
        self._listener = seqpacket.bind(self._path, 0o600)
        self._listener.listen(MAX_PENDING)
        self._accepting = asyncio.create_task(self._accept(self._listener))

    async def close(self) -> None:
        """Stop serving."""
        for task in (self._accepting, *self._serving):
            if task is not None:
                task.cancel()
        if self._serving:
            await asyncio.wait(tuple(self._serving))
        if self._listener is not None:
            self._listener.close()
            with suppress(OSError):
                self._path.unlink()

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await seqpacket.wait_until_readable(listener.fileno())
            try:
                client, _ = listener.accept()
            except OSError as err:
                logger.warning("accept_failed management error=%s", err)
                await asyncio.sleep(_ACCEPT_FAILED_PAUSE_SECONDS)
                continue
            client.setblocking(False)
            if len(self._serving) >= MAX_PENDING or peer_of(client).uid not in self._uids:
                client.close()
                continue
            task = asyncio.create_task(self._serve(client))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, client: socket.socket) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                packet = await seqpacket.receive(client, REQUEST_BYTES + 1)
            if not packet.data:
                return
            if packet.truncated:
                raise MalformedHello("the request is too long or carries descriptors")
            reply = await self._answer(parse(packet.data))
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await seqpacket.send(client, reply)
        except (MalformedHello, TimeoutError, OSError) as err:
            logger.info("management_client_dropped reason=%r", str(err) or "timeout")
        finally:
            client.close()
