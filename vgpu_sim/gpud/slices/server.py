"""The slice socket of one MIG instance: reads HELLOs, answers queries, passes contexts on.

Tenants can send anything to this socket. A connection must send its single message within
HELLO_TIMEOUT_SECONDS; if too many are silent, the oldest silent one is closed. A client that
keeps gpud busy is made to wait.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from vgpu_sim.gpud.errors import HelloRefused, RetryLater
from vgpu_sim.gpud.model import InstanceUuid, MigInstance, Owner
from vgpu_sim.gpud.slices import SOCKET_NAME, hello as hellos, management
from vgpu_sim.gpud.slices.admission import Admission
from vgpu_sim.gpud.slices.hello import Hello, MalformedHello
from vgpu_sim.gpud.slices.replies import Replies
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import DeviceInfo
from vgpu_sim.system import foreign, processes, seqpacket, socket_paths
from vgpu_sim.system.admin_socket.errors import RequestError
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.pacing import LogQuota, Pace, Turnstile
from vgpu_sim.system.peers import Peer, peer_of, peer_pidfd_of

logger = logging.getLogger("tessera.gpud")

HELLO_TIMEOUT_SECONDS = 5.0
MAX_PENDING = 64
LOG_LINES_PER_MINUTE = 30
_ACCEPT_FAILED_PAUSE_SECONDS = 0.5
HELLOS_PER_SECOND = 500
_MESSAGE_BYTES = max(hellos.HELLO_BYTES, management.REQUEST_BYTES)
_BACKLOG = 1024  # connections that wait to be accepted; a full queue refuses at once


class ContextStarter(Protocol):
    """Starts the worker of an authorised context."""

    async def launch(
        self, instance: MigInstance, hello: Hello, client: socket.socket, peer: Peer, owner: Owner
    ) -> None:
        """Start a worker for the context, and pass the client's socket to it. Raises
        HelloRefused.
        """


class SliceServer:
    """Serves the socket ``<directory>/s.sock`` of one instance until closed.

    ``instance_of`` returns the instance, and ``refusal`` returns why a GPU's state allows no
    context. Both are called for every client, because an instance can be withdrawn or fail while
    the server runs.
    """

    def __init__(
        self,
        uuid: InstanceUuid,
        directory: Path,
        instance_of: Callable[[str], MigInstance],
        describe: Callable[[MigInstance, int], DeviceInfo],
        admission: Admission,
        starter: ContextStarter,
        refusal: Callable[[MigInstance], tuple[int, str] | None] = lambda _: None,
        answers: management.Answers | None = None,
    ) -> None:
        self.directory = directory
        self._uuid = uuid
        self._instance_of = instance_of
        self._describe = describe
        self._admission = admission
        self._starter = starter
        self._refusal = refusal
        self._answers = answers
        self._listener: socket.socket | None = None
        self._sockets = ForeignSockets(uuid, refusing=False)
        self._accepting: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], None] = {}
        self._turns = Turnstile(HELLOS_PER_SECOND)
        self._replies = Replies()
        # Slices share the pool of threads that look up processes, so each uses one at a time.
        self._managing = asyncio.Lock()
        self._log_quota = LogQuota(LOG_LINES_PER_MINUTE)

    def open(self, socket_mode: int, directory_mode: int) -> None:
        """Bind the socket and start to serve.

        Raises:
            OSError: the socket or its directory cannot be created.
            ValueError: the path is too long.
        """
        path = self.directory / SOCKET_NAME
        if len(os.fsencode(path)) > socket_paths.MAX_PATH_BYTES:
            raise ValueError(
                f"socket path is longer than {socket_paths.MAX_PATH_BYTES} bytes: {path}"
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(directory_mode)
        self._listener = seqpacket.bind(path, socket_mode)
        self._sockets = ForeignSockets(self._uuid, foreign.refuse_descriptors(self._listener))
        # Not earlier: a connection inherits the listener's options when the client connects.
        self._listener.listen(_BACKLOG)
        self._sockets.start()
        self._accepting = asyncio.create_task(self._accept(self._listener))

    async def close(self, remove_directory: bool) -> None:
        """Stop serving. Waiting clients are disconnected; live contexts continue."""
        if self._accepting is not None:
            self._accepting.cancel()
        for task in tuple(self._serving):
            task.cancel()
        if self._serving:
            await asyncio.wait(tuple(self._serving))
        if self._listener is not None:
            self._sockets.close(self._listener)
            self._sockets.end()
            with suppress(OSError):
                (self.directory / SOCKET_NAME).unlink()
        if remove_directory:
            with suppress(OSError):
                self.directory.rmdir()

    async def _accept(self, listener: socket.socket) -> None:
        pace = Pace(HELLOS_PER_SECOND)
        while True:
            await pace.wait_for_turn()
            await self._sockets.wait_for_room()
            await seqpacket.wait_until_readable(listener.fileno())
            try:
                client, _ = listener.accept()
            except OSError as err:  # the client has gone, or gpud is out of descriptors
                logger.warning("accept_failed instance=%s error=%s", self._uuid, err)
                await asyncio.sleep(_ACCEPT_FAILED_PAUSE_SECONDS)
                continue
            client.setblocking(False)
            while self._pending >= MAX_PENDING and self._silent:
                await self._drop_oldest_silent()
            if self._pending >= MAX_PENDING:
                self._sockets.close(client)
                continue
            task = asyncio.create_task(self._serve(client))
            self._serving.add(task)
            self._silent[task] = None
            task.add_done_callback(self._forget)

    @property
    def _pending(self) -> int:
        """The number of clients that have not been answered."""
        return len(self._serving) - self._replies.unread

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._serving.discard(task)
        self._silent.pop(task, None)

    async def _drop_oldest_silent(self) -> None:
        oldest = next(iter(self._silent))
        oldest.cancel()
        await asyncio.wait((oldest,))
        self._forget(oldest)

    async def _serve(self, client: socket.socket) -> None:
        close = self._sockets.close
        try:
            peer = peer_of(client)
            async with asyncio.timeout(HELLO_TIMEOUT_SECONDS):
                packet = await self._sockets.receive(client, _MESSAGE_BYTES + 1)
            if not packet.data:
                return
            hello = _parse(packet)
            task = asyncio.current_task()
            if task is not None:
                self._silent.pop(task, None)
            await self._turns.wait_for_turn()
            if isinstance(hello, management.Ask):
                await self._manage(client, hello, peer, packet.sender)
                return
            if hello.wants_context:
                close = self._sockets.close_shared
            await self._answer(client, hello, peer, packet.sender)
        except (MalformedHello, RetryLater, TimeoutError, OSError) as err:
            if self._log_quota.take():
                reason = str(err) or "timeout"
                logger.info("client_dropped instance=%s reason=%r", self._uuid, reason)
        finally:
            close(client)

    async def _answer(
        self, client: socket.socket, hello: Hello, peer: Peer, sender: Peer | None
    ) -> None:
        try:
            hello.check()
            instance = self._current_instance()
            self._refuse_unhealthy(instance, hello.wants_context)
            if hello.wants_context:
                await self._start_context(client, instance, hello, peer, sender)
                return
            info = self._describe(instance, hello.thread_share)
            reply = hellos.encode(hello.reply_type, hello.request, info)
        except HelloRefused as err:
            self._log_refusal(peer, err)
            reply = hellos.encode(hello.reply_type, hello.request, status=err.status)
        await self._reply(client, reply, peer, sender)

    async def _manage(
        self, client: socket.socket, ask: management.Ask, peer: Peer, sender: Peer | None
    ) -> None:
        try:
            instance = self._instance_of(self._uuid)
        except RequestError:
            return  # withdrawn at this moment: the client finds no socket when it retries
        if self._answers is None:
            return
        async with self._managing:
            reply = await self._answers.answer_slice_request(instance, ask, peer, sender)
        await self._reply(client, reply, peer, sender)

    async def _reply(
        self, client: socket.socket, reply: bytes, peer: Peer, sender: Peer | None
    ) -> None:
        async def is_holder() -> bool:
            return await self._admission.is_holder(self._uuid, peer, sender)

        await self._replies.send(client, reply, is_holder)

    def _log_refusal(self, peer: Peer, refused: HelloRefused) -> None:
        if self._log_quota.take():
            logger.warning(
                "client_refused instance=%s pid=%d status=%d reason=%r",
                self._uuid,
                peer.pid,
                refused.status,
                str(refused),
            )

    def _current_instance(self) -> MigInstance:
        try:
            return self._instance_of(self._uuid)
        except RequestError as err:
            raise HelloRefused(CudaError.DEVICE_UNAVAILABLE, str(err)) from err

    def _refuse_unhealthy(self, instance: MigInstance, wants_context: bool = True) -> None:
        """Refuse a context on a failed instance. If the instance no longer exists, refuse its
        description as well.

        Raises:
            HelloRefused: the instance has failed or is gone; the error has the reason.
        """
        refused = self._refusal(instance)
        if refused is not None and (wants_context or refused[0] == CudaError.NO_DEVICE):
            raise HelloRefused(*refused)

    async def _start_context(
        self,
        client: socket.socket,
        instance: MigInstance,
        hello: Hello,
        peer: Peer,
        sender: Peer | None,
    ) -> None:
        authorising = asyncio.create_task(
            self._admission.authorize(instance, peer, sender, hello.token)
        )
        # A client sends nothing until it has its answer, so a readable socket means that it hung
        # up.
        hung_up = asyncio.create_task(seqpacket.wait_until_readable(client.fileno()))
        try:
            await asyncio.wait((authorising, hung_up), return_when=asyncio.FIRST_COMPLETED)
            if not authorising.done():
                return
            owner = authorising.result()
        finally:
            for task in (authorising, hung_up):
                task.cancel()
        if _connector_has_ended(client):
            # Its pid may belong to another process by now, so the authorised process is unknown.
            raise HelloRefused(CudaError.NOT_PERMITTED, "the process that connected has ended")
        current = self._current_instance()
        if not current.admit:
            raise HelloRefused(CudaError.DEVICE_UNAVAILABLE, "the instance is being withdrawn")
        share = current.share_of(owner.claim)
        if owner.claim and (share is None or not share.admit):
            raise HelloRefused(CudaError.DEVICE_UNAVAILABLE, "the claim's share is being withdrawn")
        if not current.compute:
            raise HelloRefused(CudaError.DEVICE_UNAVAILABLE, "it has no compute instance")
        self._refuse_unhealthy(current)  # the state may have changed during the authorisation
        # The worker receives descriptors with the client's messages, and no senders' credentials.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
        await self._starter.launch(current, hello, client, peer, owner)


def _connector_has_ended(client: socket.socket) -> bool:
    pidfd = peer_pidfd_of(client)
    if pidfd is None:
        return False
    try:
        return processes.has_ended(pidfd)
    finally:
        os.close(pidfd)


def _parse(packet: seqpacket.Packet) -> Hello | management.Ask:
    if packet.truncated:
        raise MalformedHello("the message is too long or carries descriptors")
    if management.is_request(packet.data):
        return management.parse(packet.data)
    return hellos.parse(packet.data)
