"""The interval model: what the fullest multiprocessor is busy with, beside memory and latency.

    T = launch + ((pipes || latency) || (L2 || DRAM)) + one address

Each part is a time that could not be shorter: cycles that a pipe takes, a warp's chain of waits,
bytes over a rate. Parts that run side by side add by a norm, so a prediction is never below any.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

from vgpu_sim.perf.kernels.chip import LINE, SCHEDULERS, SECTOR, WARP, Chip
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.perf.kernels.occupancy import Occupancy, occupancy_of
from vgpu_sim.perf.kernels.pipes import Pipe

_BUSY_TOGETHER: Final = 8.0  # norm of the pipes of one multiprocessor: they overlap well
_HIDDEN: Final = 3.0  # norm of arithmetic, latency and memory
_PORT: Final = 2.0  # sectors a cycle between a multiprocessor and L2
_SECTORS_A_WAVEFRONT: Final = LINE // SECTOR
_HOT_PER_CYCLE: Final = 1.0  # updates of one address that L2 does
_TINY: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of a launch by where they come from."""

    l2: float
    dram_read: float
    dram_written: float

    @property
    def dram(self) -> float:
        """Bytes over DRAM's bus."""
        return self.dram_read + self.dram_written


@dataclass(frozen=True, slots=True)
class Times:
    """Parts of a launch in microseconds, before they are added; ``pipes`` by name.

    ``latency`` is the rounds of blocks of the fullest multiprocessor, times a warp's chain, or the
    longest thread's chain if that is more.
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
        """The pipes of the fullest multiprocessor, side by side."""
        return _norm(list(self.pipes.values()), _BUSY_TOGETHER)

    @property
    def core(self) -> float:
        """Pipes and latency."""
        return _norm([self.busy, self.latency], _HIDDEN)

    @property
    def memory(self) -> float:
        """L2 and DRAM."""
        return _norm([self.l2, self.dram], _HIDDEN)

    @property
    def total(self) -> float:
        """The predicted time."""
        return self.launch + _norm([self.core, self.memory, self.hot], _HIDDEN)

    def stack(self) -> dict[str, float]:
        """Return causes that add to the total: what the pipes take, then what is not hidden."""
        name = max(self.pipes, key=lambda one: self.pipes[one])
        longest = self.pipes[name]
        two = _norm([self.core, self.memory], _HIDDEN)
        return {
            "launch": self.launch,
            f"busiest pipe ({name})": longest,
            "other pipes": self.busy - longest,
            "latency not hidden": self.core - self.busy,
            "memory not hidden": two - self.core,
            "updates of one address": self.total - self.launch - two,
        }


def times_of(chip: Chip, counts: Counts) -> Times:
    """Return the parts of one launch. Raises BadShape where no block fits a multiprocessor."""
    occupancy = occupancy_of(
        chip, int(counts.block_threads), int(counts.registers), int(counts.shared_bytes)
    )
    fullest = ceil(counts.blocks / chip.sms)
    rounds = ceil(fullest / occupancy.blocks)
    traffic = traffic_of(chip, counts)
    most = max(float(fullest), counts.heaviest_block)  # blocks' work on one multiprocessor
    cycles = {name: most * each for name, each in _pipe_cycles(chip, counts).items()}
    chain = chain_cycles(chip, counts, traffic)
    # What a mean warp waits for beside its own chain (memory, barriers) the longest one does too.
    longest = counts.longest_cycles + max(0.0, chain - counts.mean_cycles)
    longest = longest if counts.longest_cycles > counts.mean_cycles else 0.0
    return Times(
        launch=chip.launch_us,
        pipes={name: chip.us(each) for name, each in cycles.items()},
        latency=chip.us(max(rounds * chain, longest)),
        l2=traffic.l2 / chip.l2_rate,
        dram=traffic.dram / chip.dram_rate,
        hot=chip.us(counts.hot_updates / _HOT_PER_CYCLE),
        rounds=rounds,
        chain_cycles=chain,
        occupancy=occupancy,
        traffic=traffic,
    )


def _pipe_cycles(chip: Chip, counts: Counts) -> dict[str, float]:
    """Return the cycles that a block takes of each resource of a multiprocessor."""
    found = {"issue": counts.warp_instructions / SCHEDULERS}
    for pipe, lanes in chip.lanes.items():
        found[pipe.value] = getattr(counts, f"pipe_{pipe.value}") * WARP / lanes
    found[Pipe.TENSOR.value] = sum(
        getattr(counts, f"tensor_{kind}") / rate
        for kind, rate in chip.tensor.items()
        if hasattr(counts, f"tensor_{kind}")
    )
    found["l1"] = counts.l1_global_wavefronts + counts.l1_shared_wavefronts
    out = counts.l1_missed_sectors + counts.store_sectors + counts.atomic_sectors
    found["l2 port"] = out / _PORT
    return found


def traffic_of(chip: Chip, counts: Counts) -> Traffic:
    """Return the bytes of a launch that begins with cold caches, as Nsight Compute measures it.

    What the launch touches comes from DRAM once. What a round of blocks reads again stays in L2 if
    the round fits, what a later round reads again if all that the launch touches does.
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
    read = unique + (per_wave - unique) * _lost(chip, touched)
    read += (loads - per_wave) * _lost(chip, wave)
    stored = counts.blocks * (counts.store_sectors + counts.atomic_sectors) * SECTOR
    written = min(counts.unique_store_bytes, stored)
    return Traffic(counts.blocks * out * SECTOR, read, written)


def chain_cycles(chip: Chip, counts: Counts, traffic: Traffic) -> float:
    """Return how long a block's first warp takes if it has the multiprocessor for itself."""
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
        + counts.barriers * latencies.barrier
    )


def _lost(chip: Chip, footprint: float) -> float:
    """Return the share that L2 does not keep of a footprint in bytes."""
    if footprint <= 0:
        return 0.0
    ratio = min(footprint / chip.l2_bytes, 1e6) ** chip.l2_sharpness
    return float(ratio / (1 + ratio))


def _norm(parts: list[float], p: float) -> float:
    largest = max(parts)
    if largest <= 0:
        return 0.0
    return float(largest * float(sum((part / largest) ** p for part in parts)) ** (1 / p))
