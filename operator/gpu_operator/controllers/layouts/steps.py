"""What may be done about a GPU of a layout, and what is said of it then."""

from dataclasses import dataclass

from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import Slice
from gpu_operator.controllers.layouts import targets
from gpu_operator.controllers.layouts.assessment import Judgement, State, waiting
from gpu_operator.controllers.layouts.change import Places
from mig.errors import MigError


@dataclass(frozen=True, slots=True)
class Begin:
    """Give the GPU these instances: a change begins. ``blockers`` are held by pods."""

    instances: Places
    blockers: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """Give a change underway another goal, which fewer pods stand in the way of."""

    instances: Places
    blockers: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class Date:
    """Let a change underway begin now: by its date it begins later, as a clock was ahead."""


@dataclass(frozen=True, slots=True)
class RollBack:
    """Restore what was there before the change."""

    why: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict who stands in the way, as soon as that may be."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done about a GPU."""

    judgement: Judgement
    step: Begin | Move | Date | RollBack | Evict


def begun(judgement: Judgement, blockers: tuple[Slice, ...]) -> Judgement:
    """Return what is said of a GPU whose change begins."""
    if blockers:
        return waiting(judgement.gpu, blockers)
    return Judgement(judgement.gpu, State.APPLYING, Reason.APPLYING, "slices are being changed")


def unplannable(judgement: Judgement, err: MigError) -> Judgement:
    """Judge a GPU for which there is no plan: claims are waited for, as nobody may move them."""
    problem, gpu = targets.one_line(err), judgement.gpu
    if claims := gpu.status.claims:
        message = f"{', '.join(map(str, claims))}: {problem}"
        return Judgement(gpu, State.PENDING, Reason.SLICE_IN_USE, message, claims=claims)
    return Judgement(gpu, State.FAILED, Reason.NOT_PLACEABLE, problem)
