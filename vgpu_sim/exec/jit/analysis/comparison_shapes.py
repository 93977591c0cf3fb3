"""Shapes of the results of comparisons: uniform where all lanes are on one side of a bound."""

from collections.abc import Sequence

from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Algebra, LaneShape
from vgpu_sim.isa import BoolOp, Compare, Instruction


def results(
    algebra: Algebra, node: Operation, shapes: list[LaneShape], widths: Sequence[int]
) -> list[LaneShape | None]:
    """Return the shapes of SETP's results, given the shapes and ``widths`` of its operands."""
    generic = algebra.generic(shapes)
    if _same_side(algebra, node.instruction, shapes):
        generic = algebra.generic([algebra.uniform(), *shapes[2:]])
    results: list[LaneShape | None] = [generic] * len(node.results)
    function = fold.integer_function(node.instruction)
    if function is None or node.instruction.combine is not BoolOp.NONE:
        return results
    rows = algebra.evaluate(function, shapes, widths)
    if rows is None:
        if _alike(algebra, node.instruction, shapes):
            return [algebra.uniform()] * len(node.results)
        return results
    inverse = tuple(tuple(1 - value for value in row) for row in rows)
    flag_shapes = [algebra.from_lanes(lanes, 1) for lanes in (rows, inverse)]
    return list(flag_shapes[: len(node.results)])


def _alike(algebra: Algebra, instruction: Instruction, shapes: list[LaneShape]) -> bool:
    """Return whether all lanes are on the same side of a bound, such as a multiple of the warp
    size.

    The lanes are between two consecutive multiples of the alignment of their base, and the bound
    is such a multiple.
    """
    for (number, bound), strict in (
        (shapes, (Compare.LT, Compare.GE)),
        (shapes[::-1], (Compare.GT, Compare.LE)),
    ):
        if not isinstance(number, Affine) or not isinstance(bound, Affine) or not bound.uniform:
            continue
        low, high = algebra.extent(number)
        if low < 0 or high >= number.align:
            continue
        if instruction.compare in strict:
            return bound.align >= number.align
        mirrored = instruction.compare in (Compare.LT, Compare.LE, Compare.GT, Compare.GE)
        return mirrored and bound.constant is not None and (bound.constant + 1) % number.align == 0
    return False


def _same_side(algebra: Algebra, instruction: Instruction, shapes: list[LaneShape]) -> bool:
    """Return whether a bound falls between groups, so that a group is either below it or not."""
    first, limit = shapes[:2]
    if not isinstance(first, Affine) or not instruction.type.is_integer:
        return False
    bound = limit.constant if isinstance(limit, Affine) and limit.uniform else None
    low, high = algebra.extent(first)
    if first.uniform or bound is None or low < 0 or high >= first.align:
        return False
    bound_inclusive = instruction.compare in (Compare.LE, Compare.GT)
    strict = instruction.compare in (Compare.LT, Compare.GE)
    return (bound_inclusive or strict) and (bound + bound_inclusive) % first.align == 0
