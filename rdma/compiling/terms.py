"""Keep the terms of policies: parts of selectors, each with the set of identities that it selects.

All policies with the same term share one set. The set is computed again only if an identity of
the term's namespace was added or removed, or if labels of namespaces changed. The set of a term
with a partition is also computed again if that partition's members changed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from rdma.objects import PartitionPeer, Peer
from rdma.selectors import Operator, Requirement, Selector


@dataclass(frozen=True, slots=True)
class Term:
    """A condition that selects identities.

    The condition has up to four parts: the name of the pod's namespace (``namespace``), a
    selector of that namespace's labels (``namespaces``), a selector of the pod's labels
    (``pods``), and a partition of which the pod is a member. A part that is None is not a
    condition.
    """

    namespace: str | None = None
    namespaces: Selector | None = None
    pods: Selector | None = None
    partition: PartitionPeer | None = None

    @classmethod
    def of_peer(cls, peer: Peer, own_namespace: str) -> "Term":
        """Return the term that selects the same pods as one peer in a policy.

        A podSelector without a namespaceSelector selects pods of the policy's own namespace
        only.
        """
        own = peer.pod_selector is not None and peer.namespace_selector is None
        return cls(
            own_namespace if own else None,
            peer.namespace_selector,
            peer.pod_selector,
            peer.partition,
        )


class Matches:
    """The set of identities that a term selects, as ``bits``.

    ``moved`` are the identities that the last update added or removed.
    """

    __slots__ = ("bits", "moved", "term", "users")

    def __init__(self, term: Term) -> None:
        self.term = term
        self.bits = 0
        self.moved = -1  # all identities: not computed yet
        self.users = 0


class Index(Protocol):
    """The sets of identities by namespace and by label."""

    with_value: dict[tuple[str, str], int]
    with_key: dict[str, int]
    in_namespace: dict[str, int]


class Members(Protocol):
    """Provides the members of partitions."""

    def members(self, peer: PartitionPeer) -> int:
        """Return the identities that are members of the partition that ``peer`` names.

        ``peer.level`` selects full members, limited members, or members of any level.
        """


class Terms:
    """All terms in use, and their sets of identities."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._matches: dict[Term, Matches] = {}
        self._fresh: list[Matches] = []
        self._moved: list[Matches] = []
        self._keys: Counter[str] = Counter()
        self._selected: dict[Selector, tuple[str, ...]] = {}

    @property
    def keys(self) -> frozenset[str]:
        """Return the keys of all pod labels that are used in the selectors of the terms."""
        return frozenset(self._keys)

    def acquire(self, term: Term) -> Matches:
        """Return a term's set of identities; it is valid after the next ``recompute_sets``."""
        new = Matches(term)
        # computing the term's hash twice would take longer
        matches = self._matches.setdefault(term, new)
        if matches is new:
            self._fresh.append(matches)
            for requirement in _requirements(term):
                self._keys[requirement.key] += 1
        matches.users += 1
        return matches

    def release(self, matches: Iterable[Matches]) -> None:
        """Give up one use of each of these sets; a set without users is removed."""
        for term_matches in matches:
            term_matches.users -= 1
            if term_matches.users:
                continue
            del self._matches[term_matches.term]
            for requirement in _requirements(term_matches.term):
                self._keys[requirement.key] -= 1
                if not self._keys[requirement.key]:
                    del self._keys[requirement.key]

    def clear_moves(self) -> None:
        """Clear the record of the identities that the last update added to sets or removed from
        them.
        """
        for matches in self._moved:
            matches.moved = 0
        self._moved.clear()

    def recompute_sets(
        self,
        touched: set[str],
        namespaces: Mapping[str, Mapping[str, str]],
        other_namespaces: bool,
        partitions: "Members | None",
    ) -> None:
        """Recompute the sets of identities that may have changed.

        ``touched`` are the namespaces in which identities were added or removed.
        ``other_namespaces`` is true if namespaces have changed. Call this method twice: the first
        call, without ``partitions``, computes the terms that name no partition. The second call,
        with ``partitions``, computes all others.
        """
        if other_namespaces:
            self._selected.clear()
        anything = bool(touched) or other_namespaces
        for matches in self._matches.values() if anything or partitions else self._fresh:
            term = matches.term
            if (term.partition is not None) != (partitions is not None):
                continue
            local = term.namespace is not None and term.partition is None
            if matches.moved < 0 or not local or term.namespace in touched:
                self._work_out(matches, namespaces, partitions)
        if partitions is not None:
            self._fresh.clear()

    def _work_out(
        self,
        matches: Matches,
        namespaces: Mapping[str, Mapping[str, str]],
        partitions: "Members | None",
    ) -> None:
        bits = self._bits(matches.term, namespaces)
        if matches.term.partition is not None and partitions is not None:
            bits &= partitions.members(matches.term.partition)
        if matches.moved < 0 or bits != matches.bits:
            matches.moved = bits ^ matches.bits
            matches.bits = bits
            self._moved.append(matches)

    def _bits(self, term: Term, namespaces: Mapping[str, Mapping[str, str]]) -> int:
        index = self._index
        if term.namespace is not None:
            bits = index.in_namespace.get(term.namespace, 0)
        else:
            bits = 0
            for name in self._names(term.namespaces, namespaces):
                bits |= index.in_namespace.get(name, 0)
        if term.pods is not None:
            for requirement in term.pods.requirements:
                if not bits:
                    break
                bits = self._narrow(bits, requirement)
        return bits

    def _names(
        self, selector: Selector | None, namespaces: Mapping[str, Mapping[str, str]]
    ) -> Iterable[str]:
        if selector is None or not selector.requirements:
            return self._index.in_namespace
        names = self._selected.get(selector)
        if names is None:
            matching = (name for name, labels in namespaces.items() if selector.matches(labels))
            names = self._selected[selector] = tuple(matching)
        return names

    def _narrow(self, bits: int, requirement: Requirement) -> int:
        index = self._index
        match requirement.operator:
            case Operator.EXISTS:
                return bits & index.with_key.get(requirement.key, 0)
            case Operator.DOES_NOT_EXIST:
                return bits & ~index.with_key.get(requirement.key, 0)
            case Operator.IN:
                return bits & self._with_values(requirement)
            case Operator.NOT_IN:
                return bits & ~self._with_values(requirement)

    def _with_values(self, requirement: Requirement) -> int:
        bits = 0
        for value in requirement.values:
            bits |= self._index.with_value.get((requirement.key, value), 0)
        return bits


def _requirements(term: Term) -> tuple[Requirement, ...]:
    return term.pods.requirements if term.pods is not None else ()
