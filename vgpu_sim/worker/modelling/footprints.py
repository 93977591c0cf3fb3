"""Estimates how many bytes a grid accesses, from the accesses of sampled blocks.

Blocks mostly access the same pattern, shifted by a constant number of bytes for each step on an
axis of the grid. If the sampled blocks agree on those steps, the union over the grid is computed
exactly, whatever the distance between blocks that share data. If they do not (gathered
addresses), the overlap of sampled blocks at growing distances is extrapolated. No launch
accesses more memory than is mapped.
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
from vgpu_sim.worker.modelling.watch import Watch, slots_and_places
from vgpu_sim.worker.observing.accesses import Numbers

_MOST_RUNS: Final = 1 << 20  # ranges of bytes whose union is computed
_EVEN: Final = 0.25  # ratio of far to near blocks' overlap above which distance does not matter
_MOST_PAIRS: Final = 64
_ANCHORS: Final = 4
_AGREE: Final = 0.6  # share of the sampled blocks that must match the steps
_ALIKE: Final = 0.9  # share of a block's sectors that must match
_Steps = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Footprints:
    """The memory accesses of one sample. ``growths`` holds a ratio for each instruction. The ratio
    is how often an average block of the grid executes the instruction, divided by how often an
    average block of the sample executes it.
    """

    watch: Watch
    places: Sequence[Block]
    growths: Mapping[int, float]
    extents: Sequence[tuple[int, int]]

    def bytes(self, by_word: Mapping[int, list[Numbers]], grid: Block) -> float:
        """Return the number of bytes that a grid accesses by some instructions, each byte counted
        once. ``by_word`` holds the sampled accesses of each of these instructions.
        """
        keys = {word: np.unique(np.concatenate(parts)) for word, parts in by_word.items()}
        if not keys:
            return 0.0
        growths = {
            word: growth_of(parts, self.growths.get(word, 1.0)) for word, parts in by_word.items()
        }
        moved = {word: self._translate(word, some, grid) for word, some in keys.items()}
        runs = [one for one in moved.values() if one is not None]
        total, joined = 0.0, [np.empty(0, np.int64)] * 2
        if runs:
            joined = [np.concatenate(one) for one in zip(*runs, strict=True)]
            weights = {word: len(keys[word]) for word, one in moved.items() if one is not None}
            grown = sum(growths[word] * weight for word, weight in weights.items())
            total += _union(joined[0], joined[1]) * grown / sum(weights.values())
        left = {word: keys[word] for word, one in moved.items() if one is None}
        for words, some in _buffers(left):
            slots, sectors = slots_and_places(some)
            fresh = 1.0 - (_inside(sectors, joined[0], joined[1]) if runs else 0.0)
            growth = max(growths[word] for word in words)
            total += self._extrapolate(slots, sectors, grid) * growth * fresh
        everything = np.concatenate([slots_and_places(some)[1] for some in keys.values()])
        return min(total, self._most(everything))

    def _most(self, sectors: Numbers) -> float:
        """Return the size of the memory that contains these sectors."""
        if not self.extents:
            return float("inf")
        begins = np.array([begin for begin, _ in self.extents], dtype=np.int64)
        which = np.unique(np.searchsorted(begins, sectors * SECTOR + SECTOR - 1, side="right") - 1)
        return float(sum(self.extents[at][1] - self.extents[at][0] for at in which if at >= 0))

    def _translate(self, word: int, keys: Numbers, grid: Block) -> tuple[Numbers, Numbers] | None:
        """Return the (begins, ends) of all blocks' accesses by an instruction if these shift by a
        constant from block to block; else None.
        """
        slots, sectors = slots_and_places(keys)
        own = [sectors[slots == slot] for slot in range(len(self.places))]
        steps = self._steps(word, own)
        if steps is None:
            return None
        agree = [self._agreeing(own, slot, steps) for slot in range(min(_ANCHORS, len(own)))]
        anchor = int(np.argmax(agree))
        if agree[anchor] < _AGREE * (len(own) - 1):
            return None
        runs = _runs(own[anchor], steps, self.places[anchor], grid)
        if runs is not None and agree[anchor] < len(own) - 1:  # some shifted addresses wrap around
            low, high = int(sectors.min()) * SECTOR, (int(sectors.max()) + 1) * SECTOR
            inside = (runs[0] < high) & (runs[1] > low)
            runs = np.maximum(runs[0][inside], low), np.minimum(runs[1][inside], high)
        return runs

    def _steps(self, word: int, own: Sequence[Numbers]) -> _Steps | None:
        """Return by how many bytes an instruction's addresses shift along each axis of the grid, or
        None if they do not shift by constants.
        """
        lowest, places = self.watch.lowest[word], self.places
        steps = [0, 0, 0]
        for axis in range(3):
            guesses: list[int | None] = []
            for (one, here), (other, there) in combinations(enumerate(places), 2):
                apart = [a - b for a, b in zip(there, here, strict=True)]
                if not apart[axis] or any(apart[:axis] + apart[axis + 1 :]):
                    continue
                if len(own[one]) and len(own[other]):
                    moved = int(lowest[other] - lowest[one])
                    guesses.append(None if moved % apart[axis] else moved // apart[axis])
            known = [one for one in guesses if one is not None]
            if guesses and not known:
                return None
            if known:
                steps[axis] = max(set(known), key=known.count)
        return steps[0], steps[1], steps[2]

    def _agreeing(self, own: Sequence[Numbers], anchor: int, steps: _Steps) -> int:
        """Return how many other sampled blocks agree with the steps from the block ``anchor``."""
        return sum(
            self._agrees(own, anchor, slot, steps) for slot in range(len(own)) if slot != anchor
        )

    def _agrees(self, own: Sequence[Numbers], anchor: int, slot: int, steps: _Steps) -> bool:
        moved = sum(
            step * (one - other)
            for step, one, other in zip(steps, self.places[slot], self.places[anchor], strict=True)
        )
        low, high = moved // SECTOR, -(-moved // SECTOR)
        best = max(
            len(np.intersect1d(own[anchor] + by, own[slot], assume_unique=True))
            for by in (low, high)
        )
        return best >= _ALIKE * max(len(own[anchor]), len(own[slot]))

    def _extrapolate(self, slots: Numbers, sectors: Numbers, grid: Block) -> float:
        """Estimate the bytes that a grid accesses, from the overlap of sampled blocks at growing
        distances.
        """
        places = self.places
        own = [sectors[slots == slot] for slot in range(len(places))]
        if not len(own[0]):  # the first block has no access there: assume only the sectors observed
            return float(len(np.unique(sectors)) * SECTOR)
        overlaps: list[dict[int, float]] = [{}, {}, {}]
        for slot, place in enumerate(places[1:], 1):
            axes = [axis for axis in range(3) if place[axis] != places[0][axis]]
            if len(axes) != 1:
                continue
            distance = abs(place[axes[0]] - places[0][axes[0]])
            both = len(np.intersect1d(own[0], own[slot], assume_unique=True))
            overlaps[axes[0]][distance] = both / len(own[0])
        each = sum(map(len, own)) / len(own) * SECTOR
        found = footprint.bytes_touched(each, grid, overlaps)
        if max(grid) == prod(grid):
            found = min(found, self._span(own, max(grid)))
        order = sorted(range(len(own)), key=lambda slot: places[slot][::-1])
        if _is_even([own[slot] for slot in order]):
            union = len(np.unique(sectors)) * SECTOR
            found = min(found, footprint.bytes_touched_at_random(each, union, len(own), prod(grid)))
        return found

    def _span(self, own: Sequence[Numbers], count: int) -> float:
        """Return the bytes between the lowest and the highest address of ``count`` consecutive
        blocks, if addresses rise or fall monotonically; otherwise infinity.
        """
        blocks = sorted(
            (sum(self.places[slot]), slot) for slot, some in enumerate(own) if len(some)
        )
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
    later half of the given accesses.
    """
    if times <= 1.001 or not parts:
        return 1.0
    half = len(parts) // 2
    early = len(np.unique(np.concatenate(parts[:half]))) if half else 0
    whole = len(np.unique(np.concatenate(parts)))
    if not half or not whole:
        return times
    return 1 + (whole - early) / ((len(parts) - half) / len(parts)) * (times - 1) / whole


def _runs(own: Numbers, steps: _Steps, place: Block, grid: Block) -> tuple[Numbers, Numbers] | None:
    """Return (begins, ends) in bytes of all blocks' accesses; None if there are too many."""
    if not len(own):
        return own, own
    first = sum(step * at for step, at in zip(steps, place, strict=True))
    cut = np.flatnonzero(np.diff(own) != 1)
    begins = own[np.concatenate(([0], cut + 1))] * SECTOR - first
    ends = (own[np.concatenate((cut, [len(own) - 1]))] + 1) * SECTOR - first
    for step, count in sorted(zip(steps, grid, strict=True), key=lambda one: abs(one[0])):
        if step == 0 or count == 1:
            continue
        reach = step * (count - 1)
        if (ends - begins >= abs(step)).all():  # neighbours touch one another
            begins, ends = begins + min(0, reach), ends + max(0, reach)
        elif len(begins) * count > _MOST_RUNS:
            return None
        else:
            moves = np.arange(count, dtype=np.int64) * step
            begins = (begins[:, None] + moves).reshape(-1)
            ends = (ends[:, None] + moves).reshape(-1)
        begins, ends = _join(begins, ends)
    return begins, ends


def _join(begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """Join adjacent runs of bytes."""
    if not len(begins):
        return begins, ends
    order = np.argsort(begins, kind="stable")
    begins, reached = begins[order], np.maximum.accumulate(ends[order])
    fresh = np.concatenate(([True], begins[1:] > reached[:-1]))
    last = np.concatenate((np.flatnonzero(fresh)[1:] - 1, [len(begins) - 1]))
    return begins[fresh], reached[last]


def _union(begins: Numbers, ends: Numbers) -> float:
    begins, ends = _join(begins, ends)
    return float((-(-ends // SECTOR) - begins // SECTOR).sum()) * SECTOR


def _inside(sectors: Numbers, begins: Numbers, ends: Numbers) -> float:
    """Return the share of sectors that are inside the runs."""
    begins, ends = _join(begins, ends)
    which = np.searchsorted(begins, sectors * SECTOR, side="right") - 1
    inside = (which >= 0) & (sectors * SECTOR < ends[np.maximum(which, 0)])
    return float(np.count_nonzero(inside)) / max(1, len(sectors))


def _buffers(by_word: Mapping[int, Numbers]) -> list[tuple[list[int], Numbers]]:
    """Group the instructions that access the same memory, so that this memory counts once for each
    group.
    """
    buffers: list[tuple[list[int], Numbers]] = []
    for word, keys in by_word.items():
        words, mine = [word], keys
        apart = []
        for others, theirs in buffers:
            if len(np.intersect1d(mine, theirs, assume_unique=True)):
                words, mine = [*others, *words], np.union1d(mine, theirs)
            else:
                apart.append((others, theirs))
        buffers = [*apart, (words, mine)]
    return buffers


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
