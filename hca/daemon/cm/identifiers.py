"""Manage the communication ids of one client: validate its requests and pass them to the manager.

A client may be hostile: it can name only its own ids and channels, and hcad removes all of them
when the client ends. A refusal is an ``OSError``, whose errno the client's call returns.
"""

import errno
import os
import secrets
from collections.abc import Callable, Generator
from typing import TypeVar

from hca.binding.addresses import NETWORK
from hca.contract import cm
from hca.contract.cm import CmEvent, CmEventType, CmPortSpace
from hca.contract.hca import HCA_MAX_MTU, HcaHandle
from hca.daemon.cm import connection, events, private_data
from hca.daemon.cm.connection import InvalidCall, Outcome, Step
from hca.daemon.cm.endpoints import Endpoint
from hca.daemon.cm.event_channel import Channel, Channels
from hca.daemon.cm.identifier import CmId, IdState
from hca.daemon.cm.manager import Manager
from hca.daemon.cm.messages import (
    MOST_DATA,
    Message,
    Path,
    Reason,
    Rej,
    Rep,
    Req,
    SidrRep,
    SidrReq,
    SidrStatus,
)
from hca.daemon.common.quotas import CLIENT_BYTES, Share, new_unlimited_share

_T = TypeVar("_T")
_SPACES = (CmPortSpace.TCP, CmPortSpace.UDP, CmPortSpace.IB)
_FIRST_PORT, _LAST_PORT = 32768, 60999  # the range that Linux uses for ephemeral ports
_HEADER = private_data.HEADER_BYTES
_ANY = bytes(16)
_ID_BYTES = 4096  # for an id with its connection and a request's private data
Near = Callable[[bytes], bool]
"""A test for addresses: it returns whether an address is a loopback address or, in an hcad where
this machine's addresses count as near, one of them.
"""


class Ids:
    """A client's communication ids and event channels, until ``close``."""

    def __init__(
        self,
        manager: Manager,
        gids: tuple[bytes, ...],
        near: Near,
        *,
        shared_loopback: bool = False,
        mtu: int = HCA_MAX_MTU,
        share: Share | None = None,
    ) -> None:
        """Enter the function with these GIDs, of which connections use the last.

        ``mtu`` is the largest ibv_mtu of the function's paths, ``share`` the function's quota.
        ``shared_loopback``: a near address means any function of the fabric that serves the port.

        Raises:
            OSError: ENOMEM if the function's quota is used up.
        """
        self._share = share or new_unlimited_share()
        self._share.charge(1, 0, CLIENT_BYTES)
        self.manager = manager
        self.function = manager.add_client(gids, mtu)
        self._near = near
        self._shared_loopback = shared_loopback
        self._next = 1
        self._channels = Channels(self._share)
        self._ids: dict[int, CmId] = {}

    def close(self) -> None:
        """Remove all ids and channels at once."""
        for _ in self.remove_in_steps():
            pass

    def remove_in_steps(self) -> Generator[None, None, None]:
        """Remove all ids and channels of the client, and inform the peers of its connections.

        Each step removes one id.
        """
        self._channels.close()  # the client reads no more events
        while self._ids:
            self._remove(self._ids[next(reversed(self._ids))])
            yield
        self._share.refund(1, 0, CLIENT_BYTES)
        self.manager.remove_client(self.function)

    def create_channel(self) -> tuple[HcaHandle, int]:
        """Make an event channel; return its handle and the reading end of its pipe. Raises
        OSError.
        """
        handle = self._handle()
        return HcaHandle(handle), self._channels.make(handle).take_reading_end()

    def destroy_channel(self, handle: int) -> None:
        """Close an event channel that no id uses. Raises OSError."""
        self._channels.end(handle)

    def create_id(self, request: cm.CmIdCreate) -> HcaHandle:
        """Create a communication id. Raises OSError."""
        channel = self._channels.get(request.channel)
        if request.port_space not in _SPACES:
            raise _os_error(errno.EOPNOTSUPP)
        if len(self._ids) >= cm.CM_MAX_IDS:
            raise _os_error(errno.ENOMEM)
        return HcaHandle(self._add(channel, request.port_space).handle)

    def destroy_id(self, handle: int) -> None:
        """Remove an id and inform the peer of its connection. Raises OSError."""
        cm_id = _get(self._ids, handle)
        # Requests to the id that the client has not read yet are removed, too.
        unheard: list[CmId] = []
        if cm_id.state is IdState.LISTENING:
            unheard = [
                unheard_id for unheard_id in self._ids.values() if unheard_id.listener is cm_id
            ]
        gone = cm_id.channel.withdraw({handle, *(unheard_id.handle for unheard_id in unheard)})
        removed = {event.handle for event in gone if event.type == CmEventType.CONNECT_REQUEST}
        for unheard_id in unheard:
            unheard_id.leave_backlog()
            unheard_id.listener = None
            if unheard_id.handle in removed:
                self._remove(unheard_id)
            else:
                _give_back(unheard_id, gone)
        self._remove(cm_id)

    def bind(self, request: cm.CmBind) -> cm.CmRoute:
        """Assign an address and a port to an id. Raises OSError."""
        cm_id = _get(self._ids, request.handle)
        if cm_id.state is not IdState.NEW:
            raise _os_error(errno.EINVAL)
        source = bytes(request.source.address)
        if source not in (_ANY, *self.function.gids) and not self._near(source):
            raise _os_error(errno.EADDRNOTAVAIL)
        self._bind(cm_id, source, request.source.port, bool(request.reuse))
        return cm_id.route()

    def listen(self, request: cm.CmPair) -> cm.CmRoute:
        """Listen on an id's port. Raises OSError."""
        cm_id = _get(self._ids, request.handle)
        if cm_id.state is IdState.NEW:
            self._bind(cm_id, _ANY, 0, reuse=False)
        if cm_id.state is not IdState.BOUND:
            raise _os_error(errno.EINVAL)
        if cm_id.service in self.function.listeners:
            raise _os_error(errno.EADDRINUSE)
        cm_id.backlog = min(request.value, cm.CM_MAX_BACKLOG) or cm.CM_MAX_BACKLOG
        cm_id.state = IdState.LISTENING
        self.function.listeners[cm_id.service] = cm_id
        return cm_id.route()

    def resolve_address(self, request: cm.CmBind) -> None:
        """Find the function with the destination address of an id; an event reports the result.

        Raises OSError.
        """
        cm_id = _get(self._ids, request.handle)
        if cm_id.state not in (IdState.NEW, IdState.BOUND):
            raise _os_error(errno.EINVAL)
        if cm_id.channel.is_full:
            raise _os_error(errno.ENOBUFS)
        destination = bytes(request.destination.address)
        group = private_data.is_multicast(destination)
        if group and not cm_id.is_datagrams:
            raise _os_error(errno.EADDRNOTAVAIL)
        if cm_id.state is IdState.NEW:
            source = bytes(request.source.address)
            if source not in (_ANY, *self.function.gids) and not self._near(source):
                raise _os_error(errno.EADDRNOTAVAIL)
            self._bind(cm_id, source, request.source.port, bool(request.reuse))
        cm_id.anywhere = destination == _ANY or self._near(destination)
        cm_id.destination, cm_id.destination_port = destination, request.destination.port
        elsewhere = not (cm_id.anywhere or group)
        if elsewhere:
            cm_id.gid = self.manager.source_towards(self.function, destination)
        status = self._unreachable(cm_id.gid, destination) if elsewhere else 0
        cm_id.state = IdState.BOUND if status else IdState.RESOLVED
        kind = CmEventType.ADDR_ERROR if status else CmEventType.ADDR_RESOLVED
        self._emit(cm_id, events.make_event(cm_id, kind, -status))

    def resolve_route(self, handle: int) -> None:
        """Find the route to an id's destination; an event reports the result. Raises OSError."""
        cm_id = _get(self._ids, handle)
        if cm_id.state is not IdState.RESOLVED:
            raise _os_error(errno.EINVAL)
        cm_id.state = IdState.ROUTED
        self._emit(cm_id, events.make_event(cm_id, CmEventType.ROUTE_RESOLVED))

    def join(self, request: cm.CmBind) -> None:
        """Permit a datagram id to use a multicast group; an event reports the group's GID. Raises
        OSError.

        The client attaches its queue pair to the group by a verb later; hcad evaluates policy
        then.
        """
        cm_id = _get(self._ids, request.handle)
        group = bytes(request.destination.address)
        bound = cm_id.state in (IdState.BOUND, IdState.RESOLVED, IdState.ROUTED)
        if not (cm_id.is_datagrams and bound and private_data.is_multicast(group)):
            raise _os_error(errno.EINVAL)
        if cm_id.channel.is_full:
            raise _os_error(errno.ENOBUFS)
        source = self.manager.source_towards(self.function, group)
        self._emit(cm_id, events.make_join_event(cm_id, self.function, group, source))

    def connect(self, request: cm.CmConnect) -> None:
        """Request a connection, or query a service for its datagram queue pair. Raises OSError."""
        cm_id = _get(self._ids, request.handle)
        if cm_id.state is not IdState.ROUTED or private_data.is_multicast(cm_id.destination):
            raise _os_error(errno.EINVAL)
        service = cm_id.port_space << 16 | cm_id.destination_port
        peer = cm_id.destination
        if cm_id.anywhere:
            shared = self._shared_loopback
            server = self.manager.server_of(service, self.function) if shared else self.function
            peer = server.gid
        kind: type = SidrReq if cm_id.is_datagrams else Req
        data = events.private_data(request, MOST_DATA[kind] - _HEADER)
        header = private_data.Endpoints(cm_id.gid, cm_id.port, peer)
        try:
            data = private_data.pack(header) + data
        except ValueError as err:
            raise OSError(errno.EAFNOSUPPORT, str(err)) from err
        cm_id.psn, cm_id.peer = secrets.randbits(24), peer
        number = self.manager.new_number()
        message: Req | SidrReq
        if cm_id.is_datagrams:
            message = SidrReq(number, service, data=data.ljust(MOST_DATA[SidrReq], b"\0"))
        else:
            path = Path(cm_id.gid, peer, request.traffic_class)
            mtu = self.manager.mtu_of(self.function, peer)
            if request.qpn:
                self.manager.bindings.check_unconnected(cm_id.gid, request.qpn)
            message = events.make_req(request, number, service, path, cm_id.psn, data, mtu)
        cm_id.request = message
        cm_id.state = IdState.CONNECTING
        cm_id.endpoint = self.manager.request(cm_id.gid, peer, message, cm_id)

    def accept(self, request: cm.CmConnect) -> None:
        """Accept a connection request. Raises OSError."""
        cm_id, endpoint = self.get_connected(request.handle)
        number = endpoint.connection.local_id
        answer: Rep | SidrRep
        if cm_id.is_datagrams:
            data = events.private_data(request, MOST_DATA[SidrRep])
            key = request.qkey or cm.CM_UDP_QKEY
            qpn = events.queue_pair(request)
            answer = SidrRep(number, SidrStatus.VALID, qpn, cm_id.service, key, data)
        else:
            data = events.private_data(request, MOST_DATA[Rep])
            self.manager.bindings.check_unconnected(cm_id.gid, request.qpn)
            answer = events.make_rep(
                request, number, endpoint.connection.remote_id, request.qpn, cm_id.psn, data
            )
        self._step(
            endpoint,
            lambda current_time: connection.accept(endpoint.connection, answer, current_time),
        )
        cm_id.leave_backlog()

    def establish(self, handle: int) -> None:
        """Confirm with an RTU that the peer has accepted a connection request. Raises OSError."""
        _, endpoint = self.get_connected(handle)
        self._step(endpoint, lambda current_time: connection.establish(endpoint.connection))

    def notify(self, handle: int) -> None:
        """Treat data on an id's connection as the connection's RTU, which may have been lost.

        Raises OSError.
        """
        _, endpoint = self.get_connected(handle)
        self._step(endpoint, lambda current_time: connection.notify(endpoint.connection))

    def reject(self, request: cm.CmReject) -> None:
        """Reject the peer's request for a connection, or the peer's answer to the client's request.

        Raises OSError.
        """
        cm_id, endpoint = self.get_connected(request.handle)
        data = events.private_data(request, MOST_DATA[SidrRep if cm_id.is_datagrams else Rej])
        reason = Reason.CONSUMER_DEFINED
        self._step(
            endpoint, lambda current_time: connection.reject(endpoint.connection, reason, data)
        )
        cm_id.leave_backlog()

    def disconnect(self, handle: int) -> None:
        """End a connection, or confirm that the peer has ended it. Raises OSError."""
        _, endpoint = self.get_connected(handle)
        self._step(
            endpoint, lambda current_time: connection.disconnect(endpoint.connection, current_time)
        )

    def migrate(self, request: cm.CmPair) -> None:
        """Move an id, with its unread events, to another event channel. Raises OSError."""
        cm_id = _get(self._ids, request.handle)
        channel = self._channels.get(request.value)
        unread = cm_id.channel.withdraw({cm_id.handle})
        cm_id.channel.ids -= 1
        channel.ids += 1
        cm_id.channel = channel
        for event in unread:
            channel.emit(event)

    def handle_request(self, listener: CmId, endpoint: Endpoint, request: Req | SidrReq) -> bool:
        """Create an id for a request to a listener; return False if the backlog is full."""
        if listener.waiting >= listener.backlog or len(self._ids) >= cm.CM_MAX_IDS:
            return False
        try:
            cm_id = self._add(listener.channel, listener.port_space)
        except OSError:
            return False
        header = private_data.unpack(request.data)
        cm_id.state = IdState.CONNECTING
        cm_id.gid = cm_id.source = endpoint.local
        cm_id.port = listener.port
        cm_id.destination, cm_id.destination_port = endpoint.peer, header.port
        cm_id.peer, cm_id.psn = endpoint.peer, secrets.randbits(24)
        cm_id.endpoint, cm_id.listener, cm_id.request = endpoint, listener, request
        endpoint.owner = cm_id
        listener.waiting += 1
        self._emit(cm_id, events.make_request_event(cm_id, self.function, request))
        return True

    def handle_outcome(self, cm_id: CmId, outcome: Outcome, message: Message | None) -> None:
        """Send the client an event with a connection's outcome."""
        if outcome in (Outcome.REJECTED, Outcome.UNREACHABLE):
            cm_id.leave_backlog()
        self._emit(cm_id, events.make_outcome_event(cm_id, self.function, outcome, message))

    def _add(self, channel: Channel, space: int) -> CmId:
        """Add an id whose events go to ``channel``. Raises OSError."""
        self._share.charge(0, 0, _ID_BYTES)
        cm_id = CmId(self._handle(), self, channel, space, self.function.gid)
        self._ids[cm_id.handle] = cm_id
        channel.ids += 1
        return cm_id

    def _remove(self, cm_id: CmId) -> None:
        del self._ids[cm_id.handle]
        cm_id.leave_backlog()
        cm_id.unlisten()
        if cm_id.endpoint is not None:
            self.manager.destroy(cm_id.endpoint)
            cm_id.endpoint = None
        cm_id.release_port()
        self._share.refund(0, 0, _ID_BYTES)
        cm_id.channel.ids -= 1

    def _bind(self, cm_id: CmId, source: bytes, port: int, reuse: bool) -> None:
        cm_id.take_port(port or self._free_port(cm_id.port_space), reuse)
        cm_id.source = source
        cm_id.state = IdState.BOUND

    def _free_port(self, space: int) -> int:
        for _ in range(4 * (_LAST_PORT - _FIRST_PORT)):
            port = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT + 1)
            if (space, port) not in self.function.ports:
                return port
        raise _os_error(errno.EADDRNOTAVAIL)

    def _unreachable(self, source: bytes, address: bytes) -> int:
        """Return 0 if ``source`` can reach a function with the address, else an errno value."""
        if self.manager.has_path(source, address):
            return 0
        mapped = private_data.is_mapped(address)
        inside = mapped and int.from_bytes(address[12:]) & int(NETWORK.netmask) == int(
            NETWORK.network_address
        )
        return errno.EHOSTUNREACH if inside else errno.ENETUNREACH

    def get(self, handle: int) -> CmId:
        """Return the id of this client that a handle names. Raises OSError."""
        return _get(self._ids, handle)

    def get_connected(self, handle: int) -> tuple[CmId, Endpoint]:
        """Return an id and the endpoint of its connection. Raises OSError if the id has none."""
        cm_id = _get(self._ids, handle)
        if cm_id.endpoint is None:
            raise _os_error(errno.EINVAL)
        return cm_id, cm_id.endpoint

    def _step(self, endpoint: Endpoint, make: Callable[[float], Step]) -> None:
        try:
            step = make(self.manager.now())
        except InvalidCall as err:
            raise OSError(errno.EINVAL, f"the connection is in state {err}") from err
        self.manager.apply(endpoint, step)

    def _emit(self, cm_id: CmId, event: CmEvent) -> None:
        cm_id.channel.emit(event)

    def _handle(self) -> int:
        handle = self._next
        self._next += 1
        return handle


def _give_back(cm_id: CmId, events: list[CmEvent]) -> None:
    for event in events:
        if event.handle == cm_id.handle:
            cm_id.channel.emit(event)


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _get(table: dict[int, _T], handle: int) -> _T:
    try:
        return table[handle]
    except KeyError:
        raise _os_error(errno.EINVAL) from None
