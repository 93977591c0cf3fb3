"""Whether nodes enforce the RDMA policies on which a verdict rests.

The evaluator states what policies mean. Until each node has acknowledged a policy's latest version,
as its condition Programmed states, a node may act by an earlier one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from console.model.fabric import Fabric
from console.views.reach import deciding_policies
from gpu_operator.api.v1alpha1.base import ConditionType
from rdma.explain import Explanation

_NOT_REPORTED: Final = "the operator has not reported on this version of the policy yet"


@dataclass(frozen=True, slots=True)
class Enforcement:
    """A policy's condition Programmed: True, False or Unknown, and how many nodes enforce it."""

    name: str
    status: str
    reason: str = ""
    message: str = ""
    nodes_ready: str = ""

    @property
    def is_programmed(self) -> bool:
        """Return whether all nodes enforce the policy's latest version."""
        return self.status == "True"

    def __str__(self) -> str:
        reason = f" {self.reason}" if self.reason else ""
        return f"policy {self.name}: Programmed={self.status}{reason}: {self.message}"


def find_enforcement(fabric: Fabric, names: Iterable[str]) -> tuple[Enforcement, ...]:
    """Return the state of some policies, each "namespace/name"; unknown names have none."""
    return tuple(_states(fabric, names))


def lacking(states: Iterable[Enforcement]) -> tuple[Enforcement, ...]:
    """Return the policies that not every node enforces as they are now."""
    return tuple(one for one in states if not one.is_programmed)


def late_policies(fabric: Fabric, found: Explanation) -> tuple[Enforcement, ...]:
    """Return the policies behind a verdict that not every node enforces yet."""
    return lacking(find_enforcement(fabric, deciding_policies((found,))))


def verdict_of(found: Explanation, late: Iterable[Enforcement]) -> str:
    """Return the verdict in a few words; that of the future if nodes have yet to enforce it."""
    word = "allowed" if found.allowed else "denied"
    return f"will be {word} once programmed" if any(late) else word


def write_lines(found: Explanation, late: Iterable[Enforcement]) -> Iterator[str]:
    """Yield the text of an explanation, with the policies that nodes have yet to enforce."""
    first, *rest = found.lines()
    waiting = tuple(late)
    if not waiting:
        yield from (first, *rest)
        return
    _, _, subject = first.partition(": ")
    yield f"{verdict_of(found, waiting).upper()}: {subject}"
    for one in waiting:
        yield f"  not enforced everywhere yet: {one}"
    for line in rest:
        yield line.replace("  so: ", "  so, once programmed: ", 1)


def _states(fabric: Fabric, names: Iterable[str]) -> Iterator[Enforcement]:
    for name in names:
        policy = fabric.policies.get(name)
        if policy is None:
            continue
        ready = policy.status.nodes_ready
        kind = ConditionType.PROGRAMMED.value
        found = next((one for one in policy.status.conditions if one.type == kind), None)
        if found is None or found.observed_generation < policy.meta.generation:
            yield Enforcement(name, "Unknown", message=_NOT_REPORTED, nodes_ready=ready)
        else:
            yield Enforcement(name, found.status, found.reason, found.message, ready)
