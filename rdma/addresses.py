"""Parse IP addresses and bring them into canonical form: an IPv4 address mapped into IPv6 becomes
plain IPv4.
"""

import ipaddress
import socket

from rdma.tables import Block

IPv4OrIPv6 = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse(text: str) -> IPv4OrIPv6:
    """Parse an IP address; an IPv4 address mapped into IPv6 becomes IPv4. Raises ValueError."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise ValueError(f"{text[:60]!r} has a zone, which is not allowed")
        return address.ipv4_mapped or address
    return address


def canonical(text: str) -> str:
    """Return an IP address in canonical form: an IPv4 address mapped into IPv6 becomes IPv4. Raises
    ValueError.
    """
    try:
        socket.inet_pton(socket.AF_INET, text)  # accepts only the canonical form, and is quick
        return text
    except (OSError, ValueError, UnicodeError):
        return str(parse(text))


def may_be_outside(address: IPv4OrIPv6) -> bool:
    """Return whether a peer outside of the cluster can have this address.

    A link-local address can only belong to a pod in the cluster, even if the tables do not state
    to which pod. If such an address could be outside, a pod that the tables do not contain would
    count as an outside peer.
    """
    return not (
        address.is_link_local
        or address.is_loopback
        or address.is_multicast
        or address.is_unspecified
    )


def parse_network(text: str) -> Network:
    """Parse a block of addresses in CIDR notation and clear its host bits. Raises ValueError."""
    _, slash, length = text.partition("/")
    if not slash or not (length.isascii() and length.isdecimal()) or "%" in text:
        raise ValueError(f"{text[:60]!r} is not a CIDR such as 10.9.0.0/16")
    network = ipaddress.ip_network(text, strict=False)
    if isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped:
        raise ValueError(f"{text[:60]!r} is an IPv4 block mapped into IPv6: write it as IPv4")
    return network


def block(cidr: str, excepted: tuple[str, ...]) -> Block:
    """Return the block of addresses ``cidr`` without those in ``excepted``.

    As in NetworkPolicy's IPBlock, each exception must be a proper part of the block.

    Raises:
        ValueError: a text is not a CIDR, or an exception is not part of the block.
    """
    whole = parse_network(cidr)
    parts = []
    for text in excepted:
        part = parse_network(text)
        if part.version != whole.version or part == whole or not part.subnet_of(whole):  # type: ignore[arg-type]
            raise ValueError(f"{text[:60]!r} in 'except' is not a proper part of {cidr[:60]}")
        parts.append(str(part))
    return Block(str(whole), tuple(parts))
