"""The possible outcomes of a comparison in each lane, as far as they are known at compile time.

Often a value equals a shared base, known to be a multiple of a power of two, plus a known
distance for each lane. That decides many comparisons: of lanes 0 to 255 of a group only lane 0
can be thread 0, and no lane from 32 on is below 32. A set of lanes is an integer bit mask; lane
l of vector v is bit ``v * width + l``.
"""

from dataclasses import replace

from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.ssa import Condition, Operation, SsaBlock, Value
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.numbers.comparisons import MIRRORED
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Algebra, LaneShape
from vgpu_sim.isa import BoolOp, Compare, Op


def every_lane(algebra: Algebra) -> int:
    """Return the set of all lanes of a group, as a bit mask."""
    return (1 << algebra.width * algebra.vectors) - 1


def possible_outcomes(analysis: Analysis, node: Operation, block: int) -> tuple[int, int] | None:
    """Return two sets of lanes for a SETP, as bit masks.

    The first result of the SETP may be true in the lanes of the first set, and may be false in
    the lanes of the second. Return None if nothing is known about that result.
    """
    instruction = node.instruction
    if instruction.op is not Op.SETP or not instruction.type.is_integer:
        return None
    if instruction.combine is not BoolOp.NONE or instruction.compare not in MIRRORED:
        return None
    bits = instruction.type.bits
    a, b = (analysis.shape(source, block, bits) for source in node.sources[:2])
    if a is None or b is None:
        return None
    algebra, compare = analysis.algebra, instruction.compare
    compute = fold.integer_function(instruction)
    assert compute is not None
    rows = algebra.evaluate(compute, (a, b), (bits, bits))
    if rows is not None:
        flags = [flag for row in rows for flag in row]
        true = sum(flag << lane for lane, flag in enumerate(flags))
        return true, every_lane(algebra) & ~true
    if _constant(a):
        a, b, compare = b, a, MIRRORED[compare]
    if not _constant(b) or not isinstance(a, Affine) or not algebra.fits(a):
        return None
    if instruction.type.is_signed and compare not in (Compare.EQ, Compare.NE):
        return None
    assert isinstance(b, Affine)
    assert b.constant is not None
    true, false = 0, 0
    for lane in range(algebra.width * algebra.vectors):
        distance = a.offsets[lane // algebra.width] + a.stride * (lane % algebra.width)
        may = _may(compare, distance, min(a.align, 1 << bits), 1 << bits, b.constant)
        true |= int(may[0]) << lane
        false |= int(may[1]) << lane
    return true, false


def _may(compare: Compare, distance: int, align: int, end: int, number: int) -> tuple[bool, bool]:
    """Return whether ``compare`` may be true, and whether it may be false.

    The left operand is ``distance`` plus some multiple of ``align`` below ``end``; ``distance``
    is less than ``align``. The right operand is ``number``.
    """
    minimum, maximum = distance, end - align + distance
    match compare:
        case Compare.EQ | Compare.NE:
            equality = (number - distance) % align == 0, align < end or number != distance
            return equality if compare is Compare.EQ else (equality[1], equality[0])
        case Compare.LT:
            return minimum < number, maximum >= number
        case Compare.LE:
            return minimum <= number, maximum > number
        case Compare.GT:
            return maximum > number, minimum <= number
        case _:
            return maximum >= number, minimum < number


def _constant(shape: LaneShape) -> bool:
    return isinstance(shape, Affine) and shape.uniform and shape.constant is not None


class ReachingLanes:
    """The lanes of a group that may reach a block, derived from the branches that lead to it."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._all = every_lane(analysis.algebra)
        self._to: dict[int, int] = {}

    def to(self, block: int) -> int:
        """Return the lanes that may reach ``block``."""
        if block not in self._to:
            lanes = self._all
            for branch in self._analysis.ssa.blocks.values():
                lanes &= self._turning(branch, block)
            self._to[block] = lanes
        return self._to[block]

    def lanes_satisfying(self, condition: Condition) -> int:
        """Return the lanes in which ``condition`` may be true."""
        ssa, value = self._analysis.ssa, condition.value
        node = ssa.definition.get(value) if isinstance(value, Value) else None
        if not isinstance(value, Value) or not isinstance(node, Operation):
            return self._all
        if node.results[0] is not value:
            return self._all
        may = possible_outcomes(self._analysis, node, ssa.block_of[value])
        return self._all if may is None else may[condition.negated]

    def _turning(self, branch: SsaBlock, block: int) -> int:
        """Return the lanes that the block ``branch`` may send to ``block``.

        These are fewer than all lanes only if just one side of the branch leads to ``block``.
        """
        graph, condition = self._analysis.ssa.graph, branch.condition
        if condition is None or len(set(branch.successors)) != 2:
            return self._all
        for side, target in enumerate(branch.successors):
            if target == graph.exit or len(graph.blocks[target].predecessors) != 1:
                continue
            if graph.dominates(target, block):
                return self.lanes_satisfying(
                    replace(condition, negated=condition.negated != (side == 1))
                )
        return self._all
