"""GPU: one simulated device. The operator writes its spec, the node's agent its status."""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, Status, StatusModel
from gpu_operator.api.v1alpha1.gpupool import Isolation

_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


class PlacedInstance(Model):
    """A MIG GPU instance at its place."""

    profile: str = Field(
        min_length=1, max_length=63, description="MIG profile such as 1g.10gb or 1g.10gb+me."
    )
    start: int = Field(ge=0, le=15, description="First placement unit (memory slice).")


class GPUSpec(Model):
    """What the node agent is to make true."""

    node_name: str = Field(description="Node that carries the GPU.")
    index: int = Field(ge=0, le=7, description="Index on its node.")
    board: str = Field(description="Board it simulates.")
    uuid: str = Field(description="GPU-<uuid>; fixed for the life of the object.")
    pool: str = Field(description="GPUPool it belongs to.")
    layout: str | None = Field(default=None, description="MIGLayout that asked for the instances.")
    instances: tuple[PlacedInstance, ...] = Field(
        default=(), max_length=16, description="Desired MIG instances, all of them."
    )
    node_budget: str | None = Field(default=None, description="As in the pool.")
    isolation: Isolation = Field(default=Isolation.DEFAULT, description="As in the pool.")


class Holder(StatusModel):
    """A pod that the kubelet has given a slice to."""

    # The operator may evict this pod: what an agent writes here must be a name and nothing else.
    namespace: str = Field(pattern=_NAME, max_length=63, description="Namespace of the pod.")
    name: str = Field(pattern=_NAME, max_length=253, description="Name of the pod.")
    uid: str = Field(default="", description="UID of the pod.")


class SliceState(StrEnum):
    """Life of a slice on its node."""

    ACTIVE = "Active"  # offered to the kubelet
    WITHDRAWING = "Withdrawing"  # no longer offered; waits for its holder


class Slice(StatusModel):
    """A MIG device as it is on the node."""

    uuid: str = Field(description="MIG-<uuid>.")
    profile: str = Field(description="MIG profile.")
    start: int = Field(description="First placement unit.")
    state: SliceState = Field(description="Active or Withdrawing.")
    resource: str = Field(description="Extended resource it is offered as.")
    admitted: bool = Field(
        default=True,
        description="False while kubelet or node agent restart: no pod is admitted with it.",
    )
    memory_bytes: int = Field(description="Memory of the slice.")
    memory_used_bytes: int = Field(default=0, description="Allocated by its contexts.")
    multiprocessors: int = Field(description="SMs of the slice.")
    holders: tuple[Holder, ...] = Field(default=(), description="Pods that hold it.")


class Budget(StatusModel):
    """Node memory behind device memory."""

    total: str = Field(description="What all slices of the node may use together, such as 4Gi.")
    used: str = Field(description="What they use.")


class IsolationStatus(StatusModel):
    """Whether a slice's limits are enforced by cgroups."""

    enforced: bool = Field(description="False: bookkeeping only.")
    reason: str = Field(default="", description="Why not.")


class GPUStatus(Status):
    """The truth as the node agent sees it."""

    product: str = Field(default="", description="Marketing name of the board.")
    memory_bytes: int = Field(default=0, description="Device memory in bytes.")
    multiprocessors: int = Field(default=0, description="SMs of the board.")
    health: str = Field(default="Unknown", description="Healthy, Unhealthy or Unknown.")
    slices: tuple[Slice, ...] = Field(default=(), description="MIG devices on the GPU.")
    slices_total: int = Field(default=0, description="How many there are.")
    slices_used: int = Field(default=0, description="How many are held by a pod.")
    holders: str = Field(default="", description="Pods that hold slices, for `-o wide`.")
    budget: Budget | None = Field(default=None, description="Memory budget of the node.")
    isolation: IsolationStatus | None = Field(default=None, description="Cgroup enforcement.")
    agent_version: str = Field(default="", description="Version of the agent that wrote this.")
