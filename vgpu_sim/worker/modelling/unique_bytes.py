"""The distinct bytes that a launch accesses, from its samples and the exact counts of its code."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.errors import Block
from vgpu_sim.perf.kernels.chip import SECTOR
from vgpu_sim.records import dataclass
from vgpu_sim.worker.modelling.footprints import Footprints, load_spread
from vgpu_sim.worker.modelling.samples import Sample
from vgpu_sim.worker.modelling.watch import slots_and_places
from vgpu_sim.worker.observing.accesses import Numbers

_FEW: Final = 4  # active blocks of a sample
_NEAR: Final = (1, 2, 4, 16)
_ByWord = Mapping[int, list[Numbers]]


@dataclass(frozen=True, slots=True)
class UniqueBytes:
    """The accesses of a launch. ``beside`` is a second sample, ``visits`` has how often threads
    executed each instruction. ``unsampled`` are the sectors that the launch accesses by
    instructions that no sampled block executed, by kind (load or store): their addresses are
    unknown.
    """

    sample: Sample
    beside: Sample | None
    visits: NDArray[np.float64]
    unsampled: Mapping[str, float]

    def loaded_bytes(self, grid: Block) -> float:
        """Return the distinct bytes that the blocks of ``grid``, a part of the launch, load."""
        return self._bytes(lambda sample: sample.watch.loaded, "load", grid)

    def spread(self, unique_bytes: float) -> float:
        """Return the bytes that DRAM returns for the launch's loads of ``unique_bytes`` different
        bytes, divided by these: no more than what is allocated around the addresses.
        """
        places, blocks = len(self.sample.places), self.sample.launch.block_count
        ratio = load_spread(self.sample.watch, places, blocks)
        loaded = [part for parts in self.sample.watch.loaded.values() for part in parts]
        if not loaded or unique_bytes <= 0:
            return ratio
        sectors = slots_and_places(np.unique(np.concatenate(loaded)))[1]
        return max(1.0, min(ratio, self._footprints(self.sample).most(sectors) / unique_bytes))

    def stored_bytes(self, grid: Block) -> float:
        """Return the distinct bytes that the blocks of ``grid``, a part of the launch, store."""
        return self._bytes(lambda sample: sample.watch.stored, "store", grid)

    def _bytes(self, kind_of: Callable[[Sample], _ByWord], kind: str, grid: Block) -> float:
        share = prod(grid) / self.sample.launch.block_count
        total = self.unsampled[kind] * SECTOR * share
        for sample, by_word in self._divide(kind_of):
            total += self._footprints(sample).bytes(by_word, grid)
        memory = sum(end - begin for begin, end in self.sample.extents)
        return min(total, float(memory)) if memory else total

    def _divide(self, kind_of: Callable[[Sample], _ByWord]) -> list[tuple[Sample, _ByWord]]:
        """Assign each instruction to the sample in which more blocks execute it."""
        first = dict(kind_of(self.sample))
        if self.beside is None:
            return [(self.sample, first)]
        second = {
            word: parts
            for word, parts in kind_of(self.beside).items()
            if count_slots(parts) > count_slots(first.get(word, []))
        }
        first = {word: parts for word, parts in first.items() if word not in second}
        return [(self.sample, first), (self.beside, second)]

    def _footprints(self, sample: Sample) -> Footprints:
        present = sample.watch.present
        factors = np.divide(
            self.visits, present, out=np.zeros(len(present)), where=present > 0
        ).tolist()
        blocks = sample.launch.block_count
        return Footprints(
            sample.watch,
            sample.places,
            dict(enumerate(factors)),
            sample.extents,
            blocks,
            sample.truncated,
        )


def count_slots(parts: list[Numbers]) -> int:
    """Return the number of sampled blocks with these accesses."""
    return len(np.unique(slots_and_places(np.concatenate(parts))[0])) if parts else 0


def blocks_beside(sample: Sample, factors: NDArray[np.float64]) -> list[int]:
    """Return blocks around one that accesses memory by instructions that few of the sampled blocks
    execute, but more blocks of the launch; empty if there are no such instructions.
    """
    total, sampled = sample.launch.block_count, len(sample.places)
    accesses = [*sample.watch.loaded.items(), *sample.watch.stored.items()]
    for word, parts in [] if sample.truncated else accesses:
        slots = np.unique(slots_and_places(np.concatenate(parts))[0])
        active = float(factors[word]) * len(slots)
        if len(slots) < min(_FEW, sampled) and active >= _FEW:
            x, y, z = sample.places[slots[0]]
            grid = sample.launch.grid
            return blocks_around(x + grid[0] * (y + grid[1] * z), active, total)
    return []


def blocks_around(block: int, active: float, total: int) -> list[int]:
    """Return blocks near a given one: its neighbours, and those at multiples of the mean distance
    of the ``active`` blocks among all.
    """
    every = max(1, round(total / active))
    apart = [0]
    for step in _NEAR:
        apart += [step, -step, step * every, -step * every]
    return list(dict.fromkeys(block + step for step in apart if 0 <= block + step < total))
