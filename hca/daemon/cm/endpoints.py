"""Functions as the connection manager sees them, and endpoints, each of which is one side of a
connection.
"""

from dataclasses import field
from typing import Protocol

from hca.contract.hca import HCA_MAX_MTU
from hca.daemon.cm.bindings import Claim
from hca.daemon.cm.connection import Connection, Outcome
from hca.daemon.cm.messages import Message, Req, SidrReq
from vgpu_sim.records import dataclass


class Owner(Protocol):
    """The owner of one side of a connection."""

    def handle_outcome(self, outcome: Outcome, message: Message | None) -> None:
        """Process an event of the connection that this object owns."""


class Listener(Protocol):
    """The listener for a service id."""

    def handle_request(self, endpoint: "Endpoint", request: Req | SidrReq) -> bool:
        """Accept a request and become the owner of its endpoint; return False if the backlog is
        full.
        """


@dataclass(slots=True, eq=False)
class Function:
    """A member of the fabric: its GIDs, the services of its programs and the ports in use."""

    gids: tuple[bytes, ...]
    mtu: int = HCA_MAX_MTU
    """The largest ibv_mtu of the function's paths."""
    clients: int = 0
    listeners: dict[int, Listener] = field(default_factory=dict)
    ports: dict[tuple[int, int], list[bool]] = field(default_factory=dict)
    """The holders of each port in use, by port space and port; an entry is whether the holder
    shares it.
    """

    @property
    def gid(self) -> bytes:
        """Return the function's last GID, which connections use unless they name another."""
        return self.gids[-1]


@dataclass(slots=True, eq=False)
class Endpoint:
    """The side of a connection that belongs to a function of this hcad."""

    connection: Connection
    local: bytes
    peer: bytes
    service: int
    is_server: bool
    claim: Claim
    owner: Owner | None = None
    awaited: float | None = None
    """The time at which the manager next checks the deadline. The deadline may have been postponed
    by then.
    """
