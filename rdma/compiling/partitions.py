"""Determine the members of each partition; pods that no partition selects are in the default one.

A partition has no P_Key if another partition claims the same key. Its members still count as
members: they do not fall back to the default partition, in which they would reach all other
pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rdma.bits import numbers
from rdma.compiling.pkeys import Place, allocate, sort_by_age
from rdma.compiling.terms import Matches, Term, Terms
from rdma.errors import PolicyError
from rdma.objects import Level, Network, Partition, PartitionPeer
from rdma.tables import DEFAULT_PKEY, Membership, QosClass

DEFAULT = (Membership(DEFAULT_PKEY, full=True),)


@dataclass(slots=True)
class _Placed:
    """A partition of a network, with the sets of identities that its member conditions select."""

    network: Network
    partition: Partition
    pkey: int | None
    terms: tuple[tuple[Matches, Level], ...]
    full: int = 0
    limited: int = 0

    def membership(self, *, full: bool) -> Membership:
        return Membership(
            self.pkey or 0, full, self.network.name, self.partition.name, self.network.mtu
        )


class Partitions:
    """The partitions of all networks."""

    def __init__(self, terms: Terms, earlier_pkeys: Mapping[Place, int]) -> None:
        self.keys: dict[Place, int] = dict(earlier_pkeys)
        self.refused: dict[Place, PolicyError] = {}
        self.qos_classes: dict[str, QosClass] = {}
        self._terms = terms
        self._placed: list[_Placed] = []

    def replace_networks(self, networks: Iterable[Network]) -> None:
        """Replace all networks, and thereby all partitions."""
        ordered = sort_by_age(networks)
        earlier_placements = self._placed
        self.keys, self.refused = allocate(ordered, self.keys)
        self.qos_classes = {}
        self._placed = []
        for network in ordered:
            for qos_class in network.qos_classes:
                self.qos_classes.setdefault(qos_class.name, qos_class)
            for partition in network.partitions:
                terms = tuple(
                    (
                        self._terms.acquire(
                            Term(None, member.namespace_selector, member.pod_selector)
                        ),
                        member.level,
                    )
                    for member in partition.members
                )
                key = self.keys.get((network.name, partition.name))
                self._placed.append(_Placed(network, partition, key, terms))
        # afterwards, so that sets which both versions use are not computed again
        for placed in earlier_placements:
            self._terms.release(matches for matches, _ in placed.terms)

    def update_members(self) -> int:
        """Update the partitions' members; return the identities whose memberships changed.

        An identity that is selected as both full and limited member is a full member.
        """
        changed_identities = 0
        for placed in self._placed:
            full = limited = 0
            for matches, level in placed.terms:
                if level is Level.FULL:
                    full |= matches.bits
                else:
                    limited |= matches.bits
            limited &= ~full
            changed_identities |= (full ^ placed.full) | (limited ^ placed.limited)
            placed.full, placed.limited = full, limited
        return changed_identities

    def members(self, peer: PartitionPeer) -> int:
        """Return the identities that are members of the partition that ``peer`` names.

        ``peer.level`` selects full members, limited members, or members of any level.
        """
        bits = 0
        for placed in self._find_placed(peer):
            if placed.pkey is not None:
                bits |= placed.full if peer.level is not Level.LIMITED else 0
                bits |= placed.limited if peer.level is not Level.FULL else 0
        return bits

    def has(self, peer: PartitionPeer) -> bool:
        """Return whether the partition that ``peer`` names exists and has a P_Key."""
        return any(placed.pkey is not None for placed in self._find_placed(peer))

    def pkey_tables(self, identities: int) -> dict[int, tuple[Membership, ...]]:
        """Return the P_Key tables of the identities in the set ``identities``, by identity number.

        An identity that no partition selects has no table in the result.
        """
        tables: dict[int, tuple[Membership, ...]] = {}
        for placed in self._placed:
            for bits, full in ((placed.full, True), (placed.limited, False)):
                hit = bits & identities
                added = (placed.membership(full=full),) if placed.pkey is not None else ()
                for number in numbers(hit):
                    tables[number] = tables.get(number, ()) + added
        return tables

    def _find_placed(self, peer: PartitionPeer) -> Iterable[_Placed]:
        return (
            placed
            for placed in self._placed
            if placed.partition.name == peer.name and peer.network in (None, placed.network.name)
        )
