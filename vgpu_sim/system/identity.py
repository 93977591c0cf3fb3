"""Who the worker is and what it may ask of the kernel: user, capabilities, limits."""

import contextlib
import errno
import os
import resource
from typing import Final

from vgpu_sim.system import calls

_CAPABILITY_VERSION_3: Final = 0x20080522
_MAX_CAPABILITY: Final = 63
# Of threads, too: of the pool and of streams at most 1154, and some of LLVM. The limit stops a fork
# bomb where seccomp is not to be had.
_MAX_PROCESSES: Final = 2048
_MAX_DESCRIPTORS: Final = 1024  # half of them for chunks that an HCA may be shown


def become(uid: int, gid: int) -> None:
    """Take another user and group, with no way back.

    Raises:
        OSError: when the process may not.
    """
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def drop_bounding_set() -> None:
    """Make sure that no capability ever comes back; a process without SETPCAP has none to lose."""
    for capability in range(_MAX_CAPABILITY + 1):
        try:
            calls.prctl(calls.PR_CAPBSET_DROP, capability)
        except OSError as err:
            if err.errno in (errno.EINVAL, errno.EPERM):  # past the last one, or not allowed
                return
            raise


def drop_capabilities() -> None:
    """Give up every capability that the process holds.

    Raises:
        OSError: when the kernel refuses, which it has no reason to.
    """
    with contextlib.suppress(OSError):  # kernels before 4.3 have no ambient set
        calls.prctl(calls.PR_CAP_AMBIENT, calls.PR_CAP_AMBIENT_CLEAR_ALL)
    header = _CAPABILITY_VERSION_3.to_bytes(4, "little") + bytes(4)
    calls.syscall(calls.SYS_CAPSET, header, bytes(24))


def forbid_new_privileges() -> None:
    """Make set-user-ID programs and file capabilities powerless (prctl(2))."""
    calls.prctl(calls.PR_SET_NO_NEW_PRIVS, 1)


def hide_from_ptrace() -> None:
    """Keep other processes of the same user out: PR_SET_DUMPABLE of prctl(2)."""
    calls.prctl(calls.PR_SET_DUMPABLE, 0)


def limit_resources(*, own_user: bool) -> None:
    """Set rlimits; that of processes counts the whole user, so only where the user is its own."""
    limits = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_NOFILE, _MAX_DESCRIPTORS),
    ]
    if own_user:
        limits.append((resource.RLIMIT_NPROC, _MAX_PROCESSES))
    for kind, limit in limits:
        _, hard = resource.getrlimit(kind)
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (allowed, allowed))
