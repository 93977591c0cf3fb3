"""MIGLayout: plan each selected GPU, write what it shall have, verify, roll back what fails."""

import datetime
from collections.abc import Iterator
from dataclasses import replace

from gpu_operator.api.v1alpha1 import CHANGED_AT, LAST_APPLIED, ROLLED_BACK
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import PlacedInstance, SliceState
from gpu_operator.api.v1alpha1.miglayout import OnInUse
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers import layout_status, node_status, progress, selection, targets
from gpu_operator.controllers.progress import Progress, State
from gpu_operator.controllers.world import Outcome, World
from gpu_operator.kube.actions import Action, Apply, Evict, Manager
from gpu_operator.render import gpu as gpu_render
from mig.errors import MigError

_LONG = datetime.timedelta.max
SETTLE_S = 3.0  # for the scheduler to see what is no longer allocatable, before pods are evicted


def reconcile(world: World, name: str, now: datetime.datetime) -> Outcome:
    """Decide about one layout. One that is gone needs nothing here: see ``orphans``."""
    layout = world.layouts.get(name)
    if layout is None or layout.meta.deleting:
        return Outcome()
    gpus = selection.live_gpus(world)
    followed = selection.followed(world, gpus)
    own = [gpu for gpu in gpus if followed.get(gpu.name) == name]
    judged = [_judge(gpu, layout) for gpu in own]

    actions: list[Action] = []
    after: list[Progress] = []
    unavailable = sum(_is_unavailable(p) for p in judged)
    halted = any(p.reason is Reason.DEADLINE_EXCEEDED for p in judged)
    deadlines: list[float] = []
    for judgement in judged:
        if judgement.needs_change:
            step, begun = _begin(judgement, layout, unavailable, halted, now)
            unavailable += begun is not None and _takes_away(judgement.gpu, begun)
        else:
            step = judgement
            begun = None
        if begun is not None:
            actions.append(begun)
        elif step.state in (State.APPLYING, State.WAITING):
            left_s = _seconds_left(step.gpu, layout, now)
            if left_s <= 0:
                step, rollback = _roll_back(step, layout, now)
                actions.append(rollback)
                halted = True
            else:
                deadlines.append(left_s)
                actions += _help(world, step, layout, now)
        after.append(step)

    actions += layout_status.report_on(world, layout, gpus, followed, after, now)
    again = [left_s + 0.5 for left_s in deadlines]
    if layout.spec.rollout.on_in_use is OnInUse.EVICT and deadlines:
        again.append(SETTLE_S)
    return Outcome(tuple(actions), min(again, default=None))


def _judge(gpu: Gpu, layout: Layout) -> Progress:
    try:
        wanted = targets.entries(gpu.spec.board, layout.spec.instances)
    except MigError as err:
        return Progress(gpu, State.FAILED, Reason.NOT_PLACEABLE, targets.one_line(err))
    return progress.of(gpu, layout, wanted)


def _begin(
    judgement: Progress, layout: Layout, unavailable: int, halted: bool, now: datetime.datetime
) -> tuple[Progress, Apply | None]:
    """Start to change a GPU, if it is its turn."""
    gpu = judgement.gpu
    wanted = targets.entries(gpu.spec.board, layout.spec.instances)
    try:
        target = targets.choose(gpu.spec.board, gpu.status.slices, wanted)
    except MigError as err:
        return Progress(gpu, State.FAILED, Reason.NOT_PLACEABLE, targets.one_line(err)), None
    write = _write(gpu, layout, target.instances, now)
    if _takes_away(gpu, write):
        if halted:
            message = "the rollout has stopped: another GPU was rolled back"
            return replace(judgement, message=message), None
        limit = layout.spec.rollout.max_unavailable
        if unavailable >= limit:
            message = f"waits for its turn (rollout.maxUnavailable: {limit})"
            return replace(judgement, message=message), None
    if target.blockers:
        message = progress.holding(target.blockers)
        return Progress(gpu, State.WAITING, Reason.SLICE_IN_USE, message), write
    return Progress(gpu, State.APPLYING, Reason.APPLYING, "slices are being changed"), write


def _write(
    gpu: Gpu,
    layout: Layout,
    instances: tuple[PlacedInstance, ...],
    now: datetime.datetime,
) -> Apply:
    annotations = {
        CHANGED_AT: now.isoformat(timespec="seconds"),
        LAST_APPLIED: targets.write(_last_applied(gpu)),
    }
    document = gpu_render.instances(gpu.name, gpu.meta.uid, instances, layout.name, annotations)
    return Apply(Manager.LAYOUT, document)


def _last_applied(gpu: Gpu) -> tuple[PlacedInstance, ...]:
    """Return what a rollback restores: the instances of now, or from before a change underway."""
    there = {(s.profile, s.start) for s in gpu.status.slices}
    if there == {(i.profile, i.start) for i in gpu.spec.instances}:
        return gpu.spec.instances
    return targets.read(gpu.meta.annotations.get(LAST_APPLIED, ""))


def _takes_away(gpu: Gpu, write: Apply) -> bool:
    """Whether slices that exist go. Filling an empty GPU makes nothing unavailable."""
    wanted = {(i["profile"], i["start"]) for i in write.document["spec"]["instances"]}
    return any((s.profile, s.start) not in wanted for s in gpu.status.slices)


def _is_unavailable(judged: Progress) -> bool:
    if judged.needs_change or judged.state is State.APPLIED:
        return False
    wanted = {(i.profile, i.start) for i in judged.gpu.spec.instances}
    before = targets.read(judged.gpu.meta.annotations.get(LAST_APPLIED, ""))
    lost = any((i.profile, i.start) not in wanted for i in before)
    return lost and judged.state in (State.APPLYING, State.WAITING)


def _seconds_left(gpu: Gpu, layout: Layout, now: datetime.datetime) -> float:
    begun = progress.changed_at(gpu, now)
    return layout.spec.rollout.deadline_seconds - (now - begun).total_seconds()


def _roll_back(step: Progress, layout: Layout, now: datetime.datetime) -> tuple[Progress, Apply]:
    gpu = step.gpu
    before = targets.read(gpu.meta.annotations.get(LAST_APPLIED, ""))
    annotations = {
        CHANGED_AT: now.isoformat(timespec="seconds"),
        LAST_APPLIED: targets.write(before),
        ROLLED_BACK: progress.mark(layout),
    }
    document = gpu_render.instances(gpu.name, gpu.meta.uid, before, layout.name, annotations)
    message = (
        f"not done in {layout.spec.rollout.deadline_seconds} s, rolled back"
        f" to {targets.write(before) or 'no slices'}: {step.message}"
    )
    failed = Progress(gpu, State.FAILED, Reason.DEADLINE_EXCEEDED, message)
    return failed, Apply(Manager.LAYOUT, document)


def _help(world: World, step: Progress, layout: Layout, now: datetime.datetime) -> Iterator[Action]:
    """Do something about slices that are waited for: another place, or an eviction."""
    if step.state is not State.WAITING:
        return
    gpu = step.gpu
    better = _better(step, layout)
    if better is not None:
        annotations = {
            CHANGED_AT: progress.changed_at(gpu, now).isoformat(timespec="seconds"),
            LAST_APPLIED: gpu.meta.annotations.get(LAST_APPLIED, ""),
        }
        yield Apply(
            Manager.LAYOUT,
            gpu_render.instances(gpu.name, gpu.meta.uid, better, layout.name, annotations),
        )
        return
    node, since = world.nodes.get(gpu.spec.node_name), progress.withdrawn_at(gpu) or now
    if layout.spec.rollout.on_in_use is OnInUse.EVICT and node is not None:
        # Only what is withdrawn, and known to be: else the next pod is sent to that slice again.
        # The node's clock, and that of an operator before this one, may be ahead of ours.
        ages = [now - moment for moment in (progress.changed_at(gpu, now), since) if moment <= now]
        if min(ages, default=_LONG).total_seconds() < SETTLE_S:
            return
        for held in step.withdrawn:
            known = node_status.is_withdrawn(world, node, held.resource)
            if held.state is SliceState.WITHDRAWING and known:
                for pod in held.holders:
                    if pod.uid:  # without it, it might be another pod of that name by now
                        yield Evict(pod.namespace, pod.name, pod.uid)


def _better(step: Progress, layout: Layout) -> tuple[PlacedInstance, ...] | None:
    """Return a target that fewer pods stand in the way of: one may have got a slice meanwhile."""
    gpu = step.gpu
    wanted = targets.entries(gpu.spec.board, layout.spec.instances)
    try:
        target = targets.choose(gpu.spec.board, gpu.status.slices, wanted)
    except MigError:
        return None
    return target.instances if len(target.blockers) < len(step.withdrawn) else None
