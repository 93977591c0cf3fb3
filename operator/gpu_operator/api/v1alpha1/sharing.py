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
    """A shared resource, and the number of shares of each device."""

    name: str = Field(
        pattern=_NAME,
        max_length=253,
        description="Resource such as nvidia.com/gpu, gpu or mig-1g.10gb.",
    )
    replicas: int = Field(
        ge=2, le=MAX_REPLICAS, description="Containers that may use each device at the same time."
    )
    rename: str = Field(
        default="",
        pattern=rf"^$|{_NAME}",
        max_length=63,
        description="Name under which the resource is offered; overrides renameByDefault.",
    )
    devices: tuple[str, ...] = Field(
        default=("all",),
        min_length=1,
        max_length=64,
        description='Devices to share: "all", or indices and UUIDs of GPUs.',
    )

    @property
    def short(self) -> str:
        """Return the name without its prefix."""
        return self.name.rpartition("/")[2]

    @property
    def is_a_resource(self) -> bool:
        """Return whether the name is short enough for an extended resource."""
        return len(self.short) <= _LONGEST


class SharingConfig(Model):
    """``timeSlicing`` or ``mps`` in the configuration file of NVIDIA's device plugin."""

    rename_by_default: bool = Field(
        default=False, description="Offer shared resources as <name>.shared."
    )
    fail_requests_greater_than_one: bool = Field(
        default=False,
        description="Refuse containers that request more than one: they would not get a larger "
        "share. With mps this is always so.",
    )
    resources: tuple[SharedResource, ...] = Field(
        min_length=1, max_length=32, description="Resources to share; all others are not shared."
    )


class SharingKind(StrEnum):
    """How sharers of a device are isolated."""

    TIME_SLICING = "time-slicing"  # no isolation: contexts take turns
    MPS = "mps"  # each container gets a part of memory and multiprocessors


class Sharing(Model):
    """Either timeSlicing or mps, as in NVIDIA's device plugin."""

    time_slicing: SharingConfig | None = Field(
        default=None, description="Sharers take turns; they compete for memory."
    )
    mps: SharingConfig | None = Field(
        default=None, description="Each sharer has its part of memory and multiprocessors."
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.time_slicing is not None and self.mps is not None:
            raise ValueError("timeSlicing and mps are mutually exclusive")
        return self

    @property
    def config(self) -> SharingConfig | None:
        """Return the configuration that is set."""
        return self.time_slicing or self.mps

    @property
    def kind(self) -> SharingKind:
        """Return the type of sharing that is set."""
        return SharingKind.MPS if self.mps is not None else SharingKind.TIME_SLICING


class Shared(Model):
    """How a GPU's devices of one resource are shared. Names have no prefix."""

    name: str = Field(max_length=253, description="Name of the resource without sharing.")
    offered_as: str = Field(max_length=253, description="Name under which the resource is offered.")
    replicas: int = Field(ge=2, le=MAX_REPLICAS, description="Containers that may use each device.")
    kind: SharingKind = Field(description="time-slicing or mps.")
    fail_greater_than_one: bool = Field(
        default=False, description="Whether containers may request one only."
    )


def resolve_sharing(sharing: Sharing | None, index: int, uuid: str) -> tuple[Shared, ...]:
    """Return how the resources of the GPU with this index and UUID are shared.

    If two entries have the same name, the first one applies.
    """
    config = sharing.config if sharing is not None else None
    if sharing is None or config is None:
        return ()
    shared_by_name: dict[str, Shared] = {}
    for resource in config.resources:
        if not resource.is_a_resource or not {"all", str(index), uuid} & set(resource.devices):
            continue
        renamed = resource.rename.rpartition("/")[2]
        if not renamed:
            renamed = resource.short + SUFFIX if config.rename_by_default else resource.short
        mps = sharing.kind is SharingKind.MPS
        shared_by_name.setdefault(
            resource.short,
            Shared(
                name=resource.short,
                offered_as=renamed,
                replicas=resource.replicas,
                kind=sharing.kind,
                fail_greater_than_one=mps or config.fail_requests_greater_than_one,
            ),
        )
    return tuple(shared_by_name.values())
