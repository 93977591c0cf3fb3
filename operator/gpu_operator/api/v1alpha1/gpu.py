"""GPU: one simulated device. The operator writes its spec, the node's agent its status."""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, Status, StatusModel
from gpu_operator.api.v1alpha1.gpu_facts import FactFields
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.api.v1alpha1.gpupool import Allocation, Clock, Isolation
from gpu_operator.api.v1alpha1.sharing import Shared
from mig.geometry import WHOLE, DeviceProfile, Profile
from mig.spec import Place

_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


class MigMode(StrEnum):
    """Whether MIG divides a GPU."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"  # one whole GPU


class PlacedInstance(Model):
    """A MIG device at its place, or the whole GPU."""

    profile: str = Field(
        min_length=1,
        max_length=63,
        description="MIG profile such as 1g.10gb, 1g.10gb+me or 1c.3g.40gb; `whole` is the GPU "
        "with MIG off.",
    )
    start: int = Field(ge=0, le=15, description="First placement unit (memory slice).")
    compute_start: int | None = Field(
        default=None,
        ge=0,
        le=15,
        description="First compute slice inside its GPU instance, of what is narrower than that.",
    )

    @classmethod
    def at(cls, place: Place) -> "PlacedInstance":
        """Return what is at a place."""
        profile, start, compute_start = place
        return cls(profile=profile, start=start, compute_start=compute_start)

    @property
    def place(self) -> Place:
        """Return where it is, by names."""
        return Place(self.profile, self.start, self.compute_start)


class FaultKind(StrEnum):
    """What can be made to fail; gpud's words for it."""

    XID = "xid"
    ECC_CORRECTED = "ecc_corrected"
    ECC_UNCORRECTED = "ecc_uncorrected"
    THERMAL = "thermal"
    HANG = "hang"
    OFF_BUS = "off_bus"


class WantedFault(Model):
    """A fault that a GPUFault asks for."""

    id: str = Field(min_length=1, max_length=63, description="UID of the GPUFault.")
    kind: FaultKind = Field(description="What is to fail.")
    xid: int | None = Field(default=None, ge=1, le=9999, description="Number, with kind xid.")
    count: int = Field(default=1, ge=1, le=1000, description="How often, or how many errors.")
    profile: str | None = Field(
        default=None, max_length=63, description="Slice that has it; none: the whole GPU."
    )
    start: int | None = Field(default=None, ge=0, le=15, description="Its first placement unit.")
    compute_start: int | None = Field(
        default=None, ge=0, le=15, description="Its first compute slice in its GPU instance."
    )
    until: str = Field(
        default="", max_length=40, description="When it ends by itself (RFC 3339); empty: never."
    )


class FaultPhase(StrEnum):
    """How far a fault got."""

    INJECTED = "Injected"  # happened; it is over
    ACTIVE = "Active"
    CLEARED = "Cleared"
    REFUSED = "Refused"


class FaultStatus(StatusModel):
    """What became of a fault of the spec."""

    id: str = Field(description="As in the spec.")
    phase: FaultPhase = Field(description="Injected, Active, Cleared or Refused.")
    slice: str = Field(default="", description="UUID of the slice that has it.")
    message: str = Field(default="", description="Why it was refused.")


class GPUSpec(FactFields):
    """What the node agent is to make true."""

    node_name: str = Field(description="Node that carries the GPU.")
    index: int = Field(ge=0, le=7, description="Index on its node.")
    board: str = Field(description="Board it simulates.")
    uuid: str = Field(description="GPU-<uuid>; fixed for the life of the object.")
    pool: str = Field(description="GPUPool it belongs to.")
    layout: str | None = Field(default=None, description="MIGLayout that asked for the instances.")
    instances: tuple[PlacedInstance, ...] = Field(
        default=(), max_length=16, description="Desired instances, all of them."
    )
    mig_mode: MigMode | None = Field(
        default=None,
        description="MIG mode that the instances mean: Disabled with `whole`, else Enabled. "
        "Enabled without instances and without a layout keeps the GPU undivided and unoffered.",
    )
    mig_strategy: Strategy = Field(
        default=Strategy.MIXED,
        description="How the node offers MIG devices: the policy's, or its node label's.",
    )
    allocation: Allocation = Field(
        default=Allocation.DEVICE_PLUGIN,
        description="Who gives it to pods: as the pool says, or the node's label.",
    )
    allow_multiple_allocations: bool = Field(default=False, description="As in the pool.")
    node_budget: str | None = Field(default=None, description="As in the pool.")
    isolation: Isolation = Field(default=Isolation.DEFAULT, description="As in the pool.")
    faults: tuple[WantedFault, ...] = Field(
        default=(), max_length=64, description="Faults that GPUFaults ask for, all of them."
    )
    sharing: tuple[Shared, ...] = Field(
        default=(), max_length=32, description="How its devices are shared: the policy's."
    )

    @property
    def layout_instances(self) -> tuple[PlacedInstance, ...]:
        """Return the instances that are made for layouts, and none for claims.

        A GPU that is whole only for want of a layout is a claim's to take, if claims may.
        """
        whole = [instance.profile for instance in self.instances] == [WHOLE]
        match self.allocation:
            case Allocation.DRA:
                return ()
            case Allocation.BOTH if whole and self.layout is None:
                return ()
        return self.instances

    def shared(self, profile: Profile | DeviceProfile) -> Shared | None:
        """Return how devices of a profile are shared; None: each container has its own."""
        name = self.mig_strategy.resource_of(profile)
        return next((one for one in self.sharing if one.name == name), None)

    def offered_as(self, profile: Profile | DeviceProfile) -> str:
        """Return the resource, without its prefix, of devices of a profile; empty: not offered."""
        shared = self.shared(profile)
        return shared.offered_as if shared is not None else self.mig_strategy.resource_of(profile)

    def replicas(self, profile: Profile | DeviceProfile) -> int:
        """Return how often each device of a profile is offered."""
        shared = self.shared(profile)
        return shared.replicas if shared is not None else 1


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
    """A MIG device, or a whole GPU, as it is on the node."""

    uuid: str = Field(description="MIG-<uuid>, or GPU-<uuid> of a whole GPU.")
    profile: str = Field(description="MIG profile such as 1c.3g.40gb, or `whole`.")
    start: int = Field(description="First placement unit.")
    compute_start: int | None = Field(
        default=None, description="First compute slice inside its GPU instance, if it shares that."
    )
    state: SliceState = Field(description="Active or Withdrawing.")
    resource: str = Field(description="Extended resource it is offered as; empty: none.")
    shared: bool | None = Field(
        default=None,
        description="Whether it is offered, or pods have it, in shares; unset: by an older agent.",
    )
    admitted: bool = Field(
        default=True,
        description="False while it is sick, or kubelet or agent restart: no pod is admitted.",
    )
    memory_bytes: int = Field(description="Memory of the slice.")
    memory_used_bytes: int = Field(default=0, description="Allocated by its contexts.")
    multiprocessors: int = Field(description="SMs of the slice.")
    holders: tuple[Holder, ...] = Field(default=(), description="Pods that hold it.")
    health: str = Field(
        default="Healthy", description="Healthy, Suspect, Unhealthy or Probation, and why."
    )

    @property
    def place(self) -> Place:
        """Return where it is, by names."""
        return Place(self.profile, self.start, self.compute_start)


class ClaimedSlice(StatusModel):
    """A MIG device, or a whole GPU, that was made for a ResourceClaim and stays as long as that.

    What several claims share is there once for each, with the same UUID and place.
    """

    uuid: str = Field(description="MIG-<uuid>, or GPU-<uuid> of a whole GPU.")
    profile: str = Field(description="MIG profile such as 1c.3g.40gb, or `whole`.")
    start: int = Field(description="First placement unit.")
    compute_start: int | None = Field(
        default=None, description="First compute slice inside its GPU instance, if it shares that."
    )
    claim: Holder = Field(description="The ResourceClaim.")
    shared: bool = Field(
        default=False, description="Other claims can have, or have, the rest of its memory."
    )
    memory_bytes: int = Field(description="Memory of the slice, or the claim's share of that.")
    memory_used_bytes: int = Field(default=0, description="Allocated by its contexts.")
    multiprocessors: int = Field(description="SMs of the slice.")
    holders: tuple[Holder, ...] = Field(
        default=(), description="Pods that use the claim; of a shared slice at most 16 of each."
    )
    health: str = Field(
        default="Healthy", description="Healthy, Suspect, Unhealthy or Probation, and why."
    )

    @property
    def place(self) -> Place:
        """Return where it is, by names."""
        return Place(self.profile, self.start, self.compute_start)

    def __str__(self) -> str:
        return f"{self.place} is held by claim {self.claim.namespace}/{self.claim.name}"


class Budget(StatusModel):
    """Node memory behind device memory."""

    total: str = Field(description="What all slices of the node may use together, such as 4Gi.")
    used: str = Field(description="What they use.")


class IsolationStatus(StatusModel):
    """Whether a slice's limits are enforced by cgroups."""

    enforced: bool = Field(description="False: bookkeeping only.")
    reason: str = Field(default="", description="Why not.")


class ModelledPeak(StatusModel):
    """What the board can do by its data sheet: figures of the performance model."""

    memory_gigabytes_per_second: int = Field(description="DRAM, 10^9 bytes/s.")
    link_gigabytes_per_second: int = Field(description="NVLink, or else PCIe, one way.")
    pcie_gigabytes_per_second: int = Field(description="PCIe, one way.")
    fp32_gigaflops: int = Field(description="Vector operations on binary32.")
    tensor_gigaflops: dict[str, int] = Field(description="Dense matrix operations, by type.")


class GPUStatus(Status):
    """The truth as the node agent sees it."""

    product: str = Field(default="", description="Marketing name of the board.")
    memory_bytes: int = Field(default=0, description="Device memory in bytes.")
    multiprocessors: int = Field(default=0, description="SMs of the board.")
    health: str = Field(
        default="Unknown", description="Healthy, Suspect, Unhealthy, Probation or Unknown."
    )
    mig_mode: MigMode | None = Field(default=None, description="MIG mode: Enabled or Disabled.")
    slices: tuple[Slice, ...] = Field(
        default=(), description="MIG devices on the GPU; with MIG off the whole GPU as one."
    )
    claims: tuple[ClaimedSlice, ...] = Field(
        default=(), description="Slices beside those, made for ResourceClaims (DRA)."
    )
    slices_total: int = Field(default=0, description="How many there are, those of claims too.")
    slices_used: int = Field(default=0, description="How many are held by a pod or a claim.")
    holders: str = Field(default="", description="Pods that hold slices, for `-o wide`.")
    budget: Budget | None = Field(default=None, description="Memory budget of the node.")
    isolation: IsolationStatus | None = Field(default=None, description="Cgroup enforcement.")
    modelled_peak: ModelledPeak | None = Field(
        default=None, description="Peak figures of the board. Modelled: the node is not that fast."
    )
    clock: Clock | None = Field(
        default=None,
        description="What CUDA events of contexts that begin now measure. Wall: the node's time. "
        "Modelled: what the board, or its slice, would take.",
    )
    faults: tuple[FaultStatus, ...] = Field(
        default=(), description="What became of the faults of the spec."
    )
    agent_version: str = Field(default="", description="Version of the agent that wrote this.")
    driver_version: str = Field(default="", description="Version of the driver, as NVML says it.")
    cuda_version: str = Field(default="", description="CUDA version that the driver serves.")
    machine: str = Field(default="", description="Type of the node's machine (DMI product name).")

    @property
    def claimed(self) -> tuple[ClaimedSlice, ...]:
        """Return one of ``claims`` for each slice: those that share one are alike but for that."""
        return tuple({one.place: one for one in self.claims}.values())
