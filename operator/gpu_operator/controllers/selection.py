"""Which layout a GPU follows, and what a layout's selector finds besides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers import membership, targets
from gpu_operator.controllers.world import World


@dataclass(frozen=True, slots=True)
class Scope:
    """The GPUs that a layout selects, by name."""

    own: tuple[Gpu, ...] = ()
    """They follow it."""
    unplaceable: tuple[Gpu, ...] = ()
    """Their boards cannot hold its slices, and they do not follow it: nothing is done to them."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """The layout that each of the others follows instead, by the GPU's name."""


def selects(world: World, layout: Layout, gpu: Gpu) -> bool:
    """Return whether the layout's selector matches the GPU."""
    selector, node = layout.spec.selector, world.nodes.get(gpu.spec.node_name)
    labels = node.labels if node is not None else {}
    return (
        selector.pool in (None, gpu.spec.pool)
        and (not selector.boards or gpu.spec.board in selector.boards)
        and all(labels.get(key) == value for key, value in selector.node_selector.items())
        and (not selector.node_names or gpu.spec.node_name in selector.node_names)
        and (not selector.indices or gpu.spec.index in selector.indices)
    )


@lru_cache(maxsize=2)
def live_gpus(world: World) -> Mapping[str, Gpu]:
    """Return the GPUs that are not on their way out, ordered by name."""
    held = membership.claims(world)
    found = sorted(world.gpus.items())
    return {name: gpu for name, gpu in found if membership.belongs(gpu, world, held)}


@lru_cache(maxsize=2)
def followed(world: World) -> Mapping[str, str]:
    """Return the layout of each GPU that has one: the oldest that selects it and fits its board.

    A layout that a GPU follows already keeps it when an edit makes it impossible: a typing error
    must not cost anybody a slice.
    """
    by_age = sorted(
        (layout for layout in world.layouts.values() if not layout.meta.deleting),
        key=lambda layout: layout.meta.age_key,
    )
    result: dict[str, str] = {}
    for gpu in live_gpus(world).values():
        for layout in by_age:
            if not selects(world, layout, gpu):
                continue
            follows = gpu.spec.layout == layout.name
            if follows or not targets.wish(gpu.spec.board, layout.spec.instances).problem:
                result[gpu.name] = layout.name
                break
    return result


def scope(world: World, layout: Layout) -> Scope:
    """Sort the GPUs that a layout selects."""
    follows = followed(world)
    own, unplaceable, taken = [], [], {}
    for gpu in live_gpus(world).values():
        if not selects(world, layout, gpu):
            continue
        if follows.get(gpu.name) == layout.name:
            own.append(gpu)
        elif targets.wish(gpu.spec.board, layout.spec.instances).problem:
            unplaceable.append(gpu)
        else:
            taken[gpu.name] = follows[gpu.name]
    return Scope(tuple(own), tuple(unplaceable), taken)
