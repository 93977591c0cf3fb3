"""A GPU's telemetry, error counts and Xids as NVML records, from the inventory alone.

Clock event reasons: ``nvmlClocksEventReasons`` of the NVML API reference.
"""

from collections.abc import Mapping
from typing import Final

from vgpu_sim.gpud.telemetry import figures
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.management.nvml import MAX_FANS, NO_RECORD, TelemetryRecord, XidRecord

GPU_IDLE: Final = 0x1
HARDWARE_SLOWDOWN: Final = 0x8
HARDWARE_THERMAL_SLOWDOWN: Final = 0x40
_THERMAL: Final = "thermal"  # a kind of admin.Fault


def telemetry_record(gpu: admin.Gpu, with_sums: bool) -> TelemetryRecord:
    """Return the record of a GPU's sensors. If ``with_sums`` is set, the record includes
    utilisation and PCIe rates, which are sums over all tenants of a divided GPU.

    If ``with_sums`` is not set, these fields of the record are 0. It would not be enough for
    Tessera's library to hide the sums, because a program can read the reply without the library.
    """
    its, ecc = gpu.telemetry, gpu.ecc
    record = TelemetryRecord()
    if with_sums:
        record.gpu_percent = its.gpu_utilization_percent
        record.memory_percent = its.memory_utilization_percent
        record.pcie_tx_bytes_per_s = its.pcie_tx_bytes_per_s
        record.pcie_rx_bytes_per_s = its.pcie_rx_bytes_per_s
    record.sm_mhz, record.memory_mhz = its.sm_clock_mhz, its.memory_clock_mhz
    record.max_sm_mhz, record.max_memory_mhz = its.max_sm_clock_mhz, its.max_memory_clock_mhz
    if idle := figures.SENSORS.get(gpu.board):
        record.idle_sm_mhz = idle.idle_clock_mhz
        record.idle_memory_mhz = idle.idle_memory_clock_mhz or 0
    record.power_mw, record.power_limit_mw = its.power_draw_mw, its.power_limit_mw
    record.temperature_c = its.temperature_c
    record.memory_temperature_c = its.memory_temperature_c
    record.slowdown_c = its.slowdown_temperature_c
    record.shutdown_c = its.shutdown_temperature_c
    record.performance_state = its.performance_state
    record.clock_event_reasons = _reasons(gpu)
    fans = its.fans_percent[:MAX_FANS]
    record.fan_count = len(fans)
    record.fan_percents[: len(fans)] = fans
    record.energy_mj = its.energy_mj
    record.ecc_volatile[:] = ecc.corrected_volatile, ecc.uncorrected_volatile
    record.ecc_aggregate[:] = ecc.corrected_aggregate, ecc.uncorrected_aggregate
    record.remapped_rows, record.pending_rows = ecc.remapped_rows, ecc.pending_rows
    record.remapping_failed = int(ecc.remapping_failed)
    return record


def _reasons(gpu: admin.Gpu) -> int:
    if any(fault.kind == _THERMAL for fault in gpu.faults):
        return HARDWARE_SLOWDOWN | HARDWARE_THERMAL_SLOWDOWN
    return 0 if gpu.telemetry.activity.engine > 0 else GPU_IDLE


def xid_records(gpu: admin.Gpu, number: int, instances: Mapping[str, int]) -> list[bytes]:
    """Return the Xid records of GPU number ``number``: those of the GPU itself and of its visible
    instances.
    """
    return [
        bytes(
            XidRecord(
                gpu=number,
                instance=instances.get(xid.instance, NO_RECORD),
                sequence=xid.sequence,
                xid=xid.xid,
            )
        )
        for xid in gpu.xids
        if not xid.instance or xid.instance in instances
    ]
