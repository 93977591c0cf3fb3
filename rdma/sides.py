"""Evaluate one direction of an identity's isolation with rules that were prepared for speed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rdma import addresses
from rdma.addresses import IPv4OrIPv6
from rdma.tables import Block, Flow, Isolation, Port, Rule
from rdma.verbs import ALL, Verb

OUTSIDE: Final = -1
"""The identity of every address outside of the cluster."""


class Address:
    """An IP address as text. The text is parsed only if a rule refers to blocks of addresses."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def parsed(self) -> IPv4OrIPv6:
        """Return the address in parsed form. Raises ValueError if the text is not an address."""
        return addresses.parse(self.text)

    @cached_property
    def number(self) -> tuple[int, int]:
        """Return the address's IP version and its numeric value."""
        return self.parsed.version, int(self.parsed)


class _Span:
    """A block of addresses as a range of numbers, with the block's exceptions."""

    __slots__ = ("excepted", "first", "last", "version")

    def __init__(self, block: Block) -> None:
        self.version, self.first, self.last = _limits(block.cidr)
        self.excepted = [_limits(text)[1:] for text in block.excepted]

    def holds(self, version: int, value: int) -> bool:
        if version != self.version or not self.first <= value <= self.last:
            return False
        return not any(first <= value <= last for first, last in self.excepted)


def _limits(cidr: str) -> tuple[int, int, int]:
    network = addresses.parse_network(cidr)
    return network.version, int(network.network_address), int(network.broadcast_address)


class PreparedRule:
    """A rule in a form in which many peers can be matched fast.

    Its set of peers is stored as bytes. To test whether one peer is in the set, only one byte is
    read; the whole integer need not be shifted.
    """

    __slots__ = ("_peers", "_size", "_spans", "place", "rule")

    def __init__(self, place: int, rule: Rule) -> None:
        self.place, self.rule = place, rule
        self._peers = (
            None
            if rule.peers is None
            else rule.peers.to_bytes((rule.peers.bit_length() + 7) // 8, "little")
        )
        self._size = len(self._peers or b"") * 8
        self._spans = [_Span(block) for block in rule.blocks]

    def matches(self, identity: int, address: Address, flow: Flow) -> bool:
        """Return whether the rule matches a peer and a flow.

        The peer is matched by its identity or its address. The flow is matched by its known
        properties.
        """
        peers = self._peers
        if peers is not None and not (
            0 <= identity < self._size and peers[identity >> 3] >> (identity & 7) & 1
        ):
            if not self._spans:
                return False
            version, value = address.number
            if not any(span.holds(version, value) for span in self._spans):
                return False
        ports = self.rule.ports
        return not ports or any(_is_at(port, flow) for port in ports)


def _is_at(port: Port, flow: Flow) -> bool:
    """Return whether a flow meets a port's conditions; a condition on an unknown property is not
    met.
    """
    if port.services is not None and not (
        flow.service is not None
        and port.services[0] <= flow.service <= port.services[1]
        and port.space in (None, flow.space)
    ):
        return False
    if port.qpns is not None and not (
        flow.destination_qpn is not None and port.qpns[0] <= flow.destination_qpn <= port.qpns[1]
    ):
        return False
    if port.traffic_class is not None and port.traffic_class != flow.traffic_class:
        return False
    return port.dscp is None or port.dscp == flow.traffic_class >> 2


@dataclass(frozen=True, slots=True)
class Side:
    """The result of evaluating one direction (ingress or egress) for a flow.

    ``verbs`` are allowed. ``audited_verbs`` would be allowed if all audit-only policies were
    enforced.
    """

    verbs: Verb = ALL
    audited_verbs: Verb = ALL
    rules: tuple[PreparedRule, ...] = ()
    isolation: Isolation | None = None


OPEN: Final = Side()


class PreparedIsolation:
    """The rules that isolate an identity in one direction (ingress or egress), prepared so that
    ``evaluate`` is fast.
    """

    __slots__ = ("_audits", "_enforced", "isolation")

    def __init__(self, isolation: Isolation, rules: Sequence[PreparedRule]) -> None:
        self.isolation = isolation
        self._enforced = [rules[place] for place in isolation.rules]
        self._audits = [rules[place] for place in isolation.audited_rules]

    def evaluate(self, identity: int, address: Address, flow: Flow) -> Side:
        """Return the verbs that pass to or from a peer: the union of the verbs of the rules that
        match.
        """
        isolation = self.isolation
        matched = [rule for rule in self._enforced if rule.matches(identity, address, flow)]
        granted = _union(matched)
        verbs = granted if isolation.enforced else ALL
        audited = verbs
        if isolation.audited:
            also = [rule for rule in self._audits if rule.matches(identity, address, flow)]
            audited = granted | _union(also)
        return Side(verbs, audited, tuple(matched), isolation)


def _union(rules: Iterable[PreparedRule]) -> Verb:
    bits = 0
    for rule in rules:
        bits |= rule.rule.verbs.value
    return _VERBS[bits]


# making a Verb takes microseconds
_VERBS: Final = tuple(Verb(bits) for bits in range(ALL.value + 1))
