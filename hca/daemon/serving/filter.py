"""The filter of system calls for hcad: an allow-list; every other call fails with EPERM.

hcad cannot create or connect a socket, start, signal or trace a process, or make memory
executable. Its sockets are opened before the filter applies, or passed to hcad later; this
module lists the exceptions. The list of calls was recorded from a traced hcad; calls that libc
may use instead were added.
"""

import os
from typing import Final

from vgpu_sim.system import call_numbers, filters
from vgpu_sim.system.call_numbers import NUMBERS

_ALLOWED: Final = call_numbers.numbers_of(
    "read write close stat fstat lstat poll lseek munmap brk rt_sigaction rt_sigprocmask "
    "rt_sigreturn writev sched_yield mremap madvise dup nanosleep getpid sendto recvfrom "
    "sendmsg recvmsg shutdown listen getsockname getpeername getsockopt exit flock ftruncate "
    "mkdir rmdir unlink getuid geteuid sigaltstack gettid futex sched_getaffinity getdents64 "
    "set_tid_address restart_syscall clock_gettime clock_nanosleep exit_group epoll_wait "
    "epoll_ctl openat mkdirat newfstatat unlinkat ppoll set_robust_list epoll_pwait accept4 "
    "eventfd2 epoll_create1 pipe2 recvmmsg sendmmsg getcpu getrandom memfd_create statx rseq "
    "epoll_pwait2"
)

# A node's hcad connects to its predecessor, binds the sockets on which it serves, adds and removes
# functions, each with a socket and a folder, and connects to netd for each pod. It can make only
# local sockets.
_ALLOWED_ON_A_NODE: Final = call_numbers.numbers_of(
    "connect bind setsockopt symlink readlink chmod umask readlinkat symlinkat fchmodat"
)
_LOCAL: Final = 1  # AF_UNIX

# A fabric's hcad with a wire makes a socket for each multicast group (``open_group``). Such a
# socket permits nothing that the wire's own sockets do not.
_ALLOWED_ON_A_WIRE: Final = call_numbers.numbers_of("bind")
_INTERNET: Final = (2, 10)  # AF_INET, AF_INET6
_DATAGRAMS: Final = 2 | os.O_CLOEXEC  # SOCK_DGRAM
# SO_REUSEADDR, SO_RCVBUF, SO_RCVBUFFORCE; IP_ADD_MEMBERSHIP, IP_MULTICAST_ALL; IPV6_JOIN_GROUP,
# IPV6_MULTICAST_ALL. The level is not checked: at no level do these numbers attach a BPF program.
_SOCKET_OPTIONS: Final = (2, 8, 33, 35, 49, 20, 29)

_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL = 0, 1, 2, 3, 4
_F_DUPFD_CLOEXEC, _F_ADD_SEALS, _F_GET_SEALS = 1030, 1033, 1034
_FCNTL_COMMANDS: Final = (
    _F_DUPFD,
    _F_GETFD,
    _F_SETFD,
    _F_GETFL,
    _F_SETFL,
    _F_DUPFD_CLOEXEC,
    _F_ADD_SEALS,
    _F_GET_SEALS,
)
_FIONBIO, _FIOCLEX = 0x5421, 0x5451  # asm-generic/ioctls.h
# linux/userfaultfd.h: UFFDIO_API, UFFDIO_REGISTER, UFFDIO_UNREGISTER
_UFFD_REQUESTS: Final = (0xC018AA3F, 0xC020AA00, 0x8010AA01)
_UFFD_FLAGS: Final = os.O_CLOEXEC | 1  # UFFD_USER_MODE_ONLY
_PRCTL_OPTIONS: Final = (15, 16, 0x53564D41)  # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA
_PROT_EXEC: Final = 4
_MEMORY: Final = call_numbers.numbers_of("mmap mprotect")


def _by_argument(pid: int) -> dict[str, filters.ByArgument]:
    return {
        "ioctl": (NUMBERS["ioctl"], 1, (_FIONBIO, _FIOCLEX, *_UFFD_REQUESTS)),
        "fcntl": (NUMBERS["fcntl"], 1, _FCNTL_COMMANDS),
        "prctl": (NUMBERS["prctl"], 0, _PRCTL_OPTIONS),
        "tgkill": (NUMBERS["tgkill"], 0, (pid,)),  # interrupts a waiting thread of hcad
        "userfaultfd": (NUMBERS["userfaultfd"], 0, (_UFFD_FLAGS,)),
    }


def program(*, node: bool = False, wired: bool = False) -> bytes:
    """Return the seccomp filter for an hcad.

    By default, the filter is for the hcad of a fabric without a wire. ``wired`` selects the
    filter for a fabric with a wire. ``node`` selects the filter for the hcad of a node.
    """
    plain = [filters.allow_without_bits(number, 2, _PROT_EXEC) for number in _MEMORY.values()]
    first = [step for steps in (filters.THREADS, *plain) for step in steps]
    by_argument = _by_argument(os.getpid())
    numbers = set(_ALLOWED.values())
    if wired:
        first += filters.allow_sockets(NUMBERS["socket"], _INTERNET, _DATAGRAMS)
        by_argument["setsockopt"] = (NUMBERS["setsockopt"], 2, _SOCKET_OPTIONS)
        numbers |= set(_ALLOWED_ON_A_WIRE.values())
    if node:
        by_argument["socket"] = (NUMBERS["socket"], 0, (_LOCAL,))
        numbers |= set(_ALLOWED_ON_A_NODE.values())
    return filters.assemble(first, by_argument, numbers)


def install(*, node: bool = False, wired: bool = False) -> None:
    """Apply the filter to this thread and its future threads. Raises OSError.

    The thread must have no_new_privs set already.
    """
    filters.apply(program(node=node, wired=wired))
