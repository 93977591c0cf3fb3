"""How many bytes of the nodes' tables the policies of one namespace may take, and which take more.

All tables of a node must fit into one object of the API server. A namespace may have a part of that
room; and where the parts that namespaces take do not fit together, the largest are made smaller.
A policy that does not fit allows nothing: policies of other namespaces stay as they are.

What a policy takes is an estimate that follows from the objects alone, so that it is the same in
whatever order they came: at most so many bytes of the object, deflated and in base64
(`tests/unit/rdma/test_rdma_budget.py` compares it with packed tables).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Final

from rdma.errors import OverBudgetError
from rdma.rule_codec import rule_document
from rdma.tables import Rule

NAMESPACE_BYTES: Final = 256 << 10
"""Of one namespace: 7,500 random IPv6 addresses in blocks, or 5,000 rules without blocks."""
ALL_BYTES: Final = 1_000_000
"""Of all namespaces together; the rest of the object, 400,000 bytes, is for pods and addresses."""
_RULE_BYTES: Final = 8
_ITEM_BYTES: Final = 2
_PLACE_BYTES: Final = 5
_PEERS_BYTES: Final = 16
_DENSEST: Final = 4 * 64  # kinds of pods in a byte: four in a digit, and 64 MiB of text in 1 MB
_DIGITS: Final = frozenset("0123456789abcdef.:/")


@dataclass(frozen=True, slots=True)
class Charge:
    """What a policy takes; ``created`` (RFC 3339) and ``key`` tell which of two is newer."""

    key: str
    created: str
    size: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a policy does not fit: older policies of its namespace take ``used`` bytes already."""

    namespace: str
    size: int
    used: int
    allowed: int

    def error(self) -> OverBudgetError:
        """Return it as the error in the policy's status."""
        problem = (
            f"the policy takes {self.size} bytes of the nodes' tables beside {self.used} of older"
            f" policies of namespace {self.namespace}, which may take {self.allowed} in all"
        )
        if self.allowed < NAMESPACE_BYTES:
            problem += f" because all namespaces together take more than {ALL_BYTES}"
        return OverBudgetError(
            "spec",
            f"{problem}: it allows nothing to the pods that it selects",
            "use fewer and wider ipBlocks, fewer rules, or remove policies of this namespace",
        )


def choose(charges: Mapping[str, Sequence[Charge]]) -> dict[str, Refusal]:
    """Return the policies that do not fit, by key; ``charges`` are by namespace.

    Within a namespace older policies come first, and one that does not fit keeps none out that do.
    """
    refused: dict[str, Refusal] = {}
    kept: dict[str, int] = {}
    for namespace, asked in charges.items():
        kept[namespace] = _fill(namespace, asked, NAMESPACE_BYTES, refused)
    if sum(kept.values()) <= ALL_BYTES:
        return refused
    level = _level(sorted(kept.values()))
    for namespace, asked in charges.items():
        if kept[namespace] > level:
            _fill(namespace, asked, level, refused)
    return refused


def rule_bytes(rule: Rule) -> int:
    """Return what a rule takes without its peers by label."""
    document = rule_document(rule)
    del document["peers"], document["direction"]
    return _RULE_BYTES + _bytes_of(document.values())


def peers_bytes(selected: int, kinds: int) -> int:
    """Return what a set of ``selected`` of so many identities takes: by its entropy.

    It is never less than a 64th of its text, so that the text of all tables stays readable, too.
    """
    fewer, least = min(selected, kinds - selected), _PEERS_BYTES + kinds // _DENSEST
    if fewer <= 0:
        return least
    share = fewer / kinds
    entropy = -kinds * (share * log2(share) + (1 - share) * log2(1 - share)) / 8 * 4 / 3
    return least + min(kinds // 5, int(1.2 * entropy + 0.4 * fewer))


def isolation_bytes(key: str, rules: int) -> int:
    """Return what naming a policy with so many rules takes in the isolation of a kind of pod."""
    return len(key) + _ITEM_BYTES + _PLACE_BYTES * rules


def _fill(
    namespace: str, asked: Sequence[Charge], allowed: int, refused: dict[str, Refusal]
) -> int:
    """Refuse what is more than ``allowed``; return the bytes of what is kept."""
    if (whole := sum(one.size for one in asked)) <= allowed:
        return whole
    used = 0
    for one in sorted(asked, key=lambda charge: (charge.created, charge.key)):
        if used + one.size > allowed:
            refused[one.key] = Refusal(namespace, one.size, used, allowed)
        else:
            used += one.size
            refused.pop(one.key, None)
    return used


def _level(sizes: Sequence[int]) -> int:
    """Return the most that one may have so that all together fit; ``sizes`` ascend."""
    left = ALL_BYTES
    for place, size in enumerate(sizes):
        level = left // (len(sizes) - place)
        if size > level:
            return level
        left -= size
    return ALL_BYTES


def _bytes_of(values: Iterable[Any]) -> int:
    """Return what values of a rule's document take; empty ones are the same in all rules."""
    total = 0
    for value in values:
        if not value or value is True:
            continue
        if isinstance(value, str):
            length = len(value) * 3 // 4 if _DIGITS.issuperset(value) else len(value) + 1
            total += length + _ITEM_BYTES
        elif isinstance(value, int):
            total += len(str(value)) * 3 // 4 + 1
        else:
            total += _bytes_of(value.values() if isinstance(value, dict) else value)
    return total
