"""Why a pod waits: its request, the nodes that could serve it, what is in the way, what would help.

The counts come from the operator's functions about offers, and the verdicts about claims from the
code that writes the operator's events.
"""

import itertools
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from console.model.cluster import Connection, Missing
from console.model.pods import PodRecord
from console.views.needs import CLAIMS, EXPLANATION, POLICY
from console.views.waiting.claims import ClaimFinding, find_claims
from console.views.waiting.obstacles import (
    CLOSED_NODES,
    UNMATCHED,
    NodeFinding,
    Obstacle,
    find_obstacle,
)
from console.views.waiting.remedies import Remedy, find_remedy
from console.views.waiting.steps import find_steps
from console.views.waiting.survey import Survey, find_offered_name, is_explained
from facts.wording import count_of, list_first
from gpu_operator.api.v1alpha1.base import ConditionType
from gpu_operator.api.v1alpha1.gpu import Slice, SliceState
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.claims.reading import Claim
from gpu_operator.controllers.claims.selectors import Facts
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import selection
from mig import geometry
from mig.errors import MigError

SHOWN: Final = 40  # nodes in a table
MOST: Final = 8  # resources of a pod that are explained
_BARE: Final = 3  # names of nodes without devices
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
    def is_unmatched(self) -> bool:
        """Return whether there are nodes, and selector or taints keep the pod off all of them."""
        return bool(self.counts) and all(obstacle in UNMATCHED for obstacle, _ in self.counts)

    @property
    def nodes_with_room(self) -> int:
        """Return how many nodes have as much free as the pod requests."""
        return dict(self.counts).get(Obstacle.NONE, 0)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that the page shows about a pending pod.

    ``misnamed`` are advices about slices and GPUs that the cluster offers under another prefix than
    the pod requests. ``foreign`` are other requested resources that are neither slices, GPUs nor
    HCAs, and ``left_out`` those beyond a bound. ``missing`` are the kinds of objects that are not
    known, with the reason: nothing that depends on them is stated. ``bare_nodes`` are the nodes
    without GPUs and HCAs, which no table has.
    """

    pod: PodRecord
    requests: tuple[RequestFinding, ...] = ()
    claims: tuple[ClaimFinding, ...] = ()
    misnamed: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    missing: Missing = field(default_factory=dict)
    bare_nodes: tuple[str, ...] = ()


def describe_bare(nodes: Sequence[str]) -> str:
    """Return why the scheduler's message may count more nodes than the tables of devices have."""
    return (
        f"The scheduler also counts {count_of(len(nodes), 'node')} without GPUs and HCAs:"
        f" {list_first(nodes, _BARE)}."
    )


def is_pending(world: World, pod: PodRecord) -> bool:
    """Return whether a pod waits for a node, and for slices, GPUs, HCAs or claims."""
    if pod.node or not (pod.requests or pod.waiting or pod.unmade_claims):
        return False
    return bool(pod.waiting or pod.unmade_claims) or any(
        is_explained(world, resource) or find_offered_name(world, resource)
        for resource, _ in pod.requests
    )


def is_explicable(world: World, pod: PodRecord) -> bool:
    """Return whether ``explain`` has a page: a pod waits for devices, or for its containers."""
    return pod.is_starting or is_pending(world, pod)


def starting_pods(pods: Iterable[PodRecord], namespace: str = "") -> list[PodRecord]:
    """Return the pods with devices that have a node and do not run, the oldest first."""
    selected_pods = (pod for pod in pods if pod.is_starting and namespace in ("", pod.namespace))
    return sorted(selected_pods, key=lambda pod: (pod.created, pod.key))


def pending_pods(world: World, pods: Iterable[PodRecord], namespace: str = "") -> list[PodRecord]:
    """Return the pods that wait for devices, the oldest first."""
    selected_pods = (
        pod for pod in pods if namespace in ("", pod.namespace) and is_pending(world, pod)
    )
    return sorted(selected_pods, key=lambda pod: (pod.created, pod.key))


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
    own = [request for request in pod.requests if is_explained(survey.world, request[0])]
    no_claims = connection.missing(CLAIMS) if pod.waiting or pod.unmade_claims else {}
    no_policy = connection.missing(POLICY)
    names = {} if no_policy else {name: find_offered_name(survey.world, name) for name, _ in own}
    foreign = [name for name, _ in pod.requests if not is_explained(survey.world, name)]
    names |= {name: find_offered_name(survey.world, name) for name in foreign}
    misnamed = {name: offered for name, offered in names.items() if offered}
    return Explanation(
        pod,
        tuple(_request(survey, pod, *request, not no_policy) for request in own[:MOST]),
        () if no_claims else tuple(find_claims(survey, pod, claims, classes)),
        tuple(itertools.starmap(_advise_name, misnamed.items())),
        tuple(name for name in foreign if name not in misnamed),
        tuple(name for name, _ in own[MOST:]),
        {**no_claims, **no_policy},
        survey.bare_nodes if own else (),
    )


def _advise_name(requested: str, offered: str) -> str:
    prefix = requested.partition("/")[0]
    return (
        f"Tessera's nodes offer {offered}, and not {requested}: request that, or set the chart's"
        f" value resourcePrefix={prefix}"
    )


def _request(
    survey: Survey, pod: PodRecord, resource: str, number: int, knows_policy: bool
) -> RequestFinding:
    nodes = [find_obstacle(survey, pod, node, resource, number) for node in survey.nodes]
    counts = Counter(finding.obstacle for finding in nodes)
    usable = [finding.name for finding in nodes if finding.obstacle not in CLOSED_NODES]
    ordered = sorted(nodes, key=lambda finding: (-_ORDER[finding.obstacle], finding.name))
    matching = frozenset(finding.name for finding in nodes if finding.obstacle not in UNMATCHED)
    coming = _count_coming(survey, resource, matching)
    of_nodes: Counter[str] = Counter()
    for (node, _), count in coming.items():
        of_nodes[node] += count
    steps: tuple[str, ...] = ()
    if knows_policy:
        steps = tuple(find_steps(survey, pod, resource, number, ordered, of_nodes))
    return RequestFinding(
        resource=resource,
        number=number,
        nodes=tuple(ordered),
        counts=tuple((obstacle, counts[obstacle]) for obstacle in Obstacle if obstacle in counts),
        layouts=tuple(_layouts(survey, coming)),
        remedy=find_remedy(survey, resource, number, usable) if knows_policy else None,
        steps=steps,
    )


def _layouts(survey: Survey, coming: Mapping[tuple[str, str], int]) -> Iterator[tuple[str, str]]:
    """Yield the layouts that have yet to create devices and are not Ready, with their messages."""
    for name in sorted({layout for _, layout in coming}):
        for condition in survey.world.layouts[name].status.conditions:
            if condition.type == ConditionType.READY.value and condition.status != "True":
                yield name, f"{condition.reason}: {condition.message}"


def _count_coming(
    survey: Survey, resource: str, nodes: Container[str]
) -> Mapping[tuple[str, str], int]:
    """Return how many devices each layout has yet to create on each of some nodes.

    A slice that exists is not created again, even while a pod holds it.
    """
    coming: Counter[tuple[str, str]] = Counter()
    world = survey.world
    for name, layout in selection.layouts_by_gpu(world).items():
        gpu = world.gpus[name]
        if gpu.spec.node_name in nodes:
            present_count = sum(
                _stays(gpu, gpu_slice)
                for gpu_slice in gpu.status.slices
                if gpu_slice.resource == resource
            )
            count = _count_requested(world.layouts[layout], gpu, resource) - present_count
            if count > 0:
                coming[gpu.spec.node_name, layout] += count
    return coming


def _stays(gpu: Gpu, gpu_slice: Slice) -> bool:
    is_requested = any(instance.place == gpu_slice.place for instance in gpu.spec.instances)
    return gpu_slice.state is SliceState.ACTIVE or is_requested


def _count_requested(layout: Layout, gpu: Gpu, resource: str) -> int:
    """Return how many devices of a resource a layout requests on a GPU."""
    name = resource.partition("/")[2]
    try:
        board = geometry.board(gpu.spec.board)
        return sum(
            request.count
            for request in layout.spec.instances
            if gpu.spec.resource_of(board.device_profile(request.profile)) == name
        )
    except MigError:
        return 0
