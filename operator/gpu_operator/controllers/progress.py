"""How far one GPU is on its way to what its layout says: read from the GPU alone."""

import datetime
from dataclasses import dataclass, replace
from enum import StrEnum

from gpu_operator.api.v1alpha1 import CHANGED_AT, ROLLED_BACK
from gpu_operator.api.v1alpha1.base import Condition, ConditionType, Reason
from gpu_operator.api.v1alpha1.gpu import Slice, SliceState
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers import targets


class State(StrEnum):
    """States of ``MIGLayout.status.gpus``."""

    APPLIED = "Applied"
    APPLYING = "Applying"
    WAITING = "Waiting"
    PENDING = "Pending"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """One GPU's part in a layout."""

    gpu: Gpu
    state: State
    reason: Reason
    message: str = ""
    needs_change: bool = False

    @property
    def withdrawn(self) -> tuple[Slice, ...]:
        """Slices that are on their way out and held by pods."""
        wanted = {(i.profile, i.start) for i in self.gpu.spec.instances}
        return tuple(
            s for s in self.gpu.status.slices if s.holders and (s.profile, s.start) not in wanted
        )

    @property
    def in_place(self) -> int:
        """How many of the instances that the GPU shall have exist."""
        wanted = {(i.profile, i.start) for i in self.gpu.spec.instances}
        return sum(
            (s.profile, s.start) in wanted and s.state is SliceState.ACTIVE
            for s in self.gpu.status.slices
        )


def mark(layout: Layout) -> str:
    """Return what a GPU carries that was rolled back from this version of the layout."""
    return f"{layout.meta.uid}/{layout.meta.generation}"


def of(gpu: Gpu, layout: Layout, wanted: targets.Entries) -> Progress:
    """Judge a GPU that follows the layout."""
    status = gpu.status
    if not status.conditions:
        message = "the node agent has not reported yet"
        return Progress(gpu, State.PENDING, Reason.WAITING_FOR_AGENT, message)
    if gpu.meta.annotations.get(ROLLED_BACK) == mark(layout):
        return Progress(gpu, State.FAILED, Reason.DEADLINE_EXCEEDED, _rolled_back(gpu, layout))
    if gpu.spec.layout != layout.name or not targets.satisfied(gpu.spec.instances, wanted):
        return Progress(gpu, State.PENDING, Reason.APPLYING, needs_change=True)
    if status.observed_generation < gpu.meta.generation:
        # Who is in the way is known already; said at once, the condition does not flicker.
        yet = Progress(gpu, State.APPLYING, Reason.APPLYING, "the node agent has yet to act")
        return _waiting(gpu) or yet
    return _judge_current(gpu)


def _waiting(gpu: Gpu) -> Progress | None:
    waiting = Progress(gpu, State.WAITING, Reason.SLICE_IN_USE)
    if not waiting.withdrawn:
        return None
    return replace(waiting, message=holding(waiting.withdrawn))


def _judge_current(gpu: Gpu) -> Progress:
    conditions = {c.type: c for c in gpu.status.conditions}
    degraded = conditions.get(ConditionType.DEGRADED.value)
    ready = conditions.get(ConditionType.READY.value)
    instances = {(i.profile, i.start) for i in gpu.spec.instances}
    slices = gpu.status.slices
    settled = instances == {(s.profile, s.start) for s in slices} and all(
        s.state is SliceState.ACTIVE for s in slices
    )
    if degraded is not None and degraded.status == "True":
        return Progress(gpu, State.FAILED, _reason(degraded), degraded.message)
    if ready is not None and ready.reason == Reason.NOT_PLACEABLE.value:
        return Progress(gpu, State.FAILED, Reason.NOT_PLACEABLE, ready.message)
    if settled:
        return Progress(gpu, State.APPLIED, Reason.RECONCILED)
    waiting = _waiting(gpu)
    if waiting is not None:
        return waiting
    if ready is not None and ready.status == "True":
        message = (
            f"the node agent says it is done, but there are {_written(slices)}"
            f" instead of {targets.write(gpu.spec.instances) or 'none'}"
        )
        return Progress(gpu, State.FAILED, Reason.VERIFICATION_FAILED, message)
    return Progress(gpu, State.APPLYING, Reason.APPLYING, "slices are being changed")


def holding(slices: tuple[Slice, ...]) -> str:
    """Say which pods hold which slices."""
    return ", ".join(
        f"{s.profile}@{s.start} is held by pod {holder.namespace}/{holder.name}"
        for s in slices
        for holder in s.holders
    )


def changed_at(gpu: Gpu, default: datetime.datetime) -> datetime.datetime:
    """Return when the last change of the GPU's instances began."""
    return _moment(gpu.meta.annotations.get(CHANGED_AT, "")) or default


def withdrawn_at(gpu: Gpu) -> datetime.datetime | None:
    """Return when the agent said that it waits for holders, if it did."""
    for condition in gpu.status.conditions:
        if condition.type == ConditionType.PROGRESSING.value and condition.status == "True":
            return _moment(condition.last_transition_time)
    return None


def _moment(text: str) -> datetime.datetime | None:
    """Read an RFC 3339 time; what a person broke, or left without its zone, is none."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _rolled_back(gpu: Gpu, layout: Layout) -> str:
    before = next((g.message for g in layout.status.gpus if g.name == gpu.name), "")
    generic = f"not done in {layout.spec.rollout.deadline_seconds} s, rolled back"
    return before if before.startswith(generic) else generic


def _reason(condition: Condition) -> Reason:
    try:
        return Reason(condition.reason)
    except ValueError:
        return Reason.AGENT_ERROR


def _written(slices: tuple[Slice, ...]) -> str:
    return ",".join(f"{s.profile}@{s.start}" for s in slices) or "none"
