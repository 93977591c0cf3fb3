"""A worker's compile helper, from within: a process that forks one that may die for each request.

It stands behind the same walls as its worker, with a filter of system calls that lets it fork; a
child gives that up again before it runs LLVM. Helper and children hold no descriptor of the
worker's but the helper's end of a socket, and end with it.

As many children run at once as there are CPUs, of those for which a launch waits; those whose work
nobody waits for come after them, and have a lower weight. One is kept ready for the next launch
that waits: forking, and the first touch of each page of LLVM, take longer than a small kernel. The
first of these is forked at once, a spare worker's before it is claimed: it moves with its helper to
the control group of the context, so until then the helper does not wait for it, or its pid could
become another's.
"""

import os
import select
import signal
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

from vgpu_sim.system.descriptors import close_all
from vgpu_sim.worker.compiling.children import MAX_BYTES, SAID, Child, Emit, Outcome, WarmUp

__all__ = ["ANSWER", "GET_READY", "HELLO", "MAX_BYTES", "PREPARE", "REQUEST", "Outcome", "Server"]

MOST_AT_ONCE: Final = 8
HELLO: Final = struct.Struct("<Q")  # the helper's pid, before all else; a child's, to PREPARE
REQUEST: Final = struct.Struct("<Q?Q")  # its number, whether at leisure, how many bytes follow
ANSWER: Final = struct.Struct("<QBQ")  # number of the request, an ``Outcome``, bytes that follow
# Numbers that ask for no code: have one child ready, and when there is time run LLVM in the helper
# itself; from then on, in the context's control group, always have one.
PREPARE: Final = 0
GET_READY: Final = (1 << 64) - 1

_PAUSE_MS: Final = 300  # without a request, before the helper prepares: not beside a first launch
_Request = tuple[int, bytes]


class Server:
    """Made in the worker, before the fork; ``emit`` is what children do."""

    def __init__(self, emit: Emit, warm_up: WarmUp) -> None:
        self._emit = emit
        self._warm_up = warm_up
        self._worker_end, self._channel = socket.socketpair()
        # A filter lets nobody make these later. Each message is a child's, or one byte: a signal's.
        self._wakeup, self._wakeup_writer = socket.socketpair(type=socket.SOCK_SEQPACKET)
        for one in (self._wakeup, self._wakeup_writer):
            one.setblocking(False)
        self._waiting: dict[bool, deque[_Request]] = {False: deque(), True: deque()}
        self._children: dict[int, Child] = {}  # that have a request, by pid
        self._spare: tuple[int, Child] | None = None
        self._warms = self._keeps_spare = self._warm = self._waits = False

    def take_worker_end(self) -> socket.socket:
        """In the worker, after the fork: give up the helper's own descriptors."""
        for one in self._own():
            one.close()
        return self._worker_end

    def serve(self, become_child: Callable[[], None]) -> NoReturn:
        """Be the helper."""
        self._become_child = become_child
        close_all(first=2, kept=[one.fileno() for one in self._own()])
        # Standard error from now on, since that is the lowest number free.
        os.memfd_create("tessera-last-words", os.MFD_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_writer.fileno(), warn_on_full_buffer=False)
        self._most = min(len(os.sched_getaffinity(0)), MOST_AT_ONCE)
        self._channel.sendall(HELLO.pack(os.getpid()))
        poller = select.poll()
        for one in (self._channel, self._wakeup):
            poller.register(one, select.POLLIN)
        while True:
            idle = not self._children
            ready = [d for d, _ in poller.poll(_PAUSE_MS if idle and self._unprepared() else None)]
            if not ready:
                self._prepare()
            if self._wakeup.fileno() in ready:
                self._hear()
                self._reap()
            if self._channel.fileno() in ready and not self._receive():
                os._exit(0)
            self._begin()

    def _own(self) -> tuple[socket.socket, ...]:
        return self._channel, self._wakeup, self._wakeup_writer

    def _receive(self) -> bool:
        """Read one request whole, and nothing of the next; False: the worker has gone."""
        try:
            number, at_leisure, size = REQUEST.unpack(self._take(REQUEST.size))
            request = self._take(size)
        except (OSError, EOFError):
            return False
        if number == PREPARE:
            self._warms = True
            self._make_spare(_PAUSE_MS)
            pid = self._spare[0] if self._spare is not None else 0
            self._channel.sendall(HELLO.pack(pid))
        elif number == GET_READY:
            self._be_claimed()
            self._warms = self._keeps_spare = True
            self._make_spare()
        else:
            self._be_claimed()
            self._waiting[at_leisure].append((number, request))
        return True

    def _be_claimed(self) -> None:
        if not self._waits:
            self._waits = True
            self._reap()

    def _take(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            got = self._channel.recv_into(view)
            if got == 0:
                raise EOFError
            view = view[got:]
        return bytes(data)

    def _begin(self) -> None:
        """Start what there is room for."""
        hurried = sum(not child.at_leisure for child in self._children.values())
        while self._waiting[False] and hurried < self._most:
            hurried += 1
            self._start(*self._waiting[False].popleft(), at_leisure=False)
        while self._waiting[True] and len(self._children) < self._most:
            self._start(*self._waiting[True].popleft(), at_leisure=True)

    def _unprepared(self) -> bool:
        return self._warms or (self._keeps_spare and self._spare is None)

    def _prepare(self) -> None:
        """Do a part of what makes the next request faster; one that comes now waits for that."""
        if self._warms and not self._warm:
            self._warm = True
            for _ in self._warm_up():
                pass
        self._warms = False
        if self._keeps_spare:
            self._make_spare()

    def _make_spare(self, pause_ms: int = 0) -> None:
        if self._spare is None:
            with suppress(OSError):
                self._spare = self._fork(self._warm_up, at_leisure=False, pause_ms=pause_ms)

    def _start(self, number: int, request: bytes, *, at_leisure: bool) -> None:
        spare = self._spare if not at_leisure else None
        try:
            pid, child = spare or self._fork(None, at_leisure=at_leisure)
        except OSError as err:
            self._answer(number, Outcome.KILLED, f"cannot generate code: {err}".encode())
            return
        if spare is not None:
            self._spare = None
        self._children[pid] = child
        try:
            child.start(number, request)
        except OSError:  # it has a part of the request, or waits for one: its end is the answer
            os.kill(pid, signal.SIGKILL)

    def _fork(
        self, warm_up: WarmUp | None, *, at_leisure: bool, pause_ms: int = 0
    ) -> tuple[int, Child]:
        child = Child(at_leisure=at_leisure, pause_ms=pause_ms)
        try:
            pid = os.fork()
        except OSError:
            child.close()
            raise
        if pid == 0:
            self._be(child, warm_up)
        return pid, child

    def _be(self, child: Child, warm_up: WarmUp | None) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for one in (self._channel, self._wakeup):
                one.close()
            for other in self._children.values():
                other.close()
            if self._spare is not None:
                self._spare[1].close()
            child.be(self._emit, self._become_child, warm_up, self._wakeup_writer)
        finally:
            os._exit(1)

    def _hear(self) -> None:
        """Hear from children that they have code."""
        with suppress(BlockingIOError):
            while said := self._wakeup.recv(SAID.size):
                if len(said) == SAID.size:
                    (pid,) = SAID.unpack(said)
                    self._end(pid, 0)

    def _reap(self) -> None:
        if not self._waits:
            return
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                self._end(ended[0], os.waitstatus_to_exitcode(ended[1]))

    def _end(self, pid: int, status: int) -> None:
        if self._spare is not None and self._spare[0] == pid:
            self._spare[1].close()
            self._spare, self._keeps_spare = None, False  # it would end so again
        child = self._children.pop(pid, None)
        if child is not None:
            self._answer(child.number, *child.result(status))
            child.close()

    def _answer(self, number: int, outcome: Outcome, answer: bytes) -> None:
        try:
            self._channel.sendall(ANSWER.pack(number, outcome, len(answer)) + answer)
        except OSError:
            os._exit(0)
