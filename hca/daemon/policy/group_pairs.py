"""Decide which multicast members of this engine receive from which senders of this engine.

A group address belongs to no pod. So policy is evaluated for each member, as for a datagram
between sender and member: by the sender's egress and the member's ingress. For datagrams that
arrive over a wire, ``sources`` does this. For local senders this module evaluates every pair of
a sender and a member beforehand, and the engine looks the pair up for each datagram.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from hca.binding.engine import Engine, EngineAh
from hca.daemon.policy.parties import Party

_KNOWN_BY = 1  # index of the GID by which tables identify a function


class GroupPairs:
    """The (member, sender) pairs of one engine. Policy is evaluated for each pair.

    A member is a party that has queue pairs in multicast groups. A sender is a party that has
    address handles for multicast groups.
    """

    def __init__(
        self,
        engine: Engine,
        evaluate: Callable[[Party, EngineAh, bytes], None],
        forget: Callable[[EngineAh], None],
    ) -> None:
        """Make an empty set of pairs.

        ``evaluate`` sets the verdict on datagrams from a GID to a party, which applies until
        ``forget``.
        """
        self._engine = engine
        self._evaluate = evaluate
        self._forget = forget
        self._members: Counter[Party] = Counter()
        self._senders: Counter[Party] = Counter()
        self._pairs: dict[tuple[Party, Party], EngineAh] = {}

    def add_member(self, party: Party) -> None:
        """Add one to the number of a party's queue pairs in multicast groups. Raises OSError.

        The first such queue pair makes the party a member. Then a (member, sender) pair of this
        member is added for every sender.
        """
        if party not in self._members:
            self._add((party, sender) for sender in self._senders)
        self._members[party] += 1

    def remove_member(self, party: Party) -> None:
        """Subtract one from the number of a party's queue pairs in multicast groups.

        If no such queue pair is left, the party is no longer a member. Then all (member, sender)
        pairs of this member are removed.
        """
        self._members[party] -= 1
        if not self._members[party]:
            del self._members[party]
            self._remove(pair for pair in self._pairs if pair[0] is party)

    def add_sender(self, party: Party) -> None:
        """Add one to the number of a party's address handles for multicast groups. Raises OSError.

        The first such address handle makes the party a sender. Then a (member, sender) pair of
        this sender is added for every member.
        """
        if party not in self._senders:
            self._add((member, party) for member in self._members)
        self._senders[party] += 1

    def remove_sender(self, party: Party) -> None:
        """Subtract one from the number of a party's address handles for multicast groups.

        If no such address handle is left, the party is no longer a sender. Then all (member,
        sender) pairs of this sender are removed.
        """
        self._senders[party] -= 1
        if not self._senders[party]:
            del self._senders[party]
            self._remove(pair for pair in self._pairs if pair[1] is party)

    def _add(self, pairs: Iterable[tuple[Party, Party]]) -> None:
        added: list[tuple[Party, Party]] = []
        try:
            for pair in pairs:
                member, sender = (party.gids[_KNOWN_BY] for party in pair)
                if not any(member) or not any(sender):
                    continue  # tables cannot contain a function without an address
                engine_pair = self._pairs[pair] = self._engine.add_pair(member, sender)
                added.append(pair)
                self._evaluate(pair[0], engine_pair, sender)
        except BaseException:
            self._remove(added)
            raise

    def _remove(self, pairs: Iterable[tuple[Party, Party]]) -> None:
        for pair in tuple(pairs):
            engine_pair = self._pairs.pop(pair)
            self._forget(engine_pair)
            self._engine.remove_pair(engine_pair)
