"""Names and addresses of HCA functions on a fabric."""

import hashlib
import ipaddress
from typing import Final

from hca.contract.hca import HCA_GIDS
from vgpu_sim.records import dataclass

# A fabric without a network uses benchmarking addresses (RFC 2544), which no real host has.
NETWORK: Final = ipaddress.IPv4Network("198.18.0.0/15")
OUI: Final = bytes.fromhex("027e55")  # locally administered
LINK_LOCAL: Final = bytes.fromhex("fe80000000000000")
MAX_FUNCTIONS: Final = NETWORK.num_addresses - 2


_IPV4: Final = bytes(10) + b"\xff\xff"


def is_group(gid: bytes) -> bool:
    """Return whether a GID is a multicast address: ff00::/8, or 224.0.0.0/4 mapped into IPv6."""
    return gid[0] == 0xFF or (gid.startswith(_IPV4) and gid[12] >> 4 == 0xE)


def is_ipv4(gid: bytes) -> bool:
    """Return whether a GID is an IPv4 address, mapped into IPv6."""
    return gid.startswith(_IPV4)


@dataclass(frozen=True, slots=True)
class Address:
    """A function's GUID and its GIDs: first the link-local GID, then its IPv4 address mapped into
    IPv6.
    """

    guid: bytes
    gids: tuple[bytes, ...]

    @property
    def ip(self) -> ipaddress.IPv4Address:
        """Return the function's IPv4 address, which its second GID contains."""
        return ipaddress.IPv4Address(self.gids[1][12:])


def address_of(index: int) -> Address:
    """Return the address of the function at ``index``, which counts the fabric's functions from 0.

    Raises:
        ValueError: the index is too large.
    """
    if not 0 <= index < MAX_FUNCTIONS:
        raise ValueError(f"function number {index} must be below {MAX_FUNCTIONS}")
    ip = NETWORK.network_address + index + 1
    mac = OUI + ip.packed[1:]
    # EUI-64 of a MAC address, with its universal/local bit inverted (RFC 4291, appendix A).
    guid = bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]
    return address_of_pod(guid, ip)


def guid_of(name: str) -> bytes:
    """Return a GUID that is derived from the function's name only."""
    serial = hashlib.blake2s(name.encode(), digest_size=5).digest()
    return bytes([OUI[0] ^ 2]) + OUI[1:] + serial


def address_of_pod(
    guid: bytes, ip: ipaddress.IPv4Address | ipaddress.IPv6Address | None
) -> Address:
    """Return the address of a function whose pod has this IP address.

    If ``ip`` is None, the function's second GID is empty.
    """
    if ip is None:
        second = bytes(16)
    elif ip.version == 4:
        second = b"\0" * 10 + b"\xff\xff" + ip.packed
    else:
        second = ip.packed
    gids = (LINK_LOCAL + guid, second)
    assert len(gids) == HCA_GIDS
    return Address(guid, gids)
