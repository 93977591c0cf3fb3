"""The second layer: tables as rules of nftables on the host's side of the pods' interfaces.

hcad judges everything that goes through it, with all that it knows. A pod may also write packets of
its own; these rules see them where the pod cannot reach: who sends from an address that is not its
own, what its peers and it may never do to each other, and what no HCA sends (fragments). Of
packets that a later hop cuts out of one buffer rules see the first alone; a classifier beside them
sees to it that all are alike. Family netdev, both hooks of an interface that has one pod behind it
(Linux 5.16 for the outgoing one).

The rules are the whole of a table that replaces the one before in a single transaction.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from rdma.opcodes import allowed
from rdma.reach import Reach
from rdma.tables import Identity, NodeTables
from rdma.verbs import NONE, Verb

TABLE = "tessera_rdma"
PORT = 4791
_UDP_BYTES = 8
_HEADERS_BYTES = 12 + 4 + 64  # BTH, ICRC, and the longest row of extended headers
_MOST_TOGETHER = 63  # packets that hcad sends in one buffer
_PRIORITY = -150
_FAMILIES = {4: "ip", 6: "ip6"}
_COUNTERS = ("spoofed", "fragment", "segments", "partition", "peer", "operation")


@dataclass(frozen=True, slots=True)
class Interface:
    """The host's end of a pod's only link: its name here, and who is behind it.

    ``identity`` None: nothing is known of the pod yet, and nothing of RDMA passes. ``mtu`` is the
    path MTU in bytes, of InfiniBand's.
    """

    name: str
    addresses: tuple[str, ...]
    identity: int | None
    mtu: int = 4096


def ruleset(tables: NodeTables, interfaces: Iterable[Interface]) -> str:
    """Return what ``nft -f`` loads: the table as it is to be, whatever was there.

    Raises:
        ValueError: an interface's name or address is none.
    """
    return f"table netdev {TABLE}\ndelete table netdev {TABLE}\n" + _Writer(tables).table(
        interfaces
    )


def removal() -> str:
    """Return what ``nft -f`` loads to leave nothing behind."""
    return f"table netdev {TABLE}\ndelete table netdev {TABLE}\n"


class _Writer:
    def __init__(self, tables: NodeTables) -> None:
        self._reach = Reach(tables)
        self._identities: Mapping[int, Identity] = {one.number: one for one in tables.identities}
        self._members: dict[tuple[int, int], list[str]] = {}
        """Addresses of an identity, by IP version."""
        for endpoint in tables.endpoints:
            version, address = _address(endpoint.address)
            self._members.setdefault((endpoint.identity, version), []).append(address)
        self._operations: dict[frozenset[int], str] = {}

    def table(self, interfaces: Iterable[Interface]) -> str:
        listed = sorted(interfaces, key=lambda one: one.name)
        local = sorted(self._identities.keys() & {one.identity for one in listed})
        kinds = [chain for number in local for chain in self._kind(self._identities[number])]
        links = [chain for place, one in enumerate(listed) for chain in self._link(place, one)]
        operations = [_chain(name, _of(codes)) for codes, name in self._operations.items()]
        counters = [f"counter {name} {{ }}" for name in _COUNTERS]
        parts = [*counters, *self._sets(), *operations, *kinds, *links]
        return "\n".join([f"table netdev {TABLE} {{", *parts, "}", ""])

    def _sets(self) -> list[str]:
        found = []
        for (identity, version), addresses in sorted(self._members.items()):
            type_ = f"ipv{version}_addr"
            elements = ", ".join(sorted(addresses))
            found.append(
                f"set {_members(identity, version)} {{\ntype {type_}\n"
                f"elements = {{ {elements} }}\n}}"
            )
        return found

    def _kind(self, own: Identity) -> list[str]:
        """What may leave a pod of an identity, and what may come to it."""
        keys = ", ".join(sorted({f"{one.pkey:#06x}" for one in own.partitions}))
        partition = [f"@th,80,16 & 0x7fff != {{ {keys} }} counter name partition drop"]
        if not keys:
            partition = ["counter name partition drop"]
        leaving, coming = list(partition), list(partition)
        for identity, version in sorted(self._members):
            peer = self._identities.get(identity)
            family, members = _FAMILIES[version], _members(identity, version)
            out, back = self._between(own, peer) if peer is not None else (NONE, NONE)
            leaving.append(self._verdict(f"{family} daddr @{members} ", allowed(out, back)))
            coming.append(self._verdict(f"{family} saddr @{members} ", allowed(back, out)))
        out, back = self._between(own, None)
        leaving.append(self._verdict("", allowed(out, back)))
        coming.append(self._verdict("", allowed(back, out)))
        return [_chain(f"leaving_{own.number}", leaving), _chain(f"coming_{own.number}", coming)]

    def _between(self, own: Identity, peer: Identity | None) -> tuple[Verb, Verb]:
        return self._reach.most(own, peer), self._reach.most(peer, own)

    def _verdict(self, match: str, codes: frozenset[int]) -> str:
        if not codes:
            return f"{match}counter name peer drop"
        name = self._operations.setdefault(codes, f"operations_{len(self._operations)}")
        return f"{match}goto {name}"

    def _link(self, place: int, one: Interface) -> list[str]:
        if not one.name.isprintable() or any(c in one.name for c in '"\\/ ') or not one.name:
            raise ValueError(f"interface {one.name!r}: no name of a link")
        own: dict[int, list[str]] = {4: [], 6: []}
        for text in one.addresses:
            version, address = _address(text)
            own[version].append(address)
        known = one.identity is not None and one.identity in self._identities
        check = [
            # The first fragment has the port; without it the others never become a packet.
            "ip frag-off & 0x1fff != 0 accept",
            "frag frag-off != 0 accept",
            f"udp dport != {PORT} accept",
            "ip frag-off & 0x2000 != 0 counter name fragment drop",
            "exthdr frag exists counter name fragment drop",
            # hcad sends packets of one opcode together; the classifier looks behind the first.
            f"udp length > {_most_bytes(one.mtu)} counter name segments drop",
        ]
        spoofed = [_not_among("ip", "saddr", own[4]), _not_among("ip6", "saddr", own[6])]
        strange = [_not_among("ip", "daddr", own[4]), _not_among("ip6", "daddr", own[6])]
        leave = [f"goto leaving_{one.identity}"] if known else ["counter name peer drop"]
        come = [f"goto coming_{one.identity}"] if known else ["counter name peer drop"]
        return [
            _chain(f"judge_from_{place}", [*check, *spoofed, *leave]),
            _chain(f"judge_to_{place}", [*check, *strange, *come]),
            _hook(f"from_{place}", "ingress", one.name, f"judge_from_{place}"),
            _hook(f"to_{place}", "egress", one.name, f"judge_to_{place}"),
        ]


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


def _of(codes: frozenset[int]) -> list[str]:
    listed = ", ".join(f"{code:#04x}" for code in sorted(codes))
    return [f"@th,64,8 {{ {listed} }} accept", "counter name operation drop"]


def _not_among(family: str, side: str, addresses: list[str]) -> str:
    match = (
        f"{family} {side} != {{ {', '.join(sorted(addresses))} }}"
        if addresses
        else (f"meta protocol {family}")
    )
    return f"{match} counter name spoofed drop"


def _chain(name: str, rules: list[str]) -> str:
    return "\n".join([f"chain {name} {{", *rules, "}"])


def _hook(name: str, hook: str, device: str, judge: str) -> str:
    begin = f'type filter hook {hook} device "{device}" priority {_PRIORITY}; policy accept;'
    return _chain(name, [begin, f"meta l4proto udp jump {judge}"])
