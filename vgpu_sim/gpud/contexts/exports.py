"""Exports device memory to hcad: connects hcad with the worker that owns the memory.

The contract is ``vgpu_sim.hal.direct``. hcad's sandbox forbids outgoing connections, so gpud
connects to hcad's socket, whose listener must run as hcad's user, root or gpud's own user. A
request names a program by its pid; gpud finds the program's contexts and passes one end of a
socket pair to a worker. The export ends with the slice.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

import click

from vgpu_sim.gpud.contexts.index import Context
from vgpu_sim.hal import direct
from vgpu_sim.hal.compute import spawn
from vgpu_sim.hal.direct import ExportRequest
from vgpu_sim.options import option
from vgpu_sim.records import dataclass
from vgpu_sim.system import descriptors, foreign, seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.pacing import Pace
from vgpu_sim.system.peers import peer_of

logger = logging.getLogger("tessera.gpud")

LOOK_AGAIN_SECONDS = 0.25
EXPORTS_PER_SECOND = 1000


@dataclass(frozen=True, slots=True)
class HcaOptions:
    """How gpud exports memory to hcad: hcad's socket, hcad's uid (None: gpud's own), and the owner
    whose device memory hcad may request.
    """

    socket: Path = option("--hca-socket", help="Socket on which hcad requests device memory.")
    user: int | None = option(
        "--hcad-user", type=click.IntRange(min=0), default=None, help="UID of hcad."
    )
    token: bytes = field(kw_only=True)


class Exports:
    """A connection to hcad, re-established whenever it ends, until ``close``."""

    def __init__(self, options: HcaOptions, contexts: Iterable[Context]) -> None:
        self._options = options
        self._contexts = contexts
        self._users = {0, os.geteuid(), *(() if options.user is None else (options.user,))}
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start to connect to hcad, repeatedly if needed."""
        self._task = asyncio.create_task(self._provide())

    async def close(self) -> None:
        """Stop exporting memory; existing exports remain."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _provide(self) -> None:
        while True:
            with suppress(OSError):
                await self._serve_connection()
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _serve_connection(self) -> None:
        """Serve one connection to hcad until it ends. Raises OSError: hcad cannot be reached."""
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
                await pace.wait_for_turn()
                packet = await sockets.receive(link, direct.MAX_MESSAGE_BYTES)
                if not packet.data or packet.truncated or not await self._answer(link, packet.data):
                    return
        finally:
            sockets.close(link)
            sockets.end()

    async def _answer(self, link: socket.socket, data: bytes) -> bool:
        """Answer one request; return False if it is malformed."""
        try:
            export = ExportRequest.decode(data)
        except (ValueError, RecursionError):
            return False
        its, workers = seqpacket.pair()
        with its, workers:
            status = self._pass_to_worker(export, workers)
            answer = direct.encode_answer(export.request, status)
            await seqpacket.send(link, answer, () if status else (its.fileno(),))
        return True

    def _pass_to_worker(self, export: ExportRequest, end: socket.socket) -> int:
        """Pass one end of a connection to the worker; return 0 or an errno value."""
        served = [
            context
            for context in self._contexts
            if context.client.pid == export.pid and export.pid > 0
        ]
        able = [
            context.channel
            for context in served
            if context.channel is not None and not context.fenced
        ]
        if export.skip >= len(able):
            return errno.ESRCH
        message: dict[str, Any] = {
            "type": "export",
            "address": export.address,
            "bytes": export.size,
            "range": export.range.hex(),
        }
        flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
        try:
            encoded = [spawn.encode(message)]
            descriptors.send(able[export.skip], encoded, [end.fileno()], flags)
        except OSError as err:  # the worker's queue is full, or the worker has just ended
            logger.info("export_failed pid=%d error=%s", export.pid, err)
            return errno.ESRCH
        return 0
