"""More policies or rules for one pod than a node judges in time: what they are, and whose.

Each connection of the pod, and each one to it, asks all of them. A tenant who writes thousands
would have the node's hcad judge for others no more, so they allow nothing, and say so. That
concerns pods of one namespace, which is the tenant's own.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from rdma.bits import numbers
from rdma.errors import PolicyError
from rdma.objects import Policy
from rdma.tables import MAX_POLICIES_OF_A_POD, MAX_RULES_OF_A_POD, Direction
from rdma.terms import Matches


class Selecting(Protocol):
    """A policy and whom it selects."""

    policy: Policy
    subject: Matches


def is_too_much(policies: int, rules: int) -> bool:
    """Return whether so many of one direction, which all enforce or all audit, are too many."""
    return policies > MAX_POLICIES_OF_A_POD or rules > MAX_RULES_OF_A_POD


def problems(policies: Sequence[Selecting]) -> Iterator[tuple[str, PolicyError]]:
    """Yield the policies of one namespace that have a part in too many, and what is wrong."""
    for direction in Direction:
        for audit in (False, True):
            chosen = [
                one
                for one in policies
                if one.policy.audit is audit and direction in one.policy.types
            ]
            yield from _problems(chosen, direction)


def _problems(
    policies: Sequence[Selecting], direction: Direction
) -> Iterator[tuple[str, PolicyError]]:
    if not is_too_much(len(policies), sum(len(one.policy.rules(direction)) for one in policies)):
        return  # whomever they select
    count: Counter[int] = Counter()
    rules: Counter[int] = Counter()
    for one in policies:
        for number in numbers(one.subject.bits):
            count[number] += 1
            rules[number] += len(one.policy.rules(direction))
    bits = 0
    for number in count:
        bits |= is_too_much(count[number], rules[number]) << number
    problem = (
        f"a pod that it selects has more than {MAX_POLICIES_OF_A_POD} policies or"
        f" {MAX_RULES_OF_A_POD} rules of {direction}: none of them allows anything"
    )
    for one in policies:
        if one.subject.bits & bits:
            yield one.policy.key, PolicyError("spec.podSelector", problem, "join or remove some")
