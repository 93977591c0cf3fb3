"""Second phase of a layout's pass: which GPUs change now, which are rolled back, which go on.

A GPU that loses slices is unavailable until it is done. ``rollout.maxUnavailable`` bounds how many
are so at a time, and after a rollback no further one begins. So a plan is asked for only where it
could be carried out: a GPU that has to wait for its turn costs no planning.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import Slice
from gpu_operator.api.v1alpha1.resource import Layout
from gpu_operator.controllers import change, plans, targets
from gpu_operator.controllers.change import Places
from gpu_operator.controllers.layout_judge import Judgement, State, waiting
from mig.errors import MigError


@dataclass(frozen=True, slots=True)
class Begin:
    """Give the GPU these instances: a change begins."""

    instances: Places


@dataclass(frozen=True, slots=True)
class Move:
    """Give a change underway another goal, which fewer pods stand in the way of."""

    instances: Places


@dataclass(frozen=True, slots=True)
class RollBack:
    """Restore what was there before the change."""

    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Leave the change underway; its deadline is so far away."""

    left_s: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done about a GPU, and what is said of it; None: nothing is due."""

    judgement: Judgement
    step: Begin | Move | RollBack | Wait | None = None


def decide(
    layout: Layout, judged: Sequence[Judgement], now: datetime.datetime
) -> tuple[Decision, ...]:
    """Decide about all GPUs of a layout, in order."""
    left_s = {j.gpu.name: _seconds_left(j, layout, now) for j in judged if j.has_deadline}
    stopped = any(j.reason is Reason.DEADLINE_EXCEEDED for j in judged)
    stopped = stopped or any(left <= 0 for left in left_s.values())
    free = layout.spec.rollout.max_unavailable - sum(map(_is_unavailable, judged))
    decisions = []
    for judgement in judged:
        if judgement.needs_change:
            why_not = _why_not(layout, stopped, free)
            decision, loses = _begin(judgement, layout, why_not)
            free -= loses
        elif not judgement.has_deadline:
            decision = Decision(judgement)
        elif left_s[judgement.gpu.name] <= 0:
            decision = _roll_back(judgement, layout)
        else:
            decision = _go_on(judgement, layout, left_s[judgement.gpu.name])
        decisions.append(decision)
    return tuple(decisions)


def _seconds_left(judgement: Judgement, layout: Layout, now: datetime.datetime) -> float:
    begun = change.of(judgement.gpu).begun or now
    return layout.spec.rollout.deadline_seconds - (now - begun).total_seconds()


def _is_unavailable(judgement: Judgement) -> bool:
    """Return whether a change underway has taken slices away."""
    wanted = set(judgement.gpu.spec.instances)
    return judgement.underway and not wanted.issuperset(change.of(judgement.gpu).before)


def _why_not(layout: Layout, stopped: bool, free: int) -> str:
    """Return why no GPU may lose slices now; empty when one may."""
    if stopped:
        return "the rollout has stopped: another GPU was rolled back"
    if free <= 0:
        limit = layout.spec.rollout.max_unavailable
        return f"waits for its turn (rollout.maxUnavailable: {limit})"
    return ""


def _begin(judgement: Judgement, layout: Layout, why_not: str) -> tuple[Decision, bool]:
    """Decide about a GPU that has to change; return also whether it loses slices from now on."""
    gpu = judgement.gpu
    wanted = targets.wish(gpu.spec.board, layout.spec.instances).entries
    pending = Decision(replace(judgement, message=why_not))
    if why_not and plans.removes_surely(gpu.status.slices, wanted):
        return pending, False
    try:
        plan = plans.choose(gpu.spec.board, gpu.status.slices, wanted)
    except MigError as err:
        return Decision(_unplannable(judgement, err)), False
    if why_not and plan.removed:
        return pending, False
    return Decision(_begun(judgement, plan.blockers), Begin(plan.instances)), bool(plan.removed)


def _unplannable(judgement: Judgement, err: MigError) -> Judgement:
    problem = targets.one_line(err)
    return Judgement(judgement.gpu, State.FAILED, Reason.NOT_PLACEABLE, problem)


def _begun(judgement: Judgement, blockers: tuple[Slice, ...]) -> Judgement:
    gpu = judgement.gpu
    if blockers:
        return waiting(gpu, blockers)
    return Judgement(gpu, State.APPLYING, Reason.APPLYING, "slices are being changed")


def _roll_back(judgement: Judgement, layout: Layout) -> Decision:
    before = change.write(change.of(judgement.gpu).before) or "no slices"
    why = (
        f"not done in {layout.spec.rollout.deadline_seconds} s, rolled back"
        f" to {before}: {judgement.message}"
    )
    failed = Judgement(judgement.gpu, State.FAILED, Reason.DEADLINE_EXCEEDED, why)
    return Decision(failed, RollBack(why))


def _go_on(judgement: Judgement, layout: Layout, left_s: float) -> Decision:
    """Choose other places if fewer pods stand in the way there: one may have got a slice since."""
    as_before = Decision(judgement, Wait(left_s))
    if judgement.state is not State.WAITING:
        return as_before
    gpu = judgement.gpu
    wanted = targets.wish(gpu.spec.board, layout.spec.instances).entries
    try:
        plan = plans.choose(gpu.spec.board, gpu.status.slices, wanted)
    except MigError:
        return as_before
    if len(plan.blockers) < len(judgement.waits_for):
        return Decision(_begun(judgement, plan.blockers), Move(plan.instances))
    return as_before
