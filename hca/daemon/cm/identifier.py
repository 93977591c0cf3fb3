"""A communication id as hcad has it: its address, its port, and its connection."""

import ctypes
import errno
import os
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from hca.contract.cm import CmPortSpace, CmRoute
from hca.daemon.cm.connection import Told
from hca.daemon.cm.endpoints import Endpoint, Function
from hca.daemon.cm.event_channel import Channel
from hca.daemon.cm.messages import Message, Req, SidrReq


class IdState(Enum):
    """What an id was made into."""

    NEW = "new"
    BOUND = "bound"
    RESOLVED = "address resolved"
    ROUTED = "route resolved"
    LISTENING = "listening"
    CONNECTING = "connecting, or more"


class Client(Protocol):
    """Whose id it is."""

    function: Function

    def asked(self, listener: "CmId", endpoint: Endpoint, request: Req | SidrReq) -> bool:
        """Take a request to a listener."""

    def told(self, one: "CmId", told: Told, message: Message | None) -> None:
        """Learn what became of a connection."""


@dataclass(slots=True, eq=False)
class CmId:
    """An id. ``anywhere``: its destination means whoever of the fabric serves the port."""

    handle: int
    client: Client
    channel: Channel
    port_space: int
    gid: bytes
    """Which of its function's its connection uses."""
    state: IdState = IdState.NEW
    source: bytes = bytes(16)
    port: int = 0
    holds_port: bool = False
    shares_port: bool = False
    destination: bytes = bytes(16)
    destination_port: int = 0
    anywhere: bool = False
    peer: bytes = bytes(16)
    psn: int = 0
    request: Req | SidrReq | None = None
    endpoint: Endpoint | None = None
    listener: "CmId | None" = None
    backlog: int = 0
    waiting: int = 0
    """Requests to this listener that were not answered yet."""
    settled: bool = False
    qpn: int = 0
    """The queue pair that hcad sets to the peer when that accepts; 0: its program does."""

    @property
    def is_datagrams(self) -> bool:
        """Tell whether it is for unreliable datagrams."""
        return self.port_space == CmPortSpace.UDP

    @property
    def service(self) -> int:
        """Return the service id of its own port."""
        return self.port_space << 16 | self.port

    def asked(self, endpoint: Endpoint, request: Req | SidrReq) -> bool:
        """Take a request, as a listener."""
        return self.client.asked(self, endpoint, request)

    def told(self, told: Told, message: Message | None) -> None:
        """Learn what became of the connection."""
        self.client.told(self, told, message)

    def settle(self) -> None:
        """Make room among its listener's waiting requests, once."""
        if self.listener is not None and not self.settled:
            self.listener.waiting -= 1
        self.settled = True

    def unlisten(self) -> None:
        """Serve no more."""
        if self.state is IdState.LISTENING:
            del self.client.function.listeners[self.service]
            self.state = IdState.BOUND

    def take_port(self, port: int, reuse: bool) -> None:
        """Hold a port. Raises OSError."""
        holders = self.client.function.ports.setdefault((self.port_space, port), [])
        if holders and not (reuse and all(holders)):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        holders.append(reuse)
        self.port, self.holds_port, self.shares_port = port, True, reuse

    def release_port(self) -> None:
        """Let others have the port."""
        if not self.holds_port:
            return
        key = (self.port_space, self.port)
        self.client.function.ports[key].remove(self.shares_port)
        if not self.client.function.ports[key]:
            del self.client.function.ports[key]
        self.holds_port = False

    def route(self) -> CmRoute:
        """Return its addresses; of what is bound to any the one that it uses."""
        any_address = self.source == bytes(16)
        bound = self.state not in (IdState.NEW, IdState.BOUND, IdState.LISTENING)
        route = CmRoute(has_device=not any_address or bound)
        source = self.gid if any_address and bound else self.source
        ctypes.memmove(route.source.address, source, 16)
        ctypes.memmove(route.destination.address, self.destination, 16)
        route.source.port, route.destination.port = self.port, self.destination_port
        return route
