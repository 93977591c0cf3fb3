"""What was judged: queue pairs that have a peer, address handles, raw packet queue pairs."""

from dataclasses import dataclass
from typing import Protocol

from hca.binding.engine import EngineAh, EngineQp
from hca.contract.hca import HcaQpAttributes
from hca.contract.hca_engine import HcaPolicyChange
from hca.daemon.cm.policy import Service
from hca.daemon.policy.denials import CONNECT, Denial
from hca.daemon.policy.flows import Row
from hca.daemon.policy.parties import Party
from rdma.tables import Flow, Identity, Verdict
from rdma.verbs import ALL, NONE, Verb

End = EngineQp | EngineAh


class Judging(Protocol):
    """What answers for tables whether a flow may pass."""

    def judge(self, flow: Flow) -> Verdict:
        """Return the verdict on a flow."""


@dataclass(frozen=True, slots=True)
class Switched:
    """What a switch to other tables did: the engine enforces them, and has ended ``revoked``."""

    generation: int
    revoked: int
    narrowed: int
    """Queue pairs that stay and may do less."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What two may do: the one's requests, the other's, and who counts both."""

    pkey: int = 0
    sends: Verb = NONE
    receives: Verb = NONE
    rows: tuple[Row, ...] = ()
    qos_class: int = 0
    device_only: int = 0

    def change(self, end: "End", generation: int, *, is_path: bool) -> HcaPolicyChange:
        """Return what the engine is told of a queue pair, or of an address handle."""
        out, in_ = (row.engine for row in self.rows) if self.rows else (0, 0)
        return HcaPolicyChange(
            *(0 if is_path else end, out, in_, generation, self.sends, self.receives),
            *(int(not self.sends and not self.receives), self.pkey, end if is_path else 0),
            qos_class=self.qos_class,
            device_only=self.device_only,
        )


@dataclass(slots=True)
class Connection:
    """A queue pair that has a peer, as its program asked for it, and what it may do."""

    party: Party
    asked: tuple[bytes, int, int, int, int]
    """The peer's GID and queue pair, its own, the P_Key's index, the traffic class."""
    service: Service | None = None
    judgement: Judgement = Judgement()
    is_path: bool = False
    """It is an address handle: its peer is an address, and datagrams that are denied vanish."""
    is_awaited: bool = False
    """Its peer's request to the connection manager has not been answered yet."""
    is_raw: bool = False
    """It has frames of its own, for whoever wants them: it has no peer."""


def asked_of(own_qpn: int, attributes: HcaQpAttributes) -> tuple[bytes, int, int, int, int]:
    """Return what a program asks for: ``Connection.asked``."""
    peer = bytes(attributes.dgid), attributes.dest_qpn
    return *peer, own_qpn, attributes.pkey_index, attributes.traffic_class


def denial_of(connection: Connection, judgement: Judgement) -> Denial:
    """Return the record that a function is refused its peer, or has it no longer."""
    if judgement.rows:
        return judgement.rows[0].denial(CONNECT)
    party, peer = connection.party, connection.asked[0].hex(":", 2)
    reasons = ("tables do not say who one of them is",)
    if connection.is_raw:
        peer, reasons = "", ("whom a policy isolates has no frames of its own",)
    own = party.addresses[0]
    return Denial(party.function, own, party.owner, peer, "", CONNECT, (), reasons)


def judge_raw(identity: Identity | None, pkey: int) -> Judgement:
    """Judge frames that a program writes itself: of them only the pod's isolation can say anything.

    Rules are of peers and verbs, which a frame does not say truly: whom a policy isolates may not
    send any, or get any. ``identity`` None: nobody that tables know.
    """
    if identity is None:
        return Judgement()
    egress, ingress = identity.egress, identity.ingress
    sends = NONE if egress is not None and egress.enforced else ALL
    receives = NONE if ingress is not None and ingress.enforced else ALL
    return Judgement(pkey, sends, receives)
