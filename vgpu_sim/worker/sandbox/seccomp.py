"""A filter of system calls for workers: an allow-list, everything else fails with EPERM.

What is in it was taken from a traced worker that compiles, runs, maps memory, passes descriptors
and faults, plus what libc may use instead. Nothing in it changes another process: in standalone
use a worker has its user's own uid. x86-64 only, as the rest of the worker.
"""

import ctypes
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from vgpu_sim.worker.sandbox import system

_AUDIT_ARCH_X86_64: Final = 0xC000_003E
_X32_BIT: Final = 0x4000_0000
_RET_KILL_PROCESS: Final = 0x8000_0000
_RET_ALLOW: Final = 0x7FFF_0000
_RET_ERRNO: Final = 0x0005_0000
_SECCOMP_MODE_FILTER: Final = 2
_EPERM, _ENOSYS = 1, 38

_CLONE_THREAD: Final = 0x0001_0000
# CLONE_NEW* of linux/sched.h: a new thread is allowed, a new namespace is not.
_CLONE_NAMESPACES: Final = 0x7E02_0080
_SYS_CLONE: Final = 56
_SYS_CLONE3: Final = 435

_ALLOWED: Final = {
    "read": 0,
    "write": 1,
    "close": 3,
    "fstat": 5,
    "poll": 7,
    "lseek": 8,
    "mmap": 9,
    "mprotect": 10,
    "munmap": 11,
    "brk": 12,
    "rt_sigaction": 13,
    "rt_sigprocmask": 14,
    "rt_sigreturn": 15,
    "pread64": 17,
    "pwrite64": 18,
    "writev": 20,
    "sched_yield": 24,
    "mremap": 25,
    "madvise": 28,
    "pause": 34,
    "dup": 32,
    "nanosleep": 35,
    "getpid": 39,
    "geteuid": 107,
    "sendto": 44,
    "recvfrom": 45,
    "sendmsg": 46,
    "recvmsg": 47,
    "shutdown": 48,
    "exit": 60,
    "ftruncate": 77,
    "getrusage": 98,
    "sysinfo": 99,
    "sigaltstack": 131,
    "gettid": 186,
    "futex": 202,
    "sched_getaffinity": 204,
    "set_tid_address": 218,
    "restart_syscall": 219,
    "clock_gettime": 228,
    "clock_nanosleep": 230,
    "exit_group": 231,
    "newfstatat": 262,
    "ppoll": 271,
    "set_robust_list": 273,
    "fallocate": 285,
    "eventfd2": 290,
    "getcpu": 309,
    "getrandom": 318,
    "memfd_create": 319,
    "membarrier": 324,
    "rseq": 334,
    "futex_waitv": 449,
}

# Calls that do many things, by what their second (fcntl) or first (prctl) argument may be. Not in
# it: F_SETOWN, F_SETOWN_EX and F_SETSIG, which send signals to other processes; F_NOTIFY, leases
# and locks; PR_SET_DUMPABLE and PR_SET_PTRACER, which let others in; PR_SET_PDEATHSIG.
_F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL = 1, 2, 3, 4
_F_DUPFD_CLOEXEC, _F_ADD_SEALS, _F_GET_SEALS = 1030, 1033, 1034
_FCNTL_COMMANDS: Final = (
    *(_F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL),
    *(_F_DUPFD_CLOEXEC, _F_ADD_SEALS, _F_GET_SEALS),
)
_PRCTL_OPTIONS: Final = (15, 16, 0x53564D41)  # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA
_ALLOWED_BY_ARGUMENT: Final = {
    "fcntl": (72, 1, _FCNTL_COMMANDS),
    "prctl": (157, 0, _PRCTL_OPTIONS),
}

# What a compile helper may do instead of opening files and starting threads: fork as libc does, and
# nothing else that clone(2) offers; wait; limit the time of its child and its weight, end with its
# parent, and filter its child further.
_FORK_FLAGS: Final = 0x0120_0011  # CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD
_SYS_WAIT4: Final = 61
_SYS_GETPPID: Final = 110
_FOR_HELPER: Final = {
    "clone": (_SYS_CLONE, 0, (_FORK_FLAGS,)),
    "fcntl": (72, 1, _FCNTL_COMMANDS),
    "prctl": (157, 0, (*_PRCTL_OPTIONS, system.PR_SET_PDEATHSIG, system.PR_SET_SECCOMP)),
    "setitimer": (38, 0, (2,)),  # ITIMER_PROF: a signal to nobody but itself
    "sched_setattr": (system.SYS_SCHED_SETATTR, 0, (0,)),  # its own weight, not another process's
}

# Only where something else confines paths: the filter cannot see into a string.
_ALLOWED_FOR_CACHE: Final = {
    "openat": 257,
    "unlinkat": 263,
    "renameat": 264,
    "unlink": 87,
    "rename": 82,
    "renameat2": 316,
    "getdents64": 217,
    "fsync": 74,
    "statx": 332,
}

# Classic BPF: struct sock_filter, and the offsets within struct seccomp_data.
_INSTRUCTION: Final = struct.Struct("<HBBI")
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_OR_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _ARGUMENT_BYTES = 0, 4, 16, 8
_Step = tuple[int, int, int, int]
_ByArgument = tuple[int, int, tuple[int, ...]]  # number, which argument, its values

_THREADS: Final[tuple[_Step, ...]] = (
    (_JUMP_EQUAL, 0, 5, _SYS_CLONE),
    (_LOAD, 0, 0, _FIRST_ARGUMENT),
    (_JUMP_ANY_BIT, 2, 0, _CLONE_NAMESPACES),
    (_JUMP_ANY_BIT, 0, 1, _CLONE_THREAD),
    (_RETURN, 0, 0, _RET_ALLOW),
    (_RETURN, 0, 0, _RET_ERRNO | _EPERM),
)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install(*, files: bool) -> None:
    """Filter this thread and all it will start; needs no_new_privs.

    ``files`` lets the object cache be opened.

    Raises:
        OSError: where filters are not to be had.
    """
    numbers = {**_ALLOWED, **(_ALLOWED_FOR_CACHE if files else {})}.values()
    _filter(_assemble(_THREADS, _ALLOWED_BY_ARGUMENT, numbers))


def install_for_helper() -> None:
    """Filter a process that forks: no file, no thread, nothing done to any other process.

    ``install`` in its child takes forking away again: filters add up.

    Raises:
        OSError: where filters are not to be had.
    """
    _filter(_assemble([], _FOR_HELPER, [*_ALLOWED.values(), _SYS_WAIT4, _SYS_GETPPID]))


def _filter(code: bytes) -> None:
    program = _Program(len(code) // _INSTRUCTION.size, code)
    system.prctl(system.PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program))


def _assemble(
    first: Iterable[_Step], by_argument: Mapping[str, _ByArgument], numbers: Iterable[int]
) -> bytes:
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _AUDIT_ARCH_X86_64),
        (_RETURN, 0, 0, _RET_KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_GREATER_OR_EQUAL, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _RET_KILL_PROCESS),
        # libc falls back to clone, whose flags are a plain argument.
        (_JUMP_EQUAL, 0, 1, _SYS_CLONE3),
        (_RETURN, 0, 0, _RET_ERRNO | _ENOSYS),
        *first,
    ]
    for number, argument, values in by_argument.values():
        code += [
            (_JUMP_EQUAL, 0, 2 * len(values) + 2, number),
            (_LOAD, 0, 0, _FIRST_ARGUMENT + _ARGUMENT_BYTES * argument),
        ]
        for value in values:
            code += [(_JUMP_EQUAL, 0, 1, value), (_RETURN, 0, 0, _RET_ALLOW)]
        code.append((_RETURN, 0, 0, _RET_ERRNO | _EPERM))
    for number in sorted(numbers):
        code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _RET_ALLOW)]
    code.append((_RETURN, 0, 0, _RET_ERRNO | _EPERM))
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in code)
