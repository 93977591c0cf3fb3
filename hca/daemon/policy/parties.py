"""Whose requests are judged: the owners of functions, by the addresses that tables know.

An address belongs to one party. A program may name a peer by any GID of its function; tables know
pods by their own address, so that is what a GID is turned into before anybody is judged.
"""

import ipaddress
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from hca.binding.addresses import Address


@dataclass(slots=True, eq=False)
class Party:
    """A pod or a run with its function. ``owner`` is for people: "ns/name", or the function.

    ``queue_pairs``, ``region_bytes``, ``steers`` and, by group, ``members`` are what its programs
    have now.
    """

    function: str
    owner: str
    addresses: tuple[str, ...]
    gids: tuple[bytes, ...]
    pod_uid: str = ""
    queue_pairs: int = 0
    region_bytes: int = 0
    steers: int = 0
    members: Counter[bytes] = field(default_factory=Counter)

    @classmethod
    def of(
        cls,
        function: str,
        address: Address,
        addresses: Sequence[object] = (),
        pod: str = "",
        pod_uid: str = "",
    ) -> Self:
        """Return who has a function; without addresses that of its second GID counts."""
        texts = tuple(map(str, addresses)) or (_text(address.gids[1]),)
        return cls(function, pod or function, texts, address.gids, pod_uid)

    def address_towards(self, peer: str) -> str:
        """Return its own address of the peer's family, or its first."""
        version = ipaddress.ip_address(peer).version
        same = (one for one in self.addresses if ipaddress.ip_address(one).version == version)
        return next(same, self.addresses[0])


class Parties:
    """Everybody on this fabric or node."""

    def __init__(self) -> None:
        self._all: dict[Party, None] = {}

    def enter(self, party: Party) -> None:
        """Let somebody be known. Its addresses are nobody else's."""
        self._all[party] = None

    def leave(self, party: Party) -> None:
        """Let somebody be known no more, after the last of its programs."""
        self._all.pop(party, None)

    def all(self) -> tuple[Party, ...]:
        """Return everybody, in the order in which they came."""
        return tuple(self._all)

    def at(self, address: str) -> Party | None:
        """Return who has an address here."""
        return next((one for one in self._all if address in one.addresses), None)

    def known_as(self, address: str, peer: str) -> str:
        """Return the address that tables may know of who has another one here, towards a peer.

        A function's first GID can be an address of its own, beside that by which tables know it.
        """
        if self.at(address) is not None:
            return address
        gid = _gid(address)
        found = next((one for one in self._all if gid in one.gids), None)
        return found.address_towards(peer) if found is not None else address

    def address_of_gid(self, gid: bytes) -> str | None:
        """Return the address that tables may know; None where nothing can be said.

        A link-local GID says who is meant only among this node's own.
        """
        address = ipaddress.IPv6Address(gid)
        if not address.is_link_local:
            return _text(gid)
        found = next((one for one in self._all if gid in one.gids), None)
        return found.addresses[0] if found is not None else None


def _gid(address: str) -> bytes:
    ip = ipaddress.ip_address(address)
    return b"\0" * 10 + b"\xff\xff" + ip.packed if ip.version == 4 else ip.packed


def _text(gid: bytes) -> str:
    address = ipaddress.IPv6Address(gid)
    return str(address.ipv4_mapped or address)
