"""Controls perftest with ``-D``: its clock is SIGALRM, which the test sends.

A program that measures for some seconds may end on a slow machine before the test has finished
its work. With a duration of an hour it gets its alarms from the test instead: the first begins
the measurement, the second ends it, and the third ends the program.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from support.processes.gpud_process import wait_until

FOR_AN_HOUR = ("-D", "3600")
ALARM = 1 << (signal.SIGALRM - 1)


def _descendants(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = [
            int(one)
            for listed in Path(f"/proc/{pid}/task").glob("*/children")
            for one in listed.read_text().split()
        ]
    except OSError:
        return  # it has ended meanwhile
    for child in children:
        yield from _descendants(child)


def _signals(pid: int, which: str) -> int:
    """Return a set of signals of a process, from /proc/PID/status; empty once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1], 16) for line in lines if line.startswith(f"{which}:")), 0)


def measuring(run: "subprocess.Popen[str] | subprocess.Popen[bytes]", tool: str) -> int:
    """Wait until the tool below a run counts its transfers; return its pid."""

    def find() -> int:
        assert run.poll() is None, "it has ended"
        for pid in _descendants(run.pid):
            try:
                name = Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
            if name == tool and _signals(pid, "SigCgt") & ALARM:
                return pid
        return 0

    return int(wait_until(find))


def strike(*programs: int) -> None:
    """Send each process its next alarm, and wait until it is delivered."""
    for pid in programs:
        os.kill(pid, signal.SIGALRM)
        wait_until(partial(_has_taken, pid))


def _has_taken(pid: int) -> bool:
    return not _signals(pid, "ShdPnd") & ALARM


def finish(*programs: int) -> None:
    """Let programs that have had no alarm yet measure for a moment, and end."""
    for _ in range(3):
        strike(*programs)
