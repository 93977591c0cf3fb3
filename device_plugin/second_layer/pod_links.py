"""Finds the link of each pod from the node's own routes. Pure.

A network plugin that gives each pod a veth and routes the pod's address to it (ptp, kindnet,
Calico) thereby identifies the pod of a veth by a route, which no pod can change. If pods share a
bridge or their addresses are not routed one by one, a pod could forge everything that identifies
it.
"""

from collections.abc import Mapping
from dataclasses import field
from ipaddress import ip_address
from typing import Final

from device_plugin.second_layer.kernel import Link, State
from rdma.second_layer import Interface
from rdma.tables import NodeTables
from vgpu_sim.records import dataclass

_VETH: Final = "veth"
_WHOLE: Final = {4: 32, 6: 128}
_MTUS: Final = (4096, 2048, 1024, 512, 256)
_HEADERS_BYTES: Final = 40 + 8 + 12 + 16 + 4 + 4  # IPv6, UDP, BTH, RETH, immediate data, ICRC

Bound = dict[tuple[str, str], int]
"""The index of each pod's link, by the pod's UID and address.

An entry stays the same while the tables have that address.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """The links that were found for pods, and the links that cannot be assigned to a pod."""

    interfaces: tuple[Interface, ...] = ()
    others: tuple[str, ...] = ()
    """Veths to which more than one address is routed.

    If the node is a container, its own uplink is one of these.
    """
    missing: Mapping[str, str] = field(default_factory=dict)
    """For each pod with an HCA ("ns/name") whose link was not found: the reason."""


def find(tables: NodeTables, state: State, bound: Bound) -> Found:
    """Find the pods' links. The caller keeps ``bound``, which this function modifies.

    A pod's address stays bound to the veth on which it was first found. If the address appears
    on another veth, that veth is not trusted: the pod may have ended, and its address may belong
    to another pod. The veth is trusted once the tables assign the address to a new pod.
    """
    links = {link.index: link for link in state.links if link.kind == _VETH}
    single, shared = _veths_by_route(state, links)
    claimed = {(pod.uid, address) for pod in tables.pods for address in pod.addresses}
    for gone in bound.keys() - claimed:
        del bound[gone]
    identities: dict[int, int] = {}
    missing: dict[str, str] = {}
    for pod in tables.pods:
        for address in pod.addresses:
            index = single.get(_text(address))
            if index is None:
                missing[pod.name] = f"{address} is not routed to a veth of its own"
            elif bound.setdefault((pod.uid, address), index) != index:
                missing[pod.name] = f"{address} is routed to another veth than before"
            else:
                identities[index] = pod.identity
    addresses: dict[int, list[str]] = {}
    for address, index in single.items():
        addresses.setdefault(index, []).append(address)
    interfaces = tuple(
        Interface(
            link.name,
            tuple(sorted(addresses[index])),
            identities.get(index),
            _path_mtu(link.mtu),
            index,
        )
        for index, link in sorted(links.items())
        if index in addresses
    )
    other_veths = tuple(sorted(links[index].name for index in shared))
    return Found(interfaces, other_veths, missing)


def _veths_by_route(state: State, links: Mapping[int, Link]) -> tuple[dict[str, int], set[int]]:
    """Return the veth of each address that has its own veth, and the veths with more addresses."""
    single: dict[str, int] = {}
    shared: set[int] = set()
    for route in state.routes:
        if route.link not in links:
            continue
        if not route.destination:
            shared.add(route.link)
            continue
        address = ip_address(route.destination)
        if address.is_link_local or address.is_multicast:
            continue  # a link-local route, which every link has
        if route.prefix == _WHOLE[address.version] and not route.has_gateway:
            single[str(address)] = route.link
        else:
            shared.add(route.link)
    return {a: index for a, index in single.items() if index not in shared}, shared


def _text(address: str) -> str:
    return str(ip_address(address))


def _path_mtu(interface_bytes: int) -> int:
    """Return the largest path MTU with which packets fit an interface of this size.

    If none does, return the smallest path MTU.
    """
    room = interface_bytes - _HEADERS_BYTES
    return next((path_mtu for path_mtu in _MTUS if path_mtu <= room), _MTUS[-1])
