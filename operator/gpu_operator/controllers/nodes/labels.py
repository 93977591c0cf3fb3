"""A node's labels, written together: the pool's, and those of GPU Feature Discovery.

While a layout changes a GPU, or a GPU lacks some of its slices, the labels for slices keep their
last complete values, so that selectors which use them still match the node.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence

from gpu_operator.api.v1alpha1 import POOL_LABEL
from gpu_operator.api.v1alpha1.gpu import MigMode, SliceState
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.api.v1alpha1.resource import Gpu, Pool
from gpu_operator.controllers.common.world import Node, World
from gpu_operator.controllers.nodes import sharing, strategies
from gpu_operator.kube.actions import Apply, Manager
from gpu_operator.render import features, node as node_render
from mig.geometry import WHOLE


def write(
    world: World, pool: Pool, node: Node, on_node: Sequence[Gpu], current_time: datetime.datetime
) -> Iterator[Apply]:
    """Yield the write of a node's labels, if they are outdated.

    Raises:
        UnknownBoardError: the board does not exist.
    """
    prefix = world.policy.resource_prefix
    present_labels = {
        key.removeprefix(f"{prefix}/"): value
        for key, value in node_render.own_labels(node.labels, (prefix,)).items()
        if key != POOL_LABEL
    }
    stamp = present_labels.pop(features.TIMESTAMP, "")
    strategy = strategies.policy_on(world, node).strategy
    new_labels = _kept_or_found(strategy, pool, on_node, present_labels)
    if present_labels == new_labels and stamp and node.labels.get(POOL_LABEL) == pool.name:
        return
    new_labels[features.TIMESTAMP] = str(int(current_time.timestamp()))
    named = {f"{prefix}/{name}": value for name, value in new_labels.items()}
    document = node_render.with_labels(node.name, node.uid, {POOL_LABEL: pool.name, **named})
    yield Apply(Manager.LABELS, document)


def _kept_or_found(
    strategy: Strategy, pool: Pool, on_node: Sequence[Gpu], present_labels: Mapping[str, str]
) -> dict[str, str]:
    """Return the labels for the node's GPUs.

    Labels for resources keep their present values until all GPUs are settled.
    """
    by_index = {gpu.spec.index: gpu for gpu in on_node}
    devices = [_device(pool, by_index.get(index)) for index in range(pool.spec.count)]
    shared = {
        name: resource_sharing
        for gpu in on_node
        for name, resource_sharing in sharing.label_sharing(gpu).items()
    }
    found_labels = features.labels(devices, strategy.value, _software(on_node), shared)
    is_same_strategy = present_labels.get("mig.strategy") == found_labels.get("mig.strategy")
    if (
        not is_same_strategy
        or "gpu.product" not in present_labels
        or all(map(_is_settled, on_node))
    ):
        return found_labels
    kept_labels = {
        name: value for name, value in present_labels.items() if features.describes_resource(name)
    }
    return {
        n: v for n, v in found_labels.items() if not features.describes_resource(n)
    } | kept_labels


def _device(pool: Pool, gpu: Gpu | None) -> features.Device:
    """Return a GPU as its agent has reported it; before the first report, a whole GPU."""
    slices = gpu.status.slices if gpu is not None else ()
    profiles = tuple(s.profile for s in slices if s.state is SliceState.ACTIVE)
    mode = gpu.status.mig_mode if gpu is not None else None
    divided = mode is MigMode.ENABLED or (bool(profiles) and WHOLE not in profiles)
    return features.Device(pool.spec.board, divided, profiles)


def _is_settled(gpu: Gpu) -> bool:
    """Return whether a GPU has the instances of its layout, or needs none."""
    layout_instances = gpu.spec.layout_instances
    if not layout_instances and (gpu.spec.layout is None or gpu.spec.allocation.by_claims):
        return True
    present_places = {s.place for s in gpu.status.slices if s.state is SliceState.ACTIVE}
    return present_places == {i.place for i in layout_instances}


def _software(gpus: Sequence[Gpu]) -> features.Software:
    """Return the versions that the node's agent has reported, which are the same for all its
    GPUs.
    """
    for gpu in gpus:
        status = gpu.status
        if status.driver_version or status.cuda_version or status.machine:
            return features.Software(status.driver_version, status.cuda_version, status.machine)
    return features.Software()
