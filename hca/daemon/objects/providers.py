"""Device memory for regions: asked of the gpud that provides it, lent by the worker that has it.

The contract is ``vgpu_sim.hal.direct``. gpud is believed, as root or as this user; workers are
their tenants': what one of them sends is looked at, and closed by a thread where it is not wanted.
"""

import asyncio
import ctypes
import errno
import fcntl
import logging
import os
import socket
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hca.daemon.common import shared_memory
from vgpu_sim.hal import direct
from vgpu_sim.hal.direct import DirectGrant, ExportRequest
from vgpu_sim.hal.messages import TOKEN_BYTES
from vgpu_sim.system import seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.peers import peer_of

logger = logging.getLogger("tessera.hcad")

ANSWER_SECONDS: Final = 5.0
LINK_SECONDS: Final = 1.0
"""How long a gpud that has not connected is waited for: it looks for hcad four times a second."""
_TRIES: Final = 20  # while a context that has just ended is still counted
_TRY_AGAIN_SECONDS: Final = 0.01
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


@dataclass(frozen=True, slots=True)
class Lent:
    """Memory of a device: a sealed memfd of ``size`` bytes, until ``connection`` ends.

    What was asked for begins at ``offset``. Descriptor and connection are the taker's to close.
    """

    descriptor: int
    offset: int
    size: int
    connection: socket.socket


class _WorkerGone(Exception):
    """It ended before it answered."""


@dataclass(slots=True)
class _Link:
    """A gpud that provides; answers come in the order of the requests."""

    socket: socket.socket
    requests: int = 0
    waiting: dict[int, "asyncio.Future[tuple[int, list[int]]]"] = field(default_factory=dict)

    def new_request(self) -> int:
        self.requests += 1
        return self.requests


class Providers:
    """Those gpuds that have connected, by whose memory they provide."""

    def __init__(self, listener: socket.socket) -> None:
        """Take a socket that is bound; see ``open``."""
        self.listener = listener
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)  # room for descriptors
        self._workers = ForeignSockets("direct", refusing=False)
        self._users = frozenset((0, os.geteuid()))
        self._links: dict[bytes, _Link] = {}
        self._linked = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Begin to listen. Raises OSError."""
        self.listener.setblocking(False)
        self.listener.listen()
        self._begin(self._accept())

    async def close(self) -> None:
        """Hang up on every gpud; what is lent stays."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        self.listener.close()
        self._workers.end()

    def give_back(self, lent: Lent) -> None:
        """Let go of what was borrowed, whatever lies in its connection."""
        os.close(lent.descriptor)
        self._workers.close(lent.connection)

    async def borrow(
        self, token: bytes, pid: int, address: int, size: int, named: bytes = b""
    ) -> Lent:
        """Return the memory of a program's contexts at an address, all of the range.

        Where a range of a descriptor is ``named``, the address is an offset in it.

        Raises:
            OSError: ENODEV where no gpud provides this program's, EFAULT where no context has it,
                EPROTO where what came is not such memory, ETIMEDOUT.
        """
        link = await self._link_of(token)
        skip = 0
        for _ in range(_TRIES):
            async with asyncio.timeout(ANSWER_SECONDS):
                asked = ExportRequest(link.new_request(), pid, address, size, skip, named)
                status, ends = await self._ask(link, asked)
                if status:
                    raise OSError(errno.EFAULT, "no context has this memory")
                try:
                    lent = await self._grant(socket.socket(fileno=ends[0]), size)
                except _WorkerGone:
                    await asyncio.sleep(_TRY_AGAIN_SECONDS)
                    skip = 0  # gpud counts without it in a moment
                    continue
            if lent is not None:
                return lent
            skip += 1
        raise OSError(errno.EFAULT, "no context has this memory")

    async def _link_of(self, token: bytes) -> _Link:
        """Return who provides a program's memory, once it is there. Raises OSError (ENODEV)."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LINK_SECONDS):
                while True:
                    link = self._links.get(token) or self._links.get(bytes(TOKEN_BYTES))
                    if link is not None:
                        return link
                    self._linked.clear()
                    await self._linked.wait()
        raise OSError(errno.ENODEV, "no gpud provides device memory here")

    async def _ask(self, link: _Link, asked: ExportRequest) -> tuple[int, list[int]]:
        answer: asyncio.Future[tuple[int, list[int]]] = asyncio.get_running_loop().create_future()
        link.waiting[asked.request] = answer
        try:
            await seqpacket.send(link.socket, asked.encode())
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                for end in answer.result()[1]:
                    os.close(end)
            raise
        finally:
            link.waiting.pop(asked.request, None)

    async def _grant(self, connection: socket.socket, size: int) -> Lent | None:
        """Take a worker's answer; None where it has no such memory.

        Raises:
            OSError: it is none.
            _WorkerGone: there is none.
        """
        connection.setblocking(False)
        ends: list[int] = []
        lent = None
        try:
            try:
                data, ends = await self._workers.take(connection, _GRANT_BYTES + 1)
            except OSError as err:
                raise _WorkerGone from err
            if not data:
                raise _WorkerGone
            if len(data) != _GRANT_BYTES:
                raise OSError(errno.EPROTO, "a worker's answer has another size")
            grant = DirectGrant.from_buffer_copy(data)
            if grant.status:
                return None
            if not ends or not _is_such(ends[0], grant, size):
                raise OSError(errno.EPROTO, "what a worker sent is no sealed memory of that size")
            lent = Lent(ends.pop(), grant.offset, grant.chunk_bytes, connection)
            return lent
        finally:
            for descriptor in ends:
                self._workers.close_descriptor(descriptor)
            if lent is None:
                self._workers.close(connection)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        while True:
            await seqpacket.readable(self.listener.fileno())
            with suppress(OSError):
                came, _ = self.listener.accept()
                came.setblocking(False)
                if peer_of(came).uid in self._users:
                    self._begin(self._serve(came))
                else:
                    came.close()

    async def _serve(self, came: socket.socket) -> None:
        link = _Link(came)
        token = b""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                token, _ends = await _receive(came)
            if len(token) != TOKEN_BYTES:
                return
            self._links[token] = link
            self._linked.set()
            while True:
                data, ends = await _receive(came)
                if not data:
                    return
                request, status = direct.decode_answer(data)
                if bool(ends) != (status == 0):
                    raise OSError(errno.EPROTO, "gpud's answer is without its connection")
                answer = link.waiting.get(request)
                if answer is not None and not answer.done():
                    answer.set_result((status, ends))
                elif ends:
                    os.close(ends[0])
        except (OSError, ValueError, TimeoutError) as err:
            logger.warning("gpud_dropped reason=%r", str(err) or "timeout")
        finally:
            if self._links.get(token) is link:
                del self._links[token]
            for answer in link.waiting.values():
                if not answer.done():
                    answer.set_exception(OSError(errno.ENODEV, "gpud has gone"))
            came.close()


async def _receive(link: socket.socket) -> tuple[bytes, list[int]]:
    await seqpacket.readable(link.fileno())
    data, descriptors, _, _ = socket.recv_fds(
        link, direct.MAX_MESSAGE_BYTES, 1, socket.MSG_CMSG_CLOEXEC
    )
    return data, descriptors


_GRANT_BYTES: Final = ctypes.sizeof(DirectGrant)


def _is_such(descriptor: int, grant: DirectGrant, size: int) -> bool:
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        status = os.fstat(descriptor)
    except OSError:
        return False
    return (
        seals & _SEALS == _SEALS
        and status.st_size == grant.chunk_bytes
        and grant.offset + size <= grant.chunk_bytes
        and shared_memory.is_backed(descriptor, grant.chunk_bytes)
    )
