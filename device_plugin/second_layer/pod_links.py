"""Which link of the node is which pod's, told from the node's own routes. Pure.

A network plugin that gives each pod a veth and routes its address there (ptp, kindnet, Calico) says
by the route whose the veth is, and no pod can change that. Where pods share a bridge or their
addresses are not routed one by one, there is nothing to go by that a pod could not forge.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from device_plugin.second_layer.kernel import Link, State
from rdma.second_layer import Interface
from rdma.tables import NodeTables

_VETH: Final = "veth"
_WHOLE: Final = {4: 32, 6: 128}
_MTUS: Final = (4096, 2048, 1024, 512, 256)
_HEADERS_BYTES: Final = 40 + 8 + 12 + 16 + 4 + 4  # IPv6, UDP, BTH, RETH, immediate data, ICRC

Bound = dict[tuple[str, str], int]
"""The link of a pod's address (UID, address), from when the tables began to have it."""


@dataclass(frozen=True, slots=True)
class Found:
    """The links with a pod behind them, and what is not one."""

    interfaces: tuple[Interface, ...] = ()
    others: tuple[str, ...] = ()
    """Veths by which more than single addresses are reached: the node's own, in a container."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Pods with an HCA ("ns/name") whose link was not found, and why."""


def find(tables: NodeTables, state: State, bound: Bound) -> Found:
    """Tell the pods' links. ``bound`` is kept by the caller, and changed here.

    A veth that comes later for a pod's address is not believed to be that pod's: the pod may have
    ended, and its address be another's. It is when tables have begun to have the address anew.
    """
    links = {link.index: link for link in state.links if link.kind == _VETH}
    single, shared = _routed(state, links)
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
                missing[pod.name] = f"{address} is routed to another veth than when it came"
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
    others = tuple(sorted(links[index].name for index in shared))
    return Found(interfaces, others, missing)


def _routed(state: State, links: Mapping[int, Link]) -> tuple[dict[str, int], set[int]]:
    """Return the veths of single addresses, and those that lead to more."""
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
            continue  # of every link
        if route.prefix == _WHOLE[address.version] and not route.has_gateway:
            single[str(address)] = route.link
        else:
            shared.add(route.link)
    return {a: index for a, index in single.items() if index not in shared}, shared


def _text(address: str) -> str:
    return str(ip_address(address))


def _path_mtu(interface_bytes: int) -> int:
    """Return the largest path MTU whose packets fit; what is smaller than all has the least."""
    room = interface_bytes - _HEADERS_BYTES
    return next((one for one in _MTUS if one <= room), _MTUS[-1])
