"""The client's socket: sends and receives messages of ``hal.messages``, validated before use.

The peer is assumed to be hostile. A message that no client library of Tessera sends raises
``ProtocolError``; its descriptors are closed first.
"""

import array
import ctypes
import os
import socket
from contextlib import suppress
from typing import Final, TypeVar

from vgpu_sim.hal import messages
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import MessageType
from vgpu_sim.records import dataclass
from vgpu_sim.system.descriptors import send as send_descriptors

_HEADER_BYTES: Final = ctypes.sizeof(messages.Header)
_SO_PASSRIGHTS: Final = 83  # asm-generic/socket.h
_MAX_DESCRIPTORS: Final = 4  # room to detect that there are too many

_PAYLOADS: Final[dict[MessageType, type[ctypes.Structure] | None]] = {
    MessageType.MODULE_LOAD: messages.ModuleLoad,
    MessageType.MODULE_LINK: messages.ModuleLoad,
    MessageType.MODULE_UNLOAD: messages.Handle,
    MessageType.MODULE_KERNEL: messages.ModuleKernel,
    MessageType.CHUNK_ALLOCATE: messages.Chunk,
    MessageType.CHUNK_FREE: messages.Chunk,
    MessageType.RANGE_SHARE: messages.Chunk,
    MessageType.MEMORY_INFO: None,
    MessageType.SHARE: messages.Chunk,
    MessageType.SHARE_END: messages.SharedMemory,
    MessageType.SHARE_OPEN: messages.ShareOpen,
    MessageType.VIEW_MAP: messages.View,
    MessageType.VIEW_UNMAP: messages.View,
    MessageType.ALLOCATION: messages.Chunk,
}
_DESCRIPTORS: Final = {MessageType.MODULE_LOAD: 1, MessageType.MODULE_LINK: 1}

Payload = TypeVar("Payload", bound=ctypes.Structure)


class ProtocolError(Exception):
    """The client sent a message that no client library of Tessera sends."""


@dataclass(frozen=True, slots=True)
class Request:
    """A validated request of the client. The receiver owns ``descriptor``, if requests of this type
    have one.
    """

    kind: MessageType
    id: int
    payload: ctypes.Structure | None
    descriptor: int | None

    def payload_as(self, structure: type[Payload]) -> Payload:
        """Return the payload as a structure of this type. ``receive`` has already parsed the
        payload.

        Raises:
            TypeError: the payload has another type, which is a defect of the caller.
        """
        if not isinstance(self.payload, structure):
            raise TypeError(f"the payload of {self.kind.name} is not a {structure.__name__}")
        return self.payload


def accept_descriptors(client: socket.socket) -> None:
    """Allow the client to send descriptors. Until now, gpud has forbidden this on the client's
    socket (SO_PASSRIGHTS, Linux 6.16).
    """
    with suppress(OSError):  # older kernels: they were never disabled
        client.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 1)


def receive(client: socket.socket) -> Request | None:
    """Receive a waiting request; return None if the client has gone.

    Raises:
        ProtocolError: the message is not one that a client library sends.
    """
    space = socket.CMSG_SPACE(_MAX_DESCRIPTORS * array.array("i").itemsize)
    flags = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
    try:
        data, ancillary, got, _ = client.recvmsg(messages.MAX_MESSAGE_BYTES, space, flags)
    except ConnectionError:
        return None
    descriptors = _descriptors(ancillary)
    if not data and not descriptors:
        return None
    try:
        if got & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise ProtocolError("a message is too long")
        return _parse(data, descriptors)
    except ProtocolError:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return list(descriptors)


def _parse(data: bytes, descriptors: list[int]) -> Request:
    if len(data) < _HEADER_BYTES:
        raise ProtocolError("a message has no header")
    header = messages.Header.from_buffer_copy(data)
    if header.magic != messages.MAGIC or header.version != messages.PROTOCOL_VERSION:
        raise ProtocolError("a message has an unknown magic number or version")
    if header.type not in _PAYLOADS:
        raise ProtocolError(f"message type {header.type} is not a request to a worker")
    kind = MessageType(header.type)
    structure = _PAYLOADS[kind]
    expected = ctypes.sizeof(structure) if structure is not None else 0
    if header.payload_bytes != expected or len(data) != _HEADER_BYTES + expected:
        raise ProtocolError(f"{kind.name} has a payload of the wrong size")
    if len(descriptors) != _DESCRIPTORS.get(kind, 0):
        raise ProtocolError(
            f"{kind.name} has {len(descriptors)} descriptors instead of {_DESCRIPTORS.get(kind, 0)}"
        )
    payload = structure.from_buffer_copy(data, _HEADER_BYTES) if structure is not None else None
    return Request(kind, header.request, payload, descriptors[0] if descriptors else None)


def reply(
    client: socket.socket,
    kind: MessageType,
    request: int,
    status: CudaError,
    payload: ctypes.Structure | None = None,
    descriptors: tuple[int, ...] = (),
) -> None:
    """Answer a request; a client that does not read its answers is treated as gone.

    Raises:
        ConnectionError: the client has gone or its socket is full.
    """
    body = bytes(payload) if payload is not None else b""
    header = messages.Header(
        magic=messages.MAGIC,
        version=messages.PROTOCOL_VERSION,
        type=kind,
        request=request,
        status=status,
        payload_bytes=len(body),
    )
    try:
        send_descriptors(client, [bytes(header), body], descriptors, socket.MSG_DONTWAIT)
    except BlockingIOError as err:
        raise ConnectionError("the client does not read its answers") from err
