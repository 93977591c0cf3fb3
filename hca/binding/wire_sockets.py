"""Open UDP sockets for the RoCEv2 packets of one address.

The sockets are unconnected and use the kernel's path MTU discovery, so each packet leaves with
"don't fragment" and identification 0. The ICRC covers both fields, which user space cannot read.
"""

import ctypes
import errno
import ipaddress
import secrets
import socket
import struct
from contextlib import ExitStack, suppress
from dataclasses import field
from typing import Final

from hca.binding.addresses import is_group, is_ipv4
from hca.binding.wire import NoWire, WireAddress
from hca.contract.hca import HCA_MAX_MTU
from hca.contract.hca_engine import HCA_WIRE_LANES, HcaWire
from vgpu_sim.records import dataclass

PORT: Final = 4791
"""The UDP port of RoCEv2 (assigned by IANA)."""
_SOURCE_PORTS: Final = range(0xC000, 0x10000)  # the source ports, which the flow label selects
_IP_MTU_DISCOVER: Final = 10
_IPV6_MTU_DISCOVER: Final = 23
_PMTUDISC_DO: Final = 2
_SO_RCVBUFFORCE: Final = 33
_UDP_GRO: Final = 104
# 0: receive only groups that this socket has joined, not other sockets (linux/in.h, linux/in6.h)
_IP_MULTICAST_ALL: Final = 49
_IPV6_MULTICAST_ALL: Final = 29
_ECN_CAPABLE: Final = 2  # ECT(0), RFC 3168: routers mark such packets instead of dropping them
_RECEIVE_BYTES: Final = 8 << 20
_SEND_BYTES: Final = 4 << 20
_TRIES: Final = 64


@dataclass(frozen=True, slots=True)
class WireSockets:
    """UDP sockets that are bound to one IP address.

    The first socket receives on the port PORT. The other sockets only send.
    """

    address: WireAddress
    sockets: tuple[socket.socket, ...]
    segments: bool
    """Whether the kernel splits and merges buffers of packets (UDP_SEGMENT, UDP_GRO)."""
    groups: dict[bytes, socket.socket] = field(default_factory=dict)
    """The sockets that have joined multicast groups, by the group's GID: see ``open_group``."""

    @property
    def ports(self) -> tuple[int, ...]:
        """Return the UDP source port of each socket."""
        return tuple(opened.getsockname()[1] for opened in self.sockets)

    def to_hca_wire(self, path_mtu: int = HCA_MAX_MTU, bytes_per_second: int = 0) -> HcaWire:
        """Return the sockets as an ``HcaWire`` for the engine.

        ``path_mtu`` is the interface's path MTU, as ibv_mtu. The engine sends at most
        ``bytes_per_second``; 0 means no limit.
        """
        wire = HcaWire(
            scope=self.address.scope,
            lanes=len(self.sockets),
            segments=int(self.segments),
            path_mtu=path_mtu,
            bytes_per_second=bytes_per_second,
        )
        ctypes.memmove(wire.gid, self.address.gid, len(self.address.gid))
        for lane, (opened, port) in enumerate(zip(self.sockets, self.ports, strict=True)):
            wire.fds[lane], wire.ports[lane] = opened.fileno(), port
        return wire

    def close(self) -> None:
        """Close the sockets; duplicates of their descriptors stay open."""
        for opened in (*self.sockets, *self.groups.values()):
            opened.close()


def open_sockets(
    address: WireAddress, lanes: int = HCA_WIRE_LANES, segments: bool = False
) -> WireSockets:
    """Bind UDP sockets to an address, in this process's network namespace.

    Raises:
        NoWire: the address does not exist, or another process uses its port.
    """
    with ExitStack() as stack:
        try:
            receiving = stack.enter_context(_socket(address))
            receiving.bind(_name(address, PORT))
            _room(receiving)
            if segments:
                receiving.setsockopt(socket.IPPROTO_UDP, _UDP_GRO, 1)
            sending_sockets = [stack.enter_context(_sending(address)) for _ in range(lanes - 1)]
        except OSError as err:
            raise NoWire(f"cannot open UDP port {PORT} of {address.ip}: {err.strerror}") from err
        stack.pop_all()
    return WireSockets(address, (receiving, *sending_sockets), segments)


def open_group(address: WireAddress, group: bytes) -> socket.socket:
    """Return a socket that receives a multicast group at an address, in this network namespace.

    The kernel reports the membership to routers and switches (IGMP, MLD) as long as the socket
    is open. The group needs a separate socket, because a socket that is bound to a unicast
    address receives only what is sent to that address.

    Raises:
        OSError: the interface does not support such groups, or the address does not exist.
    """
    assert is_group(group)
    assert is_ipv4(group) == (address.ip.version == 4)
    with ExitStack() as stack:
        group_socket = socket.socket(
            socket.AF_INET if is_ipv4(group) else socket.AF_INET6, socket.SOCK_DGRAM
        )
        stack.enter_context(group_socket)
        group_socket.setblocking(False)
        # Another fabric of this machine may be in the group: every member receives its datagrams.
        group_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_ipv4(group):
            group_socket.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
            group_socket.bind((str(ipaddress.IPv4Address(group[12:])), PORT))
            _room(group_socket)
            entered = group[12:] + address.ip.packed  # struct ip_mreq
            group_socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, entered)
        else:
            group_socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_MULTICAST_ALL, 0)
            group_socket.bind((str(ipaddress.IPv6Address(group)), PORT, 0, address.interface))
            _room(group_socket)
            entered = group + struct.pack("=I", address.interface)  # struct ipv6_mreq
            group_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, entered)
        stack.pop_all()
    return group_socket


def _socket(address: WireAddress) -> socket.socket:
    four = address.ip.version == 4
    udp_socket = socket.socket(socket.AF_INET if four else socket.AF_INET6, socket.SOCK_DGRAM)
    udp_socket.setblocking(False)
    if four:
        udp_socket.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DO)
        udp_socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, _ECN_CAPABLE)
        udp_socket.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    else:
        udp_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        udp_socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_DO)
        udp_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, _ECN_CAPABLE)
        udp_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        if address.interface:  # for IPv4 the bound address identifies the interface
            udp_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, address.interface)
    udp_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
    return udp_socket


def _sending(address: WireAddress) -> socket.socket:
    """Return a socket that only sends; the kernel drops packets to its port."""
    sending_socket = _socket(address)
    sending_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
    for _ in range(_TRIES):
        try:
            sending_socket.bind(_name(address, secrets.choice(_SOURCE_PORTS)))
            return sending_socket
        except OSError as err:
            if err.errno != errno.EADDRINUSE:
                sending_socket.close()
                raise
    sending_socket.close()
    raise OSError(errno.EADDRINUSE, "no free port to send from")


def _name(address: WireAddress, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    if address.ip.version == 4:
        return (str(address.ip), port)
    return (str(address.ip), port, 0, address.scope)


def _room(receiving: socket.socket) -> None:
    """Request a receive buffer above net.core.rmem_max; without CAP_NET_ADMIN the kernel grants
    only that limit.
    """
    receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
    with suppress(PermissionError):
        receiving.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BYTES)
