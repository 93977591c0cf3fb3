"""The single message that gpud reads from a client, and gpud's own replies.

A client is hostile until proven otherwise: the message is copied, then every field is checked.
"""

import ctypes
from collections.abc import Collection
from typing import TypeVar

from vgpu_sim.gpud.errors import HelloRefused
from vgpu_sim.hal import messages
from vgpu_sim.hal.compute.address_map import APERTURE_BASES, MAX_CONTEXTS
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import Header, MessageType
from vgpu_sim.records import dataclass

HELLO_BYTES = ctypes.sizeof(Header) + ctypes.sizeof(messages.Hello)
Payload = TypeVar("Payload", bound=ctypes.Structure)


class MalformedHello(Exception):
    """A message that is not a HELLO of a client library; gpud closes the connection."""


@dataclass(frozen=True, slots=True)
class Hello:
    """A client's parsed first message. ``version`` is a protocol version that both sides
    support.
    """

    request: int
    wants_context: bool
    version_min: int
    version_max: int
    context_index: int
    aperture_base: int
    flags: int
    token: bytes
    thread_share: int = 0

    @property
    def reply_type(self) -> MessageType:
        """The type of the reply to this message."""
        return MessageType.CONTEXT_READY if self.wants_context else MessageType.DEVICE_INFO

    def check(self) -> None:
        """Validate the fields that a client library may set to invalid values.

        Raises:
            HelloRefused: there is no common protocol version (CUresult 803), or a value is outside
                its range (CUresult 1).
        """
        if (
            self.version_min > messages.PROTOCOL_VERSION
            or self.version_max < messages.PROTOCOL_OLDEST
        ):
            raise HelloRefused(
                CudaError.SYSTEM_DRIVER_MISMATCH,
                f"client speaks protocol {self.version_min}..{self.version_max}, gpud"
                f" {messages.PROTOCOL_OLDEST}..{messages.PROTOCOL_VERSION}",
            )
        if self.flags:
            raise HelloRefused(CudaError.INVALID_VALUE, f"unknown hello flags {self.flags:#x}")
        if self.thread_share > messages.WHOLE_THREAD_SHARE:
            raise HelloRefused(
                CudaError.INVALID_VALUE,
                f"thread share {self.thread_share} of {messages.WHOLE_THREAD_SHARE}",
            )
        if not self.wants_context:
            return
        if self.context_index >= MAX_CONTEXTS:
            raise HelloRefused(
                CudaError.INVALID_VALUE, f"context index {self.context_index} of {MAX_CONTEXTS}"
            )
        if self.aperture_base not in APERTURE_BASES:
            raise HelloRefused(
                CudaError.INVALID_VALUE, f"aperture base {self.aperture_base:#x} is not allowed"
            )


def read(
    data: bytes, types: Collection[MessageType], payload: type[Payload]
) -> tuple[Header, Payload]:
    """Parse the single message of a connection; return its header and payload.

    Raises:
        MalformedHello: wrong size, magic, type, or reserved field of the header.
    """
    whole = ctypes.sizeof(Header) + ctypes.sizeof(payload)
    if len(data) != whole:
        raise MalformedHello(f"the message has {len(data)} bytes instead of {whole}")
    header = Header.from_buffer_copy(data)
    if header.magic != messages.MAGIC:
        raise MalformedHello(f"wrong magic {header.magic:#010x}")
    if header.type not in types:
        raise MalformedHello(f"unexpected type {header.type}")
    if header.payload_bytes != ctypes.sizeof(payload):
        raise MalformedHello(f"unexpected payload of {header.payload_bytes} bytes")
    body = payload.from_buffer_copy(data, ctypes.sizeof(Header))
    if header.reserved:
        raise MalformedHello("reserved fields are not zero")
    return header, body


def parse(data: bytes) -> Hello:
    """Parse a client's HELLO.

    Raises:
        MalformedHello: wrong size, magic, type, or reserved field of the header.
    """
    types = (MessageType.HELLO_QUERY, MessageType.HELLO_CONTEXT)
    header, hello = read(data, types, messages.Hello)
    return Hello(
        request=header.request,
        wants_context=header.type == MessageType.HELLO_CONTEXT,
        version_min=hello.version_min,
        version_max=hello.version_max,
        context_index=hello.context_index,
        aperture_base=hello.aperture_base,
        flags=hello.flags,
        token=bytes(hello.token),
        thread_share=hello.thread_share,
    )


def encode(
    kind: MessageType,
    request: int,
    payload: ctypes.Structure | bytes = b"",
    status: int = CudaError.SUCCESS,
) -> bytes:
    """Encode a message of the slice socket. A message without a payload consists of the header
    alone.
    """
    body = bytes(payload)
    header = Header(messages.MAGIC, messages.PROTOCOL_VERSION, kind, request, status, len(body), 0)
    return bytes(header) + body
