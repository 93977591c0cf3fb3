"""Identify network namespaces by descriptor, and apply the rules for those that the broker may
enter.

netd gets a pod's namespace from a socket of a program in that namespace (SIOCGSKNS); the kernel
permits this to a process with CAP_NET_ADMIN there. To get the namespace from the program's
process, netd would need CAP_SYS_PTRACE, with which it could read the memory of every process of
the node.
"""

import ctypes
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NewType

from hca.binding.wire import NoWire, WireInterface
from vgpu_sim.records import dataclass

Identity = NewType("Identity", tuple[int, int])

_CLONE_NEWNET: Final = 0x4000_0000
_SIOCGSKNS: Final = 0x894C  # linux/sockios.h
_NS_GET_USERNS: Final = 0xB701  # ioctl_ns(2)
_NOT_A_POD: Final = "the network namespace is the node's own, not a pod's"


def identity_of(where: int | str) -> Identity:
    """Return the identity of a namespace, given by descriptor or path. Raises OSError."""
    status = os.stat(where)
    return Identity((status.st_dev, status.st_ino))


def unprivileged_identity(process: str) -> Identity:
    """Return an identity of a process's network namespace that can be read without privileges.

    It is the identity of the file ``/proc/PID/net/dev``. The kernel creates the files of this
    folder once per namespace, and every process may stat them. The result differs from the
    identity that ``identity_of`` returns for the namespace. Raises OSError.
    """
    return identity_of(f"/proc/{process}/net/dev")


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that limit the network namespaces and interfaces in which sockets may be opened.

    A rule that is empty limits nothing. ``owner`` is the user namespace that must own a network
    namespace. A pod's user can make further network namespaces and choose the addresses in them,
    but these have another owner. ``tables`` are the identities of forbidden network namespaces,
    namely the node's own, as ``unprivileged_identity`` returns them.
    """

    interface: str = ""
    refused: frozenset[Identity] = frozenset()
    owner: Identity | None = None
    tables: frozenset[Identity] = frozenset()

    def check(self, namespace_fd: int) -> None:
        """Check, before a network namespace is entered, that it may be entered. Raises NoWire,
        OSError.
        """
        if identity_of(namespace_fd) in self.refused:
            raise NoWire(_NOT_A_POD)
        if self.owner is None:
            return
        owner_fd = fcntl.ioctl(namespace_fd, _NS_GET_USERNS)
        try:
            if identity_of(owner_fd) != self.owner:
                raise NoWire("the network namespace belongs to another user namespace")
        finally:
            os.close(owner_fd)

    def check_inside(self) -> None:
        """Check the network namespace that was entered, before anything is done in it.

        Raises NoWire, OSError.
        """
        if self.tables and unprivileged_identity("thread-self") in self.tables:
            raise NoWire(_NOT_A_POD)

    def check_interface(self, interface: WireInterface) -> None:
        """Raise NoWire if the rules forbid sockets at the interface ``interface``."""
        if self.interface and interface.name != self.interface:
            raise NoWire(f"interface {interface.name} is not permitted: only {self.interface} is")


@contextmanager
def namespace_of(descriptor: int) -> Iterator[int]:
    """Yield a descriptor of the network namespace that ``descriptor`` refers to.

    If ``descriptor`` is a socket, this is the socket's network namespace. Raises NoWire,
    OSError.
    """
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        yield descriptor
        return
    if not stat.S_ISSOCK(kind):
        raise NoWire("the descriptor is neither a namespace nor a socket")
    namespace_fd = fcntl.ioctl(descriptor, _SIOCGSKNS)
    try:
        yield namespace_fd
    finally:
        os.close(namespace_fd)


@contextmanager
def inside(namespace_fd: int, own_fd: int) -> Iterator[None]:
    """Enter a network namespace for the duration of the context. Raises OSError.

    If the process cannot return to its own namespace, it exits, because it must not continue in
    the other one.
    """
    _enter(namespace_fd)
    try:
        yield
    finally:
        try:
            _enter(own_fd)
        except OSError as err:
            raise SystemExit(f"cannot leave a network namespace: {err}") from err


def _enter(namespace_fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace_fd, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
