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
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rdma import codec
from vgpu_sim.fabric.addresses import Address, address_of
from vgpu_sim.fabric.engine import Engine
from vgpu_sim.fabric.links import DEFAULT_LINK, Link
from vgpu_sim.fabric.wire import WireInterface
from vgpu_sim.hal import hca
from vgpu_sim.hal.cm import CmMessage
from vgpu_sim.hal.hca import HcaDevice, HcaHello, HcaMessage
from vgpu_sim.hal.messages import Header
from vgpu_sim.hcad import cm_requests, lending, requests, sysfs
from vgpu_sim.hcad.client import DEFAULT_PKEY
from vgpu_sim.hcad.cm_server import CmServer
from vgpu_sim.hcad.enforcement import Enforcer
from vgpu_sim.hcad.guard import Guard
from vgpu_sim.hcad.luggage import Luggage, Row
from vgpu_sim.hcad.numbers import Numbers
from vgpu_sim.hcad.objects import AdoptedObjects, Objects
from vgpu_sim.hcad.parties import Parties, Party
from vgpu_sim.hcad.providers import Providers
from vgpu_sim.hcad.requests import Malformed
from vgpu_sim.hcad.shares import CLIENT_DESCRIPTORS, Share, Shares
from vgpu_sim.system import seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.pacing import LogQuota
from vgpu_sim.system.seqpacket import Packet

logger = logging.getLogger("tessera.hcad")

SOCKET_NAME = "hca.sock"
SYSFS_NAME = "sysfs"
CLASS_NAME = "infiniband"
DEVICE_NAME = "tessera_0"
FIRMWARE = "1.0.0"
BOARD = "TESSERA_VHCA"
HELLO_TIMEOUT_SECONDS = 5.0
OPEN_WAIT_SECONDS = 2.0
GATHER_SECONDS = 5.0
REPLY_TIMEOUT_SECONDS = 5.0
MAX_CONNECTIONS = 8192
MAX_SILENT = 64
LOG_LINES_PER_MINUTE = 30
_BACKLOG = 1024
_HELLOS: Mapping[int, type[ctypes.Structure] | None] = {
    HcaMessage.JOIN: HcaHello,
    HcaMessage.OPEN: HcaHello,
    CmMessage.OPEN: HcaHello,
}


@dataclass(frozen=True, slots=True)
class OpenedFunction:
    """What a member has, and its programs share."""

    index: int
    address: Address
    directory: Path
    share: Share
    party: Party
    link: Link = DEFAULT_LINK
    mtu: int = hca.HCA_MAX_MTU

    def device(self) -> HcaDevice:
        device = HcaDevice(
            name=DEVICE_NAME.encode(),
            firmware=FIRMWARE.encode(),
            board=BOARD.encode(),
            sysfs=os.fsencode(self.directory / DEVICE_NAME),
            width=self.link.width,
            speed=self.link.speed,
            mtu=self.mtu,
        )
        device.pkeys[0] = DEFAULT_PKEY
        ctypes.memmove(device.guid, self.address.guid, hca.HCA_GUID_BYTES)
        ctypes.memmove(device.gids, b"".join(self.address.gids), ctypes.sizeof(device.gids))
        return device


class Server:
    """Serves a fabric in ``directory``. ``on_empty`` is called when its last member has gone."""

    max_connections = MAX_CONNECTIONS
    max_silent = MAX_SILENT
    managed = False
    """Whether nothing is open before there are tables."""
    providers: Providers | None = None
    """Who has device memory for regions; the caller opens and closes them."""

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
        self._wire = wire
        self._directory = directory
        self._engine = engine
        self._memory_bytes = memory_bytes
        self._on_empty = on_empty
        self._shares = shares
        self._numbers = Numbers()
        self.enforcer = Enforcer(engine, Parties(), managed=self.managed)
        self._functions: dict[bytes, OpenedFunction] = {}
        self._indices: set[int] = set()
        self._listener: socket.socket | None = None
        self._refusing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent: dict[socket.socket, asyncio.Task[None]] = {}
        """Connections that have not said who they are, the oldest first."""
        self._programs: dict[bytes, set[asyncio.Task[None]]] = {}
        self._members: dict[bytes, socket.socket] = {}
        self._open: dict[socket.socket, tuple[bytes, Objects]] = {}
        self._answering = 0
        self._answered = asyncio.Event()
        self._answered.set()
        self._serving = asyncio.Event()
        self._serving.set()
        self._log_quota = LogQuota(LOG_LINES_PER_MINUTE)
        self.cm = CmServer(shared_loopback=shared_loopback, near=near)
        self.cm.manager.may_connect = self.enforcer.may_connect

    @property
    def members(self) -> int:
        """How many have joined."""
        return len(self._functions)

    def open(self, listener: socket.socket, *, refusing: bool) -> None:
        """Begin to serve a socket that is bound; ``refusing``: it lets no descriptors in."""
        self._listener = listener
        self._refusing = refusing
        self._listener.listen(_BACKLOG)
        self._begin(self._accept(self._listener, self._serve))
        self._begin(self._gather())

    async def close(self) -> None:
        """Hang up on everybody; their objects go."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._listener is not None:
            self._listener.close()

    async def pause(self) -> bool:
        """Begin no further answer; tell whether all that were begun are given.

        Who does not read its answer is hung up on in REPLY_TIMEOUT_SECONDS.
        """
        self._serving.clear()
        if not self._refusing:
            return False  # a thread may have a message in its hands
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_SECONDS + 1):
                while self._answering:
                    await self._answered.wait()
        except TimeoutError:
            return False
        return True

    def resume(self) -> None:
        """Answer again."""
        self._serving.set()

    def save(self, luggage: Luggage) -> Row:
        """Write everything for a successor; this server is paused and the engine held."""
        assert self._listener is not None
        tables = self.enforcer.tables
        return {
            "listener": luggage.pack(self._listener.fileno()),
            "silent": [luggage.pack(client.fileno()) for client in self._silent],
            "last_domain": self._numbers.last_pd,
            "tables": codec.encode(tables) if tables is not None else "",
            "members": [
                {
                    "token": token.hex(),
                    "index": self._functions[token].index,
                    "socket": luggage.pack(client.fileno()),
                }
                for token, client in self._members.items()
            ],
            "programs": [
                {
                    "token": token.hex(),
                    "socket": luggage.pack(client.fileno()),
                    "objects": objects.save(luggage),
                }
                for client, (token, objects) in self._open.items()
                if token in self._functions
            ],
        }

    def load(self, saved: Row, luggage: Luggage) -> Callable[[], None]:
        """Take over what a predecessor saved; return what begins to serve it.

        Raises:
            OSError, ValueError, KeyError, TypeError: what is missing or makes no sense.
        """
        listener = socket.socket(fileno=luggage.take(saved["listener"]))
        listener.setblocking(False)
        self._numbers.adopt_pds(int(saved["last_domain"]))
        if saved["tables"]:  # before anybody is connected, who would be judged without them
            self.enforcer.switch(codec.decode(saved["tables"]))
        silent = [self._adopt({"socket": place}, luggage) for place in saved["silent"]]
        works: list[Callable[[], Coroutine[Any, Any, None]]] = []
        for row in saved["members"]:
            token, client = bytes.fromhex(row["token"]), self._adopt(row, luggage)
            self._add_member(token, self._function(int(row["index"])), client)
            works.append(partial(self._adopted_member, client, token))
        for row in saved["programs"]:
            token, client = bytes.fromhex(row["token"]), self._adopt(row, luggage)
            objects = self._adopt_objects(self._functions[token], row["objects"], luggage)
            works.append(partial(self._adopted_program, client, token, objects))

        def serve() -> None:
            self.open(listener, refusing=True)
            for work in works:
                self._begin(work())
            for client in silent:
                self._silent[client] = self._begin(self._serve(client))

        return serve

    @staticmethod
    def _adopt(row: Row, luggage: Luggage) -> socket.socket:
        client = socket.socket(fileno=luggage.take(row["socket"]))
        client.setblocking(False)
        return client

    def _adopt_objects(self, function: OpenedFunction, saved: Row, luggage: Luggage) -> Objects:
        objects = AdoptedObjects(
            *(self._engine, self._numbers, function.address.gids, self._memory_bytes),
            luggage.take_all(saved["descriptors"]),
            Guard(self.enforcer, function.party),
            function.mtu,
        )
        objects.share = function.share
        objects.providers = self.providers
        objects.service_of = self.cm.manager.service_of
        with function.share.adopting():
            function.share.take(CLIENT_DESCRIPTORS)
            objects.load(saved, luggage)
        return objects

    async def _adopted_member(self, client: socket.socket, token: bytes) -> None:
        sockets = ForeignSockets("hca", self._refusing)
        with suppress(OSError):
            await sockets.receive(client, 1)
        sockets.close(client)
        self._remove_member(token)

    async def _adopted_program(self, client: socket.socket, token: bytes, objects: Objects) -> None:
        sockets = ForeignSockets("hca", self._refusing)
        try:
            with self._among_programs(token):
                await self._requests(client, sockets, token, self._functions[token], objects)
        except (Malformed, TimeoutError, OSError) as err:
            if self._log_quota.take():
                logger.info("client_dropped reason=%r", str(err) or "timeout")
        finally:
            sockets.close(client)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _gather(self) -> None:
        """Write down what the engine denies, though nobody asks."""
        while True:
            await asyncio.sleep(GATHER_SECONDS)
            self.enforcer.flows.gather()

    async def _accept(
        self, listener: socket.socket, serve: Callable[[socket.socket], Coroutine[Any, Any, None]]
    ) -> None:
        while True:
            await seqpacket.readable(listener.fileno())
            try:
                client, _ = listener.accept()
            except OSError as err:
                logger.warning("accept_failed error=%s", err)
                await asyncio.sleep(0.1)
                continue
            client.setblocking(False)
            while len(self._silent) >= self.max_silent:  # the oldest has had the most time
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
                raise Malformed("too long, or brought descriptors")
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
        sysfs.write(directory, function.address, FIRMWARE, BOARD)
        self._add_member(token, function, client)
        try:
            await self._send(client, requests.encode(header, function.device()))
            await sockets.receive(client, 1)  # it has nothing more to say
        finally:
            self._remove_member(token)

    def _function(self, index: int) -> OpenedFunction:
        directory = self._directory / SYSFS_NAME / str(index) / CLASS_NAME
        address, mtu = address_of(index), hca.HCA_MAX_MTU
        if self._wire is not None:
            address, mtu = self._wire.address(address), self._wire.path_mtu()
        share, party = self._shares.share(), Party.of(f"f{index}", address)
        return OpenedFunction(index, address, directory, share, party, mtu=mtu)

    def _add_member(self, token: bytes, function: OpenedFunction, client: socket.socket) -> None:
        self._indices.add(function.index)
        self._functions[token] = function
        self._members[token] = client
        self.enforcer.parties.enter(function.party)

    def _remove_member(self, token: bytes) -> None:
        for task in tuple(self._programs.pop(token, ())):
            task.cancel()
        function = self._functions.pop(token)
        del self._members[token]
        self.enforcer.parties.leave(function.party)
        self._indices.discard(function.index)
        sysfs.remove(function.directory.parent)
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
        await self._opened(client, sockets, header, token, function)

    async def _opened(
        self,
        client: socket.socket,
        sockets: ForeignSockets,
        header: Header,
        key: bytes,
        function: OpenedFunction,
    ) -> None:
        """Serve a program that may open a function; it ends with the others of that ``key``."""
        with self._among_programs(key):
            if not await self.enforcer.until_known(function.party, OPEN_WAIT_SECONDS):
                await self._send(client, requests.encode(header, None, errno.EAGAIN))
                return
            if header.type == CmMessage.OPEN:
                await self._connections(client, sockets, header, function)
                return
            try:
                objects = self._admit(function)
            except OSError as err:
                await self._send(client, requests.encode(header, None, err.errno or errno.EIO))
                return
            opened = (objects.page_fd, objects.doorbell_fd)
            device = function.device()
            for place, pkey in enumerate(objects.pkeys):
                device.pkeys[place] = pkey
            try:
                await self._send(client, requests.encode(header, device), opened)
            except BaseException:
                self._dismiss(function, objects)
                raise
            await self._requests(client, sockets, key, function, objects)

    @contextmanager
    def _among_programs(self, key: bytes) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._programs.setdefault(key, set()).add(task)
        try:
            yield
        finally:
            self._programs.get(key, set()).discard(task)

    async def _requests(
        self,
        client: socket.socket,
        sockets: ForeignSockets,
        key: bytes,
        function: OpenedFunction,
        objects: Objects,
    ) -> None:
        """Answer a program until it hangs up; then its objects go."""
        self._open[client] = key, objects
        try:
            while True:
                packet = await sockets.receive(client, requests.MAX_REQUEST_BYTES + 1)
                if not packet.data:
                    return
                if packet.truncated:
                    raise Malformed("too long, or brought descriptors")
                await self._answer(client, objects, packet, key)
                await self._serving.wait()
        finally:
            del self._open[client]
            self._dismiss(function, objects)

    @staticmethod
    def _dismiss(function: OpenedFunction, objects: Objects) -> None:
        objects.close()
        function.share.give(CLIENT_DESCRIPTORS)

    def _admit(self, function: OpenedFunction) -> Objects:
        """Open a function for one more program. Raises OSError."""
        function.share.take(CLIENT_DESCRIPTORS)
        try:
            objects = Objects(
                *(self._engine, self._numbers, function.address.gids, self._memory_bytes),
                Guard(self.enforcer, function.party),
                function.mtu,
            )
        except OSError:
            function.share.give(CLIENT_DESCRIPTORS)
            raise
        objects.share = function.share
        objects.providers = self.providers
        objects.service_of = self.cm.manager.service_of
        return objects

    async def _connections(
        self,
        client: socket.socket,
        sockets: ForeignSockets,
        header: Header,
        function: OpenedFunction,
    ) -> None:
        """Serve a program's librdmacm."""
        ids = self.cm.ids(function.address.gids)
        try:
            await self._send(client, requests.encode(header, function.device()))
            while True:
                packet = await sockets.receive(client, requests.MAX_REQUEST_BYTES + 1)
                if not packet.data:
                    return
                if packet.truncated:
                    raise Malformed("too long, or brought descriptors")
                await self._reply(client, cm_requests.answer(ids, packet.data))
        finally:
            ids.close()

    async def _answer(
        self, client: socket.socket, objects: Objects, packet: Packet, key: bytes
    ) -> None:
        if not lending.is_asked_for(packet.data):
            await self._reply(client, requests.answer(objects, packet.data))
            return
        with self._being_answered():
            made = await lending.answer(objects, key, client, packet.sender, packet.data)
            await self._reply(client, made)

    @contextmanager
    def _being_answered(self) -> Iterator[None]:
        self._answering += 1
        self._answered.clear()
        try:
            yield
        finally:
            self._answering -= 1
            if not self._answering:
                self._answered.set()

    async def _reply(self, client: socket.socket, made: tuple[bytes, tuple[int, ...], str]) -> None:
        reply, descriptors, refused = made
        if refused and self._log_quota.take():
            logger.info("request_refused reason=%r", refused)
        try:
            with self._being_answered():
                await self._send(client, reply, descriptors)
        finally:
            for descriptor in descriptors:
                with suppress(OSError):
                    os.close(descriptor)

    @staticmethod
    async def _send(client: socket.socket, data: bytes, descriptors: tuple[int, ...] = ()) -> None:
        if not descriptors:  # there is room nearly always: no timer then
            with suppress(BlockingIOError):
                client.send(data, socket.MSG_NOSIGNAL)
                return
        async with asyncio.timeout(REPLY_TIMEOUT_SECONDS):
            await seqpacket.send(client, data, descriptors)
