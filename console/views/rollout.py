"""The rollouts of layouts: how many GPUs are done, what the others wait for, and until when.

GPUs are assessed by the code with which the operator reconciles layouts. Times and reasons of a
roll-back come from the annotations in which the operator records a change.
"""

import datetime
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from gpu_operator.api.v1alpha1.base import Condition, ConditionType, Reason
from gpu_operator.api.v1alpha1.gpu import SliceState
from gpu_operator.api.v1alpha1.resource import Gpu, Layout
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import assessment, change, selection, targets
from gpu_operator.controllers.layouts.assessment import State
from gpu_operator.controllers.layouts.selection import Part, Role


class Phase(StrEnum):
    """How far a layout's change of one GPU is."""

    ROLLED_BACK = "rolled back"
    FAILED = "failed"
    UNHEALTHY = "not healthy"
    WAITING = "waiting for pods"
    CHANGING = "reconfiguring"
    PENDING = "not begun"
    APPLIED = "done"


_PHASES: Final[Mapping[State, Phase]] = {
    State.APPLIED: Phase.APPLIED,
    State.APPLYING: Phase.CHANGING,
    State.WAITING: Phase.WAITING,
    State.PENDING: Phase.PENDING,
    State.FAILED: Phase.FAILED,
}
# The operator counts such a GPU as failed, but its change has not failed.
_OF_HEALTH: Final = (Reason.UNHEALTHY, Reason.SUSPECT)
_ORDER: Final = tuple(Phase)
_POD: Final = re.compile(r"held by pod ([^\s,]+)")
_REFUSED: Final = "; eviction refused: "
STOPPED: Final = "the rollout has stopped: another GPU was rolled back"


@dataclass(frozen=True, slots=True)
class GpuRollout:
    """The change of one GPU. ``deadline`` is the time of its roll-back, if one applies.

    ``retry`` says how to have the layout tried again once it has rolled back the GPU.
    """

    gpu: Gpu
    phase: Phase
    message: str = ""
    deadline: datetime.datetime | None = None
    retry: str = ""

    def left_s(self, moment: datetime.datetime) -> int | None:
        """Return the seconds until the deadline; 0 once it has passed, None without one."""
        if self.deadline is None:
            return None
        return max(math.ceil((self.deadline - moment).total_seconds()), 0)


@dataclass(frozen=True, slots=True)
class LayoutRollout:
    """The rollout of one layout.

    ``unfinished`` are the GPUs that are not done, those with problems first. ``taken`` are the
    GPUs that follow an older layout, with that layout's name.
    """

    layout: Layout
    counts: Mapping[Phase, int] = field(default_factory=dict)
    unfinished: tuple[GpuRollout, ...] = ()
    taken: Mapping[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Return how many GPUs the layout should change."""
        return sum(self.counts.values())

    @property
    def is_finished(self) -> bool:
        """Return whether every GPU is done."""
        return not self.unfinished

    @property
    def is_observed(self) -> bool:
        """Return whether the operator has processed the layout's latest version."""
        return self.layout.status.observed_generation >= self.layout.meta.generation

    @property
    def refusals(self) -> str:
        """Return the evictions that the API server refuses; empty if none."""
        return "" if self.is_finished else find_refusals(self.layout)

    def left_s(self, moment: datetime.datetime) -> int | None:
        """Return the seconds until the first deadline, or None."""
        times_left_s = [
            gpu_left_s
            for rollout in self.unfinished
            if (gpu_left_s := rollout.left_s(moment)) is not None
        ]
        return min(times_left_s, default=None)

    @property
    def retry(self) -> str:
        """Return how to have the layout tried again after a roll-back; empty without one."""
        return next((rollout.retry for rollout in self.unfinished if rollout.retry), "")

    @property
    def verdict(self) -> Condition | None:
        """Return the condition in which the operator describes the rollout: Degraded if it is true,
        else Ready.
        """
        conditions = {condition.type: condition for condition in self.layout.status.conditions}
        degraded = conditions.get("Degraded")
        return degraded if degraded and degraded.status == "True" else conditions.get("Ready")


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A layout that is not applied to all GPUs that it selects, by its status.

    ``problem`` is set if the operator reports it as Degraded.
    """

    name: str
    applied: int
    selected: int
    problem: str = ""


def find_rollouts(world: World) -> tuple[LayoutRollout, ...]:
    """Return the rollouts of all layouts, unfinished ones first."""
    gpus: dict[str, list[GpuRollout]] = {name: [] for name in world.layouts}
    taken_gpus: dict[str, dict[str, str]] = {name: {} for name in world.layouts}
    for gpu, role in selection.every_role(world):
        layout = world.layouts[role.layout]
        match role.part:
            case Part.TAKEN:
                taken_gpus[layout.name][gpu.name] = role.follows
            case Part.CLAIMS:
                pass  # layouts have no effect on such GPUs
            case Part.OWN | Part.UNPLACEABLE:
                gpus[layout.name].append(_assess(world, gpu, layout, role))
    rollouts = [_sum(world.layouts[name], gpus[name], taken_gpus[name]) for name in sorted(gpus)]
    return tuple(sorted(rollouts, key=lambda rollout: rollout.is_finished))


def find_rollout(world: World, gpu: Gpu) -> GpuRollout | None:
    """Return the change of one GPU by the layout that it follows, or None without a layout.

    A GPU that has not begun has no message if the reason is in the layout's other GPUs.
    """
    for role in selection.Order(world.layouts.values()).roles(world, gpu):
        if role.part is Part.OWN:
            return _assess(world, gpu, world.layouts[role.layout], role)
    return None


def find_explained(rollouts: Iterable[LayoutRollout], gpu_rollout: GpuRollout) -> GpuRollout:
    """Return the change of a GPU with the reason that its layout's rollout gives for its wait."""
    every = (explained for layout in rollouts for explained in layout.unfinished)
    return next(
        (explained for explained in every if explained.gpu.name == gpu_rollout.gpu.name),
        gpu_rollout,
    )


def unfinished_layouts(world: World) -> list[Unfinished]:
    """Return the layouts whose status states that not every GPU is done, or that no GPU is
    selected; costs no assessment.
    """
    return [
        Unfinished(layout.name, layout.status.gpus_applied, layout.status.gpus_selected, problem)
        for _, layout in sorted(world.layouts.items())
        for problem in (_find_problem(layout),)
        if layout.status.gpus_applied < layout.status.gpus_selected or _selects_no_gpu(layout)
    ]


def _selects_no_gpu(layout: Layout) -> bool:
    return any(condition.reason == Reason.NO_GPUS for condition in layout.status.conditions)


def is_rolled_back(gpu: Gpu, layout: Layout) -> bool:
    """Return whether the operator has rolled back this version of a layout on a GPU."""
    return change.read_change(gpu).undone == change.layout_version(layout)


def _find_problem(layout: Layout) -> str:
    """Return why a layout is Degraded, or selects no GPU; empty if neither is true, or if it was
    edited since.
    """
    if layout.status.observed_generation < layout.meta.generation:
        return ""
    for condition in layout.status.conditions:
        is_degraded = condition.type == ConditionType.DEGRADED.value and condition.status == "True"
        if is_degraded or condition.reason == Reason.NO_GPUS:
            return f"{condition.reason}: {condition.message}"
    return ""


def format_duration(seconds: int) -> str:
    """Return a time span in its two largest units, such as ``3 min 20 s``."""
    for size, part, unit, below in ((86400, 3600, "d", "h"), (3600, 60, "h", "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // part} {below}"
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"


def describe_retry(layout: Layout) -> str:
    """Return how the operator tries a layout again after it has rolled back a GPU."""
    longer = (
        f'{{"spec":{{"rollout":{{"deadlineSeconds":{2 * layout.spec.rollout.deadline_seconds}}}}}}}'
    )
    return (
        "The operator does not try this version of the layout again, also when the pods in the way"
        " have ended. It tries again after an edit of the layout's spec, with a new deadline. To"
        " try the same slices again, change for example the deadline:"
        f" kubectl patch miglayout {layout.name} --type=merge -p '{longer}'"
    )


def _sum(
    layout: Layout, gpus: Sequence[GpuRollout], taken_gpus: Mapping[str, str]
) -> LayoutRollout:
    unfinished = [rollout for rollout in gpus if rollout.phase is not Phase.APPLIED]
    unfinished.sort(key=lambda rollout: (_ORDER.index(rollout.phase), rollout.gpu.name))
    counted = Counter(rollout.phase for rollout in gpus)
    underway = counted[Phase.CHANGING] + counted[Phase.WAITING]
    unfinished = [_explain_wait(layout, rollout, counted, underway) for rollout in unfinished]
    counts = {phase: counted[phase] for phase in reversed(_ORDER)}
    return LayoutRollout(layout, counts, tuple(unfinished), taken_gpus)


def _explain_wait(
    layout: Layout, gpu_rollout: GpuRollout, counted: Mapping[Phase, int], underway: int
) -> GpuRollout:
    """Add why a GPU has not begun, or which evictions the API server refuses that it waits for."""
    if gpu_rollout.phase is Phase.WAITING and (
        refused := _refusals_of(layout, gpu_rollout.message)
    ):
        return replace(gpu_rollout, message=f"{gpu_rollout.message}; eviction refused: {refused}")
    if gpu_rollout.phase is not Phase.PENDING or gpu_rollout.message:
        return gpu_rollout
    limit = layout.spec.rollout.unavailable_of(sum(counted.values()))
    if counted[Phase.ROLLED_BACK]:
        text = STOPPED
    elif layout.status.observed_generation < layout.meta.generation:
        text = "the operator has not processed the layout's latest version yet"
    elif underway >= limit:
        text = (
            f"waits for its turn: {underway} of at most {limit} at a time (rollout.maxUnavailable:"
            f" {layout.spec.rollout.max_unavailable}) are not done"
        )
    else:
        text = "is due: the operator begins some GPUs at a time"
    return replace(gpu_rollout, message=text)


def _refusals_of(layout: Layout, message: str) -> str:
    """Return the refused evictions of the pods that a message names."""
    pods = frozenset(_POD.findall(message))
    parts = find_refusals(layout).split("; ")
    return "; ".join(refusal for refusal in parts if refusal.partition(": ")[0] in pods)


def find_refusals(layout: Layout) -> str:
    """Return the evictions that the API server refuses, as the layout's conditions name them."""
    for condition in layout.status.conditions:
        refused = condition.message.partition(_REFUSED)[2]
        if refused:
            return refused
    return ""


def _compare_slices(gpu: Gpu) -> str:
    """Return whether a GPU that is not healthy has the slices of its layout."""
    present_places = {
        gpu_slice.place for gpu_slice in gpu.status.slices if gpu_slice.state is SliceState.ACTIVE
    }
    if present_places == {instance.place for instance in gpu.spec.instances}:
        return "its slices are those of the layout"
    return "its slices are not yet those of the layout"


def _assess(world: World, gpu: Gpu, layout: Layout, role: Role) -> GpuRollout:
    if role.part is Part.UNPLACEABLE:
        problem = targets.resolve_target(gpu.spec.board, layout.spec.instances).problem
        return GpuRollout(gpu, Phase.FAILED, problem)
    if gpu.spec.node_name not in world.nodes:
        return GpuRollout(gpu, Phase.PENDING, f"node {gpu.spec.node_name} does not exist")
    progress = assessment.assess(world, gpu, layout)
    if progress.reason is Reason.DEADLINE_EXCEEDED:
        return GpuRollout(gpu, Phase.ROLLED_BACK, progress.message, retry=describe_retry(layout))
    if progress.state is State.FAILED and progress.reason in _OF_HEALTH:
        return GpuRollout(gpu, Phase.UNHEALTHY, f"{progress.message}; {_compare_slices(gpu)}")
    deadline = None
    begun = change.read_change(gpu).begun
    if progress.has_deadline and begun is not None:
        deadline = begun + datetime.timedelta(seconds=layout.spec.rollout.deadline_seconds)
    return GpuRollout(gpu, _PHASES[progress.state], progress.message, deadline)
