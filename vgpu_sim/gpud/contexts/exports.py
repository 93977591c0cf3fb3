"""Provides hcad with device memory: hands connections to workers, one end each.

The contract is ``vgpu_sim.hal.direct``. hcad names the program; which contexts the program has is
what gpud knows, and they go with the slice when it is taken away. gpud looks for hcad and is heard
by it, not the other way round: hcad can connect to nobody. Whoever listens there must be hcad's
user, root or this one.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from vgpu_sim.gpud.contexts.table import Context
from vgpu_sim.hal import direct
from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.direct import ExportRequest
from vgpu_sim.options import option
from vgpu_sim.system import descriptors, foreign, seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.pacing import Pace
from vgpu_sim.system.peers import peer_of

logger = logging.getLogger("tessera.gpud")

LOOK_AGAIN_SECONDS = 0.25
EXPORTS_PER_SECOND = 1000


@dataclass(frozen=True, slots=True)
class HcaOptions:
    """Where hcad is found, who it runs as (None: this user), and whose memory it may ask for."""

    socket: Path = option("--hca-socket", help="Where hcad asks for the memory of devices.")
    user: int | None = option(
        "--hcad-user", type=click.IntRange(min=0), default=None, help="UID of hcad."
    )
    token: bytes = field(kw_only=True)


class Exports:
    """A connection to hcad, made again whenever it ends, until closed."""

    def __init__(self, options: HcaOptions, contexts: Iterable[Context]) -> None:
        self._options = options
        self._contexts = contexts
        self._users = {0, os.geteuid(), *(() if options.user is None else (options.user,))}
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to look for hcad."""
        self._task = asyncio.create_task(self._provide())

    async def close(self) -> None:
        """Provide no more; what was granted stays."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _provide(self) -> None:
        while True:
            with suppress(OSError):
                await self._connected()
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _connected(self) -> None:
        """Serve one hcad until it ends. Raises OSError where there is none."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.setblocking(False)
        sockets = ForeignSockets("hcad", foreign.refuse_descriptors(link))
        try:
            link.connect(str(self._options.socket))
            if peer_of(link).uid not in self._users:
                logger.warning("hcad_not_trusted uid=%d", peer_of(link).uid)
                return
            link.send(self._options.token)
            logger.info("hcad_connected")
            pace = Pace(EXPORTS_PER_SECOND)
            while True:
                await pace.turn()
                packet = await sockets.receive(link, direct.MAX_MESSAGE_BYTES)
                if not packet.data or packet.truncated or not await self._answer(link, packet.data):
                    return
        finally:
            sockets.close(link)
            sockets.end()

    async def _answer(self, link: socket.socket, data: bytes) -> bool:
        """Carry a request out; False where hcad would not have sent it."""
        try:
            asked = ExportRequest.decode(data)
        except (ValueError, RecursionError):
            return False
        its, workers = seqpacket.pair()
        with its, workers:
            status = self._hand_on(asked, workers)
            answer = direct.encode_answer(asked.request, status)
            await seqpacket.send(link, answer, () if status else (its.fileno(),))
        return True

    def _hand_on(self, asked: ExportRequest, end: socket.socket) -> int:
        """Give one end of a connection to the worker that is asked; return 0, or why not."""
        served = [one for one in self._contexts if one.client.pid == asked.pid and asked.pid > 0]
        able = [one.channel for one in served if one.channel is not None and not one.fenced]
        if asked.skip >= len(able):
            return errno.ESRCH
        message: dict[str, Any] = {
            "type": "export",
            "address": asked.address,
            "bytes": asked.size,
            "range": asked.range.hex(),
        }
        flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
        try:
            encoded = [spawn.encode(message)]
            descriptors.send(able[asked.skip], encoded, [end.fileno()], flags)
        except OSError as err:  # it does not read, or has just ended
            logger.info("export_failed pid=%d error=%s", asked.pid, err)
            return errno.ESRCH
        return 0
