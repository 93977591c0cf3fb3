"""Shapes of the results of collectives: lanes of a warp with one common mask share the result.

A group consists of whole warps, or of one lane.
"""

from vgpu_sim.exec.jit.analysis.shuffle_lanes import shuffle_source
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Algebra, LaneShape, PerVector, Vector
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.isa import Family, MatchMode, Op, ShuffleMode


def results(algebra: Algebra, node: Operation, shapes: list[LaneShape]) -> list[LaneShape | None]:
    """Return the shapes of a collective's results, given those of its operands."""
    instruction, lanes = node.instruction, algebra.width * algebra.vectors
    if instruction.op.family is Family.MATRIX:
        own: LaneShape = Vector() if lanes > 1 else algebra.uniform()
        return [own] * len(node.results)
    shared: LaneShape = algebra.uniform() if lanes <= WARP_THREADS else PerVector(0)
    if instruction.op is Op.ACTIVEMASK or lanes == 1:
        return [shared] * len(node.results)
    each: LaneShape = shared if _uniform(shapes[-1]) else Vector()
    match instruction.op:
        case Op.SHFL:
            return _shuffle(algebra, node, shapes, shared)
        case Op.MATCH if instruction.match is MatchMode.ANY:
            return [Vector(), None]
        case Op.ELECT:
            return [each, Vector()]
        case _:
            return [each] * len(node.results)


def _uniform(shape: LaneShape) -> bool:
    return isinstance(shape, Affine) and shape.uniform


def _shuffle(
    algebra: Algebra, node: Operation, shapes: list[LaneShape], shared: LaneShape
) -> list[LaneShape | None]:
    mode = node.instruction.shuffle
    b, c, members = shapes[1:]
    bs, cs = algebra.lanes(b, 32), algebra.lanes(c, 32)
    flag: LaneShape = Vector()
    if bs is not None and cs is not None:
        rows = tuple(
            tuple(
                int(
                    shuffle_source(mode, (part * algebra.width + lane) % WARP_THREADS, *operands)[1]
                )
                for lane, operands in enumerate(zip(*pair, strict=True))
            )
            for part, pair in enumerate(zip(bs, cs, strict=True))
        )
        flag = algebra.from_lanes(rows, 1)
    whole_warp = isinstance(c, Affine) and c.uniform and c.constant == WARP_THREADS - 1
    everywhere = mode is ShuffleMode.IDX and whole_warp
    if everywhere:
        flag = algebra.constant(1, 1)
    alike = everywhere and _uniform(b) and _uniform(members)
    return [shared if alike else Vector(), flag]
