"""The communication ids of one client: what it asked for, checked, and given to the manager.

A client is hostile: it names its own ids and channels only, and whatever it has goes with it. A
refusal is an ``OSError`` whose errno the client's call sets.
"""

import errno
import os
import secrets
from collections.abc import Callable
from typing import TypeVar

from hca.binding.addresses import NETWORK
from hca.contract import cm
from hca.contract.cm import CmEvent, CmEventType, CmPortSpace
from hca.contract.hca import HCA_MAX_MTU, HcaHandle
from hca.daemon.cm import connection, events, private_data
from hca.daemon.cm.connection import InvalidCall, Step, Told
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
from hca.daemon.common.quotas import CLIENT_BYTES, Share, unbounded

_T = TypeVar("_T")
_SPACES = (CmPortSpace.TCP, CmPortSpace.UDP, CmPortSpace.IB)
_FIRST_PORT, _LAST_PORT = 32768, 60999  # as Linux chooses ports
_HEADER = private_data.HEADER_BYTES
_ANY = bytes(16)
_ID_BYTES = 4096  # with its connection, and the private data of a request
Near = Callable[[bytes], bool]
"""Tells whether an address is of the loopback, or of this machine where those count as near."""


class Ids:
    """A client's ids and event channels, until ``close``."""

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
        """Enter the function that has these GIDs, the last of which its connections use.

        ``mtu`` is the largest ibv_mtu of its paths, ``share`` what the function may have.
        ``shared_loopback``: what is near means whoever of the fabric serves a port.

        Raises:
            OSError: ENOMEM, it has too much already.
        """
        self._share = share or unbounded()
        self._share.take(1, 0, CLIENT_BYTES)
        self.manager = manager
        self.function = manager.enter(gids, mtu)
        self._near = near
        self._shared_loopback = shared_loopback
        self._next = 1
        self._channels = Channels(self._share)
        self._ids: dict[int, CmId] = {}

    def close(self) -> None:
        """Remove everything that the client has; peers are told."""
        self._channels.close()  # nobody reads them any more
        for one in list(self._ids.values()):
            self._remove(one)
        self._share.give(1, 0, CLIENT_BYTES)
        self.manager.leave(self.function)

    def create_channel(self) -> tuple[HcaHandle, int]:
        """Make an event channel; return its pipe's reading end, too. Raises OSError."""
        handle = self._handle()
        return HcaHandle(handle), self._channels.make(handle).take_reading_end()

    def destroy_channel(self, handle: int) -> None:
        """Close one that no id has. Raises OSError."""
        self._channels.end(handle)

    def create_id(self, wanted: cm.CmIdCreate) -> HcaHandle:
        """Make an id. Raises OSError."""
        channel = self._channels.get(wanted.channel)
        if wanted.port_space not in _SPACES:
            raise _refused(errno.EOPNOTSUPP)
        if len(self._ids) >= cm.CM_MAX_IDS:
            raise _refused(errno.ENOMEM)
        return HcaHandle(self._add(channel, wanted.port_space).handle)

    def destroy_id(self, handle: int) -> None:
        """Remove an id; what it was connected to is told. Raises OSError."""
        one = _get(self._ids, handle)
        # Requests to it that nobody has heard of go with it.
        unheard: list[CmId] = []
        if one.state is IdState.LISTENING:
            unheard = [other for other in self._ids.values() if other.listener is one]
        gone = one.channel.withdraw({handle, *(other.handle for other in unheard)})
        removed = {event.handle for event in gone if event.type == CmEventType.CONNECT_REQUEST}
        for other in unheard:
            other.settle()
            other.listener = None
            if other.handle in removed:
                self._remove(other)
            else:
                _give_back(other, gone)
        self._remove(one)

    def bind(self, wanted: cm.CmBind) -> cm.CmRoute:
        """Give an id an address and a port. Raises OSError."""
        one = _get(self._ids, wanted.handle)
        if one.state is not IdState.NEW:
            raise _refused(errno.EINVAL)
        source = bytes(wanted.source.address)
        if source not in (_ANY, *self.function.gids) and not self._near(source):
            raise _refused(errno.EADDRNOTAVAIL)
        self._bind(one, source, wanted.source.port, bool(wanted.reuse))
        return one.route()

    def listen(self, wanted: cm.CmPair) -> cm.CmRoute:
        """Serve an id's port. Raises OSError."""
        one = _get(self._ids, wanted.handle)
        if one.state is IdState.NEW:
            self._bind(one, _ANY, 0, reuse=False)
        if one.state is not IdState.BOUND:
            raise _refused(errno.EINVAL)
        if one.service in self.function.listeners:
            raise _refused(errno.EADDRINUSE)
        one.backlog = min(wanted.value, cm.CM_MAX_BACKLOG) or cm.CM_MAX_BACKLOG
        one.state = IdState.LISTENING
        self.function.listeners[one.service] = one
        return one.route()

    def resolve_address(self, wanted: cm.CmBind) -> None:
        """Find who has an address; an event says. Raises OSError."""
        one = _get(self._ids, wanted.handle)
        if one.state not in (IdState.NEW, IdState.BOUND):
            raise _refused(errno.EINVAL)
        if one.channel.is_full:
            raise _refused(errno.ENOBUFS)
        destination = bytes(wanted.destination.address)
        group = private_data.is_multicast(destination)
        if group and not one.is_datagrams:
            raise _refused(errno.EADDRNOTAVAIL)
        if one.state is IdState.NEW:
            source = bytes(wanted.source.address)
            if source not in (_ANY, *self.function.gids) and not self._near(source):
                raise _refused(errno.EADDRNOTAVAIL)
            self._bind(one, source, wanted.source.port, bool(wanted.reuse))
        one.anywhere = destination == _ANY or self._near(destination)
        one.destination, one.destination_port = destination, wanted.destination.port
        elsewhere = not (one.anywhere or group)
        if elsewhere:
            one.gid = self.manager.source_towards(self.function, destination)
        status = self._unreachable(one.gid, destination) if elsewhere else 0
        one.state = IdState.BOUND if status else IdState.RESOLVED
        kind = CmEventType.ADDR_ERROR if status else CmEventType.ADDR_RESOLVED
        self._emit(one, events.plain(one, kind, -status))

    def resolve_route(self, handle: int) -> None:
        """Find the way there; an event says. Raises OSError."""
        one = _get(self._ids, handle)
        if one.state is not IdState.RESOLVED:
            raise _refused(errno.EINVAL)
        one.state = IdState.ROUTED
        self._emit(one, events.plain(one, CmEventType.ROUTE_RESOLVED))

    def join(self, wanted: cm.CmBind) -> None:
        """Let an id of datagrams use a multicast group; an event says its GID. Raises OSError.

        Its queue pair enters the group by verbs, where its owner is judged.
        """
        one = _get(self._ids, wanted.handle)
        group = bytes(wanted.destination.address)
        bound = one.state in (IdState.BOUND, IdState.RESOLVED, IdState.ROUTED)
        if not (one.is_datagrams and bound and private_data.is_multicast(group)):
            raise _refused(errno.EINVAL)
        if one.channel.is_full:
            raise _refused(errno.ENOBUFS)
        source = self.manager.source_towards(self.function, group)
        self._emit(one, events.joined(one, self.function, group, source))

    def connect(self, wanted: cm.CmConnect) -> None:
        """Ask for a connection, or for a queue pair of datagrams. Raises OSError."""
        one = _get(self._ids, wanted.handle)
        if one.state is not IdState.ROUTED or private_data.is_multicast(one.destination):
            raise _refused(errno.EINVAL)
        service = one.port_space << 16 | one.destination_port
        peer = one.destination
        if one.anywhere:
            shared = self._shared_loopback
            server = self.manager.server_of(service, self.function) if shared else self.function
            peer = server.gid
        kind: type = SidrReq if one.is_datagrams else Req
        data = events.private_data(wanted, MOST_DATA[kind] - _HEADER)
        header = private_data.Endpoints(one.gid, one.port, peer)
        try:
            data = private_data.pack(header) + data
        except ValueError as err:
            raise OSError(errno.EAFNOSUPPORT, str(err)) from err
        one.psn, one.peer = secrets.randbits(24), peer
        number = self.manager.new_number()
        request: Req | SidrReq
        if one.is_datagrams:
            request = SidrReq(number, service, data=data.ljust(MOST_DATA[SidrReq], b"\0"))
        else:
            path = Path(one.gid, peer, wanted.traffic_class)
            mtu = self.manager.mtu_of(self.function, peer)
            if wanted.qpn:
                self.manager.bindings.check_own(one.gid, wanted.qpn)
            request = events.request(wanted, number, service, path, one.psn, data, mtu)
        one.request = request
        one.state = IdState.CONNECTING
        one.endpoint = self.manager.request(one.gid, peer, request, one)

    def accept(self, wanted: cm.CmConnect) -> None:
        """Say yes to who asked. Raises OSError."""
        one, endpoint = self.connected(wanted.handle)
        number = endpoint.connection.local_id
        answer: Rep | SidrRep
        if one.is_datagrams:
            data = events.private_data(wanted, MOST_DATA[SidrRep])
            key = wanted.qkey or cm.CM_UDP_QKEY
            qpn = events.queue_pair(wanted)
            answer = SidrRep(number, SidrStatus.VALID, qpn, one.service, key, data)
        else:
            data = events.private_data(wanted, MOST_DATA[Rep])
            self.manager.bindings.check_own(one.gid, wanted.qpn)
            answer = events.reply(
                wanted, number, endpoint.connection.remote_id, wanted.qpn, one.psn, data
            )
        self._step(endpoint, lambda now: connection.accept(endpoint.connection, answer, now))
        one.settle()

    def establish(self, handle: int) -> None:
        """Confirm the peer's answer. Raises OSError."""
        _, endpoint = self.connected(handle)
        self._step(endpoint, lambda now: connection.establish(endpoint.connection))

    def notify(self, handle: int) -> None:
        """Hear from the program that data has come. Raises OSError."""
        _, endpoint = self.connected(handle)
        self._step(endpoint, lambda now: connection.notify(endpoint.connection))

    def reject(self, wanted: cm.CmReject) -> None:
        """Say no to who asked, or to its answer. Raises OSError."""
        one, endpoint = self.connected(wanted.handle)
        data = events.private_data(wanted, MOST_DATA[SidrRep if one.is_datagrams else Rej])
        reason = Reason.CONSUMER_DEFINED
        self._step(endpoint, lambda now: connection.reject(endpoint.connection, reason, data))
        one.settle()

    def disconnect(self, handle: int) -> None:
        """End a connection, or agree to its end. Raises OSError."""
        _, endpoint = self.connected(handle)
        self._step(endpoint, lambda now: connection.disconnect(endpoint.connection, now))

    def migrate(self, wanted: cm.CmPair) -> None:
        """Let an id's events, unread ones too, go to another channel. Raises OSError."""
        one = _get(self._ids, wanted.handle)
        channel = self._channels.get(wanted.value)
        unread = one.channel.withdraw({one.handle})
        one.channel.ids -= 1
        channel.ids += 1
        one.channel = channel
        for event in unread:
            channel.emit(event)

    def asked(self, listener: CmId, endpoint: Endpoint, request: Req | SidrReq) -> bool:
        """Make an id of a request to a listener, unless too many wait."""
        if listener.waiting >= listener.backlog or len(self._ids) >= cm.CM_MAX_IDS:
            return False
        try:
            one = self._add(listener.channel, listener.port_space)
        except OSError:
            return False
        told = private_data.unpack(request.data)
        one.state = IdState.CONNECTING
        one.gid = one.source = endpoint.local
        one.port = listener.port
        one.destination, one.destination_port = endpoint.peer, told.port
        one.peer, one.psn = endpoint.peer, secrets.randbits(24)
        one.endpoint, one.listener, one.request = endpoint, listener, request
        endpoint.owner = one
        listener.waiting += 1
        self._emit(one, events.requested(one, self.function, request))
        return True

    def told(self, one: CmId, told: Told, message: Message | None) -> None:
        """Make an event of what became of a connection."""
        if told in (Told.REJECTED, Told.UNREACHABLE):
            one.settle()
        self._emit(one, events.told(one, self.function, told, message))

    def _add(self, channel: Channel, space: int) -> CmId:
        """Add an id. Raises OSError."""
        self._share.take(0, 0, _ID_BYTES)
        one = CmId(self._handle(), self, channel, space, self.function.gid)
        self._ids[one.handle] = one
        channel.ids += 1
        return one

    def _remove(self, one: CmId) -> None:
        del self._ids[one.handle]
        one.settle()
        one.unlisten()
        if one.endpoint is not None:
            self.manager.destroy(one.endpoint)
            one.endpoint = None
        one.release_port()
        self._share.give(0, 0, _ID_BYTES)
        one.channel.ids -= 1

    def _bind(self, one: CmId, source: bytes, port: int, reuse: bool) -> None:
        one.take_port(port or self._free_port(one.port_space), reuse)
        one.source = source
        one.state = IdState.BOUND

    def _free_port(self, space: int) -> int:
        for _ in range(4 * (_LAST_PORT - _FIRST_PORT)):
            port = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT + 1)
            if (space, port) not in self.function.ports:
                return port
        raise _refused(errno.EADDRNOTAVAIL)

    def _unreachable(self, source: bytes, address: bytes) -> int:
        """Return an errno value where no function has an address, 0 where one has."""
        if self.manager.leads_to(source, address):
            return 0
        mapped = private_data.is_mapped(address)
        inside = mapped and int.from_bytes(address[12:]) & int(NETWORK.netmask) == int(
            NETWORK.network_address
        )
        return errno.EHOSTUNREACH if inside else errno.ENETUNREACH

    def get(self, handle: int) -> CmId:
        """Return an id of this client. Raises OSError."""
        return _get(self._ids, handle)

    def connected(self, handle: int) -> tuple[CmId, Endpoint]:
        """Return an id that has a side of a connection. Raises OSError."""
        one = _get(self._ids, handle)
        if one.endpoint is None:
            raise _refused(errno.EINVAL)
        return one, one.endpoint

    def _step(self, endpoint: Endpoint, make: Callable[[float], Step]) -> None:
        try:
            step = make(self.manager.now())
        except InvalidCall as err:
            raise OSError(errno.EINVAL, f"the connection is in state {err}") from err
        self.manager.apply(endpoint, step)

    def _emit(self, one: CmId, event: CmEvent) -> None:
        one.channel.emit(event)

    def _handle(self) -> int:
        handle = self._next
        self._next += 1
        return handle


def _give_back(one: CmId, events: list[CmEvent]) -> None:
    for event in events:
        if event.handle == one.handle:
            one.channel.emit(event)


def _refused(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _get(table: dict[int, _T], handle: int) -> _T:
    try:
        return table[handle]
    except KeyError:
        raise _refused(errno.EINVAL) from None
