"""Where the blocks of a sample lie in a grid of three dimensions."""

import pytest

from vgpu_sim.worker.observing import sampler

Grid = tuple[int, int, int]


@pytest.mark.parametrize("grid", [(3, 4, 5), (1, 1, 7), (1, 6, 2), (5, 1, 3), (4, 2, 1)])
def test_a_number_of_a_block_counts_x_first_then_y_then_z(grid: Grid) -> None:
    places = [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
    assert [sampler._place_of(number, grid) for number in range(len(places))] == places
