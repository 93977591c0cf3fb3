"""Shapes of the special registers that hold a thread's position in its block."""

from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.shapes.lane_shapes import Algebra, LaneShape, Vector
from vgpu_sim.isa import SpecialRegister


def special_shapes(algebra: Algebra, geometry: Geometry) -> dict[SpecialRegister, LaneShape]:
    """Return the shapes of the special registers that hold a thread's position in its block."""
    shapes: dict[SpecialRegister, LaneShape] = {}
    for place, axis in enumerate(geometry.axes()):
        known = Vector() if axis is None else algebra.from_axis(axis.rows, axis.align)
        shapes[SpecialRegister(place)] = known
        size = algebra.constant(geometry.block[place], 32)
        shapes[SpecialRegister(SpecialRegister.NTID_X + place)] = size
    shapes[SpecialRegister.WARPSIZE] = algebra.constant(32, 32)
    lanes = range(geometry.width)
    lane_ids = tuple(
        tuple((part * geometry.width + lane) % 32 for lane in lanes)
        for part in range(geometry.vectors)
    )
    if not geometry.linear:
        shapes[SpecialRegister.LANEID] = Vector()
    elif geometry.groups == 1 or geometry.span % 32 == 0:
        shapes[SpecialRegister.LANEID] = algebra.from_lanes(lane_ids, 32)
    elif 32 % geometry.span == 0:  # the group's first lane id is a multiple of its span
        shapes[SpecialRegister.LANEID] = algebra.from_axis(lane_ids, geometry.span)
    else:
        shapes[SpecialRegister.LANEID] = Vector()
    return shapes
