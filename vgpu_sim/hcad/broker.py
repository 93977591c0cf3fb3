"""``python -m vgpu_sim.hcad.broker``: opens the wire's sockets in other network namespaces.

hcad has no privilege. Where functions belong to pods, this process stands beside it: it may enter
namespaces (CAP_SYS_ADMIN), and does nothing but open UDP sockets there and pass them on. Who asks
proves nothing by it: the namespace comes as a descriptor, which the asker must have opened itself.

One message a request on a SOCK_SEQPACKET socket that the broker inherits: the interface or address,
with the namespace's descriptor, or that of a socket in it. The reply is a line of JSON, with the
sockets' descriptors. It ends with that socket. On a node ``netd`` has the same protocol.
"""

import array
import ipaddress
import json
import os
import socket
from dataclasses import dataclass
from typing import Final

import click

from vgpu_sim.fabric.wire import NoWire, WireAddress, WireInterface, find
from vgpu_sim.fabric.wire_sockets import WireSockets, open_sockets
from vgpu_sim.hal.hca import HCA_WIRE_LANES
from vgpu_sim.hcad.namespaces import Rules, inside, namespace_of

MAX_REQUEST_BYTES: Final = 256
MAX_REPLY_BYTES: Final = 4096
_FAMILIES: Final = 2


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
        request = json.dumps({"wire": wanted, "segments": segments}).encode()
        socket.send_fds(self._link, [request], [namespace_fd])
        reply, descriptors, flags, _ = socket.recv_fds(
            self._link, MAX_REPLY_BYTES, _FAMILIES * HCA_WIRE_LANES
        )
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        try:
            if not reply or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise OSError("the broker does not answer")
            return _opened(json.loads(reply), sockets, segments)
        except BaseException:
            for opened in sockets:
                opened.close()
            raise


def _opened(said: dict[str, object], sockets: list[socket.socket], segments: bool) -> Opened:
    if "error" in said:
        raise NoWire(str(said["error"]))
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


@click.command()
@click.option("--socket-fd", type=int, required=True)
def main(socket_fd: int) -> None:
    """Serve the inherited socket SOCKET_FD until its other end is closed."""
    with socket.socket(fileno=socket_fd) as link:
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
            asked = json.loads(request)
            wanted, segments = str(asked["wire"]), bool(asked["segments"])
        except (ValueError, KeyError, TypeError):
            _refuse(link, "no request")
            return True
        _answer(link, own_fd, descriptors[0], wanted, segments, rules)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return True


def _answer(
    link: socket.socket, own_fd: int, descriptor: int, wanted: str, segments: bool, rules: Rules
) -> None:
    wires: list[WireSockets] = []
    try:
        with namespace_of(descriptor) as namespace_fd:
            rules.check(namespace_fd)
            with inside(namespace_fd, own_fd):
                rules.check_inside()
                interface = find(wanted)
                rules.check_interface(interface)
                wires.extend(
                    open_sockets(address, segments=segments) for address in interface.addresses
                )
        reply = {
            "name": interface.name,
            "mtu": interface.mtu,
            "addresses": [[str(address.ip), address.scope] for address in interface.addresses],
        }
        descriptors = array.array("i", [s.fileno() for wire in wires for s in wire.sockets])
        socket.send_fds(link, [json.dumps(reply).encode()], descriptors)
    except (NoWire, OSError) as err:
        _refuse(link, str(err))
    finally:
        for wire in wires:
            wire.close()


def _refuse(link: socket.socket, why: str) -> None:
    link.send(json.dumps({"error": why}).encode())


if __name__ == "__main__":
    main()
