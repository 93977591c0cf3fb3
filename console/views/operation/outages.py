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
    for part in model.parts.values():
        if part.component == OPERATOR:
            spaces[part.namespace].append(part)
    for space, pods in sorted(spaces.items()):
        headline = f"The operator (namespace {space}) does not run"
        if not pods:
            since = model.departures.find(PART, space).removesuffix(" UTC")
            yield Outage(headline, "it has no pod", since, _OPERATOR_STALE)
        elif all(pod.problem for pod in pods):
            reason = list_first([f"pod {pod.name}: {pod.problem}" for pod in pods], _SHOWN)
            yield Outage(headline, reason, max(pod.since for pod in pods), _OPERATOR_STALE)
    is_limited = model.connection.namespace or "Pod" in model.connection.limited
    if not spaces and not is_limited and model.world().pools:
        yield Outage("The operator does not run", "no pod of it exists", "", _OPERATOR_STALE)


def _nodes(parts: Sequence[PartPod]) -> Iterator[Outage]:
    """Yield the parts of nodes that fail; a node with a ready pod of the part has no outage."""
    for component, name in ON_NODES.items():
        own = [part for part in parts if part.component == component and part.node]
        served = {part.node for part in own if not part.problem}
        failing = [part for part in own if part.is_failing and part.node not in served]
        if failing:
            failing.sort(key=lambda part: part.node)
            reasons = [f"{part.node}: {part.problem}" for part in failing]
            number = len({part.node for part in failing})
            where = f"node {failing[0].node}" if number == 1 else f"{number} nodes"
            headline = f"{name} of {where} does not run"
            since = min(part.since for part in failing)
            yield Outage(headline, list_first(reasons, _SHOWN), since, _NODE_STALE[component])
