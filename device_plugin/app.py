"""Composition root of the node agent: ``tessera-device-plugin``.

The container runs three processes. The supervisor, which is this process, only keeps the other
two running. It starts no thread, so that it can fork at any time, and the other two share the
memory of what is imported here. The second process serves the kubelet and does nothing else:
while it lives the kubelet continues to admit pods. The third process is the agent, a client of
gpud and the API server, which may end, hang and be restarted.

The pod's second container has only a supervisor and a process that stands by to serve the
kubelet: it begins when the other container's process ends, however it ends (ADR 222).
"""

import ctypes
import gc
import logging
import mmap
import multiprocessing
import os
import re
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
from device_plugin.dp.meeting import Meeting
from device_plugin.errors import AgentError
from device_plugin.metrics import METRICS

_FIRST_PAUSE_S = 0.2  # before the second restart of a process that ends soon after its start
_LONGEST_PAUSE_S = 10.0
_STEADY_S = 5.0  # a process that lived this long is restarted without a growing pause
# Until the process that stood by has registered, the kubelet fails pods. The start of the next one
# would take CPU time from it.
_TURN_S = 0.5
KUBELET_SIDE_HUNG_AFTER_S = 10.0  # the kubelet waits for it without limit, with all its pods
_OVERSLEPT_S = 2.0  # a supervisor that sleeps so much too long was itself stopped or starved
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
        with tempfile.TemporaryDirectory(prefix="tessera-agent-") as own:
            directory = settings.link_dir or Path(own)
            status = Supervisor(settings, directory).run()
    except (AgentError, OSError, ValueError) as err:
        sys.exit(f"tessera-device-plugin: {err}")
    sys.exit(status)


class Supervisor:
    """Starts the agent's process and the one that serves the kubelet; restarts them if needed.

    A process is restarted if it ends or hangs. In the container that stands by, there is no agent.
    Single-threaded.
    """

    def __init__(
        self,
        settings: Settings,
        directory: Path,
        hung_after_s: float = HUNG_AFTER_S,
        settled_s: float = SETTLED_S,
        side_hung_after_s: float = KUBELET_SIDE_HUNG_AFTER_S,
    ) -> None:
        """Initialize; ``directory`` is shared with the pod's other container."""
        meeting = Meeting(directory)
        METRICS.share(directory)  # before the first fork
        key = meeting.key()
        address = meeting.address(standby=settings.standby)
        address.unlink(missing_ok=True)
        self._settled_s = settled_s
        self._alive = meeting.alive_file(standby=settings.standby)
        self._listener = listener = Listener(str(address), authkey=key)
        self._stop, self._stop_writer = multiprocessing.Pipe(duplex=False)
        self._kubelet = ChildProcess(
            "tessera-standby",
            lambda beat: kubelet_process.run(settings, listener, meeting, beat),
            side_hung_after_s,
            _TURN_S,
        )
        self._agent = None
        if not settings.standby:
            self._agent = ChildProcess(
                "tessera-agent",
                lambda beat: agent_process.run(settings, meeting, key, beat),
                hung_after_s,
            )

    def run(self) -> int:
        """Run the processes until SIGTERM, and return 0.

        Return 1 if the agent ends before its first heartbeat, or hangs soon after its start.
        """
        _keep_memory_shared()
        with self._listener:
            return self._keep_all()

    def _keep_all(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop_requested)
        children = [self._kubelet] if self._agent is None else [self._kubelet, self._agent]
        while True:
            self._alive.touch()
            due = [self._kubelet.start_if_due()]
            if self._agent is not None:
                due.append(self._agent.start_if_due(again=self._agent.has_worked))
            pause_s = min((pause for pause in due if pause is not None), default=None)
            running = [child.sentinel for child in children if child.sentinel]
            began = time.monotonic()
            wait([*running, self._stop, *(child.beats for child in children)], pause_s)
            overslept = time.monotonic() - began - (pause_s or 0.0) > _OVERSLEPT_S
            if self._stop.poll():
                if self._agent is not None:
                    self._agent.end(_LEAVE_S)  # it shuts down while the kubelet is still served
                self._kubelet.end(_LEAVE_S)
                return 0
            for child in children:
                child.receive_heartbeats()
                if overslept:
                    child.record_heartbeat()
            if self._kubelet.hangs:
                _log.error("the process that serves the kubelet sends no heartbeat")
                self._kubelet.end(0)
            if self._agent is not None and self._ends_for_good(self._agent):
                self._kubelet.end(_LEAVE_S)
                return 1

    def _ends_for_good(self, agent: "ChildProcess") -> bool:
        """End an agent that hangs; return whether a new one would fail or hang, too.

        An agent that hangs soon after its start waits for something outside the process.
        """
        if agent.has_ended and not agent.has_worked:
            return True
        if not agent.hangs:
            return False
        _log.error("the agent sends no heartbeat")
        agent.end(0)
        return agent.age_s < self._settled_s

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
            match = _FILE_MAPPING.match(line)
            span = (int(match[1], 16), int(match[2], 16)) if match else (0, 0)
        elif (
            line.split() == ["Anonymous:", "0", "kB"] and span[0]
        ):  # none of its pages was written to
            start, end = span
            size = ctypes.c_size_t(end - start)
            libc.madvise(ctypes.c_void_p(start), size, mmap.MADV_DONTNEED)


class ChildProcess:
    """A child process that is restarted after it ends.

    The first restart follows after ``first_pause_s``. The pause before further ones grows while the
    process ends soon after each start. The process ``hangs`` if it has sent no heartbeat for
    ``hung_after_s`` seconds.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[Callable[[], None]], None],
        hung_after_s: float,
        first_pause_s: float = 0.0,
    ) -> None:
        """Initialize; ``body`` gets the function that sends a heartbeat."""
        self._name = name
        self._body = body
        self._hung_after_s = hung_after_s
        self._first_pause_s = first_pause_s
        self.beats, self._beat = multiprocessing.Pipe(duplex=False)
        self.has_worked = False
        self._heartbeat_at = 0.0
        self._process: BaseProcess | None = None
        self._started_at = 0.0
        self._due_at = 0.0
        self._pause_s = first_pause_s

    @property
    def sentinel(self) -> int:
        """Return the descriptor that becomes ready when the process ends; 0 if no process runs."""
        return self._process.sentinel if self._process is not None else 0

    @property
    def has_ended(self) -> bool:
        """Return whether the process was started and has ended."""
        return self._process is not None and self._process.exitcode is not None

    def receive_heartbeats(self) -> None:
        """Record the heartbeats that the process has sent."""
        while self.beats.poll():
            self.beats.recv()
            self.record_heartbeat()
            self.has_worked = True

    def record_heartbeat(self) -> None:
        """Record that the process counts as alive now."""
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
        return runs and silent_s >= self._hung_after_s

    def start_if_due(self, *, again: bool = True) -> float | None:
        """Start the process if it is due.

        Return the number of seconds after which this must be called again; None if no further
        call is necessary. If ``again`` is false, a process that has ended is not restarted. The
        sentinel may become ready a moment before ``has_ended`` is true; then only the next call
        detects the end of the process.
        """
        now_s = time.monotonic()
        if self.has_ended:
            if not again:
                return 0.0
            assert self._process is not None
            _log.error("%s ended with %s", self._name, self._process.exitcode)
            steady = now_s - self._started_at >= _STEADY_S
            self._due_at = now_s + (self._first_pause_s if steady else self._pause_s)
            longer = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            self._pause_s = self._first_pause_s if steady else longer
            self._process = None
        if self._process is None:
            if now_s < self._due_at:
                return self._due_at - now_s
            self._started_at = self._heartbeat_at = now_s
            self._process = _fork.Process(
                target=_be_child, args=(os.getpid(), self._name, self._run_body)
            )
            self._process.start()
        return max(0.0, self._heartbeat_at + self._hung_after_s - now_s)

    def _run_body(self) -> None:
        self._body(lambda: self._beat.send(None))

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
