"""Composition root of the node agent: ``tessera-device-plugin``.

The container runs three processes. The supervisor, which is this process, only keeps the other
two running. It starts no thread, so that it can fork at any time, and the other two share the
memory of what is imported here. The second process serves the kubelet and does nothing else:
while it lives the kubelet continues to admit pods. The third process is the agent, a client of
gpud and the API server, which may end, hang and be restarted.
"""

import ctypes
import gc
import logging
import mmap
import multiprocessing
import os
import re
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Listener, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

from device_plugin import agent_process, config, kubelet_process
from device_plugin.config import Settings
from device_plugin.errors import AgentError

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_STEADY_S = 30.0  # a process that lived this long is restarted at once
HUNG_AFTER_S = 30.0  # the liveness probe ends the container after 40 at the earliest
SETTLED_S = 300.0  # longer than it takes to detect that a loop hangs in its first pass
_LEAVE_S = 30.0  # the kubelet allows the pod 40 seconds
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_FILE_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \d+ +/")  # proc_pid_smaps(5)
_fork = multiprocessing.get_context("fork")
_log = logging.getLogger(__name__)


def main() -> None:
    """Serve this node's slices until SIGTERM; on an error, print one line and exit with 1."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = config.from_environment()
        with tempfile.TemporaryDirectory(prefix="tessera-agent-") as directory:
            status = Supervisor(settings, Path(directory) / "link").run()
    except (AgentError, OSError, ValueError) as err:
        sys.exit(f"tessera-device-plugin: {err}")
    sys.exit(status)


class Supervisor:
    """Starts the agent's process and the one that serves the kubelet; restarts them if needed.

    A process is restarted if it ends or hangs. Single-threaded.
    """

    def __init__(
        self,
        settings: Settings,
        address: Path,
        hung_after_s: float = HUNG_AFTER_S,
        settled_s: float = SETTLED_S,
    ) -> None:
        key = secrets.token_bytes(32)
        self._settled_s = settled_s
        self._listener = listener = Listener(str(address), authkey=key)
        self._beats, beat = multiprocessing.Pipe(duplex=False)
        self._stop, self._stop_writer = multiprocessing.Pipe(duplex=False)
        self._kubelet = ChildProcess(
            "tessera-kubelet", lambda: kubelet_process.run(settings, listener)
        )
        self._agent = ChildProcess(
            "tessera-agent",
            lambda: agent_process.run(settings, address, key, lambda: beat.send(None)),
            hung_after_s,
        )
        self._worked = False

    def run(self) -> int:
        """Run both processes until SIGTERM, and return 0.

        Return 1 if the agent ends before its first heartbeat, or hangs soon after its start.
        """
        _keep_memory_shared()
        with self._listener:
            return self._keep_both()

    def _keep_both(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop_requested)
        kept = (self._kubelet, self._agent)
        while True:
            due = self._kubelet.start_if_due(), self._agent.start_if_due(again=self._worked)
            pauses = [pause for pause in due if pause is not None]
            running = [one.sentinel for one in kept if one.sentinel]
            wait([*running, self._stop, self._beats], min(pauses, default=None))
            if self._stop.poll():
                self._agent.end(_LEAVE_S)  # it shuts down while the kubelet is still served
                self._kubelet.end(_LEAVE_S)
                return 0
            while self._beats.poll():
                self._beats.recv()
                self._agent.record_heartbeat()
                self._worked = True
            if (self._agent.has_ended and not self._worked) or self._hangs_for_good():
                self._kubelet.end(_LEAVE_S)
                return 1

    def _hangs_for_good(self) -> bool:
        """End an agent that hangs; return whether a new one would hang, too.

        An agent that hangs soon after its start waits for something outside the process.
        """
        if not self._agent.hangs:
            return False
        _log.error("the agent sends no heartbeat")
        self._agent.end(0)
        return self._agent.age_s < self._settled_s

    def _stop_requested(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._stop_writer.send(None)


def _keep_memory_shared() -> None:
    """Share the memory of imported modules with forked processes, and free the rest.

    A garbage collection would write to every object that it visits, and so copy its page. Code
    that only imports have run is not needed again: pages that equal their file are dropped, and
    read again on demand.
    """
    gc.collect()
    gc.freeze()
    libc = ctypes.CDLL(None)
    span = 0, 0
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if "-" in line.partition(" ")[0]:
            found = _FILE_MAPPING.match(line)
            span = (int(found[1], 16), int(found[2], 16)) if found else (0, 0)
        elif (
            line.split() == ["Anonymous:", "0", "kB"] and span[0]
        ):  # none of its pages was written to
            start, end = span
            size = ctypes.c_size_t(end - start)
            libc.madvise(ctypes.c_void_p(start), size, mmap.MADV_DONTNEED)


class ChildProcess:
    """A child process that is restarted after it ends.

    The pause before a restart grows while the process ends soon after each start. The process
    ``hangs`` if it has sent no heartbeat for ``hung_after_s`` seconds; if that is None,
    heartbeats are not checked.
    """

    def __init__(
        self, name: str, body: Callable[[], None], hung_after_s: float | None = None
    ) -> None:
        self._name = name
        self._body = body
        self._hung_after_s = hung_after_s
        self._heartbeat_at = 0.0
        self._process: BaseProcess | None = None
        self._started_at = 0.0
        self._due_at = 0.0
        self._pause_s = 0.0

    @property
    def sentinel(self) -> int:
        """Return the descriptor that becomes ready when the process ends; 0 if no process runs."""
        return self._process.sentinel if self._process is not None else 0

    @property
    def has_ended(self) -> bool:
        """Return whether the process was started and has ended."""
        return self._process is not None and self._process.exitcode is not None

    def record_heartbeat(self) -> None:
        """Record that the process has just sent a heartbeat."""
        self._heartbeat_at = time.monotonic()

    @property
    def age_s(self) -> float:
        """Return the seconds since the process was last started."""
        return time.monotonic() - self._started_at

    @property
    def hangs(self) -> bool:
        """Return whether the process runs, but its last heartbeat is too old."""
        silent_s = time.monotonic() - self._heartbeat_at
        runs = self._process is not None and not self.has_ended
        return runs and self._hung_after_s is not None and silent_s >= self._hung_after_s

    def start_if_due(self, *, again: bool = True) -> float | None:
        """Start the process if it is due.

        Return the number of seconds after which this must be called again; None if no further
        call is necessary. If ``again`` is false, a process that has ended is not restarted. The
        sentinel may become ready a moment before ``has_ended`` is true; then only the next call
        detects the end of the process.
        """
        now = time.monotonic()
        if self.has_ended:
            if not again:
                return 0.0
            assert self._process is not None
            _log.error("%s ended with %s", self._name, self._process.exitcode)
            steady = now - self._started_at >= _STEADY_S
            self._due_at = now + (0.0 if steady else self._pause_s)
            longer = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            self._pause_s = 0.0 if steady else longer
            self._process = None
        if self._process is None:
            if now < self._due_at:
                return self._due_at - now
            self._started_at = self._heartbeat_at = now
            self._process = _fork.Process(
                target=_be_child, args=(os.getpid(), self._name, self._body)
            )
            self._process.start()
        if self._hung_after_s is None:
            return None
        return max(0.0, self._heartbeat_at + self._hung_after_s - now)

    def end(self, within_s: float) -> None:
        """Send SIGTERM to the process; kill it if it does not end within ``within_s`` seconds."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.join(within_s)
        self._process.kill()
        self._process.join()


def _be_child(parent: int, name: str, body: Callable[[], None]) -> None:
    """Run ``body`` in a process with its own name, which ends when the parent ends."""
    Path("/proc/self/comm").write_text(name)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    try:
        body()
    except (AgentError, OSError, ValueError) as err:
        sys.exit(f"tessera-device-plugin: {err}")


if __name__ == "__main__":
    main()
