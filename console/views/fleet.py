"""The fleet: nodes with their GPUs and slices, filtered, as a map or in detail."""

import itertools
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from console.views import faults
from console.views.geometry import draw
from console.views.labels import read_selector
from console.views.waiting import supply
from drawing import pixels
from drawing.slices import WORDS, Box, BoxState, GpuPicture
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common import membership
from gpu_operator.controllers.common.world import Node, World

DETAILED: Final = 24  # nodes that are drawn with a link for each slice
HUES: Final = 8
BY_NAMESPACE: Final = "namespace"
BY_MEMORY: Final = "memory"
COLOURS: Final = {
    "state": "state",
    BY_NAMESPACE: "namespace of the holder",
    BY_MEMORY: "memory in use",
}
MEMORY_LEVELS: Final = (1, 25, 50, 75)  # percent: from each of them on, another colour


@dataclass(frozen=True, slots=True)
class Filter:
    """Which GPUs are shown; an empty field does not restrict.

    ``labels`` is a label selector of nodes (``labels.read_selector``).
    """

    pool: str = ""
    namespace: str = ""
    board: str = ""
    node: str = ""
    labels: str = ""
    colour: str = "state"

    def selects(self, gpu: Gpu, namespaces: "Namespaces") -> bool:
        """Return whether the GPU is shown."""
        return (
            self.pool in ("", gpu.spec.pool)
            and self.board in ("", gpu.spec.board)
            and (not self.namespace or self.namespace in namespaces.of(gpu))
        )

    def selects_node(self, world: World, name: str) -> bool:
        """Return whether the name and the labels of a node match; an unknown node has no label."""
        if self.node not in name:
            return False
        node = world.nodes.get(name)
        labels = node.labels if node is not None else {}
        return all(requirement.matches(labels) for requirement in read_selector(self.labels))


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU and its picture; ``left`` is its position on the node's map."""

    gpu: Gpu
    picture: GpuPicture
    left: int

    @property
    def is_sick(self) -> bool:
        """Return whether the GPU is not known to be healthy."""
        return self.gpu.status.health != "Healthy" or faults.is_lost(self.gpu)


@dataclass(frozen=True, slots=True)
class ProfileCount:
    """How many slices of a profile a node has, and how many of them are free.

    ``allocatable`` is how many of the free ones the scheduler can allocate now: devices that are
    not offered count against them while pods hold them.
    """

    profile: str
    free: int
    total: int
    allocatable: int

    def __str__(self) -> str:
        text = f"{self.profile}: {self.free} of {self.total} free"
        less = f", {self.allocatable} can be allocated now"
        return f"{text}{less if self.allocatable < self.free else ''}"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with its GPUs, and one path per colour for its map."""

    name: str
    node: Node | None
    pool: str
    gpus: tuple[GpuView, ...]
    paths: tuple[tuple[str, str], ...]
    width: int
    counts: Counter[BoxState] = field(default_factory=Counter)
    problem: str = ""
    profiles: tuple[ProfileCount, ...] = ()

    @property
    def label(self) -> str:
        """Return the node's description for people who do not see the drawing."""
        counts = ", ".join(f"{n} {WORDS[state]}" for state, n in sorted(self.counts.items()))
        summary = f"{self.name}: {len(self.gpus)} GPUs; slices: {counts or 'none'}"
        return f"{summary}; {self.problem}" if self.problem else summary


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that the filters offer."""

    pools: Sequence[str]
    boards: Sequence[str]
    namespaces: Sequence[str]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A node that matches the filter, with those of its GPUs that match.

    ``knows_node`` is false while nodes are not known, so that ``node`` may exist in any case.
    ``knows_faults`` is false while GPUFaults are not known, so that none can be said to be gone.
    """

    name: str
    node: Node | None
    gpus: tuple[Gpu, ...]
    knows_node: bool = True
    knows_faults: bool = True


class Namespaces:
    """The namespaces that hold slices of each GPU, read again only after the GPU has changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Gpu, frozenset[str]]] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}  # equal sets exist once

    def of(self, gpu: Gpu) -> frozenset[str]:
        """Return the namespaces of the pods and claims that hold slices of the GPU."""
        cached = self._known.get(gpu.name)
        if cached is None or cached[0] is not gpu:
            namespaces = namespaces_of(gpu)
            cached = self._known[gpu.name] = (gpu, self._sets.setdefault(namespaces, namespaces))
        return cached[1]

    def forget(self, world: World) -> None:
        """Drop the GPUs that no longer exist."""
        if len(self._known) > len(world.gpus):
            self._known = {k: v for k, v in self._known.items() if k in world.gpus}
            self._sets = {namespaces: namespaces for _, namespaces in self._known.values()}


def namespaces_of(gpu: Gpu) -> frozenset[str]:
    """Return the namespaces of the pods and claims that hold slices of the GPU."""
    namespaces = {
        holder.namespace for gpu_slice in gpu.status.slices for holder in gpu_slice.holders
    }
    return frozenset(namespaces | {claim.claim.namespace for claim in gpu.status.claims})


def choose_nodes(
    world: World,
    chosen: Filter,
    namespaces: Namespaces,
    knows_nodes: bool = True,
    knows_faults: bool = True,
) -> list[Chosen]:
    """Return the nodes that match a filter, in the order of their names."""
    by_node: dict[str, list[Gpu]] = {}
    for gpu in world.gpus.values():
        if chosen.selects(gpu, namespaces):
            by_node.setdefault(gpu.spec.node_name, []).append(gpu)
    narrow = chosen.namespace or chosen.board
    bare = () if narrow else (n for n in _nodes_of_pools(world, chosen) if n not in by_node)
    return [
        Chosen(name, world.nodes.get(name), tuple(by_node.get(name, ())), knows_nodes, knows_faults)
        for name in sorted([*by_node, *bare])
        if chosen.selects_node(world, name)
    ]


def choose_named(
    world: World,
    names: Iterable[str],
    chosen: Filter,
    namespaces: Namespaces,
    knows_nodes: bool = True,
    knows_faults: bool = True,
) -> list[Chosen]:
    """Return those of some nodes that match a filter."""
    by_node, pools = world.gpus_by_node(), membership.pools_by_node(world)
    chosen_nodes = []
    for name in names:
        gpus = tuple(g for g in by_node.get(name, ()) if chosen.selects(g, namespaces))
        narrow = chosen.namespace or chosen.board
        bare = not narrow and name in pools and chosen.pool in ("", pools[name])
        if (gpus or bare) and chosen.selects_node(world, name):
            chosen_nodes.append(
                Chosen(name, world.nodes.get(name), gpus, knows_nodes, knows_faults)
            )
    return chosen_nodes


def view_node(world: World, chosen: Chosen, colour: str) -> NodeView:
    """Return a node with its GPUs in the order of their indices."""
    name, node = chosen.name, chosen.node
    gpus = sorted(chosen.gpus, key=lambda gpu: gpu.spec.index)
    views = tuple(
        GpuView(gpu, draw(gpu), place * (pixels.MAP.width + 4)) for place, gpu in enumerate(gpus)
    )
    counts = Counter(box.state for view in views for box in view.picture.boxes)
    if waiting := sum(len(view.picture.waiting) for view in views):
        counts[BoxState.COMING] += waiting
    pool = gpus[0].spec.pool if gpus else membership.pools_by_node(world).get(name, "")
    return NodeView(
        name=name,
        node=node,
        pool=pool,
        gpus=views,
        paths=tuple(_paths(views, colour)),
        width=max(len(views), 1) * (pixels.MAP.width + 4) - 4,
        counts=counts,
        problem=_problem(world, chosen, views),
        profiles=tuple(_count_profiles(world, chosen, views)),
    )


def _count_profiles(
    world: World, chosen: Chosen, views: Sequence[GpuView]
) -> Iterator[ProfileCount]:
    """Yield the slices that exist, by profile; those that are only requested do not count."""
    total, free = Counter[str](), Counter[str]()
    for box in (box for view in views for box in view.picture.boxes):
        profile = box.name.partition("@")[0]
        total[profile] += box.state is not BoxState.COMING
        free[profile] += box.state is BoxState.FREE
    resources: dict[str, set[str]] = {}
    for gpu_slice in (gpu_slice for view in views for gpu_slice in view.gpu.status.slices):
        resources.setdefault(gpu_slice.profile, set()).add(gpu_slice.resource)
    for profile in sorted(total):
        if total[profile]:
            free_limit = free[profile]
            if free_limit and chosen.node is not None:
                names = resources.get(profile, ())
                supplies = [
                    supply.count_of_node(world, chosen.node, resource) for resource in names
                ]
                crowded = any(node_supply.is_crowded for node_supply in supplies)
                free_limit = (
                    min(free_limit, sum(node_supply.free for node_supply in supplies))
                    if crowded
                    else free_limit
                )
            yield ProfileCount(profile, free[profile], total[profile], free_limit)


def colour_class(box: Box, colour: str) -> str:
    """Return the class of the style sheet that colours a box."""
    if colour == BY_NAMESPACE and box.state in (BoxState.HELD, BoxState.CLAIMED) and box.holders:
        return f"h{hue(box.holders[0].namespace)}"
    if colour == BY_MEMORY and box.state in (BoxState.HELD, BoxState.CLAIMED):
        return f"u{sum(box.memory_percent >= level for level in MEMORY_LEVELS)}"
    return box.state.value


def memory_legend() -> Sequence[tuple[str, str]]:
    """Return the classes of slices by the memory that is in use, each with its meaning."""
    ends = (*MEMORY_LEVELS, 100)
    ranges = [f"{low} to {high} %" for low, high in itertools.pairwise(ends)]
    texts = (f"below {MEMORY_LEVELS[0]} % of the memory in use", *ranges)
    return [(f"u{number}", text) for number, text in enumerate(texts)]


def hue(namespace: str) -> int:
    """Return the number of the colour that a namespace has on every page."""
    return zlib.crc32(namespace.encode()) % HUES


def _paths(views: Sequence[GpuView], colour: str) -> Iterator[tuple[str, str]]:
    paths: dict[str, list[str]] = {}
    for view in views:
        for box in view.picture.boxes:
            path_parts = paths.setdefault(colour_class(box, colour), [])
            path_parts.append(pixels.map_path(box, view.picture, view.left))
    for name in sorted(paths):
        yield name, "".join(paths[name])


def silence_of(node: Node | None, knows_node: bool) -> str:
    """Return why what a node's agent has reported may be out of date; empty if it is not known."""
    if node is None:
        return "the Node object does not exist" if knows_node else ""
    if not node.ready:
        return "the node is not ready"
    ready = node.gpu_ready
    is_silent = ready is not None and ready.status != "True" and ready.reason in supply.SILENT
    return f"{ready.reason}: {ready.message}" if ready is not None and is_silent else ""


def _problem(world: World, chosen: Chosen, views: Sequence[GpuView]) -> str:
    node, knows_node = chosen.node, chosen.knows_node
    if (node is None and knows_node) or (node is not None and not node.ready):
        return silence_of(node, knows_node)
    ready = node.gpu_ready if node is not None else None
    of_node = f"{ready.reason}: {ready.message}" if ready and ready.status != "True" else ""
    sick = faults.sick_gpus(world, (view.gpu for view in views))
    texts = (_describe_sick(sick_gpu, chosen.knows_faults) for sick_gpu in sick)
    return "; ".join(filter(None, (of_node, *texts)))


def _describe_sick(sick: faults.SickGpu, knows_faults: bool) -> str:
    if knows_faults:
        return str(sick)
    causes = "".join(f", {fault.what}" for fault in sick.faults)
    return f"GPU {sick.gpu.spec.index} {faults.describe_health(sick.gpu)}{causes}"


def _nodes_of_pools(world: World, chosen: Filter) -> Iterator[str]:
    """Yield the nodes of pools, which are shown even before they have GPU objects."""
    for name, pool in membership.pools_by_node(world).items():
        if chosen.pool in ("", pool):
            yield name


def choices(world: World, namespaces: Namespaces) -> Choices:
    """Return the values that the filters offer."""
    namespaces.forget(world)
    spaces: set[str] = set()
    for gpu in world.gpus.values():
        spaces |= namespaces.of(gpu)
    return Choices(
        sorted(world.pools.keys() | {gpu.spec.pool for gpu in world.gpus.values()}),
        sorted({gpu.spec.board for gpu in world.gpus.values()}),
        sorted(spaces),
    )
