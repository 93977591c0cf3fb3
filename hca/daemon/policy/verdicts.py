"""Verdicts on queue pairs with a peer, on address handles and on raw packet queue pairs."""

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
from vgpu_sim.records import dataclass

End = EngineQp | EngineAh


class FlowEvaluator(Protocol):
    """Evaluates flows against one generation of tables."""

    def evaluate(self, flow: Flow) -> Verdict:
        """Return the verdict that the evaluator's tables give on a flow."""


@dataclass(frozen=True, slots=True)
class SwitchResult:
    """The result of replacing the tables of a node.

    ``revoked`` is the number of queue pairs that the engine put into ERR.
    """

    generation: int
    revoked: int
    narrowed: int
    """The number of queue pairs that keep their peer but with fewer rights."""


@dataclass(frozen=True, slots=True)
class ConnectionVerdict:
    """The verdict on a connection between this end and its peer.

    ``sends`` are the verbs that this end may request of its peer, and ``receives`` the verbs
    that the peer may request of this end. ``rows`` count these requests.
    """

    pkey: int = 0
    sends: Verb = NONE
    receives: Verb = NONE
    rows: tuple[Row, ...] = ()
    qos_class: int = 0
    device_only: int = 0

    def to_policy_change(self, end: "End", generation: int, *, is_path: bool) -> HcaPolicyChange:
        """Return the policy change that sets this verdict in the engine.

        The change applies to the queue pair ``end``. If ``is_path`` is set, ``end`` is an
        address handle instead, and the change applies to that address handle.
        """
        out, in_ = (row.engine for row in self.rows) if self.rows else (0, 0)
        return HcaPolicyChange(
            0 if is_path else end,
            out,
            in_,
            generation,
            self.sends,
            self.receives,
            int(not self.sends and not self.receives),
            self.pkey,
            end if is_path else 0,
            qos_class=self.qos_class,
            device_only=self.device_only,
        )


@dataclass(slots=True)
class Connection:
    """A queue pair and the peer that its program requested, with the verdict on their
    connection.
    """

    party: Party
    requested: tuple[bytes, int, int, int, int]
    """The peer's GID and queue pair, the own queue pair, the P_Key's index and the traffic
    class.
    """
    service: Service | None = None
    verdict: ConnectionVerdict = ConnectionVerdict()
    is_path: bool = False
    """Whether this is an address handle: its peer is an address, and denied datagrams are dropped
    silently.
    """
    is_awaited: bool = False
    """Whether the peer has not answered the connection manager's request yet."""
    is_raw: bool = False
    """Whether this is a raw packet queue pair: it has no peer, because its program writes whole
    frames.
    """


def requested_peer(own_qpn: int, attributes: HcaQpAttributes) -> tuple[bytes, int, int, int, int]:
    """Return the peer that a program requested, in the form of ``Connection.requested``."""
    peer = bytes(attributes.dgid), attributes.dest_qpn
    return *peer, own_qpn, attributes.pkey_index, attributes.traffic_class


def denial_of(connection: Connection, verdict: ConnectionVerdict) -> Denial:
    """Return the denial record of a connection that policy refuses or revokes."""
    if verdict.rows:
        return verdict.rows[0].denial(CONNECT)
    party, peer = connection.party, connection.requested[0].hex(":", 2)
    reasons = ("the tables do not contain one of the two addresses",)
    if connection.is_raw:
        peer, reasons = "", ("a pod that a policy isolates may not use raw frames",)
    own = party.addresses[0]
    return Denial(party.function, own, party.owner, peer, "", CONNECT, (), reasons)


def evaluate_raw(identity: Identity | None, pkey: int) -> ConnectionVerdict:
    """Return the verdict on raw frames, which a program writes itself.

    The verdict depends only on the pod's isolation. It does not depend on rules, because rules
    name peers and verbs, and a raw frame can forge both. So a pod with isolated egress may send
    no frame, and a pod with isolated ingress may receive none. If ``identity`` is None, the
    tables do not contain the pod.
    """
    if identity is None:
        return ConnectionVerdict()
    egress, ingress = identity.egress, identity.ingress
    sends = NONE if egress is not None and egress.enforced else ALL
    receives = NONE if ingress is not None and ingress.enforced else ALL
    return ConnectionVerdict(pkey, sends, receives)
