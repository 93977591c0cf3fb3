"""Samples a launch: some of its blocks run on the interpreter, over a copy of what they write."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from vgpu_sim.exec import interp
from vgpu_sim.exec.errors import Block
from vgpu_sim.exec.interp import Memory
from vgpu_sim.exec.interp.cta import ResidentBlocks
from vgpu_sim.exec.interp.launch import InterpretedLaunch
from vgpu_sim.hal.ports import Launch
from vgpu_sim.isa import Function, Module
from vgpu_sim.perf.kernels import footprint, reuse
from vgpu_sim.perf.kernels.chip import SECTOR, WARP, Chip
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.perf.kernels.occupancy import occupancy_of
from vgpu_sim.perf.kernels.pipes import Pipe, flop_of, tensor_type, work_of
from vgpu_sim.worker.observing.accesses import Numbers
from vgpu_sim.worker.observing.overlay import Overlay, OverlayFull
from vgpu_sim.worker.observing.watch import MOST_WORDS, SampleEnded, Watch, slots_and_places

_MOST_BLOCKS: Final = 16
_MOST_LANES: Final = 1 << 14
_MOST_SHARED_BYTES: Final = 1 << 24
_MOST_CELLS: Final = 1 << 22
_TENSORS: Final = ("fp16", "bf16", "tf32", "int8")
_COUNTED: Final = (
    *("load_requests", "load_sectors", "load_bytes", "store_requests", "store_sectors"),
    *("store_bytes", "atomic_requests", "atomic_sectors", "l1_global_wavefronts"),
    *("l1_shared_wavefronts", "shared_requests", "shared_ideal_wavefronts"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a module's variables are, and what a launch is told of its surroundings."""

    segment_base: int
    multiprocessors: int


def sample(
    chip: Chip,
    module: Module,
    function: Function,
    launch: Launch,
    place: Place,
    memory: Memory,
    most_words: int = MOST_WORDS,
) -> Counts:
    """Count what a launch does, by some of its blocks; nothing in ``memory`` changes.

    The sample ends after ``most_words``, finished or not.

    Raises:
        ExecutionError, ValueError: the blocks cannot run, or fault, as the launch itself will.
    """
    checked = InterpretedLaunch(
        module,
        function,
        launch.grid,
        launch.block,
        launch.parameters,
        Overlay(memory),
        place.segment_base,
        launch.shared_bytes,
        interp.Surroundings(0, place.multiprocessors, launch.stack_bytes),
    )
    checked.place_parameters()
    places = footprint.probes(launch.grid, _room(checked))
    grid = launch.grid
    indices = [x + grid[0] * (y + grid[1] * z) for x, y, z in places]
    blocks = ResidentBlocks(checked, indices, len(indices))
    blocks.watch = watch = Watch(blocks, most_words)
    truncated = False
    try:
        with np.errstate(all="ignore"):
            while not blocks.done:
                blocks.round()
    except (SampleEnded, OverlayFull):
        truncated = True
    return _counts(chip, checked, watch, places, truncated=truncated)


def _room(launch: InterpretedLaunch) -> int:
    """Return how many blocks are sampled together."""
    lanes = launch.warps_per_block * WARP
    cells = lanes * max(1, len(launch.function.register_bits))
    return max(
        1,
        min(
            _MOST_BLOCKS,
            _MOST_LANES // lanes,
            _MOST_CELLS // cells,
            _MOST_SHARED_BYTES // max(1, launch.shared_bytes),
        ),
    )


def _counts(
    chip: Chip, launch: InterpretedLaunch, watch: Watch, places: list[Block], *, truncated: bool
) -> Counts:
    function, count = launch.function, len(places)
    board = watch.scoreboard
    registers = function.physical.peak_registers
    occupancy = occupancy_of(chip, launch.threads_per_block, registers, launch.shared_bytes)
    values = {name: watch.totals[name] / count for name in _COUNTED}
    values |= _issues(function, watch, count)
    values["l1_missed_sectors"] = values["load_sectors"] * _missed(
        chip, launch, watch, occupancy.blocks
    )
    wave = _wave(launch.grid, chip.sms * occupancy.blocks)
    return Counts(
        **values,
        blocks=launch.block_count,
        block_threads=launch.threads_per_block,
        registers=registers,
        shared_bytes=launch.shared_bytes,
        sampled=count,
        truncated=float(truncated),
        barriers=watch.totals["barriers"] / count / launch.warps_per_block,
        hot_updates=_hottest(watch, count, launch.block_count),
        warp_issued=board.warp_issued,
        fixed_cycles=board.fixed_cycles,
        short_waits=board.short_waits,
        long_waits=board.long_waits,
        long_covered=board.long_covered,
        unique_load_bytes=_touched(watch.loaded, places, launch.grid),
        unique_store_bytes=_touched(watch.stored, places, launch.grid),
        wave_load_bytes=_touched(watch.loaded, places, wave),
    )


def _issues(function: Function, watch: Watch, count: int) -> dict[str, float]:
    """Return instructions and operations of a block, by pipe and type."""
    pipes = dict.fromkeys(Pipe, 0.0)
    tensors = dict.fromkeys(_TENSORS, 0.0)
    issued = lanes = flop = 0.0
    for word, instruction in enumerate(function.code):
        kept = watch.kept[word] / count
        work, warps = work_of(instruction), watch.issued[word] * kept
        for pipe, issues in work.items():
            pipes[pipe] += issues * warps
        issued += sum(work.values()) * warps
        lanes += sum(work.values()) * watch.lanes[word] * kept
        done = flop_of(instruction) * watch.lanes[word] / count
        flop += done
        if kind := tensor_type(instruction):
            tensors[kind] += done
    found = {"warp_instructions": issued, "thread_instructions": lanes, "flop": flop}
    found |= {f"pipe_{pipe.value}": n for pipe, n in pipes.items() if pipe is not Pipe.TENSOR}
    return found | {f"tensor_{kind}": n for kind, n in tensors.items()}


def _missed(chip: Chip, launch: InterpretedLaunch, watch: Watch, resident: int) -> float:
    """Return the share of loads that a block's share of the first-level cache does not have."""
    sectors = np.concatenate(watch.order) if watch.order else np.empty(0, np.int64)
    if not len(sectors):
        return 1.0
    left = max(0, chip.l1_bytes - resident * launch.shared_bytes)
    return reuse.misses(sectors, left / resident / SECTOR) / len(sectors)


def _hottest(watch: Watch, count: int, blocks: int) -> float:
    """Return how many updates the most updated address gets, of the launch."""
    if not watch.updated:
        return 0.0
    slots, words = slots_and_places(np.concatenate(watch.updated), 2)
    addresses, which = np.unique(words, return_inverse=True)
    updates = np.bincount(which, minlength=len(addresses))
    owners = np.unique(which.astype(np.int64) << 20 | slots) >> 20
    sharing = np.bincount(owners, minlength=len(addresses))
    # One that a single sampled block updates is taken to be that block's own.
    whole = np.where(sharing > 1, updates / count * blocks, updates)
    return float(whole.max())


def _wave(grid: Block, resident: int) -> Block:
    """Return the part of a grid that is resident at a time, as blocks are handed out: x first."""
    x = min(grid[0], resident)
    y = min(grid[1], max(1, resident // grid[0]))
    z = min(grid[2], max(1, resident // (grid[0] * grid[1])))
    return x, y, z


def _touched(by_word: dict[int, list[Numbers]], places: list[Block], grid: Block) -> float:
    """Return the bytes that a grid touches, from what each sampled block did."""
    total = 0.0
    for keys in _buffers(by_word):
        slots, sectors = slots_and_places(keys)
        own = [sectors[slots == slot] for slot in range(len(places))]
        if not len(own[0]):  # the middle block has nothing there: no more than what was seen
            total += len(np.unique(sectors)) * SECTOR
            continue
        overlaps: list[dict[int, float]] = [{}, {}, {}]
        for slot, place in enumerate(places[1:], 1):
            axis = next(i for i in range(3) if place[i] != places[0][i])
            distance = abs(place[axis] - places[0][axis])
            both = len(np.intersect1d(own[0], own[slot], assume_unique=True))
            overlaps[axis][distance] = both / len(own[0])
        total += footprint.spread(len(own[0]) * SECTOR, grid, overlaps)
    return total


def _buffers(by_word: dict[int, list[Numbers]]) -> list[Numbers]:
    """Join the words that touch the same memory: what several of them touch counts once."""
    buffers: list[Numbers] = []
    for parts in by_word.values():
        mine = np.unique(np.concatenate(parts))
        apart = []
        for other in buffers:
            if len(np.intersect1d(mine, other, assume_unique=True)):
                mine = np.union1d(mine, other)
            else:
                apart.append(other)
        buffers = [*apart, mine]
    return buffers
