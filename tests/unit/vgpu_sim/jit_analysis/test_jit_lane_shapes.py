"""Shapes built from known lanes reproduce these lanes."""

import pytest

from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Algebra


@pytest.mark.parametrize("first", [0, 1000, (1 << 32) - 2])
def test_contiguous_lanes_have_one_shape_wherever_they_begin(first: int) -> None:
    rows = tuple(
        tuple((first + part * 4 + lane) % (1 << 32) for lane in range(4)) for part in range(2)
    )
    algebra = Algebra(4, 2)
    shape = algebra.from_lanes(rows, 32)
    assert isinstance(shape, Affine)
    assert shape.stride == 1
    assert algebra.lanes(shape, 32) == rows
