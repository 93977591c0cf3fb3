"""What netd may still do once it serves: open UDP sockets in network namespaces, and pass them on.

It has CAP_SYS_ADMIN, so each thing that it does not need counts: no file is opened but of
``/proc``, to read it; no process is started, looked into or signalled; no file system is mounted,
nothing of BPF or modules is reached; namespaces are entered that are networks, no others.
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

_ALLOWED: Final = call_numbers.named(
    "read write close stat fstat poll lseek munmap brk rt_sigaction rt_sigprocmask "
    "rt_sigreturn mremap madvise getpid sendto recvfrom sendmsg recvmsg bind getsockname "
    "setsockopt getsockopt exit sigaltstack gettid futex restart_syscall clock_gettime "
    "exit_group openat newfstatat ppoll accept4 getrandom statx rseq"
)
_INTERNET: Final = (2, 10)  # AF_INET, AF_INET6: no netlink, no raw packets of its own
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
_MEMORY: Final = call_numbers.named("mmap mprotect").values()


def program() -> bytes:
    """Return the filter of system calls."""
    first = [step for call in _MEMORY for step in filters.without_bits(call, 2, _PROT_EXEC)]
    return filters.assemble(first, _BY_ARGUMENT, _ALLOWED.values())


def enter() -> None:
    """Lock this process down; it must have one thread, and its socket bound.

    Capabilities stay: the manifest gives it those that it works with.

    Raises:
        OSError: there is no filter of system calls.
    """
    for codec in _LATE_CODECS:
        codecs.lookup(codec)
    identity.drop_bounding_set()
    identity.forbid_new_privileges()
    identity.hide_from_ptrace()
    try:
        landlock.restrict_to({_PROC: landlock.READ_FILE})
    except OSError as err:
        logger.warning("no Landlock: %s: the filter of system calls stands alone", err)
    try:
        filters.apply(program())
    except OSError as err:
        raise OSError(err.errno, f"no filter of system calls: {err.strerror}") from err
