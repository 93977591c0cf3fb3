"""Sockets that a tenant may have sent descriptors into, received from and closed off gpud's loop.

Whoever closes the last descriptor of a file waits for it: of a TCP socket with SO_LINGER as long as
its owner has chosen. A message that brings such a descriptor need not even be read: closing the
socket that it waits in closes it too. Where the kernel lets a socket refuse descriptors (Linux
6.16) none arrives. Elsewhere, and for sockets that a worker shares, a thread of one slice does what
could take long, and is woken by a signal, which ends such a wait.
"""

import asyncio
import logging
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from vgpu_sim.system import seqpacket
from vgpu_sim.system.seqpacket import Packet

logger = logging.getLogger("tessera.gpud")

_T = TypeVar("_T")

SO_PASSRIGHTS = 83  # asm-generic/socket.h, since Linux 6.16
WAKE_SIGNAL = signal.SIGUSR1
STUCK_SECONDS = 0.05
MAX_UNFINISHED = 64


def refuse_descriptors(sock: socket.socket) -> bool:
    """Let no descriptor into a socket, or those that a listener will accept; False if impossible.

    Whoever tries to send one gets EPERM.
    """
    return _pass_rights(sock, 0)


def prepare_waking() -> None:
    """Let WAKE_SIGNAL interrupt system calls and do nothing else; for the main thread."""
    signal.signal(WAKE_SIGNAL, lambda *_: None)


class ForeignSockets:
    """Receives from and closes sockets of one slice. ``refusing``: no descriptor can be in them."""

    def __init__(self, name: str, refusing: bool) -> None:
        self._name = name
        self._refusing = refusing
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._unfinished = 0
        self._finished = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._waking: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Have the thread ready; on any thread. Starting one can take long: see ``threads``."""
        if self._thread is None:
            # A daemon: gpud's end does not wait for it.
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    async def receive(self, sock: socket.socket, limit_bytes: int) -> Packet:
        """Receive one message as ``seqpacket.receive`` does. Raises OSError."""
        if self._refusing:
            return await seqpacket.receive(sock, limit_bytes)
        while True:
            await seqpacket.readable(sock.fileno())
            packet = await self._done_by_thread(partial(seqpacket.receive_now, sock, limit_bytes))
            if packet is not None:
                return packet

    async def take(self, sock: socket.socket, limit_bytes: int) -> tuple[bytes, list[int]]:
        """Receive one message and up to one descriptor, which is then the caller's. Raises OSError.

        The caller closes it by ``close_descriptor``. What comes for a caller that has been
        cancelled meanwhile is closed here.
        """
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        while True:
            await seqpacket.readable(sock.fileno())
            with suppress(BlockingIOError):
                data, descriptors, _, _ = await self._done_by_thread(
                    partial(socket.recv_fds, sock, limit_bytes, 1, flags), self._close_all
                )
                return data, descriptors

    def close_descriptor(self, descriptor: int) -> None:
        """Close what may be anything."""
        self._submit(partial(os.close, descriptor))

    def _close_all(self, received: tuple[bytes, list[int], int, Any]) -> None:
        for descriptor in received[1]:
            self.close_descriptor(descriptor)

    async def _done_by_thread(
        self, work: Callable[[], _T], unwanted: Callable[[_T], None] = lambda _: None
    ) -> _T:
        """Return what ``work`` does, or give it to ``unwanted`` if nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_T] = loop.create_future()

        def job() -> None:
            try:
                result = work()
            except OSError as err:
                _call(loop, _fail, answer, err)
            else:
                _call(loop, _settle, answer, result, unwanted)

        self._submit(job)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                unwanted(answer.result())  # it was there, and this task was cancelled then
            raise

    def close(self, sock: socket.socket) -> None:
        """Close a socket that nobody else has; call nothing more on it."""
        if self._refusing:
            sock.close()
        else:
            self._submit(sock.close)

    def close_shared(self, sock: socket.socket) -> None:
        """Close a socket that a worker was given too: it may take descriptors by now."""
        self._submit(sock.close)

    def end(self) -> None:
        """Need nothing more once what was asked for is done."""
        if self._thread is not None:
            self._jobs.put(None)

    async def room(self) -> None:
        """Wait until not too many sockets wait to be closed."""
        while self._unfinished >= MAX_UNFINISHED:
            self._finished.clear()
            await self._finished.wait()

    def _submit(self, job: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._unfinished += 1

        def work() -> None:
            try:
                job()
            except OSError as err:
                logger.info("close_failed of=%s error=%s", self._name, err)
            _call(loop, self._done)

        self.start()
        self._jobs.put(work)
        if self._waking is None:
            self._waking = loop.call_later(STUCK_SECONDS, self._wake)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _done(self) -> None:
        self._unfinished -= 1
        self._finished.set()
        if not self._unfinished and self._waking is not None:
            self._waking.cancel()
            self._waking = None

    def _wake(self) -> None:
        if signal.getsignal(WAKE_SIGNAL) is signal.SIG_DFL:
            return  # not prepared: the signal would end the process
        assert self._thread is not None
        assert self._thread.ident is not None
        signal.pthread_kill(self._thread.ident, WAKE_SIGNAL)
        self._waking = asyncio.get_running_loop().call_later(STUCK_SECONDS, self._wake)


def _pass_rights(sock: socket.socket, value: int) -> bool:
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, value)
    except OSError:
        return False
    return True


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *values: object) -> None:
    try:
        loop.call_soon_threadsafe(callback, *values)
    except RuntimeError:
        return  # gpud has ended meanwhile


def _settle(future: asyncio.Future[_T], result: _T, unwanted: Callable[[_T], None]) -> None:
    if future.done():
        unwanted(result)
    else:
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: OSError) -> None:
    if not future.done():
        future.set_exception(error)
