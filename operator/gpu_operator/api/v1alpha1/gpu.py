"""GPU: one simulated device. The operator writes its spec, the agent on its node its status."""

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
    """Whether MIG is enabled on a GPU."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"  # one whole GPU


class PlacedInstance(Model):
    """A MIG device at its placement, or the whole GPU."""

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
        description="First compute slice within the GPU instance, for a compute instance that is "
        "smaller than its GPU instance.",
    )

    @classmethod
    def from_place(cls, place: Place) -> "PlacedInstance":
        """Make the instance at a placement."""
        profile, start, compute_start = place
        return cls(profile=profile, start=start, compute_start=compute_start)

    @property
    def place(self) -> Place:
        """Return the instance's profile name, start and compute start."""
        return Place(self.profile, self.start, self.compute_start)


class FaultKind(StrEnum):
    """Faults that can be injected, by gpud's names."""

    XID = "xid"
    ECC_CORRECTED = "ecc_corrected"
    ECC_UNCORRECTED = "ecc_uncorrected"
    THERMAL = "thermal"
    HANG = "hang"
    OFF_BUS = "off_bus"


class WantedFault(Model):
    """A fault that a GPUFault requests."""

    id: str = Field(min_length=1, max_length=63, description="UID of the GPUFault.")
    kind: FaultKind = Field(description="Type of the fault.")
    xid: int | None = Field(default=None, ge=1, le=9999, description="Xid number, for kind xid.")
    count: int = Field(default=1, ge=1, le=1000, description="Number of occurrences or errors.")
    profile: str | None = Field(
        default=None,
        max_length=63,
        description="Slice that the fault affects; absent: the whole GPU.",
    )
    start: int | None = Field(
        default=None, ge=0, le=15, description="First memory slice of that slice."
    )
    compute_start: int | None = Field(
        default=None,
        ge=0,
        le=15,
        description="First compute slice of that slice in its GPU instance.",
    )
    until: str = Field(
        default="",
        max_length=40,
        description="When the fault ends by itself (RFC 3339); empty: never.",
    )


class FaultPhase(StrEnum):
    """State of a fault."""

    INJECTED = "Injected"  # the fault occurred and is over
    ACTIVE = "Active"
    CLEARED = "Cleared"
    REFUSED = "Refused"


class FaultStatus(StatusModel):
    """State of one fault of the spec."""

    id: str = Field(description="ID of the fault in the spec.")
    phase: FaultPhase = Field(description="Injected, Active, Cleared or Refused.")
    slice: str = Field(default="", description="UUID of the slice that the fault affects.")
    message: str = Field(default="", description="Why the fault was refused.")


class GPUSpec(FactFields):
    """Desired state, which the node agent applies."""

    node_name: str = Field(description="Node that has the GPU.")
    index: int = Field(ge=0, le=7, description="Index on its node.")
    board: str = Field(description="Board that the GPU simulates.")
    uuid: str = Field(description="GPU-<uuid>; fixed for the life of the object.")
    pool: str = Field(description="GPUPool that the GPU belongs to.")
    layout: str | None = Field(default=None, description="MIGLayout that requested the instances.")
    instances: tuple[PlacedInstance, ...] = Field(
        default=(), max_length=16, description="All desired instances."
    )
    mig_mode: MigMode | None = Field(
        default=None,
        description="MIG mode that the instances imply: Disabled with `whole`, otherwise Enabled. "
        "Enabled without instances and without a layout keeps the GPU undivided and not offered.",
    )
    mig_strategy: Strategy = Field(
        default=Strategy.MIXED,
        description="How the node offers MIG devices: as the policy or the node's label specifies.",
    )
    allocation: Allocation = Field(
        default=Allocation.DEVICE_PLUGIN,
        description="How the GPU is allocated to pods: as the pool or the node's label specifies.",
    )
    allow_multiple_allocations: bool = Field(default=False, description="Value of the pool.")
    node_budget: str | None = Field(default=None, description="Value of the pool.")
    isolation: Isolation = Field(default=Isolation.DEFAULT, description="Value of the pool.")
    faults: tuple[WantedFault, ...] = Field(
        default=(), max_length=64, description="All faults that GPUFaults request."
    )
    sharing: tuple[Shared, ...] = Field(
        default=(),
        max_length=32,
        description="How the GPU's devices are shared, as the policy specifies.",
    )

    @property
    def layout_instances(self) -> tuple[PlacedInstance, ...]:
        """Return the instances that were made for layouts rather than for claims.

        The result is empty if only claims can use the GPU. It is also empty if the node's
        allocation permits claims as well and the GPU is whole because no layout selects it:
        claims can then use the whole GPU.
        """
        whole = [instance.profile for instance in self.instances] == [WHOLE]
        match self.allocation:
            case Allocation.DRA:
                return ()
            case Allocation.BOTH if whole and self.layout is None:
                return ()
        return self.instances

    def sharing_of(self, profile: Profile | DeviceProfile) -> Shared | None:
        """Return how devices of a profile are shared, or None if each container has its own
        device.
        """
        name = self.mig_strategy.resource_of(profile)
        return next(
            (shared_resource for shared_resource in self.sharing if shared_resource.name == name),
            None,
        )

    def resource_of(self, profile: Profile | DeviceProfile) -> str:
        """Return the resource, without its prefix, that offers devices of a profile; empty if none
        does.
        """
        shared = self.sharing_of(profile)
        return shared.offered_as if shared is not None else self.mig_strategy.resource_of(profile)

    def replicas_of(self, profile: Profile | DeviceProfile) -> int:
        """Return how many times each device of a profile is offered."""
        shared = self.sharing_of(profile)
        return shared.replicas if shared is not None else 1


class Holder(StatusModel):
    """A pod to which the kubelet has allocated a slice."""

    # The operator may evict this pod, so the agent must write a valid name and nothing else.
    namespace: str = Field(pattern=_NAME, max_length=63, description="Namespace of the pod.")
    name: str = Field(pattern=_NAME, max_length=253, description="Name of the pod.")
    uid: str = Field(default="", description="UID of the pod.")


class SliceState(StrEnum):
    """State of a slice on its node."""

    ACTIVE = "Active"  # offered to the kubelet
    WITHDRAWING = "Withdrawing"  # no longer offered; the pod that holds it has yet to end


class Slice(StatusModel):
    """A MIG device or a whole GPU on the node."""

    uuid: str = Field(description="MIG-<uuid>, or GPU-<uuid> for a whole GPU.")
    profile: str = Field(description="MIG profile such as 1c.3g.40gb, or `whole`.")
    start: int = Field(description="First memory slice of the placement.")
    compute_start: int | None = Field(
        default=None, description="First compute slice within the GPU instance, if that is divided."
    )
    state: SliceState = Field(description="Active or Withdrawing.")
    resource: str = Field(
        description="Extended resource as which the slice is offered; empty: none."
    )
    shared: bool | None = Field(
        default=None,
        description="Whether the slice is offered, or held by pods, in shares; absent: written by "
        "an older agent.",
    )
    admitted: bool = Field(
        default=True,
        description="False while the slice is unhealthy, or while the kubelet or the agent "
        "restarts: no pod is admitted.",
    )
    memory_bytes: int = Field(description="Memory of the slice.")
    memory_used_bytes: int = Field(
        default=0, description="Memory that the slice's contexts have allocated."
    )
    multiprocessors: int = Field(description="SMs of the slice.")
    holders: tuple[Holder, ...] = Field(default=(), description="Pods that hold the slice.")
    health: str = Field(
        default="Healthy",
        description="Healthy, Suspect, Unhealthy or Probation, followed by the reason.",
    )

    @property
    def place(self) -> Place:
        """Return the slice's profile name, start and compute start."""
        return Place(self.profile, self.start, self.compute_start)


class ClaimedSlice(StatusModel):
    """A MIG device or a whole GPU that was made for a ResourceClaim and exists as long as the
    claim.

    A slice that several claims share is listed once for each claim, with the same UUID and
    placement.
    """

    uuid: str = Field(description="MIG-<uuid>, or GPU-<uuid> for a whole GPU.")
    profile: str = Field(description="MIG profile such as 1c.3g.40gb, or `whole`.")
    start: int = Field(description="First memory slice of the placement.")
    compute_start: int | None = Field(
        default=None, description="First compute slice within the GPU instance, if that is divided."
    )
    claim: Holder = Field(description="The ResourceClaim.")
    shared: bool = Field(
        default=False, description="Whether other claims can use the rest of the slice's memory."
    )
    memory_bytes: int = Field(description="Memory of the slice, or the claim's share of it.")
    memory_used_bytes: int = Field(
        default=0, description="Memory that the slice's contexts have allocated."
    )
    multiprocessors: int = Field(description="SMs of the slice.")
    holders: tuple[Holder, ...] = Field(
        default=(), description="Pods that use the claim; for a shared slice at most 16 per claim."
    )
    health: str = Field(
        default="Healthy",
        description="Healthy, Suspect, Unhealthy or Probation, followed by the reason.",
    )

    @property
    def place(self) -> Place:
        """Return the slice's profile name, start and compute start."""
        return Place(self.profile, self.start, self.compute_start)

    def __str__(self) -> str:
        return f"{self.place} is held by claim {self.claim.namespace}/{self.claim.name}"


class Budget(StatusModel):
    """Node memory that backs device memory."""

    total: str = Field(
        description="Memory that all slices of the node may use together, such as 4Gi."
    )
    used: str = Field(description="Memory that they use.")


class IsolationStatus(StatusModel):
    """Whether cgroups enforce a slice's limits."""

    enforced: bool = Field(description="False: limits are only accounted.")
    reason: str = Field(default="", description="Why limits are not enforced.")


class ModelledPeak(StatusModel):
    """Peak figures from the board's data sheet, used by the performance model."""

    memory_gigabytes_per_second: int = Field(description="DRAM bandwidth, 10^9 bytes/s.")
    link_gigabytes_per_second: int = Field(
        description="NVLink bandwidth, or PCIe bandwidth without NVLink; one direction."
    )
    pcie_gigabytes_per_second: int = Field(description="PCIe bandwidth, one direction.")
    fp32_gigaflops: int = Field(description="Vector operations in binary32.")
    tensor_gigaflops: dict[str, int] = Field(description="Dense matrix operations, by type.")


class GPUStatus(Status):
    """State of the GPU as the node agent observes it."""

    product: str = Field(default="", description="Marketing name of the board.")
    memory_bytes: int = Field(default=0, description="Device memory in bytes.")
    multiprocessors: int = Field(default=0, description="SMs of the board.")
    health: str = Field(
        default="Unknown", description="Healthy, Suspect, Unhealthy, Probation or Unknown."
    )
    lost: bool = Field(
        default=False,
        description="True while the GPU is off the bus (Xid 79): nothing can be read from it.",
    )
    mig_mode: MigMode | None = Field(default=None, description="MIG mode: Enabled or Disabled.")
    slices: tuple[Slice, ...] = Field(
        default=(), description="MIG devices on the GPU; with MIG off, the whole GPU as one slice."
    )
    claims: tuple[ClaimedSlice, ...] = Field(
        default=(), description="Additional slices, made for ResourceClaims (DRA)."
    )
    slices_total: int = Field(default=0, description="Number of slices, including those of claims.")
    slices_used: int = Field(default=0, description="Number of slices that a pod or a claim holds.")
    holders: str = Field(default="", description="Pods that hold slices, for `-o wide`.")
    budget: Budget | None = Field(default=None, description="Memory budget of the node.")
    isolation: IsolationStatus | None = Field(default=None, description="Cgroup enforcement.")
    modelled_peak: ModelledPeak | None = Field(
        default=None,
        description="Peak figures of the board. The simulated GPU does not reach them.",
    )
    clock: Clock | None = Field(
        default=None,
        description="What CUDA events measure in contexts that are created from now on. Wall: the "
        "node's time. Modelled: the predicted time of the board, or of its slice.",
    )
    faults: tuple[FaultStatus, ...] = Field(
        default=(), description="State of the faults of the spec."
    )
    agent_version: str = Field(
        default="", description="Version of the agent that wrote this status."
    )
    driver_version: str = Field(default="", description="Driver version, as NVML reports it.")
    cuda_version: str = Field(default="", description="CUDA version that the driver supports.")
    machine: str = Field(default="", description="Type of the machine (DMI product name).")

    @property
    def claimed(self) -> tuple[ClaimedSlice, ...]:
        """Return one entry of ``claims`` for each slice, however many claims share the slice."""
        return tuple({claim.place: claim for claim in self.claims}.values())
