"""Policy checks for one program's objects: which peers are permitted, and how many objects."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from hca.binding.addresses import is_group
from hca.binding.engine import Engine, EngineAh, EngineQp
from hca.contract.hca import HCA_MAX_MCAST_ATTACH, HCA_PKEYS, HcaQpAttributes
from hca.contract.hca_frames import HCA_MAX_STEERS
from hca.contract.hca_objects import HcaAhCreate
from hca.daemon.cm.bindings import NOT_CONNECTED, Found
from hca.daemon.cm.policy import Service
from hca.daemon.policy.enforcement import Apply, Enforcer
from hca.daemon.policy.parties import Parties, Party
from rdma.tables import DEFAULT_PKEY, FULL


class Guard:
    """Checks policy on behalf of one party, whose programs share the party's limits."""

    receives_all = False
    """Whether group members receive from every sender; true only where no policy applies."""

    def __init__(self, enforcer: Enforcer, party: Party) -> None:
        self._enforcer = enforcer
        self.party = party
        self._speaking: set[EngineAh] = set()

    def authorize_peer(
        self,
        qp: EngineQp,
        number: int,
        attributes: HcaQpAttributes,
        service_match: Found = NOT_CONNECTED,
        apply: Apply | None = None,
    ) -> None:
        """Evaluate policy for the peer in a queue pair's new attributes.

        ``apply`` sets the peer and the peer's rights in the engine in one step. Raises OSError:
        EACCES if policy denies the peer, or any error that ``apply`` raises.
        """
        self._enforcer.authorize_peer(self.party, qp, number, attributes, service_match, apply)

    def reauthorize_peer(self, qp: EngineQp, service_match: Found) -> None:
        """Evaluate policy again for a queue pair that has the same peer but a changed connection.

        Raises OSError.
        """
        self._enforcer.reauthorize_peer(qp, service_match)

    def adopt_peer(
        self, qp: EngineQp, number: int, attributes: HcaQpAttributes, service: Service | None
    ) -> None:
        """Evaluate policy for a queue pair that a predecessor has connected.

        A denied queue pair has no rights.
        """
        self._enforcer.adopt(self.party, qp, number, attributes, service)

    def authorize_raw(self, qp: EngineQp) -> None:
        """Evaluate policy for a raw packet queue pair. Raises OSError (EACCES)."""
        self._enforcer.authorize_raw(self.party, qp)

    def adopt_raw(self, qp: EngineQp) -> None:
        """Evaluate policy for a predecessor's raw packet queue pair.

        A denied queue pair gets no rights.
        """
        self._enforcer.adopt_raw(self.party, qp)

    def forget(self, qp: EngineQp) -> None:
        """Forget a queue pair's peer and the verdict on it."""
        self._enforcer.forget(qp)

    def authorize_path(self, path: EngineAh, request: HcaAhCreate) -> None:
        """Evaluate policy for an address handle's peer; the engine drops denied datagrams.

        Raises OSError.
        """
        self._enforcer.authorize_path(self.party, path, request)
        if not is_group(bytes(request.dgid)):
            return
        try:
            self._enforcer.group_pairs.add_sender(self.party)
        except BaseException:
            self._enforcer.forget(path)
            raise
        self._speaking.add(path)

    def forget_path(self, path: EngineAh) -> None:
        """Forget the verdict for an address handle that is being destroyed."""
        self._enforcer.forget(path)
        if path in self._speaking:
            self._speaking.remove(path)
            self._enforcer.group_pairs.remove_sender(self.party)

    @contextmanager
    def as_group_member(self, gid: bytes) -> Iterator[None]:
        """Make the party a member of a multicast group for the duration of the context. Raises
        OSError.

        The engine delivers a datagram to all members in one step, so the number of a party's
        queue pairs in one group is limited.
        """
        if self.party.members[gid] >= HCA_MAX_MCAST_ATTACH:
            raise OSError(errno.ENOMEM, f"{self.party.owner}: too many queue pairs in one group")
        self._enforcer.group_pairs.add_member(self.party)
        self.party.members[gid] += 1
        try:
            yield
        finally:
            self.party.members[gid] -= 1
            if not self.party.members[gid]:
                del self.party.members[gid]
            self._enforcer.group_pairs.remove_member(self.party)

    def charge_steering_rule(self) -> None:
        """Add one to the number of the party's steering rules.

        The number is limited, because the engine compares each frame with all rules. Raises OSError
        if the party already has the maximum number.
        """
        if self.party.steers >= HCA_MAX_STEERS:
            raise OSError(errno.ENOMEM, f"{self.party.owner}: too many rules for frames")
        self.party.steers += 1

    def release_steering_rule(self) -> None:
        """Subtract one from the number of the party's steering rules."""
        self.party.steers -= 1

    def pkeys(self) -> tuple[int, ...]:
        """Return the party's current P_Key table, index 0 first."""
        if not self.party.addresses:
            return (DEFAULT_PKEY | FULL,)
        return self._enforcer.pkeys_at(self.party.addresses[0])[:HCA_PKEYS]

    def charge_qp(self) -> None:
        """Add one to the number of the party's queue pairs.

        Raises OSError (EDQUOT) if the party already has as many as its limit permits.
        """
        limit = self._enforcer.limits_of(self.party).queue_pairs
        if limit is not None and self.party.queue_pairs >= limit:
            raise OSError(errno.EDQUOT, f"{self.party.owner}: policy allows it {limit} queue pairs")
        self.party.queue_pairs += 1

    def release_qp(self) -> None:
        """Subtract one from the number of the party's queue pairs."""
        self.party.queue_pairs -= 1

    def charge_adopted(self, *, queue_pairs: int = 0, region_bytes: int = 0) -> None:
        """Charge the party for objects that a predecessor granted, even if this exceeds its
        limits.
        """
        self.party.queue_pairs += queue_pairs
        self.party.region_bytes += region_bytes

    def charge_bytes(self, size: int) -> None:
        """Charge the party for ``size`` bytes of memory regions.

        Raises OSError (EDQUOT) if this would exceed the party's limit.
        """
        limit_bytes = self._enforcer.limits_of(self.party).region_bytes
        if limit_bytes is not None and self.party.region_bytes + size > limit_bytes:
            raise OSError(
                errno.EDQUOT,
                f"{self.party.owner}: policy allows it to register {limit_bytes} bytes",
            )
        self.party.region_bytes += size

    def release_bytes(self, size: int) -> None:
        """Release ``size`` bytes of memory regions that the party was charged for."""
        self.party.region_bytes -= size


def new_unrestricted_guard(engine: Engine, gids: tuple[bytes, ...]) -> Guard:
    """Return a guard that permits everything, for a program that is not on a fabric."""
    guard = Guard(Enforcer(engine, Parties()), Party("", "", (), gids))
    guard.receives_all = True
    return guard
