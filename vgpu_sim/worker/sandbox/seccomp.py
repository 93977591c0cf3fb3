"""A filter of system calls for workers: an allow-list, everything else fails with EPERM.

What is in it was taken from a traced worker that compiles, runs, maps memory, passes descriptors
and faults, plus what libc may use instead. Nothing in it changes another process: in standalone
use a worker has its user's own uid. x86-64 only, as the rest of the worker.
"""

from typing import Final

from vgpu_sim.system import calls, filters

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
    "clone": (filters.SYS_CLONE, 0, (_FORK_FLAGS,)),
    "fcntl": (72, 1, _FCNTL_COMMANDS),
    "prctl": (157, 0, (*_PRCTL_OPTIONS, calls.PR_SET_PDEATHSIG, calls.PR_SET_SECCOMP)),
    "setitimer": (38, 0, (2,)),  # ITIMER_PROF: a signal to nobody but itself
    "sched_setattr": (calls.SYS_SCHED_SETATTR, 0, (0,)),  # its own weight, not another process's
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


def install(*, files: bool) -> None:
    """Filter this thread and all it will start; needs no_new_privs.

    ``files`` lets the object cache be opened.

    Raises:
        OSError: where filters are not to be had.
    """
    numbers = {**_ALLOWED, **(_ALLOWED_FOR_CACHE if files else {})}.values()
    filters.apply(filters.assemble(filters.THREADS, _ALLOWED_BY_ARGUMENT, numbers))


def install_for_helper() -> None:
    """Filter a process that forks: no file, no thread, nothing done to any other process.

    ``install`` in its child takes forking away again: filters add up.

    Raises:
        OSError: where filters are not to be had.
    """
    filters.apply(filters.assemble([], _FOR_HELPER, [*_ALLOWED.values(), _SYS_WAIT4, _SYS_GETPPID]))
