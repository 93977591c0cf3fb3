"""Compute the verbs that one identity may use on another in at least one kind of flow.

The second layer uses the result: that layer sees addresses, operations and queue pair numbers,
but not the services that rules name. hcad evaluates whatever passes the second layer again, with
all properties of the flow.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from rdma.tables import DEFAULT_PKEY, Direction, Identity, Isolation, Membership, NodeTables, Rule
from rdma.verbs import ALL, NONE, Verb

_OUTSIDE = (Membership(DEFAULT_PKEY, full=True),)

Ranges = tuple[tuple[int, int], ...]
"""Ranges of queue pair numbers, both ends included, sorted and without overlaps."""
EVERY_QPN: Final[Ranges] = ((0, 0xFFFFFF),)
CM_QPN: Final[Ranges] = ((1, 1),)  # the general services interface (IB 3.9.5)


class Reach:
    """Determines which verbs the tables permit between two identities.

    The identity None stands for an address outside of the cluster.
    """

    def __init__(self, tables: NodeTables) -> None:
        self._rules = tables.rules

    def possible_verbs(self, source: Identity | None, destination: Identity | None) -> Verb:
        """Return the verbs that at least one flow from source to destination may use."""
        if not shared_pkeys(source, destination):
            return NONE
        sent = self._allowed_verbs(source, Direction.EGRESS, destination)
        return sent & self._allowed_verbs(destination, Direction.INGRESS, source)

    def ranges(
        self, source: Identity | None, destination: Identity | None
    ) -> Mapping[Verb, Ranges]:
        """Return the verbs that may pass, each with the queue pairs of the destination that accept
        it.

        The queue pairs are given as ranges of their numbers.
        """
        if not shared_pkeys(source, destination):
            return {}
        egress_ranges = self._ranges(source, Direction.EGRESS, destination)
        ingress_ranges = self._ranges(destination, Direction.INGRESS, source)
        common_ranges = {
            verb: _common(egress_ranges[verb], ingress_ranges[verb])
            for verb in egress_ranges.keys() & ingress_ranges.keys()
        }
        if Verb.CM in common_ranges:
            common_ranges[Verb.CM] = _common(common_ranges[Verb.CM], CM_QPN)
        return {verb: ranges for verb, ranges in common_ranges.items() if ranges}

    def _ranges(
        self, own: Identity | None, direction: Direction, peer: Identity | None
    ) -> dict[Verb, Ranges]:
        isolation = _isolation(own, direction)
        if isolation is None or not isolation.enforced:
            return dict.fromkeys(Verb, EVERY_QPN)
        ranges_by_verb: dict[Verb, Ranges] = {}
        for place in isolation.rules:
            rule = self._rules[place]
            if _concerns(rule, peer):
                ranges = _qpns(rule)
                for verb in rule.verbs:
                    ranges_by_verb[verb] = _union(ranges_by_verb.get(verb, ()), ranges)
        return ranges_by_verb

    def _allowed_verbs(
        self, own: Identity | None, direction: Direction, peer: Identity | None
    ) -> Verb:
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
    """Return whether a rule may match a peer; a rule with blocks always may, as a block may contain
    any of the peer's addresses.
    """
    if rule.peers is None or rule.blocks:
        return True
    return peer is not None and bool(rule.peers >> peer.number & 1)


def shared_pkeys(identity: Identity | None, peer: Identity | None) -> frozenset[int]:
    """Return the P_Keys (15 bits) of the partitions that two identities share.

    At least one of the two must be a full member of the partition.
    """
    mine, theirs = _memberships(identity), _memberships(peer)
    return frozenset(
        a.pkey for a in mine for b in theirs if a.pkey == b.pkey and (a.full or b.full)
    )


def _memberships(own: Identity | None) -> Iterable[Membership]:
    return own.partitions if own is not None else _OUTSIDE


def _qpns(rule: Rule) -> Ranges:
    if not rule.ports or any(port.qpns is None for port in rule.ports):
        return EVERY_QPN
    return _union((), tuple(port.qpns for port in rule.ports if port.qpns is not None))


def _union(ranges_a: Ranges, ranges_b: Ranges) -> Ranges:
    merged: list[tuple[int, int]] = []
    for first, last in sorted((*ranges_a, *ranges_b)):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _common(ranges_a: Ranges, ranges_b: Ranges) -> Ranges:
    overlaps = ((max(a, c), min(b, d)) for a, b in ranges_a for c, d in ranges_b)
    return _union((), tuple((first, last) for first, last in overlaps if first <= last))
