"""Addresses: IPv4 where they are mapped into IPv6, and in one way of writing."""

import ipaddress
import socket

from rdma.tables import Block

IPv4OrIPv6 = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse(text: str) -> IPv4OrIPv6:
    """Return an address, IPv4 where it is mapped. Raises ValueError."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise ValueError(f"{text[:60]!r} has a zone")
        return address.ipv4_mapped or address
    return address


def canonical(text: str) -> str:
    """Return the one way of writing an address. Raises ValueError."""
    try:
        socket.inet_pton(socket.AF_INET, text)  # takes the canonical form alone, and is quick
        return text
    except (OSError, ValueError, UnicodeError):
        return str(parse(text))


def may_be_outside(address: IPv4OrIPv6) -> bool:
    """Return whether it can be that of a peer outside of the cluster.

    A link-local GID is some pod's, whatever pod: who cannot be named must not pass for a stranger.
    """
    return not (
        address.is_link_local
        or address.is_loopback
        or address.is_multicast
        or address.is_unspecified
    )


def network(text: str) -> Network:
    """Return a block in CIDR, host bits cleared. Raises ValueError."""
    _, slash, length = text.partition("/")
    if not slash or not (length.isascii() and length.isdecimal()) or "%" in text:
        raise ValueError(f"{text[:60]!r} is no CIDR such as 10.9.0.0/16")
    found = ipaddress.ip_network(text, strict=False)
    if isinstance(found, ipaddress.IPv6Network) and found.network_address.ipv4_mapped:
        raise ValueError(f"{text[:60]!r} is IPv4: write it so")
    return found


def block(cidr: str, excepted: tuple[str, ...]) -> Block:
    """Return a block; each exception lies in it and is not all of it (NetworkPolicy's IPBlock).

    Raises:
        ValueError: one of them is no CIDR, or does not lie in it.
    """
    whole = network(cidr)
    parts = []
    for text in excepted:
        part = network(text)
        if part.version != whole.version or part == whole or not part.subnet_of(whole):  # type: ignore[arg-type]
            raise ValueError(f"except {text[:60]!r} is no part of {cidr[:60]}")
        parts.append(str(part))
    return Block(str(whole), tuple(parts))
