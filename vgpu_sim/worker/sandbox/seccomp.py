"""A filter of system calls for workers: an allow-list, everything else fails with EPERM.

What is in it was taken from a traced worker that compiles, runs, maps memory, passes descriptors
and faults, plus what libc may use instead. Nothing in it changes another process: in standalone
use a worker has its user's own uid. x86-64 only, as the rest of the worker.
"""

from typing import Final

from vgpu_sim.system import call_numbers, calls, filters
from vgpu_sim.system.call_numbers import NUMBERS

_ALLOWED: Final = call_numbers.named(
    "read write close fstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask "
    "rt_sigreturn pread64 pwrite64 writev sched_yield mremap madvise pause dup nanosleep "
    "getpid geteuid sendto recvfrom sendmsg recvmsg shutdown exit ftruncate getrusage sysinfo "
    "sigaltstack gettid futex sched_getaffinity set_tid_address restart_syscall clock_gettime "
    "clock_nanosleep exit_group newfstatat ppoll set_robust_list fallocate eventfd2 getcpu "
    "getrandom memfd_create membarrier rseq futex_waitv"
)

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
_SETITIMER: Final = (NUMBERS["setitimer"], 0, (2,))  # ITIMER_PROF: a signal to nobody but itself
_ALLOWED_BY_ARGUMENT: Final = {
    "fcntl": (NUMBERS["fcntl"], 1, _FCNTL_COMMANDS),
    "prctl": (NUMBERS["prctl"], 0, _PRCTL_OPTIONS),
    "setitimer": _SETITIMER,  # for generating code: how long it may take follows from the request
}

# What a compile helper may do instead of opening files and starting threads: fork as libc does, and
# nothing else that clone(2) offers; wait; limit the time of its child and its weight, end with its
# parent, and filter its child further.
_FORK_FLAGS: Final = 0x0120_0011  # CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD
_PLAIN_FOR_HELPER: Final = call_numbers.named("wait4 getppid")
_FOR_HELPER: Final = {
    "clone": (filters.SYS_CLONE, 0, (_FORK_FLAGS,)),
    "fcntl": (NUMBERS["fcntl"], 1, _FCNTL_COMMANDS),
    "prctl": (NUMBERS["prctl"], 0, (*_PRCTL_OPTIONS, calls.PR_SET_PDEATHSIG, calls.PR_SET_SECCOMP)),
    "setitimer": _SETITIMER,
    "sched_setattr": (calls.SYS_SCHED_SETATTR, 0, (0,)),  # its own weight, not another process's
}

# Only where something else confines paths: the filter cannot see into a string.
_ALLOWED_FOR_CACHE: Final = call_numbers.named(
    "openat unlinkat renameat unlink rename renameat2 getdents64 fsync statx"
)


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
    numbers = [*_ALLOWED.values(), *_PLAIN_FOR_HELPER.values()]
    filters.apply(filters.assemble([], _FOR_HELPER, numbers))
