"""Render tables as the second layer: nftables rules on the host's side of the pods' interfaces.

hcad evaluates all RDMA that passes through it, with every property of a flow. But a pod may also
send packets that it composes itself. The second layer's rules see such packets where the pod
cannot interfere. They drop packets from an address that is not the pod's, operations that the
pod and its peers may never request of each other, and packets that no HCA sends (fragments).
They check the source of every UDP packet, whatever its port, because a Service may change any
port to RoCE's after these rules. If the kernel later splits one buffer into packets, the rules
see the first packet only; a classifier ensures that all packets of a buffer are alike. The rules
are of family netdev. They are at both hooks of each interface that belongs to exactly one pod
(the egress hook needs Linux 5.16).

A new pod has no rules yet, and may have the address of a deleted pod. So rules of family inet
also guard the packets that the node forwards: RoCE passes no veth without rules, and no packet
passes whose destination the node has translated (DNAT). A device of the node may take a pod's
packet out of another packet (VXLAN, IPIP), behind the rules of the sender's link. So the same rules
check the source of every packet that enters the node, see ``rdma.forward_guard``.

The rules are the whole of two tables. One transaction replaces the chains and sets of the previous
rules, and keeps their counters, so that no dropped packet is lost from the counts.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rdma.forward_guard import PORT, Overlays, guard_table
from rdma.opcodes import allowed_opcodes_by_place
from rdma.reach import CM_QPN, EVERY_QPN, Ranges, Reach, shared_pkeys
from rdma.rules_text import (
    FAMILIES as IP_FAMILIES,
    PRIORITY,
    TABLE as TABLE,
    Present as Present,
    Table,
    clear_table,
    format_chain,
    interface_name,
    parse_address,
    remove_table,
)
from rdma.tables import Identity, NodeTables
from rdma.verbs import NONE, Verb

FAMILIES: Final = ("netdev", "inet")
"""The families of the two tables: for the pods' interfaces, and for packets to be forwarded."""
TOTALS: Final = (
    "spoofed",
    "fragment",
    "segments",
    "tagged",
    "partition",
    "peer",
    "operation",
    "stranger",
    "translated",
)
"""Counters of dropped packets by reason, for all pods' interfaces together."""
JOINED: Final = "joined"
"""Counter of packets dropped by the classifier, which runs before all rules and only for packets
from a pod.
"""
LINK_REASONS: Final = ("spoofed", "fragment", "segments", "tagged", "denied")
_UDP_BYTES: Final = 8
_HEADERS_BYTES: Final = 12 + 4 + 64  # BTH, ICRC, and the largest extended headers
_MOST_TOGETHER: Final = 63  # most packets that hcad sends in one buffer
_VLANS: Final = "{ 0x8100, 0x88a8 }"
_GUARD_ONLY: Final = ("stranger", "translated")
"""Counters that only the rules for received and forwarded packets have."""
_UNROUTED: Final = {"ip": "0.0.0.0", "ip6": "fe80::/10"}
"""For each IP family, a further source address of legitimate traffic (DHCP, mDNS), which no node
forwards.
"""

Operations = tuple[tuple[Ranges, frozenset[int]], ...]
"""Sets of opcodes that pass, each after the destination's queue pairs for which it passes."""


@dataclass(frozen=True, slots=True)
class Interface:
    """The host's end of a pod's only link: its name and index on the host, and the pod's identity.

    If ``identity`` is None, the pod is not known yet or has no HCA, and no RDMA passes. ``mtu``
    is the path MTU in bytes, one of InfiniBand's sizes.
    """

    name: str
    addresses: tuple[str, ...]
    identity: int | None
    mtu: int = 4096
    index: int = 0


def ruleset(
    tables: NodeTables,
    interfaces: Iterable[Interface],
    *,
    others: Iterable[str] | None = None,
    overlays: Overlays | None = None,
    present: Mapping[str, Present] | None = None,
) -> str:
    """Return the input of ``nft -f`` that replaces the second layer by rules for these tables.

    The second layer is Tessera's nftables rules on the node, which check the pods' packets.
    ``others`` are the veths that belong to no pod (for example, the node's own veth if the node is
    a container). If ``others`` is None, there are no rules for the packets that the node receives
    or forwards. ``overlays`` describes the node's devices that encapsulate packets. ``present`` has
    the table of each of ``FAMILIES`` that is loaded: counters that the new rules use continue.

    Raises:
        ValueError: an interface's name or address is invalid.
    """
    listed, loaded = tuple(interfaces), present or {}
    writer = _Writer(tables)
    parts = {"netdev": writer.table(listed)}
    if others is not None:
        links = [(interface.name, interface.addresses) for interface in listed]
        parts["inet"] = guard_table(links, frozenset(others), overlays or Overlays())
    cleared = (
        clear_table(family, loaded[family], parts[family].counters)
        if family in loaded and family in parts
        else remove_table(family)
        for family in FAMILIES
    )
    loaded_counters = {family: loaded[family].counters for family in loaded}
    texts = (
        part.text(family, loaded_counters.get(family, frozenset()))
        for family, part in parts.items()
    )
    return "".join((*cleared, *texts))


def removal() -> str:
    """Return the input of ``nft -f`` that removes the second layer, Tessera's nftables rules."""
    return "".join(map(remove_table, FAMILIES))


def link_counter(index: int, leaving: bool, reason: str) -> str:
    """Return the name of the counter of packets dropped at a link for one reason.

    ``index`` is the link's index on the host. If ``leaving`` is true, the counter is for packets
    from the pod; otherwise for packets to the pod.
    """
    return f"link_{index}_{'from' if leaving else 'to'}_{reason}"


class _Writer:
    def __init__(self, tables: NodeTables) -> None:
        self._reach = Reach(tables)
        self._identities: Mapping[int, Identity] = {
            identity.number: identity for identity in tables.identities
        }
        self._members: dict[tuple[int, int], list[str]] = {}
        """The addresses of pods, by identity and IP version."""
        for endpoint in tables.endpoints:
            version, address = parse_address(endpoint.address)
            self._members.setdefault((endpoint.identity, version), []).append(address)
        self._operations: dict[tuple[Operations, frozenset[int]], str] = {}

    def table(self, interfaces: tuple[Interface, ...]) -> Table:
        """Return the table for the pods' interfaces."""
        listed = sorted(interfaces, key=lambda interface: interface.name)
        local = sorted(self._identities.keys() & {interface.identity for interface in listed})
        kinds = [chain for number in local for chain in self._kind(self._identities[number])]
        numbered = [
            (interface.index or -place, interface) for place, interface in enumerate(listed, 1)
        ]
        links = [chain for key, interface in numbered for chain in self._link(abs(key), interface)]
        operations = [
            format_chain(name, _of(*permission)) for permission, name in self._operations.items()
        ]
        counters = [name for name in TOTALS if name not in _GUARD_ONLY]
        counters += [
            link_counter(abs(key), leaving, reason)
            for key, _ in numbered
            for leaving in (True, False)
            for reason in LINK_REASONS
        ]
        return Table(tuple(counters), (*self._sets(), *operations, *kinds, *links))

    def _sets(self) -> Iterator[str]:
        for (identity, version), addresses in sorted(self._members.items()):
            # With sets by type (nftables 1.1), nft 1.0.6, which a node may have, crashes when it
            # lists any.
            type_ = f"typeof {IP_FAMILIES[version]} saddr"
            elements = ", ".join(sorted(addresses))
            yield (
                f"set {_members(identity, version)} {{\n{type_}\nelements = {{ {elements} }}\n}}"
            )

    def _kind(self, own: Identity) -> list[str]:
        """Return the nftables chains for packets from and to pods of an identity.

        A chain returns for a packet that is denied.
        """
        leaving, coming = [], []
        for identity, version in sorted(self._members):
            peer = self._identities.get(identity)
            family, members = IP_FAMILIES[version], _members(identity, version)
            leaving.append(self._verdict(f"{family} daddr @{members} ", own, peer, peer is None))
            coming.append(self._verdict(f"{family} saddr @{members} ", peer, own, peer is None))
        leaving.append(self._verdict("", own, None))
        coming.append(self._verdict("", None, own))
        return [
            format_chain(f"leaving_{own.number}", leaving),
            format_chain(f"coming_{own.number}", coming),
        ]

    def _verdict(
        self,
        match: str,
        source: Identity | None,
        destination: Identity | None,
        strange: bool = False,
    ) -> str:
        """Return the nftables rule for packets from ``source`` to ``destination``.

        ``strange``: the other address belongs to an identity that is not in the tables.
        """
        forward = {} if strange else self._reach.ranges(source, destination)
        back = NONE if strange else _verbs(self._reach.ranges(destination, source))
        if Verb.CM in back:  # the responder's messages go to queue pair 1, too
            forward = {Verb.CM: CM_QPN, **forward}
        passing = allowed_opcodes_by_place(forward, back, EVERY_QPN)
        if not passing:
            return f"{match}counter name peer return"
        permission = tuple(sorted(passing.items())), shared_pkeys(source, destination)
        name = self._operations.setdefault(permission, f"operations_{len(self._operations)}")
        return f"{match}goto {name}"

    def _link(self, key: int, interface: Interface) -> list[str]:
        own: dict[int, list[str]] = {4: [], 6: []}
        for text in interface.addresses:
            version, address = parse_address(text)
            own[version].append(address)
        is_known = interface.identity is not None and interface.identity in self._identities
        chains = []
        for leaving, hook, side in ((True, "ingress", "saddr"), (False, "egress", "daddr")):
            place = "from" if leaving else "to"

            def drop(reason: str, leaving: bool = leaving) -> str:
                total = f"counter name {reason} " if reason in TOTALS else ""
                return f"{total}counter name {link_counter(key, leaving, reason)} drop"

            whose = f"{'leaving' if leaving else 'coming'}_{interface.identity}"
            # Checked for all ports: the node may translate a destination to RoCE's port later.
            sources = [
                f"{_not_among(family, side, [*addresses, _UNROUTED[family]])} {drop('spoofed')}"
                for family, addresses in (("ip", own[4]), ("ip6", own[6]))
            ]
            checks = [
                *(sources if leaving else ()),
                # Only the first fragment has the port; if it is dropped, the others never become a
                # packet.
                "ip frag-off & 0x1fff != 0 accept",
                "frag frag-off != 0 accept",
                f"udp dport != {PORT} accept",
                f"ip frag-off & 0x2000 != 0 {drop('fragment')}",
                f"exthdr frag exists {drop('fragment')}",
                # hcad sends packets of one operation together; a classifier checks those after the
                # first.
                f"udp length > {_most_bytes(interface.mtu)} {drop('segments')}",
                f"{_not_among('ip', side, own[4])} {drop('spoofed')}",
                f"{_not_among('ip6', side, own[6])} {drop('spoofed')}",
                f"jump {whose}" if is_known else "counter name peer",
                drop("denied"),
            ]
            hooked = [
                f'type filter hook {hook} device "{interface_name(interface.name)}"'
                f" priority {PRIORITY}; policy accept;",
                # A VLAN tag of ID 0 within another one is removed only after this hook.
                f"meta protocol {_VLANS} {drop('tagged')}",
                f"meta l4proto udp jump check_{place}_{key}",
            ]
            chains += [
                format_chain(f"check_{place}_{key}", checks),
                format_chain(f"{place}_{key}", hooked),
            ]
        return chains


def _verbs(ranges: Mapping[Verb, Ranges]) -> Verb:
    verbs = NONE
    for verb in ranges:
        verbs |= verb
    return verbs


def _most_bytes(mtu: int) -> int:
    return min(_UDP_BYTES + _MOST_TOGETHER * (mtu + _HEADERS_BYTES), 0xFFFF)


def _members(identity: int, version: int) -> str:
    return f"identity_{identity}_v{version}"


def _of(operations: Operations, pkeys: frozenset[int]) -> list[str]:
    """Return the nftables rules that accept permitted packets; other packets are counted and
    return.
    """
    keys = ", ".join(f"{pkey:#06x}" for pkey in sorted(pkeys))
    rules = [f"@th,80,16 & 0x7fff != {{ {keys} }} counter name partition return"]
    for ranges, codes in operations:
        listed = ", ".join(f"{code:#04x}" for code in sorted(codes))
        numbers = ", ".join(f"{a}-{b}" if a != b else f"{a}" for a, b in ranges)
        meant = "" if ranges == EVERY_QPN else f" @th,104,24 {{ {numbers} }}"
        rules.append(f"@th,64,8 {{ {listed} }}{meant} accept")
    return [*rules, "counter name operation return"]


def _not_among(family: str, side: str, addresses: list[str]) -> str:
    if not addresses:
        return f"meta protocol {family}"
    return f"{family} {side} != {{ {', '.join(sorted(addresses))} }}"
