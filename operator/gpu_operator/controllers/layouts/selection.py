"""Selection of GPUs by layouts: which layout a GPU follows, and which others select it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.api.v1alpha1.rdma.common import LabelSelector
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.common import membership
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import targets
from rdma.selectors import Operator, Requirement, Selector


def selects(world: World, layout: Layout, gpu: Gpu) -> bool:
    """Return whether the layout's selector matches the GPU.

    The way in which the GPU is allocated (device plugin or DRA) does not matter.
    """
    selector, node = layout.spec.selector, world.nodes.get(gpu.spec.node_name)
    labels = node.labels if node is not None else {}
    return (
        selector.pool in (None, gpu.spec.pool)
        and (not selector.boards or gpu.spec.board in selector.boards)
        and all(labels.get(key) == value for key, value in selector.node_selector.items())
        and (not selector.node_names or gpu.spec.node_name in selector.node_names)
        and (not selector.indices or gpu.spec.index in selector.indices)
        and _matches(selector.node_label_selector, labels)
    )


def _matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels match a ``metav1.LabelSelector``; None matches all."""
    if selector is None:
        return True
    exact = (selector.match_labels or {}).items()
    expressions = (
        Requirement(e.key, Operator(e.operator.value), e.values or ())
        for e in selector.match_expressions or ()
    )
    return exact <= labels.items() and Selector(tuple(expressions)).matches(labels)


@lru_cache(maxsize=2)
def live_gpus(world: World) -> Mapping[str, Gpu]:
    """Return the GPUs that are not being released, ordered by name."""
    node_pools = membership.pools_by_node(world)
    named_gpus = sorted(world.gpus.items())
    return {
        name: gpu for name, gpu in named_gpus if membership.belongs_to_pool(gpu, world, node_pools)
    }


def is_live(world: World, gpu: Gpu) -> bool:
    """Return whether a GPU is not being released."""
    if world.index is not None:
        return membership.belongs_to_pool(gpu, world, world.index.held)
    return gpu.name in live_gpus(world)


def layouts_by_gpu(world: World) -> Mapping[str, str]:
    """Return the name of the layout that each GPU follows; GPUs without a layout are omitted.

    A GPU follows the oldest layout that selects the GPU and fits its board. The GPU continues to
    follow this layout even if an edit makes the layout impossible to apply. Otherwise a typo in
    a layout could remove slices.
    """
    if world.index is not None:
        return world.index.followed
    return {name: roles[0].follows for name, roles in _roles(world).items() if roles[0].follows}


class Part(Enum):
    """How a layout is related to a GPU that it selects."""

    OWN = auto()
    UNPLACEABLE = auto()
    TAKEN = auto()
    CLAIMS = auto()  # only ResourceClaims can use the GPU


@dataclass(frozen=True, slots=True)
class Role:
    """How a layout is related to one GPU that it selects.

    ``follows`` is the layout that the GPU follows; empty if there is none. ``rivals`` are the other
    layouts that select the GPU, the oldest first; they have no effect.
    """

    layout: str
    part: Part
    follows: str
    rivals: tuple[str, ...] = ()


class Order:
    """The layouts sorted by age, with an index of those that name nodes.

    The index serves clusters in which labels of nodes request layouts. There, each node has its
    own layout, and to compare every GPU with every layout would be too slow.
    """

    def __init__(self, layouts: Iterable[Layout]) -> None:
        self._layouts = sorted(
            (layout for layout in layouts if not layout.meta.deleting),
            key=lambda layout: layout.meta.age_key,
        )
        self._of_nodes: dict[str, list[int]] = {}
        self._anywhere = []
        for position, layout in enumerate(self._layouts):
            for name in set(layout.spec.selector.node_names):
                self._of_nodes.setdefault(name, []).append(position)
            if not layout.spec.selector.node_names:
                self._anywhere.append(position)

    def roles(self, world: World, gpu: Gpu) -> tuple[Role, ...]:
        """Return the roles of all layouts that select the GPU, the oldest first."""
        positions = sorted(self._anywhere + self._of_nodes.get(gpu.spec.node_name, []))
        layouts = [self._layouts[p] for p in positions if selects(world, self._layouts[p], gpu)]
        if gpu.spec.allocation is Allocation.DRA:
            return tuple(Role(layout.name, Part.CLAIMS, "") for layout in layouts)
        holds = {
            layout.name: not targets.resolve_target(gpu.spec.board, layout.spec.instances).problem
            for layout in layouts
        }
        could = [n for n, fits in holds.items() if fits or n == gpu.spec.layout]
        follows, rivals = (could[0], tuple(could[1:])) if could else ("", ())

        def part(name: str) -> Part:
            if name == follows:
                return Part.OWN
            return Part.TAKEN if holds[name] else Part.UNPLACEABLE

        return tuple(Role(layout.name, part(layout.name), follows, rivals) for layout in layouts)


@lru_cache(maxsize=2)
def _roles(world: World) -> Mapping[str, Sequence[Role]]:
    """Return, for each live GPU that a layout selects, the roles of all layouts that do."""
    order = Order(world.layouts.values())
    roles_by_gpu = {gpu.name: order.roles(world, gpu) for gpu in live_gpus(world).values()}
    return {name: roles for name, roles in roles_by_gpu.items() if roles}


def roles_of(world: World, layout: Layout) -> Iterator[tuple[Gpu, Role]]:
    """For each GPU that a layout selects, yield the GPU and the layout's role for it.

    The GPUs are in the order of their names.
    """
    return ((gpu, role) for gpu, role in every_role(world) if role.layout == layout.name)


def every_role(world: World) -> Iterator[tuple[Gpu, Role]]:
    """For each live GPU that layouts select, yield the GPU with the role of each of them."""
    for name, roles in _roles(world).items():
        for role in roles:
            yield world.gpus[name], role
