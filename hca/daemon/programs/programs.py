"""Serve programs that may open a function: hcad opens it for them and serves them until they close.

``server`` and ``pods`` decide which programs may open a function, by a token or by the process.
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
from hca.daemon.common.steps import StepRunner, Steps, run_at_once
from hca.daemon.objects.client_objects import Objects
from hca.daemon.objects.providers import Providers
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.guard import Guard
from hca.daemon.programs import (
    batches,
    cm_requests,
    device_memory,
    group_requests,
    requests,
    resizing,
)
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

REPLY_TIMEOUT_SECONDS: Final = 5.0
LOG_LINES_PER_MINUTE: Final = 30
# requests that hcad executes only after it has waited for something
_ANSWERED_LATER: Final = {
    int(HcaMessage.MCAST_ATTACH): group_requests.answer,
    int(HcaMessage.CQ_RESIZE): resizing.answer,
}


class Programs:
    """Serves the programs of every function of an engine."""

    providers: Providers | None = None
    """The importer of device memory for regions; the creator of this object opens and closes it."""
    wire_groups: WireGroups | None = None
    """The multicast groups of the wires; None: there is no wire."""

    def __init__(self, engine: Engine, memory_bytes: int, enforcer: Enforcer, cm: CmServer) -> None:
        """Serve no program yet; ``memory_bytes`` is the host memory that each program may
        register.
        """
        self._engine = engine
        self._memory_bytes = memory_bytes
        self._numbers = Numbers()
        self.enforcer = enforcer
        self.cm = cm
        self.cm.manager.may_connect = enforcer.find_refusal
        self._refusing = False
        """Whether the kernel refuses descriptors sent to sockets that listen here."""
        self._programs: dict[bytes, set[asyncio.Task[None]]] = {}
        self._open: dict[socket.socket, tuple[bytes, Objects]] = {}
        self._opening = 0
        """The number of programs that have sent their first message but have not been admitted
        yet.
        """
        self._connecting = 0
        """The number of programs whose librdmacm is served."""
        self._answering = 0
        self._answered = asyncio.Event()
        self._answered.set()
        self._serving = asyncio.Event()
        self._serving.set()
        self._log_quota = LogQuota(LOG_LINES_PER_MINUTE)
        self._removal = StepRunner()

    async def pause(self) -> str:
        """Stop serving programs and wait until all replies are sent.

        Return the reason why a handover is impossible, or "". A program that does not read its
        reply is disconnected after REPLY_TIMEOUT_SECONDS.
        """
        self._serving.clear()
        if not self._refusing:  # a thread may hold a message that it has received
            return "the kernel is older than 6.16"
        await asyncio.sleep(0)  # count messages received in this iteration
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
        """Resume serving programs after ``pause``."""
        self._serving.set()

    async def _serve_program(
        self,
        client: socket.socket,
        sockets: ForeignSockets,
        header: Header,
        key: bytes,
        function: OpenedFunction,
    ) -> None:
        """Serve a program that may open a function, until it closes its socket or all programs with
        ``key`` are ended.
        """
        with self._among_programs(key):
            self._opening += 1
            try:
                if not self.enforcer.is_known(function.party):
                    await self._send(client, requests.encode(header, None, errno.EAGAIN))
                    return
                is_cm = header.type == CmMessage.OPEN
                objects = None if is_cm else await self._open_and_reply(client, header, function)
            finally:
                self._opening -= 1
            if is_cm:
                await self._serve_connections(client, sockets, header, function)
            elif objects is not None:
                await self._serve_requests(client, sockets, key, function, objects)

    async def _open_and_reply(
        self, client: socket.socket, header: Header, function: OpenedFunction
    ) -> Objects | None:
        """Open a function for a program and reply; return the program's objects, or None if this is
        refused.
        """
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

    async def _serve_requests(
        self,
        client: socket.socket,
        sockets: ForeignSockets,
        key: bytes,
        function: OpenedFunction,
        objects: Objects,
    ) -> None:
        """Serve a program's requests until it closes its socket, then remove its objects."""

        def respond(packet: Packet) -> Rest | None:
            if device_memory.is_device_memory_request(packet.data):
                return partial(self._attach_device_memory, client, objects, packet, key)
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
            await self._remove_in_steps(function, objects)

    async def _remove_in_steps(self, function: OpenedFunction, objects: Objects) -> None:
        """Stop serving a program, and remove its objects in steps."""
        objects.end()
        await self._removal.run(self._removal_of(function, objects))

    def _dismiss(self, function: OpenedFunction, objects: Objects) -> None:
        """Stop serving a program that has no objects yet, and remove it at once."""
        objects.end()
        run_at_once(self._removal_of(function, objects))

    @staticmethod
    def _removal_of(function: OpenedFunction, objects: Objects) -> Steps[None]:
        yield from objects.remove_in_steps()
        function.share.refund(CLIENT_DESCRIPTORS, 0, CLIENT_BYTES)

    def _admit(self, function: OpenedFunction) -> Objects:
        """Make the objects for one more program of a function. Raises OSError."""
        function.share.charge(CLIENT_DESCRIPTORS, 0, CLIENT_BYTES)
        try:
            objects = Objects(
                self._engine,
                self._numbers,
                function.address.gids,
                self._memory_bytes,
                Guard(self.enforcer, function.party),
                function.mtu,
            )
        except OSError:
            function.share.refund(CLIENT_DESCRIPTORS, 0, CLIENT_BYTES)
            raise
        objects.share = function.share
        objects.providers = self.providers
        objects.wire_groups = self.wire_groups
        objects.bindings = self.cm.manager.bindings
        return objects

    async def _serve_connections(
        self,
        client: socket.socket,
        sockets: ForeignSockets,
        header: Header,
        function: OpenedFunction,
    ) -> None:
        """Serve the requests of a program's librdmacm."""
        try:
            ids = self.cm.new_ids(function.address.gids, function.mtu, function.share)
        except OSError as err:
            await self._send(client, requests.encode(header, None, err.errno or errno.EIO))
            return
        self._connecting += 1
        try:
            await self._send(client, requests.encode(header, function.device()))
            await self._converse(
                client,
                sockets,
                lambda packet: self._deliver(client, cm_requests.answer(ids, packet.data)),
            )
        finally:
            self._connecting -= 1
            await self._removal.run(ids.remove_in_steps())

    async def _converse(
        self, client: socket.socket, sockets: ForeignSockets, respond: Respond
    ) -> None:
        """Serve a client's messages until it closes its socket. Raises Malformed, OSError."""

        def respond_if_whole(packet: Packet) -> Rest | None:
            if packet.truncated:
                raise Malformed("the message is too long, or carries descriptors")
            return respond(packet)

        limit_bytes = requests.MAX_REQUEST_BYTES + 1
        if self._refusing:
            await Exchange(client, limit_bytes, respond_if_whole, self._serving).run()
            return
        while (packet := await sockets.receive(client, limit_bytes)).data:
            remaining_work = respond_if_whole(packet)
            if remaining_work is not None:
                await remaining_work()
            await self._serving.wait()

    async def _attach_device_memory(
        self, client: socket.socket, objects: Objects, packet: Packet, key: bytes
    ) -> None:
        with self._counting_answer():
            outcome = await device_memory.answer(objects, key, client, packet.sender, packet.data)
            await self._reply(client, outcome)

    async def _answer_later(self, client: socket.socket, objects: Objects, packet: Packet) -> None:
        answer = _ANSWERED_LATER[requests.type_of(packet.data)]
        with self._counting_answer():
            await self._reply(client, await answer(objects, packet.data))

    @contextmanager
    def _counting_answer(self) -> Iterator[None]:
        self._answering += 1
        self._answered.clear()
        try:
            yield
        finally:
            self._answering -= 1
            if not self._answering:
                self._answered.set()

    def _deliver(
        self, client: socket.socket, outcome: tuple[bytes, tuple[int, ...], str]
    ) -> Rest | None:
        """Send a reply; return the remaining work if the socket has no room for the reply now."""
        reply, descriptors, refused = outcome
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

    async def _reply(
        self, client: socket.socket, outcome: tuple[bytes, tuple[int, ...], str]
    ) -> None:
        reply, descriptors, refused = outcome
        if refused and self._log_quota.take():
            logger.info("request_refused reason=%r", refused)
        try:
            with self._counting_answer():
                await self._send(client, reply, descriptors)
        finally:
            _close(descriptors)

    @staticmethod
    async def _send(client: socket.socket, data: bytes, descriptors: tuple[int, ...] = ()) -> None:
        if not descriptors:  # there nearly always is room, so no timer is needed
            with suppress(BlockingIOError):
                client.send(data, socket.MSG_NOSIGNAL)
                return
        async with asyncio.timeout(REPLY_TIMEOUT_SECONDS):
            await seqpacket.send(client, data, descriptors)


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
