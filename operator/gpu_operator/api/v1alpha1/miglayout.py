"""MIGLayout: which slices where, and how to get there."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints, WithJsonSchema

from gpu_operator.api.v1alpha1.base import Model, Status, StatusModel
from gpu_operator.api.v1alpha1.rdma.common import LabelSelector

LISTED_GPUS: Final = 16
"""GPUs that a status names one by one: with it and its conditions a status stays below 16 KiB."""
LISTED_MESSAGE_LENGTH: Final = 200

_PERCENTAGE = r"^(100|[1-9][0-9]?)%$"
MaxUnavailable = Annotated[
    Annotated[int, Field(ge=1)] | Annotated[str, StringConstraints(pattern=_PERCENTAGE)],
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "maxLength": 4,
            "x-kubernetes-validations": [
                {
                    "rule": f"type(self) == int ? self >= 1 : self.matches('{_PERCENTAGE}')",
                    "message": "a number of GPUs from 1 on, or a percentage from 1% to 100%",
                }
            ],
        }
    ),
]
"""An ``intstr.IntOrString``: a number, or a percentage of the selected GPUs."""


class LayoutSelector(Model):
    """The GPUs a layout is for; all given parts must match."""

    pool: str | None = Field(default=None, description="GPUs of this GPUPool.")
    boards: tuple[str, ...] = Field(
        default=(), max_length=64, description="GPUs that simulate one of these boards."
    )
    node_selector: dict[str, str] = Field(
        default_factory=dict, description="GPUs of nodes that carry all of these labels."
    )
    node_names: tuple[str, ...] = Field(default=(), description="GPUs of these nodes.")
    indices: tuple[int, ...] = Field(default=(), description="GPUs with these indices.")
    node_label_selector: LabelSelector | None = Field(
        default=None,
        description="GPUs of nodes whose labels this matches: nodeSelector with expressions.",
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "!has(self.matchExpressions) || self.matchExpressions.all(e,"
                    " (e.operator in ['In', 'NotIn']) == (has(e.values) && e.values.size() > 0))",
                    "message": "In and NotIn need values, Exists and DoesNotExist take none",
                }
            ]
        },
    )


class InstanceRequest(Model):
    """A number of devices of one profile."""

    profile: str = Field(
        min_length=1,
        max_length=63,
        description="MIG profile such as 1g.10gb, or an alias of it, or a part of one such as "
        "1c.3g.40gb; `whole` alone keeps MIG off.",
    )
    count: int = Field(default=1, ge=1, le=64, description="How many on each GPU.")
    start: int | None = Field(
        default=None, ge=0, le=15, description="Fixed placement (only with count 1)."
    )
    compute_start: int | None = Field(
        default=None,
        ge=0,
        le=15,
        description="Fixed compute slice inside the GPU instance at start, for a part of it.",
    )


class OnInUse(StrEnum):
    """What to do about a slice that stands in the way and is held by a pod."""

    WAIT = "Wait"
    EVICT = "Evict"


class Rollout(Model):
    """How a change reaches the GPUs."""

    max_unavailable: MaxUnavailable = Field(
        default=1,
        description="GPUs that lose slices at the same time, a number or a percentage of the "
        "selected ones (rounded up); an empty GPU is filled at once.",
    )
    on_in_use: OnInUse = Field(
        default=OnInUse.WAIT,
        description="Wait for pods that hold a slice in the way, or evict them "
        "(PodDisruptionBudgets are honoured).",
    )
    deadline_seconds: int = Field(
        default=600,
        ge=1,
        description="A GPU that is not as asked for after this long gets its last slices back, "
        "and the layout is Degraded.",
    )

    def unavailable_of(self, gpus: int) -> int:
        """Return how many of so many GPUs may lose slices at a time, one at least."""
        if isinstance(self.max_unavailable, int):
            return self.max_unavailable
        percent = int(self.max_unavailable.removesuffix("%"))
        return max(1, -(-gpus * percent // 100))


class MIGLayoutSpec(Model):
    """Desired slices of every selected GPU. Slices that fit stay as they are."""

    selector: LayoutSelector = Field(
        default_factory=LayoutSelector, description="Which GPUs; empty: all."
    )
    instances: tuple[InstanceRequest, ...] = Field(
        max_length=64, description="Slices of each GPU; an empty list removes all."
    )
    rollout: Rollout = Field(default_factory=Rollout, description="How to get there.")


class GPUProgress(StatusModel):
    """One GPU's part in a layout."""

    name: str = Field(description="Name of the GPU.")
    state: str = Field(description="Applied, Applying, Waiting, Pending or Failed.")
    message: str = Field(default="", description="Why it is not Applied.")


class MIGLayoutStatus(Status):
    """How far it got. Counts are slices over all selected GPUs."""

    desired: int = Field(
        default=0, description="Slices asked for, those that a board cannot hold among them."
    )
    applied: int = Field(default=0, description="Slices that exist as asked for.")
    waiting: int = Field(default=0, description="Slices that have to go and that pods hold.")
    gpus: tuple[GPUProgress, ...] = Field(
        default=(),
        description=f"GPU by GPU; of more than {LISTED_GPUS} those that are furthest from done.",
    )
    gpus_selected: int = Field(default=0, description="How many GPUs the layout selects.")
    gpus_applied: int = Field(default=0, description="How many of them are Applied.")
