"""Membership of nodes in pools, and of GPUs that are being released."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from gpu_operator.api.v1alpha1 import NODE_UID
from gpu_operator.api.v1alpha1.resource import Gpu, Pool
from gpu_operator.controllers.common.world import Node, World
from gpu_operator.render import gpu as gpu_render
from mig import geometry

_LABEL_VALUE_LENGTH = 63  # a node's name becomes a label value


def selects(pool: Pool, node: Node) -> bool:
    """Return whether the pool's selector matches the node."""
    return all(node.labels.get(key) == value for key, value in pool.spec.node_selector.items())


def pools_by_node(world: World) -> Mapping[str, str]:
    """Return the name of each node's pool, by the node's name; nodes without a pool are omitted.

    A node belongs to the oldest valid pool whose selector matches the node.
    """
    return world.index.held if world.index is not None else _pools_by_node(world)


def valid_pools(world: World) -> tuple[Pool, ...]:
    """Return the pools that can have nodes, the oldest first."""
    pools = sorted(
        (
            p
            for p in world.pools.values()
            if not p.meta.deleting and p.spec.board in geometry.BOARDS
        ),
        key=lambda pool: pool.meta.age_key,
    )
    return tuple(pools)


def find_holder(pools: Sequence[Pool], node: Node) -> str:
    """Return the name of the first of these pools whose selector matches the node.

    The name is empty if there is no such pool.
    """
    if len(node.name) > _LABEL_VALUE_LENGTH:
        return ""
    return next((pool.name for pool in pools if selects(pool, node)), "")


@lru_cache(maxsize=2)
def _pools_by_node(world: World) -> Mapping[str, str]:
    pools = valid_pools(world)
    holders = {node.name: find_holder(pools, node) for node in world.nodes.values()}
    return {node: pool for node, pool in holders.items() if pool}


def belongs_to_pool(gpu: Gpu, world: World, node_pools: Mapping[str, str]) -> bool:
    """Return whether the GPU's spec still matches its pool and node.

    A GPU that does not match is being released. ``node_pools`` maps each node's name to the name of
    its pool.
    """
    spec = gpu.spec
    pool, node = world.pools.get(spec.pool), world.nodes.get(spec.node_name)
    return (
        not gpu.meta.deleting
        and pool is not None
        and node is not None
        and node_pools.get(spec.node_name) == spec.pool
        and spec.index < pool.spec.count
        and spec.uuid == gpu_render.uuid_of(node.name, spec.index)
    )


def node_is_gone(gpu: Gpu, world: World) -> bool:
    """Return whether the Node object for which the GPU was made was deleted or replaced.

    A GPU whose Node was replaced is deleted only if the GPU does not belong to the new Node.
    """
    node = world.nodes.get(gpu.spec.node_name)
    return node is None or gpu.meta.annotations.get(NODE_UID, node.uid) != node.uid
