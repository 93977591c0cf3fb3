"""Which keys have to be looked at when an object changed."""

from collections.abc import Iterable

from gpu_operator.controllers.world import POLICY_NAME, World
from gpu_operator.handlers.queue import Key


def pool_names(world: World) -> set[str]:
    """Return pools that exist, and those that have left something behind."""
    return (
        set(world.pools)
        | {name for kind, name in world.broken if kind == "GPUPool"}
        | {gpu.spec.pool for gpu in world.gpus.values()}
        | {agents.pool for agents in world.daemon_sets.values()} - {""}
    )


def all_keys(world: World) -> set[Key]:
    """Return everything that is ever reconciled."""
    keys = {Key("GPUPool", name) for name in pool_names(world)}
    keys |= {Key("MIGLayout", name) for name in world.layouts}
    keys |= {Key("GPU", name) for name in world.gpus}
    keys |= {Key("GPUPolicy", name) for name in {*world.policies, POLICY_NAME}}
    keys |= {Key("Node", name) for name in world.nodes}
    return keys | {Key(kind, name) for kind, name in world.broken}


def affected(kind: str, name: str, world: World) -> Iterable[Key]:
    """Return the keys that a change of this object concerns; the object may be gone already."""
    keys: set[Key] = set() if kind in ("DaemonSet", "Pod") else {Key(kind, name)}
    keys |= {Key("GPUPool", pool) for pool in pool_names(world)}
    if kind in ("GPUPool", "GPU", "MIGLayout", "Node"):
        keys |= {Key("MIGLayout", layout) for layout in world.layouts}
    if kind == "MIGLayout":
        keys |= {Key("GPU", gpu.name) for gpu in world.gpus.values() if gpu.spec.layout == name}
    if kind == "GPU" and name in world.gpus:
        keys.add(Key("Node", world.gpus[name].spec.node_name))
    if kind == "GPUPolicy":
        keys |= {Key("GPUPolicy", policy) for policy in world.policies}
    return keys
