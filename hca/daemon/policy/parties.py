"""Parties: the owners of functions, found by the addresses that tables contain.

Each address belongs to one party. A program may name a peer by any GID of the peer's function,
but tables contain only pod addresses. So every GID is mapped to a pod address before an
evaluation.
"""

import ipaddress
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import Self

from hca.binding.addresses import Address
from vgpu_sim.records import dataclass


@dataclass(slots=True, eq=False)
class Party:
    """A pod or a run that owns a function.

    ``owner`` is the party's name in messages: "ns/name", or the function's name. ``queue_pairs``,
    ``region_bytes`` and ``steers`` count the queue pairs, the bytes in memory regions and the flow
    steering rules that the party's programs use now. ``members`` counts the programs' queue pairs
    in each multicast group. ``local_sent_bytes`` and ``local_received_bytes`` count the data that
    was copied between this function and others of the node. ``closed_wires`` has the sums of the
    engine's counts of wires that were closed.
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
    local_sent_bytes: int = 0
    local_received_bytes: int = 0
    closed_wires: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(
        cls,
        function: str,
        address: Address,
        addresses: Sequence[object] = (),
        pod: str = "",
        pod_uid: str = "",
    ) -> Self:
        """Return a party that owns a function.

        Without ``addresses``, the party's address is that of the function's second GID.
        """
        texts = tuple(map(str, addresses)) or (_text(address.gids[1]),)
        return cls(function, pod or function, texts, address.gids, pod_uid)

    def address_towards(self, peer: str) -> str:
        """Return the party's address of the same IP version as ``peer``, or else the party's first
        address.
        """
        version = ipaddress.ip_address(peer).version
        matching_addresses = (
            address
            for address in self.addresses
            if ipaddress.ip_address(address).version == version
        )
        return next(matching_addresses, self.addresses[0])


class Parties:
    """All parties of this fabric or node, found by address."""

    def __init__(self) -> None:
        self._all: dict[Party, None] = {}
        self._by_address: dict[str, Party] = {}

    def add(self, party: Party) -> None:
        """Add a party; an address that another party of the same pod has remains that party's."""
        self._all[party] = None
        for address in party.addresses:
            self._by_address.setdefault(address, party)

    def remove(self, party: Party) -> None:
        """Remove a party after the last of its programs has ended."""
        self._all.pop(party, None)
        for address in party.addresses:
            if self._by_address.get(address) is not party:
                continue
            del self._by_address[address]
            other_party = next(
                (candidate for candidate in self._all if address in candidate.addresses), None
            )
            if other_party is not None:
                self._by_address[address] = other_party

    def all(self) -> tuple[Party, ...]:
        """Return all parties in the order in which they were added."""
        return tuple(self._all)

    def at(self, address: str) -> Party | None:
        """Return the party of this node that has an address, or None."""
        return self._by_address.get(address)

    def address_in_tables(self, address: str, peer: str) -> str:
        """Return the address under which the tables contain the owner of a local address.

        The tables may not contain the address of a function's first GID. For such an address,
        the result is another address of the function's party. If possible, it has the same IP
        version as ``peer``, the other end of the flow. Addresses of other nodes are returned
        unchanged.
        """
        if self.at(address) is not None:
            return address
        gid = _gid(address)
        owner = next((party for party in self._all if gid in party.gids), None)
        return owner.address_towards(peer) if owner is not None else address

    def address_of_gid(self, gid: bytes) -> str | None:
        """Return the address in the tables that belongs to a GID; None if the GID's owner is not
        known.

        A link-local GID can only identify a function of this node.
        """
        address = ipaddress.IPv6Address(gid)
        if not address.is_link_local:
            return _text(gid)
        owner = next((party for party in self._all if gid in party.gids), None)
        return owner.addresses[0] if owner is not None else None


def _gid(address: str) -> bytes:
    ip = ipaddress.ip_address(address)
    return b"\0" * 10 + b"\xff\xff" + ip.packed if ip.version == 4 else ip.packed


def _text(gid: bytes) -> str:
    address = ipaddress.IPv6Address(gid)
    return str(address.ipv4_mapped or address)
