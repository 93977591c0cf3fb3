"""Names and addresses of HCA functions on a fabric."""

import hashlib
import ipaddress
from dataclasses import dataclass
from typing import Final

from hca.contract.hca import HCA_GIDS

# Benchmarking addresses (RFC 2544): what a fabric without a network uses is nobody's.
NETWORK: Final = ipaddress.IPv4Network("198.18.0.0/15")
OUI: Final = bytes.fromhex("027e55")  # locally administered
LINK_LOCAL: Final = bytes.fromhex("fe80000000000000")
MAX_FUNCTIONS: Final = NETWORK.num_addresses - 2


_IPV4: Final = bytes(10) + b"\xff\xff"


def is_group(gid: bytes) -> bool:
    """Tell whether a GID is a multicast group's: ff00::/8, or 224.0.0.0/4 mapped into IPv6."""
    return gid[0] == 0xFF or (gid.startswith(_IPV4) and gid[12] >> 4 == 0xE)


def is_ipv4(gid: bytes) -> bool:
    """Tell whether a GID is an IPv4 address, mapped into IPv6."""
    return gid.startswith(_IPV4)


@dataclass(frozen=True, slots=True)
class Address:
    """A function's GUID and its GIDs: link-local, and its IPv4 address mapped into IPv6."""

    guid: bytes
    gids: tuple[bytes, ...]

    @property
    def ip(self) -> ipaddress.IPv4Address:
        """Return the IPv4 address."""
        return ipaddress.IPv4Address(self.gids[1][12:])


def address_of(index: int) -> Address:
    """Return the address of a function by its place on the fabric, from 0.

    Raises:
        ValueError: there are not so many.
    """
    if not 0 <= index < MAX_FUNCTIONS:
        raise ValueError(f"function {index} of {MAX_FUNCTIONS}")
    ip = NETWORK.network_address + index + 1
    mac = OUI + ip.packed[1:]
    # EUI-64 of a MAC address, with its universal/local bit inverted (RFC 4291, appendix A).
    guid = bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]
    return address_of_pod(guid, ip)


def guid_of(name: str) -> bytes:
    """Return the GUID of a function with this name: the same on whichever day it is asked for."""
    serial = hashlib.blake2s(name.encode(), digest_size=5).digest()
    return bytes([OUI[0] ^ 2]) + OUI[1:] + serial


def address_of_pod(
    guid: bytes, ip: ipaddress.IPv4Address | ipaddress.IPv6Address | None
) -> Address:
    """Return the address of a function whose pod has this IP; None: its second GID is empty."""
    if ip is None:
        second = bytes(16)
    elif ip.version == 4:
        second = b"\0" * 10 + b"\xff\xff" + ip.packed
    else:
        second = ip.packed
    gids = (LINK_LOCAL + guid, second)
    assert len(gids) == HCA_GIDS
    return Address(guid, gids)
