"""The CMA header: IP addresses at the beginning of a request's private data.

The layout is that of the kernel's RDMA-CM (InfiniBand specification, annex A11): version, IP
version, source port, source and destination address; 36 bytes in total. Requests in the port
spaces TCP and UDP contain this header.
"""

import struct
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

from vgpu_sim.records import dataclass

_LAYOUT: Final = struct.Struct(">BBH16s16s")
HEADER_BYTES: Final = _LAYOUT.size
_MAPPED: Final = bytes(10) + b"\xff\xff"
_LOOPBACK: Final = bytes(15) + b"\1"


class MalformedHeader(ValueError):
    """The private data does not begin with a valid CMA header."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses of requester and responder; IPv4 addresses are mapped into IPv6."""

    source: bytes
    port: int
    destination: bytes


def is_mapped(address: bytes) -> bool:
    """Return whether an address of 16 bytes is a mapped IPv4 address."""
    return address.startswith(_MAPPED)


def is_loopback(address: bytes) -> bool:
    """Return whether an address of 16 bytes is in 127.0.0.0/8, or is ::1."""
    return address[12] == 127 if is_mapped(address) else address == _LOOPBACK


def is_multicast(address: bytes) -> bool:
    """Return whether an address of 16 bytes is a multicast address, of IPv4 or IPv6."""
    return address[12] >> 4 == 0xE if is_mapped(address) else address[0] == 0xFF


@lru_cache(maxsize=1024)
def address_text(address: bytes) -> str:
    """Return an address as text in the form that policies use: IPv4 if it is mapped."""
    whole = IPv6Address(address)
    return str(whole.ipv4_mapped or whole)


def pack(endpoints: Endpoints) -> bytes:
    """Return the CMA header with these addresses. Raises ValueError if only one of them is IPv4."""
    mapped = is_mapped(endpoints.source)
    if mapped != is_mapped(endpoints.destination):
        raise ValueError("the addresses differ in family: one address is IPv4 and the other IPv6")
    source, destination = endpoints.source, endpoints.destination
    if mapped:
        source, destination = bytes(12) + source[12:], bytes(12) + destination[12:]
    return _LAYOUT.pack(0, 0x40 if mapped else 0x60, endpoints.port, source, destination)


def unpack(data: bytes) -> Endpoints:
    """Return the addresses in the CMA header at the beginning of private data. Raises
    MalformedHeader.
    """
    if len(data) < HEADER_BYTES:
        raise MalformedHeader(f"truncated private header: {len(data)} of {HEADER_BYTES} bytes")
    version, ip_version, port, source, destination = _LAYOUT.unpack_from(data)
    if version != 0 or ip_version >> 4 not in (4, 6):
        raise MalformedHeader(
            f"unsupported private header: version {version}, IP version {ip_version >> 4}"
        )
    if ip_version >> 4 == 4:
        source, destination = _MAPPED + source[12:], _MAPPED + destination[12:]
    return Endpoints(source, port, destination)
