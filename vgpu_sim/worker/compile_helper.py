"""Generates code in processes that may die: an abort of LLVM must not end a context.

A worker's helper is forked before the worker's filter of system calls closes, and stands behind the
same walls with one that lets it fork. For each request it forks a child, which gives that up again
before it runs LLVM; what ends the child is an error for the one kernel. Helper and child hold no
descriptor of the worker's but the helper's end of a socket, and end with it.
"""

import io
import os
import re
import signal
import socket
import struct
from collections.abc import Callable
from typing import Final, NoReturn

from vgpu_sim.hal.ports import EmitError
from vgpu_sim.worker import memory

MAX_BYTES: Final = 256 << 20  # of a request, and of an answer
MAX_CPU_SECONDS: Final = 600.0
_REQUEST: Final = struct.Struct("<Q")  # how many bytes follow
_ANSWER: Final = struct.Struct("<?Q")  # whether they are code; how many follow
_WORDS_BYTES: Final = 300
_STANDARD_ERROR: Final = 2

Emit = Callable[[bytes], bytes]


class CompileHelper:
    """What a worker asks for code; one thread at a time may.

    ``emit`` is what children do; the two ends are of a stream.
    """

    def __init__(self, emit: Emit, worker_end: socket.socket, helper_end: socket.socket) -> None:
        self._emit = emit
        self._worker_end, self._helper_end = worker_end, helper_end

    def serve(self, become_child: Callable[[], None]) -> NoReturn:
        """Be the helper (``worker.sandbox.Helper``)."""
        channel = self._helper_end
        os.closerange(_STANDARD_ERROR, channel.fileno())
        os.closerange(channel.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        # Standard error from now on, since that is the lowest number free: LLVM's last words.
        words = os.memfd_create("tessera-last-words", os.MFD_CLOEXEC)
        stream = channel.makefile("rb")
        while (request := _receive(stream, _REQUEST)) is not None:
            (size,) = request
            text = stream.read(size)
            if len(text) < size:
                break
            done, answer = _emit_in_child(self._emit, text, words, channel, become_child)
            channel.sendall(_ANSWER.pack(done, len(answer)) + answer)
        os._exit(0)

    def started(self) -> None:
        """In the worker, once the helper has been forked."""
        self._helper_end.close()
        self._answers = self._worker_end.makefile("rb")

    def emit(self, request: bytes) -> bytes:
        """Have a child of the helper emit code.

        Raises:
            EmitError: it raised one itself, it died, or there is no helper any more.
        """
        if len(request) > MAX_BYTES:
            raise EmitError(f"{len(request)} bytes are too many to generate code from")
        try:
            self._worker_end.sendall(_REQUEST.pack(len(request)) + request)
            head = _receive(self._answers, _ANSWER)
            done, size = head or (False, 0)
            answer = self._answers.read(size)
        except OSError as err:
            raise EmitError(f"the compile helper has ended: {err}") from err
        if head is None or len(answer) < size:
            raise EmitError("the compile helper has ended")
        if not done:
            raise EmitError(answer.decode(errors="replace"))
        return answer


def _receive(stream: io.BufferedReader, kind: struct.Struct) -> tuple[int, ...] | None:
    data = stream.read(kind.size)
    return kind.unpack(data) if len(data) == kind.size else None


def _emit_in_child(
    emit: Emit, request: bytes, words: int, channel: socket.socket, become_child: Callable[[], None]
) -> tuple[bool, bytes]:
    """Return whether it succeeded; the code, or why there is none."""
    os.ftruncate(words, 0)
    os.lseek(words, 0, os.SEEK_SET)
    output = os.memfd_create("tessera-code", os.MFD_CLOEXEC)
    try:
        child = os.fork()
        if child == 0:
            _be_child(emit, request, output, channel, become_child)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        size = os.fstat(output).st_size
        if status < 0:
            return False, _describe_end(-status, os.pread(words, _WORDS_BYTES, 0))
        if size > MAX_BYTES:
            return False, f"{size} bytes of code are too many".encode()
        return status == 0, memory.read_exactly(output, size)
    except OSError as err:
        return False, f"cannot generate code: {err}".encode()
    finally:
        os.close(output)


def _be_child(
    emit: Emit,
    request: bytes,
    output: int,
    channel: socket.socket,
    become_child: Callable[[], None],
) -> NoReturn:
    status = 1
    try:
        channel.close()
        signal.setitimer(signal.ITIMER_PROF, MAX_CPU_SECONDS)
        become_child()
        memory.write_all(output, emit(request), 0)
        status = 0
    except EmitError as err:
        memory.write_all(output, str(err).encode(), 0)
    except BaseException as err:  # noqa: BLE001 - a forked child must end here
        memory.write_all(output, f"{type(err).__name__}: {err}".encode(), 0)
    finally:
        os._exit(status)


def _describe_end(number: int, words: bytes) -> bytes:
    """Name the signal and what LLVM said, without the addresses that a program has no use for."""
    name = signal.Signals(number).name
    said = re.sub(rb"0x[0-9a-f]+", b"0x..", words.strip().partition(b"\n")[0])
    return f"code generation was ended by {name}".encode() + (b": " + said if said else b"")
