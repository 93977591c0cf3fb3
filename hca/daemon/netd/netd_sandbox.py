"""netd's sandbox, in which it can open UDP sockets in network namespaces and send their
descriptors.

netd has CAP_SYS_ADMIN, so everything that it does not need is forbidden. It can open files only
below ``/proc``, to read them. It cannot start, trace or signal a process, mount a file system,
or use BPF or modules. Of namespaces it can enter network namespaces only.
"""

import codecs
import logging
from pathlib import Path
from typing import Final

from vgpu_sim.system import call_numbers, filters, identity, landlock
from vgpu_sim.system.call_numbers import NUMBERS

logger = logging.getLogger("tessera.netd")

_LATE_CODECS: Final = ("ascii", "latin-1", "utf-8")
_PROC: Final = Path("/proc")

_ALLOWED: Final = call_numbers.numbers_of(
    "read write close stat fstat poll lseek munmap brk rt_sigaction rt_sigprocmask "
    "rt_sigreturn mremap madvise getpid sendto recvfrom sendmsg recvmsg bind getsockname "
    "setsockopt getsockopt exit sigaltstack gettid futex restart_syscall clock_gettime "
    "exit_group openat newfstatat ppoll accept4 getrandom statx rseq"
)
_INTERNET: Final = (2, 10)  # AF_INET, AF_INET6: neither netlink nor raw sockets
_CLONE_NEWNET: Final = 0x4000_0000
_FCNTL_COMMANDS: Final = (1, 2, 3, 4, 1030)  # GETFD, SETFD, GETFL, SETFL, DUPFD_CLOEXEC
_FIONBIO, _FIOCLEX = 0x5421, 0x5451
# SIOCGIFCONF, SIOCGIFMTU, SIOCGSKNS; NS_GET_USERNS of ioctl_ns(2)
_REQUESTS: Final = (_FIONBIO, _FIOCLEX, 0x8912, 0x8921, 0x894C, 0xB701)
_BY_ARGUMENT: Final[dict[str, filters.ByArgument]] = {
    "ioctl": (NUMBERS["ioctl"], 1, _REQUESTS),
    "socket": (NUMBERS["socket"], 0, _INTERNET),
    "fcntl": (NUMBERS["fcntl"], 1, _FCNTL_COMMANDS),
    "setns": (NUMBERS["setns"], 1, (_CLONE_NEWNET,)),
}
_PROT_EXEC: Final = 4
_MEMORY: Final = call_numbers.numbers_of("mmap mprotect").values()


def program() -> bytes:
    """Return the filter of system calls for netd, as a seccomp program."""
    first = [step for call in _MEMORY for step in filters.allow_without_bits(call, 2, _PROT_EXEC)]
    return filters.assemble(first, _BY_ARGUMENT, _ALLOWED.values())


def enter() -> None:
    """Enter netd's sandbox; the process must have one thread, and its socket must be bound already.

    The process keeps the capabilities from the manifest, which it needs for its work.

    Raises:
        OSError: seccomp is not available.
    """
    for codec in _LATE_CODECS:
        codecs.lookup(codec)
    identity.drop_bounding_set()
    identity.forbid_new_privileges()
    identity.hide_from_ptrace()
    try:
        landlock.restrict_to({_PROC: landlock.READ_FILE})
    except OSError as err:
        logger.warning("no Landlock: %s: only the filter of system calls protects files", err)
    try:
        filters.apply(program())
    except OSError as err:
        raise OSError(err.errno, f"no filter of system calls: {err.strerror}") from err
