"""The exported metrics: one row per family, with dcgm-exporter's name, type and help text.

Names and types: dcgm-exporter 4.8, ``etc/default-counters.csv`` and the profiling fields of
``etc/dcp-metrics-included.csv`` (4.9 renames them). Meaning of each figure: docs/metrics.md.
Metrics for which Tessera has no figure are not exported: they would be constants that look
measured.

To add a metric, add a row: ``docs/metrics_page.py`` generates docs/metrics-reference.md from
them.
"""

from collections.abc import Callable
from typing import Final, Literal

from vgpu_sim.hal.management.admin import Gpu, Instance, Inventory
from vgpu_sim.hal.observe.modelled_report import MODELLED
from vgpu_sim.records import dataclass

MIB: Final = 1 << 20

Source = Literal["measured", "modelled", "injected"]
"""A figure is measured on the node, modelled from load and data sheet, or from injected faults."""
_SOURCE_NOTE: Final[dict[Source, str]] = {
    "measured": "",
    "modelled": " Modelled: what a board of this kind would show.",
    "injected": " Of injected faults.",
}


_LAST_XID: Final = "DCGM_FI_DEV_XID_ERRORS"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family, with its name and meaning.

    ``origin`` names the figure in gpud's inventory from which the metric comes. ``unit`` and
    ``origin`` are for docs/metrics-reference.md, which is generated from all families.
    """

    name: str
    kind: Literal["gauge", "counter"]
    source: Source
    unit: str
    help: str
    origin: str


@dataclass(frozen=True, slots=True)
class OfNode(Family):
    """A metric family that has one figure for each node."""

    value: Callable[[Inventory], float]


@dataclass(frozen=True, slots=True)
class OfGpu(Family):
    """A metric family that has one figure for each GPU."""

    value: Callable[[Gpu], float]


@dataclass(frozen=True, slots=True)
class OfInstance(Family):
    """A metric family that has one figure for each instance: a MIG device, or a whole GPU."""

    value: Callable[[Instance], float]


def is_of_dcgm(row: Family) -> bool:
    """Return whether a metric family has the name of one of DCGM's metrics.

    Dashboards that were made for DCGM query such a family without changes.
    """
    return row.name.startswith("DCGM_")


def is_reading(row: Family) -> bool:
    """Return whether a metric family is read from the GPU itself, so that a lost GPU has none.

    What Tessera's own families count, and the last Xid, gpud knows without the GPU.
    """
    return is_of_dcgm(row) and row.name != _LAST_XID


def help_text(row: Family) -> str:
    """Return the help text of a family, which states whether its figures are measured.

    A label or series that stated this would double the number of series per node.
    """
    return row.help + _SOURCE_NOTE[row.source]


UP: Final = OfNode(
    "tessera_gpud_up",
    "gauge",
    "measured",
    "0 or 1",
    "Whether gpud answers the exporter.",
    "whether the inventory was read; without it this is the only metric",
    lambda _node: 1,
)
OF_NODE: Final = (
    UP,
    OfNode(
        "tessera_node_budget_bytes",
        "gauge",
        "measured",
        "bytes",
        "Node memory that backs the device memory of all instances.",
        "the node's budget",
        lambda node: node.budget.total_bytes,
    ),
    OfNode(
        "tessera_node_budget_used_bytes",
        "gauge",
        "measured",
        "bytes",
        "Node memory of the budget that is in use.",
        "the node's budget",
        lambda node: node.budget.used_bytes,
    ),
    OfNode(
        "tessera_event_clock_modelled",
        "gauge",
        "measured",
        "0 or 1",
        "Whether CUDA events measure what the board would take, and not the node's time.",
        "the node's [clock](operator.md#the-clock)",
        lambda node: node.clock == MODELLED,
    ),
)
OF_GPU: Final = (
    OfGpu(
        "DCGM_FI_DEV_SM_CLOCK",
        "gauge",
        "modelled",
        "MHz",
        "SM clock frequency (in MHz).",
        "`sm_clock_mhz`",
        lambda gpu: gpu.telemetry.sm_clock_mhz,
    ),
    OfGpu(
        "DCGM_FI_DEV_MEM_CLOCK",
        "gauge",
        "modelled",
        "MHz",
        "Memory clock frequency (in MHz).",
        "`memory_clock_mhz`",
        lambda gpu: gpu.telemetry.memory_clock_mhz,
    ),
    OfGpu(
        "DCGM_FI_DEV_MEMORY_TEMP",
        "gauge",
        "modelled",
        "°C",
        "Memory temperature (in C).",
        "`memory_temperature_c`",
        lambda gpu: gpu.telemetry.memory_temperature_c,
    ),
    OfGpu(
        "DCGM_FI_DEV_GPU_TEMP",
        "gauge",
        "modelled",
        "°C",
        "GPU temperature (in C).",
        "`temperature_c`",
        lambda gpu: gpu.telemetry.temperature_c,
    ),
    OfGpu(
        "DCGM_FI_DEV_POWER_USAGE",
        "gauge",
        "modelled",
        "W",
        "Power draw (in W).",
        "`power_draw_mw`",
        lambda gpu: gpu.telemetry.power_draw_mw / 1000,
    ),
    OfGpu(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "modelled",
        "mJ",
        "Total energy consumption since boot (in mJ).",
        "`energy_mj`",
        lambda gpu: gpu.telemetry.energy_mj,
    ),
    OfGpu(
        "DCGM_FI_DEV_GPU_UTIL",
        "gauge",
        "measured",
        "%",
        "GPU utilization (in %).",
        "`gpu_utilization_percent`",
        lambda gpu: gpu.telemetry.gpu_utilization_percent,
    ),
    OfGpu(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "gauge",
        "modelled",
        "%",
        "Memory utilization (in %).",
        "`memory_utilization_percent`",
        lambda gpu: gpu.telemetry.memory_utilization_percent,
    ),
    OfGpu(
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "gauge",
        "measured",
        "bytes/s",
        "The rate of data transmitted over the PCIe bus, in bytes per second.",
        "`pcie_tx_bytes_per_s`",
        lambda gpu: gpu.telemetry.pcie_tx_bytes_per_s,
    ),
    OfGpu(
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "gauge",
        "measured",
        "bytes/s",
        "The rate of data received over the PCIe bus, in bytes per second.",
        "`pcie_rx_bytes_per_s`",
        lambda gpu: gpu.telemetry.pcie_rx_bytes_per_s,
    ),
    OfGpu(
        _LAST_XID,
        "gauge",
        "measured",
        "Xid",
        "Value of the last XID error encountered.",
        "the last Xid, 0 for none",
        lambda gpu: gpu.xids[-1].xid if gpu.xids else 0,
    ),
    OfGpu(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "injected",
        "rows",
        "Number of remapped rows for uncorrectable errors",
        "injected memory errors",
        lambda gpu: gpu.ecc.remapped_rows,
    ),
    OfGpu(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "gauge",
        "injected",
        "0 or 1",
        "Whether remapping of rows has failed",
        "injected memory errors",
        lambda gpu: gpu.ecc.remapping_failed,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "counter",
        "injected",
        "errors",
        "Total number of single-bit volatile ECC errors.",
        "injected memory errors",
        lambda gpu: gpu.ecc.corrected_volatile,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "counter",
        "injected",
        "errors",
        "Total number of double-bit volatile ECC errors.",
        "injected memory errors",
        lambda gpu: gpu.ecc.uncorrected_volatile,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
        "counter",
        "injected",
        "errors",
        "Total number of single-bit persistent ECC errors.",
        "injected memory errors",
        lambda gpu: gpu.ecc.corrected_aggregate,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
        "counter",
        "injected",
        "errors",
        "Total number of double-bit persistent ECC errors.",
        "injected memory errors",
        lambda gpu: gpu.ecc.uncorrected_aggregate,
    ),
    OfGpu(
        "tessera_xid_sequence",
        "gauge",
        "measured",
        "number",
        "Which of the node's Xids the GPU's last one was: it grows with each.",
        "grows with the same Xid again, too",
        lambda gpu: gpu.xids[-1].sequence if gpu.xids else 0,
    ),
    OfGpu(
        "tessera_gpu_healthy",
        "gauge",
        "measured",
        "0 or 1",
        "Whether contexts can be started on the GPU.",
        "health of the GPU",
        lambda gpu: gpu.health == "Healthy",
    ),
    OfGpu(
        "tessera_gpu_lost",
        "gauge",
        "measured",
        "0 or 1",
        "Whether the GPU has fallen off the bus: then readings of it have no sample.",
        "a fault `off_bus` that is active",
        lambda gpu: gpu.is_lost,
    ),
    OfGpu(
        "tessera_gpu_instances",
        "gauge",
        "measured",
        "instances",
        "Instances of the GPU: MIG devices, or 1 for the whole of it.",
        "number of instances",
        lambda gpu: len(gpu.instances),
    ),
)


def _free_bytes(instance: Instance) -> int:
    """Return the free memory of an instance; parts of a GPU instance share its memory."""
    return max(
        0, instance.memory_bytes - max(instance.memory_used_bytes, instance.shared_used_bytes)
    )


OF_INSTANCE: Final = (
    OfInstance(
        "DCGM_FI_DEV_FB_FREE",
        "gauge",
        "measured",
        "MiB",
        "Framebuffer memory free (in MiB).",
        "the rest of the instance's memory",
        lambda one: _free_bytes(one) // MIB,
    ),
    OfInstance(
        "DCGM_FI_DEV_FB_USED",
        "gauge",
        "measured",
        "MiB",
        "Framebuffer memory used (in MiB).",
        "memory that is reserved of the instance's",
        lambda one: -(-one.memory_used_bytes // MIB),
    ),
    OfInstance(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "gauge",
        "measured",
        "0 to 1",
        "Ratio of time the graphics engine is active.",
        "activity `engine`",
        lambda one: one.activity.engine,
    ),
    OfInstance(
        "DCGM_FI_PROF_SM_ACTIVE",
        "gauge",
        "modelled",
        "0 to 1",
        "The ratio of cycles an SM has at least 1 warp assigned.",
        "activity `sm_active`",
        lambda one: one.activity.sm_active,
    ),
    OfInstance(
        "DCGM_FI_PROF_SM_OCCUPANCY",
        "gauge",
        "modelled",
        "0 to 1",
        "The ratio of number of warps resident on an SM.",
        "activity `sm_occupancy`",
        lambda one: one.activity.sm_occupancy,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "gauge",
        "modelled",
        "0 to 1",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        "activity `tensor`",
        lambda one: one.activity.tensor,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
        "gauge",
        "modelled",
        "0 to 1",
        "Ratio of cycles the fp64 pipes are active.",
        "activity `fp64`",
        lambda one: one.activity.fp64,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
        "gauge",
        "modelled",
        "0 to 1",
        "Ratio of cycles the fp32 pipes are active.",
        "activity `fp32`",
        lambda one: one.activity.fp32,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
        "gauge",
        "modelled",
        "0 to 1",
        "Ratio of cycles the fp16 pipes are active.",
        "activity `fp16`",
        lambda one: one.activity.fp16,
    ),
    OfInstance(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "gauge",
        "modelled",
        "0 to 1",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        "activity `memory`",
        lambda one: one.activity.memory,
    ),
    OfInstance(
        "tessera_instance_healthy",
        "gauge",
        "measured",
        "0 or 1",
        "Whether the instance is offered as healthy.",
        "whether it is offered as healthy",
        lambda one: one.health == "Healthy",
    ),
    OfInstance(
        "tessera_contexts",
        "gauge",
        "measured",
        "contexts",
        "Live CUDA contexts.",
        "live contexts",
        lambda one: len(one.contexts),
    ),
    OfInstance(
        "tessera_contexts_started",
        "counter",
        "measured",
        "contexts",
        "CUDA contexts started.",
        "counter `contexts`",
        lambda one: one.counters.contexts,
    ),
    OfInstance(
        "tessera_kernel_launches",
        "counter",
        "measured",
        "launches",
        "Kernel launches that have ended.",
        "counter `launches`",
        lambda one: one.counters.launches,
    ),
    OfInstance(
        "tessera_kernel_blocks",
        "counter",
        "measured",
        "blocks",
        "Blocks of these launches.",
        "counter `blocks`",
        lambda one: one.counters.blocks,
    ),
    OfInstance(
        "tessera_kernel_threads",
        "counter",
        "measured",
        "threads",
        "Threads of these launches.",
        "counter `threads`",
        lambda one: one.counters.threads,
    ),
    OfInstance(
        "tessera_kernel_seconds",
        "counter",
        "measured",
        "s",
        "Time in which kernels ran, summed over contexts.",
        "counter `busy_ns`",
        lambda one: one.counters.busy_ns / 1e9,
    ),
    OfInstance(
        "tessera_host_to_device_bytes",
        "counter",
        "measured",
        "bytes",
        "Bytes copied from host memory to the device.",
        "counter `host_to_device_bytes`",
        lambda one: one.counters.host_to_device_bytes,
    ),
    OfInstance(
        "tessera_device_to_host_bytes",
        "counter",
        "measured",
        "bytes",
        "Bytes copied from the device to host memory.",
        "counter `device_to_host_bytes`",
        lambda one: one.counters.device_to_host_bytes,
    ),
    OfInstance(
        "tessera_device_to_device_bytes",
        "counter",
        "measured",
        "bytes",
        "Bytes copied within the device, or from the memory of one GPU to that of another.",
        "counter `device_to_device_bytes`",
        lambda one: one.counters.device_to_device_bytes,
    ),
    OfInstance(
        "tessera_fill_bytes",
        "counter",
        "measured",
        "bytes",
        "Bytes of device memory filled with a value.",
        "counter `set_bytes`",
        lambda one: one.counters.set_bytes,
    ),
    OfInstance(
        "tessera_memory_allocations",
        "counter",
        "measured",
        "chunks",
        "Chunks of device memory granted.",
        "counter `allocations`",
        lambda one: one.counters.allocations,
    ),
)
