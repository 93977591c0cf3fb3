"""First phase of a layout's pass: how far a GPU is, read from it and from what is asked of it."""

from dataclasses import dataclass
from enum import StrEnum

from gpu_operator.api.v1alpha1.base import Condition, ConditionType, Reason
from gpu_operator.api.v1alpha1.gpu import ClaimedSlice, Slice, SliceState
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.common import offers
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import change, plans, targets
from gpu_operator.controllers.layouts.targets import Entries
from mig import spec


class State(StrEnum):
    """States of ``MIGLayout.status.gpus``."""

    APPLIED = "Applied"
    APPLYING = "Applying"
    WAITING = "Waiting"
    PENDING = "Pending"
    FAILED = "Failed"


_WITHOUT_DEADLINE = (Reason.WAITING_FOR_KUBELET, Reason.WAITING_FOR_AGENT)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One GPU's part in a layout.

    ``waits_for`` are slices that have to go and that pods hold, ``claims`` those of ResourceClaims
    where wanted ones should be. ``needs_change``: its instances are not what is asked for.
    """

    gpu: Gpu
    state: State
    reason: Reason
    message: str = ""
    waits_for: tuple[Slice, ...] = ()
    claims: tuple[ClaimedSlice, ...] = ()
    needs_change: bool = False

    @property
    def underway(self) -> bool:
        """Return whether a change of it has begun and is not done, all the way to the scheduler."""
        return self.state in (State.APPLYING, State.WAITING)

    @property
    def has_deadline(self) -> bool:
        """Return whether the change may take too long: of the kubelet's part no time is asked,
        nor of what else the agent is told once the slices are there.
        """
        return self.underway and self.reason not in _WITHOUT_DEADLINE


def judge(world: World, gpu: Gpu, layout: Layout) -> Judgement:
    """Judge a GPU that follows the layout."""
    wish = targets.wish(gpu.spec.board, layout.spec.instances)
    if wish.problem:
        return Judgement(gpu, State.FAILED, Reason.NOT_PLACEABLE, wish.problem)
    if not gpu.status.conditions:
        message = "the node agent has not reported yet"
        return Judgement(gpu, State.PENDING, Reason.WAITING_FOR_AGENT, message)
    last = change.of(gpu)
    if last.undone == change.version(layout):
        message = last.why or f"not done in {layout.spec.rollout.deadline_seconds} s, rolled back"
        return Judgement(gpu, State.FAILED, Reason.DEADLINE_EXCEEDED, message)
    if _is_asked_otherwise(gpu, layout, wish.entries):
        return Judgement(gpu, State.PENDING, Reason.APPLYING, needs_change=True)
    if gpu.status.observed_generation < gpu.meta.generation:
        if _is_settled(gpu):  # sharing, faults, budget...: of the slices nothing is due any more
            message = "the node agent has yet to act on what is new beside the slices"
            return Judgement(gpu, State.APPLYING, Reason.WAITING_FOR_AGENT, message)
        # Who is in the way is known already; said at once, the condition does not flicker.
        yet = Judgement(gpu, State.APPLYING, Reason.APPLYING, "the node agent has yet to act")
        return _waiting(gpu) or yet
    return _judge_report(world, gpu)


def _is_asked_otherwise(gpu: Gpu, layout: Layout, wanted: Entries) -> bool:
    return gpu.spec.layout != layout.name or not targets.satisfied(gpu.spec.instances, wanted)


def _judge_report(world: World, gpu: Gpu) -> Judgement:
    """Judge a GPU whose agent has seen what is asked for now."""
    conditions = {c.type: c for c in gpu.status.conditions}
    degraded = conditions.get(ConditionType.DEGRADED.value)
    ready = conditions.get(ConditionType.READY.value)
    if degraded is not None and degraded.status == "True":
        return Judgement(gpu, State.FAILED, _reason(degraded), degraded.message)
    if ready is not None and ready.reason == Reason.NOT_PLACEABLE.value:
        return Judgement(gpu, State.FAILED, Reason.NOT_PLACEABLE, ready.message)
    if _is_settled(gpu):
        late = offers.late(world, world.nodes[gpu.spec.node_name], gpu.status.slices)
        if late:
            return Judgement(gpu, State.APPLYING, Reason.WAITING_FOR_KUBELET, late)
        return Judgement(gpu, State.APPLIED, Reason.RECONCILED)
    in_use = _waiting(gpu)
    if in_use is not None:
        return in_use
    if ready is not None and ready.status == "True":
        there = spec.format_places(s.place for s in gpu.status.slices)
        message = (
            f"the node agent says it is done, but there are {there or 'none'}"
            f" instead of {change.write(gpu.spec.instances) or 'none'}"
        )
        return Judgement(gpu, State.FAILED, Reason.VERIFICATION_FAILED, message)
    return Judgement(gpu, State.APPLYING, Reason.APPLYING, "slices are being changed")


def _is_settled(gpu: Gpu) -> bool:
    slices = gpu.status.slices
    asked = {i.place for i in gpu.spec.instances}
    there = {s.place for s in slices}
    return asked == there and all(s.state is SliceState.ACTIVE for s in slices)


def _waiting(gpu: Gpu) -> Judgement | None:
    wanted = {i.place for i in gpu.spec.instances}
    leaving = (s for s in gpu.status.slices if s.place not in wanted)
    held = tuple(s for s in leaving if s.holders)
    there = {s.place for s in gpu.status.slices}
    claims = plans.in_the_way(gpu.spec.board, wanted - there, gpu.status.claims)
    return waiting(gpu, held, claims) if held or claims else None


def waiting(gpu: Gpu, held: tuple[Slice, ...], claims: tuple[ClaimedSlice, ...] = ()) -> Judgement:
    """Return the judgement on a GPU that cannot go on before pods and claims release slices."""
    told = ", ".join(filter(None, (_holding(held), *map(str, claims))))
    return Judgement(gpu, State.WAITING, Reason.SLICE_IN_USE, told, held, claims)


def _holding(slices: tuple[Slice, ...]) -> str:
    """Say which pods hold which slices."""
    return ", ".join(
        f"{s.place} is held by pod {holder.namespace}/{holder.name}"
        for s in slices
        for holder in s.holders
    )


def _reason(condition: Condition) -> Reason:
    try:
        return Reason(condition.reason)
    except ValueError:
        return Reason.AGENT_ERROR
