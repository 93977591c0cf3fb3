"""The interval model: the busiest multiprocessor's work, overlapped with memory and latency.

    T = launch + ((pipes || latency) || (L2 || DRAM)) + one address

Each part is a lower bound of the time: the cycles of a pipe, a warp's chain of waits, or bytes
divided by a rate. Parallel parts add by a norm, so that a prediction is never below any part.
"""

from math import ceil
from typing import Final

from vgpu_sim.perf.kernels.chip import BLOCK_START_CYCLES, LINE, SCHEDULERS, SECTOR, WARP, Chip
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.perf.kernels.occupancy import Occupancy, occupancy_of
from vgpu_sim.perf.kernels.pipes import Pipe
from vgpu_sim.records import dataclass

_BUSY_TOGETHER: Final = 8.0  # norm of the pipes of one multiprocessor, which overlap well
_HIDDEN: Final = 3.0  # norm of arithmetic, latency and memory
_PORT: Final = 2.0  # sectors per cycle between a multiprocessor and L2
_SECTORS_A_WAVEFRONT: Final = LINE // SECTOR
# Measured on an H100 (docs/silicon.md).
_HOT_PER_CYCLE: Final = 0.69  # steps of atomic updates that a slice of L2 performs
_ARRIVAL: Final = 2.0  # cycles of a multiprocessor for each warp that arrives at a barrier
_BARRIER: Final = 12.0  # cycles of a barrier beside those of its arrivals
_CLUSTER_RATE: Final = 16.0  # bytes per cycle between the multiprocessors of a cluster
_NO_LOSS: Final = 1e-6  # a smaller share that L2 does not keep is none
_TINY: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes that a launch moves: ``l2`` through L2, and ``dram_read`` and ``dram_written`` over
    DRAM's bus.
    """

    l2: float
    dram_read: float
    dram_written: float

    @property
    def dram(self) -> float:
        """The bytes that cross DRAM's bus."""
        return self.dram_read + self.dram_written


@dataclass(frozen=True, slots=True)
class Times:
    """The parts of a launch's time in microseconds, before they are added; ``pipes`` holds the
    times of pipes by name.

    ``latency`` is the longer of two times. One is the time of a warp's dependence chain, multiplied
    by the number of rounds of blocks on the fullest multiprocessor. The other is the time of the
    longest thread's dependence chain.
    """

    launch: float
    pipes: dict[str, float]
    latency: float
    l2: float
    dram: float
    hot: float
    rounds: int
    chain_cycles: float
    occupancy: Occupancy
    traffic: Traffic

    @property
    def busy(self) -> float:
        """The time in microseconds for which the pipes of the fullest multiprocessor are busy. The
        pipes overlap, so this is at most the sum of their times.
        """
        return _norm(list(self.pipes.values()), _BUSY_TOGETHER)

    @property
    def core(self) -> float:
        """The combined time in microseconds of the pipes (``busy``) and of ``latency``. The two
        overlap, so this is at most their sum.
        """
        return _norm([self.busy, self.latency], _HIDDEN)

    @property
    def memory(self) -> float:
        """The combined time in microseconds of L2 and DRAM. The two overlap, so this is at most the
        sum of their times.
        """
        return _norm([self.l2, self.dram], _HIDDEN)

    @property
    def total(self) -> float:
        """The predicted time of the launch."""
        return self.launch + _norm([self.core, self.memory, self.hot], _HIDDEN)

    def stack(self) -> dict[str, float]:
        """Return the causes of the predicted time, in microseconds by name; they add up to it. The
        busiest pipe counts fully. Each other cause counts only the time that it adds, because
        the causes overlap.
        """
        name = max(self.pipes, key=lambda one: self.pipes[one])
        longest = self.pipes[name]
        two = _norm([self.core, self.memory], _HIDDEN)
        return {
            "launch": self.launch,
            f"busiest pipe ({name})": longest,
            "other pipes": max(0.0, self.busy - longest),
            "latency not hidden": max(0.0, self.core - self.busy),
            "memory not hidden": max(0.0, two - self.core),
            "updates of one address": max(0.0, self.total - self.launch - two),
        }


def times_of(chip: Chip, counts: Counts) -> Times:
    """Return the parts of one launch's time. Raises BadShape if no block fits a multiprocessor."""
    occupancy = occupancy_of(
        chip, int(counts.block_threads), int(counts.registers), int(counts.shared_bytes)
    )
    fullest = ceil(counts.blocks / chip.sms)
    rounds = ceil(fullest / occupancy.blocks)
    traffic = traffic_of(chip, counts)
    busiest_blocks = max(
        float(fullest), counts.heaviest_block
    )  # one multiprocessor's work, in blocks
    cycles = {name: busiest_blocks * each for name, each in _pipe_cycles(chip, counts).items()}
    chain = chain_cycles(chip, counts, traffic)
    # Waits of a mean warp beyond its own chain (memory, barriers) apply to the longest warp too.
    longest = counts.longest_cycles + max(0.0, chain - counts.mean_cycles)
    longest = longest if counts.longest_cycles > counts.mean_cycles else 0.0
    return Times(
        launch=chip.launch_us,
        pipes={name: chip.us(each) for name, each in cycles.items()}
        | {"block starts": chip.us(counts.blocks / chip.sms * BLOCK_START_CYCLES)},
        latency=chip.us(max(rounds * chain, longest)),
        l2=traffic.l2 / chip.l2_rate,
        dram=traffic.dram / chip.dram_rate,
        hot=chip.us(
            max(
                counts.hot_updates / _HOT_PER_CYCLE,
                counts.blocks * counts.atomic_steps / chip.atomic_steps,
            )
        ),
        rounds=rounds,
        chain_cycles=chain,
        occupancy=occupancy,
        traffic=traffic,
    )


def _pipe_cycles(chip: Chip, counts: Counts) -> dict[str, float]:
    """Return for how many cycles a block occupies each resource of a multiprocessor."""
    cycles_by_pipe = {"issue": counts.warp_instructions / SCHEDULERS}
    for pipe, lanes in chip.lanes.items():
        cycles_by_pipe[pipe.value] = getattr(counts, f"pipe_{pipe.value}") * WARP / lanes
    cycles_by_pipe[Pipe.TENSOR.value] = sum(
        (getattr(counts, f"tensor_{kind}") - grouped * (1 - chip.mma_share)) / rate
        for kind, rate in chip.tensor.items()
        if (grouped := getattr(counts, f"group_{kind}", None)) is not None
    )
    cycles_by_pipe["barriers"] = counts.barriers * _warps(counts) * _ARRIVAL
    cycles_by_pipe["cluster"] = counts.cluster_bytes / _CLUSTER_RATE
    cycles_by_pipe["l1"] = counts.l1_global_wavefronts + counts.l1_shared_wavefronts
    out = counts.l1_missed_sectors + counts.store_sectors + counts.atomic_sectors
    cycles_by_pipe["l2 port"] = out / _PORT
    return cycles_by_pipe


def traffic_of(chip: Chip, counts: Counts) -> Traffic:
    """Return the bytes that a launch moves. The caches are assumed to be cold when the launch
    begins, as they are when Nsight Compute measures a launch.

    Each byte that the launch touches comes from DRAM once. Bytes that blocks of one round read
    again stay in L2 if the data of the round fits. Bytes that a later round reads again stay in
    L2 if the data of the whole launch fits.
    """
    out = counts.l1_missed_sectors + counts.store_sectors + counts.atomic_sectors
    loads = counts.blocks * counts.l1_missed_sectors * SECTOR
    unique = min(counts.unique_load_bytes, loads)
    touched = unique + counts.unique_store_bytes
    wave = min(counts.wave_load_bytes, loads)
    occupancy = occupancy_of(
        chip, int(counts.block_threads), int(counts.registers), int(counts.shared_bytes)
    )
    waves = max(1.0, counts.blocks / (chip.sms * occupancy.blocks))
    per_wave = min(loads, max(unique, waves * wave))
    read = unique + (per_wave - unique) * _l2_loss(chip, touched)
    read += (loads - per_wave) * _l2_loss(chip, wave)
    read *= max(1.0, counts.load_spread)
    stored = counts.blocks * (counts.store_sectors + counts.atomic_sectors) * SECTOR
    written = min(counts.unique_store_bytes, stored)
    return Traffic(counts.blocks * out * SECTOR, read, written)


def chain_cycles(chip: Chip, counts: Counts, traffic: Traffic) -> float:
    """Return the time in cycles of a block's first warp if that warp has the multiprocessor to
    itself.
    """
    latencies = chip.latencies
    missed = counts.l1_missed_sectors / max(counts.load_sectors, _TINY)
    from_dram = min(1.0, traffic.dram_read / max(traffic.l2, _TINY))
    beyond = latencies.l2 + from_dram * (latencies.dram - latencies.l2)
    access = latencies.l1 + min(1.0, missed) * (beyond - latencies.l1)
    waits = max(0.0, counts.long_waits * access - counts.long_covered)
    return (
        counts.warp_issued
        + counts.fixed_cycles
        + counts.short_waits * latencies.shared
        + waits
        + barrier_cycles(counts)
    )


def barrier_cycles(counts: Counts) -> float:
    """Return for how many cycles a warp waits at its block's barriers."""
    return counts.barriers * (_BARRIER + _ARRIVAL * _warps(counts))


def _warps(counts: Counts) -> int:
    return -(-int(counts.block_threads) // WARP)


def _l2_loss(chip: Chip, footprint: float) -> float:
    """Return the share of a footprint of ``footprint`` bytes that L2 does not keep."""
    if footprint <= 0:
        return 0.0
    ratio = min(footprint / chip.l2_bytes, 1e6) ** chip.l2_sharpness
    loss = float(ratio / (1 + ratio))
    return loss if loss > _NO_LOSS else 0.0


def _norm(parts: list[float], p: float) -> float:
    largest = max(parts)
    if largest <= 0:
        return 0.0
    return float(largest * float(sum((part / largest) ** p for part in parts)) ** (1 / p))
