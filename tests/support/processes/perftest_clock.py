"""perftest with ``-D``: its clock is SIGALRM, and here the test's own hand moves it.

A program that measures for some seconds is over, on a slow machine, before a test has done to it
what it came for. Told to measure for an hour, it gets its alarms from the test instead: the first
begins what is measured, the second ends that, and the third ends the program.
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
    """A set of signals of a process, as /proc/PID/status has it; none once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1], 16) for line in lines if line.startswith(f"{which}:")), 0)


def measuring(run: "subprocess.Popen[str] | subprocess.Popen[bytes]", tool: str) -> int:
    """Wait until the tool below a run counts what it moves; return its process."""

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
    """Give each its next alarm, and wait until it is taken."""
    for pid in programs:
        os.kill(pid, signal.SIGALRM)
        wait_until(partial(_has_taken, pid))


def _has_taken(pid: int) -> bool:
    return not _signals(pid, "ShdPnd") & ALARM


def finish(*programs: int) -> None:
    """Have programs that were not struck yet measure for a moment, and end."""
    for _ in range(3):
        strike(*programs)
