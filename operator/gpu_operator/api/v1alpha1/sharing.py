"""Sharing of GPUs and slices between containers, in the format of NVIDIA's device plugin."""

from enum import StrEnum
from typing import Final, Self

from pydantic import Field, model_validator

from gpu_operator.api.v1alpha1.base import Model

MAX_REPLICAS: Final = 48  # clients of an MPS server; a slice has 64 contexts
SUFFIX: Final = ".shared"
_LONGEST: Final = 63  # characters of a resource's name without its prefix
_NAME = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


class SharedResource(Model):
    """One resource and into how many it is made."""

    name: str = Field(
        pattern=_NAME,
        max_length=253,
        description="Resource such as nvidia.com/gpu, gpu or mig-1g.10gb.",
    )
    replicas: int = Field(
        ge=2, le=MAX_REPLICAS, description="Containers that may have each device at once."
    )
    rename: str = Field(
        default="",
        pattern=rf"^$|{_NAME}",
        max_length=63,
        description="Name it is offered by instead; overrides renameByDefault.",
    )
    devices: tuple[str, ...] = Field(
        default=("all",),
        min_length=1,
        max_length=64,
        description='Which devices: "all", or indices and UUIDs of GPUs.',
    )

    @property
    def short(self) -> str:
        """Return the name without a prefix."""
        return self.name.rpartition("/")[2]

    @property
    def is_a_resource(self) -> bool:
        """Return whether a resource can be called so; no device of ours is offered as another."""
        return len(self.short) <= _LONGEST


class SharingConfig(Model):
    """``timeSlicing`` or ``mps`` of the config file of NVIDIA's device plugin."""

    rename_by_default: bool = Field(
        default=False, description="Offer shared resources as <name>.shared."
    )
    fail_requests_greater_than_one: bool = Field(
        default=False,
        description="Refuse containers that ask for more than one: they would get no more. Of mps"
        " this is always so.",
    )
    resources: tuple[SharedResource, ...] = Field(
        min_length=1, max_length=32, description="What is shared; the rest is not."
    )


class SharingKind(StrEnum):
    """How sharers are kept apart."""

    TIME_SLICING = "time-slicing"  # not at all: each context gets its turn
    MPS = "mps"  # each gets its part of memory and multiprocessors


class Sharing(Model):
    """One of the two, as in NVIDIA's device plugin."""

    time_slicing: SharingConfig | None = Field(
        default=None, description="Sharers take turns; memory is whoever's comes first."
    )
    mps: SharingConfig | None = Field(
        default=None, description="Each sharer has its part of memory and multiprocessors."
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.time_slicing is not None and self.mps is not None:
            raise ValueError("timeSlicing and mps exclude each other")
        return self

    @property
    def config(self) -> SharingConfig | None:
        """Return what is given."""
        return self.time_slicing or self.mps

    @property
    def kind(self) -> SharingKind:
        """Return which of the two it is."""
        return SharingKind.MPS if self.mps is not None else SharingKind.TIME_SLICING


class Shared(Model):
    """How devices of one resource of a GPU are shared; names have no prefix."""

    name: str = Field(max_length=253, description="Resource as it would be without sharing.")
    offered_as: str = Field(max_length=253, description="Resource as it is offered.")
    replicas: int = Field(ge=2, le=MAX_REPLICAS, description="Containers for each device.")
    kind: SharingKind = Field(description="time-slicing or mps.")
    fail_greater_than_one: bool = Field(
        default=False, description="Containers may ask for one only."
    )


def resolve(sharing: Sharing | None, index: int, uuid: str) -> tuple[Shared, ...]:
    """Return how a GPU's resources are shared. Of two entries for a name the first counts."""
    config = sharing.config if sharing is not None else None
    if sharing is None or config is None:
        return ()
    found: dict[str, Shared] = {}
    for one in config.resources:
        if not one.is_a_resource or not {"all", str(index), uuid} & set(one.devices):
            continue
        renamed = one.rename.rpartition("/")[2]
        if not renamed:
            renamed = one.short + SUFFIX if config.rename_by_default else one.short
        mps = sharing.kind is SharingKind.MPS
        found.setdefault(
            one.short,
            Shared(
                name=one.short,
                offered_as=renamed,
                replicas=one.replicas,
                kind=sharing.kind,
                fail_greater_than_one=mps or config.fail_requests_greater_than_one,
            ),
        )
    return tuple(found.values())
