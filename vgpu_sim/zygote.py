"""Starts context workers by forking: ``python -m vgpu_sim.zygote FD [UID]`` (``hal.spawn``).

Single-threaded, without grpc, numpy or a live LLVM engine, everything that workers need imported
beforehand: a fork costs a millisecond where a fresh interpreter costs fifty. It ends when gpud
closes the socket, and leaves running workers alone.
"""

import array
import contextlib
import gc
import os
import select
import signal
import socket
import sys
from typing import Any, Final, NoReturn

from vgpu_sim import machine
from vgpu_sim.hal import spawn
from vgpu_sim.worker import placing

_MAX_MESSAGE_BYTES: Final = 65536
_INT_BYTES: Final = array.array("i").itemsize


class Zygote:
    """One socket to gpud, which hears of every child that ends, workers' helpers included."""

    def __init__(self, gpud: socket.socket) -> None:
        self._gpud = gpud
        self._wakeup, self._wakeup_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def serve(self, walls: dict[str, bool]) -> None:
        """Say which walls workers will have, then spawn them until gpud closes the socket."""
        self._send({"type": "ready", "sandbox": walls})
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        poller = select.poll()
        poller.register(self._gpud, select.POLLIN)
        poller.register(self._wakeup, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poller.poll()]
            if self._wakeup in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup, 4096)
                self._reap()
            if self._gpud.fileno() in ready and not self._serve_message():
                return

    def _serve_message(self) -> bool:
        try:
            data, ancillary, _, _ = self._gpud.recvmsg(
                _MAX_MESSAGE_BYTES, socket.CMSG_SPACE(2 * _INT_BYTES), socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError:
            return False
        descriptors = array.array("i", b"".join(content for _, _, content in ancillary)).tolist()
        if not data:
            return False
        reply = self._answer(data, descriptors)
        # Before gpud hears of it and closes its own: the last to close may be made to wait.
        for descriptor in descriptors:
            os.close(descriptor)
        self._send(reply)
        return True

    def _answer(self, data: bytes, descriptors: list[int]) -> dict[str, Any]:
        request = None
        try:
            message = spawn.decode(data)
            request = message.get("request")
            pid = self._spawn(message, descriptors)
        except (OSError, ValueError, RuntimeError) as err:
            return {"type": "failed", "request": request, "error": str(err)}
        return {"type": "spawned", "request": request, "pid": pid}

    def _spawn(self, message: dict[str, Any], descriptors: list[int]) -> int:
        if message["type"] != "spawn" or len(descriptors) != 2:
            raise ValueError("a zygote takes spawn messages with two descriptors")
        document = message.get("worker")
        if not isinstance(document, dict):
            raise ValueError("a spawn message has a worker's configuration")
        config = spawn.WorkerConfig.from_json(document)
        assert_single_threaded()
        placing.stop_up_holes()
        pid = os.fork()
        if pid == 0:
            _become_worker(config, *descriptors)
        return pid

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._send({"type": "exited", "pid": pid, "status": status})

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # gpud has gone: the next read says so
            self._gpud.send(spawn.encode(message))


def assert_single_threaded() -> None:
    """Refuse to fork a process whose other threads may hold locks.

    Raises:
        RuntimeError: naming the number of threads.
    """
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the zygote has {threads} threads; it must not fork")


def _become_worker(config: spawn.WorkerConfig, client_fd: int, gpud_fd: int) -> NoReturn:
    """Run in the child; whatever happens, the zygote's code is never returned to."""
    try:
        placing.take_gap()  # before anything else is mapped
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        client, gpud = _keep_only(client_fd, gpud_fd)
        machine.run_worker(config, client, gpud)
    except BaseException as err:  # noqa: BLE001 - a forked child must end here
        os.write(2, f"worker {os.getpid()}: {type(err).__name__}: {err}\n".encode())
    os._exit(spawn.CRASHED_STATUS)


def _keep_only(client_fd: int, gpud_fd: int) -> tuple[socket.socket, socket.socket]:
    """Close every descriptor that is neither standard error nor one of the two sockets."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    kept = sorted({2, client_fd, gpud_fd})
    for first, last in zip([1, *kept], [*kept, os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(first + 1, last)
    return socket.socket(fileno=client_fd), socket.socket(fileno=gpud_fd)


def main() -> None:
    """Entry point: the arguments are the number of an inherited socket and the workers' user."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # gpud decides when workers end
    machine.prepare()
    machine.adopt_orphans()
    gc.freeze()  # children do not copy pages merely to count references
    walls = machine.walls(int(sys.argv[2]) if len(sys.argv) > 2 else None)
    Zygote(socket.socket(fileno=int(sys.argv[1]))).serve(walls)


if __name__ == "__main__":
    main()
