"""The process of a worker's compile helper: forks a child that may die for each request.

The helper has the same sandbox as its worker, except that its filter of system calls permits
forking. A child drops that permission before it runs LLVM. Of the worker's descriptors, helper
and children have only the helper's end of a socket, and they end when the worker closes the
other end.

Requests for which a launch waits run first, as many at once as there are CPUs, up to
MOST_AT_ONCE; requests at leisure follow, with a lower weight. One child is kept ready for the
next launch that waits, because forking, and the first access to each page of LLVM, take longer
than compiling a small kernel. The first such child is forked at once. A spare worker's first
child is forked before the spare worker is claimed, so that the child moves with its helper to
the context's control group. Until that move the helper must not reap the child, because the pid
could be reused.
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

__all__ = [
    "ANSWER",
    "GET_READY",
    "HELLO",
    "MAX_BYTES",
    "PREPARE",
    "REQUEST",
    "SPARE_PAUSE_MS",
    "Outcome",
    "Server",
]

MOST_AT_ONCE: Final = 8
# The first message has the helper's pid; the answer to PREPARE, that of a child.
HELLO: Final = struct.Struct("<Q")
REQUEST: Final = struct.Struct("<Q?Q")  # its number, whether at leisure, how many bytes follow
ANSWER: Final = struct.Struct("<QBQ")  # number of the request, an ``Outcome``, bytes that follow
# Numbers that request no code. PREPARE: keep one child ready. GET_READY, in the context's control
# group: always keep one child ready. After both, a request makes the helper run LLVM itself.
PREPARE: Final = 0
GET_READY: Final = (1 << 64) - 1

# The time without a request before the helper prepares: not concurrently with a first launch.
_PAUSE_MS: Final = 300
# The time before a spare worker, its helper and their child perform long steps: not concurrently
# with another context's first launch, and not at all if the next program claims them earlier.
SPARE_PAUSE_MS: Final = 1000
_Request = tuple[int, bytes]


class Server:
    """The state of the compile helper, created in the worker before the fork; ``emit`` is the
    function that the children call.
    """

    def __init__(self, emit: Emit, warm_up: WarmUp) -> None:
        self._emit = emit
        self._warm_up = warm_up
        self._worker_end, self._channel = socket.socketpair()
        # The filter forbids creating sockets later. Each message is a child's, or one byte that a
        # signal causes.
        self._wakeup, self._wakeup_writer = socket.socketpair(type=socket.SOCK_SEQPACKET)
        for end in (self._wakeup, self._wakeup_writer):
            end.setblocking(False)
        self._waiting: dict[bool, deque[_Request]] = {False: deque(), True: deque()}
        self._children: dict[int, Child] = {}  # those with a request, by pid
        self._spare: tuple[int, Child] | None = None
        self._keeps_spare = self._waits = False
        self._warms = False  # whether the helper itself is to run LLVM
        self._requested = False  # whether the context has ever requested code

    def take_worker_end(self) -> socket.socket:
        """In the worker, after the fork: close the helper's descriptors, and return the worker's
        end of the connection.
        """
        for end in self._own():
            end.close()
        return self._worker_end

    def serve(self, become_child: Callable[[], None]) -> NoReturn:
        """Run the helper process until the worker ends."""
        self._become_child = become_child
        close_all(first=2, kept_descriptors=[end.fileno() for end in self._own()])
        # This becomes standard error, since its number is the lowest free one.
        os.memfd_create("tessera-last-words", os.MFD_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_writer.fileno(), warn_on_full_buffer=False)
        self._most = min(len(os.sched_getaffinity(0)), MOST_AT_ONCE)
        self._channel.sendall(HELLO.pack(os.getpid()))
        poller = select.poll()
        for end in (self._channel, self._wakeup):
            poller.register(end, select.POLLIN)
        while True:
            ready = [d for d, _ in poller.poll(self._pause_ms())]
            if not ready:
                self._prepare()
            if self._wakeup.fileno() in ready:
                self._receive_results()
                self._reap()
            if self._channel.fileno() in ready and not self._receive():
                os._exit(0)
            self._begin()

    def _own(self) -> tuple[socket.socket, ...]:
        return self._channel, self._wakeup, self._wakeup_writer

    def _receive(self) -> bool:
        """Read exactly one request; return False if the worker has gone."""
        try:
            number, at_leisure, size = REQUEST.unpack(self._take(REQUEST.size))
            request = self._take(size)
        except (OSError, EOFError):
            return False
        if number == PREPARE:
            self._warms = True
            self._make_spare(SPARE_PAUSE_MS)
            pid = self._spare[0] if self._spare is not None else 0
            self._channel.sendall(HELLO.pack(pid))
        elif number == GET_READY:
            self._be_claimed()
            self._warms = self._keeps_spare = True
            self._make_spare()
        else:
            self._be_claimed()
            self._requested = True
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
        """Start as many waiting requests as there is room for."""
        hurried = sum(not child.at_leisure for child in self._children.values())
        while self._waiting[False] and hurried < self._most:
            hurried += 1
            self._start(*self._waiting[False].popleft(), at_leisure=False)
        while self._waiting[True] and len(self._children) < self._most:
            self._start(*self._waiting[True].popleft(), at_leisure=True)

    def _pause_ms(self) -> int | None:
        """Return how long to wait for a request before preparing; None if there is nothing to
        prepare.
        """
        warms = self._warms and self._requested
        if self._children or not (warms or (self._keeps_spare and self._spare is None)):
            return None
        return _PAUSE_MS if self._waits else SPARE_PAUSE_MS

    def _prepare(self) -> None:
        """Do one step of preparation for the next request; a request that arrives now waits for
        it.
        """
        if self._requested:
            self._warm_itself()
        if self._keeps_spare:
            self._make_spare()

    def _warm_itself(self) -> None:
        """Run LLVM in the helper, so that the children that it forks later need not warm up. Many
        contexts never request code, or only once, for which a child is ready.
        """
        if self._warms:
            self._warms = False
            for _ in self._warm_up():
                pass

    def _make_spare(self, pause_ms: int = 0) -> None:
        if self._spare is None:
            with suppress(OSError):
                self._spare = self._fork(self._warm_up, at_leisure=False, pause_ms=pause_ms)

    def _start(self, number: int, request: bytes, *, at_leisure: bool) -> None:
        spare = self._spare if not at_leisure else None
        if spare is None and not at_leisure:
            self._warm_itself()
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
        except OSError:  # it has part of the request, or waits for one: its exit is the answer
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
            for end in (self._channel, self._wakeup):
                end.close()
            for sibling in self._children.values():
                sibling.close()
            if self._spare is not None:
                self._spare[1].close()
            child.run(self._emit, self._become_child, warm_up, self._wakeup_writer)
        finally:
            os._exit(1)

    def _receive_results(self) -> None:
        """Receive the children's notifications of completed code."""
        with suppress(BlockingIOError):
            while notification := self._wakeup.recv(SAID.size):
                if len(notification) == SAID.size:
                    (pid,) = SAID.unpack(notification)
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
            # Another attempt would end in the same way.
            self._spare, self._keeps_spare = None, False
        child = self._children.pop(pid, None)
        if child is not None:
            self._answer(child.number, *child.result(status))
            child.close()

    def _answer(self, number: int, outcome: Outcome, answer: bytes) -> None:
        try:
            self._channel.sendall(ANSWER.pack(number, outcome, len(answer)) + answer)
        except OSError:
            os._exit(0)
