"""The IP addresses that go ahead of a request's private data: the CMA header.

As the kernels' RDMA-CM has it (InfiniBand specification, annex A11): version, IP version, source
port, source and destination address; 36 bytes. Port spaces TCP and UDP carry it.
"""

import struct
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

_LAYOUT: Final = struct.Struct(">BBH16s16s")
HEADER_BYTES: Final = _LAYOUT.size
_MAPPED: Final = bytes(10) + b"\xff\xff"
_LOOPBACK: Final = bytes(15) + b"\1"


class MalformedHeader(ValueError):
    """Not the addresses of a request."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Who asks whom; IPv4 addresses are mapped into IPv6."""

    source: bytes
    port: int
    destination: bytes


def is_mapped(address: bytes) -> bool:
    """Tell whether an address of 16 bytes is one of IPv4."""
    return address.startswith(_MAPPED)


def is_loopback(address: bytes) -> bool:
    """Tell whether an address of 16 bytes is one of 127.0.0.0/8, or ::1."""
    return address[12] == 127 if is_mapped(address) else address == _LOOPBACK


def is_multicast(address: bytes) -> bool:
    """Tell whether an address of 16 bytes is a group's, of IPv4 or IPv6."""
    return address[12] >> 4 == 0xE if is_mapped(address) else address[0] == 0xFF


@lru_cache(maxsize=1024)
def text(address: bytes) -> str:
    """Return an address as policies have it: IPv4 where it is mapped."""
    whole = IPv6Address(address)
    return str(whole.ipv4_mapped or whole)


def pack(endpoints: Endpoints) -> bytes:
    """Return the header. Raises ValueError where only one address is of IPv4."""
    mapped = is_mapped(endpoints.source)
    if mapped != is_mapped(endpoints.destination):
        raise ValueError("one address of IPv4 and one of IPv6")
    source, destination = endpoints.source, endpoints.destination
    if mapped:
        source, destination = bytes(12) + source[12:], bytes(12) + destination[12:]
    return _LAYOUT.pack(0, 0x40 if mapped else 0x60, endpoints.port, source, destination)


def unpack(data: bytes) -> Endpoints:
    """Return the addresses at the beginning of private data. Raises MalformedHeader."""
    if len(data) < HEADER_BYTES:
        raise MalformedHeader(f"{len(data)} bytes")
    version, ip_version, port, source, destination = _LAYOUT.unpack_from(data)
    if version != 0 or ip_version >> 4 not in (4, 6):
        raise MalformedHeader(f"version {version}, IP version {ip_version >> 4}")
    if ip_version >> 4 == 4:
        source, destination = _MAPPED + source[12:], _MAPPED + destination[12:]
    return Endpoints(source, port, destination)
