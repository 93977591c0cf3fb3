"""The filter of system calls behind which hcad serves: an allow-list, everything else is EPERM.

No socket is made or connected, no process is started, signalled or looked into, and no memory
becomes executable. Sockets that hcad is to use are opened before, or passed to it. What is in the
list was taken from a traced hcad, plus what libc may use instead.
"""

import os
from typing import Final

from vgpu_sim.system import filters

_ALLOWED: Final = {
    "read": 0,
    "write": 1,
    "close": 3,
    "stat": 4,
    "fstat": 5,
    "lstat": 6,
    "poll": 7,
    "lseek": 8,
    "munmap": 11,
    "brk": 12,
    "rt_sigaction": 13,
    "rt_sigprocmask": 14,
    "rt_sigreturn": 15,
    "writev": 20,
    "sched_yield": 24,
    "mremap": 25,
    "madvise": 28,
    "dup": 32,
    "nanosleep": 35,
    "getpid": 39,
    "sendto": 44,
    "recvfrom": 45,
    "sendmsg": 46,
    "recvmsg": 47,
    "shutdown": 48,
    "listen": 50,
    "getsockname": 51,
    "getpeername": 52,
    "getsockopt": 55,
    "exit": 60,
    "flock": 73,
    "ftruncate": 77,
    "mkdir": 83,
    "rmdir": 84,
    "unlink": 87,
    "getuid": 102,
    "geteuid": 107,
    "sigaltstack": 131,
    "gettid": 186,
    "futex": 202,
    "sched_getaffinity": 204,
    "getdents64": 217,
    "set_tid_address": 218,
    "restart_syscall": 219,
    "clock_gettime": 228,
    "clock_nanosleep": 230,
    "exit_group": 231,
    "epoll_wait": 232,
    "epoll_ctl": 233,
    "openat": 257,
    "mkdirat": 258,
    "newfstatat": 262,
    "unlinkat": 263,
    "ppoll": 271,
    "set_robust_list": 273,
    "epoll_pwait": 281,
    "accept4": 288,
    "eventfd2": 290,
    "epoll_create1": 291,
    "pipe2": 293,
    "recvmmsg": 299,
    "sendmmsg": 307,
    "getcpu": 309,
    "getrandom": 318,
    "memfd_create": 319,
    "statx": 332,
    "rseq": 334,
    "epoll_pwait2": 441,
}

# A node's hcad: functions come and go, and each has a socket and a folder; netd is asked again for
# each pod. The kernel makes no other sockets for it than local ones.
_ALLOWED_ON_A_NODE: Final = {
    "connect": 42,
    "bind": 49,
    "setsockopt": 54,
    "symlink": 88,
    "readlink": 89,
    "chmod": 90,
    "umask": 95,
    "readlinkat": 267,
    "symlinkat": 266,
    "fchmodat": 268,
}
_SOCKET: Final = 41
_LOCAL: Final = 1  # AF_UNIX

_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL = 0, 1, 2, 3, 4
_F_DUPFD_CLOEXEC, _F_ADD_SEALS, _F_GET_SEALS = 1030, 1033, 1034
_FCNTL_COMMANDS: Final = (
    *(_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL),
    *(_F_DUPFD_CLOEXEC, _F_ADD_SEALS, _F_GET_SEALS),
)
_FIONBIO, _FIOCLEX = 0x5421, 0x5451  # asm-generic/ioctls.h
# linux/userfaultfd.h: UFFDIO_API, UFFDIO_REGISTER, UFFDIO_UNREGISTER
_UFFD_REQUESTS: Final = (0xC018AA3F, 0xC020AA00, 0x8010AA01)
_UFFD_FLAGS: Final = os.O_CLOEXEC | 1  # UFFD_USER_MODE_ONLY
_PRCTL_OPTIONS: Final = (15, 16, 0x53564D41)  # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA
_PROT_EXEC: Final = 4
_MEMORY: Final = {"mmap": 9, "mprotect": 10}


def _by_argument(pid: int) -> dict[str, filters.ByArgument]:
    return {
        "ioctl": (16, 1, (_FIONBIO, _FIOCLEX, *_UFFD_REQUESTS)),
        "fcntl": (72, 1, _FCNTL_COMMANDS),
        "prctl": (157, 0, _PRCTL_OPTIONS),
        "tgkill": (234, 0, (pid,)),  # a thread of its own, out of a wait
        "userfaultfd": (323, 0, (_UFFD_FLAGS,)),
    }


def program(*, node: bool = False) -> bytes:
    """Return the filter for this process: a fabric's hcad, or a node's."""
    plain = [filters.without_bits(number, 2, _PROT_EXEC) for number in _MEMORY.values()]
    first = [step for steps in (filters.THREADS, *plain) for step in steps]
    by_argument = _by_argument(os.getpid())
    numbers = set(_ALLOWED.values())
    if node:
        by_argument["socket"] = (_SOCKET, 0, (_LOCAL,))
        numbers |= set(_ALLOWED_ON_A_NODE.values())
    return filters.assemble(first, by_argument, numbers)


def install(*, node: bool = False) -> None:
    """Filter this thread and all that it will start; needs no_new_privs. Raises OSError."""
    filters.apply(program(node=node))
