"""The worker's identity and its privileges: user, capabilities, limits."""

import contextlib
import errno
import os
import resource
from typing import Final

from vgpu_sim.system import calls

_CAPABILITY_VERSION_3: Final = 0x20080522
_MAX_CAPABILITY: Final = 63
# RLIMIT_NPROC counts threads, too: at most 1154 of the pool and of streams, and some of LLVM's. The
# limit stops a fork bomb if seccomp is not available.
_MAX_PROCESSES: Final = 2048
_MAX_DESCRIPTORS: Final = 1024  # half of them for chunks that are exported to an HCA


def become_user(uid: int, gid: int) -> None:
    """Change to another user and group, irrevocably.

    Raises:
        OSError: the process may not change its user or group.
    """
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def drop_bounding_set() -> None:
    """Remove all capabilities from the bounding set, so that they cannot be regained. Does nothing
    without CAP_SETPCAP.
    """
    for capability in range(_MAX_CAPABILITY + 1):
        try:
            calls.prctl(calls.PR_CAPBSET_DROP, capability)
        except OSError as err:
            if err.errno in (errno.EINVAL, errno.EPERM):  # past the last one, or not allowed
                return
            raise


def drop_capabilities() -> None:
    """Drop all capabilities of the process.

    Raises:
        OSError: the kernel refuses, which should not happen.
    """
    with contextlib.suppress(OSError):  # kernels before 4.3 have no ambient set
        calls.prctl(calls.PR_CAP_AMBIENT, calls.PR_CAP_AMBIENT_CLEAR_ALL)
    header = _CAPABILITY_VERSION_3.to_bytes(4, "little") + bytes(4)
    calls.syscall(calls.SYS_CAPSET, header, bytes(24))


def forbid_new_privileges() -> None:
    """Disable set-user-ID programs and file capabilities (PR_SET_NO_NEW_PRIVS of prctl(2))."""
    calls.prctl(calls.PR_SET_NO_NEW_PRIVS, 1)


def hide_from_ptrace() -> None:
    """Protect this process from ptrace by other processes of the same user (PR_SET_DUMPABLE of
    prctl(2)).
    """
    calls.prctl(calls.PR_SET_DUMPABLE, 0)


def limit_resources(*, own_user: bool) -> None:
    """Set resource limits (rlimits). The limit on the number of processes counts all processes of
    the user, so it is set only if the worker has a user of its own (``own_user``).
    """
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
