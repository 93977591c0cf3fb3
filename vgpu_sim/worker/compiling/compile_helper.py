"""Asks processes that may die to generate code: an abort of LLVM must not end a context.

A worker's helper (``server``) is forked before the worker's filter of system calls closes,
and forks a child for each request; what ends the child is an error for the one kernel. Requests of
several threads are answered as they are done, by a thread that reads for all of them.
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

MAX_BYTES: Final = server.MAX_BYTES  # of a request


class CompileHelper:
    """Implements ``hal.compute.ports.Emitter``.

    ``emit`` is what children do, ``warm_up`` what makes them, and the helper from which they are
    forked, ready for that.
    """

    def __init__(self, emit: Emit, warm_up: WarmUp) -> None:
        self._server = server.Server(emit, warm_up)
        self._sending = threading.Lock()  # of all that follows
        self._number = 0
        self._asked: dict[int, Future[bytes]] = {}
        self._reader: threading.Thread | None = None
        self._ended = False
        self._pid: int | None = None

    def serve(self, become_child: Callable[[], None]) -> NoReturn:
        """Be the helper (``worker.sandbox.Helper``)."""
        self._server.serve(become_child)

    def started(self) -> None:
        """In the worker, once the helper has been forked."""
        self._socket = self._server.take_worker_end()
        self._answers = self._socket.makefile("rb")

    def close(self) -> None:
        """Let the helper end."""
        self._socket.shutdown(socket.SHUT_RDWR)
        if self._reader is not None:
            self._reader.join()
        self._answers.close()
        self._socket.close()

    def pid(self) -> int:
        """Return the helper's pid, once it serves; 0 where it never did."""
        if self._pid is None:
            (self._pid,) = _receive(self._answers, server.HELLO) or (0,)
        return self._pid

    def prepare(self) -> tuple[int, ...]:
        """Let the helper have a process ready before anybody asks, which is not in a control group
        yet; return the pids of both. Before ``ask``, on one thread."""
        helper = self.pid()
        self._tell(server.PREPARE)
        (child,) = _receive(self._answers, server.HELLO) or (0,)
        return tuple(pid for pid in (helper, child) if pid)

    def get_ready(self) -> None:
        """Let the helper keep a process ready for whoever asks. Before ``ask``, on one thread."""
        self._tell(server.GET_READY)

    def _tell(self, number: int) -> None:
        with suppress(OSError):  # that it has ended, those will hear who ask it
            self._socket.sendall(server.REQUEST.pack(number, False, 0))

    def ask(self, request: bytes, *, at_leisure: bool = False) -> Future[bytes]:
        """See ``hal.compute.ports.Emitter.ask``."""
        asked: Future[bytes] = Future()
        if len(request) > MAX_BYTES:
            text = f"{len(request)} bytes are too many to generate code from"
            asked.set_exception(EmitError(text))
            return asked
        with self._sending:
            if self._reader is None:
                self.pid()
                self._reader = threading.Thread(target=self._read, daemon=True)
                self._reader.start()
            if self._ended:
                asked.set_exception(_ended())
                return asked
            self._number += 1
            self._asked[self._number] = asked
            head = server.REQUEST.pack(self._number, at_leisure, len(request))
            try:
                self._socket.sendall(head + request)
            except OSError:
                self._socket.shutdown(socket.SHUT_RDWR)  # so that the reader answers for all
        return asked

    def _read(self) -> None:
        while (head := _receive(self._answers, server.ANSWER)) is not None:
            number, outcome, size = head
            # Its children run LLVM on what a program says: no answer is believed unseen.
            if size > MAX_BYTES or number not in self._asked:
                break
            answer = self._answers.read(size)
            if len(answer) < size:
                break
            asked = self._asked.pop(number)
            if outcome == server.Outcome.CODE:
                asked.set_result(answer)
            else:
                killed = outcome == server.Outcome.KILLED
                asked.set_exception(EmitError(answer.decode(errors="replace"), killed=killed))
        with self._sending:
            self._ended = True
            left = list(self._asked.values())
            self._asked.clear()
        for asked in left:
            asked.set_exception(_ended())


def _ended() -> EmitError:
    return EmitError("the compile helper has ended", killed=True)


def _receive(stream: io.BufferedReader, kind: struct.Struct) -> tuple[int, ...] | None:
    try:
        data = stream.read(kind.size)
    except OSError:
        return None
    return kind.unpack(data) if len(data) == kind.size else None
