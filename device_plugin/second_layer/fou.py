"""Reads the UDP ports at which the kernel decapsulates FOU and GUE, by generic netlink."""

import os
import socket
import struct
from collections.abc import Iterator
from typing import Any, Final

_NETLINK_GENERIC: Final = 16
_CONTROL: Final = 0x10  # linux/genetlink.h: GENL_ID_CTRL
_GET_FAMILY: Final = 3
_FAMILY_ID: Final = 1
_FAMILY_NAME: Final = 2
_FOU: Final = b"fou\0"
_FOU_GET: Final = 3  # linux/fou.h
_FOU_PORT: Final = 1
_DUMP: Final = 0x1 | 0x300  # NLM_F_REQUEST, NLM_F_DUMP
_ERROR, _DONE = 2, 3
_TIMEOUT_S: Final = 5.0
_READ_BYTES: Final = 1 << 16


def list_fou_ports(kernel: Any = None) -> tuple[int, ...]:
    """Return the UDP ports at which this namespace decapsulates FOU and GUE.

    The families are listed, because a request for one by its name would load the kernel's module.
    ``kernel`` replaces the socket in tests. Raises OSError.
    """
    with kernel or _open() as link:
        families = _dump(link, _CONTROL, _GET_FAMILY)
        numbers = [
            struct.unpack("=H", attributes[_FAMILY_ID])[0]
            for attributes in families
            if attributes.get(_FAMILY_NAME) == _FOU
        ]
        if not numbers:
            return ()
        receivers = _dump(link, numbers[0], _FOU_GET)
        ports = {struct.unpack(">H", attributes[_FOU_PORT])[0] for attributes in receivers}
        return tuple(sorted(ports))


def _open() -> socket.socket:
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_GENERIC)
    link.settimeout(_TIMEOUT_S)
    link.bind((0, 0))
    return link


def _dump(link: Any, family: int, command: int) -> list[dict[int, bytes]]:
    """Return the attributes of each message of the reply to a request that lists objects."""
    link.send(struct.pack("=IHHIIBBH", 20, family, _DUMP, 1, 0, command, 1, 0))
    listed: list[dict[int, bytes]] = []
    while True:
        data = link.recv(_READ_BYTES)
        for kind, body in _messages(data):
            if kind == _DONE:
                return listed
            if kind == _ERROR:
                code = -struct.unpack_from("=i", body)[0]
                raise OSError(code, f"generic netlink: {os.strerror(code)}")
            listed.append(dict(_attributes(body[4:])))


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 16:
        size, kind = struct.unpack_from("=IH", data)
        yield kind, data[16:size]
        data = data[(max(size, 16) + 3) & ~3 :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3FFF, data[4:size]
        data = data[(max(size, 4) + 3) & ~3 :]
