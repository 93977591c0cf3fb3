"""Why a pod waits: its request, the nodes that could serve it, what is in the way, what would help.

The counts come from the operator's functions about offers, and the verdicts about claims from the
code that writes the operator's events.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from console.model.cluster import Connection, Missing
from console.model.pods import PodRecord
from console.views.claims import ClaimFinding, find_claims
from console.views.needs import CLAIMS, EXPLANATION, POLICY
from console.views.obstacles import CLOSED_NODES, NodeFinding, Obstacle, find_obstacle
from console.views.remedies import Remedy, find_remedy
from console.views.steps import find_steps
from console.views.survey import Survey, is_explained
from gpu_operator.api.v1alpha1.base import ConditionType
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.claims.reading import Claim
from gpu_operator.controllers.claims.selectors import Facts
from gpu_operator.controllers.common.world import World
from mig import geometry
from mig.errors import MigError

SHOWN: Final = 40  # nodes in a table
MOST: Final = 8  # resources of a pod that are explained
_ORDER: Final = {one: place for place, one in enumerate(Obstacle)}


@dataclass(frozen=True, slots=True)
class RequestFinding:
    """The findings about one extended resource that a pod requests."""

    resource: str
    number: int
    nodes: tuple[NodeFinding, ...]
    counts: tuple[tuple[Obstacle, int], ...]
    layouts: tuple[tuple[str, str], ...]
    remedy: Remedy | None = None
    steps: tuple[str, ...] = ()

    @property
    def nodes_with_room(self) -> int:
        """Return how many nodes have as much free as the pod requests."""
        return dict(self.counts).get(Obstacle.NONE, 0)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that the page shows about a pending pod.

    ``foreign`` are requested resources that are neither slices, GPUs nor HCAs, and ``left_out``
    those beyond a bound. ``missing`` are the kinds of objects that are not known, with the reason:
    nothing that depends on them is stated.
    """

    pod: PodRecord
    requests: tuple[RequestFinding, ...] = ()
    claims: tuple[ClaimFinding, ...] = ()
    foreign: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    missing: Missing = field(default_factory=dict)


def is_pending(world: World, pod: PodRecord) -> bool:
    """Return whether a pod waits for a node, and for slices, GPUs, HCAs or claims."""
    if pod.node or not (pod.requests or pod.waiting or pod.unmade_claims):
        return False
    return bool(pod.waiting or pod.unmade_claims) or any(
        is_explained(world, resource) for resource, _ in pod.requests
    )


def is_starting(pod: PodRecord) -> bool:
    """Return whether a pod has a node, but a container of it does not run."""
    return bool(pod.node and not pod.is_ending and (pod.phase == "Pending" or pod.problem))


def starting_pods(pods: Iterable[PodRecord], namespace: str = "") -> list[PodRecord]:
    """Return the pods with devices that have a node and do not run, the oldest first."""
    found = (pod for pod in pods if is_starting(pod) and namespace in ("", pod.namespace))
    return sorted(found, key=lambda pod: (pod.created, pod.key))


def pending_pods(world: World, pods: Iterable[PodRecord], namespace: str = "") -> list[PodRecord]:
    """Return the pods that wait for devices, the oldest first."""
    found = (pod for pod in pods if namespace in ("", pod.namespace) and is_pending(world, pod))
    return sorted(found, key=lambda pod: (pod.created, pod.key))


def explain(
    survey: Survey,
    pod: PodRecord,
    claims: Mapping[str, Claim],
    classes: Mapping[str, Facts],
    connection: Connection,
) -> Explanation:
    """Explain why a pod waits."""
    if pod.node:
        return Explanation(pod)
    missing = connection.missing(EXPLANATION)
    if missing:
        return Explanation(pod, missing=missing)
    own = [one for one in pod.requests if is_explained(survey.world, one[0])]
    no_claims = connection.missing(CLAIMS) if pod.waiting or pod.unmade_claims else {}
    no_policy = connection.missing(POLICY)
    return Explanation(
        pod,
        tuple(_request(survey, pod, *one, not no_policy) for one in own[:MOST]),
        () if no_claims else tuple(find_claims(survey, pod, claims, classes)),
        tuple(name for name, _ in pod.requests if not is_explained(survey.world, name)),
        tuple(name for name, _ in own[MOST:]),
        {**no_claims, **no_policy},
    )


def _request(
    survey: Survey, pod: PodRecord, resource: str, number: int, knows_policy: bool
) -> RequestFinding:
    nodes = [find_obstacle(survey, pod, node, resource, number) for node in survey.nodes]
    counts = Counter(one.obstacle for one in nodes)
    usable = [one.name for one in nodes if one.obstacle not in CLOSED_NODES]
    ordered = sorted(nodes, key=lambda one: (-_ORDER[one.obstacle], one.name))
    return RequestFinding(
        resource=resource,
        number=number,
        nodes=tuple(ordered),
        counts=tuple((one, counts[one]) for one in Obstacle if one in counts),
        layouts=tuple(_layouts(survey, resource)),
        remedy=find_remedy(survey, resource, number, usable) if knows_policy else None,
        steps=tuple(find_steps(survey, resource, number, ordered)) if knows_policy else (),
    )


def _layouts(survey: Survey, resource: str) -> Iterator[tuple[str, str]]:
    """Yield the layouts that create the resource and are not Ready, with their messages."""
    for name, layout in sorted(survey.world.layouts.items()):
        for one in layout.status.conditions:
            is_unready = one.type == ConditionType.READY.value and one.status != "True"
            if is_unready and any(_makes(layout, gpu, resource) for gpu in survey.examples):
                yield name, f"{one.reason}: {one.message}"


def _makes(layout: Layout, gpu: Gpu, resource: str) -> bool:
    name = resource.partition("/")[2]
    try:
        board = geometry.board(gpu.spec.board)
        profiles = [board.device_profile(one.profile) for one in layout.spec.instances]
    except MigError:
        return False
    return any(gpu.spec.resource_of(profile) == name for profile in profiles)
