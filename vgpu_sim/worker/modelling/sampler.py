"""Samples a launch: runs some of its blocks on the interpreter, over a copy of their stores."""

import random
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from math import prod
from typing import Final

import numpy as np

from vgpu_sim.exec import interp
from vgpu_sim.exec.errors import Block
from vgpu_sim.exec.interp import Memory
from vgpu_sim.exec.interp.cta import ResidentBlocks
from vgpu_sim.exec.interp.launch import InterpretedLaunch
from vgpu_sim.exec.interp.numbers.bits import Mask
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.isa import Function, Instruction, Module
from vgpu_sim.perf.kernels import footprint
from vgpu_sim.perf.kernels.chip import WARP, Chip
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.records import dataclass
from vgpu_sim.worker.modelling.samples import Sample, Shape
from vgpu_sim.worker.modelling.scaling import counts_of
from vgpu_sim.worker.modelling.watch import MOST_WORDS, SampleEnded, Watch
from vgpu_sim.worker.observing.counting import Plan
from vgpu_sim.worker.observing.dependence import dependence_of
from vgpu_sim.worker.observing.overlay import Overlay, OverlayFull
from vgpu_sim.worker.observing.tallies import Tally

_MOST_BLOCKS: Final = 16
_MOST_SEARCHED: Final = 1024  # blocks
_MOST_WORDS_OF_SEARCH: Final = 2000
_MOST_LANES: Final = 1 << 14
_MOST_SHARED_BYTES: Final = 1 << 24
_MOST_CELLS: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Place:
    """Where a launch runs: the addresses of its module's variables, and its special registers.

    ``extents`` are the ranges of mapped memory, as (begin, end). The launch can access no other
    memory.
    """

    segment_base: int
    multiprocessors: int
    extents: Sequence[tuple[int, int]] = ()


def sample(
    module: Module,
    function: Function,
    launch: Launch,
    place: Place,
    memory: Memory,
    most_words: int = MOST_WORDS,
    blocks: Iterable[int] | None = None,
) -> Sample:
    """Run some blocks of a launch on the interpreter; return what they executed.

    ``blocks`` are the indices of the blocks to run; if it is None, the sampler chooses them. The
    blocks' stores go to an overlay, so ``memory`` is not modified. The sample ends after
    ``most_words`` instructions, whether the blocks have finished or not.

    Raises:
        ExecutionError, ValueError: the blocks cannot run, or they fault. The launch will then
            fail, too.
    """
    checked = _prepare(module, function, launch, place, memory)
    grid = launch.grid
    room = _room(checked)
    if blocks is None:
        places = footprint.blocks_to_sample(grid, room)
    else:
        places = [_place_of(index, grid) for index in [*blocks][:room]]
    indices = [x + grid[0] * (y + grid[1] * z) for x, y, z in places]
    if checked.cluster_blocks > 1:  # the blocks of a cluster run together
        indices = [*dict.fromkeys(b for index in indices for b in checked.cluster_with(index))]
    resident = ResidentBlocks(checked, indices, len(indices))
    resident.watch = watch = Watch(resident, most_words)
    truncated = False
    try:
        with np.errstate(all="ignore"):
            while not resident.done:
                resident.run_round()
    except (SampleEnded, OverlayFull):
        truncated = True
    dependence = dependence_of(function)
    watch.finish()
    shape = Shape(
        function,
        grid,
        checked.threads_per_block,
        checked.warps_per_block,
        checked.shared_bytes,
    )
    return Sample(shape, watch, tuple(places), truncated, dependence, tuple(place.extents))


def find_block(
    module: Module,
    function: Function,
    launch: Launch,
    place: Place,
    memory: Memory,
    words: Container[int],
) -> int | None:
    """Run random blocks of a launch until one executes an instruction of ``words``; return its
    index, or None if none does. Blocks that end early, such as those beyond the end of the data,
    cost little.

    Raises:
        ExecutionError, ValueError: as ``sample``.
    """
    checked = _prepare(module, function, launch, place, memory)
    total = prod(launch.grid)
    order = random.Random(repr(launch.grid)).sample(range(total), min(total, _MOST_SEARCHED))
    size = max(1, _MOST_LANES // (checked.warps_per_block * WARP))
    for first in range(0, len(order), size):
        batch = order[first : first + size]
        indices = [*dict.fromkeys(b for index in batch for b in checked.cluster_with(index))]
        resident = ResidentBlocks(checked, indices, len(indices))
        resident.watch = search = _Search(resident, words)
        with suppress(SampleEnded, OverlayFull), np.errstate(all="ignore"):
            while not resident.done:
                resident.run_round()
        if search.slot is not None:
            return indices[search.slot]
    return None


class _Search:
    """Ends a run when a block executes an instruction of ``words``, in the slot ``slot``."""

    def __init__(self, blocks: ResidentBlocks, words: Container[int]) -> None:
        self._blocks, self._words = blocks, words
        self._lanes = blocks.launch.warps_per_block * WARP
        self._left = _MOST_WORDS_OF_SEARCH
        self.slot: int | None = None

    def __call__(self, instruction: Instruction, mask: Mask, allowed: Mask) -> None:
        if self._blocks.word in self._words:
            self.slot = int(np.flatnonzero(mask)[0]) // self._lanes
        self._left -= 1
        if self.slot is not None or self._left < 0:
            raise SampleEnded


def _prepare(
    module: Module, function: Function, launch: Launch, place: Place, memory: Memory
) -> InterpretedLaunch:
    """Return a launch whose stores go to an overlay of the memory."""
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
        launch.cluster,
    )
    checked.place_parameters()
    return checked


def predict_counts(
    chip: Chip,
    module: Module,
    function: Function,
    launch: Launch,
    place: Place,
    memory: Memory,
    most_words: int = MOST_WORDS,
    counted: tuple[Plan, Tally] | None = None,
) -> Counts:
    """Predict the counts of a launch from a sample of its blocks. ``counted`` is the plan of the
    kernel's counters, with their values. If ``counted`` is given, the prediction uses these
    values, too.

    Raises:
        ExecutionError, ValueError: as ``sample``.
    """
    return counts_of(chip, sample(module, function, launch, place, memory, most_words), counted)


def _place_of(index: int, grid: Block) -> Block:
    return index % grid[0], index // grid[0] % grid[1], index // (grid[0] * grid[1])


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
