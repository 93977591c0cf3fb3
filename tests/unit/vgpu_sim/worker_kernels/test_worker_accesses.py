"""Sectors, wavefronts and bank conflicts of warps' accesses, counted a second time lane by lane."""

import random
from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vgpu_sim.worker.modelling.watch import Watch, slots_and_places
from vgpu_sim.worker.observing.accesses import Numbers, conflicts_of, sectors_of, wavefronts_of

BASE = 0x2000_0000_0000


def lanes(seed: int, span: int, *, step: int = 4, base: int = 0) -> tuple[Numbers, Numbers]:
    """Return warps and addresses of some lanes of five warps, one of which has none."""
    chance = random.Random(seed)
    warps = sorted(chance.choice((0, 1, 3, 4)) for _ in range(chance.randrange(1, 160)))
    found = [base + step * chance.randrange(span) for _ in warps]
    return np.array(warps, np.int64), np.array(found, np.int64)


@pytest.mark.parametrize("span", [1, 9, 300, 100_000])
@pytest.mark.parametrize("step", [1, 4, 32, 128])
def test_each_warp_requests_each_sector_once(span: int, step: int) -> None:
    for seed in range(5):
        warps, addresses = lanes(seed, span, step=step, base=BASE)
        wanted = sorted(
            {(w, a // 32) for w, a in zip(warps.tolist(), addresses.tolist(), strict=True)}
        )
        owners, sectors = sectors_of(warps, addresses)
        assert list(zip(owners.tolist(), sectors.tolist(), strict=True)) == wanted
        lines, parts = defaultdict(set), defaultdict(set)
        for warp, sector in wanted:
            lines[warp].add(sector // 4)
            parts[warp].add(sector)
        cycles = sum(max(len(lines[w]), -(-len(parts[w]) // 4)) for w in lines)
        assert wavefronts_of(owners, sectors) == cycles


def count_conflicts(
    warps: Numbers, addresses: Numbers, width: int, *, updates: bool
) -> tuple[int, int]:
    """Count conflicts: a bank serves one word a cycle to all lanes; an update takes a cycle of its
    own.
    """
    requested: dict[int, list[int]] = defaultdict(list)
    for warp, address in zip(warps.tolist(), addresses.tolist(), strict=True):
        requested[warp] += [address // 4 + part for part in range(max(1, width // 4))]
    cycles = fewest = 0
    for words in requested.values():
        distinct = sorted(set(words))
        banks = [word % 32 for word in (words if updates else distinct)]
        cycles += max(banks.count(bank) for bank in range(32))
        fewest += -(-len(distinct) // 32)
    return cycles, fewest


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("span", [1, 3, 40, 5_000])
def test_conflicts_are_those_of_the_busiest_bank(width: int, updates: bool, span: int) -> None:
    for seed in range(5):
        warps, addresses = lanes(seed, span, step=width)
        expected = count_conflicts(warps, addresses, width, updates=updates)
        assert conflicts_of(warps, addresses, width, updates=updates) == expected


@pytest.mark.parametrize(
    ("stride", "cycles"), [(0, 1), (1, 1), (2, 2), (3, 1), (16, 16), (31, 1), (32, 32), (33, 1)]
)
def test_a_warp_that_strides_over_the_banks(stride: int, cycles: int) -> None:
    """The textbook rule: the greatest common divisor with 32 banks; one word serves all lanes."""
    addresses = 4 * stride * np.arange(32, dtype=np.int64)
    warps = np.zeros(32, np.int64)
    assert conflicts_of(warps, addresses, 4) == (cycles, 1)
    updated = 32 if stride == 0 else cycles
    assert conflicts_of(warps, addresses, 4, updates=True) == (updated, 1)


def test_lanes_that_are_none_cost_nothing() -> None:
    none = np.zeros(0, np.int64)
    assert conflicts_of(none, none, 4) == (0, 0)
    assert wavefronts_of(none, none) == 0


@pytest.mark.parametrize("warps_of_block", [1, 2, 3, 8])
def test_updates_belong_to_the_blocks_of_their_warps(warps_of_block: int) -> None:
    """Each block has each of its sectors once, in its slot, and each part of L2 its warps' steps:
    for each sector as many as lanes of a warp update the same word of it.
    """
    chance = random.Random(warps_of_block)
    warps = np.repeat(np.arange(24, dtype=np.int64), 32)
    addresses = BASE + 4 * np.array([chance.randrange(90) for _ in warps], np.int64)
    kept: list[int] = []
    watch: Any = SimpleNamespace(
        amounts=defaultdict(lambda: np.zeros(8)),
        stored=defaultdict(list),
        updated=[],
        _warps=warps_of_block,
        _code=defaultdict(lambda: SimpleNamespace(type=None, update=None)),
        _keep=kept.append,
        _mark_lowest=lambda word, *lanes: kept.append(word),
    )
    Watch._update(watch, 5, warps, addresses)
    lanes_ = list(zip(warps.tolist(), addresses.tolist(), strict=True))
    sectors = {(warp, address // 32) for warp, address in lanes_}
    updates = Counter((warp, address // 4) for warp, address in lanes_)
    steps: dict[tuple[int, int], int] = defaultdict(int)
    for (warp, word), count in updates.items():
        steps[warp, word // 8] = max(steps[warp, word // 8], count)
    slots, places = slots_and_places(np.concatenate(watch.updated))
    wanted: Counter[tuple[int, int]] = Counter()
    for (warp, sector), count in steps.items():
        wanted[warp // warps_of_block, sector // 16] += count
    assert Counter(zip(slots.tolist(), places.tolist(), strict=True)) == wanted
    assert watch.amounts["atomic_steps"][5] == sum(steps.values())
    slots, places = slots_and_places(np.concatenate(watch.stored[5]))
    found = list(zip(slots.tolist(), places.tolist(), strict=True))
    assert found == sorted({(warp // warps_of_block, sector) for warp, sector in sectors})
    assert kept == [2 * len(sectors), 5]
    assert watch.amounts["atomic_requests"].tolist() == [0, 0, 0, 0, 0, 24, 0, 0]
    assert watch.amounts["atomic_sectors"][5] == len(sectors)
