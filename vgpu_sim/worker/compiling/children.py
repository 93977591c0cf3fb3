"""The compile helper's child processes. There is one for each request, because generating code may
end the process.

A seccomp filter forbids the helper to create sockets, so helper and child communicate through
memory files and an eventfd, which the helper creates before the fork. A child can be forked and
warmed up before there is a request; it stops warming up when a request arrives.
"""

import ctypes
import os
import re
import select
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import IntEnum
from typing import Final, NoReturn

from vgpu_sim.hal.compute.ports import EmitError
from vgpu_sim.system import calls
from vgpu_sim.worker import memory

MAX_BYTES: Final = 256 << 20  # in a request, and in an answer
MAX_CPU_SECONDS: Final = 600.0
# LLVM's combiner can loop forever over a few dozen instructions. Compilation that ends takes about
# half a second per megabyte of text (5,000 instructions), so no valid request takes twenty times
# as long.
CPU_SECONDS: Final = 5.0
CPU_SECONDS_PER_MEGABYTE: Final = 10.0
SAID: Final = struct.Struct("<Q")  # a child writes its pid when its code is complete
# A third of the weight of a computing thread, or less if this process has less. Computed here
# because the filter of system calls forbids it later.
_LEISURE_NICE: Final = max(os.nice(0), 5)
_WORDS_BYTES: Final = 300
_STANDARD_ERROR: Final = 2

Emit = Callable[[bytes], bytes]
WarmUp = Callable[[], Iterator[None]]  # proceeds in steps; the caller may stop after each


class Outcome(IntEnum):
    """The result of a request: code, an error, or the death of the process that handled it."""

    CODE = 0
    ERROR = 1
    KILLED = 2


class Child:
    """The helper's view of one child process; ``number`` is that of the child's request, once the
    child has one.
    """

    def __init__(self, *, at_leisure: bool, pause_ms: int = 0) -> None:
        self.at_leisure = at_leisure
        self._pause_ms = pause_ms  # the pause before it warms up
        self.number = 0
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        names = ("tessera-request", "tessera-code", "tessera-last-words")
        files = [os.memfd_create(name, os.MFD_CLOEXEC) for name in names]
        self._request, self._code, self._words = files

    def close(self) -> None:
        """Release the resources that helper and child share."""
        for descriptor in (self._wake, self._request, self._code, self._words):
            os.close(descriptor)

    def start(self, number: int, request: bytes) -> None:
        """Give the child process its request."""
        self.number = number
        memory.write_all(self._request, request, 0)
        os.eventfd_write(self._wake, 1)

    def result(self, status: int) -> tuple[Outcome, bytes]:
        """Return the result of the child's request. The child must have ended or reported
        completion.
        """
        try:
            if status < 0:
                outcome = Outcome.KILLED if -status == signal.SIGKILL else Outcome.ERROR
                return outcome, _describe_end(-status, os.pread(self._words, _WORDS_BYTES, 0))
            size = os.fstat(self._code).st_size
            if size > MAX_BYTES:
                return Outcome.ERROR, f"{size} bytes of code are too many".encode()
            outcome = Outcome.CODE if status == 0 else Outcome.ERROR
            return outcome, memory.read_exactly(self._code, size)
        except OSError as err:
            return Outcome.KILLED, f"cannot generate code: {err}".encode()

    def run(
        self,
        emit: Emit,
        become_child: Callable[[], None],
        warm_up: WarmUp | None,
        say: socket.socket,
    ) -> NoReturn:
        """Run the child process: ``become_child`` completes its sandbox, and ``warm_up`` runs until
        there is a request.

        When the code is complete, send the pid of the process on the socket ``say``. Then end
        the process.
        """
        status = 1
        try:
            os.close(_STANDARD_ERROR)
            os.dup(self._words)  # becomes standard error, the lowest free number
            signal.setitimer(signal.ITIMER_PROF, MAX_CPU_SECONDS)
            if self.at_leisure:
                _give_way()
            become_child()
            if warm_up is not None:
                poller = select.poll()
                poller.register(self._wake, select.POLLIN)
                steps = warm_up() if not poller.poll(self._pause_ms) else iter(())
                for _ in steps:
                    if poller.poll(0):
                        break
            os.eventfd_read(self._wake)
            size = os.fstat(self._request).st_size
            signal.setitimer(signal.ITIMER_PROF, allowed_seconds(size))
            memory.write_all(self._code, emit(memory.read_exactly(self._request, size)), 0)
            status = 0
            # Report it now: releasing the memory of this process takes milliseconds.
            say.send(SAID.pack(os.getpid()))
        except EmitError as err:
            memory.write_all(self._code, str(err).encode(), 0)
        except BaseException as err:  # noqa: BLE001 - a forked child must end here
            memory.write_all(self._code, f"{type(err).__name__}: {err}".encode(), 0)
        finally:
            os._exit(status)


class _Scheduling(ctypes.Structure):
    """``struct sched_attr`` of sched_setattr(2), which affects only the calling thread."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def allowed_seconds(size: int) -> float:
    """Return the limit, in seconds of CPU time, for a request of ``size`` bytes."""
    allowed = CPU_SECONDS + CPU_SECONDS_PER_MEGABYTE * size / 1e6
    return min(allowed, MAX_CPU_SECONDS)


def _give_way() -> None:
    """Lower this thread's scheduling priority. If that fails, the thread keeps its normal share of
    the CPU.
    """
    attributes = _Scheduling(policy=os.SCHED_BATCH, nice=_LEISURE_NICE)
    attributes.size = ctypes.sizeof(attributes)
    with suppress(OSError):
        calls.syscall(calls.SYS_SCHED_SETATTR, 0, ctypes.byref(attributes), 0)


def _describe_end(number: int, words: bytes) -> bytes:
    """Describe a child's death: the signal's name, and LLVM's message without addresses, which do
    not help a user.
    """
    name = signal.Signals(number).name
    message = re.sub(rb"0x[0-9a-f]+", b"0x..", words.strip().partition(b"\n")[0])
    return f"code generation was ended by {name}".encode() + (b": " + message if message else b"")
