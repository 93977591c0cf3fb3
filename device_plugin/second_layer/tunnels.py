"""Finds the node's devices that encapsulate packets, and the UDP ports that decapsulate them."""

from collections.abc import Iterable
from typing import Final

from device_plugin.second_layer.kernel import Link
from rdma.forward_guard import Overlays

_PROTOCOLS: Final = {
    **dict.fromkeys(("gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan"), (47,)),
    "ipip": (4,),
    "sit": (4, 41),
    "ip6tnl": (4, 41),
    "vxlan": (),
    "geneve": (),
    "bareudp": (),
}
"""The IP protocols of each kind of device that encapsulates packets without a key."""


def find_overlays(links: Iterable[Link], listeners: Iterable[int]) -> Overlays:
    """Return the devices among ``links`` that encapsulate packets.

    ``listeners`` are the UDP ports of the node's FOU and GUE receivers. A device that is down, such
    as ``tunl0`` after its module is loaded, receives nothing.
    """
    devices = [link for link in links if link.kind in _PROTOCOLS and link.is_up]
    ports = {port for link in devices for port in link.ports} | set(listeners)
    protocols = {number for link in devices for number in _PROTOCOLS[link.kind]}
    return Overlays(
        tuple(sorted(link.name for link in devices)),
        tuple(sorted(ports)),
        tuple(sorted(protocols)),
    )
