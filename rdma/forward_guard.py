"""Rules for the packets that the node receives or forwards, behind those of the pods' links.

The rules of a pod's link check the packet that the pod sends. They do not see a packet inside it.
A device of the node (VXLAN, Geneve, IPIP, GRE) that takes the inner packet out lets it continue as
if it had come from another node. So these rules check two things:

- The source of every packet. A packet from a local pod's address must come by that pod's link,
  whichever device it comes from, also after decapsulation, and whatever its protocol.
- Encapsulation. A pod may not send encapsulated packets to the node's own address, nor towards
  other nodes if this node itself has a device of that encapsulation. Between pods they pass: such
  packets leave by a pod's link or by the overlay device, not by the node's uplink.

A veth that belongs to no pod is exempt: the uplink of a node that is a container, or the link of a
gateway, to which the node routes more than one address.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rdma.rules_text import (
    FAMILIES,
    PRIORITY,
    Table,
    format_chain,
    interface_name,
    parse_address,
)

PORT: Final = 4791
OVERLAY_PORTS: Final = (4789, 4790, 6080, 6081, 6635, 6784, 8285, 8472)
"""The UDP ports of encapsulations that the node may terminate without a device that is listed.

VXLAN, VXLAN-GPE, GUE, Geneve, MPLS, Weave, flannel's user-space backend, and Linux's VXLAN.
"""
ENCAPSULATIONS: Final = (4, 41, 47, 97, 115, 137)
"""IP protocols whose payload is a packet: IPv4, IPv6, GRE, EtherIP, L2TP and MPLS."""
_COUNTERS: Final = ("spoofed", "stranger", "translated")
_SPOOFED: Final = "counter name spoofed drop"


@dataclass(frozen=True, slots=True)
class Overlays:
    """The node's devices that encapsulate packets, and what they accept."""

    links: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    """UDP ports at which the node decapsulates packets."""
    protocols: tuple[int, ...] = ()
    """IP protocols that the node decapsulates."""


def guard_table(
    links: Iterable[tuple[str, Sequence[str]]], uplink_names: frozenset[str], overlays: Overlays
) -> Table:
    """Return the table for the packets that the node receives or forwards.

    ``links`` are the names and addresses of the pods' links, and ``uplink_names`` the veths
    that belong to no pod.

    Raises:
        ValueError: an interface's name or address is invalid.
    """
    pods = [(interface_name(name), addresses) for name, addresses in links]
    uplinks = frozenset(interface_name(name) for name in uplink_names)
    devices = frozenset(interface_name(name) for name in overlays.links)
    link_names = frozenset(name for name, _ in pods) | uplinks
    parts = (
        _link_set("known", link_names),
        _link_set("uplinks", uplinks),
        _link_set("overlays", devices),
        *_source_sets(pods),
        *_source_chains(),
        *_encapsulation_chains(overlays),
        *_forward_chains(),
    )
    return Table(_COUNTERS, parts)


def _source_sets(pods: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return sets of the local pods' addresses, alone and with the link of each."""
    pairs: dict[str, list[tuple[str, str]]] = {family: [] for family in FAMILIES.values()}
    for name, addresses in pods:
        for text in addresses:
            version, address = parse_address(text)
            pairs[FAMILIES[version]].append((address, name))
    sets = []
    for family, listed in pairs.items():
        listed.sort()
        alone = sorted({address for address, _ in listed})
        bound = [f'{address} . "{name}"' for address, name in listed]
        sets.append(_set(f"local_{family}", f"{family} saddr", alone))
        sets.append(_set(f"sources_{family}", f"{family} saddr . meta iifname", bound))
    return sets


def _source_chains() -> list[str]:
    """Return the chain that checks sources. It runs before the node translates addresses."""
    checks = [
        f"{family} saddr @local_{family} {family} saddr . meta iifname != @sources_{family}"
        f" {_SPOOFED}"
        for family in FAMILIES.values()
    ]
    rules = [
        f"type filter hook prerouting priority {PRIORITY}; policy accept;",
        'meta iifname "lo" accept',
        "meta iifname @uplinks accept",
        *checks,
    ]
    return [format_chain("sources", rules)]


def _encapsulation_chains(overlays: Overlays) -> list[str]:
    """Return the chains for encapsulated packets from pods to this node and to other nodes.

    At the input hook, fragments are reassembled and addresses translated.
    """
    ports = {*OVERLAY_PORTS, *overlays.ports}
    return [
        format_chain("to_node", _drop_encapsulated(ports, ENCAPSULATIONS)),
        format_chain(
            "to_underlay",
            [
                "meta oifname @overlays return",
                'meta oifkind "veth" meta oifname != @uplinks return',
                *_drop_encapsulated(overlays.ports, overlays.protocols),
            ],
        ),
        format_chain(
            "input",
            [
                f"type filter hook input priority {PRIORITY}; policy accept;",
                'meta iifkind "veth" meta iifname != @uplinks jump to_node',
            ],
        ),
    ]


def _drop_encapsulated(ports: Iterable[int], protocols: Iterable[int]) -> list[str]:
    matches = (("udp dport", ports), ("meta l4proto", protocols))
    return [
        f"{field} {{ {', '.join(map(str, sorted(set(values))))} }} {_SPOOFED}"
        for field, values in matches
        if values
    ]


def _forward_chains() -> list[str]:
    """Return the chains for forwarded packets, which run after the node's address translation."""
    drop = "counter name stranger drop"
    forward = [
        f"type filter hook forward priority {PRIORITY}; policy accept;",
        'meta iifkind "veth" meta iifname != @uplinks jump to_underlay',
        f"udp dport {PORT} ct status dnat counter name translated drop",
        f"udp dport {PORT} jump strangers",
    ]
    strangers = [
        f'meta iifkind "veth" meta iifname != @known {drop}',
        f'meta oifkind "veth" meta oifname != @known {drop}',
    ]
    return [format_chain("strangers", strangers), format_chain("forward", forward)]


def _link_set(name: str, links: frozenset[str]) -> str:
    return _set(name, "meta iifname", [f'"{link}"' for link in sorted(links)])


def _set(name: str, type_: str, elements: Sequence[str]) -> str:
    # With sets by type (nftables 1.1), nft 1.0.6, which a node may have, crashes when it lists any.
    listed = f"elements = {{ {', '.join(elements)} }}\n" if elements else ""
    return f"set {name} {{\ntypeof {type_}\n{listed}}}"
