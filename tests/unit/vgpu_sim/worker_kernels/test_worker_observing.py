"""The number of blocks that are sampled together, and the growth of a footprint: computed
examples.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vgpu_sim.worker.modelling import footprints, sampler


def room(warps: int, registers: int = 1, shared_bytes: int = 0) -> int:
    """Return how many blocks of such a launch are interpreted together."""
    launch: Any = SimpleNamespace(
        warps_per_block=warps,
        shared_bytes=shared_bytes,
        function=SimpleNamespace(register_bits=[32] * registers),
    )
    return sampler._room(launch)


@pytest.mark.parametrize(
    ("warps", "registers", "shared_bytes", "blocks"),
    [
        (1, 1, 0, 16),  # the most blocks
        (32, 1, 0, 16),  # 2^14 threads are 16 blocks of 1024
        (33, 1, 0, 15),
        (64, 1, 0, 8),
        (32, 256, 0, 16),  # 2^22 registers are 16 blocks of 1024 threads with 256
        (32, 257, 0, 15),
        (32, 512, 0, 8),
        (1, 1, 1 << 20, 16),  # 16 MiB of shared memory
        (1, 1, (1 << 20) + 1, 15),
        (1, 1, 1 << 21, 8),
        (1, 0, 0, 16),
        # A block that is larger than any limit is sampled alone.
        (1024, 1, 0, 1),
        (32, 10_000, 0, 1),
        (1, 1, 1 << 25, 1),
    ],
)
def test_each_limit_of_a_sample_holds_by_itself(
    warps: int, registers: int, shared_bytes: int, blocks: int
) -> None:
    assert room(warps, registers, shared_bytes) == blocks


def ranges(*each: tuple[int, int]) -> list[Any]:
    return [np.arange(begin, end) for begin, end in each]


@pytest.mark.parametrize("times", [1.0, 2.0, 3.0, 10.0])
@pytest.mark.parametrize(
    ("parts", "new"),
    [
        # What the later half adds, scaled to all accesses, plus the observed amount.
        (ranges((0, 10), (10, 20), (20, 30), (30, 40)), 1.0),
        (ranges((0, 10), (0, 10), (0, 10), (0, 10)), 0.0),
        (ranges((0, 10), (0, 10), (0, 10), (10, 15)), (15 - 10) / 0.5 / 15),
        (ranges((0, 10), (0, 10), (10, 15)), (15 - 10) / (2 / 3) / 15),
        (ranges((0, 8)), 1.0),  # nothing to compare it with
    ],
)
def test_more_accesses_touch_more_as_fast_as_the_later_half_did(
    parts: list[Any], new: float, times: float
) -> None:
    assert footprints.growth_of(parts, times) == pytest.approx(1 + new * (times - 1))


def test_no_accesses_touch_nothing_more() -> None:
    assert footprints.growth_of([], 5.0) == 1.0
