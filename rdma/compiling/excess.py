"""More policies or rules for one pod than a node judges in time: what they are, and whose.

Each connection of the pod, and each one to it, asks all of them. A tenant who writes thousands
would have the node's hcad judge for others no more, so they allow nothing, and say so. That
concerns pods of one namespace, which is the tenant's own.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from rdma.bits import numbers
from rdma.compiling.terms import Matches
from rdma.errors import PolicyError
from rdma.objects import Policy
from rdma.tables import MAX_POLICIES_OF_A_POD, MAX_RULES_OF_A_POD, Direction


class Selecting(Protocol):
    """A policy and whom it selects."""

    policy: Policy
    subject: Matches


def is_too_much(policies: int, rules: int) -> bool:
    """Return whether so many of one direction, which all enforce or all audit, are too many."""
    return policies > MAX_POLICIES_OF_A_POD or rules > MAX_RULES_OF_A_POD


def crowded(policies: Sequence[Selecting]) -> dict[tuple[Direction, bool], int]:
    """Return the identities of one namespace that too many policies or rules select.

    By direction, and whether the policies only audit; those that concern none are left out.
    """
    whole = sum(len(one.policy.ingress) + len(one.policy.egress) for one in policies)
    if not is_too_much(len(policies), whole):
        return {}  # whomever they select
    found = {}
    for direction in Direction:
        for audit in (False, True):
            if bits := _crowded(_chosen(policies, direction, audit), direction):
                found[direction, audit] = bits
    return found


def problems(policies: Sequence[Selecting]) -> Iterator[tuple[str, PolicyError]]:
    """Yield the policies of one namespace that have a part in too many, and what is wrong."""
    for (direction, audit), bits in crowded(policies).items():
        problem = (
            f"a pod that it selects has more than {MAX_POLICIES_OF_A_POD} policies or"
            f" {MAX_RULES_OF_A_POD} rules of {direction}: none of them allows anything"
        )
        for one in _chosen(policies, direction, audit):
            if one.subject.bits & bits:
                yield (
                    one.policy.key,
                    PolicyError("spec.podSelector", problem, "join or remove some"),
                )


def _chosen(policies: Sequence[Selecting], direction: Direction, audit: bool) -> list[Selecting]:
    return [one for one in policies if one.policy.audit is audit and direction in one.policy.types]


def _crowded(policies: Sequence[Selecting], direction: Direction) -> int:
    if not is_too_much(len(policies), sum(len(one.policy.rules(direction)) for one in policies)):
        return 0
    count: Counter[int] = Counter()
    rules: Counter[int] = Counter()
    for one in policies:
        for number in numbers(one.subject.bits):
            count[number] += 1
            rules[number] += len(one.policy.rules(direction))
    bits = 0
    for number in count:
        bits |= is_too_much(count[number], rules[number]) << number
    return bits
