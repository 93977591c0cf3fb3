"""SOCK_SEQPACKET sockets under asyncio, with ancillary data (which asyncio itself does not
support).
"""

import array
import asyncio
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from vgpu_sim.records import dataclass
from vgpu_sim.system.descriptors import send as send_descriptors
from vgpu_sim.system.peers import CREDENTIALS_BYTES, Peer, sender_of

SCM_MAX_FD = 253  # Linux: descriptors in one message
_CREDENTIALS = socket.CMSG_SPACE(CREDENTIALS_BYTES)
# Flags of ``socket`` are enumerations; combining them takes longer than the system call itself.
_CUT = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)
_CLOSE_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)


@dataclass(frozen=True, slots=True)
class Packet:
    """A received message. Empty ``data`` means that the peer has hung up, because no peer sends an
    empty message.

    ``truncated`` is set if the message was longer than allowed, or had descriptors, which were
    not expected and have been closed.
    """

    data: bytes
    sender: Peer | None
    truncated: bool


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected SOCK_SEQPACKET sockets, which executed programs do not inherit."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


async def wait_until_readable(descriptor: int) -> None:
    """Wait until a descriptor is readable. A pidfd is readable when its process has ended."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def receive(sock: socket.socket, limit_bytes: int) -> Packet:
    """Receive one message without descriptors from a non-blocking socket. Raises OSError.

    Do not use it for a socket to which a tenant can send descriptors: see ``foreign``.
    """
    while True:
        packet = receive_now(sock, limit_bytes)
        if packet is not None:
            return packet
        await wait_until_readable(sock.fileno())


def receive_now(sock: socket.socket, limit_bytes: int) -> Packet | None:
    """Receive a message if one is pending, else return None; received descriptors are closed.
    Raises OSError.
    """
    try:
        data, ancillary, flags, _ = sock.recvmsg(limit_bytes, _CREDENTIALS, _CLOSE_ON_EXEC)
    except BlockingIOError:
        return None
    descriptors = _descriptors(ancillary) if ancillary else []
    for descriptor in descriptors:
        os.close(descriptor)
    truncated = bool(descriptors) or bool(flags & _CUT)
    return Packet(data, sender_of(ancillary), truncated)


def _descriptors(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """Return the received descriptors. There may be some even if the buffer was meant for
    credentials only.
    """
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    return descriptors.tolist()


async def send(sock: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send one message, waiting while the socket is full. Raises OSError."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            send_descriptors(sock, [data], descriptors, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_writer(sock.fileno(), _resolve, ready)
            try:
                await ready
            finally:
                loop.remove_writer(sock.fileno())
            continue
        return


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def bind(path: Path, mode: int) -> socket.socket:
    """Bind a SEQPACKET socket that reports each message's sender; it does not listen yet.

    An existing file at the path is replaced, and so is an empty directory: a container runtime
    creates one when a mount's source is missing.
    """
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        earlier_mask = os.umask(0o177)  # no client may connect before the mode is set
        try:
            listener.bind(str(path))
        finally:
            os.umask(earlier_mask)
        path.chmod(mode)
    except BaseException:
        listener.close()
        raise
    return listener
