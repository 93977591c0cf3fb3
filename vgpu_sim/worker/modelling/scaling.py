"""Scales the sampled blocks of a launch to the whole launch, by the counters of its code."""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.errors import Block
from vgpu_sim.isa import EFFECTS, Function, Instruction, Space
from vgpu_sim.perf.kernels import reuse
from vgpu_sim.perf.kernels.chip import LINE, SECTOR, WARP, Chip
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.perf.kernels.occupancy import occupancy_of
from vgpu_sim.perf.kernels.pipes import Pipe, flop_of, tensor_type, work_of
from vgpu_sim.perf.kernels.scoreboard import CHAIN, chain_growth
from vgpu_sim.records import dataclass
from vgpu_sim.worker.modelling import footprints
from vgpu_sim.worker.modelling.samples import Sample
from vgpu_sim.worker.modelling.unique_bytes import UniqueBytes, blocks_beside
from vgpu_sim.worker.modelling.watch import Amounts, Watch, slots_and_places
from vgpu_sim.worker.observing.accesses import Numbers
from vgpu_sim.worker.observing.counting import ONCE, SLOTS, Plan
from vgpu_sim.worker.observing.tallies import Tally

_LATER_BLOCKS: Final = 4
_MOST_OF_SUM: Final = 64  # blocks that add to one sum: at least as many as are sampled together
_NEARLY_ALL: Final = 0.9  # share of the sampled blocks
_UNSEEN_ACCESS: Final = 30  # weight, in instructions, of an access that was not sampled
_NEGLIGIBLE: Final = (
    0.003  # unsampled share of thread instructions that is ignored (of a warp's, up to 32 times)
)
_TENSORS: Final = ("fp16", "bf16", "tf32", "int8")
_PRODUCTS: Final = tuple(f"product_{kind}" for kind in _TENSORS)
_COUNTED: Final = (
    "load_requests",
    "load_sectors",
    "load_bytes",
    "store_requests",
    "store_sectors",
    "store_bytes",
    "atomic_requests",
    "atomic_sectors",
    "atomic_steps",
    "l1_global_wavefronts",
    "l1_shared_wavefronts",
    "shared_requests",
    "shared_ideal_wavefronts",
    "bulk_bytes",
    "cluster_bytes",
    "tensor_memory_bytes",
)


@dataclass(frozen=True, slots=True)
class _Scales:
    """For each instruction, the number of visits by threads in the whole launch, and the ratio of
    that number to the sampled visits.
    """

    visits: Amounts
    factors: Amounts
    unseen: bool  # some instructions were executed only by blocks that were not sampled
    bound: bool


def later_blocks(sample: Sample, counted: tuple[Plan, Tally] | None) -> list[int]:
    """Return further blocks to sample if only blocks outside the sample executed some of the code,
    or if few blocks of the sample executed some accesses to memory.

    The result has blocks of the groups that issued the most instructions, or blocks around those
    few. Return an empty list if neither is the case, or if it is unknown which code was executed.
    """
    if counted is None:
        return []
    scales = _scales(sample, counted)
    if not scales.unseen:
        return blocks_beside(sample, scales.factors)
    if counted[1].slots is None:
        return []
    heaviest = np.argsort(counted[1].slots)[::-1][:_LATER_BLOCKS].tolist()
    total = sample.launch.block_count
    return [block for slot in heaviest for block in range(slot, total, SLOTS)[:_MOST_OF_SUM]]


def unsampled_words(sample: Sample, counted: tuple[Plan, Tally] | None) -> dict[int, float]:
    """Return the instructions that the launch executed, and no sampled block, with the number of
    blocks in which all threads would execute them as often.
    """
    if counted is None:
        return {}
    visits, threads = _scales(sample, counted).visits, sample.launch.threads_per_block
    lacking = np.flatnonzero((sample.watch.present == 0) & (visits > 0)).tolist()
    return {word: float(visits[word]) / threads for word in lacking}


def counts_of(
    chip: Chip,
    sample: Sample,
    counted: tuple[Plan, Tally] | None,
    beside: Sample | None = None,
) -> Counts:
    """Return the counts of the whole launch. ``beside`` is a second sample. Its blocks execute
    instructions that the blocks of ``sample`` do not execute.

    ``counted`` is the plan of the kernel's counters, with their values after the launch. Without
    it, the sampled blocks represent all blocks, and the result is marked as a lower bound.
    """
    launch, watch = sample.launch, sample.watch
    function, blocks = launch.function, launch.block_count
    board = _merge(function, watch, beside.watch if beside is not None else None)
    scales = _scales(sample, counted, board.present)
    board, factors = _estimate_unsampled(sample, board, scales)
    scales = replace(scales, factors=factors)
    per_block = factors / blocks
    values = {name: float(board.amounts[name] @ per_block) for name in _COUNTED}
    values |= _issues(function, board, per_block, watch)
    occupancy = occupancy_of(
        chip, launch.threads_per_block, function.physical.peak_registers, launch.shared_bytes
    )
    values["l1_missed_sectors"] = _count_misses(chip, sample, board, per_block, occupancy.blocks)
    values |= _chain(sample, board, scales)
    longest, mean, heaviest = _extremes(sample, counted, scales)
    factor = _mean_factor(board.amounts["atomic_requests"], per_block, len(sample.places))
    unique_bytes = UniqueBytes(
        sample, beside, scales.visits, _unsampled_sectors(sample, beside, board, scales)
    )
    unique = unique_bytes.loaded_bytes(launch.grid)
    wave = _wave(launch.grid, chip.sms * occupancy.blocks)
    return Counts(
        **values,
        blocks=blocks,
        block_threads=launch.threads_per_block,
        registers=function.physical.peak_registers,
        shared_bytes=launch.shared_bytes,
        sampled=len(sample.places),
        bound=float(scales.bound),
        barriers=float(board.amounts["barriers"] @ per_block) / launch.warps_per_block,
        hot_updates=_hottest(watch, len(sample.places), blocks) * factor,
        longest_cycles=longest,
        mean_cycles=mean,
        heaviest_block=heaviest,
        unique_load_bytes=unique,
        unique_store_bytes=unique_bytes.stored_bytes(launch.grid),
        wave_load_bytes=unique_bytes.loaded_bytes(wave),
        load_spread=unique_bytes.spread(unique),
    )


@dataclass(frozen=True, slots=True)
class _Board:
    present: NDArray[np.int64]
    issued: NDArray[np.int64]
    lanes: NDArray[np.int64]
    first: NDArray[np.int64]
    chain: dict[str, Amounts]
    amounts: dict[str, Amounts]


def _merge(function: Function, watch: Watch, beside: Watch | None) -> _Board:
    """Take the amounts of each instruction from the first sample, or from ``beside`` for
    instructions that the first sample lacks.
    """
    zeros = np.zeros(len(function.code))
    names = (*_COUNTED, "bypass_sectors", "barriers", *_PRODUCTS)
    amounts = {name: watch.amounts.get(name, zeros) for name in names}
    merged_board = _Board(
        watch.present, watch.issued, watch.lanes, watch.first, watch.chain, amounts
    )
    if beside is None:
        return merged_board
    lacking, unwatched = watch.present == 0, watch.first == 0
    return _Board(
        np.where(lacking, beside.present, merged_board.present),
        np.where(lacking, beside.issued, merged_board.issued),
        np.where(lacking, beside.lanes, merged_board.lanes),
        np.where(unwatched, beside.first, merged_board.first),
        {n: np.where(unwatched, beside.chain[n], watch.chain[n]) for n in CHAIN},
        {n: np.where(lacking, beside.amounts.get(n, zeros), amounts[n]) for n in names},
    )


def _scales(
    sample: Sample,
    counted: tuple[Plan, Tally] | None,
    present: NDArray[np.int64] | None = None,
) -> _Scales:
    launch, watch = sample.launch, sample.watch
    present = watch.present if present is None else present
    code, threads = launch.function.code, launch.block_count * launch.threads_per_block
    even = np.full(len(code), launch.block_count / len(sample.places))
    if counted is None:
        return _Scales(present * even, even, False, True)
    plan, tally = counted
    visits = np.array(
        [threads if n == ONCE else tally.counters[n] for n in plan.counter_of], dtype=np.float64
    )
    # The polling rate of this machine's threads does not apply to a board: a loop that polls counts
    # once for each entry.
    for loop in sample.dependence.polling:
        entries = threads if loop.entry < 0 else visits[loop.entry]
        visits[list(loop.words)] = np.minimum(visits[list(loop.words)], entries)
    factors = np.divide(visits, present, out=np.zeros(len(code)), where=present > 0)
    sampled_counters = np.zeros(plan.counters + 1, dtype=np.bool_)
    sampled_counters[[n for n, lanes in zip(plan.counter_of, present, strict=True) if lanes]] = True
    unseen = any(count and not sampled_counters[n] for n, count in enumerate(tally.counters))
    lacking = np.flatnonzero((present == 0) & (visits > 0)).tolist()
    weights = [_weight(code[word], visits[word] >= _NEARLY_ALL * threads) for word in lacking]
    much = float(visits[lacking] @ np.array(weights)) > _NEGLIGIBLE * float(visits.sum())
    return _Scales(visits, factors, unseen, much or bool(sample.dependence.waiting))


def _weight(instruction: Instruction, whole: bool) -> float:
    """Return the weight of an unsampled instruction, compared with one that a single lane executes.
    If ``whole`` warps executed it, the number of issues is known, but not that of sectors.
    """
    if EFFECTS[instruction.op].accesses:
        return _UNSEEN_ACCESS / LINE * SECTOR if whole else _UNSEEN_ACCESS
    return 1 / WARP if whole else 1.0


def _estimate_unsampled(sample: Sample, board: _Board, scales: _Scales) -> tuple[_Board, Amounts]:
    """Estimate the cost of instructions that were executed but not sampled. Full warps and adjacent
    accesses are assumed, which gives a lower bound. Return the scaling factors as well.
    """
    launch, code = sample.launch, sample.launch.function.code
    lacking = np.flatnonzero((board.present == 0) & (scales.visits > 0))
    if not len(lacking):
        return board, scales.factors
    visits = scales.visits[lacking].astype(np.int64)
    warps = -(-visits * launch.warps_per_block // launch.threads_per_block)
    present, issued, present_lanes = (
        counts.copy() for counts in (board.present, board.issued, board.lanes)
    )
    present[lacking], issued[lacking], present_lanes[lacking] = visits, warps, visits
    amounts = {name: part.copy() for name, part in board.amounts.items()}
    for word, lanes, issues in zip(lacking.tolist(), visits.tolist(), warps.tolist(), strict=True):
        instruction = code[word]
        if EFFECTS[instruction.op].accesses and instruction.space in (Space.GLOBAL, Space.GENERIC):
            kind = "store" if EFFECTS[instruction.op].writes else "load"
            moved = lanes * instruction.vector * instruction.type.bytes
            amounts[f"{kind}_requests"][word] = issues
            amounts[f"{kind}_bytes"][word] = moved
            amounts[f"{kind}_sectors"][word] = -(-moved // SECTOR)
            amounts["l1_global_wavefronts"][word] = max(issues, -(-moved // LINE))
    factors = scales.factors.copy()
    factors[lacking] = 1.0
    return _Board(present, issued, present_lanes, board.first, board.chain, amounts), factors


def _unsampled_sectors(
    sample: Sample, beside: Sample | None, board: _Board, scales: _Scales
) -> dict[str, float]:
    """Return how many sectors the launch accesses by instructions without sampled addresses."""
    watches = [source.watch for source in (sample, beside) if source is not None]
    unsampled = {}
    for kind, name in (("load", "loaded"), ("store", "stored")):
        sectors = board.amounts[f"{kind}_sectors"] * scales.factors
        addressed = {word for watch in watches for word in getattr(watch, name)}
        unsampled[kind] = float(sum(sectors)) - float(sum(sectors[word] for word in addressed))
    return {kind: max(0.0, sectors) for kind, sectors in unsampled.items()}


def _issues(
    function: Function, board: _Board, per_block: Amounts, watch: Watch
) -> dict[str, float]:
    """Return the mean numbers of issued instructions and of operations of a block, by pipe and
    type.
    """
    pipes = dict.fromkeys(Pipe, 0.0)
    tensors, groups = dict.fromkeys(_TENSORS, 0.0), dict.fromkeys(_TENSORS, 0.0)
    issue_shares = watch.kept
    issued = lanes = flop = 0.0
    for word in np.flatnonzero(board.issued).tolist():
        instruction, factor = function.code[word], float(per_block[word])
        work, warps = work_of(instruction), float(board.issued[word]) * factor * issue_shares[word]
        for pipe, issues in work.items():
            pipes[pipe] += issues * warps
        issued += sum(work.values()) * warps
        lanes += sum(work.values()) * float(board.lanes[word]) * factor * issue_shares[word]
        operations = flop_of(instruction) * float(board.lanes[word]) * factor
        flop += operations
        if kind := tensor_type(instruction):
            tensors[kind] += operations
            groups[kind] += operations if word in watch.units else 0.0
    for kind, name in zip(_TENSORS, _PRODUCTS, strict=True):  # in tensor memory
        operations = float(board.amounts[name] @ per_block)
        flop += operations
        tensors[kind] += operations
    totals = {"warp_instructions": issued, "thread_instructions": lanes, "flop": flop}
    totals |= {f"pipe_{pipe.value}": n for pipe, n in pipes.items() if pipe is not Pipe.TENSOR}
    totals |= {f"group_{kind}": n for kind, n in groups.items()}
    return totals | {f"tensor_{kind}": n for kind, n in tensors.items()}


def _chain(sample: Sample, board: _Board, scales: _Scales) -> dict[str, float]:
    """Return the latencies on the path of an average warp: those of the followed warp, scaled by
    the visits of all warps. If blocks take work from a queue, the path is that of the warp that
    takes it, for which the others wait.
    """
    launch = sample.launch
    warps = np.full(len(board.issued), launch.block_count * launch.warps_per_block)
    if sample.dependence.on_queue:
        warps = launch.block_count * np.maximum(1, sample.watch.widest)
    visits = board.issued * scales.factors / warps  # of an average warp
    watched = board.first > 0
    times = np.divide(visits, board.first, out=np.zeros(len(visits)), where=watched)
    latencies = {name: float(board.chain[name] @ times) for name in CHAIN}
    for word in np.flatnonzero((board.issued > 0) & ~watched).tolist():
        for name, part in zip(CHAIN, chain_growth(launch.function.code[word]), strict=True):
            latencies[name] += part * float(visits[word]) * sample.watch.kept[word]
    return latencies


def _extremes(
    sample: Sample, counted: tuple[Plan, Tally] | None, scales: _Scales
) -> tuple[float, float, float]:
    """Return the cycles of the longest thread, the cycles of the mean thread, and the ratio of the
    heaviest block's instructions to the mean.
    """
    # Which block gets how much of a queue's work depends on the schedule: it is assumed to be even.
    unknown = sample.dependence.waiting or sample.dependence.on_queue
    if counted is None or unknown or counted[1].slots is None:
        return 0.0, 0.0, 1.0
    plan, tally = counted
    blocks = sample.launch.block_count
    threads = blocks * sample.launch.threads_per_block
    *cycles, once = plan.cycles
    mean = once + sum(n * each for n, each in zip(tally.counters, cycles, strict=True)) / threads
    slots = np.asarray(tally.slots, dtype=np.float64)
    each = float(slots.sum()) / blocks
    sharing = -(-(blocks - np.arange(SLOTS)) // SLOTS)  # blocks that add to a sum
    beyond = np.where(sharing > 0, slots - np.maximum(sharing - 1, 0) * each, 0.0)
    return float(tally.longest), mean, max(1.0, float(beyond.max()) / each if each else 1.0)


def _mean_factor(amounts: Amounts, per_block: Amounts, sampled: int) -> float:
    sampled_mean = float(amounts.sum()) / sampled
    return float(amounts @ per_block) / sampled_mean if sampled_mean else 1.0


def _count_misses(
    chip: Chip, sample: Sample, board: _Board, per_block: Amounts, resident: int
) -> float:
    """Return how many sectors of a block miss if the block has its share of the first-level
    cache.
    """
    watch, loads = sample.watch, float(board.amounts["load_sectors"] @ per_block)
    bypassing = float(board.amounts["bypass_sectors"] @ per_block)
    order = np.concatenate(watch.order) if watch.order else np.empty(0, np.int64)
    streamed = np.concatenate(watch.streamed) if watch.streamed else np.empty(0, np.int64)
    accesses = len(order) + len(streamed)
    if not accesses:
        return loads
    cache_bytes = max(0, chip.l1_bytes - resident * sample.launch.shared_bytes)
    missed = cold = 0
    for slot in range(len(sample.places)):
        part = _count_block_misses(
            _of(order, slot), _of(streamed, slot), cache_bytes / resident / SECTOR
        )
        missed, cold = missed + part[0], cold + part[1]
    cached = max(0.0, loads - bypassing)
    if not sample.truncated:
        return bypassing + cached * missed / accesses
    # First accesses grow as they did in the sample; evictions are as frequent as in the sample.
    times = cached * len(sample.places) / accesses
    growth = footprints.growth_of([*watch.order, *watch.streamed], times)
    again = (missed - cold) / accesses * cached
    return bypassing + min(cached, cold / len(sample.places) * growth + again)


def _of(keys: Numbers, slot: int) -> Numbers:
    slots, sectors = slots_and_places(keys)
    own: Numbers = sectors[slots == slot]
    return own


def _count_block_misses(order: Numbers, streamed: Numbers, room: float) -> tuple[int, int]:
    """Return how many loads of a block miss, and how many are the first of their sector. Streamed
    sectors are evicted first.
    """
    missed, cold = reuse.misses(order, room), len(np.unique(order))
    together = len(np.unique(np.concatenate((order, streamed))))
    if together <= room:
        return missed + together - cold, together
    return missed + len(streamed), cold + len(np.unique(streamed))


def _hottest(watch: Watch, count: int, blocks: int) -> float:
    """Return the steps of atomic updates of the most updated part of memory in the launch: a slice
    of L2 has it.
    """
    if not watch.updated:
        return 0.0
    slots, words = slots_and_places(np.concatenate(watch.updated))
    addresses, which = np.unique(words, return_inverse=True)
    updates = np.bincount(which, minlength=len(addresses))
    owners = np.unique(which.astype(np.int64) << 20 | slots) >> 20
    sharing = np.bincount(owners, minlength=len(addresses))
    # Unless nearly all sampled blocks update a part, no other blocks are assumed to update it.
    all_share = (sharing > 1) & (sharing >= _NEARLY_ALL * count)
    whole = np.where(all_share, updates / count * blocks, updates)
    return float(whole.max())


def _wave(grid: Block, resident: int) -> Block:
    """Return the shape of the part of a grid that is resident at one time. Blocks are dispatched in
    order, x first.
    """
    x = min(grid[0], resident)
    y = min(grid[1], max(1, resident // grid[0]))
    z = min(grid[2], max(1, resident // (grid[0] * grid[1])))
    return x, y, z
