"""Starts context workers by forking: ``python -m vgpu_sim.zygote FD [UID]``.

The contract is ``hal.compute.spawn``.

The zygote is single-threaded, without grpc, numpy or a live LLVM engine, and has imported
everything that workers need. Forking it takes one millisecond; starting a new interpreter would
take fifty. The zygote ends when gpud closes the socket, without affecting running workers.

After the first context has been started or announced, the zygote keeps a *spare* worker for the
next context like it (``worker.spare``). When a context has claimed the spare worker, the zygote
starts another one.
"""

import array
import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from vgpu_sim import machine
from vgpu_sim.hal.compute import spawn
from vgpu_sim.system.descriptors import close_all
from vgpu_sim.worker import address_randomization
from vgpu_sim.worker.spare import Spare

_MAX_MESSAGE_BYTES: Final = 65536
_INT_BYTES: Final = array.array("i").itemsize
# From a context's start until a spare is created: the context gets the CPUs for itself.
_PAUSE_S: Final = 0.04
# New objects between collections of cycles: compilers create many that stay, and hardly any cycles.
_GC_THRESHOLD: Final = 20_000
_LATE_S: Final = 0.1  # after that, the spare is created even if requests arrive
# Load average for each CPU above which no spare is created: its preparation takes more CPU time
# than it saves a context, and on busy CPUs this time is taken from programs (ADR 202).
_MOST_LOAD: Final = 2.0
_BUSY_PAUSE_S: Final = 1.0
# Limit of live workers that were spares: a spare's memory stays charged to gpud's group.
_MOST_FROM_SPARES: Final = 32


class Zygote:
    """Serves gpud over one socket. When a child process or a worker's compile helper ends, reports
    this to gpud.
    """

    def __init__(self, gpud: socket.socket) -> None:
        self._gpud = gpud
        self._wakeup, self._wakeup_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._spare: Spare | None = None
        self._wanted: spawn.WorkerConfig | None = (
            None  # configuration of the next spare, and the time at which to create it
        )
        self._wanted_at = 0.0
        self._from_spares: set[int] = set()

    def serve(self, sandbox: dict[str, bool]) -> None:
        """Report the workers' sandbox mechanisms, then spawn workers until gpud closes the
        socket.
        """
        self._send({"type": "ready", "sandbox": sandbox})
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        poller = select.poll()
        poller.register(self._gpud, select.POLLIN)
        poller.register(self._wakeup, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poller.poll(self._pause_ms())]
            if not ready or self._is_late():
                self._make_spare()
            if self._wakeup in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup, 4096)
                self._reap()
            if self._gpud.fileno() in ready and not self._serve_message():
                return

    def _pause_ms(self) -> float | None:
        if self._wanted is None:
            return None
        return max(0.0, self._wanted_at - time.monotonic()) * 1000

    def _is_late(self) -> bool:
        return self._wanted is not None and time.monotonic() >= self._wanted_at + _LATE_S

    def _want_spare(self, config: spawn.WorkerConfig, pause_s: float) -> None:
        if len(self._from_spares) < _MOST_FROM_SPARES:
            self._wanted, self._wanted_at = config, time.monotonic() + pause_s

    def _expect(self, config: spawn.WorkerConfig) -> None:
        """Schedule a spare worker for an expected context, unless one for such a context exists."""
        if self._spare is not None and self._spare.suits(config):
            return
        if self._spare is not None:
            self._spare.end()
            self._spare = None
        self._want_spare(config, 0.0)

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
        # Before gpud gets the reply and closes its copies: the process that closes last may have to
        # wait.
        for descriptor in descriptors:
            os.close(descriptor)
        if reply is not None:
            self._send(reply)
        return True

    def _answer(self, data: bytes, descriptors: list[int]) -> dict[str, Any] | None:
        request = None
        try:
            message = spawn.decode(data)
            if message["type"] == "expect":
                self._expect(_config(message))
                return None
            request = message.get("request")
            pid = self._spawn(message, descriptors)
        except (OSError, ValueError, RuntimeError) as err:
            return {"type": "failed", "request": request, "error": str(err)}
        return {"type": "spawned", "request": request, "pid": pid}

    def _spawn(self, message: dict[str, Any], descriptors: list[int]) -> int:
        if message["type"] != "spawn" or len(descriptors) != 2:
            raise ValueError("expected a spawn message with two descriptors")
        config = _config(message)
        self._send({"type": "begun", "request": message.get("request")})
        client, gpud = (socket.socket(fileno=os.dup(descriptor)) for descriptor in descriptors)
        with client, gpud:
            return self._claim_spare(config, client, gpud) or _fork(
                lambda: _become_worker(config, client.fileno(), gpud.fileno())
            )

    def _claim_spare(
        self, config: spawn.WorkerConfig, client: socket.socket, gpud: socket.socket
    ) -> int:
        """Give a context to a spare worker; return the worker's pid, or 0 if there is no suitable
        one.
        """
        spare = self._spare
        if spare is not None and spare.suits(config) and not spare.ready:
            return 0
        self._spare = None
        self._want_spare(config, _PAUSE_S)
        if spare is None:
            return 0
        if not spare.suits(config):
            spare.end()
            return 0
        if not spare.claim(config, client, gpud):
            return 0
        self._from_spares.add(spare.pid)
        return spare.pid

    def _make_spare(self) -> None:
        config, self._wanted = self._wanted, None
        if config is None or self._spare is not None:
            return
        if _cpus_are_busy():
            self._want_spare(config, _BUSY_PAUSE_S)
            return
        with contextlib.suppress(OSError, RuntimeError):
            spare = Spare(config)
            spare.set_process(_fork(lambda: _become_spare(config, spare.its_channel.fileno())))
            self._spare = spare

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._from_spares.discard(pid)
            if self._spare is not None and self._spare.pid == pid:
                self._spare = None
            self._send({"type": "exited", "pid": pid, "status": status})

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # gpud has gone: the next read reports that
            self._gpud.send(spawn.encode(message))


def _cpus_are_busy() -> bool:
    """Return whether many threads competed for this machine's CPUs in the last minute."""
    return os.getloadavg()[0] > _MOST_LOAD * (os.cpu_count() or 1)


def _config(message: dict[str, Any]) -> spawn.WorkerConfig:
    document = message.get("worker")
    if not isinstance(document, dict):
        raise ValueError("the spawn message lacks a worker's configuration")
    return spawn.WorkerConfig.from_json(document)


def _fork(be: Callable[[], NoReturn]) -> int:
    """Fork a child that calls ``be`` and then ends, even on errors; return its pid.

    Raises:
        RuntimeError: from ``assert_single_threaded``.
    """
    assert_single_threaded()
    address_randomization.fill_holes()
    pid = os.fork()
    if pid == 0:
        try:
            address_randomization.reserve_gap()  # before anything else is mapped
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            be()
        except BaseException as err:  # noqa: BLE001 - a forked child must end here
            os.write(2, f"worker {os.getpid()}: {type(err).__name__}: {err}\n".encode())
        os._exit(spawn.CRASHED_STATUS)
    return pid


def assert_single_threaded() -> None:
    """Check that this process has a single thread. If another thread held a lock during a fork, the
    lock would stay locked in the child.

    Raises:
        RuntimeError: there are more threads; the message has their number.
    """
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the zygote has {threads} threads; it must not fork")


def _become_worker(config: spawn.WorkerConfig, client_fd: int, gpud_fd: int) -> NoReturn:
    client, gpud = _keep_only(client_fd, gpud_fd)
    machine.run_worker(config, client, gpud)


def _become_spare(config: spawn.WorkerConfig, channel_fd: int) -> NoReturn:
    (channel,) = _keep_only(channel_fd)
    machine.run_spare(config, channel)


def _keep_only(*descriptors: int) -> list[socket.socket]:
    """Close every descriptor except standard error and these sockets."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    close_all(first=3, kept_descriptors=descriptors)
    return [socket.socket(fileno=descriptor) for descriptor in descriptors]


def main() -> None:
    """Run the zygote; the command line has the number of an inherited socket and, optionally, the
    workers' uid.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # gpud decides when workers end
    gc.disable()  # what is prepared stays, so a collection would find no garbage
    machine.prepare()
    machine.adopt_orphans()
    gc.freeze()  # collections in children would otherwise copy pages
    gc.set_threshold(_GC_THRESHOLD)
    gc.enable()
    sandbox = machine.probe_sandbox(int(sys.argv[2]) if len(sys.argv) > 2 else None)
    Zygote(socket.socket(fileno=int(sys.argv[1]))).serve(sandbox)


if __name__ == "__main__":
    main()
