"""First phase of a layout's pass: compares each GPU's state with its desired state."""

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
    """The states of a GPU in ``MIGLayout.status.gpus``."""

    APPLIED = "Applied"
    APPLYING = "Applying"
    WAITING = "Waiting"
    PENDING = "Pending"
    FAILED = "Failed"


_WITHOUT_DEADLINE = (Reason.WAITING_FOR_KUBELET, Reason.WAITING_FOR_AGENT)


@dataclass(frozen=True, slots=True)
class GpuAssessment:
    """The state of one GPU in a layout, and what its change waits for.

    ``waits_for`` are slices that must be removed and that pods hold. ``claims`` are the slices
    of ResourceClaims at placements that the layout needs. ``needs_change`` is true if the GPU's
    spec does not have the desired instances yet.
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
        """Return whether a change of the GPU has begun but is not complete.

        The change is complete once the scheduler can use the new slices.
        """
        return self.state in (State.APPLYING, State.WAITING)

    @property
    def has_deadline(self) -> bool:
        """Return whether a deadline applies to the GPU's change.

        No deadline applies in two cases: only the kubelet still has to act, or the slices exist and
        the agent still has to apply other settings.
        """
        return self.underway and self.reason not in _WITHOUT_DEADLINE


def assess(world: World, gpu: Gpu, layout: Layout) -> GpuAssessment:
    """Assess a GPU that follows the layout, by its annotations, spec and status."""
    target = targets.resolve_target(gpu.spec.board, layout.spec.instances)
    if target.problem:
        return GpuAssessment(gpu, State.FAILED, Reason.NOT_PLACEABLE, target.problem)
    if not gpu.status.conditions:
        message = "the node agent has not reported yet"
        return GpuAssessment(gpu, State.PENDING, Reason.WAITING_FOR_AGENT, message)
    last = change.read_change(gpu)
    if last.undone == change.layout_version(layout):
        message = last.why or f"not done in {layout.spec.rollout.deadline_seconds} s, rolled back"
        return GpuAssessment(gpu, State.FAILED, Reason.DEADLINE_EXCEEDED, message)
    if _spec_differs(gpu, layout, target.entries):
        return GpuAssessment(gpu, State.PENDING, Reason.APPLYING, needs_change=True)
    if gpu.status.observed_generation < gpu.meta.generation:
        if _is_settled(gpu):  # sharing, faults, budget...: the slices are done
            message = "the node agent has yet to apply settings other than the slices"
            return GpuAssessment(gpu, State.APPLYING, Reason.WAITING_FOR_AGENT, message)
        # The holders are known already: report them at once, so that the condition does not
        # flicker.
        yet = GpuAssessment(gpu, State.APPLYING, Reason.APPLYING, "the node agent has yet to act")
        return _find_waiting(gpu) or yet
    return _assess_report(world, gpu)


def _spec_differs(gpu: Gpu, layout: Layout, target_entries: Entries) -> bool:
    return gpu.spec.layout != layout.name or not targets.is_satisfied(
        gpu.spec.instances, target_entries
    )


def _assess_report(world: World, gpu: Gpu) -> GpuAssessment:
    """Assess a GPU whose agent has processed the current spec."""
    conditions = {c.type: c for c in gpu.status.conditions}
    degraded = conditions.get(ConditionType.DEGRADED.value)
    ready = conditions.get(ConditionType.READY.value)
    if degraded is not None and degraded.status == "True":
        return GpuAssessment(gpu, State.FAILED, _parse_reason(degraded), degraded.message)
    if ready is not None and ready.reason == Reason.NOT_PLACEABLE.value:
        return GpuAssessment(gpu, State.FAILED, Reason.NOT_PLACEABLE, ready.message)
    if _is_settled(gpu):
        late = offers.explain_late_offer(world, world.nodes[gpu.spec.node_name], gpu.status.slices)
        if late:
            return GpuAssessment(gpu, State.APPLYING, Reason.WAITING_FOR_KUBELET, late)
        return GpuAssessment(gpu, State.APPLIED, Reason.RECONCILED)
    in_use = _find_waiting(gpu)
    if in_use is not None:
        return in_use
    if ready is not None and ready.status == "True":
        present_places = spec.format_places(s.place for s in gpu.status.slices)
        message = (
            f"the node agent reports that it is done, but there are {present_places or 'none'}"
            f" instead of {change.write_places(gpu.spec.instances) or 'none'}"
        )
        return GpuAssessment(gpu, State.FAILED, Reason.VERIFICATION_FAILED, message)
    return GpuAssessment(gpu, State.APPLYING, Reason.APPLYING, "slices are being changed")


def _is_settled(gpu: Gpu) -> bool:
    slices = gpu.status.slices
    desired = {i.place for i in gpu.spec.instances}
    present_places = {s.place for s in slices}
    return desired == present_places and all(s.state is SliceState.ACTIVE for s in slices)


def _find_waiting(gpu: Gpu) -> GpuAssessment | None:
    target_places = {i.place for i in gpu.spec.instances}
    leaving = (s for s in gpu.status.slices if s.place not in target_places)
    held_slices = tuple(s for s in leaving if s.holders)
    present_places = {s.place for s in gpu.status.slices}
    claims = plans.find_blocking_claims(
        gpu.spec.board, target_places - present_places, gpu.status.claims
    )
    return make_waiting(gpu, held_slices, claims) if held_slices or claims else None


def make_waiting(
    gpu: Gpu, held_slices: tuple[Slice, ...], claims: tuple[ClaimedSlice, ...] = ()
) -> GpuAssessment:
    """Return the assessment of a GPU whose change waits until pods and claims release slices."""
    message = ", ".join(filter(None, (_describe_holders(held_slices), *map(str, claims))))
    return GpuAssessment(gpu, State.WAITING, Reason.SLICE_IN_USE, message, held_slices, claims)


def _describe_holders(slices: tuple[Slice, ...]) -> str:
    """Return a text that names the pods that hold the slices."""
    return ", ".join(
        f"{s.place} is held by pod {holder.namespace}/{holder.name}"
        for s in slices
        for holder in s.holders
    )


def _parse_reason(condition: Condition) -> Reason:
    try:
        return Reason(condition.reason)
    except ValueError:
        return Reason.AGENT_ERROR
