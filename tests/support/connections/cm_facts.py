"""Facts for a model of the connection manager: actors, policies, and connections as programs see
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hca.contract.cm import CmPortSpace
from hca.daemon.cm.messages import Req
from hca.daemon.common.numbers import Numbers
from rdma.evaluator import Evaluator
from rdma.tables import Flow, NodeTables, Verdict
from support.rigs import rdma_lab
from support.rigs.hca_rig import Qp

VICTIM = "victim"
"""The actor that policies select."""
STRANGER = "stranger"
"""An actor on another node, whose messages come over a wire."""
SPACE = CmPortSpace.TCP << 16
ALLOWED, OTHER = 7000, 8000
"""Services; the policies' rule permits WRITE by the first."""
BY_SERVICE = {"ports": [{"serviceID": ALLOWED}]}
SERVERS = {"app": "server"}
POLICIES: Mapping[str, Mapping[str, Any]] = {
    "a verb, and the host's memory": rdma_lab.policy(
        SERVERS,
        ingress=[
            rdma_lab.allow("Read"),
            rdma_lab.allow("Write", memory={"scope": "Named", "regions": ["device"]}),
            rdma_lab.allow("Write", "AtomicCAS", **BY_SERVICE),
        ],
    ),
    "everything": rdma_lab.policy(
        SERVERS,
        policyTypes=["Ingress", "Egress"],
        ingress=[rdma_lab.allow("Write", "AtomicCAS", **BY_SERVICE)],
    ),
}
"""Policies that permit WRITE and atomics by the service. Otherwise the first permits READ, and
WRITE to GPU memory; the second permits nothing.
"""
Action = tuple[Any, ...]
Pair = Qp | tuple[str, int]
"""A queue pair: its object, or the stranger's name and a number."""


class Breach(AssertionError):
    """A state in which the engine's rights differ from what the rule permits for the actual
    connection.
    """


class Remembering(Evaluator):
    """A policy evaluator that computes each verdict once, because replays repeat the same flows."""

    def __init__(self, tables: NodeTables) -> None:
        super().__init__(tables)
        self._known: dict[Flow, Verdict] = {}

    def evaluate(self, flow: Flow) -> Verdict:
        """Return the verdict on a flow."""
        if flow not in self._known:
            self._known[flow] = super().evaluate(flow)
        return self._known[flow]


class ChosenNumbers(Numbers):
    """Allocates queue pair numbers that a test chooses, so that numbers are reused."""

    next = 0

    def new_qpn(self) -> int:
        """Return the number that the test has chosen."""
        self.adopt_qpn(self.next)
        return self.next


@dataclass(eq=False)
class Attempt:
    """A connection as its programs have observed it. Index 0 is the requester's side, 1 the
    listener's.
    """

    asker: str
    server: str
    service: int
    handles: list[int]
    pairs: list[Pair | None]
    """The queue pair objects that the sides named; None: a number that does not belong to the
    side.
    """
    named: list[int]
    joined: list[bool] = field(default_factory=lambda: [False, False])
    """Whether a side knows the other's number: the server has answered, the requester has the
    answer.
    """
    over: list[bool] = field(default_factory=lambda: [False, False])
    numbers: list[int] = field(default_factory=lambda: [0, 0])
    """The communication ids of both sides in messages."""
    request: Req | None = None
    """The REQ of a stranger's connection."""

    def side(self, place: int) -> str:
        """Return the name of the actor on a side."""
        return self.server if place else self.asker
