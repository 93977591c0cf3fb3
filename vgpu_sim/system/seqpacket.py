"""SOCK_SEQPACKET sockets under asyncio, with ancillary data (which asyncio itself cannot carry)."""

import array
import asyncio
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vgpu_sim.system.descriptors import send as send_descriptors
from vgpu_sim.system.peers import CREDENTIALS_BYTES, Peer, sender_of

MAX_PATH_BYTES = 107  # sizeof(sockaddr_un.sun_path) - 1
SCM_MAX_FD = 253  # Linux: descriptors in one message
_CREDENTIALS = socket.CMSG_SPACE(CREDENTIALS_BYTES)
# Flags of ``socket`` are enumerations, whose sums take longer than the call that they are for.
_CUT = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)
_CLOSE_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)


@dataclass(frozen=True, slots=True)
class Packet:
    """A message received. Empty ``data`` is the end: a peer cannot send an empty one usefully.

    ``truncated``: it was longer than allowed, or brought descriptors, which nobody asked for and
    which are closed again.
    """

    data: bytes
    sender: Peer | None
    truncated: bool


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets, not inherited over exec."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


async def readable(descriptor: int) -> None:
    """Wait until a descriptor is readable, or its process has ended for a pidfd."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def receive(sock: socket.socket, limit_bytes: int) -> Packet:
    """Receive one message without descriptors from a non-blocking socket. Raises OSError.

    Not from one into which a tenant can send descriptors: see ``foreign``.
    """
    while True:
        packet = receive_now(sock, limit_bytes)
        if packet is not None:
            return packet
        await readable(sock.fileno())


def receive_now(sock: socket.socket, limit_bytes: int) -> Packet | None:
    """Receive one message that is there, or return None; closes descriptors. Raises OSError."""
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
    """Return the descriptors that came: where room was left for credentials, some find room."""
    found = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(content[: len(content) - len(content) % found.itemsize])
    return found.tolist()


async def send(sock: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send one message, waiting for room. Raises OSError."""
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
    """Bind a SEQPACKET socket that also tells who sent each message; it does not listen yet.

    What lies at the path is replaced, an empty directory too: a container runtime creates one when
    a mount's source is missing.
    """
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        before = os.umask(0o177)  # nobody connects before the mode is right
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        path.chmod(mode)
    except BaseException:
        listener.close()
        raise
    return listener
