"""GPUPool: the simulated hardware of a set of nodes."""

from enum import StrEnum

from pydantic import Field

from facts.document import GpuFacts
from gpu_operator.api.v1alpha1.base import Model, Status
from gpu_operator.api.v1alpha1.topology import CustomTopology, Topology
from mig import geometry


class Isolation(StrEnum):
    """How a slice's share of the CPU is enforced."""

    DEFAULT = "Default"  # CPU weight by SMs, work-conserving
    STRICT = "Strict"  # CPU weight and a CPU quota


class Allocation(StrEnum):
    """How a node's GPUs are allocated to pods."""

    DEVICE_PLUGIN = "DevicePlugin"  # extended resources, from the slices that layouts define
    DRA = "DRA"  # ResourceClaims: a slice is made when a pod with a claim arrives
    BOTH = "Both"  # extended resources for layouts' slices, claims for the remaining room

    @property
    def by_claims(self) -> bool:
        """Return whether the node's GPUs can be allocated to ResourceClaims."""
        return self is not Allocation.DEVICE_PLUGIN


class Clock(StrEnum):
    """What CUDA events measure."""

    WALL = "Wall"  # the node's time
    MODELLED = "Modelled"  # the predicted time of the board


class Backend(StrEnum):
    """What executes kernels."""

    JIT = "JIT"
    INTERPRETER = "Interpreter"

    @property
    def option(self) -> str:
        """Return the value of gpud's option, which is also that of the chart."""
        return "jit" if self is Backend.JIT else "interp"


class LinkSpeed(StrEnum):
    """Rate that a port reports to tools. Traffic is not limited to this rate."""

    G25 = "25Gbps"
    G50 = "50Gbps"
    G100 = "100Gbps"
    G200 = "200Gbps"
    G400 = "400Gbps"

    @property
    def gbps(self) -> int:
        """Return the rate in Gbit/s."""
        return int(self.value.removesuffix("Gbps"))


class HCAs(Model):
    """Simulated RDMA adapters of the pool's nodes."""

    count: int = Field(
        default=1, ge=1, le=8, description="HCAs per node, each on its own PCIe root port."
    )
    functions_per_hca: int = Field(
        default=8,
        ge=1,
        le=64,
        alias="functionsPerHCA",
        description="Functions of each HCA. Each function can be used by one container, as "
        "`rdma.tessera.dev/hca: 1`.",
    )
    link_speed: LinkSpeed = Field(
        default=LinkSpeed.G100,
        description="Rate that the ports report to tools. Traffic is not limited to this rate.",
    )


class GPUPoolSpec(Model):
    """Simulated GPUs, and the nodes that get them."""

    node_selector: dict[str, str] = Field(
        min_length=1,
        description="Labels that a node must have to be in the pool. A node belongs to one pool: "
        "if two pools select it, to the older one.",
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
        "8Gi). It backs device memory as that is allocated. Default: the chart's value.",
    )
    isolation: Isolation = Field(
        default=Isolation.DEFAULT,
        description="Default: CPU weight by SMs, work-conserving. Strict: a CPU quota in addition.",
    )
    allocation: Allocation = Field(
        default=Allocation.DEVICE_PLUGIN,
        description="How the GPUs are allocated to pods. DevicePlugin: as extended resources, "
        "from the slices that MIGLayouts define. DRA: through ResourceClaims (Kubernetes 1.36), "
        "for which slices are made on demand; layouts do not select these GPUs. Both: extended "
        "resources for the slices of layouts, claims for the remaining room. A node's label "
        "tessera.dev/allocation overrides this. It can be changed at any time: pods keep the "
        "slices that they hold.",
    )
    allow_multiple_allocations: bool = Field(
        default=False,
        description="Whether several ResourceClaims can share a device, each with a part of its "
        "memory: `capacity.requests.memory` of the claim. A claim without such a request gets the "
        "device for itself. Claims that share a device take turns on its multiprocessors. Applies "
        "to devices that `allocation` gives to claims; requires Kubernetes 1.36 with the feature "
        "gate DRAConsumableCapacity. It can be changed at any time: claims keep their devices.",
    )
    backend: Backend | None = Field(
        default=None,
        description="What executes kernels: JIT, or Interpreter, the slow reference of every "
        "instruction. Default: the chart's value. A change restarts the pool's node pods one after "
        "the other.",
    )
    clock: Clock = Field(
        default=Clock.WALL,
        description="What `cuEventElapsedTime` measures. Wall: the node's time. Modelled: the "
        "predicted time of the board, or of its slice; each kernel is sampled when it first runs, "
        "which takes seconds. A change restarts the pool's node pods one after the other.",
    )
    topology: Topology = Field(
        default=Topology.FLAT,
        description="How a node's GPUs are connected: PCI buses, host bridges, NUMA nodes and "
        "NVLink, as tools show them. GPU i has the i-th position; hgx-4 has four.",
    )
    custom_topology: CustomTopology | None = Field(
        default=None,
        description="Connections that no preset describes, instead of `topology`. It can be "
        "changed at any time; a GPU moves to its new position once it has no slices.",
    )
    hcas: HCAs | None = Field(
        default=None,
        description="RDMA adapters of each node, offered as `rdma.tessera.dev/hca`. Absent: none. "
        "A change restarts the pool's node pods one after the other; queue pairs end with them.",
    )

    @property
    def facts(self) -> GpuFacts:
        """Return what programs can query about the pool's GPUs, such as their topology."""
        custom = self.custom_topology
        return GpuFacts(topology=self.topology.value if custom is None else custom.text)


class GPUPoolStatus(Status):
    """State of the pool."""

    nodes: int = Field(default=0, description="Nodes that belong to the pool.")
    ready_nodes: int = Field(default=0, description="Nodes whose agent has applied the pool.")
    gpus: int = Field(default=0, description="GPUs on those nodes.")
    resource_prefix: str = Field(
        default="",
        description="Prefix with which all of the pool's nodes offered their slices when the pool "
        "last was ready. It equals the policy's prefix once every node has applied that.",
    )
    conflicts: tuple[str, ...] = Field(
        default=(), description="Selected nodes that belong to an older pool."
    )
