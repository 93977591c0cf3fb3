"""GPUPool: the hardware you wish your nodes had."""

from enum import StrEnum

from pydantic import Field

from facts.document import GpuFacts
from gpu_operator.api.v1alpha1.base import Model, Status
from gpu_operator.api.v1alpha1.topology import CustomTopology, Topology
from mig import geometry


class Isolation(StrEnum):
    """How a slice's share of the CPU is kept."""

    DEFAULT = "Default"  # weight by SMs, work-conserving
    STRICT = "Strict"  # and a quota


class Allocation(StrEnum):
    """Who gives a node's GPUs to pods."""

    DEVICE_PLUGIN = "DevicePlugin"  # extended resources: what layouts make
    DRA = "DRA"  # ResourceClaims: slices are made when a pod that has one comes
    BOTH = "Both"  # layouts' slices as extended resources, all other room by claims

    @property
    def by_claims(self) -> bool:
        """Return whether claims get anything."""
        return self is not Allocation.DEVICE_PLUGIN


class Clock(StrEnum):
    """What programs' events measure."""

    WALL = "Wall"  # the node's time
    MODELLED = "Modelled"  # what the board would take


class LinkSpeed(StrEnum):
    """What a port says that it can: a figure for tools, not a limit."""

    G25 = "25Gbps"
    G50 = "50Gbps"
    G100 = "100Gbps"
    G200 = "200Gbps"
    G400 = "400Gbps"

    @property
    def gbps(self) -> int:
        """Return it as a number."""
        return int(self.value.removesuffix("Gbps"))


class HCAs(Model):
    """Which nodes get which simulated RDMA adapters."""

    count: int = Field(default=1, ge=1, le=8, description="HCAs per node, each below a PCIe root.")
    functions_per_hca: int = Field(
        default=8,
        ge=1,
        le=64,
        alias="functionsPerHCA",
        description="Functions of each HCA: as many containers of a node can have one, as "
        "`rdma.tessera.dev/hca: 1`.",
    )
    link_speed: LinkSpeed = Field(
        default=LinkSpeed.G100,
        description="Rate that the ports report to tools; nothing is limited to it.",
    )


class GPUPoolSpec(Model):
    """Which nodes get which simulated GPUs."""

    node_selector: dict[str, str] = Field(
        min_length=1,
        description="Labels a node must carry to be in the pool. A node belongs to one pool: "
        "of two that select it, the older holds it.",
    )
    board: str = Field(
        min_length=1,
        max_length=64,
        description="Board to simulate, one of `tessera mig boards`: "
        f"{', '.join(geometry.BOARDS)}.",
    )
    count: int = Field(default=1, ge=1, le=8, description="GPUs per node.")
    node_budget: str | None = Field(
        default=None,
        pattern=r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti)?$",
        max_length=32,
        description="Node memory that all slices of a node may use together (a quantity such as "
        "8Gi). Device memory is backed by it as it is allocated. Default: the chart's value.",
    )
    isolation: Isolation = Field(
        default=Isolation.DEFAULT,
        description="Default: CPU weight by SMs, work-conserving. Strict: a CPU quota as well.",
    )
    allocation: Allocation = Field(
        default=Allocation.DEVICE_PLUGIN,
        description="Who gives the GPUs to pods. DevicePlugin: extended resources, of the slices "
        "that MIGLayouts make. DRA: ResourceClaims (Kubernetes 1.36), for which slices are made "
        "on demand; layouts do not select these GPUs. Both: extended resources for what layouts "
        "make, claims for all other room. A node's label tessera.dev/allocation says otherwise "
        "for it. It may change at any time: what pods hold stays theirs.",
    )
    allow_multiple_allocations: bool = Field(
        default=False,
        description="Whether several ResourceClaims can have one device, each a part of its "
        "memory: `capacity.requests.memory` of the claim. One that asks for no part has the device "
        "alone. They use its multiprocessors in turns. Concerns what `allocation` gives to claims; "
        "needs Kubernetes 1.36 with the feature gate DRAConsumableCapacity. It may change at any "
        "time: what claims have stays theirs.",
    )
    clock: Clock = Field(
        default=Clock.WALL,
        description="What `cuEventElapsedTime` measures. Wall: the node's time. Modelled: what the "
        "board, or its slice, would take, predicted; each kernel is sampled when it first runs, "
        "which takes seconds. A change starts the pool's node pods again, one after the other.",
    )
    topology: Topology = Field(
        default=Topology.FLAT,
        description="How a node's GPUs lie to each other: PCI buses, host bridges, NUMA nodes and "
        "NVLink, as tools show them. GPU i has the i-th place; hgx-4 has four.",
    )
    custom_topology: CustomTopology | None = Field(
        default=None,
        description="How they lie to each other where no name fits, instead of `topology`. It may "
        "change at any time; a GPU moves when it has no slices.",
    )
    hcas: HCAs | None = Field(
        default=None,
        description="RDMA adapters of each node, offered as `rdma.tessera.dev/hca`. Absent: none. "
        "A change starts the pool's node pods again, one after the other; with them queue pairs "
        "end.",
    )

    @property
    def facts(self) -> GpuFacts:
        """Return what programs on the pool's GPUs are to read of it."""
        custom = self.custom_topology
        return GpuFacts(topology=self.topology.value if custom is None else custom.text)


class GPUPoolStatus(Status):
    """What became of it."""

    nodes: int = Field(default=0, description="Nodes the pool holds.")
    ready_nodes: int = Field(default=0, description="Nodes whose agent has applied the pool.")
    gpus: int = Field(default=0, description="GPUs of those nodes.")
    resource_prefix: str = Field(
        default="",
        description="Prefix with which all of its nodes offered their slices when it last was "
        "ready: the policy's, as soon as that has reached every node.",
    )
    conflicts: tuple[str, ...] = Field(
        default=(), description="Selected nodes that an older pool holds."
    )
