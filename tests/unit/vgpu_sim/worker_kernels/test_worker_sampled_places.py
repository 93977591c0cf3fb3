"""The blocks of a sample: their places in a grid, and their largest number."""

from types import SimpleNamespace

import numpy as np
import pytest

from vgpu_sim.worker.modelling import footprints, sampler

Grid = tuple[int, int, int]


@pytest.mark.parametrize("grid", [(3, 4, 5), (1, 1, 7), (1, 6, 2), (5, 1, 3), (4, 2, 1)])
def test_a_number_of_a_block_counts_x_first_then_y_then_z(grid: Grid) -> None:
    places = [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
    assert [sampler._place_of(number, grid) for number in range(len(places))] == places


@pytest.mark.parametrize(
    ("limit", "at_most"),
    [
        ("_MOST_BLOCKS", 7),
        ("_MOST_LANES", 7 * 64),
        ("_MOST_CELLS", 7 * 64 * 5),
        ("_MOST_SHARED_BYTES", 7 * 100),
    ],
)
def test_each_limit_bounds_the_blocks_that_are_sampled_together(
    monkeypatch: pytest.MonkeyPatch, limit: str, at_most: int
) -> None:
    """Two warps of five registers and 100 bytes per block: ``at_most`` fits seven, one less fits
    six.
    """
    launch = SimpleNamespace(
        warps_per_block=2, shared_bytes=100, function=SimpleNamespace(register_bits=(32,) * 5)
    )
    for name in ("_MOST_BLOCKS", "_MOST_LANES", "_MOST_CELLS", "_MOST_SHARED_BYTES"):
        monkeypatch.setattr(sampler, name, 1 << 40)
    for most, room in ((at_most, 7), (at_most - 1, 6), (0, 1)):
        monkeypatch.setattr(sampler, limit, most)
        assert sampler._room(launch) == room


@pytest.mark.parametrize(
    ("parts", "times", "growth"),
    [
        ([[0, 1], [2, 3]], 3.0, 3.0),  # all of the later half is new
        ([[0, 1], [0, 1]], 3.0, 1.0),  # none of it
        ([[0, 1], [1, 2]], 3.0, 1 + 4 / 3),  # one of three in the later half
        ([[0], [0], [1]], 2.0, 1.75),  # one of two, in the later two of three parts
        ([[0, 1]], 3.0, 3.0),  # no earlier half to compare it with
        ([[0, 1], [2, 3]], 1.0, 1.0),
        ([], 3.0, 1.0),
    ],
)
def test_what_is_touched_grows_as_in_the_later_half(
    parts: list[list[int]], times: float, growth: float
) -> None:
    numbers = [np.array(one, dtype=np.int64) for one in parts]
    assert footprints.growth_of(numbers, times) == pytest.approx(growth)
