"""The ``inventory`` document of gpud's administration socket: one type for writer and readers.

``docs/gpud-admin.md`` explains the fields. Reading is strict (``hal.management.documents``):
a gpud and an agent that do not fit together fail at once. PROTOCOL changes whenever a field does.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from facts.document import DEFAULT_FACTS, GpuFacts
from vgpu_sim.hal.management.documents import AMONG_OTHERS, DocumentError, read
from vgpu_sim.hal.observe.modelled import WALL

PROTOCOL: Final = 7


@dataclass(frozen=True, slots=True)
class Isolation:
    """Whether control groups hold every slice to its share; else why not."""

    enforced: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The walls that workers stand behind on this node, by name; empty until they are known.

    ``weak_allowed``: contexts start even where those are not enough
    (``hal.compute.spawn.is_confined``).
    """

    walls: dict[str, bool]
    weak_allowed: bool

    @property
    def standing(self) -> tuple[str, ...]:
        """Return the names of the walls that stand, in order."""
        return tuple(sorted(name for name, stands in self.walls.items() if stands))


@dataclass(frozen=True, slots=True)
class Budget:
    """Host memory that all slices share."""

    total_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that may use an instance; ``container`` is which of its own, empty if unknown.

    ``claims`` are the ResourceClaims (``claim:UID``) by which it may.
    """

    pod_uid: str
    namespace: str
    name: str
    container: str = ""
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimShare:
    """What one ResourceClaim has of an instance that several share.

    ``owner`` and ``owner_name`` are as in ``Instance``; of ``memory_bytes`` its ``contexts`` use,
    and have left behind, ``memory_used_bytes``.
    """

    owner: str
    owner_name: str
    memory_bytes: int
    memory_used_bytes: int = 0
    contexts: int = 0


@dataclass(frozen=True, slots=True)
class Context:
    """A live context: its worker, its client, and what it has done (CLOCK_MONOTONIC, ns).

    ``running_kernel`` is empty, and ``running_since_ns`` 0, while none runs.
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
    """What the contexts of an instance, ended ones too, have done; a later gpud goes on with it.

    Nothing here ever decreases. Times in ns: ``busy_ns`` is the sum over the contexts of the time
    in which at least one kernel ran. The others weigh the time of each launch by what it kept busy
    (docs/metrics.md): ``sm_active_ns`` by the share of the multiprocessors that had a block,
    ``sm_occupancy_ns`` by the share of their places for warps, the pipes by the share of the
    kernel's instructions, ``memory_ns`` likewise, with the time of copies and fills.
    ``allocations`` counts chunks of memory that gpud granted.
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
    """How busy an instance or a GPU was in gpud's last sample period: shares of one, 0.0 to 1.0.

    Of a GPU it is the mean over its multiprocessors, of ``memory`` over its units of memory.
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
    """What a GPU's sensors say, at the end of gpud's last sample period.

    Measured are the utilisations and PCIe throughput; clocks, power, energy, temperatures, fans and
    performance state follow from them and the board's figures (docs/metrics.md). ``fans_percent``
    has one number a fan: none on boards that are cooled passively. ``performance_state`` is 0
    (fastest) to 15. ``energy_mj`` is what was drawn since the node started, as NVML counts.
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
    """An Xid of a GPU, as in NVIDIA's "Xid Errors".

    ``sequence`` counts from 1, over restarts of gpud; ``time_ns`` is CLOCK_REALTIME. ``instance``
    is empty where the whole GPU is concerned; ``pid`` is the program's, 0 where there is none.
    """

    sequence: int
    xid: int
    time_ns: int
    instance: str
    pid: int
    message: str


@dataclass(frozen=True, slots=True)
class Ecc:
    """Memory errors: since the last reset of the GPU (volatile), and ever (aggregate)."""

    corrected_volatile: int = 0
    uncorrected_volatile: int = 0
    corrected_aggregate: int = 0
    uncorrected_aggregate: int = 0
    remapped_rows: int = 0
    pending_rows: int = 0
    remapping_failed: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """An injected fault that lasts: ``thermal``, ``hang`` or ``off_bus``.

    ``instance`` is empty where the whole GPU has it; ``until_ns`` (CLOCK_MONOTONIC) 0: until it is
    cleared.
    """

    id: str
    kind: str
    instance: str
    since_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a GPU: a MIG device, or with ``profile`` "whole" the GPU with MIG off.

    ``profile`` is "1c.3g.40gb" for a compute instance narrower than its GPU instance; then
    ``compute_start`` is its first compute slice in that, else None. ``start``, ``size`` and
    ``memory_bytes`` are the GPU instance's, which all its compute instances share: of that
    ``memory_used_bytes`` is what this one uses, ``shared_used_bytes`` what they use together.

    ``gi_id`` and ``ci_id`` are what NVML calls a MIG device on its GPU, -1 for a whole one;
    ``ci_id`` is -1 while a GPU instance has no compute instance, which is no device of any program.
    ``owner`` says what it was made for: empty for a layout or the whole GPU that a node has without
    one, ``claim:UID`` for a ResourceClaim, whose ``owner_name`` is its "namespace/name". Both are
    empty of what several claims share, too: then ``shares`` has them.
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
    """A simulated GPU; ``capability`` is what programs see.

    ``mig_enabled`` is its MIG mode: False while it is one whole GPU.
    ``pci_bus_id`` is written as NVML does: domain in eight digits, bus, device, function. It is one
    of the places of the topology, by ``index``. The document has ``facts`` among the other fields.
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


@dataclass(frozen=True, slots=True)
class Inventory:
    """One consistent picture of a node.

    ``clock`` is one of ``hal.observe.modelled.CLOCKS``: what the events of programs on this node
    measure.
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
        """Return plain values."""
        document = asdict(self)
        for gpu, written in zip(self.gpus, document["gpus"], strict=True):
            del written["facts"]
            # The readers of this protocol want a topology, also where it is the default.
            written |= {"topology": gpu.facts.topology} | gpu.facts.to_json()
        return document

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read what ``to_json`` returned, here or elsewhere.

        Raises:
            DocumentError: naming the field that is missing, unknown or of another type.
        """
        if isinstance(document, dict) and document.get("protocol") != PROTOCOL:
            found = document.get("protocol")
            raise DocumentError(f"protocol {found!r} of the inventory, {PROTOCOL} is spoken here")
        return read(cls, document, "inventory")
