"""Save and restore wires in a handover: their interface, and their sockets, which keep receiving
meanwhile.
"""

import ipaddress
import socket
from collections.abc import Sequence

from hca.binding.wire import WireAddress, WireInterface
from hca.binding.wire_sockets import WireSockets
from hca.daemon.common.handover_state import HandoverState, Row


def save(
    interface: WireInterface, sockets: Sequence[WireSockets], handover_state: HandoverState
) -> Row:
    """Return the record of an interface and of its addresses' sockets for a successor."""
    return {
        "name": interface.name,
        "mtu": interface.mtu,
        "addresses": [_row(address) for address in interface.addresses],
        "wires": [
            {
                "address": _row(wire_sockets.address),
                "segments": wire_sockets.segments,
                "sockets": [
                    handover_state.add_descriptor(opened.fileno())
                    for opened in wire_sockets.sockets
                ],
                "groups": {
                    gid.hex(): handover_state.add_descriptor(opened.fileno())
                    for gid, opened in wire_sockets.groups.items()
                },
            }
            for wire_sockets in sockets
        ],
    }


def load(
    saved: Row, handover_state: HandoverState
) -> tuple[WireInterface, tuple[WireSockets, ...]]:
    """Restore an interface and its sockets from a predecessor's record.

    Raises:
        OSError, ValueError, KeyError, TypeError: the record is incomplete or invalid.
    """
    by_version = {address.ip.version: address for address in map(_address, saved["addresses"])}
    interface = WireInterface(
        str(saved["name"]), int(saved["mtu"]), by_version.get(4), by_version.get(6)
    )
    wires = tuple(
        WireSockets(
            _address(row["address"]),
            tuple(
                socket.socket(fileno=fd) for fd in handover_state.take_descriptors(row["sockets"])
            ),
            bool(row["segments"]),
            {
                bytes.fromhex(gid): socket.socket(fileno=handover_state.take_descriptor(place))
                for gid, place in row.get("groups", {}).items()
            },
        )
        for row in saved["wires"]
    )
    return interface, wires


def _row(address: WireAddress) -> list[object]:
    return [str(address.ip), address.scope, address.interface]


def _address(row: Sequence[object]) -> WireAddress:
    ip, *numbers = row  # records of older versions lack the interface's number
    return WireAddress(ipaddress.ip_address(str(ip)), *(int(str(number)) for number in numbers))
