"""State of a pool's nodes and GPUs, updated as they change.

With it, a pass over the pool processes only what is due.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from gpu_operator.api.v1alpha1 import POOL_LABEL
from gpu_operator.api.v1alpha1.gpupool import Clock
from gpu_operator.api.v1alpha1.resource import Gpu, Pool
from gpu_operator.controllers.common import membership
from gpu_operator.controllers.common.conditions import Verdict
from gpu_operator.controllers.common.world import Node, World
from gpu_operator.controllers.pools import fragmentation
from gpu_operator.controllers.pools.fragmentation import RoomSum
from gpu_operator.kube.actions import Action


@dataclass(frozen=True, slots=True)
class Part:
    """The pending writes of one node.

    ``populate`` are the writes of the node's labels and GPUs, and ``readiness`` are the writes
    of its condition and taints.
    """

    populate: tuple[Action, ...] = ()
    readiness: tuple[Action, ...] = ()


class PoolBook:
    """The state of a pool's nodes and GPUs, by name.

    A deleted pool has a book until its nodes are released.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: set[str] = set()
        self.dirty: set[str] = set()
        """Nodes whose ``parts``, ``problems`` and ``late_gpuds`` are outdated."""
        self.parts: dict[str, Part] = {}  # only nodes with pending writes
        self.problems: dict[str, Verdict] = {}
        self.late_gpuds: dict[str, str] = {}
        """Why a node's gpud does not have the current rendering yet, by node."""
        self.conflicts: set[str] = set()  # selected, but held by another pool
        self.labelled: set[str] = set()
        self.gpus: set[str] = set()
        self.leaving: set[str] = set()
        self.modelled: set[str] = set()
        """GPUs on which CUDA events measure modelled time."""
        self.room = RoomSum()
        self._rules: Hashable = None

    def invalidate_if_rules_changed(self, rules: Hashable) -> None:
        """Mark every node as dirty if the rules changed since the last call.

        A node's pending writes depend on the node itself and on ``rules``.
        """
        if rules != self._rules:
            self._rules = rules
            self.dirty |= self.nodes

    def note_node(self, pool: Pool | None, name: str, node: Node | None, holder: str) -> bool:
        """Update a node in the book; return whether the node concerns this pool.

        If ``node`` is None, the node is gone. ``holder`` is the pool that has the node.
        """
        ours = node is not None and holder == self.name
        selected = pool is not None and node is not None and membership.selects(pool, node)
        is_wanted = pool is not None and selected and not pool.meta.deleting
        labelled = node is not None and node.labels.get(POOL_LABEL) == self.name
        name_sets = (self.nodes, self.conflicts, self.labelled)
        concerns = ours or labelled or is_wanted or any(name in names for names in name_sets)
        facts = (ours, is_wanted and not ours, labelled)
        for names, fact in zip(name_sets, facts, strict=True):
            names.add(name) if fact else names.discard(name)
        if ours:
            self.dirty.add(name)
        else:
            self.dirty.discard(name)
            self.parts.pop(name, None)
            self.problems.pop(name, None)
            self.late_gpuds.pop(name, None)
        return concerns

    def note_gpu(self, name: str, gpu: Gpu | None, *, live: bool) -> None:
        """Update a GPU in the book; a GPU that is gone (None) or in another pool is removed."""
        if gpu is None or gpu.spec.pool != self.name:
            self.gpus.discard(name)
            self.leaving.discard(name)
            self.modelled.discard(name)
            self.room.put(name, {})
            return
        self.gpus.add(name)
        self.leaving.discard(name) if live else self.leaving.add(name)
        modelled = gpu.status.clock is Clock.MODELLED
        self.modelled.add(name) if modelled else self.modelled.discard(name)
        self.room.put(name, fragmentation.room_on(gpu) if live else {})


def make_book(world: World, name: str) -> PoolBook:
    """Make the ``PoolBook`` of the pool ``name`` from all nodes and GPUs of ``world``."""
    book, node_pools = PoolBook(name), membership.pools_by_node(world)
    pool = world.pools.get(name)
    for node in world.nodes.values():
        book.note_node(pool, node.name, node, node_pools.get(node.name, ""))
    for gpu in world.gpus.values():
        book.note_gpu(gpu.name, gpu, live=membership.belongs_to_pool(gpu, world, node_pools))
    return book
