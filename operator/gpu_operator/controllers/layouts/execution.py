"""Third phase of a layout's pass: turns decisions into writes and evictions."""

import datetime
from collections.abc import Iterator

from gpu_operator.api.timestamps import parse_timestamp
from gpu_operator.api.v1alpha1.base import ConditionType
from gpu_operator.api.v1alpha1.gpu import SliceState
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import change
from gpu_operator.controllers.layouts.assessment import GpuAssessment
from gpu_operator.controllers.layouts.steps import (
    Begin,
    Decision,
    Evict as EvictPods,
    Move,
    Redate,
    RollBack,
)
from gpu_operator.controllers.nodes import extended_resources
from gpu_operator.kube.actions import Action, Evict

SETTLE_S = 3.0  # time for the scheduler to observe lowered allocatable, before pods are evicted
_LONG = datetime.timedelta.max


def act(
    world: World, layout: Layout, decision: Decision, current_time: datetime.datetime
) -> Iterator[Action]:
    """Yield the actions that carry out the decision about one GPU."""
    gpu = decision.assessed.gpu
    match decision.step:
        case Begin(instances):
            yield change.begin(gpu, layout, instances, current_time)
        case Move(instances):
            yield change.retarget(gpu, layout, instances, current_time)
        case Redate():
            yield change.restart_clock(gpu, layout, current_time)
        case RollBack(why):
            yield change.roll_back(gpu, layout, why, current_time)
        case EvictPods():
            yield from _evict(world, decision.assessed, current_time)


def _evict(
    world: World, assessed: GpuAssessment, current_time: datetime.datetime
) -> Iterator[Evict]:
    """Evict the holders of withdrawn slices, once the node's status does not offer these either.

    Otherwise the scheduler would place the next pod on the same slice.
    """
    gpu = assessed.gpu
    node = world.nodes.get(gpu.spec.node_name)
    if node is None:
        return
    since = [change.read_change(gpu).begun or current_time, _withdrawn_at(gpu) or current_time]
    # The clock of the node, or of an earlier operator, may be ahead of this one.
    ages = [current_time - moment for moment in since if moment <= current_time]
    if min(ages, default=_LONG).total_seconds() < SETTLE_S:
        return
    for gpu_slice in assessed.waits_for:
        is_withdrawn = extended_resources.is_withdrawn(world, node, gpu_slice.resource)
        if gpu_slice.state is SliceState.WITHDRAWING and is_withdrawn:
            for pod in gpu_slice.holders:
                if pod.uid:  # without a UID the name may belong to another pod by now
                    yield Evict(pod.namespace, pod.name, pod.uid)


def _withdrawn_at(gpu: Gpu) -> datetime.datetime | None:
    """Return the time since which the agent has reported that it waits for holders, or None."""
    for condition in gpu.status.conditions:
        if condition.type == ConditionType.PROGRESSING.value and condition.status == "True":
            return parse_timestamp(condition.last_transition_time)
    return None
