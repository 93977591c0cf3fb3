"""Import device memory for regions from workers, through the gpud that manages them.

The protocol is that of ``vgpu_sim.hal.direct``. hcad trusts gpud, which runs as root or as
hcad's own user. But workers belong to tenants: hcad validates each of their messages, and a
thread closes the descriptors of rejected messages.
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
from dataclasses import field
from typing import Final

from hca.daemon.common import shared_memory
from hca.daemon.objects.revocations import Revocations
from vgpu_sim.hal import direct
from vgpu_sim.hal.direct import DirectGrant, ExportRequest
from vgpu_sim.hal.messages import TOKEN_BYTES
from vgpu_sim.records import dataclass
from vgpu_sim.system import seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.peers import peer_of

logger = logging.getLogger("tessera.hcad")

ANSWER_SECONDS: Final = 5.0
LINK_SECONDS: Final = 1.0
"""Seconds that hcad waits for a gpud to connect; a gpud tries four times a second."""
_TRIES: Final = 20  # as long as gpud still counts a context that has just ended
_TRY_AGAIN_SECONDS: Final = 0.01
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


@dataclass(frozen=True, slots=True)
class ImportedMemory:
    """Memory of a device: a sealed memfd of ``size`` bytes, valid until ``connection`` ends.

    The requested address is at ``offset`` in the memfd. The importer must close the descriptor
    and the connection.
    """

    descriptor: int
    offset: int
    size: int
    connection: socket.socket


class _WorkerGone(Exception):
    """The worker ended before it answered the request for memory."""


@dataclass(slots=True)
class _Link:
    """The connection of a gpud; each reply names the request that it answers."""

    socket: socket.socket
    requests: int = 0
    waiting: dict[int, "asyncio.Future[tuple[int, list[int]]]"] = field(default_factory=dict)

    def new_request(self) -> int:
        self.requests += 1
        return self.requests


class Providers:
    """The connected gpuds. A gpud is found by the token of a program whose memory it exports."""

    def __init__(self, listener: socket.socket) -> None:
        """Use ``listener``, a bound socket on which ``open`` listens."""
        self.listener = listener
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)  # room for descriptors
        self._workers = ForeignSockets("direct", refusing=False)
        self.revocations = Revocations()
        self._users = frozenset((0, os.geteuid()))
        self._links: dict[bytes, _Link] = {}
        self._linked = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Begin to listen for gpuds. Raises OSError."""
        self.listener.setblocking(False)
        self.listener.listen()
        self._begin(self._accept())

    async def close(self) -> None:
        """Close the connections of all gpuds; imported memory stays valid."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        self.listener.close()
        self._workers.end()

    def release(self, imported: ImportedMemory) -> None:
        """Release imported memory, even if its connection holds unread data.

        If its worker has ended, this frees the pages, which takes time for large memory.
        """
        self._workers.close_descriptor(imported.descriptor)
        self._workers.close(imported.connection)

    async def import_memory(
        self, token: bytes, pid: int, address: int, size: int, named: bytes = b""
    ) -> ImportedMemory:
        """Import a range of a program's device memory from one of the program's contexts.

        The range must contain ``size`` bytes at ``address``; all of the range is imported. If
        ``named`` is not empty, it is the content of a descriptor that exports a range, and
        ``address`` is an offset in that range.

        Raises:
            OSError: ENODEV if no gpud exports this program's memory; EFAULT if no context has the
                range; EPROTO if a worker's answer is invalid; ETIMEDOUT if an answer is late.
        """
        link = await self._link_of(token)
        skip = 0
        for _ in range(_TRIES):
            async with asyncio.timeout(ANSWER_SECONDS):
                request = ExportRequest(link.new_request(), pid, address, size, skip, named)
                status, ends = await self._request(link, request)
                if status:
                    raise OSError(errno.EFAULT, "no context has this memory")
                try:
                    imported = await self._grant(socket.socket(fileno=ends[0]), size)
                except _WorkerGone:
                    await asyncio.sleep(_TRY_AGAIN_SECONDS)
                    skip = 0  # gpud's numbers change once it stops counting that context
                    continue
            if imported is not None:
                return imported
            skip += 1
        raise OSError(errno.EFAULT, "no context has this memory")

    async def _link_of(self, token: bytes) -> _Link:
        """Return the connection of the gpud that exports a program's memory; wait for it if needed.

        Raises OSError (ENODEV).
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(LINK_SECONDS):
                while True:
                    link = self._links.get(token) or self._links.get(bytes(TOKEN_BYTES))
                    if link is not None:
                        return link
                    self._linked.clear()
                    await self._linked.wait()
        raise OSError(errno.ENODEV, "no gpud provides device memory here")

    async def _request(self, link: _Link, request: ExportRequest) -> tuple[int, list[int]]:
        answer: asyncio.Future[tuple[int, list[int]]] = asyncio.get_running_loop().create_future()
        link.waiting[request.request] = answer
        try:
            await seqpacket.send(link.socket, request.encode())
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                for end in answer.result()[1]:
                    os.close(end)
            raise
        finally:
            link.waiting.pop(request.request, None)

    async def _grant(self, connection: socket.socket, size: int) -> ImportedMemory | None:
        """Receive a worker's answer; return the memory, or None if the worker does not have it.

        Raises:
            OSError: the answer is invalid.
            _WorkerGone: the worker has ended.
        """
        connection.setblocking(False)
        ends: list[int] = []
        imported = None
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
            if not ends or not _is_sealed_memory(ends[0], grant, size):
                raise OSError(errno.EPROTO, "the worker did not send sealed memory of that size")
            imported = ImportedMemory(ends.pop(), grant.offset, grant.chunk_bytes, connection)
            return imported
        finally:
            for descriptor in ends:
                self._workers.close_descriptor(descriptor)
            if imported is None:
                self._workers.close(connection)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        while True:
            await seqpacket.wait_until_readable(self.listener.fileno())
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
    await seqpacket.wait_until_readable(link.fileno())
    data, descriptors, _, _ = socket.recv_fds(
        link, direct.MAX_MESSAGE_BYTES, 1, socket.MSG_CMSG_CLOEXEC
    )
    return data, descriptors


_GRANT_BYTES: Final = ctypes.sizeof(DirectGrant)


def _is_sealed_memory(descriptor: int, grant: DirectGrant, size: int) -> bool:
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
