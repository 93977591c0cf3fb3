"""Third phase of a layout's pass: decisions become writes and evictions."""

import datetime
from collections.abc import Iterator

from gpu_operator.api.moments import moment
from gpu_operator.api.v1alpha1.base import ConditionType
from gpu_operator.api.v1alpha1.gpu import SliceState
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import change
from gpu_operator.controllers.layouts.assessment import Judgement
from gpu_operator.controllers.layouts.steps import (
    Begin,
    Date,
    Decision,
    Evict as EvictPods,
    Move,
    RollBack,
)
from gpu_operator.controllers.nodes import extended_resources
from gpu_operator.kube.actions import Action, Evict

SETTLE_S = 3.0  # for the scheduler to see what is no longer allocatable, before pods are evicted
_LONG = datetime.timedelta.max


def act(
    world: World, layout: Layout, decision: Decision, now: datetime.datetime
) -> Iterator[Action]:
    """Return what is to be done for one decision."""
    gpu = decision.judgement.gpu
    match decision.step:
        case Begin(instances):
            yield change.begin(gpu, layout, instances, now)
        case Move(instances):
            yield change.move(gpu, layout, instances, now)
        case Date():
            yield change.date(gpu, layout, now)
        case RollBack(why):
            yield change.roll_back(gpu, layout, why, now)
        case EvictPods():
            yield from _evict(world, decision.judgement, now)


def _evict(world: World, judgement: Judgement, now: datetime.datetime) -> Iterator[Evict]:
    """Evict who holds what is withdrawn, and known to be: else the next pod is sent there again."""
    gpu = judgement.gpu
    node = world.nodes.get(gpu.spec.node_name)
    if node is None:
        return
    since = [change.of(gpu).begun or now, _withdrawn_at(gpu) or now]
    # The node's clock, and that of an operator before this one, may be ahead of ours.
    ages = [now - moment for moment in since if moment <= now]
    if min(ages, default=_LONG).total_seconds() < SETTLE_S:
        return
    for held in judgement.waits_for:
        known = extended_resources.is_withdrawn(world, node, held.resource)
        if held.state is SliceState.WITHDRAWING and known:
            for pod in held.holders:
                if pod.uid:  # without it, it might be another pod of that name by now
                    yield Evict(pod.namespace, pod.name, pod.uid)


def _withdrawn_at(gpu: Gpu) -> datetime.datetime | None:
    """Return when the agent said that it waits for holders, if it did."""
    for condition in gpu.status.conditions:
        if condition.type == ConditionType.PROGRESSING.value and condition.status == "True":
            return moment(condition.last_transition_time)
    return None
