"""Whether nodes enforce the RDMA policies of the fabric (``rdma.enforcement``)."""

from collections.abc import Iterable
from dataclasses import dataclass

from console.model.event_log import order_of
from console.model.fabric import Fabric
from gpu_operator.api.v1alpha1.base import ConditionType
from rdma.enforcement import Enforcement, deciding_policies, state_of
from rdma.explain import Explanation


def find_enforcement(fabric: Fabric, names: Iterable[str]) -> tuple[Enforcement, ...]:
    """Return the state of some policies, each "namespace/name"; unknown names have none."""
    known = ((name, fabric.policies[name]) for name in names if name in fabric.policies)
    return tuple(
        state_of(name, one.meta.generation, one.status.conditions, one.status.nodes_ready)
        for name, one in known
    )


@dataclass(frozen=True, slots=True)
class SecondLayer:
    """The condition SecondLayer of some policies: whether pods' links have the rules, too.

    ``names`` are the policies that state the same, and ``since`` is when the last of them changed.
    """

    status: str
    reason: str
    message: str
    since: str
    names: tuple[str, ...]

    @property
    def is_enforcing(self) -> bool:
        """Return whether the rules are installed on all pods' links."""
        return self.status == "True"


def find_second_layers(fabric: Fabric, names: Iterable[str]) -> tuple[SecondLayer, ...]:
    """Return the condition SecondLayer of some policies, equal ones once, failing ones first.

    A policy on which the operator has not reported has none.
    """
    found: dict[tuple[str, str, str], SecondLayer] = {}
    for name in names:
        known = fabric.policies.get(name)
        for one in known.status.conditions if known is not None else ():
            if one.type == ConditionType.SECOND_LAYER:
                key = (one.status, one.reason, one.message)
                before = found.get(key)
                times = [one.last_transition_time, *((before.since,) if before else ())]
                every = (*(before.names if before else ()), name)
                found[key] = SecondLayer(*key, max(times, key=order_of), every)
    return tuple(sorted(found.values(), key=lambda one: one.is_enforcing))


def states_behind(fabric: Fabric, *found: Explanation) -> tuple[Enforcement, ...]:
    """Return the state of the policies behind some verdicts."""
    return find_enforcement(fabric, deciding_policies(found))
