"""Requests code from processes that may die, because an abort of LLVM must not end a context.

A worker's helper (``server``) is forked before the worker's filter of system calls closes, and
forks a child for each request; if the child dies, only that one kernel fails. Requests of
several threads are answered in order of completion; one thread reads the answers for all of
them.
"""

import io
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, NoReturn

from vgpu_sim.hal.compute.ports import EmitError
from vgpu_sim.worker.compiling import server
from vgpu_sim.worker.compiling.children import Emit, WarmUp

MAX_BYTES: Final = server.MAX_BYTES  # in a request


class CompileHelper:
    """Implements ``hal.compute.ports.Emitter``.

    ``emit`` is the function that the children call. ``warm_up`` warms up the children and the
    helper from which they are forked.
    """

    def __init__(self, emit: Emit, warm_up: WarmUp) -> None:
        self._server = server.Server(emit, warm_up)
        self._sending = threading.Lock()  # protects the fields below
        self._number = 0
        self._pending: dict[int, Future[bytes]] = {}
        self._reader: threading.Thread | None = None
        self._ended = False
        self._pid: int | None = None

    def serve(self, become_child: Callable[[], None]) -> NoReturn:
        """Run the helper process (``worker.sandbox.Helper``)."""
        self._server.serve(become_child)

    def connect(self) -> None:
        """Connect the worker to the helper. Call this in the worker after the helper has been
        forked.
        """
        self._socket = self._server.take_worker_end()
        self._answers = self._socket.makefile("rb")

    def close(self) -> None:
        """Close the connection, so that the helper ends."""
        self._socket.shutdown(socket.SHUT_RDWR)
        if self._reader is not None:
            self._reader.join()
        self._answers.close()
        self._socket.close()

    def pid(self) -> int:
        """The helper's pid after it has started to serve; 0 if it never did."""
        if self._pid is None:
            (self._pid,) = _receive(self._answers, server.HELLO) or (0,)
        return self._pid

    def prepare(self) -> tuple[int, ...]:
        """Make the helper fork a first child before there is a request. At this time, neither the
        helper nor the child is in a control group. Return the pids of the helper and the child.
        Call this before ``request_code``, on one thread.
        """
        helper = self.pid()
        self._tell(server.PREPARE)
        (child,) = _receive(self._answers, server.HELLO) or (0,)
        return tuple(pid for pid in (helper, child) if pid)

    def keep_child_ready(self) -> None:
        """Make the helper keep one child ready. Call this before ``request_code``, on one
        thread.
        """
        self._tell(server.GET_READY)

    def _tell(self, number: int) -> None:
        with suppress(OSError):  # its end is reported to the callers of ``ask``
            self._socket.sendall(server.REQUEST.pack(number, False, 0))

    def request_code(self, request: bytes, *, at_leisure: bool = False) -> Future[bytes]:
        """See ``hal.compute.ports.Emitter.request_code``."""
        future: Future[bytes] = Future()
        if len(request) > MAX_BYTES:
            text = f"{len(request)} bytes are too many to generate code from"
            future.set_exception(EmitError(text))
            return future
        with self._sending:
            if self._reader is None:
                self.pid()
                self._reader = threading.Thread(target=self._read, daemon=True)
                self._reader.start()
            if self._ended:
                future.set_exception(_helper_ended())
                return future
            self._number += 1
            self._pending[self._number] = future
            head = server.REQUEST.pack(self._number, at_leisure, len(request))
            try:
                self._socket.sendall(head + request)
            except OSError:
                self._socket.shutdown(socket.SHUT_RDWR)  # so that the reader fails all requests
        return future

    def _read(self) -> None:
        while (head := _receive(self._answers, server.ANSWER)) is not None:
            number, outcome, size = head
            # Its children run LLVM on a tenant's program: every answer must be validated.
            if size > MAX_BYTES or number not in self._pending:
                break
            answer = self._answers.read(size)
            if len(answer) < size:
                break
            future = self._pending.pop(number)
            if outcome == server.Outcome.CODE:
                future.set_result(answer)
            else:
                killed = outcome == server.Outcome.KILLED
                future.set_exception(EmitError(answer.decode(errors="replace"), killed=killed))
        with self._sending:
            self._ended = True
            unanswered_requests = list(self._pending.values())
            self._pending.clear()
        for future in unanswered_requests:
            future.set_exception(_helper_ended())


def _helper_ended() -> EmitError:
    return EmitError("the compile helper has ended", killed=True)


def _receive(stream: io.BufferedReader, kind: struct.Struct) -> tuple[int, ...] | None:
    try:
        data = stream.read(kind.size)
    except OSError:
        return None
    return kind.unpack(data) if len(data) == kind.size else None
