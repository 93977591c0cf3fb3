"""Sockets to which a tenant may send descriptors; they are read and closed outside gpud's event
loop.

The process that closes the last descriptor of a file waits for the file: for a TCP socket with
SO_LINGER as long as the tenant has chosen. A message with a descriptor need not even be
received: closing the socket that holds it closes the descriptor too. If the kernel can make a
socket refuse descriptors (Linux 6.16), no descriptor arrives. Otherwise, and for sockets shared
with a worker, one thread per slice makes the calls that could block. A signal interrupts these
calls and so wakes the thread.
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
    """Make a socket refuse descriptors. If it is a listener, the sockets that it accepts will
    refuse them. Return False if the kernel cannot do that.

    Sending a descriptor to such a socket fails with EPERM.
    """
    return _pass_rights(sock, 0)


def prepare_waking() -> None:
    """Make WAKE_SIGNAL interrupt system calls and do nothing else. Call this on the main thread."""
    signal.signal(WAKE_SIGNAL, lambda *_: None)


class ForeignSockets:
    """Receives messages from the sockets of one slice, and closes these sockets. Calls that could
    block run on a thread of this object.

    ``refusing`` is set if the sockets refuse descriptors. The calls of ``receive`` and ``close``
    cannot block then, and run in the event loop.
    """

    def __init__(self, name: str, refusing: bool) -> None:
        self._name = name
        self._refusing = refusing
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._unfinished = 0
        self._finished = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._waking: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start this object's thread; callable on any thread. Starting a thread can take long: see
        ``threads``.
        """
        if self._thread is None:
            # A daemon thread, so that gpud can end without waiting for it.
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    async def receive(self, sock: socket.socket, limit_bytes: int) -> Packet:
        """Receive one message as ``seqpacket.receive`` does. Raises OSError."""
        if self._refusing:
            return await seqpacket.receive(sock, limit_bytes)
        while True:
            await seqpacket.wait_until_readable(sock.fileno())
            packet = await self._run_on_thread(partial(seqpacket.receive_now, sock, limit_bytes))
            if packet is not None:
                return packet

    async def take(self, sock: socket.socket, limit_bytes: int) -> tuple[bytes, list[int]]:
        """Receive one message and up to one descriptor, which the caller then owns. Raises OSError.

        The caller closes the descriptor with ``close_descriptor``. If the caller is cancelled
        while it waits, the descriptor is closed here.
        """
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        while True:
            await seqpacket.wait_until_readable(sock.fileno())
            with suppress(BlockingIOError):
                data, descriptors, _, _ = await self._run_on_thread(
                    partial(socket.recv_fds, sock, limit_bytes, 1, flags), self._close_all
                )
                return data, descriptors

    def close_descriptor(self, descriptor: int) -> None:
        """Close a descriptor of any kind, outside the event loop."""
        self._submit(partial(os.close, descriptor))

    def _close_all(self, received: tuple[bytes, list[int], int, Any]) -> None:
        for descriptor in received[1]:
            self.close_descriptor(descriptor)

    async def _run_on_thread(
        self, work: Callable[[], _T], unwanted: Callable[[_T], None] = lambda _: None
    ) -> _T:
        """Run ``work`` on the slice's thread and return its result.

        If the caller is cancelled, the result is passed to ``unwanted``.
        """
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
                unwanted(answer.result())  # the result was ready before this task was cancelled
            raise

    def close(self, sock: socket.socket) -> None:
        """Close a socket of which no other process has a copy. The socket must not be used
        afterwards.
        """
        if self._refusing:
            sock.close()
        else:
            self._submit(sock.close)

    def close_shared(self, sock: socket.socket) -> None:
        """Close a socket of which a worker has a copy. Because of that copy, the socket may hold
        descriptors by now.
        """
        self._submit(sock.close)

    def end(self) -> None:
        """Let the thread end after the work that is queued for it."""
        if self._thread is not None:
            self._jobs.put(None)

    async def wait_for_room(self) -> None:
        """Wait until the number of sockets that wait to be closed is below the limit."""
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
            _call(loop, self._finish_job)

        self.start()
        self._jobs.put(work)
        if self._waking is None:
            self._waking = loop.call_later(STUCK_SECONDS, self._wake)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _finish_job(self) -> None:
        self._unfinished -= 1
        self._finished.set()
        if not self._unfinished and self._waking is not None:
            self._waking.cancel()
            self._waking = None

    def _wake(self) -> None:
        if signal.getsignal(WAKE_SIGNAL) is signal.SIG_DFL:
            return  # the thread is not prepared: the signal would end the process
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
