"""``python -m hca.daemon.netd.broker``: open the wire's sockets in other network namespaces.

hcad has no privilege. So a broker, which may enter namespaces (CAP_SYS_ADMIN), opens UDP sockets
there and sends their descriptors to hcad. It does nothing else. A request gives its sender no
further access: the request names the namespace by a descriptor, so the sender must have opened
the namespace already.

Each request is one message on a SOCK_SEQPACKET socket that the broker inherits. The message
contains the interface or address, and the descriptor of the namespace or of a socket in the
namespace; for a multicast socket also the group. The reply is a line of JSON with the sockets'
descriptors. The broker ends when the inherited socket is closed. On a node ``netd`` serves the
same protocol, with ``serve``.
"""

import array
import ipaddress
import json
import os
import socket
from collections.abc import Callable, Mapping
from typing import Final, Self, TypeVar

import click

from hca.binding.addresses import is_group, is_ipv4
from hca.binding.wire import NoWire, WireAddress, WireInterface, find
from hca.binding.wire_sockets import WireSockets, open_group, open_sockets
from hca.contract.hca_engine import HCA_WIRE_LANES
from hca.daemon.netd.namespaces import Rules, inside, namespace_of
from vgpu_sim.options import Given, command_line, option
from vgpu_sim.records import dataclass

MAX_REQUEST_BYTES: Final = 256
MAX_REPLY_BYTES: Final = 4096
_FAMILIES: Final = 2
_GID_BYTES: Final = 16
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class OpenedSockets:
    """The broker's reply: the interface, and UDP sockets for each of its addresses."""

    interface: WireInterface
    wires: tuple[WireSockets, ...]

    def close(self) -> None:
        """Close the sockets for all addresses."""
        for wire in self.wires:
            wire.close()


class Broker:
    """hcad's end of the broker's socket, through which hcad requests sockets."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def open(
        self, namespace_fd: int, name_or_address: str, segments: bool = False
    ) -> OpenedSockets:
        """Open UDP sockets in a network namespace.

        ``name_or_address`` is the name of an interface, or an address. ``namespace_fd`` is a
        descriptor of the namespace, or of a socket that was made in the namespace. If ``segments``
        is set, the kernel may split and merge buffers.

        Raises:
            NoWire: the broker refuses; the message states why.
            OSError: the broker has ended.
        """
        request = {"wire": name_or_address, "segments": segments}
        return self._send_request(
            namespace_fd, request, lambda answer, sockets: _read_opened(answer, sockets, segments)
        )

    def open_group(self, namespace_fd: int, address: str, group: bytes) -> socket.socket:
        """Open a socket that receives the datagrams of a multicast group at an address.

        Raises NoWire and OSError as ``open`` does.
        """
        request = {"wire": address, "segments": False, "group": group.hex()}
        return self._send_request(namespace_fd, request, _read_group_socket)

    def _send_request(
        self,
        namespace_fd: int,
        request: Mapping[str, object],
        read: Callable[[dict[str, object], list[socket.socket]], _T],
    ) -> _T:
        socket.send_fds(self._link, [json.dumps(request).encode()], [namespace_fd])
        reply, descriptors, flags, _ = socket.recv_fds(
            self._link, MAX_REPLY_BYTES, _FAMILIES * HCA_WIRE_LANES
        )
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        try:
            if not reply or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise OSError("the broker does not answer")
            answer = json.loads(reply)
            if "error" in answer:
                raise NoWire(str(answer["error"]))
            return read(answer, sockets)
        except BaseException:
            for opened in sockets:
                opened.close()
            raise


def _read_group_socket(answer: dict[str, object], sockets: list[socket.socket]) -> socket.socket:
    if "group" not in answer or len(sockets) != 1:  # an older broker opens a wire
        raise NoWire("the broker does not support multicast groups")
    return sockets[0]


def _read_opened(
    answer: dict[str, object], sockets: list[socket.socket], segments: bool
) -> OpenedSockets:
    addresses = [
        WireAddress(ipaddress.ip_address(str(ip)), int(str(scope)))
        for ip, scope in answer["addresses"]  # type: ignore[attr-defined]
    ]
    lanes = len(sockets) // len(addresses)
    wires = tuple(
        WireSockets(address, tuple(sockets[i * lanes : (i + 1) * lanes]), segments)
        for i, address in enumerate(addresses)
    )
    by_version = {address.ip.version: address for address in addresses}
    interface = WireInterface(
        str(answer["name"]), int(str(answer["mtu"])), by_version.get(4), by_version.get(6)
    )
    return OpenedSockets(interface, wires)


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for all sockets of an interface or address, or for one socket in a multicast
    group.
    """

    wire: str
    segments: bool
    group: bytes

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Parse a request. Raises ValueError, KeyError, TypeError if the request is invalid."""
        fields = json.loads(data)
        wire, segments = str(fields["wire"]), bool(fields["segments"])
        group = bytes.fromhex(fields.get("group", ""))
        if group and (len(group) != _GID_BYTES or not is_group(group)):
            raise ValueError(f"not a multicast group: {group.hex()[:64]}")
        return cls(wire, segments, group)

    def open(self, address: WireAddress) -> tuple[socket.socket, ...]:
        """Open the requested sockets for an address in the current namespace. Raises NoWire,
        OSError.
        """
        if not self.group:
            return open_sockets(address, segments=self.segments).sockets
        if is_ipv4(self.group) != (address.ip.version == 4):
            return ()
        return (open_group(address, self.group),)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command: the socket that the broker inherits."""

    socket_fd: int = option(required=True)


@click.command()
@command_line(Options)
def main(option_values: Given) -> None:
    """Serve the inherited socket SOCKET_FD until its other end is closed."""
    with socket.socket(fileno=option_values.make(Options).socket_fd) as link:
        serve(link)


def serve(link: socket.socket, rules: Rules | None = None) -> None:
    """Serve requests from the socket ``link`` until its end of file.

    Raises OSError if a reply cannot be sent.
    """
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        while _serve_one(link, own, rules or Rules()):
            pass
    finally:
        os.close(own)


def _serve_one(link: socket.socket, own_fd: int, rules: Rules) -> bool:
    data, descriptors, flags, _ = socket.recv_fds(link, MAX_REQUEST_BYTES, 1)
    try:
        if not data:
            return False
        if len(descriptors) != 1 or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            _refuse(link, "a request is one short message with one descriptor")
            return True
        try:
            request = _Request.read(data)
        except (ValueError, KeyError, TypeError):
            _refuse(link, "not a valid request")
            return True
        _answer(link, own_fd, descriptors[0], request, rules)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return True


def _answer(
    link: socket.socket, own_fd: int, descriptor: int, request: _Request, rules: Rules
) -> None:
    opened: list[socket.socket] = []
    try:
        with namespace_of(descriptor) as namespace_fd:
            rules.check(namespace_fd)
            with inside(namespace_fd, own_fd):
                rules.check_inside()
                interface = find(request.wire)
                rules.check_interface(interface)
                for address in interface.addresses:
                    opened.extend(request.open(address))
        reply = {
            "name": interface.name,
            "mtu": interface.mtu,
            "addresses": [[str(address.ip), address.scope] for address in interface.addresses],
            **({"group": request.group.hex()} if request.group else {}),
        }
        descriptors = array.array("i", [opened_socket.fileno() for opened_socket in opened])
        socket.send_fds(link, [json.dumps(reply).encode()], descriptors)
    except (NoWire, OSError) as err:
        _refuse(link, str(err))
    finally:
        for opened_socket in opened:
            opened_socket.close()


def _refuse(link: socket.socket, why: str) -> None:
    link.send(json.dumps({"error": why}).encode())


if __name__ == "__main__":
    main()
