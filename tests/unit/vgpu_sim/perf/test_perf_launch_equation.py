"""One launch of a user's kernel: its parts, its stack and its metrics, computed by hand."""

from dataclasses import fields, replace
from math import ceil
from typing import Any

import pytest

from vgpu_sim.perf.kernels import chip_of, estimate
from vgpu_sim.perf.kernels.chip import Chip
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.perf.kernels.model import times_of
from vgpu_sim.perf.kernels.occupancy import occupancy_of
from vgpu_sim.perf.kernels.predict import bound_us

H100 = chip_of("h100-80gb")
# A launch of 1000 blocks of 256 threads, in which all counts differ.
USUAL = {one.name: 10.0 + i for i, one in enumerate(fields(Counts))} | {
    "blocks": 1000.0,
    "block_threads": 256.0,
    "registers": 32.0,
    "shared_bytes": 4096.0,
    "bound": 0.0,
    "warp_instructions": 900.0,
    "thread_instructions": 20000.0,
    "load_requests": 40.0,
    "load_sectors": 200.0,
    "load_bytes": 5000.0,
    "l1_missed_sectors": 150.0,
    "store_requests": 10.0,
    "store_sectors": 45.0,
    "unique_load_bytes": 3e6,
    "unique_store_bytes": 1e6,
    "wave_load_bytes": 2.5e6,
    "long_waits": 6.0,
    "long_covered": 70.0,
    "hot_updates": 300.0,
    "atomic_steps": 60.0,
    "load_spread": 1.5,
    "barriers": 10.0,
    "longest_cycles": 0.0,
    "mean_cycles": 0.0,
    "heaviest_block": 3.0,
}
CHIP = replace(H100, l2_bytes=4e6, l2_sharpness=2.0, launch_us=3.0)


def counts(**own: float) -> Counts:
    return Counts(**USUAL | own)


def p_norm(parts: list[float], p: float) -> float:
    return sum(part**p for part in parts) ** (1 / p)


def paper(chip: Chip, c: Counts) -> dict[str, Any]:
    """Compute the parts of a launch by docs/performance-model.md."""
    resident = occupancy_of(chip, 256, 32, 4096).blocks
    fullest = ceil(c.blocks / chip.sms)
    rounds = ceil(fullest / resident)
    out = c.l1_missed_sectors + c.store_sectors + c.atomic_sectors
    pipes = {"issue": c.warp_instructions / 4}
    pipes |= {p.value: getattr(c, f"pipe_{p.value}") * 32 / n for p, n in chip.lanes.items()}
    kinds = ("fp16", "bf16", "tf32", "int8")
    # Products of warps have a share of the rate that those of warp groups have.
    alone = {kind: getattr(c, f"tensor_{kind}") - getattr(c, f"group_{kind}") for kind in kinds}
    pipes["tensor"] = sum(
        (alone[kind] + getattr(c, f"group_{kind}") * chip.mma_share) / chip.tensor[kind]
        for kind in kinds
    )
    pipes["barriers"] = c.barriers * 8 * 2  # two cycles for each of the block's 8 warps
    pipes["cluster"] = c.cluster_bytes / 16
    pipes["l1"] = c.l1_global_wavefronts + c.l1_shared_wavefronts
    pipes["l2 port"] = out / 2
    most = max(fullest, c.heaviest_block)
    pipes = {name: most * cycles / chip.ghz / 1e3 for name, cycles in pipes.items()}
    pipes["block starts"] = c.blocks / 132 * 157 / chip.ghz / 1e3

    def lost_share(footprint: float) -> float:
        ratio = (footprint / chip.l2_bytes) ** chip.l2_sharpness
        return ratio / (1 + ratio)

    loads = c.blocks * c.l1_missed_sectors * 32
    unique, wave = min(c.unique_load_bytes, loads), min(c.wave_load_bytes, loads)
    waves = max(1, c.blocks / (chip.sms * resident))
    per_wave = min(loads, max(unique, waves * wave))
    read = unique + (per_wave - unique) * lost_share(unique + c.unique_store_bytes)
    read += (loads - per_wave) * lost_share(wave)
    read *= c.load_spread
    written = min(c.unique_store_bytes, c.blocks * (c.store_sectors + c.atomic_sectors) * 32)
    l2 = c.blocks * out * 32
    beyond = 282 + min(1, read / l2) * (685 - 282)
    access = 35 + min(1, c.l1_missed_sectors / c.load_sectors) * (beyond - 35)
    chain = c.warp_issued + c.fixed_cycles + c.short_waits * 23 + c.barriers * (12 + 2 * 8)
    chain += max(0, c.long_waits * access - c.long_covered)
    longest = c.longest_cycles + chain - c.mean_cycles if c.longest_cycles > c.mean_cycles else 0
    latency = max(rounds * chain, longest) / chip.ghz / 1e3
    return {
        "pipes": pipes,
        "latency": latency,
        "l2": l2 / chip.l2_rate,
        "dram": (read + written) / chip.dram_rate,
        "hot": max(c.hot_updates / 0.69, c.blocks * c.atomic_steps / 44) / chip.ghz / 1e3,
        "rounds": rounds,
        "chain_cycles": chain,
        "traffic": (l2, read, written),
    }


CASES = [
    counts(),
    counts(blocks=100.0, heaviest_block=40.0),
    counts(longest_cycles=90000.0, mean_cycles=500.0),
    counts(longest_cycles=400.0, mean_cycles=500.0),
    counts(unique_load_bytes=1e9, wave_load_bytes=1e9, long_covered=1e6),
    counts(unique_load_bytes=3e6, wave_load_bytes=1e6, blocks=40000.0),
    counts(unique_store_bytes=1e9),
    counts(l1_missed_sectors=300.0, atomic_sectors=2000.0),
    counts(hot_updates=1e6),
    counts(atomic_steps=1e4),
    counts(group_bf16=1e6, tensor_bf16=3e6),
]


@pytest.mark.parametrize("one", CASES)
def test_a_launch_takes_its_parts(one: Counts) -> None:
    found, expected = estimate(CHIP, one), paper(CHIP, one)
    times = found.times
    assert times.pipes == pytest.approx(expected["pipes"])
    for name in ("latency", "l2", "dram", "hot", "rounds", "chain_cycles"):
        assert getattr(times, name) == pytest.approx(expected[name]), name
    traffic = times.traffic
    assert (traffic.l2, traffic.dram_read, traffic.dram_written) == pytest.approx(
        expected["traffic"]
    )
    busy = p_norm([*expected["pipes"].values()], 8)
    core = p_norm([busy, expected["latency"]], 3)
    memory = p_norm([expected["l2"], expected["dram"]], 3)
    two = p_norm([core, memory], 3)
    total = 3 + p_norm([core, memory, expected["hot"]], 3)
    assert (times.busy, times.core, times.memory) == pytest.approx((busy, core, memory))
    name = max(expected["pipes"], key=expected["pipes"].__getitem__)
    assert found.stack == pytest.approx(
        {
            "launch": 3,
            f"busiest pipe ({name})": expected["pipes"][name],
            "other pipes": busy - expected["pipes"][name],
            "latency not hidden": core - busy,
            "memory not hidden": two - core,
            "updates of one address": total - 3 - two,
        }
    )
    assert found.us == pytest.approx(total)
    room = CHIP.sms * occupancy_of(CHIP, 256, 32, 4096).blocks
    used = [one.blocks / room, expected["l2"] / (total - 3), expected["dram"] / (total - 3)]
    assert found.share == pytest.approx(min(1, max(used)))


def test_a_launch_without_memory_takes_its_overhead_and_chain() -> None:
    nothing = dict.fromkeys(USUAL, 0.0) | {
        "blocks": 1.0,
        "block_threads": 32.0,
        "warp_issued": 40.0,
    }
    found = estimate(CHIP, Counts(**nothing))
    assert found.us == pytest.approx(3 + 40 / CHIP.ghz / 1e3)
    assert found.share == pytest.approx(1 / (132 * 32))
    assert found.metrics()["l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct"] == 100


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ({"hot_updates": 1e7}, "one address"),
        ({"pipe_fma": 1e5}, "fma"),
        ({"longest_cycles": 1e7}, "latency"),
        ({"unique_load_bytes": 1e9, "l1_missed_sectors": 1e5}, "L2"),
        ({"blocks": 1.0, "long_waits": 0.0}, "launch"),
    ],
)
def test_the_longest_cause_names_the_launch(own: dict[str, float], name: str) -> None:
    chip = replace(CHIP, l2_rate=1e4) if name == "L2" else CHIP
    assert estimate(chip, counts(**own)).bound_by == name


def test_no_launch_is_faster_than_its_bytes_and_its_operations() -> None:
    """4 MB over DRAM's peak; operations at twice fp32's rate: packed halves count as two."""
    slow = counts(flop=1000.0, tensor_fp16=0.0, tensor_bf16=0.0, tensor_tf32=0.0)
    assert bound_us(CHIP, slow) == pytest.approx(4e6 / 3350e3)
    busy = replace(slow, flop=1e6)
    cycles = 1000 * 1e6 / (132 * 128 * 4)
    assert bound_us(CHIP, busy) == pytest.approx(cycles / CHIP.ghz / 1e3)
    shared = replace(busy, tensor_fp16=1e5, tensor_bf16=2e5, tensor_tf32=3e5)
    assert bound_us(CHIP, shared) == pytest.approx(0.4 * cycles / CHIP.ghz / 1e3)
    none = replace(busy, tensor_fp16=2e6)
    assert bound_us(CHIP, none) == pytest.approx(4e6 / 3350e3)


def test_metrics_are_totals_shares_and_ratios_of_the_launch() -> None:
    one = counts()
    found = estimate(CHIP, one)
    metrics, times, us = found.metrics(), found.times, found.us
    elapsed = "avg.pct_of_peak_sustained_elapsed"
    load, store = ("l1tex__{}_pipe_lsu_mem_global_op_" + end for end in ("ld", "st"))
    resident = min(8, 1000 / 132) * 8
    expected = {
        "gpu__time_duration.sum": us * 1e3,
        "sm__cycles_elapsed.max": us * CHIP.ghz * 1e3,
        f"sm__throughput.{elapsed}": 100 * max(times.pipes.values()) / us,
        f"gpu__compute_memory_throughput.{elapsed}": 100 * max(times.l2, times.dram) / us,
        f"dram__throughput.{elapsed}": 100 * times.traffic.dram / 3350e3 / us,
        f"lts__throughput.{elapsed}": 100 * times.l2 / us,
        f"l1tex__throughput.{elapsed}": 100 * times.pipes["l1"] / us,
        f"sm__inst_executed_pipe_tensor.{elapsed}": 100 * times.pipes["tensor"] / us,
        "dram__bytes_read.sum": times.traffic.dram_read,
        "dram__bytes_write.sum": times.traffic.dram_written,
        "lts__t_sectors.sum": times.traffic.l2 / 32,
        f"{load.format('t_requests')}.sum": 40e3,
        f"{load.format('t_sectors')}.sum": 200e3,
        f"{store.format('t_requests')}.sum": 10e3,
        f"{store.format('t_sectors')}.sum": 45e3,
        f"{load.format('average_t_sectors_per_request')}.ratio": 5,
        f"{store.format('average_t_sectors_per_request')}.ratio": 4.5,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct": 100 * 5000 / 6400,
        f"{load.format('t_sector')}_hit_rate.pct": 25,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 1000 * one.l1_shared_wavefronts,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 1000
        * (one.l1_shared_wavefronts - one.shared_ideal_wavefronts),
        "smsp__inst_executed.sum": 900e3,
        "smsp__thread_inst_executed_per_inst_executed.ratio": 20000 / 900,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 100 * resident / 64,
        "sm__maximum_warps_per_active_cycle_pct": 100,
        "launch__occupancy_limit_registers": 8,
        "launch__occupancy_limit_shared_mem": 45,  # of 5 KB each
        "launch__occupancy_limit_warps": 8,
        "launch__occupancy_limit_blocks": 32,
        "launch__registers_per_thread": 32,
        "launch__grid_size": 1000,
        "launch__block_size": 256,
        "launch__waves_per_multiprocessor": 1000 / (132 * 8),
    }
    pipes = ("alu", "fma", "fp16", "fp64", "xu", "lsu", "cbu")
    expected |= {f"sm__inst_executed_pipe_{n}.sum": 1e3 * getattr(one, f"pipe_{n}") for n in pipes}
    expected["sm__inst_executed_pipe_fmaheavy.sum"] = 1e3 * one.pipe_imad
    stalls = {name: value for name, value in metrics.items() if "stalled" in name}
    assert {n: v for n, v in metrics.items() if n not in stalls} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"l1_shared_wavefronts": 1e5}, "mio_throttle"),
        ({"l1_global_wavefronts": 1e5}, "lg_throttle"),
        ({"pipe_lsu": 1e5, "l1_shared_wavefronts": 1.0}, "lg_throttle"),
        ({"warp_instructions": 1e6}, "not_selected"),
        ({"pipe_fma": 1e5}, "math_pipe_throttle"),
        ({"store_sectors": 1e5, "l2_rate": 1e12, "dram_rate": 1e12}, "lg_throttle"),
        ({"l2_rate": 100.0}, ""),
    ],
)
def test_stalls_are_a_warps_chain_and_contention(own: dict[str, float], reason: str) -> None:
    rates = {name: own[name] for name in ("l2_rate", "dram_rate") if name in own}
    chip = replace(CHIP, **rates)
    one = counts(**{name: value for name, value in own.items() if name not in rates})
    found = estimate(chip, one)
    times = found.times
    body = (found.us - 3) * chip.ghz * 1e3 / times.rounds
    waits = {
        "selected": one.warp_issued,
        "wait": one.fixed_cycles,
        "short_scoreboard": one.short_waits * 23,
        "barrier": one.barriers * (12 + 2 * 8),
    }
    waits["long_scoreboard"] = times.chain_cycles - sum(waits.values())
    name = reason or "long_scoreboard"
    waits[name] = waits.get(name, 0) + body - times.chain_cycles
    stall = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    metrics = {n: v for n, v in found.metrics().items() if "stalled" in n}
    assert metrics == pytest.approx(
        {stall.format(name): wait / one.warp_issued for name, wait in waits.items()}
    )


def test_a_slice_performs_its_share_of_atomic_updates() -> None:
    slice_ = chip_of("h100-80gb", 16, (1, 8))
    whole, eighth = (times_of(chip, counts(atomic_steps=1e4)).hot for chip in (H100, slice_))
    assert eighth == pytest.approx(8 * whole)
