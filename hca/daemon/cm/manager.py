"""The connection manager of a fabric or node, which passes messages to endpoints and listeners.

The manager finds functions by GID and listeners by service id. It finds connections by a random
number, which the peer must name in messages from the connection's GID. Messages between
functions of this hcad are passed as values; ``wire`` sends all others.
"""

import heapq
import itertools
import secrets
from collections.abc import Callable
from typing import Final

from hca.contract.hca import HCA_MAX_MTU
from hca.daemon.cm import connection as cm, private_data
from hca.daemon.cm.bindings import Bindings, Claim
from hca.daemon.cm.connection import State, Step
from hca.daemon.cm.endpoints import Endpoint, Function, Owner
from hca.daemon.cm.messages import (
    Drep,
    Dreq,
    Message,
    Reason,
    Rej,
    Rejected,
    Rep,
    Req,
    SidrRep,
    SidrReq,
    SidrStatus,
    timeout_to_seconds,
)
from hca.daemon.cm.policy import MayConnect, Refusal, allow_all, service_of

_SPARE_DEADLINES: Final = 64

Wire = Callable[[bytes, bytes, Message], None]
"""A function that sends a message from a GID to a GID that is not in this hcad."""


_Key = tuple[bytes, bytes, type, int]


class Manager:
    """The connection manager for all functions of an hcad."""

    def __init__(
        self,
        clock: Callable[[], float],
        defer: Callable[[Callable[[], None]], object],
        wake: Callable[[float], None],
        may_connect: MayConnect = allow_all,
        wire: Wire | None = None,
    ) -> None:
        """Make a connection manager without functions.

        ``defer`` calls a function soon. ``wake`` must cause a call of ``tick`` at a time of
        ``clock``.
        """
        self._clock = clock
        self._defer = defer
        self._wake = wake
        self.may_connect = may_connect
        self.wire = wire
        self.reaches: Callable[[bytes, bytes], bool] = lambda *_: True
        """Returns whether ``wire`` leads from one GID to another."""
        self._functions: dict[bytes, Function] = {}
        self._endpoints: dict[int, Endpoint] = {}
        self._responders: dict[_Key, Endpoint] = {}
        """Endpoints of responders, keyed by both GIDs and by the request's type and number."""
        self.bindings = Bindings()
        self._deadlines: list[tuple[float, int, Endpoint]] = []
        self._order = itertools.count()

    def add_client(self, gids: tuple[bytes, ...], mtu: int = HCA_MAX_MTU) -> Function:
        """Return the function with these GIDs, and count one more client of it.

        The function exists until all of its clients have left.
        """
        function = self._functions.get(gids[-1])
        if function is None:
            function = Function(gids, mtu)
            for gid in gids:
                self._functions[gid] = function
        function.clients += 1
        return function

    def remove_client(self, function: Function) -> None:
        """Count one fewer client of a function; a function without clients is removed.

        The caller must have removed the client's ids.
        """
        function.clients -= 1
        if not function.clients:
            for gid in function.gids:
                del self._functions[gid]

    def function_at(self, gid: bytes) -> Function | None:
        """Return the function on this node that has a GID, or None."""
        return self._functions.get(gid)

    def has_path(self, source: bytes, destination: bytes) -> bool:
        """Return whether a message can be sent from a function of this node to an address."""
        if destination in self._functions:
            return True
        return self.wire is not None and self.reaches(source, destination)

    def source_towards(self, function: Function, destination: bytes) -> bytes:
        """Return the GID from which a function connects to an address.

        The candidates are those GIDs of the function that are of the same address family as the
        address and have a path to it. The result is the last candidate. If there is no
        candidate, the result is the function's last GID.
        """
        mapped = private_data.is_mapped(destination)
        for gid in reversed(function.gids):
            if private_data.is_mapped(gid) == mapped and self.has_path(gid, destination):
                return gid
        return function.gid

    def mtu_of(self, function: Function, peer: bytes) -> int:
        """Return the ibv_mtu of the path from a function to a peer: the smaller of their MTUs.

        The MTU of a peer on another node is not known; the result is then the function's MTU.
        """
        peer_function = self._functions.get(peer)
        return function.mtu if peer_function is None else min(function.mtu, peer_function.mtu)

    def server_of(self, service: int, first: Function) -> Function:
        """Return the function that serves a service, or ``first`` if no function serves it.

        If several functions serve the service, the result is ``first`` if it is one of them,
        else the one with the lowest GID.
        """
        if service in first.listeners:
            return first
        serving = [
            function for function in self._functions.values() if service in function.listeners
        ]
        return min(serving, key=lambda function: function.gid, default=first)

    def new_number(self) -> int:
        """Return an unpredictable 32-bit number for a new connection."""
        while True:
            number = 1 + secrets.randbelow(0xFFFFFFFF)
            if number not in self._endpoints:
                return number

    def request(self, local: bytes, peer: bytes, request: Req | SidrReq, owner: Owner) -> Endpoint:
        """Request a connection between two GIDs, and return its endpoint.

        ``request`` contains a number from ``new_number``.
        """
        current_time = self._clock()
        if isinstance(request, Req):
            step = cm.request(request, current_time)
        else:
            step = cm.resolve_service(request, current_time, timeout_to_seconds(20), 15)
        claim = Claim(local, peer, service_of(request.service))
        endpoint = Endpoint(step.connection, local, peer, request.service, False, claim, owner)
        self._endpoints[step.connection.local_id] = endpoint
        assert step.connection.deadline is not None
        self._arm(endpoint, step.connection.deadline)
        self.apply(endpoint, step)
        return endpoint

    def apply(self, endpoint: Endpoint, step: Step) -> None:
        """Apply a step to an endpoint: set the deadline, send the message, report the outcome to
        the owner.
        """
        old_connection, new_connection = endpoint.connection, step.connection
        endpoint.connection = new_connection
        if (
            new_connection.deadline is not None
            and new_connection.deadline != old_connection.deadline
        ):
            self._arm(endpoint, new_connection.deadline)
        self.bindings.update_claim(endpoint.claim, new_connection)
        if step.send is not None:
            self._send(endpoint.local, endpoint.peer, step.send)
        if new_connection.state is State.CLOSED:
            self._forget(endpoint)
        if step.outcome is not None and endpoint.owner is not None:
            endpoint.owner.handle_outcome(step.outcome, step.message)

    def now(self) -> float:
        """Return the current time of the manager's clock.

        Callers pass this time to the function that makes a connection's next step.
        """
        return self._clock()

    def destroy(self, endpoint: Endpoint) -> None:
        """Remove an endpoint and inform its peer.

        As a message can be lost on a wire, a DREQ is repeated until the peer answers.
        """
        endpoint.owner = None
        elsewhere = endpoint.peer not in self._functions and self.has_path(
            endpoint.local, endpoint.peer
        )
        if elsewhere and endpoint.connection.state is State.ESTABLISHED:
            self.apply(endpoint, cm.disconnect(endpoint.connection, self._clock()))
            return
        if elsewhere and endpoint.connection.state in (State.DREQ_SENT, State.TIMEWAIT):
            return  # stays until the peer answers or timewait is over
        message = cm.removal_message(endpoint.connection)
        if message is not None:
            self._send(endpoint.local, endpoint.peer, message)
        self._forget(endpoint)

    def abandon(self, gid: bytes) -> None:
        """Remove the endpoints without an owner that use a removed wire.

        ``gid`` is the GID of the removed wire. Such endpoints only wait for their connection to
        end.
        """
        ending = [
            endpoint
            for endpoint in self._endpoints.values()
            if endpoint.owner is None
            and endpoint.local == gid
            and endpoint.peer not in self._functions
        ]
        for endpoint in ending:
            self._forget(endpoint)

    def tick(self) -> None:
        """Process the endpoints whose deadline has passed."""
        current_time = self._clock()
        while self._deadlines and self._deadlines[0][0] <= current_time:
            due, _, endpoint = heapq.heappop(self._deadlines)
            if endpoint.awaited != due:
                continue
            endpoint.awaited = None
            deadline = endpoint.connection.deadline
            if deadline is None:
                continue
            if deadline > current_time:
                self._arm(endpoint, deadline)
            else:
                self.apply(endpoint, cm.step_if_expired(endpoint.connection, current_time))
        if self._deadlines:
            self._wake(self._deadlines[0][0])

    def receive(self, source: bytes, destination: bytes, message: Message) -> None:
        """Process a message from the GID ``source`` to a function of this hcad."""
        function = self._functions.get(destination)
        if function is None:
            return
        if isinstance(message, Req | Rep) and not self._is_current(source, message):
            return
        endpoint = self._find(source, destination, message)
        if endpoint is not None and isinstance(message, Rep):
            message = self._check_rep(endpoint, message)
        if endpoint is not None:
            self.apply(endpoint, cm.receive(endpoint.connection, message, self._clock()))
        elif isinstance(message, Req | SidrReq):
            self._request(function, source, destination, message)
        elif isinstance(message, Dreq):  # the endpoint has been removed
            self._send(destination, source, Drep(message.remote_id, message.local_id))

    def _find(self, source: bytes, destination: bytes, message: Message) -> Endpoint | None:
        """Return the endpoint to which a message belongs, by the message's GIDs and the numbers in
        it.
        """
        match message:
            case Req():
                return self._responders.get((destination, source, Req, message.local_id))
            case SidrReq():
                return self._responders.get((destination, source, SidrReq, message.request))
            case SidrRep():
                endpoint = self._endpoints.get(message.request)
            case Rej(remote_id=0):  # the requester gave up before it received this side's number
                return self._responders.get((destination, source, Req, message.local_id))
            case _:
                endpoint = self._endpoints.get(message.remote_id)
        if endpoint is None or (endpoint.local, endpoint.peer) != (destination, source):
            return None
        remote = endpoint.connection.remote_id
        if not isinstance(message, SidrRep) and remote not in (0, message.local_id):
            return None
        return endpoint

    def _is_current(self, source: bytes, message: Req | Rep) -> bool:
        """Return whether a sender on this node still has the queue pair that its message names."""
        if source not in self._functions:
            return True
        sender = self._endpoints.get(message.local_id)
        return sender is not None and self.bindings.keeps_queue_pair(sender.claim)

    def _check_rep(self, endpoint: Endpoint, rep: Rep) -> Message:
        """Return the REP, or a REJ in its place if the REP names a queue pair that is in another
        connection.

        In that case the peer receives a REJ, too.
        """
        connection = endpoint.connection
        awaits_rep = connection.state is State.REQ_SENT
        connected = self.bindings.is_peer_connected(endpoint.local, endpoint.peer, rep.qpn)
        if not (awaits_rep and connected):
            return rep
        stale = Reason.STALE_CONNECTION
        refusal = Rej(connection.local_id, rep.local_id, Rejected.REP, stale)
        self._send(endpoint.local, endpoint.peer, refusal)
        return Rej(rep.local_id, connection.local_id, Rejected.REP, stale)

    def _request(
        self, function: Function, source: bytes, destination: bytes, request: Req | SidrReq
    ) -> None:
        refused = self._refuse(function, source, destination, request)
        if refused is not None:
            self._send(destination, source, refused)
            return
        service = request.service
        claim = Claim(destination, source, service_of(service, is_server=True))
        if isinstance(request, Req):
            connection = cm.new_responder(request, self.new_number(), self._clock())
            key: _Key = (destination, source, Req, request.local_id)
            endpoint = Endpoint(connection, destination, source, service, True, claim)
            self._endpoints[connection.local_id] = endpoint
            self.bindings.update_claim(claim, connection)
        else:
            connection = cm.new_sidr_responder(request, self._clock())
            key = (destination, source, SidrReq, request.request)
            endpoint = Endpoint(connection, destination, source, service, True, claim)
        self._responders[key] = endpoint
        assert connection.deadline is not None
        self._arm(endpoint, connection.deadline)
        if not function.listeners[service].handle_request(endpoint, request):
            self.apply(endpoint, cm.reject(connection, Reason.CONSUMER_DEFINED))

    def _refuse(
        self, function: Function, source: bytes, destination: bytes, request: Req | SidrReq
    ) -> Message | None:
        """Return the answer to a request that must not reach a listener, or None if the request
        may.
        """
        if request.service not in function.listeners:
            return _rejection(request, Reason.INVALID_SERVICE_ID, SidrStatus.UNSUPPORTED)
        try:
            header = private_data.unpack(request.data)
        except private_data.MalformedHeader:
            return _rejection(request, Reason.UNSUPPORTED, SidrStatus.UNSUPPORTED)
        if header.source != source:  # the requester uses another's address
            return _rejection(request, Reason.UNSUPPORTED, SidrStatus.UNSUPPORTED)
        if isinstance(request, Req) and request.mtu > function.mtu:
            return _rejection(request, Reason.INVALID_PATH_MTU, SidrStatus.UNSUPPORTED)
        refusal = self._check_policy(source, destination, request)
        if refusal is not None:
            return _rejection(request, refusal.code, SidrStatus.REJECTED, refusal.data)
        connected = isinstance(request, Req) and self.bindings.is_peer_connected(
            destination, source, request.qpn
        )
        return (
            _rejection(request, Reason.STALE_CONNECTION, SidrStatus.REJECTED) if connected else None
        )

    def _check_policy(
        self, source: bytes, destination: bytes, request: Req | SidrReq
    ) -> Refusal | None:
        service = service_of(request.service)
        source_text = private_data.address_text(source)
        destination_text = private_data.address_text(destination)
        return self.may_connect(source_text, destination_text, service.port, service.space)

    def _send(self, source: bytes, destination: bytes, message: Message) -> None:
        if destination in self._functions:
            self._defer(lambda: self.receive(source, destination, message))
            return
        if self.wire is None:
            return
        refusal = None
        if isinstance(message, Req | SidrReq):  # later, only the peer's node evaluates
            refusal = self._check_policy(source, destination, message)
        if refusal is None:
            self.wire(source, destination, message)
            return
        answer = _rejection(message, refusal.code, SidrStatus.REJECTED, refusal.data)
        self._defer(lambda: self.receive(destination, source, answer))

    def _arm(self, endpoint: Endpoint, deadline: float) -> None:
        """Schedule a check of an endpoint at its deadline.

        A peer can postpone the deadline with every message. The endpoint then keeps its place in
        the heap, and is scheduled again when the old time comes. Outdated entries are
        removed before there are many more of them than endpoints.
        """
        if endpoint.awaited is not None and endpoint.awaited <= deadline:
            return
        endpoint.awaited = deadline
        if len(self._deadlines) > _SPARE_DEADLINES + 2 * len(self._endpoints):
            self._deadlines = [
                heap_entry
                for heap_entry in self._deadlines
                if heap_entry[0] == heap_entry[2].awaited
            ]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (deadline, next(self._order), endpoint))
        if self._deadlines[0][0] == deadline:
            self._wake(deadline)

    def _forget(self, endpoint: Endpoint) -> None:
        connection = endpoint.connection
        if self._endpoints.get(connection.local_id) is endpoint:
            del self._endpoints[connection.local_id]
        if endpoint.is_server:
            for kind in (Req, SidrReq):
                key = (endpoint.local, endpoint.peer, kind, connection.remote_id)
                if self._responders.get(key) is endpoint:
                    del self._responders[key]
        endpoint.connection = cm.to_closed(connection)
        endpoint.awaited = None
        self.bindings.update_claim(endpoint.claim, endpoint.connection)


def _rejection(request: Message, reason: int, status: int, data: bytes = b"") -> Message:
    if isinstance(request, SidrReq):
        return SidrRep(request.request, status, service=request.service, data=data[:136])
    assert isinstance(request, Req)
    return Rej(0, request.local_id, Rejected.REQ, reason, data)
