"""``python -m hca.daemon.netd.broker``: opens the wire's sockets in other network namespaces.

hcad has no privilege. Where functions belong to pods, this process stands beside it: it may enter
namespaces (CAP_SYS_ADMIN), and does nothing but open UDP sockets there and pass them on. Who asks
proves nothing by it: the namespace comes as a descriptor, which the asker must have opened itself.

One message a request on a SOCK_SEQPACKET socket that the broker inherits: the interface or address,
with the namespace's descriptor, or that of a socket in it; and for a socket in a multicast group
that. The reply is a line of JSON, with the sockets' descriptors. It ends with that socket. On a
node ``netd`` has the same protocol.
"""

import array
import ipaddress
import json
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self, TypeVar

import click

from hca.binding.addresses import is_group, is_ipv4
from hca.binding.wire import NoWire, WireAddress, WireInterface, find
from hca.binding.wire_sockets import WireSockets, open_group, open_sockets
from hca.contract.hca_engine import HCA_WIRE_LANES
from hca.daemon.netd.namespaces import Rules, inside, namespace_of
from vgpu_sim.options import Given, command_line, option

MAX_REQUEST_BYTES: Final = 256
MAX_REPLY_BYTES: Final = 4096
_FAMILIES: Final = 2
_GID_BYTES: Final = 16
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Opened:
    """What the broker has opened: the interface, and sockets of each of its addresses."""

    interface: WireInterface
    wires: tuple[WireSockets, ...]

    def close(self) -> None:
        """Close the sockets."""
        for wire in self.wires:
            wire.close()


class Broker:
    """hcad's end of the socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def open(self, namespace_fd: int, wanted: str, segments: bool = False) -> Opened:
        """Open sockets of the interface or address ``wanted`` in a network namespace.

        ``namespace_fd`` is that namespace, or a socket that was made in it.

        Raises:
            NoWire: the broker refuses; the message says why.
            OSError: it has gone.
        """
        asked = {"wire": wanted, "segments": segments}
        return self._ask(namespace_fd, asked, lambda said, all_: _opened(said, all_, segments))

    def open_group(self, namespace_fd: int, wanted: str, group: bytes) -> socket.socket:
        """Open a socket in a multicast group at an address. Raises NoWire, OSError, as ``open``."""
        asked = {"wire": wanted, "segments": False, "group": group.hex()}
        return self._ask(namespace_fd, asked, _of_group)

    def _ask(
        self,
        namespace_fd: int,
        asked: Mapping[str, object],
        read: Callable[[dict[str, object], list[socket.socket]], _T],
    ) -> _T:
        socket.send_fds(self._link, [json.dumps(asked).encode()], [namespace_fd])
        reply, descriptors, flags, _ = socket.recv_fds(
            self._link, MAX_REPLY_BYTES, _FAMILIES * HCA_WIRE_LANES
        )
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        try:
            if not reply or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise OSError("the broker does not answer")
            said = json.loads(reply)
            if "error" in said:
                raise NoWire(str(said["error"]))
            return read(said, sockets)
        except BaseException:
            for opened in sockets:
                opened.close()
            raise


def _of_group(said: dict[str, object], sockets: list[socket.socket]) -> socket.socket:
    if "group" not in said or len(sockets) != 1:  # it is older, and has opened a wire
        raise NoWire("it knows no multicast groups")
    return sockets[0]


def _opened(said: dict[str, object], sockets: list[socket.socket], segments: bool) -> Opened:
    addresses = [
        WireAddress(ipaddress.ip_address(str(ip)), int(str(scope)))
        for ip, scope in said["addresses"]  # type: ignore[attr-defined]
    ]
    lanes = len(sockets) // len(addresses)
    wires = tuple(
        WireSockets(address, tuple(sockets[i * lanes : (i + 1) * lanes]), segments)
        for i, address in enumerate(addresses)
    )
    by_version = {address.ip.version: address for address in addresses}
    interface = WireInterface(
        str(said["name"]), int(str(said["mtu"])), by_version.get(4), by_version.get(6)
    )
    return Opened(interface, wires)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request: all sockets of an interface or address, or one in a multicast group."""

    wire: str
    segments: bool
    group: bytes

    @classmethod
    def read(cls, request: bytes) -> Self:
        """Read one. Raises ValueError, KeyError, TypeError: it is none."""
        asked = json.loads(request)
        wire, segments = str(asked["wire"]), bool(asked["segments"])
        group = bytes.fromhex(asked.get("group", ""))
        if group and (len(group) != _GID_BYTES or not is_group(group)):
            raise ValueError("no group")
        return cls(wire, segments, group)

    def open(self, address: WireAddress) -> tuple[socket.socket, ...]:
        """Open what is wanted at an address, in the namespace. Raises NoWire, OSError."""
        if not self.group:
            return open_sockets(address, segments=self.segments).sockets
        if is_ipv4(self.group) != (address.ip.version == 4):
            return ()
        return (open_group(address, self.group),)


@dataclass(frozen=True, slots=True)
class Options:
    """The socket that the broker inherits."""

    socket_fd: int = option(required=True)


@click.command()
@command_line(Options)
def main(given: Given) -> None:
    """Serve the inherited socket SOCKET_FD until its other end is closed."""
    with socket.socket(fileno=given.make(Options).socket_fd) as link:
        serve(link)


def serve(link: socket.socket, rules: Rules | None = None) -> None:
    """Answer requests until there are none any more. Raises OSError: the other end has gone."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        while _serve_one(link, own, rules or Rules()):
            pass
    finally:
        os.close(own)


def _serve_one(link: socket.socket, own_fd: int, rules: Rules) -> bool:
    request, descriptors, flags, _ = socket.recv_fds(link, MAX_REQUEST_BYTES, 1)
    try:
        if not request:
            return False
        if len(descriptors) != 1 or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            _refuse(link, "a request brings one descriptor, and is short")
            return True
        try:
            asked = _Asked.read(request)
        except (ValueError, KeyError, TypeError):
            _refuse(link, "no request")
            return True
        _answer(link, own_fd, descriptors[0], asked, rules)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return True


def _answer(link: socket.socket, own_fd: int, descriptor: int, asked: _Asked, rules: Rules) -> None:
    opened: list[socket.socket] = []
    try:
        with namespace_of(descriptor) as namespace_fd:
            rules.check(namespace_fd)
            with inside(namespace_fd, own_fd):
                rules.check_inside()
                interface = find(asked.wire)
                rules.check_interface(interface)
                for address in interface.addresses:
                    opened.extend(asked.open(address))
        reply = {
            "name": interface.name,
            "mtu": interface.mtu,
            "addresses": [[str(address.ip), address.scope] for address in interface.addresses],
            **({"group": asked.group.hex()} if asked.group else {}),
        }
        descriptors = array.array("i", [one.fileno() for one in opened])
        socket.send_fds(link, [json.dumps(reply).encode()], descriptors)
    except (NoWire, OSError) as err:
        _refuse(link, str(err))
    finally:
        for one in opened:
            one.close()


def _refuse(link: socket.socket, why: str) -> None:
    link.send(json.dumps({"error": why}).encode())


if __name__ == "__main__":
    main()
