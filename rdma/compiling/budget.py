"""Limit how many bytes of the nodes' tables each namespace's policies use.

All tables of a node must fit into one object of the API server. Each namespace has a budget in
that object. If all namespaces together use too much, the budgets of the largest namespaces are
reduced. A policy beyond the budget allows nothing; policies of other namespaces are not
affected.

A policy's size is estimated from the Kubernetes objects alone, so it does not depend on the
order in which the objects were added. The estimate is an upper bound for the policy's bytes in
the API server's object, deflated and in base64 (`tests/unit/rdma/test_rdma_budget.py` compares
it with packed tables).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Final

from rdma.errors import OverBudgetError
from rdma.rule_codec import rule_document
from rdma.tables import Rule

NAMESPACE_BYTES: Final = 256 << 10
"""Budget of one namespace in bytes: enough for about 7,500 random IPv6 addresses in blocks, or for
5,000 rules without blocks.
"""
ALL_BYTES: Final = 1_000_000
"""Budget of all namespaces together in bytes. In the API server's object 400,000 bytes remain for
pods and addresses.
"""
_RULE_BYTES: Final = 8
_ITEM_BYTES: Final = 2
_PLACE_BYTES: Final = 5
_PEERS_BYTES: Final = 16
# identities per byte: 4 per hexadecimal digit, and 64 MiB of text may be 1 MB packed
_DENSEST: Final = 4 * 64
_DIGITS: Final = frozenset("0123456789abcdef.:/")


@dataclass(frozen=True, slots=True)
class Charge:
    """The bytes that one policy uses in the tables.

    Policies are sorted by ``created`` (RFC 3339), the oldest first. Policies with the same
    ``created`` are sorted by ``key``.
    """

    key: str
    created: str
    size: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Describes why a policy does not fit its namespace's budget.

    ``size`` is the policy's size in bytes. ``used`` is the number of bytes that older policies
    of the namespace already use. ``allowed`` is the namespace's budget in bytes.
    """

    namespace: str
    size: int
    used: int
    allowed: int

    def error(self) -> OverBudgetError:
        """Return the refusal as an error for the policy's status."""
        problem = (
            f"the policy takes {self.size} bytes of the nodes' tables, besides {self.used} of older"
            f" policies of namespace {self.namespace}, which may take {self.allowed} in all"
        )
        if self.allowed < NAMESPACE_BYTES:
            problem += f" because all namespaces together take more than {ALL_BYTES}"
        return OverBudgetError(
            "spec",
            f"{problem}: it allows nothing to the pods that it selects",
            "use fewer and wider ipBlocks, fewer rules, or remove policies of this namespace",
        )


def find_refused(charges: Mapping[str, Sequence[Charge]]) -> dict[str, Refusal]:
    """Return a refusal for each policy that does not fit the budgets, by the policy's key.

    ``charges`` maps each namespace to its policies. Older policies of a namespace have
    precedence. After a policy is refused, a younger and smaller policy can still fit.
    """
    refused: dict[str, Refusal] = {}
    bytes_by_namespace: dict[str, int] = {}
    for namespace, requested in charges.items():
        bytes_by_namespace[namespace] = _fill(namespace, requested, NAMESPACE_BYTES, refused)
    if sum(bytes_by_namespace.values()) <= ALL_BYTES:
        return refused
    level = _level(sorted(bytes_by_namespace.values()))
    for namespace, requested in charges.items():
        if bytes_by_namespace[namespace] > level:
            _fill(namespace, requested, level, refused)
    return refused


def rule_bytes(rule: Rule) -> int:
    """Return the estimated bytes of a rule in the tables, without its set of peers' identities."""
    document = rule_document(rule)
    del document["peers"], document["direction"]
    return _RULE_BYTES + _bytes_of(document.values())


def peers_bytes(selected: int, kinds: int) -> int:
    """Return the estimated bytes of a rule's set of peers in the tables.

    ``kinds`` is the number of identities in the tables, and ``selected`` the number of those in
    the set. The estimate grows with the entropy of the set, because a set with more entropy
    compresses less. The estimate is at least 1/64 of the length of the set's text. This keeps
    the uncompressed tables below the limit of ``decode``.
    """
    fewer, minimum_bytes = min(selected, kinds - selected), _PEERS_BYTES + kinds // _DENSEST
    if fewer <= 0:
        return minimum_bytes
    share = fewer / kinds
    entropy = -kinds * (share * log2(share) + (1 - share) * log2(1 - share)) / 8 * 4 / 3
    return minimum_bytes + min(kinds // 5, int(1.2 * entropy + 0.4 * fewer))


def isolation_bytes(key: str, rules: int) -> int:
    """Return the bytes that a policy adds to the tables for each isolation that names the policy.

    ``rules`` is the number of the policy's rules in the direction of the isolation.
    """
    return len(key) + _ITEM_BYTES + _PLACE_BYTES * rules


def _fill(
    namespace: str, charges: Sequence[Charge], allowed: int, refused: dict[str, Refusal]
) -> int:
    """Refuse the policies of a namespace that exceed ``allowed`` bytes; return the bytes of the
    others.
    """
    if (whole := sum(charge.size for charge in charges)) <= allowed:
        return whole
    used = 0
    for charge in sorted(charges, key=lambda charge: (charge.created, charge.key)):
        if used + charge.size > allowed:
            refused[charge.key] = Refusal(namespace, charge.size, used, allowed)
        else:
            used += charge.size
            refused.pop(charge.key, None)
    return used


def _level(sizes: Sequence[int]) -> int:
    """Return the largest budget per namespace with which the policies of all namespaces fit
    together.

    ``sizes`` are the bytes of each namespace's policies, in ascending order.
    """
    remaining_bytes = ALL_BYTES
    for place, size in enumerate(sizes):
        level = remaining_bytes // (len(sizes) - place)
        if size > level:
            return level
        remaining_bytes -= size
    return ALL_BYTES


def _bytes_of(values: Iterable[Any]) -> int:
    """Return the bytes of a rule's values; an empty value costs nothing, as all rules share it."""
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
