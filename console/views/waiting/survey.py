"""What all explanations of one state of the cluster share: computed once for each ``World``."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from console.model.pods import Taint
from console.views.waiting import supply
from console.views.waiting.supply import HeldSlice, Supply
from gpu_operator.api.v1alpha1 import GROUP, HCA_RESOURCE
from gpu_operator.api.v1alpha1.gpu import SliceState
from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.common.world import Node, World
from gpu_operator.controllers.nodes.sharing import NVIDIA
from mig import geometry, planner
from mig.errors import MigError
from mig.geometry import Instance
from mig.pools import GpuState
from mig.spec import Place


@dataclass(frozen=True)
class Survey:
    """A world and its nodes' taints, with values that are derived from them on first use."""

    world: World
    taints: Mapping[str, Sequence[Taint]] = field(default_factory=dict)
    _supplies: dict[tuple[str, str], Supply] = field(default_factory=dict, init=False)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes that have GPUs or offer HCAs, by name."""
        with_gpus = self.world.gpus_by_node()
        named_nodes = sorted(self.world.nodes.items())
        return tuple(
            n for name, n in named_nodes if name in with_gpus or HCA_RESOURCE in n.capacity
        )

    @cached_property
    def bare_nodes(self) -> tuple[str, ...]:
        """Return the other nodes, each with its taints: the scheduler counts them as well."""
        device_nodes = {node.name for node in self.nodes}
        bare_names = sorted(name for name in self.world.nodes if name not in device_nodes)
        return tuple(
            f"{name} (tainted {', '.join(map(str, taints))})" if taints else name
            for name, taints in (
                (node_name, self.taints.get(node_name, ())) for node_name in bare_names
            )
        )

    @cached_property
    def slices(self) -> Mapping[tuple[str, str], Sequence[HeldSlice]]:
        """Return the slices of each node and resource."""
        by_resource: dict[tuple[str, str], list[HeldSlice]] = defaultdict(list)
        for gpu in self.world.gpus.values():
            for gpu_slice in gpu.status.slices:
                by_resource[gpu.spec.node_name, gpu_slice.resource].append((gpu, gpu_slice))
        return by_resource

    @cached_property
    def reporting_nodes(self) -> frozenset[str]:
        """Return the nodes whose agents report slices, whole GPUs included."""
        return frozenset(node for node, _ in self.slices)

    @cached_property
    def usable_by_node(self) -> Mapping[str, Sequence[GpuState]]:
        """Return the planner's view of each node's GPUs on which a layout can create slices.

        GPUs that are not healthy, and those that serve ResourceClaims now, are left out.
        """
        usable: dict[str, list[GpuState]] = defaultdict(list)
        for state in self.states:
            gpu = self.world.gpus[state.name]
            is_claimed = gpu.spec.allocation is Allocation.DRA or bool(gpu.status.claims)
            if gpu.status.health == "Healthy" and not is_claimed:
                usable[gpu.spec.node_name].append(state)
        return usable

    @cached_property
    def states(self) -> tuple[GpuState, ...]:
        """Return the planner's view of the GPUs whose slices are valid on their boards."""
        return tuple(filter(None, map(_state, self.world.gpus.values())))

    @cached_property
    def examples(self) -> tuple[Gpu, ...]:
        """Return one GPU of each board: a profile's resource depends on the board only."""
        return tuple({gpu.spec.board: gpu for gpu in self.world.gpus.values()}.values())

    @cached_property
    def closed(self) -> Mapping[str, frozenset[str]]:
        """Return, for each node, the resources with slices that admit no pod during a restart."""
        return {node.name: frozenset(self._closed_on(node)) for node in self.nodes}

    def _closed_on(self, node: Node) -> Iterator[str]:
        """Yield the resources with a slice in service that admits no pod.

        A slice that is not in service admits none either, but nothing restarts.
        """
        for gpu in self.world.gpus_by_node().get(node.name, ()):
            for gpu_slice in gpu.status.slices:
                is_closed = gpu_slice.state is SliceState.ACTIVE and not gpu_slice.admitted
                if is_closed and supply.is_in_service(gpu, gpu_slice):
                    yield gpu_slice.resource

    def count_supply(self, node: Node, resource: str) -> Supply:
        """Return how the kubelet and the scheduler count the devices of a resource on a node."""
        key = (node.name, resource)
        if key not in self._supplies:
            slices = self.slices.get(key, ())
            self._supplies[key] = supply.count_supply(self.world, node, resource, slices)
        return self._supplies[key]


def is_explained(world: World, resource: str) -> bool:
    """Return whether a resource is a slice, a GPU or an HCA, which the console explains."""
    prefixes = {world.policy.resource_prefix, GROUP}
    return resource == HCA_RESOURCE or any(offers.is_ours(resource, prefix) for prefix in prefixes)


def find_offered_name(world: World, resource: str) -> str:
    """Return the name under which the cluster offers a slice or GPU that a pod requests under the
    prefix of another installation; empty if its prefix is the cluster's.
    """
    prefix = world.policy.resource_prefix
    requested, _, name = resource.partition("/")
    if requested == prefix or requested not in (GROUP, NVIDIA):
        return ""
    return f"{prefix}/{name}" if offers.is_ours(resource, requested) else ""


def _state(gpu: Gpu) -> GpuState | None:
    """Return the planner's view of a GPU; None if its slices are not valid on its board."""
    slices = gpu.status.slices
    instances = _instances(gpu.spec.board, tuple(gpu_slice.place for gpu_slice in slices))
    if instances is None:
        return None
    holders = {
        instance: tuple(f"{h.namespace}/{h.name}" for h in gpu_slice.holders)
        for instance, gpu_slice in zip(instances, slices, strict=True)
        if gpu_slice.holders
    }
    return GpuState(gpu.name, gpu.spec.pool, geometry.board(gpu.spec.board), instances, holders)


@lru_cache(maxsize=4096)
def _instances(board_key: str, places: tuple[Place, ...]) -> tuple[Instance, ...] | None:
    """Return valid instances at these places; a fleet has few different combinations."""
    try:
        board = geometry.board(board_key)
        instances = tuple(board.instance(*place) for place in places)
        planner.check(board, instances)
    except MigError:
        return None
    return instances
