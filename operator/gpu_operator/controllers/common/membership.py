"""Which pool holds which node, and which GPUs are on their way out."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from gpu_operator.api.v1alpha1 import NODE_UID
from gpu_operator.api.v1alpha1.resource import Gpu, Pool
from gpu_operator.controllers.common.world import Node, World
from gpu_operator.render import gpu as gpu_render
from mig import geometry

_LABEL_VALUE_LENGTH = 63  # a node's name becomes the value of a label


def selects(pool: Pool, node: Node) -> bool:
    """Return whether the pool's selector matches the node."""
    return all(node.labels.get(key) == value for key, value in pool.spec.node_selector.items())


def claims(world: World) -> Mapping[str, str]:
    """Return the pool of each node that has one: the oldest that selects it and is valid."""
    return world.index.held if world.index is not None else _claims(world)


def valid_pools(world: World) -> tuple[Pool, ...]:
    """Return the pools that can hold nodes, the oldest first."""
    pools = sorted(
        (
            p
            for p in world.pools.values()
            if not p.meta.deleting and p.spec.board in geometry.BOARDS
        ),
        key=lambda pool: pool.meta.age_key,
    )
    return tuple(pools)


def holder(pools: Sequence[Pool], node: Node) -> str:
    """Return the first of these pools that selects the node; empty: none."""
    if len(node.name) > _LABEL_VALUE_LENGTH:
        return ""
    return next((pool.name for pool in pools if selects(pool, node)), "")


@lru_cache(maxsize=2)
def _claims(world: World) -> Mapping[str, str]:
    pools = valid_pools(world)
    found = {node.name: holder(pools, node) for node in world.nodes.values()}
    return {node: pool for node, pool in found.items() if pool}


def belongs(gpu: Gpu, world: World, held: Mapping[str, str]) -> bool:
    """Return whether the GPU should exist as it is; one that should not is being released."""
    spec = gpu.spec
    pool, node = world.pools.get(spec.pool), world.nodes.get(spec.node_name)
    return (
        not gpu.meta.deleting
        and pool is not None
        and node is not None
        and held.get(spec.node_name) == spec.pool
        and spec.index < pool.spec.count
        and spec.uuid == gpu_render.uuid_of(node.name, spec.index)
    )


def node_is_gone(gpu: Gpu, world: World) -> bool:
    """Return whether the Node object that the GPU was made for is gone: deleted, or replaced.

    The GPU of one that was replaced goes only if it does not belong to the new one.
    """
    node = world.nodes.get(gpu.spec.node_name)
    return node is None or gpu.meta.annotations.get(NODE_UID, node.uid) != node.uid
