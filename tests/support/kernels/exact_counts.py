"""Generated kernels: counts from samples and counters, compared with interpreting the whole
grid.
"""

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from support.kernels.generated_kernels import WORDS, Generated
from vgpu_sim import compiler
from vgpu_sim.exec import interp
from vgpu_sim.exec.interp import BufferMemory
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.isa import Function, Module
from vgpu_sim.perf.kernels import Chip, Counts, Estimate, estimate
from vgpu_sim.perf.kernels.chip import SECTOR
from vgpu_sim.perf.kernels.scoreboard import CHAIN
from vgpu_sim.worker.modelling.sampler import Place, sample
from vgpu_sim.worker.modelling.samples import Sample
from vgpu_sim.worker.modelling.scaling import counts_of, later_blocks
from vgpu_sim.worker.modelling.watch import MOST_WORDS, slots_and_places
from vgpu_sim.worker.modelling.weights import weigh
from vgpu_sim.worker.observing.counting import ONCE, SLOTS, Plan, instrument
from vgpu_sim.worker.observing.dependence import Dependence
from vgpu_sim.worker.observing.tallies import Tally

BASE = 0x2000_0000_0000
_PAGE = 4096
_BATCH = 16
_SEGMENT = 1 << 16
_ALL_WORDS = 1 << 40


@dataclass(frozen=True)
class Comparison:
    """The comparison of one kernel. ``wrong``: counters that differ from the interpreter's counts,
    by name.
    """

    kernel: Generated
    found: Estimate
    exact: Estimate
    wrong: tuple[str, ...]

    @property
    def error(self) -> float:
        """Return the relative error of the time against that from exact counts, without the launch
        overhead.
        """
        body = self.exact.us - self.exact.times.launch
        return abs(self.found.us - self.exact.us) / body

    def off(self, share: float) -> dict[str, tuple[float, float]]:
        """Return the counts whose predicted and exact values differ by more than a share of the
        greater.
        """
        result = {}
        for name in (one.name for one in fields(Counts)):
            if name in ("sampled", "bound", *CHAIN):
                continue
            one, other = getattr(self.found.counts, name), getattr(self.exact.counts, name)
            if abs(one - other) > share * max(one, other) + 1e-6:
                result[name] = (one, other)
        return result


def compare(chip: Chip, kernel: Generated, most_words: int = MOST_WORDS) -> Comparison:
    """Compare the product's prediction for a kernel with one from all of its blocks."""
    rig = _Rig(chip, kernel)
    plan, tally = rig.tally()
    seen = rig.sample(None, most_words)
    blocks = later_blocks(seen, (plan, tally))
    beside = rig.sample(blocks, most_words) if blocks else None
    found = counts_of(chip, seen, (plan, tally), beside)
    parts = [
        rig.sample(range(first, min(first + _BATCH, rig.blocks)), _ALL_WORDS)
        for first in range(0, rig.blocks, _BATCH)
    ]
    exact = _exact(chip, rig, parts, (plan, tally))
    return Comparison(
        kernel, estimate(chip, found), estimate(chip, exact), tuple(_wrong(rig, parts, plan, tally))
    )


class _Rig:
    def __init__(self, chip: Chip, kernel: Generated) -> None:
        self.chip, self.kernel = chip, kernel
        self.module: Module = compiler.compile_ptx(kernel.source, capability=(8, 0))
        (self.function,) = self.module.functions
        self.blocks = kernel.grid[0]
        sizes = (4 * WORDS, 4 * WORDS, 4 * self.blocks * kernel.block[0])
        self._memory = bytearray(_SEGMENT)
        self.extents, addresses = [(BASE, BASE + _SEGMENT)], []
        for size in sizes:
            addresses.append(BASE + len(self._memory))
            self._memory += bytes(-(-size // _PAGE) * _PAGE)
            self.extents.append((addresses[-1], BASE + len(self._memory)))
        at = addresses[0] - BASE
        self._memory[at : at + 4 * WORDS] = kernel.data.astype("<u4").tobytes()
        parameters = struct.pack("<3QI", *addresses, kernel.number)
        self.launch = Launch(self.function.name, kernel.grid, kernel.block, parameters, 0)

    def tally(self) -> tuple[Plan, Tally]:
        """Run the kernel with counters, and read them."""
        module, plans = instrument(self.module, weigh)
        plan = plans[self.function.name]
        memory = bytearray(self._memory)
        function: Function = module.function(self.function.name)
        interp.run(
            module,
            function,
            self.launch.grid,
            self.launch.block,
            self.launch.parameters,
            BufferMemory(BASE, memory),
            BASE,
        )
        words = np.frombuffer(memory, np.uint64, plan.bytes // 8, plan.offset)
        counters = tuple(words[: plan.counters].tolist())
        if not plan.loops:
            return plan, Tally(counters, 0, None)
        return plan, Tally(counters, int(words[plan.counters]), words[plan.counters + 1 :])

    def sample(self, blocks: Sequence[int] | None, most_words: int) -> Sample:
        """Sample some blocks; None: those that the product chooses."""
        place = Place(BASE, self.chip.sms, self.extents)
        memory = BufferMemory(BASE, bytearray(self._memory))
        return sample(self.module, self.function, self.launch, place, memory, most_words, blocks)


def _wrong(rig: _Rig, parts: list[Sample], plan: Plan, tally: Tally) -> list[str]:
    """Return the instructions whose execution counts are wrong, and blocks whose issue counts
    are.
    """
    visits = sum(part.watch.present for part in parts)
    threads = rig.blocks * rig.kernel.block[0]
    wrong = []
    for word, number in enumerate(plan.counter_of):
        said = threads if number == ONCE else tally.counters[number]
        if said != visits[word]:
            wrong.append(f"word {word}: {said} visits, not {visits[word]}")
    if tally.slots is not None:
        assert rig.blocks <= SLOTS
        issues = sum(plan.issues[n] * int(v) for n, v in enumerate([*tally.counters, threads]))
        if int(tally.slots.sum()) != issues:
            wrong.append(f"issues: {int(tally.slots.sum())} in slots, {issues} by counters")
    return wrong


def _exact(chip: Chip, rig: _Rig, parts: list[Sample], counted: tuple[Plan, Tally]) -> Counts:
    """Return counts from all blocks: sums, unions of sectors, steps of updates by memory."""
    each = [counts_of(chip, _alone(part), None) for part in parts]
    weights = [len(part.places) / rig.blocks for part in parts]
    values = {
        one.name: float(
            sum(getattr(c, one.name) * weight for c, weight in zip(each, weights, strict=True))
        )
        for one in fields(Counts)
    }
    extremes = counts_of(chip, rig.sample(None, MOST_WORDS), counted)
    values |= {
        name: getattr(extremes, name)
        for name in ("longest_cycles", "mean_cycles", "heaviest_block")
    }
    values["blocks"], values["bound"] = float(rig.blocks), 0.0
    loaded, stored = (_sectors(parts, kind) for kind in ("loaded", "stored"))
    values["unique_load_bytes"] = values["wave_load_bytes"] = float(SECTOR * len(loaded))
    values["unique_store_bytes"] = float(SECTOR * len(stored))
    updates: Counter[int] = Counter()
    for part in parts:
        for keys in part.watch.updated:
            updates.update(slots_and_places(keys)[1].tolist())
    loads = np.array(sorted(loaded), dtype=np.int64)
    spread = 2 * len(np.unique(loads >> 1)) / len(loads) if len(loads) else 1.0
    values["load_spread"] = spread
    values["hot_updates"] = float(max(updates.values(), default=0))
    return Counts.of(values)


def _alone(part: Sample) -> Sample:
    """Treat a part of a grid as a grid of its own: nothing is scaled."""
    shape = part.launch
    grid = (len(part.places), 1, 1)
    return Sample(
        type(shape)(
            shape.function, grid, shape.threads_per_block, shape.warps_per_block, shape.shared_bytes
        ),
        part.watch,
        part.places,
        False,
        Dependence(False, frozenset()),
        part.extents,
    )


def _sectors(parts: list[Sample], kind: str) -> np.ndarray:
    keys = [
        slots_and_places(one)[1]
        for part in parts
        for some in getattr(part.watch, kind).values()
        for one in some
    ]
    return np.unique(np.concatenate(keys)) if keys else np.empty(0, np.int64)
