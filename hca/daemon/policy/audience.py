"""Who hears whom in multicast groups, where both are here: judged as datagrams between the two.

A group is nobody's address: what is sent to it is judged again at each member, by the sender's
egress and the member's ingress. Over a wire ``sources`` does so. Here it is done beforehand, for
whoever may send to groups and whoever is in one, and the engine asks for each datagram.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from hca.binding.engine import Engine, EngineAh
from hca.daemon.policy.parties import Party

_KNOWN_BY = 1  # which of a function's GIDs tables know


class Audience:
    """Members and senders of groups of one engine."""

    def __init__(
        self,
        engine: Engine,
        judge: Callable[[Party, EngineAh, bytes], None],
        forget: Callable[[EngineAh], None],
    ) -> None:
        """``judge`` has somebody's datagrams from a GID judged, until ``forget``."""
        self._engine = engine
        self._judge = judge
        self._forget = forget
        self._members: Counter[Party] = Counter()
        self._senders: Counter[Party] = Counter()
        self._pairs: dict[tuple[Party, Party], EngineAh] = {}

    def enter(self, party: Party) -> None:
        """Count a queue pair of somebody's in a group. Raises OSError."""
        if party not in self._members:
            self._add((party, sender) for sender in self._senders)
        self._members[party] += 1

    def leave(self, party: Party) -> None:
        """It is in it no more."""
        self._members[party] -= 1
        if not self._members[party]:
            del self._members[party]
            self._remove(pair for pair in self._pairs if pair[0] is party)

    def speak(self, party: Party) -> None:
        """Count a way of somebody's to send to a group. Raises OSError."""
        if party not in self._senders:
            self._add((member, party) for member in self._members)
        self._senders[party] += 1

    def hush(self, party: Party) -> None:
        """It is there no more."""
        self._senders[party] -= 1
        if not self._senders[party]:
            del self._senders[party]
            self._remove(pair for pair in self._pairs if pair[1] is party)

    def _add(self, wanted: Iterable[tuple[Party, Party]]) -> None:
        added: list[tuple[Party, Party]] = []
        try:
            for pair in wanted:
                member, sender = (party.gids[_KNOWN_BY] for party in pair)
                if not any(member) or not any(sender):
                    continue  # nothing can be said of who has no address
                made = self._pairs[pair] = self._engine.add_pair(member, sender)
                added.append(pair)
                self._judge(pair[0], made, sender)
        except BaseException:
            self._remove(added)
            raise

    def _remove(self, pairs: Iterable[tuple[Party, Party]]) -> None:
        for pair in tuple(pairs):
            made = self._pairs.pop(pair)
            self._forget(made)
            self._engine.remove_pair(made)
