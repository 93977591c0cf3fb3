"""Estimates how many bytes a grid accesses, from the accesses of sampled blocks.

Blocks mostly access the same pattern, shifted by a constant number of bytes for each step on an
axis of the grid. If the sampled blocks agree on those steps, the union over the grid is computed
exactly, whatever the distance between blocks that share data. If they do not (gathered
addresses), the overlap of sampled blocks at growing distances is extrapolated. Blocks that do
not execute an access, such as those beyond the end of the data, take no part in this. No launch
accesses more memory than is allocated.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Final

import numpy as np

from vgpu_sim.exec.errors import Block
from vgpu_sim.perf.kernels import footprint
from vgpu_sim.perf.kernels.chip import SECTOR
from vgpu_sim.records import dataclass
from vgpu_sim.worker.modelling.active_blocks import Part, part_of
from vgpu_sim.worker.modelling.byte_runs import Steps, runs_of, share_inside, union_bytes
from vgpu_sim.worker.modelling.watch import Watch, slots_and_places
from vgpu_sim.worker.observing.accesses import Numbers

_EVEN: Final = 0.25  # ratio of far to near blocks' overlap above which distance does not matter
_MOST_PAIRS: Final = 64
_ANCHORS: Final = 4
_AGREE: Final = 0.6  # share of the sampled blocks that must match the steps
_FEWER: Final = 0.9  # share of the accesses from which on a block is regarded as an average one
_ALIKE: Final = 0.9  # share of a block's sectors that must match


@dataclass(frozen=True, slots=True)
class Footprints:
    """The memory accesses of one sample. ``factors`` has for each instruction its visits in the
    whole launch, divided by those in the sample.
    """

    watch: Watch
    places: Sequence[Block]
    factors: Mapping[int, float]
    extents: Sequence[tuple[int, int]]
    blocks: int
    truncated: bool

    def bytes(self, by_word: Mapping[int, list[Numbers]], grid: Block) -> float:
        """Return the number of bytes that a grid accesses by some instructions, each byte counted
        once. ``by_word`` holds the sampled accesses of each of these instructions.
        """
        words = [
            _Accesses(word, parts, self._part(word, parts, grid)) for word, parts in by_word.items()
        ]
        if not words:
            return 0.0
        moved = [(accesses, self._translate(accesses)) for accesses in words]
        regular = [(accesses, runs) for accesses, runs in moved if runs is not None]
        total = 0.0
        first_keys = last_keys = np.empty(0, np.int64)
        if regular:
            begins, ends = zip(*(runs for _, runs in regular), strict=True)
            first_keys, last_keys = np.concatenate(begins), np.concatenate(ends)
            grown = sum(accesses.growth * len(accesses.keys) for accesses, _ in regular)
            sample_keys = sum(len(accesses.keys) for accesses, _ in regular)
            total += union_bytes(first_keys, last_keys) * grown / sample_keys
        for buffer in _buffers([accesses for accesses, runs in moved if runs is None]):
            keys = np.unique(np.concatenate([accesses.keys for accesses in buffer]))
            slots, sectors = slots_and_places(keys)
            fresh = 1.0 - (share_inside(sectors, first_keys, last_keys) if regular else 0.0)
            growth = max(accesses.growth for accesses in buffer)
            part = max((accesses.part for accesses in buffer), key=lambda part: part.blocks)
            total += self._extrapolate(slots, sectors, part) * growth * fresh
        everything = np.concatenate([slots_and_places(accesses.keys)[1] for accesses in words])
        return min(total, self.most(everything))

    def _part(self, word: int, parts: Sequence[Numbers], grid: Block) -> Part:
        """Return the part of a grid whose blocks access memory by an instruction."""
        slots = np.unique(slots_and_places(np.concatenate(parts))[0])
        active = [self.places[slot] for slot in slots.tolist()]
        counted = self.factors.get(word, self.blocks / len(self.places)) * len(active)
        return part_of(
            grid, self.blocks, active, self.places, counted, is_complete=not self.truncated
        )

    def most(self, sectors: Numbers) -> float:
        """Return the size of the memory that contains these sectors."""
        if not self.extents:
            return float("inf")
        begins = np.array([begin for begin, _ in self.extents], dtype=np.int64)
        which = np.unique(np.searchsorted(begins, sectors * SECTOR + SECTOR - 1, side="right") - 1)
        return float(sum(self.extents[at][1] - self.extents[at][0] for at in which if at >= 0))

    def _translate(self, access: "_Accesses") -> tuple[Numbers, Numbers] | None:
        """Return the (begins, ends) of all blocks' accesses by an instruction if these shift by a
        constant from block to block; else None.
        """
        part = access.part
        slots, sectors = slots_and_places(access.keys)
        own = [sectors[slots == slot] for slot in range(len(self.places))]
        active = [slot for slot, block_sectors in enumerate(own) if len(block_sectors)]
        steps = self._steps(access.word, own, part)
        if steps is None:
            return None
        agree = [self._agreeing(own, active, slot, steps) for slot in active[:_ANCHORS]]
        anchor = int(np.argmax(agree))
        if agree[anchor] < _AGREE * (len(active) - 1):
            return None
        place = self.places[active[anchor]]
        x, y, z = (at - begin for at, begin in zip(place, part.begin, strict=True))
        # Blocks of which one in several is active are regarded as neighbours.
        wide = steps[0] * part.every, steps[1], steps[2]
        runs = runs_of(own[active[anchor]], wide, (x // part.every, y, z), part.shape)
        if runs is not None and agree[anchor] < len(active) - 1:  # some addresses wrap around
            low, high = int(sectors.min()) * SECTOR, (int(sectors.max()) + 1) * SECTOR
            inside = (runs[0] < high) & (runs[1] > low)
            runs = np.maximum(runs[0][inside], low), np.minimum(runs[1][inside], high)
        return runs

    def _steps(self, word: int, own: Sequence[Numbers], part: Part) -> Steps | None:
        """Return by how many bytes an instruction's addresses shift along each axis of the grid, or
        None if they do not shift by constants, or if too few blocks were sampled.
        """
        lowest, places = self.watch.lowest[word], self.places
        steps = [0, 0, 0]
        for axis in range(3):
            guesses: list[int | None] = []
            for (first_slot, first_place), (second_slot, second_place) in combinations(
                enumerate(places), 2
            ):
                apart = [a - b for a, b in zip(second_place, first_place, strict=True)]
                if not apart[axis] or any(apart[:axis] + apart[axis + 1 :]):
                    continue
                if len(own[first_slot]) and len(own[second_slot]):
                    moved = int(lowest[second_slot] - lowest[first_slot])
                    guesses.append(None if moved % apart[axis] else moved // apart[axis])
            shifts = [guess for guess in guesses if guess is not None]
            if not shifts and (guesses or (part.is_partial and part.shape[axis] > 1)):
                return None
            if shifts:
                steps[axis] = max(set(shifts), key=shifts.count)
        return steps[0], steps[1], steps[2]

    def _agreeing(
        self, own: Sequence[Numbers], active: Sequence[int], anchor: int, steps: Steps
    ) -> int:
        """Return how many other active blocks agree with the steps from the block ``anchor``."""
        return sum(self._agrees(own, anchor, slot, steps) for slot in active if slot != anchor)

    def _agrees(self, own: Sequence[Numbers], anchor: int, slot: int, steps: Steps) -> bool:
        moved = sum(
            step * (coordinate - anchor_coordinate)
            for step, coordinate, anchor_coordinate in zip(
                steps, self.places[slot], self.places[anchor], strict=True
            )
        )
        low, high = moved // SECTOR, -(-moved // SECTOR)
        best = max(
            len(np.intersect1d(own[anchor] + by, own[slot], assume_unique=True))
            for by in (low, high)
        )
        return best >= _ALIKE * max(len(own[anchor]), len(own[slot]))

    def _extrapolate(self, slots: Numbers, sectors: Numbers, part: Part) -> float:
        """Estimate the bytes that a part of a grid accesses, from the overlap of sampled blocks at
        growing distances.
        """
        active = np.unique(slots).tolist()
        own = [sectors[slots == slot] for slot in active]
        places = [self.places[slot] for slot in active]
        overlaps: list[dict[int, float]] = [{}, {}, {}]
        for block_sectors, place in zip(own[1:], places[1:], strict=True):
            axes = [axis for axis in range(3) if place[axis] != places[0][axis]]
            if len(axes) != 1:
                continue
            distance = abs(place[axes[0]] - places[0][axes[0]])
            distance = max(1, distance // part.every) if axes == [0] else distance
            common_count = len(np.intersect1d(own[0], block_sectors, assume_unique=True))
            overlaps[axes[0]][distance] = common_count / len(own[0])
        each = sum(map(len, own)) / len(own) * SECTOR
        touched = footprint.bytes_touched(each, part.shape, overlaps)
        if max(part.shape) == prod(part.shape):
            touched = min(touched, _span(places, own, max(part.shape) * part.every))
        order = sorted(range(len(own)), key=lambda place: places[place][::-1])
        if _is_even([own[place] for place in order]):
            union = len(np.unique(sectors)) * SECTOR
            touched = min(
                touched, footprint.bytes_touched_at_random(each, union, len(own), part.blocks)
            )
        return touched


@dataclass(frozen=True, slots=True)
class _Accesses:
    """The sampled accesses of one instruction, and the part of the grid that executes it."""

    word: int
    parts: Sequence[Numbers]
    part: Part

    @property
    def keys(self) -> Numbers:
        """The slots and sectors, each once."""
        return np.unique(np.concatenate(self.parts))

    @property
    def growth(self) -> float:
        """The factor for the distinct sectors of a block."""
        return growth_of(self.parts, self.part.growth)


def _span(places: Sequence[Block], own: Sequence[Numbers], count: int) -> float:
    """Return the bytes between the lowest and the highest address of ``count`` consecutive blocks,
    if addresses rise or fall monotonically; otherwise infinity.
    """
    blocks = sorted((sum(place), slot) for slot, place in enumerate(places))
    lows = np.array([own[slot][0] for _, slot in blocks])
    highs = np.array([own[slot][-1] for _, slot in blocks])
    moves = np.diff(lows + highs)
    if len(blocks) < 2 or not ((moves >= 0).all() or (moves <= 0).all()):
        return float("inf")
    step = abs(float(lows[-1] - lows[0])) / (blocks[-1][0] - blocks[0][0])
    return (step * (count - 1) + float((highs - lows).max()) + 1) * SECTOR


def _is_even(own: Sequence[Numbers]) -> bool:
    """Return whether distant blocks overlap as much as near ones."""
    pairs = sorted(combinations(range(len(own)), 2), key=lambda pair: pair[1] - pair[0])
    pairs = pairs[: _MOST_PAIRS // 2] + pairs[_MOST_PAIRS // 2 :][-_MOST_PAIRS // 2 :]
    common = [len(np.intersect1d(own[a], own[b], assume_unique=True)) for a, b in pairs]
    near, far = sum(common[: len(common) // 2]), sum(common[len(common) // 2 :])
    return far > 0 and far >= _EVEN * near


def growth_of(parts: Sequence[Numbers], times: float) -> float:
    """Return the factor by which the number of distinct sectors would grow if the number of
    accesses grew by the factor ``times``. New sectors are assumed to appear as often as in the
    later half of the given accesses. If it shrank (``times`` is below 1), the first accesses
    remain.
    """
    if not parts or _FEWER <= times <= 1.001:
        return 1.0
    if times < _FEWER:
        fewer = np.concatenate(parts[: max(1, round(len(parts) * times))])
        return len(np.unique(fewer)) / len(np.unique(np.concatenate(parts)))
    half = len(parts) // 2
    early = len(np.unique(np.concatenate(parts[:half]))) if half else 0
    whole = len(np.unique(np.concatenate(parts)))
    if not half or not whole:
        return times
    return 1 + (whole - early) / ((len(parts) - half) / len(parts)) * (times - 1) / whole


def _buffers(accesses: Sequence[_Accesses]) -> list[list[_Accesses]]:
    """Group the instructions that access the same memory, so that this memory counts once for each
    group.
    """
    buffers: list[tuple[list[_Accesses], Numbers]] = []
    for word_accesses in accesses:
        group, keys = [word_accesses], word_accesses.keys
        apart = []
        for members, theirs in buffers:
            if len(np.intersect1d(keys, theirs, assume_unique=True)):
                group, keys = [*members, *group], np.union1d(keys, theirs)
            else:
                apart.append((members, theirs))
        buffers = [*apart, (group, keys)]
    return [group for group, _ in buffers]


def load_spread(watch: Watch, count: int, blocks: int) -> float:
    """Return the bytes that DRAM returns for the launch's loads, divided by those of their sectors:
    DRAM returns two sectors at a time.

    The share of sectors whose neighbour is loaded too grows with the number of blocks that gather
    from the same memory. It is the same for one sampled block and for all of them if blocks load
    disjoint memory, and is extrapolated linearly to the ``blocks`` of the launch otherwise.
    """
    parts = [part for parts in watch.loaded.values() for part in parts]
    if not parts:
        return 1.0
    own = np.unique(np.concatenate(parts))
    paired = 2.0 - _pair_ratio(own)
    if count > 1:
        together = 2.0 - _pair_ratio(np.unique(slots_and_places(own)[1]))
        paired += max(0.0, together - paired) * (blocks - 1) / (count - 1)
    return max(1.0, 2.0 - paired)


def _pair_ratio(sectors: Numbers) -> float:
    """Return the sectors of all pairs with a loaded sector, divided by the loaded sectors."""
    return 2 * len(np.unique(sectors >> 1)) / len(sectors)
