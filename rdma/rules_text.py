"""The text of nftables tables: their objects, and the commands that replace them."""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

TABLE: Final = "tessera_rdma"
PRIORITY: Final = -150
FAMILIES: Final = {4: "ip", 6: "ip6"}
"""nft's name of each IP version."""


@dataclass(frozen=True, slots=True)
class Present:
    """The names of the objects of one of the second layer's tables that is loaded."""

    chains: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    counters: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Table:
    """The counters of a table, and its sets and chains in nft's notation."""

    counters: tuple[str, ...]
    parts: tuple[str, ...]

    def text(self, family: str, present: frozenset[str]) -> str:
        """Return the table's declaration, without the counters that it has already."""
        new = (name for name in self.counters if name not in present)
        counters = (f"counter {name} {{ packets 0 bytes 0 }}" for name in new)
        return "\n".join([f"table {family} {TABLE} {{", *counters, *self.parts, "}", ""])


def remove_table(family: str) -> str:
    return f"table {family} {TABLE}\ndelete table {family} {TABLE}\n"


def clear_table(family: str, present: Present, kept_counters: tuple[str, ...]) -> str:
    """Return the commands that remove everything from a table except ``kept_counters``."""
    lines = [f"flush table {family} {TABLE}"]
    for name in sorted(present.chains):
        # Added, because the kernel removes a chain with its interface, maybe just now.
        lines += [f"{verb} chain {family} {TABLE} {name}" for verb in ("add", "delete")]
    lines += [f"delete set {family} {TABLE} {name}" for name in sorted(present.sets)]
    unused = present.counters.difference(kept_counters)
    lines += [f"delete counter {family} {TABLE} {name}" for name in sorted(unused)]
    return "".join(f"{line}\n" for line in lines)


def interface_name(text: str) -> str:
    if not text or not text.isprintable() or any(c in text for c in '"\\/ *'):
        raise ValueError(f"interface {text!r}: not a valid name of a network interface")
    return text


def parse_address(text: str) -> tuple[int, str]:
    """Return an address's IP version, and the address in nft's notation.

    Raises:
        ValueError: the text is not an address, or the address has a scope.
    """
    address = ip_address(text)
    if getattr(address, "scope_id", None) is not None:
        raise ValueError(f"address {text!r} must not have a scope")
    return address.version, str(address)


def format_chain(name: str, rules: list[str]) -> str:
    return "\n".join([f"chain {name} {{", *rules, "}"])
