"""Record which two queue pairs each connection joins, and by which service.

A policy rule for a service applies only to requests between two queue pairs that a connection by
that service joins. A service is therefore looked up by everything that identifies a connection:
the own queue pair, both GIDs and the peer's queue pair. The own queue pair must belong to the
function; the peer's queue pair is the one in the peer's REQ or REP. A queue pair is in one
connection at a time, and a later message never replaces an entry. An entry ends with its
connection (REJ, DREQ, time-out, removal of the id) or with either queue pair.
"""

import errno
from collections.abc import Callable
from dataclasses import field
from typing import Final, NamedTuple

from hca.daemon.cm.connection import Connection, State
from hca.daemon.cm.policy import Service
from vgpu_sim.records import dataclass

_LIVE: Final = (
    State.REQ_SENT,
    State.REQ_RECEIVED,
    State.REP_SENT,
    State.REP_RECEIVED,
    State.ESTABLISHED,
)
"""States in which a connection holds its queue pairs."""


@dataclass(slots=True, eq=False)
class Claim:
    """One side's record of a connection, with the numbers of its own and the peer's queue pair.

    A number is 0 while it is not known.
    """

    local: bytes
    peer: bytes
    service: Service
    own_qpn: int = 0
    peer_qpn: int = 0
    waiting: set[int] = field(default_factory=set)
    """Own queue pairs that programs connected to the peer's queue pair before the peer's request
    was answered.
    """
    is_inherited: bool = False
    """Whether the claim is restored from a predecessor's document; no connection of this hcad ends
    it.
    """


class Found(NamedTuple):
    """The service of the connection between two queue pairs, as ``Bindings.find`` returns it.

    ``service`` is None if there is no such connection. ``is_awaited`` is set if the peer has
    requested the connection, and this side has not answered the request yet.
    """

    service: Service | None = None
    is_awaited: bool = False


NOT_CONNECTED: Final = Found()


@dataclass(slots=True)
class _QueuePair:
    gids: tuple[bytes, ...]
    changed: Callable[[], None]
    awaits: Claim | None = None


class Bindings:
    """The queue pairs of all functions of an hcad, and the connections that they are in."""

    def __init__(self) -> None:
        self._queue_pairs: dict[int, _QueuePair] = {}
        self._by_own: dict[int, Claim] = {}
        # Keyed by the peer's queue pair, then by the own GID: the sender's address may be forged,
        # so a request to one function must not cause the rejection of another function's request.
        self._by_peer: dict[tuple[bytes, int], dict[bytes, Claim]] = {}

    def __len__(self) -> int:
        """Return the number of entries, which are counted once for each of their two queue
        pairs.
        """
        return len(self._by_own) + sum(map(len, self._by_peer.values()))

    def add_queue_pair(
        self, number: int, gids: tuple[bytes, ...], changed: Callable[[], None]
    ) -> None:
        """Add a queue pair that belongs to the HCA function whose GIDs are ``gids``.

        ``changed`` is called when ``find`` may return another result for this queue pair.
        """
        self._queue_pairs[number] = _QueuePair(gids, changed)

    def remove_queue_pair(self, number: int) -> None:
        """Remove a queue pair. Also remove every entry in which it is the local queue pair or the
        peer's.
        """
        removed = self._queue_pairs.pop(number, None)
        if removed is None:
            return
        if removed.awaits is not None:
            removed.awaits.waiting.discard(number)
        own = self._by_own.pop(number, None)
        claims = [] if own is None else [own]
        for gid in removed.gids:
            claims += self._by_peer.pop((gid, number), {}).values()
        for claim in claims:
            self._report(claim)

    def has_queue_pair(self, local: bytes, number: int) -> bool:
        """Return whether the function with this GID has a queue pair of this number."""
        queue_pair = self._queue_pairs.get(number)
        return queue_pair is not None and local in queue_pair.gids

    def check_unconnected(self, local: bytes, number: int) -> None:
        """Check that a function's queue pair exists and is in no connection.

        ``local`` is a GID of the function.

        Raises:
            OSError: EINVAL, the function has no such queue pair; EISCONN, it is in a connection.
        """
        if not self.has_queue_pair(local, number):
            raise OSError(errno.EINVAL, f"queue pair {number}: not one of this function")
        if number in self._by_own:
            raise OSError(errno.EISCONN, f"queue pair {number} is in a connection already")

    def is_peer_connected(self, local: bytes, peer: bytes, number: int) -> bool:
        """Return whether a peer's queue pair is in a connection with the function ``local``.

        ``local`` is the GID of the function, and ``peer`` the GID of the peer. ``number`` is the
        number of the peer's queue pair.
        """
        return local in self._by_peer.get((peer, number), {})

    def keeps_queue_pair(self, claim: Claim) -> bool:
        """Return whether the local queue pair of a claim still belongs to the claim.

        The result is also True while the number of this queue pair is not known.
        """
        return not claim.own_qpn or self._by_own.get(claim.own_qpn) is claim

    def update_claim(self, claim: Claim, connection: Connection) -> None:
        """Update a claim's entries after a step of its connection."""
        if connection.state not in _LIVE:
            self._end(claim)
            return
        earlier_qpns = claim.own_qpn, claim.peer_qpn
        if connection.qpn and not claim.own_qpn:
            claim.own_qpn = connection.qpn
            if self.has_queue_pair(claim.local, connection.qpn):
                self._by_own.setdefault(connection.qpn, claim)
        if connection.remote_qpn and not claim.peer_qpn:
            claim.peer_qpn = connection.remote_qpn
            claims = self._by_peer.setdefault((claim.peer, connection.remote_qpn), {})
            claims.setdefault(claim.local, claim)
        if earlier_qpns != (claim.own_qpn, claim.peer_qpn):
            self._report(claim)

    def find(
        self, number: int, local: bytes, peer: bytes, peer_qpn: int, *, inherited: bool = True
    ) -> Found:
        """Return the service of the connection between a local queue pair and a peer's queue pair.

        ``number`` is the local queue pair, and ``local`` the GID of its function. ``peer_qpn``
        is the peer's queue pair, and ``peer`` the GID of the peer's function.

        An entry that a predecessor made counts only if ``inherited`` is set.
        """
        own = self._queue_pairs.get(number)
        if own is None:
            return NOT_CONNECTED
        if own.awaits is not None:
            own.awaits.waiting.discard(number)
            own.awaits = None
        claim = self._by_peer.get((peer, peer_qpn), {}).get(local)
        if claim is None or local not in own.gids:
            return NOT_CONNECTED
        if claim.is_inherited and not inherited:
            return NOT_CONNECTED
        if not claim.own_qpn:
            claim.waiting.add(number)
            own.awaits = claim
            return Found(is_awaited=True)
        return Found(claim.service) if self._by_own.get(number) is claim else NOT_CONNECTED

    def inherit(
        self, number: int, local: bytes, peer: bytes, peer_qpn: int, service: Service
    ) -> None:
        """Add the entry for a connection that a predecessor has made.

        ``number`` is the local queue pair, and ``peer_qpn`` the peer's. ``service`` is the service
        of the connection.
        """
        if not self.has_queue_pair(local, number) or number in self._by_own:
            return
        if self.is_peer_connected(local, peer, peer_qpn):
            return
        claim = Claim(local, peer, service, number, peer_qpn, is_inherited=True)
        self._by_own[number] = claim
        self._by_peer.setdefault((peer, peer_qpn), {})[local] = claim

    def end_inherited(self, number: int) -> None:
        """Remove a queue pair's entry if ``inherit`` has added the entry.

        Call this when the queue pair has been connected to a peer again.
        """
        claim = self._by_own.get(number)
        if claim is not None and claim.is_inherited:
            self._end(claim)

    def _end(self, claim: Claim) -> None:
        has_entry = self._by_own.get(claim.own_qpn) is claim
        if has_entry:
            del self._by_own[claim.own_qpn]
        key = claim.peer, claim.peer_qpn
        claims = self._by_peer.get(key, {})
        if claims.get(claim.local) is claim:
            has_entry = True
            del claims[claim.local]
            if not claims:
                del self._by_peer[key]
        if has_entry:
            self._report(claim)

    def _report(self, claim: Claim) -> None:
        """Notify the own queue pairs of a claim that ``find`` may return another result for
        them.
        """
        for number in (claim.own_qpn, *sorted(claim.waiting)):
            queue_pair = self._queue_pairs.get(number)
            if queue_pair is not None:
                queue_pair.changed()
