"""Which layout a GPU follows."""

from collections.abc import Mapping

from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers import membership, targets
from gpu_operator.controllers.world import World


def selects(layout: Layout, gpu: Gpu) -> bool:
    """Whether the layout's selector matches the GPU."""
    selector = layout.spec.selector
    return (
        selector.pool in (None, gpu.spec.pool)
        and (not selector.node_names or gpu.spec.node_name in selector.node_names)
        and (not selector.indices or gpu.spec.index in selector.indices)
    )


def live_gpus(world: World) -> tuple[Gpu, ...]:
    """Return the GPUs that are not on their way out, by name."""
    held = membership.claims(world)
    return tuple(
        gpu for _, gpu in sorted(world.gpus.items()) if membership.belongs(gpu, world, held)
    )


def followed(world: World, gpus: tuple[Gpu, ...]) -> Mapping[str, str]:
    """Return the layout of each GPU that has one: the oldest that selects it and fits its board.

    A layout that a GPU follows already keeps it when an edit makes it impossible: a typing error
    must not cost anybody a slice.
    """
    by_age = sorted(
        (layout for layout in world.layouts.values() if not layout.meta.deleting),
        key=lambda layout: layout.meta.age_key,
    )
    result: dict[str, str] = {}
    for gpu in gpus:
        for layout in by_age:
            if not selects(layout, gpu):
                continue
            follows = gpu.spec.layout == layout.name
            if follows or not targets.problem(gpu.spec.board, layout.spec.instances):
                result[gpu.name] = layout.name
                break
    return result
