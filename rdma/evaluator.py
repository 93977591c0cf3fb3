"""Evaluate flows by the tables of one node; hcad does this for every connection.

Each evaluation covers the source's egress, the destination's ingress and the partitions of both,
even if only one of the two pods is on this node. Flows that the tables do not cover are denied.
"""

from collections.abc import Sequence
from typing import Final

from rdma import addresses
from rdma.operations import BY_KEY
from rdma.qos import Classes
from rdma.sides import OPEN, OUTSIDE, Address, PreparedIsolation, PreparedRule, Side
from rdma.tables import (
    DEFAULT_PKEY,
    FULL,
    UNIDENTIFIED,
    Endpoint,
    Flow,
    Isolation,
    Limits,
    Memory,
    NodeTables,
    Verdict,
    describe_pkey,
)
from rdma.verbs import ALL, NONE, Verb

_MEMORY_VERBS: Final = BY_KEY.value
_SCOPES: Final = ("Pod", "ProtectionDomain", "Named")  # the widest first


class _Kind:
    """An identity's isolations and P_Keys, prepared for evaluations."""

    __slots__ = ("egress", "ingress", "pkeys")

    def __init__(
        self,
        ingress: PreparedIsolation | None,
        egress: PreparedIsolation | None,
        pkeys: dict[int, bool],
    ) -> None:
        self.ingress, self.egress, self.pkeys = ingress, egress, pkeys


class Evaluator:
    """Evaluates flows by the tables of one node. The tables are prepared once for many evaluations.

    An evaluation has no visible side effects.
    """

    def __init__(self, tables: NodeTables) -> None:
        self.tables = tables
        self._endpoints = {endpoint.address: endpoint for endpoint in tables.endpoints}
        self._identities = {identity.number: identity for identity in tables.identities}
        self._rules: list[PreparedRule] | None = None
        self._kinds: dict[int, _Kind] = {}
        self._classes = Classes(tables.qos_classes)

    def evaluate(self, flow: Flow) -> Verdict:
        """Return the verdict on a flow.

        The verdict combines the source's egress, the destination's ingress, and the partitions
        of both.
        """
        try:
            source, sender = self._end(flow.source)
            destination, receiver = self._end(flow.destination, may_be_group=True)
        except ValueError as error:
            return _deny(str(error))
        outgoing = self._kind(sender.identity) if sender else None
        incoming = self._kind(receiver.identity) if receiver else None
        if is_one_pod(sender, receiver):
            egress = ingress = OPEN
        else:
            peer = receiver.identity if receiver else OUTSIDE
            egress = _evaluate_side(outgoing.egress if outgoing else None, peer, destination, flow)
            peer = sender.identity if sender else OUTSIDE
            ingress = _evaluate_side(incoming.ingress if incoming else None, peer, source, flow)
        if receiver is None and destination.parsed.is_multicast:
            # Each member of the group is evaluated again.
            shared = _is_member(flow.pkey, outgoing)
        else:
            shared = _share(flow.pkey, outgoing, incoming)
        passing = egress.verbs & ingress.verbs
        verbs = passing if shared else NONE
        matched = (*egress.rules, *ingress.rules)
        grants = _grants(ingress, verbs)
        return Verdict(
            verbs=verbs,
            audited=verbs & ~(egress.audited_verbs & ingress.audited_verbs),
            peer_known=bool(passing),
            partition_shared=shared,
            limits=_least([rule.rule.limits for rule in matched]),
            memory=_common(grants),
            rules=tuple([rule.place for rule in matched]),
            reasons=(
                _reason("egress", flow.source, sender, egress),
                _reason("ingress", flow.destination, receiver, ingress),
                _partition_reason(flow.pkey, shared),
            ),
            grants=grants,
            denied_by=(*_isolating(egress), *_isolating(ingress)),
            source_pod=sender.pod if sender else "",
            destination_pod=receiver.pod if receiver else "",
            qos_class=self._classes.of(
                [egress_rule.rule for egress_rule in egress.rules], flow.traffic_class
            ),
        )

    def _end(self, text: str, *, may_be_group: bool = False) -> tuple[Address, Endpoint | None]:
        """Return the parsed address ``text`` and its endpoint, or None if it is outside of the
        cluster.

        A multicast address is valid only as a destination. Raises ValueError.
        """
        address = Address(text)
        endpoint = self._endpoints.get(text)
        if endpoint is None:
            address = Address(addresses.canonical(text))
            endpoint = self._endpoints.get(address.text)
        group = may_be_group and address.parsed.is_multicast
        if endpoint is None and not group and not addresses.may_be_outside(address.parsed):
            raise ValueError(
                f"{address.text} is neither a pod's address nor one that an outside peer can have"
            )
        return address, endpoint

    def _kind(self, number: int) -> _Kind:
        kind = self._kinds.get(number)
        if kind is None:
            identity = self._identities[number]
            pkeys: dict[int, bool] = {}
            for membership in identity.partitions:
                pkeys[membership.pkey] = pkeys.get(membership.pkey, False) or membership.full
            kind = self._kinds[number] = _Kind(
                self._prepare(identity.ingress), self._prepare(identity.egress), pkeys
            )
        return kind

    def _prepare(self, isolation: Isolation | None) -> PreparedIsolation | None:
        if isolation is None:
            return None
        if self._rules is None:
            self._rules = [PreparedRule(*placed) for placed in enumerate(self.tables.rules)]
        return PreparedIsolation(isolation, self._rules)


def is_one_pod(sender: Endpoint | None, receiver: Endpoint | None) -> bool:
    """Return whether sender and receiver are the same pod.

    As in NetworkPolicy, no policy can forbid a pod to reach itself.
    """
    if sender is None or receiver is None or UNIDENTIFIED in (sender.identity, receiver.identity):
        return False
    return sender.address == receiver.address or (sender.pod == receiver.pod and bool(sender.pod))


def _evaluate_side(
    isolation: PreparedIsolation | None, peer: int, address: Address, flow: Flow
) -> Side:
    return OPEN if isolation is None else isolation.evaluate(peer, address, flow)


def _share(pkey: int, outgoing: _Kind | None, incoming: _Kind | None) -> bool:
    """Return whether both ends are members of a flow's partition, at least one of them as full
    member (IB 10.9.3).

    An end outside of the cluster is a member of the default partition only; the membership bit of
    ``pkey`` states whether it is a full member.
    """
    base = pkey & DEFAULT_PKEY
    outside = {DEFAULT_PKEY: bool(pkey & FULL)}
    sender = (outgoing.pkeys if outgoing else outside).get(base)
    receiver = (incoming.pkeys if incoming else outside).get(base)
    return sender is not None and receiver is not None and (sender or receiver)


def _is_member(pkey: int, kind: _Kind | None) -> bool:
    memberships = kind.pkeys if kind else {DEFAULT_PKEY: True}
    return pkey & DEFAULT_PKEY in memberships


def _grants(ingress: Side, verbs: Verb) -> tuple[tuple[Verb, Memory], ...]:
    if not verbs:
        return ()
    if ingress.isolation is None or not ingress.isolation.enforced:
        return ((verbs, Memory()),)
    grants: dict[Memory, Verb] = {}
    for rule in ingress.rules:
        granted = rule.rule.verbs & verbs
        if granted:
            grants[rule.rule.memory] = grants.get(rule.rule.memory, NONE) | granted
    return tuple((granted, memory) for memory, granted in grants.items())


def _common(grants: Sequence[tuple[Verb, Memory]]) -> Memory:
    """Return the memory that is common to all grants of verbs that use a remote key."""
    memories = [memory for granted, memory in grants if granted.value & _MEMORY_VERBS]
    if not memories:
        return Memory()
    if len(memories) == 1:
        return memories[0]
    scope = max((memory.scope for memory in memories), key=_SCOPES.index)
    regions: set[str] = set()
    if scope == "Named":
        regions = set.intersection(*(set(m.regions) for m in memories if m.scope == "Named"))
        if any(memory.scope == "ProtectionDomain" for memory in memories):
            regions = set()  # a named region need not be in the domain
    read_only = all(memory.read_only for memory in memories)  # verbs are restricted already
    return Memory(read_only, scope, tuple(sorted(regions)))


def _least(all_limits: Sequence[Limits]) -> Limits:
    stated_limits = [limits for limits in all_limits if limits != _NO_LIMITS]
    if len(stated_limits) < 2:
        return stated_limits[0] if stated_limits else _NO_LIMITS

    def least(name: str) -> int | None:
        values = [getattr(limits, name) for limits in stated_limits]
        return min((value for value in values if value is not None), default=None)

    return Limits(*(least(name) for name in Limits.__slots__))


_NO_LIMITS: Final = Limits()


def _isolating(side: Side) -> tuple[str, ...]:
    if side.isolation is None or side.verbs == ALL:
        return ()
    return side.isolation.policies


def _reason(direction: str, address: str, endpoint: Endpoint | None, side: Side) -> str:
    if endpoint is None:
        return f"{direction} of {address}: outside of the cluster"
    who = endpoint.pod or endpoint.address
    if endpoint.identity == UNIDENTIFIED:
        return f"{direction} of {who}: its address is claimed twice, or its namespace is not known"
    if side.isolation is None:
        return f"{direction} of {who}: not isolated"
    if side.rules:
        named = ", ".join(f"{rule.rule.policy}[{rule.rule.index}]" for rule in side.rules)
        return f"{direction} of {who}: rules that match: {named}"
    if not side.isolation.enforced:
        return (
            f"{direction} of {who}: audited only, by {', '.join(side.isolation.audited_policies)}"
        )
    return (
        f"{direction} of {who}: no rule matches; isolated by {', '.join(side.isolation.policies)}"
    )


def _partition_reason(pkey: int, shared: bool) -> str:
    word = "shared" if shared else "not shared, or both are limited members"
    return f"partition {describe_pkey(pkey)}: {word}"


def _deny(problem: str) -> Verdict:
    return Verdict(NONE, peer_known=False, partition_shared=False, reasons=(f"denied: {problem}",))
