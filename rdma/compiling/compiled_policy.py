"""A compiled policy: the sets of identities that it selects, and its rules in the tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rdma.compiling.budget import Refusal, isolation_bytes, peers_bytes, rule_bytes
from rdma.compiling.excess import is_too_much
from rdma.compiling.terms import Matches
from rdma.objects import Policy
from rdma.tables import MAX_POLICIES_OF_A_POD, Direction, Isolation, Rule

NO_PLACE: Final = -1


@dataclass(slots=True, eq=False)
class CompiledRule:
    """A compiled rule, which occupies a place in the tables only while some isolation refers to
    it.
    """

    direction: Direction
    index: int
    peers: tuple[Matches, ...] | None
    place: int = NO_PLACE
    is_used: bool = False
    """Whether an identity's isolation refers to the rule."""
    is_stale: bool = True
    """Whether the identities of the rule's peers differ from those in ``_bits``."""
    is_other: bool = True
    """Whether the tables contain an outdated version of the rule."""
    _bits: int | None = None
    _selected: int = 0
    _own_bytes: int = -1
    _made: Rule | None = None

    def mark_stale_if_changed(self) -> None:
        """Mark the rule as stale if its peers' identities have changed."""
        if self.peers and any(matches.moved for matches in self.peers):
            self.is_stale = True

    def set_used(self, is_used: bool) -> bool:
        """Record whether isolations refer to the rule; return whether anything has changed.

        If isolations refer to the rule, the identities of the rule's peers are updated.
        """
        was_used, self.is_used = self.is_used, is_used
        if not is_used or not self.is_stale:
            return was_used is not is_used
        self.is_stale, self.is_other, self._made = False, True, None
        if self.peers is not None:
            bits = 0
            for matches in self.peers:
                bits |= matches.bits
            self._bits, self._selected = bits, bits.bit_count()
        return True

    def to_rule(self, policy: Policy) -> Rule:
        """Return the rule as an entry of the tables; ``policy`` is the policy that contains it."""
        if self._made is None:
            policy_rule = policy.rules(self.direction)[self.index]
            self._made = Rule(
                policy.key,
                self.direction,
                self.index,
                policy_rule.verbs,
                self._bits,
                tuple([peer.block for peer in policy_rule.peers if peer.block is not None]),
                policy_rule.ports,
                policy_rule.memory,
                policy_rule.limits,
                policy_rule.qos_class,
            )
        return self._made

    def size(self, policy: Policy, kinds: int) -> int:
        """Return the rule's estimated bytes in tables with ``kinds`` identities."""
        if self._own_bytes < 0:
            self._own_bytes = rule_bytes(self.to_rule(policy))
        peers = peers_bytes(self._selected, kinds) if self.peers is not None else 0
        return self._own_bytes + peers


@dataclass(slots=True, eq=False)
class CompiledPolicy:
    """A policy, the identities that it selects, and its compiled rules.

    ``refusal`` is the reason why the policy does not fit into its namespace's budget, else None.
    """

    policy: Policy
    subject: Matches
    rules: tuple[CompiledRule, ...]
    refusal: Refusal | None = None
    is_fresh: bool = True
    _sized: tuple[int, int] = (-1, -1)
    _size: int = 0

    def referenced_sets(self) -> Iterator[Matches]:
        """Yield the sets of identities that the policy refers to: its own pods, then each rule's
        peers.

        If the policy refers to a set several times, the set is yielded as many times.
        """
        yield self.subject
        for rule in self.rules:
            yield from rule.peers or ()

    def mark_used_rules(self, crowded: Mapping[tuple[Direction, bool], int]) -> None:
        """Mark each rule of the policy as used or unused.

        ``crowded`` are the identities that too many policies or rules select (see ``excess``),
        by direction and by whether the policies only audit. A rule is used if the policy selects
        at least one identity that is not crowded in the rule's direction.
        """
        selected, audit = self.subject.bits, self.policy.audit
        for rule in self.rules:
            crowded_bits = crowded.get((rule.direction, audit), 0) if crowded else 0
            if rule.set_used(bool(selected & ~crowded_bits)):
                self._sized = (-1, -1)

    def size(self, kinds: int, copies: int) -> int:
        """Return the policy's estimated bytes in tables with ``kinds`` identities.

        Several isolations can name the policy. ``copies`` is the number of these isolations in
        each direction.
        """
        if self._sized != (kinds, copies):
            self._sized = (kinds, copies)
            policy = self.policy
            named = sum(
                isolation_bytes(policy.key, len(policy.rules(direction)))
                for direction in policy.types
            )
            used = [rule.size(policy, kinds) for rule in self.rules if rule.is_used]
            self._size = copies * named + sum(used)
        return self._size


def isolation(policies: Sequence[CompiledPolicy], direction: Direction) -> Isolation | None:
    """Return the isolation, in one direction, of pods that all of these policies select.

    The isolation allows the union of the policies' rules. The result is None if no policy
    isolates in the direction. If a policy does not fit its namespace's budget, it isolates the
    pods but allows nothing. The isolation names only the first of these policies that enforces,
    and the first that audits.
    """
    isolating = [
        compiled_policy for compiled_policy in policies if direction in compiled_policy.policy.types
    ]
    if not isolating:
        return None
    places: dict[bool, list[int]] = {False: [], True: []}
    names: dict[bool, list[str]] = {False: [], True: []}
    count: dict[bool, list[int]] = {False: [0, 0], True: [0, 0]}
    unnamed: dict[bool, str] = {}
    for compiled_policy in isolating:
        audit, policy = compiled_policy.policy.audit, compiled_policy.policy
        count[audit][0] += 1
        count[audit][1] += len(policy.rules(direction))
        if compiled_policy.refusal is not None:
            unnamed.setdefault(audit, policy.key)
            continue
        names[audit].append(policy.key)
        places[audit] += [
            rule.place for rule in compiled_policy.rules if rule.direction is direction
        ]
    for audit, key in unnamed.items():
        names[audit].append(key)
    for audit in (False, True):
        if is_too_much(*count[audit]):
            # more than a node can evaluate in time: the policies allow nothing
            places[audit].clear()
        del names[audit][MAX_POLICIES_OF_A_POD:]
    return Isolation(
        rules=tuple(places[False]),
        enforced=bool(names[False]),
        audited=bool(names[True]),
        audited_rules=tuple(places[True]),
        policies=tuple(names[False]),
        audited_policies=tuple(names[True]),
    )
