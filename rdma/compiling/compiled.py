"""A policy with the sets that it refers to, and its part of tables: rules and isolation."""

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
    """One rule; it has a place in the tables only while some isolation refers to it."""

    direction: Direction
    index: int
    peers: tuple[Matches, ...] | None
    place: int = NO_PLACE
    is_used: bool = False
    """Whether some identity's isolation would refer to it."""
    is_stale: bool = True
    """Its peers are other identities than those that were last taken up."""
    is_other: bool = True
    """Its place in the tables has not been brought up to date."""
    _bits: int | None = None
    _selected: int = 0
    _own_bytes: int = -1
    _made: Rule | None = None

    def note_moves(self) -> None:
        """Note whether the identities of its peers are others than before."""
        if self.peers and any(matches.moved for matches in self.peers):
            self.is_stale = True

    def use(self, is_used: bool) -> bool:
        """Note whether an isolation would refer to it; if so, take up its peers.

        Return whether anything is new.
        """
        before, self.is_used = self.is_used, is_used
        if not is_used or not self.is_stale:
            return before is not is_used
        self.is_stale, self.is_other, self._made = False, True, None
        if self.peers is not None:
            bits = 0
            for matches in self.peers:
                bits |= matches.bits
            self._bits, self._selected = bits, bits.bit_count()
        return True

    def made(self, policy: Policy) -> Rule:
        """Return it as tables have it."""
        if self._made is None:
            said = policy.rules(self.direction)[self.index]
            self._made = Rule(
                policy.key,
                self.direction,
                self.index,
                said.verbs,
                self._bits,
                tuple([peer.block for peer in said.peers if peer.block is not None]),
                said.ports,
                said.memory,
                said.limits,
                said.qos_class,
            )
        return self._made

    def size(self, policy: Policy, kinds: int) -> int:
        """Return the bytes that it takes in tables of so many identities."""
        if self._own_bytes < 0:
            self._own_bytes = rule_bytes(self.made(policy))
        peers = peers_bytes(self._selected, kinds) if self.peers is not None else 0
        return self._own_bytes + peers


@dataclass(slots=True, eq=False)
class CompiledPolicy:
    """A policy, the identities that it selects, and its rules; ``refusal``: why it has no room."""

    policy: Policy
    subject: Matches
    rules: tuple[CompiledRule, ...]
    refusal: Refusal | None = None
    is_fresh: bool = True
    _sized: tuple[int, int] = (-1, -1)
    _size: int = 0

    def matches(self) -> Iterator[Matches]:
        """Yield every set that it uses, as often as it does."""
        yield self.subject
        for rule in self.rules:
            yield from rule.peers or ()

    def use(self, crowded: Mapping[tuple[Direction, bool], int]) -> None:
        """Note which rules isolations refer to: of ``crowded`` identities none does."""
        selected, audit = self.subject.bits, self.policy.audit
        for rule in self.rules:
            others = crowded.get((rule.direction, audit), 0) if crowded else 0
            if rule.use(bool(selected & ~others)):
                self._sized = (-1, -1)

    def size(self, kinds: int, copies: int) -> int:
        """Return the bytes that it takes in tables of so many identities.

        ``copies``: so many different isolations name it, in each direction.
        """
        if self._sized != (kinds, copies):
            self._sized = (kinds, copies)
            policy = self.policy
            named = sum(isolation_bytes(policy.key, len(policy.rules(one))) for one in policy.types)
            used = [rule.size(policy, kinds) for rule in self.rules if rule.is_used]
            self._size = copies * named + sum(used)
        return self._size


def isolation(policies: Sequence[CompiledPolicy], direction: Direction) -> Isolation | None:
    """Return the isolation, in one direction, of pods that these policies select: their union.

    A policy without room isolates and allows nothing; the first of those is named.
    """
    isolating = [one for one in policies if direction in one.policy.types]
    if not isolating:
        return None
    places: dict[bool, list[int]] = {False: [], True: []}
    names: dict[bool, list[str]] = {False: [], True: []}
    count: dict[bool, list[int]] = {False: [0, 0], True: [0, 0]}
    unnamed: dict[bool, str] = {}
    for one in isolating:
        audit, policy = one.policy.audit, one.policy
        count[audit][0] += 1
        count[audit][1] += len(policy.rules(direction))
        if one.refusal is not None:
            unnamed.setdefault(audit, policy.key)
            continue
        names[audit].append(policy.key)
        places[audit] += [rule.place for rule in one.rules if rule.direction is direction]
    for audit, key in unnamed.items():
        names[audit].append(key)
    for audit in (False, True):
        if is_too_much(*count[audit]):
            places[audit].clear()  # more than a node evaluates in time: they allow nothing
        del names[audit][MAX_POLICIES_OF_A_POD:]
    return Isolation(
        rules=tuple(places[False]),
        enforced=bool(names[False]),
        audited=bool(names[True]),
        audited_rules=tuple(places[True]),
        policies=tuple(names[False]),
        audited_policies=tuple(names[True]),
    )
