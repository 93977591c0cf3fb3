"""UDP sockets that RoCEv2 packets of one address go through.

Unconnected, and with the kernel's discovery of path MTUs: so each packet leaves with "don't
fragment" and identification 0, which its ICRC covers and which user space cannot see.
"""

import ctypes
import errno
import ipaddress
import secrets
import socket
import struct
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

from hca.binding.addresses import is_group, is_ipv4
from hca.binding.wire import NoWire, WireAddress
from hca.contract.hca import HCA_MAX_MTU
from hca.contract.hca_engine import HCA_WIRE_LANES, HcaWire

PORT: Final = 4791
"""RoCEv2 (IANA)."""
_SOURCE_PORTS: Final = range(0xC000, 0x10000)  # what flow labels are mapped to
_IP_MTU_DISCOVER: Final = 10
_IPV6_MTU_DISCOVER: Final = 23
_PMTUDISC_DO: Final = 2
_SO_RCVBUFFORCE: Final = 33
_UDP_GRO: Final = 104
# 0: what others on this machine have entered is not ours (linux/in.h, linux/in6.h).
_IP_MULTICAST_ALL: Final = 49
_IPV6_MULTICAST_ALL: Final = 29
_ECN_CAPABLE: Final = 2  # ECT(0), RFC 3168: routers mark such packets instead of dropping them
_RECEIVE_BYTES: Final = 8 << 20
_SEND_BYTES: Final = 4 << 20
_TRIES: Final = 64


@dataclass(frozen=True, slots=True)
class WireSockets:
    """Sockets of one address. The first receives on PORT; the others only send."""

    address: WireAddress
    sockets: tuple[socket.socket, ...]
    segments: bool
    """Whether the kernel cuts and joins buffers (UDP_SEGMENT, UDP_GRO)."""
    groups: dict[bytes, socket.socket] = field(default_factory=dict)
    """By the GIDs of multicast groups, sockets that are in them now: see ``open_group``."""

    @property
    def ports(self) -> tuple[int, ...]:
        """Return the port that each sends from."""
        return tuple(opened.getsockname()[1] for opened in self.sockets)

    def structure(self, path_mtu: int = HCA_MAX_MTU, bytes_per_second: int = 0) -> HcaWire:
        """Return them as the engine takes them.

        ``path_mtu`` is the interface's, as ibv_mtu; at most ``bytes_per_second`` are sent, 0 for no
        limit.
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
        """Close them; who duplicated them keeps theirs."""
        for opened in (*self.sockets, *self.groups.values()):
            opened.close()


def open_sockets(
    address: WireAddress, lanes: int = HCA_WIRE_LANES, segments: bool = False
) -> WireSockets:
    """Bind sockets to an address, in this process's network namespace.

    Raises:
        NoWire: the address is not there, or somebody else has its port.
    """
    with ExitStack() as stack:
        try:
            receiving = stack.enter_context(_socket(address))
            receiving.bind(_name(address, PORT))
            _room(receiving)
            if segments:
                receiving.setsockopt(socket.IPPROTO_UDP, _UDP_GRO, 1)
            others = [stack.enter_context(_sending(address)) for _ in range(lanes - 1)]
        except OSError as err:
            raise NoWire(f"UDP {address.ip} port {PORT}: {err.strerror}") from err
        stack.pop_all()
    return WireSockets(address, (receiving, *others), segments)


def open_group(address: WireAddress, group: bytes) -> socket.socket:
    """Return a socket that hears a multicast group at an address, in this process's namespace.

    The kernel tells routers and switches (IGMP, MLD) as long as it is open. It is a socket of its
    own because one that is bound to an address gets nothing that is sent to another.

    Raises:
        OSError: the interface has no such groups, or the address is not there.
    """
    assert is_group(group)
    assert is_ipv4(group) == (address.ip.version == 4)
    with ExitStack() as stack:
        made = socket.socket(
            socket.AF_INET if is_ipv4(group) else socket.AF_INET6, socket.SOCK_DGRAM
        )
        stack.enter_context(made)
        made.setblocking(False)
        # Another fabric of this machine may be in it: of a group all get everything.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_ipv4(group):
            made.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
            made.bind((str(ipaddress.IPv4Address(group[12:])), PORT))
            _room(made)
            entered = group[12:] + address.ip.packed  # struct ip_mreq
            made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, entered)
        else:
            made.setsockopt(socket.IPPROTO_IPV6, _IPV6_MULTICAST_ALL, 0)
            made.bind((str(ipaddress.IPv6Address(group)), PORT, 0, address.interface))
            _room(made)
            entered = group + struct.pack("=I", address.interface)  # struct ipv6_mreq
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, entered)
        stack.pop_all()
    return made


def _socket(address: WireAddress) -> socket.socket:
    four = address.ip.version == 4
    made = socket.socket(socket.AF_INET if four else socket.AF_INET6, socket.SOCK_DGRAM)
    made.setblocking(False)
    if four:
        made.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DO)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, _ECN_CAPABLE)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    else:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_DO)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, _ECN_CAPABLE)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        if address.interface:  # of IPv4 the kernel knows it by the address that it is bound to
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, address.interface)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
    return made


def _sending(address: WireAddress) -> socket.socket:
    """Return a socket that never receives: what comes to its port is dropped by the kernel."""
    made = _socket(address)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
    for _ in range(_TRIES):
        try:
            made.bind(_name(address, secrets.choice(_SOURCE_PORTS)))
            return made
        except OSError as err:
            if err.errno != errno.EADDRINUSE:
                made.close()
                raise
    made.close()
    raise OSError(errno.EADDRINUSE, "no free port to send from")


def _name(address: WireAddress, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    if address.ip.version == 4:
        return (str(address.ip), port)
    return (str(address.ip), port, 0, address.scope)


def _room(receiving: socket.socket) -> None:
    """Ask for more than net.core.rmem_max allows; without CAP_NET_ADMIN it is that."""
    receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
    with suppress(PermissionError):
        receiving.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BYTES)
