"""Queries a slice socket for its device, as ``tessera smi`` does without gpud.sock.

The query is the same single round trip as the client library's.
"""

import ctypes
import socket
from pathlib import Path

from vgpu_sim.gpud.errors import GpudError
from vgpu_sim.gpud.slices import SOCKET_NAME
from vgpu_sim.hal import messages
from vgpu_sim.hal.messages import DeviceInfo, Header, Hello, MessageType

_TIMEOUT_SECONDS = 5.0


class NotAnswered(GpudError):
    """A slice socket did not answer: its gpud is gone, or sent an invalid reply."""


def hello_message(
    kind: MessageType,
    request: int = 1,
    token: bytes = bytes(messages.TOKEN_BYTES),
    context_index: int = 0,
    aperture_base: int = 0,
) -> bytes:
    """Return a HELLO message in this version of the protocol."""
    hello = Hello(
        messages.PROTOCOL_OLDEST, messages.PROTOCOL_VERSION, context_index, aperture_base, 0, 0
    )
    hello.token[:] = token
    header = Header(
        messages.MAGIC, messages.PROTOCOL_VERSION, kind, request, 0, ctypes.sizeof(hello), 0
    )
    return bytes(header) + bytes(hello)


def query(slice_dir: Path) -> DeviceInfo:
    """Return the description of the device that the slice socket in this directory serves. Raises
    NotAnswered.
    """
    expected = ctypes.sizeof(Header) + ctypes.sizeof(DeviceInfo)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(_TIMEOUT_SECONDS)
        try:
            sock.connect(str(slice_dir / SOCKET_NAME))
            sock.send(hello_message(MessageType.HELLO_QUERY))
            data = sock.recv(expected + 1)
        except OSError as err:
            raise NotAnswered(f"{slice_dir / SOCKET_NAME}: {err.strerror or err}") from err
    if len(data) < ctypes.sizeof(Header):
        raise NotAnswered(f"{slice_dir / SOCKET_NAME}: closed without an answer")
    header = Header.from_buffer_copy(data)
    if header.status != 0 or len(data) != expected or header.type != MessageType.DEVICE_INFO:
        raise NotAnswered(f"{slice_dir / SOCKET_NAME}: refused with status {header.status}")
    return DeviceInfo.from_buffer_copy(data, ctypes.sizeof(Header))


def query_all(slices_dir: Path) -> list[DeviceInfo]:
    """Query all slices and whole GPUs below a directory, ordered by name.

    Raises:
        NotAnswered: a slice socket does not answer.
    """
    try:
        named = [*slices_dir.glob("MIG-*"), *slices_dir.glob("GPU-*")]
        directories = sorted(entry for entry in named if entry.is_dir())
    except OSError:
        return []
    return [query(directory) for directory in directories]
