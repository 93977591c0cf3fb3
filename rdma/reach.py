"""The most that one kind of pod may do to another, whatever the flow is like otherwise.

For those who see addresses and operations, and not the ports that a rule may ask for besides: what
they let pass is judged once more where all is known.
"""

from collections.abc import Iterable

from rdma.tables import DEFAULT_PKEY, Direction, Identity, Isolation, Membership, NodeTables, Rule
from rdma.verbs import ALL, NONE, Verb

_OUTSIDE = (Membership(DEFAULT_PKEY, full=True),)


class Reach:
    """Tables, asked by identities; None stands for an address that is no endpoint's."""

    def __init__(self, tables: NodeTables) -> None:
        self._rules = tables.rules

    def most(self, source: Identity | None, destination: Identity | None) -> Verb:
        """Return the verbs that some flow between the two may have."""
        if not _share_a_partition(source, destination):
            return NONE
        sent = self._allowed(source, Direction.EGRESS, destination)
        return sent & self._allowed(destination, Direction.INGRESS, source)

    def _allowed(self, own: Identity | None, direction: Direction, peer: Identity | None) -> Verb:
        isolation = _isolation(own, direction)
        if isolation is None or not isolation.enforced:
            return ALL
        verbs = NONE
        for place in isolation.rules:
            if _concerns(self._rules[place], peer):
                verbs |= self._rules[place].verbs
        return verbs


def _isolation(own: Identity | None, direction: Direction) -> Isolation | None:
    if own is None:
        return None
    return own.egress if direction is Direction.EGRESS else own.ingress


def _concerns(rule: Rule, peer: Identity | None) -> bool:
    """A block may hold any address: which one, the caller does not know."""
    if rule.peers is None or rule.blocks:
        return True
    return peer is not None and bool(rule.peers >> peer.number & 1)


def _share_a_partition(one: Identity | None, other: Identity | None) -> bool:
    mine, theirs = _memberships(one), _memberships(other)
    return any(a.pkey == b.pkey and (a.full or b.full) for a in mine for b in theirs)


def _memberships(own: Identity | None) -> Iterable[Membership]:
    return own.partitions if own is not None else _OUTSIDE
