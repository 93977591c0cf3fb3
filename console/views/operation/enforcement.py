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
    known_policies = ((name, fabric.policies[name]) for name in names if name in fabric.policies)
    return tuple(
        state_of(name, policy.meta.generation, policy.status.conditions, policy.status.nodes_ready)
        for name, policy in known_policies
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
    layers: dict[tuple[str, str, str], SecondLayer] = {}
    for name in names:
        policy = fabric.policies.get(name)
        for condition in policy.status.conditions if policy is not None else ():
            if condition.type == ConditionType.SECOND_LAYER:
                key = (condition.status, condition.reason, condition.message)
                earlier_layer = layers.get(key)
                times = [
                    condition.last_transition_time,
                    *((earlier_layer.since,) if earlier_layer else ()),
                ]
                every = (*(earlier_layer.names if earlier_layer else ()), name)
                layers[key] = SecondLayer(*key, max(times, key=order_of), every)
    return tuple(sorted(layers.values(), key=lambda layer: layer.is_enforcing))


def states_behind(fabric: Fabric, *found: Explanation) -> tuple[Enforcement, ...]:
    """Return the state of the policies behind some verdicts."""
    return find_enforcement(fabric, deciding_policies(found))
