"""Tests of whether all lanes are within bounds, by comparing the outermost ones.

Most divergent branches test whether an index is within a bound that only the last groups cross.
If the index is a base plus known distances, and the bound is uniform, the smallest and the
largest lane decide for all: two comparisons instead of one per vector.
"""

from typing import Final

from vgpu_sim.exec.jit.ir.block_order import Level
from vgpu_sim.exec.jit.ir.ssa import Condition, Operation, Source, Value
from vgpu_sim.exec.jit.numbers.comparisons import MIRRORED, NEGATED
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.isa import EFFECTS, BoolOp, Compare, DataType, Family, Op

_BITS: Final = 32
_DEPTH: Final = 8  # the depth of predicates that combine others
# Only blocks of at most this many nodes are emitted twice, once for groups that enter as a whole.
_SHORT_NODES: Final = 24


class Bounds:
    """The bounds checks of one version of a function. A check compares only the indices of a
    group's outermost lanes with the bound. If the check holds, all lanes are within bounds.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._text = values.text

    def block_within_bounds(self, level: Level, block: int) -> int | None:
        """Return the short block after ``block`` that is executed only by lanes within bounds; None
        if there is no such block.

        The returned block has no other predecessors, and its only successor is the block at
        which the lanes rejoin.
        """
        analysis = self._values.analysis
        graph, ssa_block = analysis.ssa.graph, analysis.ssa.blocks[block]
        condition, ways = ssa_block.condition, ssa_block.successors
        if condition is None or len(ways) != 2 or block in analysis.assumed:
            return None
        if analysis.is_uniform(condition, block):
            return None
        for inner, join in (ways, ways[::-1]):
            if inner not in level.blocks or inner == level.header:
                continue
            if graph.blocks[inner].predecessors != (block,) or not self._short(inner, join):
                continue
            if join != graph.exit and (
                graph.innermost_loop[join] != graph.innermost_loop[block]
                or join == level.header
                or set(graph.blocks[join].predecessors) != {block, inner}
            ):
                continue
            self._values.block = block
            if self.can_test(condition, outcome=inner == ways[0]):
                return inner
        return None

    def _short(self, inner: int, join: int) -> bool:
        block = self._values.analysis.ssa.blocks[inner]
        if block.successors != (join,) or len(block.nodes) > _SHORT_NODES:
            return False
        operations = (node.instruction.op for node in block.nodes if isinstance(node, Operation))
        return not any(
            EFFECTS[op].stops or EFFECTS[op].collective or op.family is Family.ATOMIC
            for op in operations
        )

    def can_test(self, condition: Condition, *, outcome: bool) -> bool:
        """Return whether a test of this condition can be emitted with ``all_lanes``."""
        return self._can_test_source(condition.value, outcome != condition.negated, _DEPTH)

    def all_lanes(self, condition: Condition, *, outcome: bool) -> str:
        """Return an i1 that is true only if ``condition`` equals ``outcome`` in each lane of a
        group.

        If an index wraps around, the i1 may be false although ``condition`` equals ``outcome`` in
        all lanes.
        """
        return self._all(condition.value, outcome != condition.negated)

    def _comparison(self, source: Source, outcome: bool) -> tuple[Operation, Compare] | None:
        node = self._definition(source)
        if node is None or node.instruction.op is not Op.SETP:
            return None
        instruction = node.instruction
        if instruction.combine is not BoolOp.NONE or not instruction.type.is_integer:
            return None
        compare = instruction.compare
        if instruction.type.bits != _BITS or compare not in NEGATED:
            return None
        true = (source is node.results[0]) == outcome
        return node, compare if true else NEGATED[compare]

    def _can_test_source(self, source: Source, outcome: bool, depth: int) -> bool:
        if self._uniform(source):
            return True
        parts = self._parts(source, outcome)
        if parts is not None:
            return depth > 0 and all(self._can_test_source(s, flag, depth - 1) for s, flag in parts)
        comparison = self._comparison(source, outcome)
        if comparison is None:
            return False
        operands = comparison[0].sources[:2]
        if any(isinstance(s, Value) and s.bits != _BITS for s in operands):
            return False
        shapes = [self._values.shape(operand, _BITS) for operand in operands]
        affine = [shape for shape in shapes if isinstance(shape, Affine)]
        if len(affine) < 2 or sum(shape.uniform for shape in affine) != 1:
            return False
        unknown = any(shape.constant is None for shape in affine)
        return unknown and comparison[1] is not Compare.EQ

    def _all(self, source: Source, outcome: bool) -> str:
        text, values = self._text, self._values
        if self._uniform(source):
            flag = values.read(source, "i1", Form.BASE, 0)
            return flag if outcome else values.invert(flag, vector=False)
        parts = self._parts(source, outcome)
        if parts is not None:
            flags = [self._all(part, flag) for part, flag in parts]
            joined = flags[0]
            for flag in flags[1:]:
                joined = text.let(f"and i1 {joined}, {flag}")
            return joined
        comparison = self._comparison(source, outcome)
        assert comparison is not None
        node, compare = comparison
        index, limit = node.sources[:2]
        shape = values.shape(index, _BITS)
        assert isinstance(shape, Affine)
        if shape.uniform:
            index, limit, compare = limit, index, MIRRORED[compare]
            shape = values.shape(index, _BITS)
            assert isinstance(shape, Affine)
        return self._compare(index, shape, limit, compare, node.instruction.type)

    def _compare(
        self, index: Source, shape: Affine, limit: Source, compare: Compare, type_: DataType
    ) -> str:
        """Compare as 64-bit integers, in which no lane wraps around."""
        text, values = self._text, self._values
        extend = "sext" if type_.is_signed else "zext"
        base = text.let(f"{extend} i32 {values.read(index, 'i32', Form.BASE, 0)} to i64")
        bound = text.let(f"{extend} i32 {values.read(limit, 'i32', Form.BASE, 0)} to i64")
        low, high = values.analysis.algebra.extent(shape)
        lowest, greatest = (text.let(f"add i64 {base}, {step}") for step in (low, high))
        below, above = (-(1 << 31), 1 << 31) if type_.is_signed else (0, 1 << 32)

        def holds(relation: str, a: str, b: str | int) -> str:
            return text.let(f"icmp {relation} i64 {a}, {b}")

        down, up = holds("sge", lowest, below), holds("slt", greatest, above)
        match compare:
            case Compare.LT | Compare.LE:
                inside = holds("slt" if compare is Compare.LT else "sle", greatest, bound)
                return text.let(f"and i1 {inside}, {down}") if low < 0 else inside
            case Compare.GT | Compare.GE:
                inside = holds("sgt" if compare is Compare.GT else "sge", lowest, bound)
                return text.let(f"and i1 {inside}, {up}") if high > 0 else inside
            case _:
                apart = text.let(
                    f"or i1 {holds('slt', greatest, bound)}, {holds('sgt', lowest, bound)}"
                )
                exact = text.let(f"and i1 {down}, {up}")
                return text.let(f"and i1 {apart}, {exact}")

    def _parts(self, source: Source, outcome: bool) -> list[tuple[Source, bool]] | None:
        """Return the predicates, with their required values, that imply the required one of
        ``source``.
        """
        node = self._definition(source)
        if node is None:
            return None
        instruction = node.instruction
        if instruction.op is Op.SETP and instruction.combine is not BoolOp.NONE:
            return None
        if instruction.type is not DataType.PRED:
            return None
        if instruction.op is (Op.AND if outcome else Op.OR):
            return [(operand, outcome) for operand in node.sources]
        if instruction.op is Op.NOT:
            return [(node.sources[0], not outcome)]
        return None

    def _definition(self, source: Source) -> Operation | None:
        if not isinstance(source, Value):
            return None
        node = self._values.analysis.ssa.definition.get(source)
        return node if isinstance(node, Operation) else None

    def _uniform(self, source: Source) -> bool:
        shape = self._values.shape(source, 1)
        return isinstance(shape, Affine) and shape.uniform
