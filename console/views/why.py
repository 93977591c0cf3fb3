"""Why a pod waits: its request, the nodes that could serve it, what is in the way, what would help.

The counts come from the operator's functions about offers, the verdicts about claims from the code
that writes the operator's events, and the moves from the planner of ``tessera mig advise``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from console.model.pods import PodRecord
from gpu_operator.api.v1alpha1 import HCA_RESOURCE
from gpu_operator.api.v1alpha1.base import ConditionType
from gpu_operator.api.v1alpha1.gpu import SliceState
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.claims.reading import Claim
from gpu_operator.controllers.claims.request_resolution import resolve_claim
from gpu_operator.controllers.claims.room import GpuCapacities
from gpu_operator.controllers.claims.selectors import Facts
from gpu_operator.controllers.claims.verdict import ClaimEvaluator, Verdict
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.common.world import Node, World
from mig import geometry, planner, pools
from mig.errors import MigError
from mig.geometry import Instance
from mig.pools import GpuState

SHOWN: Final = 40  # nodes in a table
MOVES: Final = 5


class Obstacle(StrEnum):
    """What keeps a pod off a node, the first that applies."""

    SELECTOR = "does not match the pod's nodeSelector"
    NOT_READY = "not ready"
    TAINTED = "tainted"
    GPUS_DOWN = "does not serve its GPUs"
    NOT_OFFERED = "does not have this resource"
    CLOSED = "admits no pod now"
    WITHDRAWN = "slices withdrawn"
    FULL = "full"
    FEWER = "has fewer than requested"
    NONE = "has room"


@dataclass(frozen=True, slots=True)
class NodeFinding:
    """A node, and what keeps the pod off it."""

    name: str
    obstacle: Obstacle
    detail: str
    free: int = 0
    offered: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """A change on one GPU that makes room: pods that move, or that must end."""

    gpu: str
    lines: tuple[str, ...]
    evicts: bool


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would free a slice. ``now`` is how many would fit beside all held slices."""

    profile: str
    wanted: int
    now: int
    possible: int
    moves: tuple[Move, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RequestFinding:
    """The findings about one extended resource that a pod requests."""

    resource: str
    number: int
    nodes: tuple[NodeFinding, ...]
    counts: tuple[tuple[Obstacle, int], ...]
    layouts: tuple[tuple[str, str], ...]
    remedy: Remedy | None = None

    @property
    def nodes_with_room(self) -> int:
        """Return how many nodes have as much free as the pod requests."""
        return dict(self.counts).get(Obstacle.NONE, 0)


@dataclass(frozen=True, slots=True)
class ClaimFinding:
    """The operator's verdict about a ResourceClaim; None if another driver serves the claim."""

    name: str
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that the page shows about a pending pod."""

    pod: PodRecord
    requests: tuple[RequestFinding, ...]
    claims: tuple[ClaimFinding, ...]


def pending_pods(pods: Iterable[PodRecord], namespace: str = "") -> list[PodRecord]:
    """Return the pods that wait for devices, the oldest first."""
    found = (pod for pod in pods if pod.is_pending and namespace in ("", pod.namespace))
    return sorted(found, key=lambda pod: (pod.created, pod.key))


def explain(
    world: World, pod: PodRecord, claims: Mapping[str, Claim], classes: Mapping[str, Facts]
) -> Explanation:
    """Explain why a pod waits."""
    requests = tuple(_request(world, pod, *one) for one in pod.requests)
    return Explanation(pod, requests, tuple(_claims(world, pod, claims, classes)))


def _request(world: World, pod: PodRecord, resource: str, number: int) -> RequestFinding:
    nodes = [_node(world, pod, node, resource, number) for node in _gpu_nodes(world)]
    counts: dict[Obstacle, int] = {}
    for one in nodes:
        counts[one.obstacle] = counts.get(one.obstacle, 0) + 1
    ordered = sorted(nodes, key=lambda one: (-list(Obstacle).index(one.obstacle), one.name))
    return RequestFinding(
        resource=resource,
        number=number,
        nodes=tuple(ordered),
        counts=tuple((one, counts[one]) for one in Obstacle if one in counts),
        layouts=tuple(_layouts(world, resource)),
        remedy=_remedy(world, resource, number),
    )


def _gpu_nodes(world: World) -> Iterator[Node]:
    """Yield the nodes that have GPUs or offer HCAs."""
    by_node = world.gpus_by_node()
    for name, node in sorted(world.nodes.items()):
        if name in by_node or HCA_RESOURCE in node.capacity:
            yield node


def _node(world: World, pod: PodRecord, node: Node, resource: str, number: int) -> NodeFinding:
    offered = offers.allocatable_count(node, resource)
    slices = [
        (gpu, one)
        for gpu in world.gpus_by_node().get(node.name, ())
        for one in gpu.status.slices
        if one.resource == resource
    ]
    used = sum(len(one.holders) for _, one in slices)
    free = max(offered - used, 0)

    def found(obstacle: Obstacle, detail: str = "") -> NodeFinding:
        return NodeFinding(node.name, obstacle, detail, free, offered)

    wrong = [k for k, v in pod.node_selector if node.labels.get(k) != v]
    if wrong:
        return found(Obstacle.SELECTOR, f"label {wrong[0]}")
    if not node.ready:
        return found(Obstacle.NOT_READY)
    taints = [t for t in sorted(node.taints) if not any(o.covers(t) for o in pod.tolerations)]
    if taints:
        return found(Obstacle.TAINTED, ", ".join(taints))
    if node.gpu_ready is not None and node.gpu_ready.status != "True":
        return found(Obstacle.GPUS_DOWN, f"{node.gpu_ready.reason}: {node.gpu_ready.message}")
    if resource == HCA_RESOURCE:  # the model does not count functions of HCAs that run elsewhere
        return found(Obstacle.NONE if offered else Obstacle.NOT_OFFERED, f"{offered} allocatable")
    if not slices and not offered:
        return found(Obstacle.NOT_OFFERED)
    leaving = [
        f"{one.place} of {g.name}" for g, one in slices if one.state is SliceState.WITHDRAWING
    ]
    if free >= number:
        return found(Obstacle.NONE, f"{free} of {offered} free")
    active = offers.count_active(world, node).get(resource, 0)
    if active > offers.count_admitted(world, node).get(resource, 0):
        return found(Obstacle.CLOSED, "the kubelet or the node agent restarts")
    if leaving and not free:
        return found(Obstacle.WITHDRAWN, ", ".join(leaving))
    if not free:
        return found(Obstacle.FULL, _holders(slices))
    return found(Obstacle.FEWER, f"{free} of {offered} free")


def _holders(slices: Sequence[tuple[Gpu, object]]) -> str:
    names = [f"{h.namespace}/{h.name}" for _, one in slices for h in getattr(one, "holders", ())]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"held by {', '.join(names[:3])}{more}" if names else ""


def _layouts(world: World, resource: str) -> Iterator[tuple[str, str]]:
    """Yield the layouts that create the resource and are not Ready, with their messages."""
    for name, layout in sorted(world.layouts.items()):
        if not any(_makes(layout, gpu, resource) for gpu in _some_gpus(world, layout)):
            continue
        for one in layout.status.conditions:
            if one.type == ConditionType.READY.value and one.status != "True":
                yield name, f"{one.reason}: {one.message}"


def _some_gpus(world: World, layout: Layout) -> Iterator[Gpu]:
    """Yield one GPU of each board, because a profile's resource depends on the board only."""
    del layout
    seen: set[str] = set()
    for gpu in world.gpus.values():
        if gpu.spec.board not in seen:
            seen.add(gpu.spec.board)
            yield gpu


def _makes(layout: Layout, gpu: Gpu, resource: str) -> bool:
    name = resource.partition("/")[2]
    try:
        board = geometry.board(gpu.spec.board)
        profiles = [board.device_profile(one.profile) for one in layout.spec.instances]
    except MigError:
        return False
    return any(gpu.spec.resource_of(profile) == name for profile in profiles)


def _remedy(world: World, resource: str, number: int) -> Remedy | None:
    """Return what the planner proposes; None if the resource is no MIG device."""
    if not offers.is_ours(resource, world.policy.resource_prefix):
        return None
    short = resource.partition("/mig-")[2]
    states = list(filter(None, map(_state, world.gpus.values())))
    profile = _profile_name(states, short)
    if not profile:
        return None
    divided = [one for one in states if not one.is_whole]
    try:
        found = pools.advise(divided, profile, number)
    except MigError as err:
        return Remedy(profile, number, 0, 0, (), str(err))
    moves = tuple(_move(gpu, making) for gpu, making in found.makings[:MOVES])
    return Remedy(profile, number, found.now, found.possible, moves)


def _profile_name(states: Iterable[GpuState], short: str) -> str:
    for board in {one.board for one in states}:
        for device in board.device_profiles:
            if device.resource_name == f"mig-{short}":
                return device.name
    return ""


def _state(gpu: Gpu) -> GpuState | None:
    """Return the planner's view of a GPU; None if its slices are not valid on its board."""
    try:
        board = geometry.board(gpu.spec.board)
        held: dict[Instance, tuple[str, ...]] = {}
        for one in gpu.status.slices:
            pods = tuple(f"{h.namespace}/{h.name}" for h in one.holders)
            held[board.instance(*one.place)] = pods
        planner.check(board, tuple(held))
    except MigError:
        return None
    return GpuState(
        gpu.name, gpu.spec.pool, board, tuple(held), {k: v for k, v in held.items() if v}
    )


def _move(gpu: GpuState, making: planner.Making) -> Move:
    after = [str(to) for _, to in making.moves]
    lines = []
    for place, one in enumerate(making.disturbed):
        names = ", ".join(gpu.holders_in(one))
        lines.append(
            f"move {names} from {one} to {after[place]}" if after else f"end {names} on {one}"
        )
    return Move(gpu.name, tuple(lines), not after)


def _claims(
    world: World, pod: PodRecord, claims: Mapping[str, Claim], classes: Mapping[str, Facts]
) -> Iterator[ClaimFinding]:
    if pod.waiting is None:
        return
    evaluator = ClaimEvaluator(GpuCapacities().read(world, claims.values()))
    for name in pod.waiting.claims:
        claim = claims.get(f"{pod.namespace}/{name}")
        resolved = resolve_claim(claim, classes) if claim is not None else None
        yield ClaimFinding(name, evaluator.evaluate(resolved) if resolved is not None else None)
