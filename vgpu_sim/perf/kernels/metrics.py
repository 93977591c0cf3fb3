"""Converts a prediction to metrics of Nsight Compute, as its "Metrics Reference" defines them."""

from typing import Final

from vgpu_sim.perf.kernels.chip import SCHEDULERS, SECTOR, Chip
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.perf.kernels.model import Times, barrier_cycles

_PIPES: Final = {
    "alu": "sm__inst_executed_pipe_alu",
    "fma": "sm__inst_executed_pipe_fma",
    "imad": "sm__inst_executed_pipe_fmaheavy",
    "fp16": "sm__inst_executed_pipe_fp16",
    "fp64": "sm__inst_executed_pipe_fp64",
    "xu": "sm__inst_executed_pipe_xu",
    "lsu": "sm__inst_executed_pipe_lsu",
    "cbu": "sm__inst_executed_pipe_cbu",
}
_ELAPSED: Final = "avg.pct_of_peak_sustained_elapsed"
_STALL: Final = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


def metrics_of(chip: Chip, counts: Counts, times: Times) -> dict[str, float]:
    """Return the metrics of one launch, by Nsight Compute's names."""
    total = times.total
    blocks, occupancy = counts.blocks, times.occupancy
    cycles = total * chip.ghz * 1e3
    busy = {name: _percent(part, total) for name, part in times.pipes.items()}
    traffic = times.traffic
    memory = max(times.l2, times.dram)
    resident = min(occupancy.blocks, max(1.0, blocks / chip.sms)) * occupancy.warps_per_block
    issued = blocks * counts.warp_instructions
    metrics = {
        "gpu__time_duration.sum": total * 1e3,
        "sm__cycles_elapsed.max": cycles,
        f"sm__throughput.{_ELAPSED}": max(busy.values()),
        f"gpu__compute_memory_throughput.{_ELAPSED}": _percent(memory, total),
        f"dram__throughput.{_ELAPSED}": _percent(traffic.dram / chip.dram_peak, total),
        f"lts__throughput.{_ELAPSED}": _percent(times.l2, total),
        f"l1tex__throughput.{_ELAPSED}": busy["l1"],
        f"sm__inst_executed_pipe_tensor.{_ELAPSED}": busy["tensor"],
        "dram__bytes_read.sum": traffic.dram_read,
        "dram__bytes_write.sum": traffic.dram_written,
        "lts__t_sectors.sum": traffic.l2 / SECTOR,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": blocks * counts.load_requests,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": blocks * counts.load_sectors,
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": blocks * counts.store_requests,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": blocks * counts.store_sectors,
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": _ratio(
            counts.load_sectors, counts.load_requests
        ),
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio": _ratio(
            counts.store_sectors, counts.store_requests
        ),
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct": _percent(
            counts.load_bytes, counts.load_sectors * SECTOR
        ),
        "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct": 100
        - _percent(counts.l1_missed_sectors, counts.load_sectors),
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": blocks * counts.l1_shared_wavefronts,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": blocks
        * (counts.l1_shared_wavefronts - counts.shared_ideal_wavefronts),
        "smsp__inst_executed.sum": issued,
        "smsp__thread_inst_executed_per_inst_executed.ratio": _ratio(
            counts.thread_instructions, counts.warp_instructions
        ),
        "sm__warps_active.avg.pct_of_peak_sustained_active": _percent(resident, chip.warps),
        "sm__maximum_warps_per_active_cycle_pct": _percent(
            occupancy.blocks * occupancy.warps_per_block, chip.warps
        ),
        "launch__occupancy_limit_registers": occupancy.by_registers,
        "launch__occupancy_limit_shared_mem": occupancy.by_shared,
        "launch__occupancy_limit_warps": occupancy.by_warps,
        "launch__occupancy_limit_blocks": occupancy.by_blocks,
        "launch__registers_per_thread": counts.registers,
        "launch__grid_size": blocks,
        "launch__block_size": counts.block_threads,
        "launch__waves_per_multiprocessor": blocks / (chip.sms * occupancy.blocks),
    }
    for name, metric in _PIPES.items():
        metrics[f"{metric}.sum"] = blocks * getattr(counts, f"pipe_{name}")
    return metrics | _stalls(chip, counts, times, resident)


def _stalls(chip: Chip, counts: Counts, times: Times, resident: float) -> dict[str, float]:
    """Return, by reason, how many warps wait per issued instruction.

    A scheduler's warps are resident for the whole time. The dependence chain of a warp
    determines the waits that the warp itself causes; for the remaining time it waits for pipes
    and memory that other warps use.
    """
    latencies, rounds = chip.latencies, times.rounds
    body = (times.total - times.launch) * chip.ghz * 1e3 / max(rounds, 1)  # cycles of a warp
    chain = max(times.chain_cycles, 1.0)
    own = {
        "selected": counts.warp_issued,
        "wait": counts.fixed_cycles,
        "short_scoreboard": counts.short_waits * latencies.shared,
        "barrier": barrier_cycles(counts),
    }
    own["long_scoreboard"] = max(0.0, chain - sum(own.values()))
    queued = max(0.0, body - chain)
    longest = max(times.pipes, key=lambda name: times.pipes[name])
    if times.memory > times.core:
        own["long_scoreboard"] += queued
    elif longest in ("l1", "lsu"):
        shared = counts.l1_shared_wavefronts > counts.l1_global_wavefronts
        own["mio_throttle" if shared else "lg_throttle"] = queued
    elif longest == "l2 port":
        own["lg_throttle"] = queued
    elif longest == "issue":
        own["not_selected"] = queued
    else:
        own["math_pipe_throttle"] = queued
    warps = resident / SCHEDULERS
    per_issue = warps * body / max(warps * counts.warp_issued, 1.0)
    scale = per_issue / max(sum(own.values()), 1e-9)
    return {_STALL.format(reason): part * scale for reason, part in own.items()}


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole > 0 else 0.0


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
