"""Composition root of the node agent: ``tessera-device-plugin``.

Three processes of one container. This one only keeps the other two running; it starts no thread, so
that it can fork at any time, and both share what is imported here. One serves the kubelet and does
nothing else: while it lives the kubelet goes on admitting pods. The other is the agent, which talks
to gpud and the API server, and may end, hang and start again.
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
_STEADY_S = 30.0  # who lived this long is started again at once
HUNG_AFTER_S = 30.0  # the third liveness probe, which ends the container, fails after 40 at least
SETTLED_S = 300.0  # longer than it takes to see that a loop hangs in its first pass
_LEAVE_S = 30.0  # the kubelet allows the pod 40 seconds
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_FILE_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \d+ +/")  # proc_pid_smaps(5)
_fork = multiprocessing.get_context("fork")
_log = logging.getLogger(__name__)


def main() -> None:
    """Serve this node's slices until told to stop. Exits with 1 and one line if it cannot."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = config.from_environment()
        with tempfile.TemporaryDirectory(prefix="tessera-agent-") as directory:
            status = Supervisor(settings, Path(directory) / "link").run()
    except (AgentError, OSError, ValueError) as err:
        sys.exit(f"tessera-device-plugin: {err}")
    sys.exit(status)


class Supervisor:
    """Starts both processes, and again whichever ends or hangs. Single-threaded."""

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
        self._kubelet = Kept("tessera-kubelet", lambda: kubelet_process.run(settings, listener))
        self._agent = Kept(
            "tessera-agent",
            lambda: agent_process.run(settings, address, key, lambda: beat.send(None)),
            hung_after_s,
        )
        self._worked = False

    def run(self) -> int:
        """Return the exit status: 0 when told to stop, 1 if the agent never got to work."""
        _keep_memory_shared()
        with self._listener:
            return self._keep_both()

    def _keep_both(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told_to_stop)
        kept = (self._kubelet, self._agent)
        while True:
            due = self._kubelet.keep(), self._agent.keep(again=self._worked)
            pauses = [pause for pause in due if pause is not None]
            running = [one.sentinel for one in kept if one.sentinel]
            wait([*running, self._stop, self._beats], min(pauses, default=None))
            if self._stop.poll():
                self._agent.end(_LEAVE_S)  # it says good-bye while the kubelet is still served
                self._kubelet.end(_LEAVE_S)
                return 0
            while self._beats.poll():
                self._beats.recv()
                self._agent.heard()
                self._worked = True
            if (self._agent.has_ended and not self._worked) or self._hangs_for_good():
                self._kubelet.end(_LEAVE_S)
                return 1

    def _hangs_for_good(self) -> bool:
        """End an agent that hangs; return whether a new one would, too.

        One that hangs soon after its start waits for something that is not in it.
        """
        if not self._agent.hangs:
            return False
        _log.error("the agent gives no sign of life")
        self._agent.end(0)
        return self._agent.age_s < self._settled_s

    def _told_to_stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._stop_writer.send(None)


def _keep_memory_shared() -> None:
    """Have this process and those that it forks share what is imported, and keep nothing else.

    A collection would write to every object that it looks at, and so copy it. The code that only
    imports ran is not needed again: pages that equal their file are read from there on demand.
    """
    gc.collect()
    gc.freeze()
    libc = ctypes.CDLL(None)
    span = 0, 0
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if "-" in line.partition(" ")[0]:
            found = _FILE_MAPPING.match(line)
            span = (int(found[1], 16), int(found[2], 16)) if found else (0, 0)
        elif line.split() == ["Anonymous:", "0", "kB"] and span[0]:  # none was written to
            start, end = span
            size = ctypes.c_size_t(end - start)
            libc.madvise(ctypes.c_void_p(start), size, mmap.MADV_DONTNEED)


class Kept:
    """A child process that is started again, after a pause that grows while it dies young.

    It ``hangs`` when it has not been ``heard`` for ``hung_after_s``; None: that is not looked at.
    """

    def __init__(
        self, name: str, body: Callable[[], None], hung_after_s: float | None = None
    ) -> None:
        self._name = name
        self._body = body
        self._hung_after_s = hung_after_s
        self._heard_at = 0.0
        self._process: BaseProcess | None = None
        self._started_at = 0.0
        self._due_at = 0.0
        self._pause_s = 0.0

    @property
    def sentinel(self) -> int:
        """Return what becomes ready when it ends; 0: it is not running."""
        return self._process.sentinel if self._process is not None else 0

    @property
    def has_ended(self) -> bool:
        """Return whether it was started and is no more."""
        return self._process is not None and self._process.exitcode is not None

    def heard(self) -> None:
        """Note a sign of life."""
        self._heard_at = time.monotonic()

    @property
    def age_s(self) -> float:
        """Return how long ago it was last started."""
        return time.monotonic() - self._started_at

    @property
    def hangs(self) -> bool:
        """Return whether it runs and has given no sign of life for too long."""
        silent_s = time.monotonic() - self._heard_at
        runs = self._process is not None and not self.has_ended
        return runs and self._hung_after_s is not None and silent_s >= self._hung_after_s

    def keep(self, *, again: bool = True) -> float | None:
        """Start it if it is due; return the seconds until there is something to do, None: nothing.

        The sentinel tells of an end a moment before it has come: then it is found the next time.
        Without ``again`` one that has ended is left for ``has_ended`` to find.
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
            self._started_at = self._heard_at = now
            self._process = _fork.Process(
                target=_be_child, args=(os.getpid(), self._name, self._body)
            )
            self._process.start()
        if self._hung_after_s is None:
            return None
        return max(0.0, self._heard_at + self._hung_after_s - now)

    def end(self, within_s: float) -> None:
        """Ask it to end, and make it."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.join(within_s)
        self._process.kill()
        self._process.join()


def _be_child(parent: int, name: str, body: Callable[[], None]) -> None:
    """Run ``body`` under a name of its own; it may not outlive the parent."""
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
