"""A communication id in hcad: its address, its port and its connection."""

import ctypes
import errno
import os
from enum import Enum
from typing import Protocol

from hca.contract.cm import CmPortSpace, CmRoute
from hca.daemon.cm.connection import Outcome
from hca.daemon.cm.endpoints import Endpoint, Function
from hca.daemon.cm.event_channel import Channel
from hca.daemon.cm.messages import Message, Req, SidrReq
from vgpu_sim.records import dataclass


class IdState(Enum):
    """The state of a communication id."""

    NEW = "new"
    BOUND = "bound"
    RESOLVED = "address resolved"
    ROUTED = "route resolved"
    LISTENING = "listening"
    CONNECTING = "connecting, or more"


class Client(Protocol):
    """The client that owns a communication id."""

    function: Function

    def handle_request(self, listener: "CmId", endpoint: Endpoint, request: Req | SidrReq) -> bool:
        """Process a connection request to a listener of the client; return False to refuse the
        request.
        """

    def handle_outcome(self, cm_id: "CmId", outcome: Outcome, message: Message | None) -> None:
        """Process an event of an id's connection."""


@dataclass(slots=True, eq=False)
class CmId:
    """A communication id of a client.

    If ``anywhere`` is set, the destination address does not identify one function. The id then
    connects to the client's own function or, on a shared loopback, to any function of the fabric
    that serves the port.
    """

    handle: int
    client: Client
    channel: Channel
    port_space: int
    gid: bytes
    """The GID of the client's function that the id's connection uses."""
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
    """The number of requests to this listener that have not been answered yet."""
    settled: bool = False
    qpn: int = 0
    """The number of the queue pair that hcad connects when the peer accepts; 0: the client's
    program connects it.
    """

    @property
    def is_datagrams(self) -> bool:
        """Return whether the id is for unreliable datagrams, not for a connection."""
        return self.port_space == CmPortSpace.UDP

    @property
    def service(self) -> int:
        """Return the RDMA-CM service id that stands for this id's source port and port space."""
        return self.port_space << 16 | self.port

    def handle_request(self, endpoint: Endpoint, request: Req | SidrReq) -> bool:
        """Pass a connection request for this listening id to the id's client."""
        return self.client.handle_request(self, endpoint, request)

    def handle_outcome(self, outcome: Outcome, message: Message | None) -> None:
        """Pass an event of the id's connection to the client."""
        self.client.handle_outcome(self, outcome, message)

    def leave_backlog(self) -> None:
        """Free the id's place in its listener's backlog; further calls have no effect."""
        if self.listener is not None and not self.settled:
            self.listener.waiting -= 1
        self.settled = True

    def unlisten(self) -> None:
        """Stop listening on the id's port."""
        if self.state is IdState.LISTENING:
            del self.client.function.listeners[self.service]
            self.state = IdState.BOUND

    def take_port(self, port: int, reuse: bool) -> None:
        """Reserve a port for the id. Raises OSError."""
        holders = self.client.function.ports.setdefault((self.port_space, port), [])
        if holders and not (reuse and all(holders)):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        holders.append(reuse)
        self.port, self.holds_port, self.shares_port = port, True, reuse

    def release_port(self) -> None:
        """Release the id's port."""
        if not self.holds_port:
            return
        key = (self.port_space, self.port)
        self.client.function.ports[key].remove(self.shares_port)
        if not self.client.function.ports[key]:
            del self.client.function.ports[key]
        self.holds_port = False

    def route(self) -> CmRoute:
        """Return the id's source and destination addresses.

        If the id is bound to the wildcard address, its source is the wildcard address until its
        destination is resolved. After that, its source is the GID that the id uses.
        """
        any_address = self.source == bytes(16)
        bound = self.state not in (IdState.NEW, IdState.BOUND, IdState.LISTENING)
        route = CmRoute(has_device=not any_address or bound)
        source = self.gid if any_address and bound else self.source
        ctypes.memmove(route.source.address, source, 16)
        ctypes.memmove(route.destination.address, self.destination, 16)
        route.source.port, route.destination.port = self.port, self.destination_port
        return route
