"""hcad's socket: members join the fabric and get a function, which their programs open.

Every process that has the socket can reach this code. A connection must identify itself within
HELLO_TIMEOUT_SECONDS. The size of its messages is bounded, and hcad closes a connection that
breaks the protocol.
"""

import asyncio
import ctypes
import errno
import logging
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hca.binding.addresses import address_of
from hca.binding.engine import Engine, EngineWire
from hca.binding.wire import WireInterface
from hca.contract import hca
from hca.contract.cm import CmMessage
from hca.contract.fabric_files import SYSFS_NAME
from hca.contract.hca import HcaHello, HcaMessage
from hca.daemon.cm.server import CmServer
from hca.daemon.common.quotas import Shares
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties, Party
from hca.daemon.programs import requests
from hca.daemon.programs.adoption import AdoptingPrograms
from hca.daemon.programs.opened_function import BOARD, DEVICE_NAME, FIRMWARE, OpenedFunction
from hca.daemon.programs.requests import Malformed
from hca.daemon.sysfs import files, hw_counters
from vgpu_sim.hal.messages import Header
from vgpu_sim.system import seqpacket
from vgpu_sim.system.foreign import ForeignSockets

logger = logging.getLogger("tessera.hcad")

CLASS_NAME = "infiniband"
HELLO_TIMEOUT_SECONDS = 5.0
GATHER_SECONDS = 5.0
MAX_CONNECTIONS = 8192
MAX_SILENT = 64
_BACKLOG = 1024
_HELLOS: Mapping[int, type[ctypes.Structure] | None] = {
    HcaMessage.JOIN: HcaHello,
    HcaMessage.OPEN: HcaHello,
    CmMessage.OPEN: HcaHello,
}


class Server(AdoptingPrograms):
    """Serves a fabric in ``directory``. ``on_empty`` is called when the last member has left."""

    max_connections = MAX_CONNECTIONS
    max_silent = MAX_SILENT
    managed = False
    """Whether programs may open a function only after the server has received tables."""

    def __init__(
        self,
        directory: Path,
        engine: Engine,
        memory_bytes: int,
        on_empty: Callable[[], None],
        shares: Shares,
        *,
        shared_loopback: bool = False,
        near: frozenset[bytes] = frozenset(),
        wire: WireInterface | None = None,
    ) -> None:
        enforcer = Enforcer(engine, Parties(), managed=self.managed)
        cm = CmServer(shared_loopback=shared_loopback, near=near)
        super().__init__(engine, memory_bytes, enforcer, cm)
        self._wire = wire
        self._directory = directory
        self._on_empty = on_empty
        self._shares = shares
        self._functions: dict[bytes, OpenedFunction] = {}
        self._indices: set[int] = set()
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent: dict[socket.socket, asyncio.Task[None]] = {}
        """Connections that have not identified themselves yet, the oldest first."""
        self.wires_made: Sequence[EngineWire] = ()
        """The engine's wires, which all functions of the fabric use."""
        self._shown: dict[Path, hw_counters.Shown] = {}
        self._members: dict[bytes, socket.socket] = {}

    @property
    def members(self) -> int:
        """Return the number of members of the fabric."""
        return len(self._functions)

    def open(self, listener: socket.socket, *, refusing: bool) -> None:
        """Begin to serve a bound socket.

        If ``refusing`` is set, the kernel rejects messages to this socket that carry
        descriptors.
        """
        self._listener = listener
        self._refusing = refusing
        self._listener.listen(_BACKLOG)
        self._begin(self._accept(self._listener, self._serve))
        self._begin(self._gather())
        self._begin(self._show())

    async def close(self) -> None:
        """Close all connections and thereby remove the clients' objects."""
        self._removal.finish()  # a task that waits for it must not be cancelled before
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._removal.finish()
        if self._listener is not None:
            self._listener.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _gather(self) -> None:
        """Read the engine's counts periodically, so that denials are logged even without a
        request.
        """
        while True:
            await asyncio.sleep(GATHER_SECONDS)
            await self.enforcer.collect_counts()

    async def _show(self) -> None:
        """Update the counter files of all devices periodically."""
        while True:
            await asyncio.sleep(hw_counters.REFRESH_SECONDS)
            devices = dict(self._devices_on_wires())
            self._shown = {path: files for path, files in self._shown.items() if path in devices}
            for path, wires in devices.items():
                counter_files = self._shown.setdefault(path, hw_counters.Shown(path))
                with suppress(OSError):  # a folder is removed before its function
                    counter_files.write_changed([self._engine.wire_counts(wire) for wire in wires])

    def _devices_on_wires(self) -> Iterator[tuple[Path, Sequence[EngineWire]]]:
        """Yield each device that is on wires: the device's folder, and those wires."""
        if self.wires_made:
            for function in self._functions.values():
                yield function.directory / DEVICE_NAME, self.wires_made

    async def _accept(
        self, listener: socket.socket, serve: Callable[[socket.socket], Coroutine[Any, Any, None]]
    ) -> None:
        while True:
            await seqpacket.wait_until_readable(listener.fileno())
            try:
                client, _ = listener.accept()
            except OSError as err:
                logger.warning("accept_failed error=%s", err)
                await asyncio.sleep(0.1)
                continue
            client.setblocking(False)
            # the oldest has had the most time to identify itself
            while len(self._silent) >= self.max_silent:
                self._silent.pop(next(iter(self._silent))).cancel()
                await asyncio.sleep(0)
            if len(self._tasks) > self.max_connections:
                client.close()
                continue
            self._silent[client] = self._begin(serve(client))

    async def _serve(self, client: socket.socket) -> None:
        sockets = ForeignSockets("hca", self._refusing)
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_SECONDS):
                packet = await sockets.receive(client, requests.MAX_REQUEST_BYTES + 1)
            self._silent.pop(client, None)
            if not packet.data:
                return
            if packet.truncated:
                raise Malformed("the message is too long, or carries descriptors")
            header, hello = requests.parse(packet.data, _HELLOS)
            serve = self._member if header.type == HcaMessage.JOIN else self._program
            await serve(client, sockets, header, hello)
        except (Malformed, TimeoutError, OSError) as err:
            if self._log_quota.take():
                logger.info("client_dropped reason=%r", str(err) or "timeout")
        finally:
            self._silent.pop(client, None)
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
        function = self._function(index)
        directory = function.directory / DEVICE_NAME
        files.write(directory, function.address, FIRMWARE, BOARD)
        self._add_member(token, function, client)
        try:
            await self._send(client, requests.encode(header, function.device()))
            await sockets.receive(client, 1)  # a member sends nothing more
        finally:
            self._remove_member(token)

    def _function(self, index: int) -> OpenedFunction:
        directory = self._directory / SYSFS_NAME / str(index) / CLASS_NAME
        address, mtu = address_of(index), hca.HCA_MAX_MTU
        if self._wire is not None:
            address, mtu = self._wire.address(address), self._wire.path_mtu()
        share, party = self._shares.new_share(), Party.of(f"f{index}", address)
        return OpenedFunction(index, address, directory, share, party, mtu=mtu)

    def _add_member(self, token: bytes, function: OpenedFunction, client: socket.socket) -> None:
        self._indices.add(function.index)
        self._functions[token] = function
        self._members[token] = client
        self.enforcer.parties.add(function.party)

    def _remove_member(self, token: bytes) -> None:
        for task in tuple(self._programs.pop(token, ())):
            task.cancel()
        function = self._functions.pop(token)
        del self._members[token]
        self.enforcer.parties.remove(function.party)
        self._indices.discard(function.index)
        files.remove(function.directory.parent)
        if not self._functions:
            self._on_empty()

    async def _program(
        self, client: socket.socket, sockets: ForeignSockets, header: Header, hello: HcaHello
    ) -> None:
        token = bytes(hello.token)
        function = self._functions.get(token)
        if function is None or hello.version != hca.HCA_VERSION:
            status = errno.EACCES if function is None else errno.EPROTO
            await self._send(client, requests.encode(header, None, status))
            return
        await self._serve_program(client, sockets, header, token, function)
