"""Detect identities with more policies or rules than a node can evaluate in time.

hcad evaluates all rules of a pod for each connection from or to the pod. Thousands of rules of
one tenant would delay the evaluation of other tenants' connections. So the policies that
contribute to such an excess allow nothing, and their status reports this. Only pods of one
namespace, the tenant's own, are affected.
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
    """A policy and the identities that it selects."""

    policy: Policy
    subject: Matches


def is_too_much(policies: int, rules: int) -> bool:
    """Return whether a pod has too many policies or rules in one direction.

    Callers count enforcing and auditing policies separately.
    """
    return policies > MAX_POLICIES_OF_A_POD or rules > MAX_RULES_OF_A_POD


def crowded_identities(policies: Sequence[Selecting]) -> dict[tuple[Direction, bool], int]:
    """Return the identities of one namespace that too many policies or rules select.

    They are grouped by direction and by whether the policies only audit; empty sets are omitted.
    """
    whole = sum(
        len(compiled_policy.policy.ingress) + len(compiled_policy.policy.egress)
        for compiled_policy in policies
    )
    if not is_too_much(len(policies), whole):
        return {}  # so few in all that no identity can have too many
    crowded = {}
    for direction in Direction:
        for audit in (False, True):
            if bits := _crowded_in(_matching_policies(policies, direction, audit), direction):
                crowded[direction, audit] = bits
    return crowded


def problems(policies: Sequence[Selecting]) -> Iterator[tuple[str, PolicyError]]:
    """Yield an error for each policy that contributes to an excess of policies or rules on one pod.

    Each item is the policy's key and the error. ``policies`` are the policies of one namespace.
    """
    for (direction, audit), bits in crowded_identities(policies).items():
        problem = (
            f"a pod that it selects has more than {MAX_POLICIES_OF_A_POD} policies or"
            f" {MAX_RULES_OF_A_POD} rules of {direction}: none of them allows anything"
        )
        for compiled_policy in _matching_policies(policies, direction, audit):
            if compiled_policy.subject.bits & bits:
                yield (
                    compiled_policy.policy.key,
                    PolicyError("spec.podSelector", problem, "join or remove some"),
                )


def _matching_policies(
    policies: Sequence[Selecting], direction: Direction, audit: bool
) -> list[Selecting]:
    return [
        compiled_policy
        for compiled_policy in policies
        if compiled_policy.policy.audit is audit and direction in compiled_policy.policy.types
    ]


def _crowded_in(policies: Sequence[Selecting], direction: Direction) -> int:
    if not is_too_much(
        len(policies),
        sum(len(compiled_policy.policy.rules(direction)) for compiled_policy in policies),
    ):
        return 0
    count: Counter[int] = Counter()
    rules: Counter[int] = Counter()
    for compiled_policy in policies:
        for number in numbers(compiled_policy.subject.bits):
            count[number] += 1
            rules[number] += len(compiled_policy.policy.rules(direction))
    bits = 0
    for number in count:
        bits |= is_too_much(count[number], rules[number]) << number
    return bits
