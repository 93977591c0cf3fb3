"""The second layer: tables as rules of nftables on the host's side of the pods' interfaces.

hcad judges everything that goes through it, with all that it knows. A pod may also write packets of
its own; these rules see them where the pod cannot reach: who sends from an address that is not its
own, what its peers and it may never do to each other, and what no HCA sends (fragments). The
source of every UDP packet is checked, whatever its port, because a Service may map any port to
RoCE's behind these rules. Of packets that a later hop cuts out of one buffer rules see the first
alone; a classifier beside them sees to it that all are alike. Family netdev, both hooks of an
interface that has one pod behind it (Linux 5.16 for the outgoing one).

A pod that has just come has no rules yet, maybe with the address of one that has gone. So what the
node forwards is guarded besides (family inet): RoCE passes no veth that has no rules, and none
passes whose destination the node has translated (DNAT).

The rules are the whole of two tables that replace those before in a single transaction. Counters
go on where ``counts`` says they were.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from rdma.opcodes import allowed_where
from rdma.reach import CM_QPN, EVERY_QPN, Ranges, Reach, shared_pkeys
from rdma.tables import Identity, NodeTables
from rdma.verbs import NONE, Verb

TABLE: Final = "tessera_rdma"
PORT: Final = 4791
TOTALS: Final = (
    *("spoofed", "fragment", "segments", "tagged"),
    *("partition", "peer", "operation"),
    *("stranger", "translated"),
)
"""Counters of what was dropped and why, on all links together."""
JOINED: Final = "joined"
"""What the classifier drops, which stands before all rules; of leaving packets alone."""
LINK_REASONS: Final = ("spoofed", "fragment", "segments", "tagged", "denied")
_UDP_BYTES: Final = 8
_HEADERS_BYTES: Final = 12 + 4 + 64  # BTH, ICRC, and the longest row of extended headers
_MOST_TOGETHER: Final = 63  # packets that hcad sends in one buffer
_PRIORITY: Final = -150
_FAMILIES: Final = {4: "ip", 6: "ip6"}
_VLANS: Final = "{ 0x8100, 0x88a8 }"
_FORWARDED: Final = ("stranger", "translated")
"""Counters of what is dropped where the node forwards."""
_UNROUTED: Final = {"ip": "0.0.0.0", "ip6": "fe80::/10"}
"""Sources that ordinary traffic has besides a pod's own (DHCP, mDNS), and that no node forwards."""

Operations = tuple[tuple[Ranges, frozenset[int]], ...]
"""Opcodes that pass, by the queue pairs that they may be meant for."""


@dataclass(frozen=True, slots=True)
class Interface:
    """The host's end of a pod's only link: its name and index here, and who is behind it.

    ``identity`` None: nothing is known of the pod yet, or it has no HCA; nothing of RDMA passes.
    ``mtu`` is the path MTU in bytes, of InfiniBand's.
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
    counts: Mapping[str, int] | None = None,
) -> str:
    """Return what ``nft -f`` loads: the tables as they are to be, whatever was there.

    ``others`` are the veths that have no pod behind them, such as a node's own in a container;
    None: what is forwarded is not guarded. ``counts`` are packets by the counters' names.

    Raises:
        ValueError: an interface's name or address is none.
    """
    writer, listed = _Writer(tables, counts or {}), tuple(interfaces)
    guard = "" if others is None else writer.guard({one.name for one in listed} | set(others))
    return removal() + writer.table(listed) + guard


def removal() -> str:
    """Return what ``nft -f`` loads to leave nothing behind."""
    families = ("netdev", "inet")
    return "".join(f"table {one} {TABLE}\ndelete table {one} {TABLE}\n" for one in families)


def link_counter(index: int, leaving: bool, reason: str) -> str:
    """Return the name of the counter of a link's drops, by the link's index and direction."""
    return f"link_{index}_{'from' if leaving else 'to'}_{reason}"


class _Writer:
    def __init__(self, tables: NodeTables, counts: Mapping[str, int]) -> None:
        self._reach = Reach(tables)
        self._counts = counts
        self._identities: Mapping[int, Identity] = {one.number: one for one in tables.identities}
        self._members: dict[tuple[int, int], list[str]] = {}
        """Addresses of an identity, by IP version."""
        for endpoint in tables.endpoints:
            version, address = _address(endpoint.address)
            self._members.setdefault((endpoint.identity, version), []).append(address)
        self._operations: dict[tuple[Operations, frozenset[int]], str] = {}

    def table(self, interfaces: tuple[Interface, ...]) -> str:
        listed = sorted(interfaces, key=lambda one: one.name)
        local = sorted(self._identities.keys() & {one.identity for one in listed})
        kinds = [chain for number in local for chain in self._kind(self._identities[number])]
        numbered = [(one.index or -place, one) for place, one in enumerate(listed, 1)]
        links = [chain for key, one in numbered for chain in self._link(abs(key), one)]
        operations = [_chain(name, _of(*wanted)) for wanted, name in self._operations.items()]
        counters = [self._counter(name) for name in TOTALS if name not in _FORWARDED]
        counters += [
            self._counter(link_counter(abs(key), leaving, reason))
            for key, _ in numbered
            for leaving in (True, False)
            for reason in LINK_REASONS
        ]
        parts = [*counters, *self._sets(), *operations, *kinds, *links]
        return "\n".join([f"table netdev {TABLE} {{", *parts, "}", ""])

    def guard(self, known: set[str]) -> str:
        """Return the table for what the node forwards, behind its address translation."""
        elements = ", ".join(f'"{_name(one)}"' for one in sorted(known))
        listed = f"elements = {{ {elements} }}\n" if elements else ""
        drop = "counter name stranger drop"
        forward = [
            f"type filter hook forward priority {_PRIORITY}; policy accept;",
            f"udp dport {PORT} ct status dnat counter name translated drop",
            f"udp dport {PORT} jump strangers",
        ]
        strangers = [
            f'meta iifkind "veth" meta iifname != @known {drop}',
            f'meta oifkind "veth" meta oifname != @known {drop}',
        ]
        parts = [
            *map(self._counter, _FORWARDED),
            f"set known {{\ntypeof meta iifname\n{listed}}}",
            _chain("strangers", strangers),
            _chain("forward", forward),
        ]
        return "\n".join([f"table inet {TABLE} {{", *parts, "}", ""])

    def _counter(self, name: str) -> str:
        return f"counter {name} {{ packets {self._counts.get(name, 0)} bytes 0 }}"

    def _sets(self) -> Iterator[str]:
        for (identity, version), addresses in sorted(self._members.items()):
            # By type, a set of nftables 1.1 ends nft 1.0.6, a node's maybe, at whatever it lists.
            type_ = f"typeof {_FAMILIES[version]} saddr"
            elements = ", ".join(sorted(addresses))
            yield (
                f"set {_members(identity, version)} {{\n{type_}\nelements = {{ {elements} }}\n}}"
            )

    def _kind(self, own: Identity) -> list[str]:
        """What may leave a pod of an identity, and what may come to it; all else returns."""
        leaving, coming = [], []
        for identity, version in sorted(self._members):
            peer = self._identities.get(identity)
            family, members = _FAMILIES[version], _members(identity, version)
            leaving.append(self._verdict(f"{family} daddr @{members} ", own, peer, peer is None))
            coming.append(self._verdict(f"{family} saddr @{members} ", peer, own, peer is None))
        leaving.append(self._verdict("", own, None))
        coming.append(self._verdict("", None, own))
        return [_chain(f"leaving_{own.number}", leaving), _chain(f"coming_{own.number}", coming)]

    def _verdict(
        self,
        match: str,
        source: Identity | None,
        destination: Identity | None,
        strange: bool = False,
    ) -> str:
        """Return the rule for packets of one to the other; ``strange``: tables do not say who."""
        forward = {} if strange else self._reach.ranges(source, destination)
        back = NONE if strange else _verbs(self._reach.ranges(destination, source))
        if Verb.CM in back:  # who is asked answers, and says when it ends: to queue pair 1, too
            forward = {Verb.CM: CM_QPN, **forward}
        passing = allowed_where(forward, back, EVERY_QPN)
        if not passing:
            return f"{match}counter name peer return"
        wanted = tuple(sorted(passing.items())), shared_pkeys(source, destination)
        name = self._operations.setdefault(wanted, f"operations_{len(self._operations)}")
        return f"{match}goto {name}"

    def _link(self, key: int, one: Interface) -> list[str]:
        own: dict[int, list[str]] = {4: [], 6: []}
        for text in one.addresses:
            version, address = _address(text)
            own[version].append(address)
        known = one.identity is not None and one.identity in self._identities
        chains = []
        for leaving, hook, side in ((True, "ingress", "saddr"), (False, "egress", "daddr")):
            place = "from" if leaving else "to"

            def drop(reason: str, leaving: bool = leaving) -> str:
                total = f"counter name {reason} " if reason in TOTALS else ""
                return f"{total}counter name {link_counter(key, leaving, reason)} drop"

            whose = f"{'leaving' if leaving else 'coming'}_{one.identity}"
            # To another port it may still be RoCE when the node has translated its destination.
            sources = [
                f"{_not_among(family, side, [*addresses, _UNROUTED[family]])} {drop('spoofed')}"
                for family, addresses in (("ip", own[4]), ("ip6", own[6]))
            ]
            judge = [
                *(sources if leaving else ()),
                # The first fragment has the port; without it the others never become a packet.
                "ip frag-off & 0x1fff != 0 accept",
                "frag frag-off != 0 accept",
                f"udp dport != {PORT} accept",
                f"ip frag-off & 0x2000 != 0 {drop('fragment')}",
                f"exthdr frag exists {drop('fragment')}",
                # hcad sends packets of one operation together; a classifier looks behind the first.
                f"udp length > {_most_bytes(one.mtu)} {drop('segments')}",
                f"{_not_among('ip', side, own[4])} {drop('spoofed')}",
                f"{_not_among('ip6', side, own[6])} {drop('spoofed')}",
                f"jump {whose}" if known else "counter name peer",
                drop("denied"),
            ]
            hooked = [
                f'type filter hook {hook} device "{_name(one.name)}" priority {_PRIORITY};'
                " policy accept;",
                # A tag of VLAN 0 within another one is taken off behind this hook.
                f"meta protocol {_VLANS} {drop('tagged')}",
                f"meta l4proto udp jump judge_{place}_{key}",
            ]
            chains += [_chain(f"judge_{place}_{key}", judge), _chain(f"{place}_{key}", hooked)]
        return chains


def _verbs(ranges: Mapping[Verb, Ranges]) -> Verb:
    found = NONE
    for verb in ranges:
        found |= verb
    return found


def _name(text: str) -> str:
    if not text or not text.isprintable() or any(c in text for c in '"\\/ *'):
        raise ValueError(f"interface {text!r}: no name of a link")
    return text


def _most_bytes(mtu: int) -> int:
    return min(_UDP_BYTES + _MOST_TOGETHER * (mtu + _HEADERS_BYTES), 0xFFFF)


def _address(text: str) -> tuple[int, str]:
    """Return the IP version and an address as nft writes it; a scope would be another's text."""
    address = ip_address(text)
    if getattr(address, "scope_id", None) is not None:
        raise ValueError(f"address {text!r}: has a scope")
    return address.version, str(address)


def _members(identity: int, version: int) -> str:
    return f"identity_{identity}_v{version}"


def _of(operations: Operations, pkeys: frozenset[int]) -> list[str]:
    """Return the rules of what passes; what does not is counted and returns."""
    keys = ", ".join(f"{one:#06x}" for one in sorted(pkeys))
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


def _chain(name: str, rules: list[str]) -> str:
    return "\n".join([f"chain {name} {{", *rules, "}"])
