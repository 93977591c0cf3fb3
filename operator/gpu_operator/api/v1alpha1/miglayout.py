"""MIGLayout: which slices where, and how to get there."""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, Status, StatusModel


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


class InstanceRequest(Model):
    """A number of instances of one profile."""

    profile: str = Field(
        min_length=1, max_length=63, description="MIG profile such as 1g.10gb, or an alias of it."
    )
    count: int = Field(default=1, ge=1, le=64, description="How many on each GPU.")
    start: int | None = Field(
        default=None, ge=0, le=15, description="Fixed placement (only with count 1)."
    )


class OnInUse(StrEnum):
    """What to do about a slice that stands in the way and is held by a pod."""

    WAIT = "Wait"
    EVICT = "Evict"


class Rollout(Model):
    """How a change reaches the GPUs."""

    max_unavailable: int = Field(
        default=1,
        ge=1,
        description="GPUs that lose slices at the same time; an empty GPU is filled at once.",
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
    gpus: tuple[GPUProgress, ...] = Field(default=(), description="GPU by GPU.")
