"""Wires in a hand-over: their sockets, which go on receiving meanwhile, and what they are of."""

import ipaddress
import socket
from collections.abc import Sequence

from hca.binding.wire import WireAddress, WireInterface
from hca.binding.wire_sockets import WireSockets
from hca.daemon.common.handover_state import Luggage, Row


def save(interface: WireInterface, sockets: Sequence[WireSockets], luggage: Luggage) -> Row:
    """Write an interface and the sockets of its addresses for a successor."""
    return {
        "name": interface.name,
        "mtu": interface.mtu,
        "addresses": [_row(address) for address in interface.addresses],
        "wires": [
            {
                "address": _row(one.address),
                "segments": one.segments,
                "sockets": [luggage.pack(opened.fileno()) for opened in one.sockets],
                "groups": {
                    gid.hex(): luggage.pack(opened.fileno()) for gid, opened in one.groups.items()
                },
            }
            for one in sockets
        ],
    }


def load(saved: Row, luggage: Luggage) -> tuple[WireInterface, tuple[WireSockets, ...]]:
    """Take over what a predecessor saved.

    Raises:
        OSError, ValueError, KeyError, TypeError: what is missing or makes no sense.
    """
    by_version = {one.ip.version: one for one in map(_address, saved["addresses"])}
    interface = WireInterface(
        str(saved["name"]), int(saved["mtu"]), by_version.get(4), by_version.get(6)
    )
    wires = tuple(
        WireSockets(
            _address(row["address"]),
            tuple(socket.socket(fileno=fd) for fd in luggage.take_all(row["sockets"])),
            bool(row["segments"]),
            {
                bytes.fromhex(gid): socket.socket(fileno=luggage.take(place))
                for gid, place in row.get("groups", {}).items()
            },
        )
        for row in saved["wires"]
    )
    return interface, wires


def _row(address: WireAddress) -> list[object]:
    return [str(address.ip), address.scope, address.interface]


def _address(row: Sequence[object]) -> WireAddress:
    ip, *numbers = row  # of older ones: no number of the interface
    return WireAddress(ipaddress.ip_address(str(ip)), *(int(str(one)) for one in numbers))
