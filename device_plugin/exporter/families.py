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


@dataclass(frozen=True, slots=True)
class OfGpu:
    """One figure a GPU."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    value: Callable[[Gpu], float]


@dataclass(frozen=True, slots=True)
class OfInstance:
    """One figure an instance: a MIG device, or a whole GPU."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    value: Callable[[Instance], float]


OF_GPU: Final = (
    OfGpu(
        "DCGM_FI_DEV_SM_CLOCK",
        "gauge",
        "SM clock frequency (in MHz).",
        lambda gpu: gpu.telemetry.sm_clock_mhz,
    ),
    OfGpu(
        "DCGM_FI_DEV_MEM_CLOCK",
        "gauge",
        "Memory clock frequency (in MHz).",
        lambda gpu: gpu.telemetry.memory_clock_mhz,
    ),
    OfGpu(
        "DCGM_FI_DEV_MEMORY_TEMP",
        "gauge",
        "Memory temperature (in C).",
        lambda gpu: gpu.telemetry.memory_temperature_c,
    ),
    OfGpu(
        "DCGM_FI_DEV_GPU_TEMP",
        "gauge",
        "GPU temperature (in C).",
        lambda gpu: gpu.telemetry.temperature_c,
    ),
    OfGpu(
        "DCGM_FI_DEV_POWER_USAGE",
        "gauge",
        "Power draw (in W).",
        lambda gpu: gpu.telemetry.power_draw_mw / 1000,
    ),
    OfGpu(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Total energy consumption since boot (in mJ).",
        lambda gpu: gpu.telemetry.energy_mj,
    ),
    OfGpu(
        "DCGM_FI_DEV_GPU_UTIL",
        "gauge",
        "GPU utilization (in %).",
        lambda gpu: gpu.telemetry.gpu_utilization_percent,
    ),
    OfGpu(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "gauge",
        "Memory utilization (in %).",
        lambda gpu: gpu.telemetry.memory_utilization_percent,
    ),
    OfGpu(
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "gauge",
        "The rate of data transmitted over the PCIe bus, in bytes per second.",
        lambda gpu: gpu.telemetry.pcie_tx_bytes_per_s,
    ),
    OfGpu(
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "gauge",
        "The rate of data received over the PCIe bus, in bytes per second.",
        lambda gpu: gpu.telemetry.pcie_rx_bytes_per_s,
    ),
    OfGpu(
        "DCGM_FI_DEV_XID_ERRORS",
        "gauge",
        "Value of the last XID error encountered.",
        lambda gpu: gpu.xids[-1].xid if gpu.xids else 0,
    ),
    OfGpu(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Number of remapped rows for uncorrectable errors",
        lambda gpu: gpu.ecc.remapped_rows,
    ),
    OfGpu(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "gauge",
        "Whether remapping of rows has failed",
        lambda gpu: gpu.ecc.remapping_failed,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "counter",
        "Total number of single-bit volatile ECC errors.",
        lambda gpu: gpu.ecc.corrected_volatile,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "counter",
        "Total number of double-bit volatile ECC errors.",
        lambda gpu: gpu.ecc.uncorrected_volatile,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
        "counter",
        "Total number of single-bit persistent ECC errors.",
        lambda gpu: gpu.ecc.corrected_aggregate,
    ),
    OfGpu(
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
        "counter",
        "Total number of double-bit persistent ECC errors.",
        lambda gpu: gpu.ecc.uncorrected_aggregate,
    ),
    OfGpu(
        "tessera_xid_sequence",
        "gauge",
        "Which of the node's Xids the GPU's last one was: it grows with each.",
        lambda gpu: gpu.xids[-1].sequence if gpu.xids else 0,
    ),
    OfGpu(
        "tessera_gpu_healthy",
        "gauge",
        "Whether contexts can be started on the GPU.",
        lambda gpu: gpu.health == "Healthy",
    ),
    OfGpu(
        "tessera_gpu_instances",
        "gauge",
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
        "Framebuffer memory free (in MiB).",
        lambda one: _free_bytes(one) // MIB,
    ),
    OfInstance(
        "DCGM_FI_DEV_FB_USED",
        "gauge",
        "Framebuffer memory used (in MiB).",
        lambda one: -(-one.memory_used_bytes // MIB),
    ),
    OfInstance(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "gauge",
        "Ratio of time the graphics engine is active.",
        lambda one: one.activity.engine,
    ),
    OfInstance(
        "DCGM_FI_PROF_SM_ACTIVE",
        "gauge",
        "The ratio of cycles an SM has at least 1 warp assigned.",
        lambda one: one.activity.sm_active,
    ),
    OfInstance(
        "DCGM_FI_PROF_SM_OCCUPANCY",
        "gauge",
        "The ratio of number of warps resident on an SM.",
        lambda one: one.activity.sm_occupancy,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "gauge",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        lambda one: one.activity.tensor,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
        "gauge",
        "Ratio of cycles the fp64 pipes are active.",
        lambda one: one.activity.fp64,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
        "gauge",
        "Ratio of cycles the fp32 pipes are active.",
        lambda one: one.activity.fp32,
    ),
    OfInstance(
        "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
        "gauge",
        "Ratio of cycles the fp16 pipes are active.",
        lambda one: one.activity.fp16,
    ),
    OfInstance(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "gauge",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        lambda one: one.activity.memory,
    ),
    OfInstance(
        "tessera_instance_healthy",
        "gauge",
        "Whether the instance is offered as healthy.",
        lambda one: one.health == "Healthy",
    ),
    OfInstance(
        "tessera_contexts",
        "gauge",
        "CUDA contexts that live.",
        lambda one: len(one.contexts),
    ),
    OfInstance(
        "tessera_contexts_started",
        "counter",
        "CUDA contexts started.",
        lambda one: one.counters.contexts,
    ),
    OfInstance(
        "tessera_kernel_launches",
        "counter",
        "Kernel launches that have ended.",
        lambda one: one.counters.launches,
    ),
    OfInstance(
        "tessera_kernel_blocks",
        "counter",
        "Blocks of these launches.",
        lambda one: one.counters.blocks,
    ),
    OfInstance(
        "tessera_kernel_threads",
        "counter",
        "Threads of these launches.",
        lambda one: one.counters.threads,
    ),
    OfInstance(
        "tessera_kernel_seconds",
        "counter",
        "Time in which kernels ran, summed over contexts.",
        lambda one: one.counters.busy_ns / 1e9,
    ),
    OfInstance(
        "tessera_host_to_device_bytes",
        "counter",
        "Bytes copied from host memory to the device.",
        lambda one: one.counters.host_to_device_bytes,
    ),
    OfInstance(
        "tessera_device_to_host_bytes",
        "counter",
        "Bytes copied from the device to host memory.",
        lambda one: one.counters.device_to_host_bytes,
    ),
    OfInstance(
        "tessera_device_to_device_bytes",
        "counter",
        "Bytes copied within the device.",
        lambda one: one.counters.device_to_device_bytes,
    ),
    OfInstance(
        "tessera_fill_bytes",
        "counter",
        "Bytes of device memory filled with a value.",
        lambda one: one.counters.set_bytes,
    ),
    OfInstance(
        "tessera_memory_allocations",
        "counter",
        "Chunks of device memory granted.",
        lambda one: one.counters.allocations,
    ),
)
