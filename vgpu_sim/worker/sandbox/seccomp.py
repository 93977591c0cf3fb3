"""A filter of system calls for workers: an allow-list; all other calls fail with EPERM.

The list was taken from a traced worker that compiles, runs, maps memory, passes descriptors and
faults, plus the calls that libc may use instead. None of these calls affects another process,
because in standalone use a worker has the uid of its user. x86-64 only, like the rest of the
worker.
"""

from typing import Final

from vgpu_sim.system import call_numbers, calls, filters
from vgpu_sim.system.call_numbers import NUMBERS

_ALLOWED: Final = call_numbers.numbers_of(
    "read write close fstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask "
    "rt_sigreturn pread64 pwrite64 writev sched_yield mremap madvise pause dup nanosleep "
    "getpid geteuid sendto recvfrom sendmsg recvmsg shutdown exit ftruncate getrusage sysinfo "
    "sigaltstack gettid futex sched_getaffinity set_tid_address restart_syscall clock_gettime "
    "clock_nanosleep exit_group newfstatat ppoll set_robust_list fallocate eventfd2 getcpu "
    "getrandom memfd_create membarrier rseq futex_waitv"
)

# Calls with many functions, by the permitted values of their second (fcntl) or first (prctl)
# argument. Not permitted: F_SETOWN, F_SETOWN_EX and F_SETSIG, which send signals to other
# processes; F_NOTIFY, leases and locks; PR_SET_DUMPABLE and PR_SET_PTRACER, which give other
# processes access; PR_SET_PDEATHSIG.
_F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL = 1, 2, 3, 4
_F_DUPFD_CLOEXEC, _F_ADD_SEALS, _F_GET_SEALS = 1030, 1033, 1034
_FCNTL_COMMANDS: Final = (
    _F_GETFD,
    _F_SETFD,
    _F_GETFL,
    _F_SETFL,
    _F_DUPFD_CLOEXEC,
    _F_ADD_SEALS,
    _F_GET_SEALS,
)
_PRCTL_OPTIONS: Final = (15, 16, 0x53564D41)  # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA
_SETITIMER: Final = (NUMBERS["setitimer"], 0, (2,))  # ITIMER_PROF: signals only the caller
_ALLOWED_BY_ARGUMENT: Final = {
    "fcntl": (NUMBERS["fcntl"], 1, _FCNTL_COMMANDS),
    "prctl": (NUMBERS["prctl"], 0, _PRCTL_OPTIONS),
    "setitimer": _SETITIMER,  # for code generation, whose time limit depends on the request
}

# Calls that only a compile helper may use, instead of opening files and starting threads: fork as
# libc implements it, and no other use of clone(2); wait; limit the time of its child and its
# weight, end with its parent, and filter its child further.
_FORK_FLAGS: Final = 0x0120_0011  # CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD
_PLAIN_FOR_HELPER: Final = call_numbers.numbers_of("wait4 getppid")
_FOR_HELPER: Final = {
    "clone": (filters.SYS_CLONE, 0, (_FORK_FLAGS,)),
    "fcntl": (NUMBERS["fcntl"], 1, _FCNTL_COMMANDS),
    "prctl": (NUMBERS["prctl"], 0, (*_PRCTL_OPTIONS, calls.PR_SET_PDEATHSIG, calls.PR_SET_SECCOMP)),
    "setitimer": _SETITIMER,
    "sched_setattr": (calls.SYS_SCHED_SETATTR, 0, (0,)),  # it may change its own weight only
}

# Only if another mechanism confines paths: the filter cannot read strings.
_ALLOWED_FOR_CACHE: Final = call_numbers.numbers_of(
    "openat unlinkat renameat unlink rename renameat2 getdents64 fsync statx"
)


def install(*, files: bool) -> None:
    """Install the filter of system calls for this thread and its descendants; requires
    no_new_privs.

    If ``files`` is set, opening files in the object cache is permitted.

    Raises:
        OSError: filters are not available.
    """
    numbers = {**_ALLOWED, **(_ALLOWED_FOR_CACHE if files else {})}.values()
    filters.apply(filters.assemble(filters.THREADS, _ALLOWED_BY_ARGUMENT, numbers))


def install_for_helper() -> None:
    """Install the filter for a compile helper, which may fork but may not use files, threads or
    other processes.

    Filters accumulate, so ``install`` in the helper's child revokes the permission to fork.

    Raises:
        OSError: filters are not available.
    """
    numbers = [*_ALLOWED.values(), *_PLAIN_FOR_HELPER.values()]
    filters.apply(filters.assemble([], _FOR_HELPER, numbers))
