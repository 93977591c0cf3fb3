"""The ``inventory`` document of gpud's administration socket, as one type for writer and readers.

``docs/gpud-admin.md`` explains the fields. Reading is strict (``hal.management.documents``):
a gpud and an agent of incompatible versions fail at once. PROTOCOL changes whenever a field does.
"""

from collections.abc import Generator
from dataclasses import asdict, field, replace
from typing import Any, Final, Self

from facts.document import DEFAULT_FACTS, GpuFacts
from vgpu_sim.hal.management.documents import AMONG_OTHERS, DocumentError, read
from vgpu_sim.hal.observe.modelled_report import WALL
from vgpu_sim.records import dataclass

PROTOCOL: Final = 7


@dataclass(frozen=True, slots=True)
class Isolation:
    """Whether control groups limit every slice to its share, and the reason if they do not."""

    enforced: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The sandbox mechanisms of workers on this node, by name; empty until gpud knows them.

    ``weak_allowed`` is set if contexts start even where the mechanisms are not sufficient
    (``hal.compute.spawn.is_confined``).
    """

    walls: dict[str, bool]
    weak_allowed: bool

    @property
    def active(self) -> tuple[str, ...]:
        """The names of the active sandbox mechanisms, in order."""
        return tuple(sorted(name for name, active in self.walls.items() if active))


@dataclass(frozen=True, slots=True)
class Budget:
    """The host memory that all slices share: its total, and how much is used."""

    total_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that may use an instance; ``container`` is the name of its container, empty if unknown.

    ``claims`` are the ResourceClaims (``claim:UID``) that entitle the pod to the instance.
    """

    pod_uid: str
    namespace: str
    name: str
    container: str = ""
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimShare:
    """A ResourceClaim's share of an instance that several claims share.

    ``owner`` and ``owner_name`` are as in ``Instance``. The claim may use ``memory_bytes`` of
    memory. Its ``contexts`` use ``memory_used_bytes`` of memory, including the memory that its
    ended contexts retain.
    """

    owner: str
    owner_name: str
    memory_bytes: int
    memory_used_bytes: int = 0
    contexts: int = 0


@dataclass(frozen=True, slots=True)
class Context:
    """A live context: its worker, its client, and its launches. Times are CLOCK_MONOTONIC in ns.

    ``running_kernel`` is empty, and ``running_since_ns`` 0, while no kernel runs.
    """

    pid: int
    client_pid: int
    client_uid: int
    pod_uid: str
    memory_bytes: int
    launches: int
    first_launch_ns: int
    last_launch_ns: int
    busy_ns: int
    running_kernel: str
    running_since_ns: int
    sandbox: dict[str, bool]


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of an instance's contexts, including contexts that have ended. A restarted gpud
    continues the counters.

    The counters never decrease. Times are in ns. ``busy_ns`` is the sum over the contexts of the
    time in which at least one kernel ran. ``allocations`` counts the chunks of memory that gpud
    granted.

    Each other counter adds up the times of the launches, each multiplied by the launch's use of
    a resource (docs/metrics.md):

    - ``sm_active_ns``: the share of the multiprocessors that had a block.
    - ``sm_occupancy_ns``: the share of the multiprocessors' warp slots that were in use.
    - a pipe's counter: the share of the kernel's instructions that use the pipe.
    - ``memory_ns``: the share of the kernel's instructions that access memory. This counter also
      includes the time of copies and fills.
    """

    contexts: int = 0
    launches: int = 0
    blocks: int = 0
    threads: int = 0
    busy_ns: int = 0
    sm_active_ns: int = 0
    sm_occupancy_ns: int = 0
    tensor_ns: int = 0
    fp64_ns: int = 0
    fp32_ns: int = 0
    fp16_ns: int = 0
    memory_ns: int = 0
    host_to_device_bytes: int = 0
    device_to_host_bytes: int = 0
    device_to_device_bytes: int = 0
    set_bytes: int = 0
    allocations: int = 0


@dataclass(frozen=True, slots=True)
class Activity:
    """Utilisation of an instance or a GPU in gpud's last sample period, as shares from 0.0 to 1.0.

    A GPU's utilisation is the mean over its multiprocessors. ``memory`` is an exception: it is
    the mean over equal parts of the GPU's memory.
    """

    engine: float = 0.0
    sm_active: float = 0.0
    sm_occupancy: float = 0.0
    tensor: float = 0.0
    fp64: float = 0.0
    fp32: float = 0.0
    fp16: float = 0.0
    memory: float = 0.0


@dataclass(frozen=True, slots=True)
class Telemetry:
    """A GPU's sensor readings at the end of gpud's last sample period.

    Utilisation and PCIe throughput are measured. Clocks, power, energy, temperatures, fans and
    performance state are calculated from these measurements and from the board's figures
    (docs/metrics.md). ``fans_percent`` has one number per fan and is empty for boards that are
    cooled passively. ``performance_state`` is 0 (fastest) to 15. ``energy_mj`` is the energy
    drawn since the node started, as NVML counts it.
    """

    activity: Activity
    gpu_utilization_percent: int
    memory_utilization_percent: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    max_sm_clock_mhz: int
    max_memory_clock_mhz: int
    power_draw_mw: int
    power_limit_mw: int
    energy_mj: int
    temperature_c: int
    memory_temperature_c: int
    slowdown_temperature_c: int
    shutdown_temperature_c: int
    fans_percent: tuple[int, ...]
    performance_state: int
    pcie_tx_bytes_per_s: int
    pcie_rx_bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Xid:
    """An Xid (an error report) of a GPU, as in NVIDIA's "Xid Errors".

    ``sequence`` counts from 1, across restarts of gpud; ``time_ns`` is CLOCK_REALTIME.
    ``instance`` is empty if the Xid concerns the whole GPU; ``pid`` is that of the program which
    caused the Xid, 0 if there is none.
    """

    sequence: int
    xid: int
    time_ns: int
    instance: str
    pid: int
    message: str


@dataclass(frozen=True, slots=True)
class Ecc:
    """A GPU's memory errors since its last reset (volatile) and since its first use (aggregate)."""

    corrected_volatile: int = 0
    uncorrected_volatile: int = 0
    corrected_aggregate: int = 0
    uncorrected_aggregate: int = 0
    remapped_rows: int = 0
    pending_rows: int = 0
    remapping_failed: bool = False


OFF_BUS: Final = "off_bus"  # the kind of a Fault after which the GPU does not answer


@dataclass(frozen=True, slots=True)
class Fault:
    """A lasting injected fault, of kind ``thermal``, ``hang`` or ``off_bus``.

    ``instance`` is empty if the fault concerns the whole GPU. The fault ends at ``until_ns``
    (CLOCK_MONOTONIC); 0: it lasts until it is cleared.
    """

    id: str
    kind: str
    instance: str
    since_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a GPU: a MIG device, or the whole GPU (``profile`` "whole") if its MIG mode is
    off.

    If a compute instance is narrower than its GPU instance, ``profile`` is for example
    "1c.3g.40gb", and ``compute_start`` is its first compute slice in the GPU instance; otherwise
    ``compute_start`` is None. ``start``, ``size`` and ``memory_bytes`` describe the GPU
    instance, and so are equal for all its compute instances. This compute instance uses
    ``memory_used_bytes`` of the memory. All compute instances of the GPU instance together use
    ``shared_used_bytes``.

    ``gi_id`` and ``ci_id`` are NVML's numbers of a MIG device on its GPU, and -1 for a whole
    GPU. If a GPU instance has no compute instance, programs cannot use it, and ``ci_id`` is -1.

    ``owner`` is ``claim:UID`` for an instance of a ResourceClaim, and ``owner_name`` is the
    claim's "namespace/name". Both are empty for an instance of a layout, for the whole GPU of a
    node without a layout, and for an instance that several claims share. In the last case
    ``shares`` lists the claims.
    """

    uuid: str
    profile: str
    start: int
    size: int
    memory_bytes: int
    multiprocessors: int
    memory_used_bytes: int
    socket_dir: str
    admit: bool
    holders: tuple[Holder, ...]
    contexts: tuple[Context, ...]
    gi_id: int
    ci_id: int
    counters: Counters
    activity: Activity
    health: str = "Healthy"
    owner: str = ""
    owner_name: str = ""
    compute_start: int | None = None
    shared_used_bytes: int = 0
    shares: tuple[ClaimShare, ...] = ()


@dataclass(frozen=True, slots=True)
class Gpu:
    """A simulated GPU; ``capability`` is the compute capability that programs see.

    ``mig_enabled`` is the GPU's MIG mode; while it is False, the GPU is one undivided instance.
    ``pci_bus_id`` has NVML's form: domain in eight digits, bus, device, function. ``index``
    selects the GPU's place in the topology. In the JSON document, the fields of ``facts`` are
    stored directly among the GPU's other fields.
    """

    uuid: str
    index: int
    board: str
    product: str
    memory_bytes: int
    multiprocessors: int
    capability: tuple[int, int]
    health: str
    instances: tuple[Instance, ...]
    mig_enabled: bool
    pci_bus_id: str
    telemetry: Telemetry
    xids: tuple[Xid, ...] = ()
    ecc: Ecc = Ecc()
    faults: tuple[Fault, ...] = ()
    facts: GpuFacts = field(default=DEFAULT_FACTS, metadata=AMONG_OTHERS)

    @property
    def is_lost(self) -> bool:
        """Return whether the GPU has fallen off the bus, so that no reading of it is possible."""
        return any(fault.kind == OFF_BUS for fault in self.faults)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The state of a node's GPUs at one moment, as gpud's administration socket returns it.

    ``clock`` is one of ``hal.observe.modelled_report.CLOCKS``. It names the kind of time that
    the CUDA events of programs on this node measure.
    """

    version: str
    libraries_dir: str
    slices_dir: str
    isolation: Isolation
    sandbox: Sandbox
    budget: Budget
    gpus: tuple[Gpu, ...]
    clock: str = WALL
    protocol: int = PROTOCOL

    def to_json(self) -> dict[str, Any]:
        """Return the inventory document as dictionaries and lists."""
        steps = self.to_json_in_steps()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                document: dict[str, Any] = end.value
                return document

    def to_json_in_steps(self) -> Generator[None, None, dict[str, Any]]:
        """Return what ``to_json`` returns. A step converts one instance with its contexts."""
        gpus = []
        for gpu in self.gpus:
            instances = []
            for instance in gpu.instances:
                instances.append(asdict(instance))
                yield
            row = asdict(replace(gpu, instances=())) | {"instances": tuple(instances)}
            del row["facts"]
            # Readers of this protocol require a topology, even the default one.
            gpus.append(row | {"topology": gpu.facts.topology} | gpu.facts.to_json())
        return asdict(replace(self, gpus=())) | {"gpus": tuple(gpus)}

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Create an inventory from the output of ``to_json``.

        Raises:
            DocumentError: a field is missing, unknown or of another type; the message names
                the field.
        """
        if isinstance(document, dict) and document.get("protocol") != PROTOCOL:
            version = document.get("protocol")
            raise DocumentError(
                f"the inventory has protocol version {version!r}, but only {PROTOCOL} is supported"
            )
        return read(cls, document, "inventory")
