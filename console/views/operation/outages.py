"""Whether the operator and the parts on nodes work, and what is out of date while they do not.

The operator's pods are known by their labels. Those of each namespace count for themselves: pods
that someone labels alike elsewhere cannot hide that the operator's do not run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from console.model.cluster import ClusterModel
from console.model.parts import ON_NODES, OPERATOR, PART, PartPod
from facts.wording import list_first

_SHOWN: Final = 5
_OPERATOR_STALE: Final = (
    "Until it runs again, statuses of pools, layouts, faults and RDMA policies are out of date, a"
    " GPU of a node whose agent fails is not marked, layouts are not rolled out, and none is rolled"
    " back at its deadline"
)
_NODE_STALE: Final[dict[str, str]] = {
    "node": "What these pages state about GPUs, slices and holders there is what was reported last"
    " (the nodes' condition GPUReady becomes AgentUnreachable), and no pod is given a slice there",
    "gpud": "No context is created there, and slices do not change",
    "hca": "RDMA policies there are what hcad has programmed last: their condition Programmed is"
    " Unknown with reason NodeSilent, and no HCA is given to a pod",
}


@dataclass(frozen=True, slots=True)
class Outage:
    """A part that does not work; ``since`` is a time in UTC; empty if not known."""

    what: str
    reason: str
    since: str
    stale: str


def find_outages(model: ClusterModel) -> tuple[Outage, ...]:
    """Return the parts of Tessera that do not work, the operator first.

    Pods of Tessera that may not be read, or are not listed yet, have no outage here.
    """
    if model.connection.missing(("Pod",)):
        return ()
    return (*_operator(model), *_nodes(tuple(model.parts.values())))


def _operator(model: ClusterModel) -> Iterator[Outage]:
    spaces: dict[str, list[PartPod]] = {space: [] for space in model.operator_spaces}
    for one in model.parts.values():
        if one.component == OPERATOR:
            spaces[one.namespace].append(one)
    for space, pods in sorted(spaces.items()):
        what = f"The operator (namespace {space}) does not run"
        if not pods:
            since = model.departures.find(PART, space).removesuffix(" UTC")
            yield Outage(what, "it has no pod", since, _OPERATOR_STALE)
        elif all(one.problem for one in pods):
            reason = list_first([f"pod {one.name}: {one.problem}" for one in pods], _SHOWN)
            yield Outage(what, reason, max(one.since for one in pods), _OPERATOR_STALE)
    is_limited = model.connection.namespace or "Pod" in model.connection.limited
    if not spaces and not is_limited and model.world().pools:
        yield Outage("The operator does not run", "no pod of it exists", "", _OPERATOR_STALE)


def _nodes(parts: Sequence[PartPod]) -> Iterator[Outage]:
    """Yield the parts of nodes that fail; a node with a ready pod of the part has no outage."""
    for component, name in ON_NODES.items():
        own = [one for one in parts if one.component == component and one.node]
        served = {one.node for one in own if not one.problem}
        failing = [one for one in own if one.is_failing and one.node not in served]
        if failing:
            failing.sort(key=lambda one: one.node)
            reasons = [f"{one.node}: {one.problem}" for one in failing]
            number = len({one.node for one in failing})
            where = f"node {failing[0].node}" if number == 1 else f"{number} nodes"
            what = f"{name} of {where} does not run"
            since = min(one.since for one in failing)
            yield Outage(what, list_first(reasons, _SHOWN), since, _NODE_STALE[component])
