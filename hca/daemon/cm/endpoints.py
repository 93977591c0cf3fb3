"""What the connection manager knows of its functions, and of each side of a connection."""

from dataclasses import dataclass, field
from typing import Protocol

from hca.contract.hca import HCA_MAX_MTU
from hca.daemon.cm.bindings import Claim
from hca.daemon.cm.connection import Connection, Told
from hca.daemon.cm.messages import Message, Req, SidrReq


class Owner(Protocol):
    """Whose connection it is."""

    def told(self, told: Told, message: Message | None) -> None:
        """Learn what became of the connection."""


class Listener(Protocol):
    """Who serves a service id."""

    def asked(self, endpoint: "Endpoint", request: Req | SidrReq) -> bool:
        """Take a request, set the endpoint's owner, and say so; False: too many wait."""


@dataclass(slots=True, eq=False)
class Function:
    """A member of the fabric: its GIDs, and who of its programs serves what."""

    gids: tuple[bytes, ...]
    mtu: int = HCA_MAX_MTU
    """The largest ibv_mtu of its paths."""
    clients: int = 0
    listeners: dict[int, Listener] = field(default_factory=dict)
    ports: dict[tuple[int, int], list[bool]] = field(default_factory=dict)
    """Ports that are taken, by space and number; for each holder whether it shares."""

    @property
    def gid(self) -> bytes:
        """Return the one that its connections use unless another is called for: the last."""
        return self.gids[-1]


@dataclass(slots=True, eq=False)
class Endpoint:
    """One side of a connection in this hcad."""

    connection: Connection
    local: bytes
    peer: bytes
    service: int
    is_server: bool
    claim: Claim
    owner: Owner | None = None
    awaited: float | None = None
    """When it is looked at next; its deadline may be later by then."""
