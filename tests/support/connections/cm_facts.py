"""What a model of the connection manager starts from, and what its programs see of a connection."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hca.contract.cm import CmPortSpace
from hca.daemon.cm.messages import Req
from hca.daemon.common.numbers import Numbers
from rdma.judge import Judge
from rdma.tables import Flow, NodeTables, Verdict
from support.rigs import rdma_lab
from support.rigs.hca_rig import Qp

VICTIM = "victim"
"""The actor that policies select."""
STRANGER = "stranger"
"""An actor on another node, whose messages come over a wire."""
SPACE = CmPortSpace.TCP << 16
ALLOWED, OTHER = 7000, 8000
"""Services: a rule allows WRITE by the first."""
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
"""What the service opens. Without it nothing, or READ, and WRITE to a GPU's memory."""
Action = tuple[Any, ...]
Pair = Qp | tuple[str, int]
"""A queue pair: the object, or a number of the stranger's."""


class Breach(AssertionError):
    """A state in which a mask is not what a rule over the actual connection says."""


class Remembering(Judge):
    """A judge that answers each question once: a replay asks the same again."""

    def __init__(self, tables: NodeTables) -> None:
        super().__init__(tables)
        self._known: dict[Flow, Verdict] = {}

    def judge(self, flow: Flow) -> Verdict:
        """Return the verdict on a flow."""
        if flow not in self._known:
            self._known[flow] = super().judge(flow)
        return self._known[flow]


class ChosenNumbers(Numbers):
    """Numbers of queue pairs that a test chooses, so that they are used again."""

    next = 0

    def new_qpn(self) -> int:
        """Return the number that the test has chosen."""
        self.adopt_qpn(self.next)
        return self.next


@dataclass(eq=False)
class Attempt:
    """A connection as its programs have seen it. Sides: 0 asks, 1 serves."""

    asker: str
    server: str
    service: int
    handles: list[int]
    pairs: list[Pair | None]
    """The queue pair objects that both sides have named; None: a number that is not theirs."""
    named: list[int]
    joined: list[bool] = field(default_factory=lambda: [False, False])
    """Whether a side has the other's number: its answer was sent, or has come."""
    over: list[bool] = field(default_factory=lambda: [False, False])
    numbers: list[int] = field(default_factory=lambda: [0, 0])
    """What messages call both sides."""
    request: Req | None = None
    """The stranger's."""

    def side(self, place: int) -> str:
        """Return the name of the actor of a side."""
        return self.server if place else self.asker
