"""How many bytes a grid touches, from what sampled blocks touched.

Blocks mostly touch the same shape, moved by so many bytes for each step on an axis of the grid.
Where the sampled blocks agree on those steps the union over the grid is arithmetic, whatever the
distance at which blocks share. Where they do not (gathered addresses), the shares that blocks at
growing distances have in common stand for all. No launch touches more than there is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from vgpu_sim.exec.errors import Block
from vgpu_sim.perf.kernels import footprint
from vgpu_sim.perf.kernels.chip import SECTOR
from vgpu_sim.worker.observing.accesses import Numbers
from vgpu_sim.worker.observing.watch import Watch, slots_and_places

_MOST_RUNS: Final = 1 << 20  # of which a union is taken
_AGREE: Final = 0.6  # share of the sampled blocks that must lie where the steps say
_ALIKE: Final = 0.9  # share of a block's sectors that must lie there
_Steps = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Footprints:
    """Of one sample. ``growths`` by word: how much oftener blocks come there than was sampled."""

    watch: Watch
    places: Sequence[Block]
    growths: Mapping[int, float]
    extents: Sequence[tuple[int, int]]

    def bytes(self, by_word: Mapping[int, list[Numbers]], grid: Block) -> float:
        """Return the bytes that a grid touches by these words, each once."""
        total = 0.0
        for words, keys in _buffers(by_word):
            slots, sectors = slots_and_places(keys)
            growth = max(growth_of(by_word[word], self.growths.get(word, 1.0)) for word in words)
            found = self._moved(by_word, words, grid)
            if found is None:
                found = self._shared(slots, sectors, grid)
            total += min(found * growth, self._most(sectors))
        return total

    def _most(self, sectors: Numbers) -> float:
        """Return the size of the memory that these sectors are of."""
        if not self.extents:
            return float("inf")
        begins = np.array([begin for begin, _ in self.extents], dtype=np.int64)
        which = np.unique(np.searchsorted(begins, sectors * SECTOR + SECTOR - 1, side="right") - 1)
        return float(sum(self.extents[at][1] - self.extents[at][0] for at in which if at >= 0))

    def _moved(
        self, by_word: Mapping[int, list[Numbers]], words: Sequence[int], grid: Block
    ) -> float | None:
        """Return the union of shapes that move with the block; None where they do not."""
        begins, ends = [], []
        for word in words:
            slots, sectors = slots_and_places(np.unique(np.concatenate(by_word[word])))
            own = [sectors[slots == slot] for slot in range(len(self.places))]
            steps = self._steps(word, own)
            if steps is None:
                return None
            runs = _runs(own[0], steps, grid)
            if runs is None:
                return None
            begins.append(runs[0])
            ends.append(runs[1])
        return _union(np.concatenate(begins), np.concatenate(ends))

    def _steps(self, word: int, own: Sequence[Numbers]) -> _Steps | None:
        """Return by how many bytes a word's addresses move along each axis, if they do."""
        lowest, places = self.watch.lowest[word], self.places
        if not len(own[0]):
            return None
        steps = [0, 0, 0]
        for axis in range(3):
            guesses = []
            for slot, place in enumerate(places[1:], 1):
                apart = [one - other for one, other in zip(place, places[0], strict=True)]
                if apart[axis] and not any(apart[:axis] + apart[axis + 1 :]) and len(own[slot]):
                    moved = int(lowest[slot] - lowest[0])
                    guesses.append(moved // apart[axis] if moved % apart[axis] == 0 else None)
            known = [one for one in guesses if one is not None]
            if not guesses:
                continue
            if not known:
                return None
            steps[axis] = max(set(known), key=known.count)
        x, y, z = steps
        agree = sum(self._agrees(own, slot, (x, y, z)) for slot in range(1, len(places)))
        return (x, y, z) if agree >= _AGREE * (len(places) - 1) else None

    def _agrees(self, own: Sequence[Numbers], slot: int, steps: _Steps) -> bool:
        moved = sum(
            step * (one - other)
            for step, one, other in zip(steps, self.places[slot], self.places[0], strict=True)
        )
        low, high = moved // SECTOR, -(-moved // SECTOR)
        best = max(
            len(np.intersect1d(own[0] + by, own[slot], assume_unique=True)) for by in (low, high)
        )
        return best >= _ALIKE * max(len(own[0]), len(own[slot]))

    def _shared(self, slots: Numbers, sectors: Numbers, grid: Block) -> float:
        """Return the bytes by what blocks at growing distances have in common."""
        places = self.places
        own = [sectors[slots == slot] for slot in range(len(places))]
        if not len(own[0]):  # the first block has nothing there: no more than what was seen
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
        return footprint.spread(each, grid, overlaps)


def growth_of(parts: Sequence[Numbers], times: float) -> float:
    """Return by how much what these accesses touch would grow if there were ``times`` as many: the
    later half of them shows how fast."""
    if times <= 1.001 or not parts:
        return 1.0
    half = len(parts) // 2
    early = len(np.unique(np.concatenate(parts[:half]))) if half else 0
    whole = len(np.unique(np.concatenate(parts)))
    if not half or not whole:
        return times
    return 1 + (whole - early) / ((len(parts) - half) / len(parts)) * (times - 1) / whole


def _runs(own: Numbers, steps: _Steps, grid: Block) -> tuple[Numbers, Numbers] | None:
    """Return (begins, ends) in bytes of what all blocks touch; None where that is too much."""
    cut = np.flatnonzero(np.diff(own) != 1)
    begins = own[np.concatenate(([0], cut + 1))] * SECTOR
    ends = (own[np.concatenate((cut, [len(own) - 1]))] + 1) * SECTOR
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
        begins, ends = _joined(begins, ends)
    return begins, ends


def _joined(begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """Join runs that touch."""
    order = np.argsort(begins, kind="stable")
    begins, reached = begins[order], np.maximum.accumulate(ends[order])
    fresh = np.concatenate(([True], begins[1:] > reached[:-1]))
    last = np.concatenate((np.flatnonzero(fresh)[1:] - 1, [len(begins) - 1]))
    return begins[fresh], reached[last]


def _union(begins: Numbers, ends: Numbers) -> float:
    begins, ends = _joined(begins, ends)
    return float((-(-ends // SECTOR) - begins // SECTOR).sum()) * SECTOR


def _buffers(by_word: Mapping[int, list[Numbers]]) -> list[tuple[list[int], Numbers]]:
    """Join the words that touch the same memory: what several of them touch counts once."""
    buffers: list[tuple[list[int], Numbers]] = []
    for word, parts in by_word.items():
        words, mine = [word], np.unique(np.concatenate(parts))
        apart = []
        for others, theirs in buffers:
            if len(np.intersect1d(mine, theirs, assume_unique=True)):
                words, mine = [*others, *words], np.union1d(mine, theirs)
            else:
                apart.append((others, theirs))
        buffers = [*apart, (words, mine)]
    return buffers
