"""What policy asks of one program's objects: which peers, and how many of each."""

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
    """Asks the enforcer on behalf of one party. Its programs share what they may have."""

    hears_all = False
    """Whether policy never has anything to say about groups."""

    def __init__(self, enforcer: Enforcer, party: Party) -> None:
        self._enforcer = enforcer
        self.party = party
        self._speaking: set[EngineAh] = set()

    def connect(
        self,
        qp: EngineQp,
        number: int,
        attributes: HcaQpAttributes,
        found: Found = NOT_CONNECTED,
        apply: Apply | None = None,
    ) -> None:
        """Let a queue pair have the peer that its attributes name. Raises OSError.

        EACCES, or what ``apply`` raises, which gives the engine the peer and its rights at once.
        """
        self._enforcer.connect(self.party, qp, number, attributes, found, apply)

    def connect_again(self, qp: EngineQp, found: Found) -> None:
        """Judge a queue pair whose connection has changed, not its peer. Raises OSError."""
        self._enforcer.connect_again(qp, found)

    def adopt_peer(
        self, qp: EngineQp, number: int, attributes: HcaQpAttributes, service: Service | None
    ) -> None:
        """Judge a queue pair that a predecessor has connected; denied, it may do nothing."""
        self._enforcer.adopt(self.party, qp, number, attributes, service)

    def connect_raw(self, qp: EngineQp) -> None:
        """Let a queue pair have frames of its own. Raises OSError (EACCES)."""
        self._enforcer.connect_raw(self.party, qp)

    def adopt_raw(self, qp: EngineQp) -> None:
        """Judge one that a predecessor has let have frames; denied, it may do nothing."""
        self._enforcer.adopt_raw(self.party, qp)

    def forget(self, qp: EngineQp) -> None:
        """A queue pair has no peer any more."""
        self._enforcer.forget(qp)

    def connect_path(self, path: EngineAh, wanted: HcaAhCreate) -> None:
        """Judge where datagrams go; what is denied goes nowhere. Raises OSError."""
        self._enforcer.connect_path(self.party, path, wanted)
        if not is_group(bytes(wanted.dgid)):
            return
        try:
            self._enforcer.audience.speak(self.party)
        except BaseException:
            self._enforcer.forget(path)
            raise
        self._speaking.add(path)

    def forget_path(self, path: EngineAh) -> None:
        """An address handle goes."""
        self._enforcer.forget(path)
        if path in self._speaking:
            self._speaking.remove(path)
            self._enforcer.audience.hush(self.party)

    @contextmanager
    def in_group(self, gid: bytes) -> Iterator[None]:
        """Judge meanwhile whom of this engine a member of a group hears. Raises OSError.

        A datagram is given to each member in one go: so a party has few in one group.
        """
        if self.party.members[gid] >= HCA_MAX_MCAST_ATTACH:
            raise OSError(errno.ENOMEM, f"{self.party.owner}: too many queue pairs in one group")
        self._enforcer.audience.enter(self.party)
        self.party.members[gid] += 1
        try:
            yield
        finally:
            self.party.members[gid] -= 1
            if not self.party.members[gid]:
                del self.party.members[gid]
            self._enforcer.audience.leave(self.party)

    def take_steer(self) -> None:
        """Count a rule for frames more; each frame is held against all. Raises OSError."""
        if self.party.steers >= HCA_MAX_STEERS:
            raise OSError(errno.ENOMEM, f"{self.party.owner}: too many rules for frames")
        self.party.steers += 1

    def give_steer(self) -> None:
        """Count a rule for frames less."""
        self.party.steers -= 1

    def pkeys(self) -> tuple[int, ...]:
        """Return the P_Key table as it is now, index 0 first."""
        if not self.party.addresses:
            return (DEFAULT_PKEY | FULL,)
        return self._enforcer.pkeys_at(self.party.addresses[0])[:HCA_PKEYS]

    def take_qp(self) -> None:
        """Count one queue pair more. Raises OSError (EDQUOT)."""
        most = self._enforcer.limits_of(self.party).queue_pairs
        if most is not None and self.party.queue_pairs >= most:
            raise OSError(errno.EDQUOT, f"{self.party.owner}: policy lets it have {most} QPs")
        self.party.queue_pairs += 1

    def give_qp(self) -> None:
        """Count one queue pair less."""
        self.party.queue_pairs -= 1

    def adopt(self, *, queue_pairs: int = 0, region_bytes: int = 0) -> None:
        """Count what a predecessor has given already, however much that is."""
        self.party.queue_pairs += queue_pairs
        self.party.region_bytes += region_bytes

    def take_bytes(self, size: int) -> None:
        """Count bytes of a memory region more. Raises OSError (EDQUOT)."""
        most = self._enforcer.limits_of(self.party).region_bytes
        if most is not None and self.party.region_bytes + size > most:
            raise OSError(errno.EDQUOT, f"{self.party.owner}: policy lets it register {most} bytes")
        self.party.region_bytes += size

    def give_bytes(self, size: int) -> None:
        """Count bytes of a memory region less."""
        self.party.region_bytes -= size


def unmanaged(engine: Engine, gids: tuple[bytes, ...]) -> Guard:
    """Return one that lets everything pass: of a program that is on no fabric."""
    made = Guard(Enforcer(engine, Parties()), Party("", "", (), gids))
    made.hears_all = True
    return made
