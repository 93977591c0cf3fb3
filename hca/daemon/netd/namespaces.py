"""Network namespaces by descriptor, and which of them the broker may work in.

A pod's namespace is had from a socket that its program made: the kernel tells it to who has
CAP_NET_ADMIN there (SIOCGSKNS). By its process it would take CAP_SYS_PTRACE, which lets one read
the memory of every process of the node.
"""

import ctypes
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NewType

from hca.binding.wire import NoWire, WireInterface

Identity = NewType("Identity", tuple[int, int])

_CLONE_NEWNET: Final = 0x4000_0000
_SIOCGSKNS: Final = 0x894C  # linux/sockios.h
_NS_GET_USERNS: Final = 0xB701  # ioctl_ns(2)
_NOT_A_POD: Final = "the network namespace is the node's own, not a pod's"


def identity_of(where: int | str) -> Identity:
    """Return what tells a namespace from others, by descriptor or path. Raises OSError."""
    found = os.stat(where)
    return Identity((found.st_dev, found.st_ino))


def tables_of(process: str) -> Identity:
    """Return what tells the network namespace of a process from others, without any privilege.

    The files of ``/proc/PID/net`` are made once for each namespace, and all may look at them. This
    is not the number that ``identity_of`` has. Raises OSError.
    """
    return identity_of(f"/proc/{process}/net/dev")


@dataclass(frozen=True, slots=True)
class Rules:
    """Where sockets may be opened; without any rule in every namespace, of every interface.

    ``owner`` is the user namespace that a network namespace must belong to: one that a pod's user
    made belongs to another, and holds whatever addresses that user wants. ``tables`` are those of
    network namespaces that are not to be worked in, see ``tables_of``: the node's own.
    """

    interface: str = ""
    refused: frozenset[Identity] = frozenset()
    owner: Identity | None = None
    tables: frozenset[Identity] = frozenset()

    def check(self, namespace_fd: int) -> None:
        """Look at a network namespace before it is entered. Raises NoWire, OSError."""
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
        """Look around in the namespace before anything is done there. Raises NoWire, OSError."""
        if self.tables and tables_of("thread-self") in self.tables:
            raise NoWire(_NOT_A_POD)

    def check_interface(self, found: WireInterface) -> None:
        """Look at what was found, before it is used. Raises NoWire."""
        if self.interface and found.name != self.interface:
            raise NoWire(f"{found.name} is not {self.interface}")


@contextmanager
def namespace_of(descriptor: int) -> Iterator[int]:
    """Lend the namespace that a descriptor is, or a socket's. Raises NoWire, OSError."""
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        yield descriptor
        return
    if not stat.S_ISSOCK(kind):
        raise NoWire("the descriptor is no namespace")
    namespace_fd = fcntl.ioctl(descriptor, _SIOCGSKNS)
    try:
        yield namespace_fd
    finally:
        os.close(namespace_fd)


@contextmanager
def inside(namespace_fd: int, own_fd: int) -> Iterator[None]:
    """Be in a network namespace for a while. Raises OSError.

    Whoever cannot come back ends: it must not work on where it should not be.
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
