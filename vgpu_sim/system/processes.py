"""Identifies processes by pidfd, because a pid alone may be reused for another process at any
time.
"""

import ctypes
import os
import signal
from pathlib import Path

from vgpu_sim.system import polling

PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
GPUD_NICE = -10


def open_process(pid: int) -> int | None:
    """Return a pidfd of a process, or None if there is no such process."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def kill(pidfd: int) -> bool:
    """Send SIGKILL to a process; return False if that is not permitted. An ended process is not an
    error.
    """
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return True


def stop(pidfd: int) -> bool:
    """Send SIGSTOP to a process; return False if that is not permitted, or the process has
    ended.
    """
    return _send(pidfd, signal.SIGSTOP)


def resume(pidfd: int) -> bool:
    """Send SIGCONT to a process; return False if that is not permitted, or the process has
    ended.
    """
    return _send(pidfd, signal.SIGCONT)


def _send(pidfd: int, number: signal.Signals) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        return False
    return True


def adopt_orphans() -> None:
    """Become the parent of workers whose zygote has ended (PR_SET_CHILD_SUBREAPER of prctl(2))."""
    ctypes.CDLL(None).prctl(ctypes.c_int(_PR_SET_CHILD_SUBREAPER), ctypes.c_ulong(1))


def raise_priority(nice: int = GPUD_NICE) -> bool:
    """Raise this thread's priority in its control group; return False if that is not permitted.

    Processes and threads that this thread starts have the usual priority (SCHED_RESET_ON_FORK of
    sched(7)). If this thread already has a lower priority than usual, the priority is not
    changed and the result is False. Requires CAP_SYS_NICE.
    """
    if os.getpriority(os.PRIO_PROCESS, 0) > 0:
        return False
    try:
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except PermissionError:
        return False
    return True


def reap(pidfd: int) -> int | None:
    """Return the wait status of a child that has ended; None if the process still runs or is not a
    child.
    """
    try:
        status = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    if status is None:
        return None
    return status.si_status << 8 if status.si_code == os.CLD_EXITED else status.si_status


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; together with the pid, this
    identifies a process.
    """
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def parent(pid: int) -> int | None:
    """Return the pid of a process's parent; None if there is no such process."""
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the field "state" on; an empty list if the process
    has ended.
    """
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    fields = stat.rpartition(")")[2].split()  # the name may contain any character
    return fields if len(fields) > 19 and fields[0] != "Z" else []


def shared_resident_bytes(pid: int) -> int:
    """Return the resident shared memory of a process in bytes. For a worker, this is the memory of
    its chunks.
    """
    try:
        status = (PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("RssShmem:"):
            return int(line.split()[1]) * 1024
    return 0


def has_capabilities(*numbers: int) -> bool:
    """Return whether this process has these effective capabilities (linux/capability.h)."""
    status = (PROC / "self" / "status").read_text(encoding="utf-8", errors="replace")
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            effective = int(line.split()[1], 16)
            return all(effective >> number & 1 for number in numbers)
    return False


def has_ended(pidfd: int) -> bool:
    """Return whether a process has ended (reaped or not)."""
    return polling.is_readable(pidfd)
