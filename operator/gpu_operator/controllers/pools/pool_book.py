"""What is known of a pool's nodes and GPUs, kept as they change: a pass looks at what is due."""

from collections.abc import Hashable
from dataclasses import dataclass

from gpu_operator.api.v1alpha1 import POOL_LABEL
from gpu_operator.api.v1alpha1.gpupool import Clock
from gpu_operator.api.v1alpha1.resource import Gpu, Pool
from gpu_operator.controllers.common import membership
from gpu_operator.controllers.common.conditions import Verdict
from gpu_operator.controllers.common.world import Node, World
from gpu_operator.controllers.pools import scatter
from gpu_operator.controllers.pools.scatter import RoomSum
from gpu_operator.kube.actions import Action


@dataclass(frozen=True, slots=True)
class Part:
    """What one node wants done: its labels and GPUs, and what it says of itself."""

    populate: tuple[Action, ...] = ()
    readiness: tuple[Action, ...] = ()


class PoolBook:
    """One pool's nodes and GPUs by name; a pool that is gone may have left some behind."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: set[str] = set()
        self.dirty: set[str] = set()
        """Nodes of which ``parts``, ``problems`` and ``late_gpuds`` are of an earlier state."""
        self.parts: dict[str, Part] = {}  # of nodes that want something done
        self.problems: dict[str, Verdict] = {}
        self.late_gpuds: dict[str, str] = {}
        """Why nodes have yet to have a gpud of the present rendering (``rollouts.late_gpud``)."""
        self.conflicts: set[str] = set()  # selected, and not ours
        self.labelled: set[str] = set()
        self.gpus: set[str] = set()
        self.leaving: set[str] = set()
        self.modelled: set[str] = set()
        """GPUs on which events measure modelled time."""
        self.room = RoomSum()
        self._rules: Hashable = None

    def follow_rules(self, rules: Hashable) -> None:
        """Look at every node again if these are not the rules that ``parts`` were made by."""
        if rules != self._rules:
            self._rules = rules
            self.dirty |= self.nodes

    def note_node(self, pool: Pool | None, name: str, node: Node | None, holder: str) -> bool:
        """Take a node as it is now, None if it is gone; return whether it concerns this pool."""
        ours = node is not None and holder == self.name
        selected = pool is not None and node is not None and membership.selects(pool, node)
        wanted = pool is not None and selected and not pool.meta.deleting
        labelled = node is not None and node.labels.get(POOL_LABEL) == self.name
        known = (self.nodes, self.conflicts, self.labelled)
        concerns = ours or labelled or wanted or any(name in names for names in known)
        facts = (ours, wanted and not ours, labelled)
        for names, fact in zip(known, facts, strict=True):
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
        """Take a GPU as it is now; None if it is gone, or another pool's."""
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
        self.room.put(name, scatter.room_on(gpu) if live else {})


def of(world: World, name: str) -> PoolBook:
    """Write the book of one pool from the world."""
    book, held = PoolBook(name), membership.claims(world)
    pool = world.pools.get(name)
    for node in world.nodes.values():
        book.note_node(pool, node.name, node, held.get(node.name, ""))
    for gpu in world.gpus.values():
        book.note_gpu(gpu.name, gpu, live=membership.belongs(gpu, world, held))
    return book
