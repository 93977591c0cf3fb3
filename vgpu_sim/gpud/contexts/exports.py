"""Who may show a context's memory to an HCA: hands hcad's connections on to workers.

The contract is ``vgpu_sim.hal.direct``. hcad names the program; that the program holds the slice is
what gpud knows, and what goes with the context when the slice is taken away. Only hcad, root and
this user are heard. Connections carry no descriptors here, and one message each.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from pathlib import Path

from vgpu_sim.gpud.contexts.table import Context
from vgpu_sim.hal import direct, spawn
from vgpu_sim.hal.direct import DirectGrant
from vgpu_sim.system import foreign, seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.peers import peer_of

logger = logging.getLogger("tessera.gpud")

MAX_ASKING = 64
ASK_TIMEOUT_SECONDS = 5.0
_SOCKET_MODE = 0o666  # who is heard is decided by who connects


class Exports:
    """Serves the socket at ``path`` until closed."""

    def __init__(self, path: Path, contexts: Iterable[Context], users: Iterable[int]) -> None:
        self._path = path
        self._contexts = contexts
        self._users = frozenset((0, os.geteuid(), *users))
        self._listener: socket.socket | None = None
        self._sockets = ForeignSockets("direct", refusing=False)
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Bind and begin to serve. Raises OSError."""
        self._listener = listener = seqpacket.bind(self._path, _SOCKET_MODE)
        self._sockets = ForeignSockets("direct", foreign.refuse_descriptors(listener))
        listener.listen(MAX_ASKING)
        self._begin(self._accept(listener))

    async def close(self) -> None:
        """Stop serving; what was granted stays."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        if self._listener is not None:
            self._sockets.close(self._listener)
            self._sockets.end()
            with suppress(OSError):
                self._path.unlink()

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await self._sockets.room()
            await seqpacket.readable(listener.fileno())
            with suppress(OSError):
                asker, _ = listener.accept()
                asker.setblocking(False)
                if len(self._tasks) > MAX_ASKING:
                    self._sockets.close(asker)
                else:
                    self._begin(self._serve(asker))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, asker: socket.socket) -> None:
        status = errno.EINVAL
        try:
            async with asyncio.timeout(ASK_TIMEOUT_SECONDS):
                packet = await self._sockets.receive(asker, direct.MAX_REQUEST_BYTES)
            if packet.data and not packet.truncated:
                status = self._hand_on(asker, packet.data)
        except (TimeoutError, OSError):
            status = errno.ETIMEDOUT
        finally:
            if status:
                with suppress(OSError):
                    asker.send(bytes(DirectGrant(status)), socket.MSG_DONTWAIT)
            self._sockets.close(asker)

    def _hand_on(self, asker: socket.socket, data: bytes) -> int:
        """Pass a connection to the worker that is asked; return 0, or why not."""
        if peer_of(asker).uid not in self._users:
            return errno.EPERM
        try:
            pid, address, size, skip = direct.decode_request(data)
        except (ValueError, RecursionError):
            return errno.EINVAL
        served = [one for one in self._contexts if one.client.pid == pid and pid > 0]
        able = [one.channel for one in served if one.channel is not None and not one.fenced]
        if skip >= len(able):
            return errno.ESRCH
        message = spawn.encode({"type": "export", "address": address, "bytes": size})
        try:
            socket.send_fds(able[skip], [message], [asker.fileno()], socket.MSG_DONTWAIT)
        except OSError as err:  # it does not read, or has just ended
            logger.info("export_failed pid=%d error=%s", pid, err)
            return errno.ESRCH
        return 0
