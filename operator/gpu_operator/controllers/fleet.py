"""Indexes over the world: which pool each node belongs to, and which layout each GPU follows.

They are updated as objects change, so that the cost of one GPU's change does not depend on the
size of the fleet. Only edits by users (pools, the policy, a layout) cause many GPUs to be
reconciled; for a layout, those that it selects or selected. The store reports the changes;
``update`` returns the keys to reconcile.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from gpu_operator.api.v1alpha1 import MIG_CONFIG_NODE, POOL_LABEL
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.common import membership
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import layouts, selection
from gpu_operator.controllers.layouts.book import LayoutBook
from gpu_operator.controllers.layouts.selection import Role
from gpu_operator.controllers.pools.pool_book import PoolBook

Named = tuple[str, str]  # kind and name


class Fleet:
    """Indexes over the world, which are updated incrementally.

    Used by one thread at a time; call ``update`` first.
    """

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self.by_node: dict[str, tuple[Gpu, ...]] = {}
        self.followed: dict[str, str] = {}
        self.books: dict[str, LayoutBook] = {}
        self.pool_books: dict[str, PoolBook] = {}
        self.layouts_by_label: dict[str, dict[str, Layout]] = {}
        self._gpus: dict[str, Gpu] = {}
        self._nodes: set[str] = set()
        self._roles: dict[str, tuple[Role, ...]] = {}
        self._layouts: dict[str, Layout] = {}
        self._settings: Any = None  # settings that affect every object
        self._pools: Sequence[Any] = ()
        self._order = selection.Order(())

    def update(self, world: World, changes: Iterable[Named]) -> set[Named]:
        """Update the indexes with the world's changes; return the objects to reconcile.

        The world's ``index`` must be this object. After an exception, the next call rebuilds all
        indexes.
        """
        try:
            return self._update(world, changes)
        except Exception:
            self._settings = None
            raise

    def _update(self, world: World, changes: Iterable[Named]) -> set[Named]:
        touched: set[Named] = set()
        settings = (world.policy, {n: (p.meta, p.spec) for n, p in world.pools.items()})
        if settings != self._settings:
            self._settings = settings
            return self._rebuild(world)
        nodes, gpus, edited = set[str](), set[str](), set[str]()
        for kind, name in changes:
            match kind:
                case "GPU":
                    gpus.add(name)
                case "Node":
                    nodes.add(name)
                case "MIGLayout":
                    edited.add(name)
                case "GPUPool":
                    touched.add((kind, name))
                    touched |= {("GPUPolicy", policy) for policy in world.policies}
                case "Agent":
                    touched |= self._mark_dirty(name)
                case _:  # ``engine.routes`` handles it
                    pass
        for name in gpus:
            nodes |= self._update_gpu(world, name)
        for name in edited:
            nodes |= self._update_layout(world, name, touched)
        for name in nodes:
            touched |= self._update_node(world, name)
        touched |= {("GPU", name) for name in gpus}
        if gpus:
            touched |= {("GPUFault", name) for name in world.faults}
        return touched

    def _rebuild(self, world: World) -> set[Named]:
        self._pools = membership.valid_pools(world)
        self._layouts = dict(world.layouts)
        self._order = selection.Order(self._layouts.values())
        self.books = {name: LayoutBook(layout) for name, layout in self._layouts.items()}
        self.layouts_by_label = {}
        for name, layout in self._layouts.items():
            self._update_label_layout(name, None, layout)
        self.pool_books = {}
        self._roles.clear()
        self.followed.clear()
        touched: set[Named] = {("GPU", name) for name in self._gpus.keys() | world.gpus.keys()}
        for name in self._gpus.keys() | world.gpus.keys():
            self._update_gpu(world, name)
        for node in self._nodes | world.nodes.keys() | self.by_node.keys():
            touched |= self._update_node(world, node)
        touched |= {("MIGLayout", name) for name in world.layouts}
        touched |= {("GPUPolicy", name) for name in world.policies}
        return touched | {("GPUPool", name) for name in (*world.pools, *self.pool_books)}

    def _update_gpu(self, world: World, name: str) -> set[str]:
        """Record a GPU under its node; return the nodes to which it belongs or belonged."""
        old_gpu, new_gpu = self._gpus.get(name), world.gpus.get(name)
        node_names = {gpu.spec.node_name for gpu in (old_gpu, new_gpu) if gpu is not None}
        if new_gpu is None:
            self._gpus.pop(name, None)
        else:
            self._gpus[name] = new_gpu
        for node in node_names:
            node_gpus = [g for g in self.by_node.get(node, ()) if g.name != name]
            if new_gpu is not None and new_gpu.spec.node_name == node:
                node_gpus.append(new_gpu)
            self.by_node[node] = tuple(sorted(node_gpus, key=lambda g: (g.spec.index, g.name)))
            if not node_gpus:
                del self.by_node[node]
        for gpu in (old_gpu, new_gpu):
            if gpu is not None:
                # ``_update_node`` sets it
                self._get_book(gpu.spec.pool).note_gpu(name, new_gpu, live=True)
        if new_gpu is None:
            self._forget_gpu(name)
        return node_names

    def _update_layout(self, world: World, name: str, touched: set[Named]) -> set[str]:
        """Record a layout's change; return the nodes whose GPUs it selects or selected."""
        old_layout, new_layout = self._layouts.get(name), world.layouts.get(name)
        touched.add(("MIGLayout", name))
        touched |= self._update_label_layout(name, old_layout, new_layout)
        if (
            old_layout is not None
            and new_layout is not None
            and _is_as_before(old_layout, new_layout)
        ):
            self._layouts[name] = new_layout
            return set()
        if new_layout is None:
            self._layouts.pop(name, None)
        else:
            self._layouts[name] = new_layout
        self._order = selection.Order(self._layouts.values())
        concerned: set[str] = set()
        book = self.books.pop(name, None)
        if book is not None:
            for gpu in (*book.entries, *book.unplaceable, *book.taken, *book.of_claims):
                touched.add(("GPU", gpu))
                if gpu in self._gpus:
                    concerned.add(self._gpus[gpu].spec.node_name)
        if new_layout is not None:
            self.books[name] = LayoutBook(new_layout)
            concerned |= set(new_layout.spec.selector.node_names) or set(self.by_node)
        return concerned

    def _update_label_layout(
        self, name: str, old_layout: Layout | None, new_layout: Layout | None
    ) -> set[Named]:
        """Record a layout that a node's label requests; return the node, to be reconciled."""
        nodes = set[Named]()
        if old_layout is not None and (node := old_layout.meta.labels.get(MIG_CONFIG_NODE)):
            self.layouts_by_label.get(node, {}).pop(name, None)
            nodes.add(("Node", node))
        if new_layout is not None and (node := new_layout.meta.labels.get(MIG_CONFIG_NODE)):
            self.layouts_by_label.setdefault(node, {})[name] = new_layout
            nodes.add(("Node", node))
        return nodes

    def _update_node(self, world: World, name: str) -> set[Named]:
        """Record a node's change and reassign its GPUs; return what must be reconciled."""
        touched: set[Named] = {("Node", name)}
        node = world.nodes.get(name)
        old_pool = self.held.pop(name, "")
        new_pool = membership.find_holder(self._pools, node) if node is not None else ""
        if new_pool:
            self.held[name] = new_pool
        if node is not None:
            self._nodes.add(name)
        else:
            self._nodes.discard(name)
        label = node.labels.get(POOL_LABEL, "") if node is not None else ""
        for pool in {*world.pools, *self.pool_books, old_pool, new_pool, label} - {""}:
            if self._get_book(pool).note_node(world.pools.get(pool), name, node, new_pool):
                touched.add(("GPUPool", pool))
        for gpu in self.by_node.get(name, ()):
            live = membership.belongs_to_pool(gpu, world, self.held)
            self._get_book(gpu.spec.pool).note_gpu(gpu.name, gpu, live=live)
            touched.add(("GPUPool", gpu.spec.pool))
            touched |= self._assign_roles(world, gpu)
        return touched

    def _mark_dirty(self, node: str) -> set[Named]:
        """Record a change of a node's agent or gpud.

        Return the node and its pool, which must be reconciled.
        """
        touched: set[Named] = {("Node", node)} if node in self._nodes else set()
        pool = self.held.get(node)
        if pool is None:
            return touched
        self._get_book(pool).dirty.add(node)
        return touched | {("GPUPool", pool)}

    def _assign_roles(self, world: World, gpu: Gpu) -> set[Named]:
        """Update a GPU's entries in the books of the layouts that select it."""
        old_roles = self._roles.get(gpu.name, ())
        live = membership.belongs_to_pool(gpu, world, self.held)
        roles = self._order.roles(world, gpu) if live else ()
        touched: set[Named] = set()
        for role in old_roles:
            if role.layout in self.books and role not in roles:
                self.books[role.layout].drop(gpu.name)
                touched.add(("MIGLayout", role.layout))
        follows = roles[0].follows if roles else ""
        if follows != self.followed.get(gpu.name, ""):
            touched.add(("GPU", gpu.name))
        self.followed.pop(gpu.name, None)
        if follows:
            self.followed[gpu.name] = follows
        if roles:
            self._roles[gpu.name] = roles
        else:
            self._roles.pop(gpu.name, None)
        for role in roles:
            layouts.write_role(self.books[role.layout], world, gpu, role)
            touched.add(("MIGLayout", role.layout))
        return touched

    def _forget_gpu(self, name: str) -> None:
        for role in self._roles.pop(name, ()):
            if role.layout in self.books:
                self.books[role.layout].drop(name)
        self.followed.pop(name, None)

    def pool_book(self, pool: str) -> PoolBook:
        """Return the ``PoolBook`` of a pool, which may be a deleted pool."""
        return self._get_book(pool)

    def _get_book(self, pool: str) -> PoolBook:
        if pool not in self.pool_books:
            self.pool_books[pool] = PoolBook(pool)
        return self.pool_books[pool]


def _is_as_before(old_layout: Layout, new_layout: Layout) -> bool:
    """Return whether two versions of a layout differ in nothing but their status."""
    return old_layout.spec == new_layout.spec and old_layout.meta == new_layout.meta
