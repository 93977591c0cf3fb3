"""MIGLayout: the slices of the selected GPUs, and how changes are rolled out."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints, WithJsonSchema

from gpu_operator.api.v1alpha1.base import Model, Status, StatusModel
from gpu_operator.api.v1alpha1.rdma.common import LabelSelector

LISTED_GPUS: Final = 16
"""GPUs that a status lists individually; with its conditions the status stays below 16 KiB."""
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
                    "message": "a number of GPUs, at least 1, or a percentage from 1% to 100%",
                }
            ],
        }
    ),
]
"""An ``intstr.IntOrString``: a number, or a percentage of the selected GPUs."""


class LayoutSelector(Model):
    """GPUs that a layout applies to; all given fields must match."""

    pool: str | None = Field(default=None, description="GPUs of this GPUPool.")
    boards: tuple[str, ...] = Field(
        default=(), max_length=64, description="GPUs that simulate one of these boards."
    )
    node_selector: dict[str, str] = Field(
        default_factory=dict, description="GPUs of nodes that have all of these labels."
    )
    node_names: tuple[str, ...] = Field(default=(), description="GPUs of these nodes.")
    indices: tuple[int, ...] = Field(default=(), description="GPUs with these indices.")
    node_label_selector: LabelSelector | None = Field(
        default=None,
        description="GPUs of nodes whose labels match; like nodeSelector, with expressions.",
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "!has(self.matchExpressions) || self.matchExpressions.all(e,"
                    " (e.operator in ['In', 'NotIn']) == (has(e.values) && e.values.size() > 0))",
                    "message": "In and NotIn require values; Exists and DoesNotExist accept none",
                }
            ]
        },
    )


class InstanceRequest(Model):
    """A number of devices of one profile."""

    profile: str = Field(
        min_length=1,
        max_length=63,
        description="MIG profile such as 1g.10gb, an alias of it, or a compute instance profile "
        "such as 1c.3g.40gb; `whole` must be the only entry and keeps MIG off.",
    )
    count: int = Field(default=1, ge=1, le=64, description="Number of instances on each GPU.")
    start: int | None = Field(
        default=None, ge=0, le=15, description="Fixed placement (only with count 1)."
    )
    compute_start: int | None = Field(
        default=None,
        ge=0,
        le=15,
        description="Fixed compute slice within the GPU instance at start, for a compute instance.",
    )


class OnInUse(StrEnum):
    """What to do about a slice that must be removed and that a pod holds."""

    WAIT = "Wait"
    EVICT = "Evict"


class Rollout(Model):
    """How a change is rolled out to the GPUs."""

    max_unavailable: MaxUnavailable = Field(
        default=1,
        description="GPUs that may lose slices at the same time: a number, or a percentage of the "
        "selected GPUs (rounded up). An empty GPU is filled at once.",
    )
    on_in_use: OnInUse = Field(
        default=OnInUse.WAIT,
        description="Wait for pods that hold a slice which must be removed, or evict them "
        "(PodDisruptionBudgets are honoured).",
    )
    deadline_seconds: int = Field(
        default=600,
        ge=1,
        description="Time after which a GPU that does not match the layout gets its previous "
        "slices back. The layout is then Degraded.",
    )

    def unavailable_of(self, gpus: int) -> int:
        """Return how many of ``gpus`` GPUs may lose slices at a time; the result is at least 1."""
        if isinstance(self.max_unavailable, int):
            return self.max_unavailable
        percent = int(self.max_unavailable.removesuffix("%"))
        return max(1, -(-gpus * percent // 100))


class MIGLayoutSpec(Model):
    """Desired slices of every selected GPU. Slices that already match are kept."""

    selector: LayoutSelector = Field(
        default_factory=LayoutSelector, description="GPUs that the layout applies to; empty: all."
    )
    instances: tuple[InstanceRequest, ...] = Field(
        max_length=64, description="Slices of each GPU; an empty list removes all slices."
    )
    rollout: Rollout = Field(default_factory=Rollout, description="How the change is rolled out.")


class GPUProgress(StatusModel):
    """State of one GPU in a layout."""

    name: str = Field(description="Name of the GPU.")
    state: str = Field(description="Applied, Applying, Waiting, Pending or Failed.")
    message: str = Field(default="", description="Why the GPU is not Applied.")


class MIGLayoutStatus(Status):
    """State of the layout. Slices are counted over all selected GPUs."""

    desired: int = Field(
        default=0, description="Requested slices, including those that a board cannot hold."
    )
    applied: int = Field(default=0, description="Slices that exist as requested.")
    waiting: int = Field(default=0, description="Slices that must be removed and that pods hold.")
    gpus: tuple[GPUProgress, ...] = Field(
        default=(),
        description=f"State of each GPU; of more than {LISTED_GPUS}, those that are furthest from "
        "done.",
    )
    gpus_selected: int = Field(default=0, description="Number of GPUs that the layout selects.")
    gpus_applied: int = Field(default=0, description="Number of selected GPUs that are Applied.")
