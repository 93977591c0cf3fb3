"""hcad's socket: members join the fabric and get a function, their programs open it.

Everything here is reachable by whoever has the socket. A connection has HELLO_TIMEOUT_SECONDS to
say who it is; what it sends is bounded, and what breaks the protocol is hung up on.
"""

import asyncio
import ctypes
import errno
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vgpu_sim.fabric.addresses import Address, address_of
from vgpu_sim.fabric.engine import Engine
from vgpu_sim.fabric.wire import WireInterface
from vgpu_sim.gpud.limits.pacing import LogQuota
from vgpu_sim.gpud.slices.server import bind
from vgpu_sim.gpud.system import foreign, seqpacket
from vgpu_sim.gpud.system.foreign import ForeignSockets
from vgpu_sim.hal import hca
from vgpu_sim.hal.hca import HcaDevice, HcaHello, HcaMessage
from vgpu_sim.hal.messages import Header
from vgpu_sim.hcad import requests, sysfs
from vgpu_sim.hcad.client import DEFAULT_PKEY
from vgpu_sim.hcad.numbers import Numbers
from vgpu_sim.hcad.objects import Objects
from vgpu_sim.hcad.requests import Malformed

logger = logging.getLogger("tessera.hcad")

SOCKET_NAME = "hca.sock"
SYSFS_NAME = "sysfs"
CLASS_NAME = "infiniband"
DEVICE_NAME = "tessera_0"
FIRMWARE = "1.0.0"
BOARD = "TESSERA_VHCA"
HELLO_TIMEOUT_SECONDS = 5.0
REPLY_TIMEOUT_SECONDS = 5.0
MAX_CONNECTIONS = 1024
LOG_LINES_PER_MINUTE = 30
_BACKLOG = 1024
_HELLOS: Mapping[int, type[ctypes.Structure] | None] = {
    HcaMessage.JOIN: HcaHello,
    HcaMessage.OPEN: HcaHello,
}


@dataclass(frozen=True, slots=True)
class _Function:
    """What a member has, and its programs share."""

    address: Address
    directory: Path
    mtu: int = hca.HCA_MAX_MTU

    def device(self) -> HcaDevice:
        device = HcaDevice(
            name=DEVICE_NAME.encode(),
            firmware=FIRMWARE.encode(),
            board=BOARD.encode(),
            sysfs=os.fsencode(self.directory / DEVICE_NAME),
            mtu=self.mtu,
        )
        device.pkeys[0] = DEFAULT_PKEY
        ctypes.memmove(device.guid, self.address.guid, hca.HCA_GUID_BYTES)
        ctypes.memmove(device.gids, b"".join(self.address.gids), ctypes.sizeof(device.gids))
        return device


class Server:
    """Serves a fabric in ``directory``. ``on_empty`` is called when its last member has gone."""

    def __init__(
        self,
        directory: Path,
        engine: Engine,
        memory_bytes: int,
        on_empty: Callable[[], None],
        wire: WireInterface | None = None,
    ) -> None:
        self._wire = wire
        self._directory = directory
        self._engine = engine
        self._memory_bytes = memory_bytes
        self._on_empty = on_empty
        self._numbers = Numbers()
        self._functions: dict[bytes, _Function] = {}
        self._indices: set[int] = set()
        self._listener: socket.socket | None = None
        self._refusing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._programs: dict[bytes, set[asyncio.Task[None]]] = {}
        self._log_quota = LogQuota(LOG_LINES_PER_MINUTE)

    @property
    def members(self) -> int:
        """How many have joined."""
        return len(self._functions)

    def open(self) -> None:
        """Bind and begin to serve. Raises OSError."""
        self._listener = bind(self._directory / SOCKET_NAME, 0o600)
        self._refusing = foreign.refuse_descriptors(self._listener)
        self._listener.listen(_BACKLOG)
        self._begin(self._accept(self._listener))

    async def close(self) -> None:
        """Hang up on everybody; their objects go."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._listener is not None:
            self._listener.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await seqpacket.readable(listener.fileno())
            try:
                client, _ = listener.accept()
            except OSError as err:
                logger.warning("accept_failed error=%s", err)
                await asyncio.sleep(0.1)
                continue
            client.setblocking(False)
            if len(self._tasks) > MAX_CONNECTIONS:
                client.close()
                continue
            self._begin(self._serve(client))

    async def _serve(self, client: socket.socket) -> None:
        sockets = ForeignSockets("hca", self._refusing)
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_SECONDS):
                packet = await sockets.receive(client, requests.MAX_REQUEST_BYTES + 1)
            if not packet.data:
                return
            if packet.truncated:
                raise Malformed("too long, or brought descriptors")
            header, hello = requests.parse(packet.data, _HELLOS)
            serve = self._member if header.type == HcaMessage.JOIN else self._program
            await serve(client, sockets, header, hello)
        except (Malformed, TimeoutError, OSError) as err:
            if self._log_quota.take():
                logger.info("client_dropped reason=%r", str(err) or "timeout")
        finally:
            sockets.close(client)
            sockets.end()

    async def _member(
        self, client: socket.socket, sockets: ForeignSockets, header: Header, hello: HcaHello
    ) -> None:
        token = bytes(hello.token)
        if token in self._functions or hello.version != hca.HCA_VERSION or not any(token):
            await self._send(client, requests.encode(header, None, errno.EINVAL))
            return
        index = next(i for i in range(len(self._indices) + 1) if i not in self._indices)
        home = self._directory / SYSFS_NAME / str(index)
        directory = home / CLASS_NAME
        function = self._function(index, directory)
        sysfs.write(directory / DEVICE_NAME, function.address, FIRMWARE, BOARD)
        self._indices.add(index)
        self._functions[token] = function
        try:
            await self._send(client, requests.encode(header, function.device()))
            await sockets.receive(client, 1)  # it has nothing more to say
        finally:
            for task in tuple(self._programs.pop(token, ())):
                task.cancel()
            del self._functions[token]
            self._indices.discard(index)
            sysfs.remove(home)
            if not self._functions:
                self._on_empty()

    def _function(self, index: int, directory: Path) -> _Function:
        if self._wire is None:
            return _Function(address_of(index), directory)
        address = self._wire.address(address_of(index))
        return _Function(address, directory, self._wire.path_mtu())

    async def _program(
        self, client: socket.socket, sockets: ForeignSockets, header: Header, hello: HcaHello
    ) -> None:
        token = bytes(hello.token)
        function = self._functions.get(token)
        if function is None or hello.version != hca.HCA_VERSION:
            status = errno.EACCES if function is None else errno.EPROTO
            await self._send(client, requests.encode(header, None, status))
            return
        objects = Objects(
            *(self._engine, self._numbers, function.address.gids, self._memory_bytes),
            function.mtu,
        )
        task = asyncio.current_task()
        assert task is not None
        self._programs.setdefault(token, set()).add(task)
        try:
            opened = (objects.page_fd, objects.doorbell_fd)
            await self._send(client, requests.encode(header, function.device()), opened)
            while True:
                packet = await sockets.receive(client, requests.MAX_REQUEST_BYTES + 1)
                if not packet.data:
                    return
                if packet.truncated:
                    raise Malformed("too long, or brought descriptors")
                await self._answer(client, objects, packet.data)
        finally:
            self._programs.get(token, set()).discard(task)
            objects.close()

    async def _answer(self, client: socket.socket, objects: Objects, data: bytes) -> None:
        reply, descriptors, refused = requests.answer(objects, data)
        if refused and self._log_quota.take():
            logger.info("request_refused reason=%r", refused)
        try:
            await self._send(client, reply, descriptors)
        finally:
            for descriptor in descriptors:
                with suppress(OSError):
                    os.close(descriptor)

    @staticmethod
    async def _send(client: socket.socket, data: bytes, descriptors: tuple[int, ...] = ()) -> None:
        async with asyncio.timeout(REPLY_TIMEOUT_SECONDS):
            await seqpacket.send(client, data, descriptors)
