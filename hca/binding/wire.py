"""Look up the addresses of an HCA function on a real network: those of its network interface.

The lookup happens in the network namespace of the calling process.
"""

import ctypes
import fcntl
import ipaddress
import socket
import struct
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from hca.binding.addresses import Address
from vgpu_sim.records import dataclass

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

PATH_MTUS: Final = (256, 512, 1024, 2048, 4096)
"""Payload bytes of a packet, by the value of ibv_mtu, which begins at 1."""
# IPv6, UDP, BTH, AtomicETH, ImmDt, ICRC: the most bytes of a packet besides its payload.
_OVERHEAD_BYTES: Final = 40 + 8 + 12 + 28 + 4 + 4
_SIOCGIFCONF: Final = 0x8912
_SIOCGIFMTU: Final = 0x8921
_NAME_BYTES: Final = 16
_IFREQ_BYTES: Final = 40
_MAX_ADDRESSES: Final = 1024  # of each version; a program may have added any number
_IPV6_TABLE: Final = Path("/proc/net/if_inet6")
_MAX_IPV6_BYTES: Final = 64 * _MAX_ADDRESSES  # a line has 54 characters, or a few more
_LINK_SCOPE: Final = 0x20
_NOT_USABLE: Final = 0x40 | 0x08  # tentative or duplicate


class NoWire(Exception):
    """The interface or address for a wire does not exist or cannot be used; the message states
    why.
    """


@dataclass(frozen=True, slots=True)
class WireAddress:
    """One address of a network interface.

    ``interface`` is the number of the interface, which IPv6 multicast needs; 0 means that the
    number was not looked up. ``scope`` is the number of the interface if the address is link-local,
    and 0 otherwise.
    """

    ip: IPAddress
    scope: int = 0
    interface: int = field(default=0, compare=False)

    @property
    def gid(self) -> bytes:
        """Return the address as a GID; an IPv4 address is mapped into IPv6 (RFC 4291, 2.5.5.2)."""
        if self.ip.version == 4:
            return b"\0" * 10 + b"\xff\xff" + self.ip.packed
        return self.ip.packed


@dataclass(frozen=True, slots=True)
class WireInterface:
    """A network interface: its name, its MTU in bytes, and the addresses that a function may
    have.
    """

    name: str
    mtu: int
    ipv4: WireAddress | None = None
    ipv6: WireAddress | None = None

    @property
    def addresses(self) -> tuple[WireAddress, ...]:
        """Return the interface's addresses that a function may have."""
        return tuple(address for address in (self.ipv4, self.ipv6) if address is not None)

    def path_mtu(self) -> int:
        """Return the largest ibv_mtu whose packets fit into the interface's MTU.

        Raises NoWire if not even packets of 256 bytes fit.
        """
        room = self.mtu - _OVERHEAD_BYTES
        fitting = [code for code, size in enumerate(PATH_MTUS, 1) if size <= room]
        if not fitting:
            raise NoWire(f"{self.name}: an MTU of {self.mtu} bytes is too small")
        return fitting[-1]

    def address(self, own: Address) -> Address:
        """Return a function's address on this interface.

        GID 0 is the interface's IPv6 address, GID 1 its IPv4 address. If the interface lacks one
        of them, the GID is taken from ``own``.
        """
        first, second = own.gids
        return replace(
            own,
            gids=(
                self.ipv6.gid if self.ipv6 is not None else first,
                self.ipv4.gid if self.ipv4 is not None else second,
            ),
        )


def find(name_or_address: str) -> WireInterface:
    """Return the interface that has the name or the address ``name_or_address``.

    If it is a name, the result has the interface's first IPv4 and first IPv6 address, and
    link-local addresses come last. If it is an address, the result has only this address.

    Raises:
        NoWire: there is no such interface, or its MTU is too small.
    """
    try:
        interface = _find_by_address(ipaddress.ip_address(name_or_address))
    except ValueError:
        interface = _find_by_name(name_or_address)
    interface.path_mtu()
    return interface


def _find_by_name(name: str) -> WireInterface:
    if name not in (interface_name for _, interface_name in socket.if_nameindex()):
        raise NoWire(f"there is no interface {name}")
    owned_addresses = _addresses()
    own_addresses = [address for owner, address in owned_addresses if owner == name]
    ipv4 = next((address for address in own_addresses if address.ip.version == 4), None)
    ipv6 = sorted(
        (address for address in own_addresses if address.ip.version == 6),
        key=lambda address: address.scope,
    )
    if ipv4 is None and not ipv6:
        raise NoWire(f"interface {name} has no IP address")
    return WireInterface(name, _mtu(name), ipv4, ipv6[0] if ipv6 else None)


def _find_by_address(ip: IPAddress) -> WireInterface:
    for name, address in _addresses():
        # Every address of 127.0.0.0/8 is the loopback interface's.
        if address.ip == ip or (name == "lo" and ip.version == 4 and ip.is_loopback):
            chosen = replace(address, ip=ip)
            four = ip.version == 4
            return WireInterface(
                name, _mtu(name), chosen if four else None, None if four else chosen
            )
    raise NoWire(f"no interface has the address {ip}")


def _addresses() -> list[tuple[str, WireAddress]]:
    return [*_ipv4(), *_ipv6()]


def _ipv4() -> list[tuple[str, WireAddress]]:
    room = ctypes.create_string_buffer(_IFREQ_BYTES * _MAX_ADDRESSES)
    request = struct.pack("iP", len(room), ctypes.addressof(room))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        (used, _) = struct.unpack("iP", fcntl.ioctl(asking, _SIOCGIFCONF, request))
    addresses = []
    for at in range(0, used, _IFREQ_BYTES):
        entry = room.raw[at : at + _IFREQ_BYTES]
        label = entry[:_NAME_BYTES].split(b"\0")[0].decode()
        packed = entry[_NAME_BYTES + 4 : _NAME_BYTES + 8]
        addresses.append((label.partition(":")[0], WireAddress(ipaddress.IPv4Address(packed))))
    return addresses


def _ipv6() -> list[tuple[str, WireAddress]]:
    try:
        with _IPV6_TABLE.open("rb") as file:
            text = file.read(_MAX_IPV6_BYTES).decode("ascii")
    except FileNotFoundError:  # the kernel lacks IPv6
        return []
    addresses = []
    if len(text) == _MAX_IPV6_BYTES:  # the last line may be incomplete
        text = text[: text.rfind("\n")]
    for line in text.splitlines():
        packed, index, _prefix, scope, flags, name = line.split()
        if int(flags, 16) & _NOT_USABLE:
            continue
        number = int(index, 16) if int(scope, 16) == _LINK_SCOPE else 0
        ip = ipaddress.IPv6Address(bytes.fromhex(packed))
        addresses.append((name, WireAddress(ip, number, int(index, 16))))
    return addresses


def _mtu(name: str) -> int:
    request = struct.pack("16s24x", name.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        reply = fcntl.ioctl(asking, _SIOCGIFMTU, request)
    (mtu,) = struct.unpack_from("i", reply, _NAME_BYTES)
    return int(mtu)
