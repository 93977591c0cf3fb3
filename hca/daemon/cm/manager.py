"""The connection manager of a fabric: who serves what, and whose message is whose.

It knows functions by their GIDs, listeners by service id, and connections by a random number that
the peer must name, from the GID that the connection is with. Messages between functions of the
fabric are handed over as values; ``wire`` carries those to others.
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
    seconds,
)
from hca.daemon.cm.policy import MayConnect, Refusal, allow_all, service_of

_SPARE_DEADLINES: Final = 64

Wire = Callable[[bytes, bytes, Message], None]
"""Takes source and destination GID, and a message to somebody who is not on this fabric's node."""


_Key = tuple[bytes, bytes, type, int]


class Manager:
    """The connection manager, until its functions have gone."""

    def __init__(
        self,
        clock: Callable[[], float],
        defer: Callable[[Callable[[], None]], object],
        wake: Callable[[float], None],
        may_connect: MayConnect = allow_all,
        wire: Wire | None = None,
    ) -> None:
        """``defer`` calls something soon; ``wake`` calls ``tick`` at a time of ``clock``."""
        self._clock = clock
        self._defer = defer
        self._wake = wake
        self.may_connect = may_connect
        self.wire = wire
        self.reaches: Callable[[bytes, bytes], bool] = lambda *_: True
        """Tells whether ``wire`` leads from one GID to another."""
        self._functions: dict[bytes, Function] = {}
        self._endpoints: dict[int, Endpoint] = {}
        self._asked: dict[_Key, Endpoint] = {}
        """Endpoints of whoever was asked, by both GIDs, kind and number of the request."""
        self.bindings = Bindings()
        self._deadlines: list[tuple[float, int, Endpoint]] = []
        self._order = itertools.count()

    def enter(self, gids: tuple[bytes, ...], mtu: int = HCA_MAX_MTU) -> Function:
        """Return the function that has these GIDs; it is known until all who entered have left."""
        function = self._functions.get(gids[-1])
        if function is None:
            function = Function(gids, mtu)
            for gid in gids:
                self._functions[gid] = function
        function.clients += 1
        return function

    def leave(self, function: Function) -> None:
        """Leave a function, without ids."""
        function.clients -= 1
        if not function.clients:
            for gid in function.gids:
                del self._functions[gid]

    def function_at(self, gid: bytes) -> Function | None:
        """Return who has an address, if anybody on this node does."""
        return self._functions.get(gid)

    def leads_to(self, source: bytes, destination: bytes) -> bool:
        """Tell whether a message can go from a function of this node to an address."""
        if destination in self._functions:
            return True
        return self.wire is not None and self.reaches(source, destination)

    def source_towards(self, function: Function, destination: bytes) -> bytes:
        """Return which of a function's GIDs a connection with an address comes from.

        The last of the address's family that leads there; where there is none, the last.
        """
        mapped = private_data.is_mapped(destination)
        for gid in reversed(function.gids):
            if private_data.is_mapped(gid) == mapped and self.leads_to(gid, destination):
                return gid
        return function.gid

    def mtu_of(self, function: Function, peer: bytes) -> int:
        """Return the ibv_mtu of a function's path, as far as this node knows it."""
        other = self._functions.get(peer)
        return function.mtu if other is None else min(function.mtu, other.mtu)

    def server_of(self, service: int, first: Function) -> Function:
        """Return who of the fabric serves: ``first`` if it does, else the one of least address."""
        if service in first.listeners:
            return first
        serving = [one for one in self._functions.values() if service in one.listeners]
        return min(serving, key=lambda one: one.gid, default=first)

    def new_number(self) -> int:
        """Return a number for a connection: 32 bits that nobody can guess."""
        while True:
            number = 1 + secrets.randbelow(0xFFFFFFFF)
            if number not in self._endpoints:
                return number

    def request(self, local: bytes, peer: bytes, request: Req | SidrReq, owner: Owner) -> Endpoint:
        """Ask for a connection between two GIDs; ``request`` has a number of ``new_number``."""
        now = self._clock()
        if isinstance(request, Req):
            step = cm.request(request, now)
        else:
            step = cm.search(request, now, seconds(20), 15)
        claim = Claim(local, peer, service_of(request.service))
        endpoint = Endpoint(step.connection, local, peer, request.service, False, claim, owner)
        self._endpoints[step.connection.local_id] = endpoint
        assert step.connection.deadline is not None
        self._arm(endpoint, step.connection.deadline)
        self.apply(endpoint, step)
        return endpoint

    def apply(self, endpoint: Endpoint, step: Step) -> None:
        """Make a step of an endpoint's connection: send, tell, wait."""
        before, after = endpoint.connection, step.connection
        endpoint.connection = after
        if after.deadline is not None and after.deadline != before.deadline:
            self._arm(endpoint, after.deadline)
        self.bindings.follow(endpoint.claim, after)
        if step.send is not None:
            self._send(endpoint.local, endpoint.peer, step.send)
        if after.state is State.CLOSED:
            self._forget(endpoint)
        if step.told is not None and endpoint.owner is not None:
            endpoint.owner.told(step.told, step.message)

    def now(self) -> float:
        """Return the time that steps are made at."""
        return self._clock()

    def destroy(self, endpoint: Endpoint) -> None:
        """Forget an endpoint; its peer is told.

        Over a wire that can be lost: what ends a connection is repeated until it is answered.
        """
        endpoint.owner = None
        elsewhere = endpoint.peer not in self._functions and self.leads_to(
            endpoint.local, endpoint.peer
        )
        if elsewhere and endpoint.connection.state is State.ESTABLISHED:
            self.apply(endpoint, cm.disconnect(endpoint.connection, self._clock()))
            return
        if elsewhere and endpoint.connection.state in (State.DREQ_SENT, State.TIMEWAIT):
            return  # until it is answered, or over
        message = cm.destroy(endpoint.connection)
        if message is not None:
            self._send(endpoint.local, endpoint.peer, message)
        self._forget(endpoint)

    def abandon(self, gid: bytes) -> None:
        """Forget what ends over a wire that has gone: nobody hears of it any more."""
        ending = [
            one
            for one in self._endpoints.values()
            if one.owner is None and one.local == gid and one.peer not in self._functions
        ]
        for endpoint in ending:
            self._forget(endpoint)

    def tick(self) -> None:
        """Do what deadlines ask for that have come."""
        now = self._clock()
        while self._deadlines and self._deadlines[0][0] <= now:
            due, _, endpoint = heapq.heappop(self._deadlines)
            if endpoint.awaited != due:
                continue
            endpoint.awaited = None
            deadline = endpoint.connection.deadline
            if deadline is None:
                continue
            if deadline > now:
                self._arm(endpoint, deadline)
            else:
                self.apply(endpoint, cm.expire(endpoint.connection, now))
        if self._deadlines:
            self._wake(self._deadlines[0][0])

    def receive(self, source: bytes, destination: bytes, message: Message) -> None:
        """Take a message from ``source`` to a function of this fabric."""
        function = self._functions.get(destination)
        if function is None:
            return
        if isinstance(message, Req | Rep) and not self._is_current(source, message):
            return
        endpoint = self._find(source, destination, message)
        if endpoint is not None and isinstance(message, Rep):
            message = self._checked(endpoint, message)
        if endpoint is not None:
            self.apply(endpoint, cm.receive(endpoint.connection, message, self._clock()))
        elif isinstance(message, Req | SidrReq):
            self._request(function, source, destination, message)
        elif isinstance(message, Dreq):  # whoever it was has gone
            self._send(destination, source, Drep(message.remote_id, message.local_id))

    def _find(self, source: bytes, destination: bytes, message: Message) -> Endpoint | None:
        """Return whose message it is: of this pair of addresses, and with the right numbers."""
        match message:
            case Req():
                return self._asked.get((destination, source, Req, message.local_id))
            case SidrReq():
                return self._asked.get((destination, source, SidrReq, message.request))
            case SidrRep():
                found = self._endpoints.get(message.request)
            case Rej(remote_id=0):  # a requester that gave up before it heard of us
                return self._asked.get((destination, source, Req, message.local_id))
            case _:
                found = self._endpoints.get(message.remote_id)
        if found is None or (found.local, found.peer) != (destination, source):
            return None
        remote = found.connection.remote_id
        if not isinstance(message, SidrRep) and remote not in (0, message.local_id):
            return None
        return found

    def _is_current(self, source: bytes, message: Req | Rep) -> bool:
        """Return whether a sender on this node still has the queue pair that it names."""
        if source not in self._functions:
            return True
        sender = self._endpoints.get(message.local_id)
        return sender is not None and self.bindings.holds_own(sender.claim)

    def _checked(self, endpoint: Endpoint, rep: Rep) -> Message:
        """Return an answer; a REJ in its place if it names a queue pair in another connection."""
        one = endpoint.connection
        asks = one.state is State.REQ_SENT
        connected = self.bindings.is_peer_connected(endpoint.local, endpoint.peer, rep.qpn)
        if not (asks and connected):
            return rep
        stale = Reason.STALE_CONNECTION
        refusal = Rej(one.local_id, rep.local_id, Rejected.REP, stale)
        self._send(endpoint.local, endpoint.peer, refusal)
        return Rej(rep.local_id, one.local_id, Rejected.REP, stale)

    def _request(
        self, function: Function, source: bytes, destination: bytes, request: Req | SidrReq
    ) -> None:
        refused = self._refused(function, source, destination, request)
        if refused is not None:
            self._send(destination, source, refused)
            return
        service = request.service
        claim = Claim(destination, source, service_of(service, is_server=True))
        if isinstance(request, Req):
            connection = cm.requested(request, self.new_number(), self._clock())
            key: _Key = (destination, source, Req, request.local_id)
            endpoint = Endpoint(connection, destination, source, service, True, claim)
            self._endpoints[connection.local_id] = endpoint
            self.bindings.follow(claim, connection)
        else:
            connection = cm.searched(request, self._clock())
            key = (destination, source, SidrReq, request.request)
            endpoint = Endpoint(connection, destination, source, service, True, claim)
        self._asked[key] = endpoint
        assert connection.deadline is not None
        self._arm(endpoint, connection.deadline)
        if not function.listeners[service].asked(endpoint, request):
            self.apply(endpoint, cm.reject(connection, Reason.CONSUMER_DEFINED))

    def _refused(
        self, function: Function, source: bytes, destination: bytes, request: Req | SidrReq
    ) -> Message | None:
        """Return the answer to a request that no listener is to see."""
        if request.service not in function.listeners:
            return _no(request, Reason.INVALID_SERVICE_ID, SidrStatus.UNSUPPORTED)
        try:
            told = private_data.unpack(request.data)
        except private_data.MalformedHeader:
            return _no(request, Reason.UNSUPPORTED, SidrStatus.UNSUPPORTED)
        if told.source != source:  # it would answer for somebody else
            return _no(request, Reason.UNSUPPORTED, SidrStatus.UNSUPPORTED)
        if isinstance(request, Req) and request.mtu > function.mtu:
            return _no(request, Reason.INVALID_PATH_MTU, SidrStatus.UNSUPPORTED)
        refusal = self._judge(source, destination, request)
        if refusal is not None:
            return _no(request, refusal.code, SidrStatus.REJECTED, refusal.data)
        connected = isinstance(request, Req) and self.bindings.is_peer_connected(
            destination, source, request.qpn
        )
        return _no(request, Reason.STALE_CONNECTION, SidrStatus.REJECTED) if connected else None

    def _judge(self, source: bytes, destination: bytes, request: Req | SidrReq) -> Refusal | None:
        wanted = service_of(request.service)
        addresses = (private_data.text(source), private_data.text(destination))
        return self.may_connect(*addresses, wanted.port, wanted.space)

    def _send(self, source: bytes, destination: bytes, message: Message) -> None:
        if destination in self._functions:
            self._defer(lambda: self.receive(source, destination, message))
            return
        if self.wire is None:
            return
        refusal = None
        if isinstance(message, Req | SidrReq):  # nobody else judges what leaves the node
            refusal = self._judge(source, destination, message)
        if refusal is None:
            self.wire(source, destination, message)
            return
        answer = _no(message, refusal.code, SidrStatus.REJECTED, refusal.data)
        self._defer(lambda: self.receive(destination, source, answer))

    def _arm(self, endpoint: Endpoint, deadline: float) -> None:
        """Look at an endpoint at its deadline.

        A peer can put it off with every message: it is looked at when it would have been, and
        then again. What is in the list for nothing goes before it outgrows what there is.
        """
        if endpoint.awaited is not None and endpoint.awaited <= deadline:
            return
        endpoint.awaited = deadline
        if len(self._deadlines) > _SPARE_DEADLINES + 2 * len(self._endpoints):
            self._deadlines = [one for one in self._deadlines if one[0] == one[2].awaited]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (deadline, next(self._order), endpoint))
        if self._deadlines[0][0] == deadline:
            self._wake(deadline)

    def _forget(self, endpoint: Endpoint) -> None:
        one = endpoint.connection
        if self._endpoints.get(one.local_id) is endpoint:
            del self._endpoints[one.local_id]
        if endpoint.is_server:
            for kind in (Req, SidrReq):
                key = (endpoint.local, endpoint.peer, kind, one.remote_id)
                if self._asked.get(key) is endpoint:
                    del self._asked[key]
        endpoint.connection = cm.closed(one)
        endpoint.awaited = None
        self.bindings.follow(endpoint.claim, endpoint.connection)


def _no(request: Message, reason: int, status: int, data: bytes = b"") -> Message:
    if isinstance(request, SidrReq):
        return SidrRep(request.request, status, service=request.service, data=data[:136])
    assert isinstance(request, Req)
    return Rej(0, request.local_id, Rejected.REQ, reason, data)
