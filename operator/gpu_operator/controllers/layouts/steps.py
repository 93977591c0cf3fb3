"""Steps that a pass can take for a GPU, and the assessments that are reported with them."""

from dataclasses import dataclass

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import Slice
from gpu_operator.controllers.layouts import targets
from gpu_operator.controllers.layouts.assessment import GpuAssessment, State, make_waiting
from gpu_operator.controllers.layouts.change import Places
from mig.errors import MigError


@dataclass(frozen=True, slots=True)
class Begin:
    """Begins to change the GPU's instances to ``instances``.

    ``blockers`` are slices that must be removed first, and that pods hold.
    """

    instances: Places
    blockers: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """Gives a running change of the GPU another target.

    ``instances`` are the new target. Fewer pods hold slices that this target removes.
    """

    instances: Places
    blockers: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class Redate:
    """Sets the start of a running change to now.

    This is needed if the recorded start is in the future, because the clock that recorded it was
    ahead.
    """


@dataclass(frozen=True, slots=True)
class RollBack:
    """Restores the instances that the GPU had before the change."""

    why: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Evicts the pods that hold slices which must be removed, once that is permitted."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A GPU's assessment, and the step that a pass takes for the GPU."""

    assessed: GpuAssessment
    step: Begin | Move | Redate | RollBack | Evict


def assess_begin(assessed: GpuAssessment, blockers: tuple[Slice, ...]) -> GpuAssessment:
    """Return the assessment of a GPU whose change begins."""
    if blockers:
        return make_waiting(assessed.gpu, blockers)
    return GpuAssessment(assessed.gpu, State.APPLYING, Reason.APPLYING, "slices are being changed")


def assess_unplannable(assessed: GpuAssessment, err: MigError) -> GpuAssessment:
    """Return the assessment of a GPU for which no valid plan exists.

    A GPU with claims waits for them, because their slices cannot be moved.
    """
    problem, gpu = targets.one_line(err), assessed.gpu
    if claims := gpu.status.claims:
        message = f"{', '.join(map(str, claims))}: {problem}"
        return GpuAssessment(gpu, State.PENDING, Reason.SLICE_IN_USE, message, claims=claims)
    return GpuAssessment(gpu, State.FAILED, Reason.NOT_PLACEABLE, problem)
