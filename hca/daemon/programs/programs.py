"""Programs that may open a function: opened for them, answered until they hang up.

Whoever lets them in (by a token, by their process) has a module of its own.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

from hca.binding.engine import Engine
from hca.contract.cm import CmMessage
from hca.contract.hca import HcaMessage
from hca.daemon.cm.server import CmServer
from hca.daemon.common.numbers import Numbers
from hca.daemon.common.quotas import CLIENT_BYTES, CLIENT_DESCRIPTORS
from hca.daemon.objects.client_objects import Objects
from hca.daemon.objects.providers import Providers
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.guard import Guard
from hca.daemon.programs import batches, cm_requests, entering, lending, requests, resizing
from hca.daemon.programs.exchange import Exchange, Respond, Rest
from hca.daemon.programs.opened_function import OpenedFunction
from hca.daemon.programs.requests import Malformed
from hca.daemon.wires.groups import WireGroups
from vgpu_sim.hal.messages import Header
from vgpu_sim.system import seqpacket
from vgpu_sim.system.descriptors import send as send_descriptors
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.pacing import LogQuota
from vgpu_sim.system.seqpacket import Packet

logger = logging.getLogger("tessera.hcad")

OPEN_WAIT_SECONDS: Final = 2.0
REPLY_TIMEOUT_SECONDS: Final = 5.0
LOG_LINES_PER_MINUTE: Final = 30
# Requests that wait for something before they are carried out.
_ANSWERED_LATER: Final = {
    int(HcaMessage.MCAST_ATTACH): entering.answer,
    int(HcaMessage.CQ_RESIZE): resizing.answer,
}


class Programs:
    """Serves the programs of every function of an engine."""

    providers: Providers | None = None
    """Who has device memory for regions; the caller opens and closes them."""
    wire_groups: WireGroups | None = None
    """Which multicast groups the wires are in; None: there is no wire."""

    def __init__(self, engine: Engine, memory_bytes: int, enforcer: Enforcer, cm: CmServer) -> None:
        """``memory_bytes``: that each program may register."""
        self._engine = engine
        self._memory_bytes = memory_bytes
        self._numbers = Numbers()
        self.enforcer = enforcer
        self.cm = cm
        self.cm.manager.may_connect = enforcer.may_connect
        self._refusing = False
        """Whether the kernel lets nobody send descriptors to sockets that listen here."""
        self._programs: dict[bytes, set[asyncio.Task[None]]] = {}
        self._open: dict[socket.socket, tuple[bytes, Objects]] = {}
        self._opening = 0
        """How many programs have said who they are, and not been let in yet."""
        self._connecting = 0
        """How many programs' librdmacm are served."""
        self._answering = 0
        self._answered = asyncio.Event()
        self._answered.set()
        self._serving = asyncio.Event()
        self._serving.set()
        self._log_quota = LogQuota(LOG_LINES_PER_MINUTE)

    async def pause(self) -> str:
        """Begin no further answer; once all that were begun are given, say what forbids to stop.

        Who does not read its answer is hung up on in REPLY_TIMEOUT_SECONDS.
        """
        self._serving.clear()
        if not self._refusing:  # a thread may have a message in its hands
            return "the kernel is older than 6.16"
        await asyncio.sleep(0)  # what was taken in this turn of the loop is counted in the next
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_SECONDS + 1):
                while self._answering:
                    await self._answered.wait()
        except TimeoutError:
            return "clients are being answered"
        if self._opening:
            return "a program opens its function"
        if self._connecting:
            return "connections of librdmacm cannot be handed over"
        return ""

    def resume(self) -> None:
        """Answer again."""
        self._serving.set()

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
            self._opening += 1
            try:
                known = await self.enforcer.until_known(function.party, OPEN_WAIT_SECONDS)
                if not known:
                    await self._send(client, requests.encode(header, None, errno.EAGAIN))
                    return
                is_cm = header.type == CmMessage.OPEN
                objects = None if is_cm else await self._admitted(client, header, function)
            finally:
                self._opening -= 1
            if is_cm:
                await self._connections(client, sockets, header, function)
            elif objects is not None:
                await self._requests(client, sockets, key, function, objects)

    async def _admitted(
        self, client: socket.socket, header: Header, function: OpenedFunction
    ) -> Objects | None:
        """Open a function for a program, and answer it; None where it is refused."""
        try:
            objects = self._admit(function)
        except OSError as err:
            await self._send(client, requests.encode(header, None, err.errno or errno.EIO))
            return None
        opened = (objects.page_fd, objects.doorbell_fd)
        device = function.device()
        for place, pkey in enumerate(objects.pkeys):
            device.pkeys[place] = pkey
        try:
            await self._send(client, requests.encode(header, device), opened)
        except BaseException:
            self._dismiss(function, objects)
            raise
        return objects

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

        def respond(packet: Packet) -> Rest | None:
            if lending.is_asked_for(packet.data):
                return partial(self._lend, client, objects, packet, key)
            kind = requests.type_of(packet.data)
            if kind in _ANSWERED_LATER:
                return partial(self._answer_later, client, objects, packet)
            answer = batches.answer if kind == HcaMessage.BATCH else requests.answer
            return self._deliver(client, answer(objects, packet.data))

        self._open[client] = key, objects
        try:
            await self._converse(client, sockets, respond)
        finally:
            del self._open[client]
            self._dismiss(function, objects)

    @staticmethod
    def _dismiss(function: OpenedFunction, objects: Objects) -> None:
        objects.close()
        function.share.give(CLIENT_DESCRIPTORS, 0, CLIENT_BYTES)

    def _admit(self, function: OpenedFunction) -> Objects:
        """Open a function for one more program. Raises OSError."""
        function.share.take(CLIENT_DESCRIPTORS, 0, CLIENT_BYTES)
        try:
            objects = Objects(
                *(self._engine, self._numbers, function.address.gids, self._memory_bytes),
                Guard(self.enforcer, function.party),
                function.mtu,
            )
        except OSError:
            function.share.give(CLIENT_DESCRIPTORS, 0, CLIENT_BYTES)
            raise
        objects.share = function.share
        objects.providers = self.providers
        objects.wire_groups = self.wire_groups
        objects.bindings = self.cm.manager.bindings
        return objects

    async def _connections(
        self,
        client: socket.socket,
        sockets: ForeignSockets,
        header: Header,
        function: OpenedFunction,
    ) -> None:
        """Serve a program's librdmacm."""
        try:
            ids = self.cm.ids(function.address.gids, function.mtu, function.share)
        except OSError as err:
            await self._send(client, requests.encode(header, None, err.errno or errno.EIO))
            return
        self._connecting += 1
        try:
            await self._send(client, requests.encode(header, function.device()))
            await self._converse(
                *(client, sockets),
                lambda packet: self._deliver(client, cm_requests.answer(ids, packet.data)),
            )
        finally:
            self._connecting -= 1
            ids.close()

    async def _converse(
        self, client: socket.socket, sockets: ForeignSockets, respond: Respond
    ) -> None:
        """Answer a client until it hangs up. Raises Malformed, OSError."""

        def checked(packet: Packet) -> Rest | None:
            if packet.truncated:
                raise Malformed("too long, or brought descriptors")
            return respond(packet)

        limit_bytes = requests.MAX_REQUEST_BYTES + 1
        if self._refusing:
            await Exchange(client, limit_bytes, checked, self._serving).run()
            return
        while (packet := await sockets.receive(client, limit_bytes)).data:
            rest = checked(packet)
            if rest is not None:
                await rest()
            await self._serving.wait()

    async def _lend(
        self, client: socket.socket, objects: Objects, packet: Packet, key: bytes
    ) -> None:
        with self._being_answered():
            made = await lending.answer(objects, key, client, packet.sender, packet.data)
            await self._reply(client, made)

    async def _answer_later(self, client: socket.socket, objects: Objects, packet: Packet) -> None:
        answer = _ANSWERED_LATER[requests.type_of(packet.data)]
        with self._being_answered():
            await self._reply(client, await answer(objects, packet.data))

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

    def _deliver(
        self, client: socket.socket, made: tuple[bytes, tuple[int, ...], str]
    ) -> Rest | None:
        """Send an answer; return what is left to do where there is no room for it now."""
        reply, descriptors, refused = made
        if refused and self._log_quota.take():
            logger.info("request_refused reason=%r", refused)
        try:
            if descriptors:
                send_descriptors(client, [reply], descriptors, socket.MSG_NOSIGNAL)
            else:
                client.send(reply, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return partial(self._reply, client, (reply, descriptors, ""))
        except BaseException:
            _close(descriptors)
            raise
        _close(descriptors)
        return None

    async def _reply(self, client: socket.socket, made: tuple[bytes, tuple[int, ...], str]) -> None:
        reply, descriptors, refused = made
        if refused and self._log_quota.take():
            logger.info("request_refused reason=%r", refused)
        try:
            with self._being_answered():
                await self._send(client, reply, descriptors)
        finally:
            _close(descriptors)

    @staticmethod
    async def _send(client: socket.socket, data: bytes, descriptors: tuple[int, ...] = ()) -> None:
        if not descriptors:  # there is room nearly always: no timer then
            with suppress(BlockingIOError):
                client.send(data, socket.MSG_NOSIGNAL)
                return
        async with asyncio.timeout(REPLY_TIMEOUT_SECONDS):
            await seqpacket.send(client, data, descriptors)


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
