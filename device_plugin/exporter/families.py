"""What is exported: one row a family, with dcgm-exporter's name, type and help text.

Names and types: dcgm-exporter 4.8, ``etc/default-counters.csv`` and the profiling fields of
``etc/dcp-metrics-included.csv`` (4.9 renames them). Meaning of each figure: docs/metrics.md. What
Tessera has no figure for is not exported: it would be a constant that looks measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from vgpu_sim.hal.admin import Gpu, Instance

MIB: Final = 1 << 20

Source = Literal["measured", "modelled", "injected"]
"""Where a figure comes from: measured on the node; what a board would have shown, made of load and
its data sheet; or faults that were asked for (docs/metrics.md)."""
_TOLD: Final[dict[Source, str]] = {
    "measured": "",
    "modelled": " Modelled: what a board of this kind would show.",
    "injected": " Of injected faults.",
}


@dataclass(frozen=True, slots=True)
class OfGpu:
    """One figure a GPU."""

    name: str
    kind: Literal["gauge", "counter"]
    source: Source
    help: str
    value: Callable[[Gpu], float]


@dataclass(frozen=True, slots=True)
class OfInstance:
    """One figure an instance: a MIG device, or a whole GPU."""

    name: str
    kind: Literal["gauge", "counter"]
    source: Source
    help: str
    value: Callable[[Instance], float]


def told(row: OfGpu | OfInstance) -> str:
    """Return the help text of a family, which says what is not measured.

    In the text, and not as series: those would cost each node as many again.
    """
    return row.help + _TOLD[row.source]


OF_GPU: Final = (
    OfGpu(
        "DCGM_FI_DEV_SM_CLOCK",
        "gauge",
        "modelled",
        "SM clock frequency (in MHz).",
        lambda gpu: gpu.telemetry.sm_clock_mhz,
    ),
    OfGpu(
        "DCGM_FI_DEV_MEM_CLOCK",
        "gauge",
        "modelled",
        "Memory clock frequency (in MHz).",
        lambda gpu: gpu.telemetry.memory_clock_mhz,
    ),
    OfGpu(
        "DCGM_FI_DEV_MEMORY_TEMP",
        "gauge",
        "modelled",
        "Memory temperature (in C).",
        lambda gpu: gpu.telemetry.memory_temperature_c,
    ),
    OfGpu(
        "DCGM_FI_DEV_GPU_TEMP",
        "gauge",
        "modelled",
        "GPU temperature (in C).",
        lambda gpu: gpu.telemetry.temperature_c,
    ),
    OfGpu(
        "DCGM_FI_DEV_POWER_USAGE",
        "gauge",
        "modelled",
        "Power draw (in W).",
        lambda gpu: gpu.telemetry.power_draw_mw / 1000,
    ),
    OfGpu(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "modelled",
        "Total energy consumption since boot (in mJ).",
        lambda gpu: gpu.telemetry.energy_mj,
    ),
    OfGpu(
        "DCGM_FI_DEV_GPU_UTIL",
        "gauge",
        "measured",
        "GPU utilization (in %).",
        lambda gpu: gpu.telemetry.gpu_utilization_percent,
    ),
    OfGpu(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "gauge",
        "modelled",
        "Memory utilization (in %).",
        lambda gpu: gpu.telemetry.memory_utilization_percent,
    ),
    OfGpu(
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "gauge",
        "measured",
        "The rate of data transmitted over the PCIe bus, in bytes per second.",
        lambda gpu: gpu.telemetry.pcie_tx_bytes_per_s,
    ),
    OfGpu(
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "gauge",
        "measured",
        "The rate of data received over the PCIe bus, in bytes per second.",
        lambda gpu: gpu.telemetry.pcie_rx_bytes_per_s,
    ),
    OfGpu(
        "DCGM_FI_DEV_XID_ERRORS",
        "gauge",
        "measured",
        "Value of the last XID error encountered.",
        lambda gpu: gpu.xids[-1].xid if gpu.xids else 0,
    ),
    OfGpu(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "injected",
        "Number of remapped rows for uncorrectable errors",
        lambda gpu: gpu.ecc.remapped_rows,
    ),
    OfGpu(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "gauge",
        "injected",
        "Whether remapping of rows has failed",
        lambda gpu: gpu.ecc.remapping_failed,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "counter",
        "injected",
        "Total number of single-bit volatile ECC errors.",
        lambda gpu: gpu.ecc.corrected_volatile,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "counter",
        "injected",
        "Total number of double-bit volatile ECC errors.",
        lambda gpu: gpu.ecc.uncorrected_volatile,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
        "counter",
        "injected",
        "Total number of single-bit persistent ECC errors.",
        lambda gpu: gpu.ecc.corrected_aggregate,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
        "counter",
        "injected",
        "Total number of double-bit persistent ECC errors.",
        lambda gpu: gpu.ecc.uncorrected_aggregate,
    ),
    OfGpu(
        "tessera_xid_sequence",
        "gauge",
        "measured",
        "Which of the node's Xids the GPU's last one was: it grows with each.",
        lambda gpu: gpu.xids[-1].sequence if gpu.xids else 0,
    ),
    OfGpu(
        "tessera_gpu_healthy",
        "gauge",
        "measured",
        "Whether contexts can be started on the GPU.",
        lambda gpu: gpu.health == "Healthy",
    ),
    OfGpu(
        "tessera_gpu_instances",
        "gauge",
        "measured",
        "Instances of the GPU: MIG devices, or 1 for the whole of it.",
        lambda gpu: len(gpu.instances),
    ),
)


def _free_bytes(one: Instance) -> int:
    """Return what is free of an instance; parts of a GPU instance share its memory."""
    return max(0, one.memory_bytes - max(one.memory_used_bytes, one.shared_used_bytes))


OF_INSTANCE: Final = (
    OfInstance(
        "DCGM_FI_DEV_FB_FREE",
        "gauge",
        "measured",
        "Framebuffer memory free (in MiB).",
        lambda one: _free_bytes(one) // MIB,
    ),
    OfInstance(
        "DCGM_FI_DEV_FB_USED",
        "gauge",
        "measured",
        "Framebuffer memory used (in MiB).",
        lambda one: -(-one.memory_used_bytes // MIB),
    ),
    OfInstance(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "gauge",
        "measured",
        "Ratio of time the graphics engine is active.",
        lambda one: one.activity.engine,
    ),
    OfInstance(
        "DCGM_FI_PROF_SM_ACTIVE",
        "gauge",
        "modelled",
        "The ratio of cycles an SM has at least 1 warp assigned.",
        lambda one: one.activity.sm_active,
    ),
    OfInstance(
        "DCGM_FI_PROF_SM_OCCUPANCY",
        "gauge",
        "modelled",
        "The ratio of number of warps resident on an SM.",
        lambda one: one.activity.sm_occupancy,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "gauge",
        "modelled",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        lambda one: one.activity.tensor,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
        "gauge",
        "modelled",
        "Ratio of cycles the fp64 pipes are active.",
        lambda one: one.activity.fp64,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
        "gauge",
        "modelled",
        "Ratio of cycles the fp32 pipes are active.",
        lambda one: one.activity.fp32,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
        "gauge",
        "modelled",
        "Ratio of cycles the fp16 pipes are active.",
        lambda one: one.activity.fp16,
    ),
    OfInstance(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "gauge",
        "modelled",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        lambda one: one.activity.memory,
    ),
    OfInstance(
        "tessera_instance_healthy",
        "gauge",
        "measured",
        "Whether the instance is offered as healthy.",
        lambda one: one.health == "Healthy",
    ),
    OfInstance(
        "tessera_contexts",
        "gauge",
        "measured",
        "CUDA contexts that live.",
        lambda one: len(one.contexts),
    ),
    OfInstance(
        "tessera_contexts_started",
        "counter",
        "measured",
        "CUDA contexts started.",
        lambda one: one.counters.contexts,
    ),
    OfInstance(
        "tessera_kernel_launches",
        "counter",
        "measured",
        "Kernel launches that have ended.",
        lambda one: one.counters.launches,
    ),
    OfInstance(
        "tessera_kernel_blocks",
        "counter",
        "measured",
        "Blocks of these launches.",
        lambda one: one.counters.blocks,
    ),
    OfInstance(
        "tessera_kernel_threads",
        "counter",
        "measured",
        "Threads of these launches.",
        lambda one: one.counters.threads,
    ),
    OfInstance(
        "tessera_kernel_seconds",
        "counter",
        "measured",
        "Time in which kernels ran, summed over contexts.",
        lambda one: one.counters.busy_ns / 1e9,
    ),
    OfInstance(
        "tessera_host_to_device_bytes",
        "counter",
        "measured",
        "Bytes copied from host memory to the device.",
        lambda one: one.counters.host_to_device_bytes,
    ),
    OfInstance(
        "tessera_device_to_host_bytes",
        "counter",
        "measured",
        "Bytes copied from the device to host memory.",
        lambda one: one.counters.device_to_host_bytes,
    ),
    OfInstance(
        "tessera_device_to_device_bytes",
        "counter",
        "measured",
        "Bytes copied within the device.",
        lambda one: one.counters.device_to_device_bytes,
    ),
    OfInstance(
        "tessera_fill_bytes",
        "counter",
        "measured",
        "Bytes of device memory filled with a value.",
        lambda one: one.counters.set_bytes,
    ),
    OfInstance(
        "tessera_memory_allocations",
        "counter",
        "measured",
        "Chunks of device memory granted.",
        lambda one: one.counters.allocations,
    ),
)
