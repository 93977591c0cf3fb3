"""Transfer functions of the value analysis: the shape of a result, given those of the operands."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from vgpu_sim.exec.jit.analysis import choices, collective_shapes, comparison_shapes, lane_bits
from vgpu_sim.exec.jit.analysis.assumptions import Chosen, Extended, OfGroup
from vgpu_sim.exec.jit.analysis.linear_sums import Sums
from vgpu_sim.exec.jit.analysis.operand_widths import operand_widths
from vgpu_sim.exec.jit.analysis.special_shapes import special_shapes
from vgpu_sim.exec.jit.ir.ssa import Merge, Operation, Source, Value
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.numbers.fold_bitwise import field_count
from vgpu_sim.exec.jit.shapes.geometry import Geometry
from vgpu_sim.exec.jit.shapes.lane_shapes import (
    Affine,
    Algebra,
    LaneShape,
    PerVector,
    Vector,
    scalar_of,
    to_signed,
)
from vgpu_sim.isa import (
    EFFECTS,
    Instruction,
    MulMode,
    Op,
    Space,
)

Lookup = Callable[[Source, int, int], LaneShape | None]


class Transfer:
    """Computes the shapes of an operation's results from the shapes of its operands.

    If a result shape needs an assumption about lanes, the assumption is added to ``assumptions``.
    ``traced`` are the values whose linear sums are computed. ``may_be_own`` returns whether a load
    may access local memory. ``may_choose`` returns the comparison that decides a select, and
    whether its result is inverted; it returns None if lanes must not be assumed to take the same
    operand. ``numbers`` are the results that are known constants (``known_values``).
    """

    def __init__(
        self,
        algebra: Algebra,
        geometry: Geometry,
        lookup: Lookup,
        may_restart: Callable[[Operation], bool],
        may_be_own: Callable[[Operation], bool],
        may_choose: Callable[[Operation], tuple[Operation, bool] | None],
        traced: Container[Value | None] = (),
        numbers: Mapping[Value, int] = MappingProxyType({}),
    ) -> None:
        self._algebra = algebra
        self._lookup = lookup
        self._may_restart = may_restart
        self._may_be_own = may_be_own
        self._may_choose = may_choose
        self._numbers = numbers
        self.assumptions: dict[Operation, OfGroup] = {}
        self._sums = Sums(algebra, traced, may_restart, self.assumptions)
        self._special = special_shapes(self._algebra, geometry)
        self._widths: dict[Operation, tuple[int, ...]] = {}
        self._evaluated: dict[Operation, tuple[list[LaneShape], Sequence[LaneShape | None]]] = {}

    def begin(self) -> None:
        """Forget the assumptions and results of an earlier fixpoint iteration."""
        self.assumptions.clear()
        self._evaluated.clear()

    def merge(self, node: Merge, block: int) -> LaneShape | None:
        """Return the shape of the value that a ``Merge`` selects, ``condition ? new : old``."""
        bits = node.result.bits
        condition = self._lookup(node.condition.value, block, 1)
        new = self._lookup(node.new, block, bits)
        old = self._lookup(node.old, block, bits)
        if condition is None or new is None or old is None:
            return None
        return self._choose(condition, new, old)

    def result_shapes(self, node: Operation, block: int) -> Sequence[LaneShape | None]:
        """Return the shapes of all results of an operation.

        A shape is None as long as the shape of an operand is not known yet.
        """
        widths = self._widths.get(node)
        if widths is None:
            widths = self._widths[node] = operand_widths(node.instruction)
        shapes = [
            self._lookup(source, block, bits)
            for source, bits in zip(node.sources, widths, strict=True)
        ]
        if any(shape is None for shape in shapes):
            return [None] * len(node.results)
        known = [shape for shape in shapes if shape is not None]
        evaluation = self._evaluated.get(node)
        # The shape of a select depends on those of the comparison's operands, too.
        if evaluation is not None and evaluation[0] == known and node.instruction.op is not Op.SELP:
            return evaluation[1]
        self.assumptions.pop(node, None)
        results = self._results(node, known, widths, block)
        self._evaluated[node] = known, results
        return results

    def _results(
        self, node: Operation, known: list[LaneShape], widths: Sequence[int], block: int
    ) -> Sequence[LaneShape | None]:
        instruction = node.instruction
        if instruction.op is Op.SETP:
            return comparison_shapes.results(self._algebra, node, known, widths)
        if EFFECTS[instruction.op].collective:
            return collective_shapes.results(self._algebra, node, known)
        if instruction.op is Op.BAR_RED:
            return [self._algebra.uniform()]
        if instruction.op is Op.LD:
            loaded = self._load_shape(node, known)
            return [
                None if result is None else self._fill(loaded, node, result.bits)
                for result in node.results
            ]
        if instruction.op in (Op.ATOM, Op.LD_ZFILL, Op.CANCEL):  # lanes get different values
            return [None if result is None else self._each() for result in node.results]
        if len(node.results) > 1:
            generic = self._algebra.generic(known)
            return [
                None if result is None else self._fill(generic, node, result.bits)
                for result in node.results
            ]
        if not node.results or node.results[0] is None:
            return [None] * len(node.results)
        register_bits = node.results[0].bits
        result = self._single(node, known, widths, register_bits, block)
        if isinstance(result, Vector) and result.lanes is None and result.linear is None:
            result = replace(result, linear=self._sums.of(node, known, widths))
        return [result]

    def _load_shape(self, node: Operation, shapes: list[LaneShape]) -> LaneShape:
        """Return the shape of a load's result, given the shapes of its address."""
        algebra = self._algebra
        if node.instruction.space is Space.PARAM:
            return algebra.uniform()
        if self._may_be_own(node):  # lanes have distinct local memory at the same address
            return self._each()
        return algebra.generic(shapes)

    def _each(self) -> LaneShape:
        """Return the shape of a value whose lanes are unrelated; in a group of one lane it is
        uniform.
        """
        algebra = self._algebra
        return Vector() if algebra.width * algebra.vectors > 1 else algebra.uniform()

    def widen(self, shape: LaneShape, source: int, target: int, *, signed: bool) -> LaneShape:
        """Return the shape of a value after sign or zero extension.

        The shape is ``Vector`` unless a more precise shape is proved to be exact.
        """
        return self._widen(shape, source, target, signed)[0]

    def _single(
        self,
        node: Operation,
        shapes: list[LaneShape],
        widths: Sequence[int],
        bits: int,
        block: int,
    ) -> LaneShape:
        instruction = node.instruction
        if instruction.op is Op.S2R:
            assert instruction.sreg is not None
            special = self._special.get(instruction.sreg, self._algebra.uniform())
            return self._fill(special, node, bits)
        result = node.results[0]
        if result is not None and result in self._numbers:
            return self._algebra.constant(self._numbers[result], bits)
        type_ = fold.result_type(instruction)
        function = fold.integer_function(instruction)
        if instruction.op is Op.SELP:
            function = _select
        if function is not None:
            rows = self._algebra.evaluate(function, shapes, widths)
            if rows is not None:
                extended = tuple(
                    tuple(fold.extend(value, type_, bits) for value in row) for row in rows
                )
                return self._algebra.from_lanes(extended, bits)
        if instruction.op is Op.CVT:
            return self._convert(node, shapes[0], bits)
        if instruction.op is Op.SELP:
            return self._fill(self._select_shape(node, shapes, block), node, bits)
        if instruction.mode is MulMode.WIDE:
            return self._fill(self._wide_product(node, shapes), node, bits)
        return self._fill(self._same_width(instruction, shapes), node, bits)

    def _same_width(self, instruction: Instruction, shapes: list[LaneShape]) -> LaneShape:
        algebra, bits = self._algebra, instruction.type.bits
        result: LaneShape | None = None
        if not instruction.type.is_integer:
            return shapes[0] if instruction.op is Op.MOV else algebra.generic(shapes)
        match instruction.op:
            case Op.MOV:
                result = shapes[0]
            case Op.ADD | Op.SUB:
                sign = 1 if instruction.op is Op.ADD else -1
                result = algebra.add(shapes[0], shapes[1], sign, bits)
            case Op.MUL if instruction.mode is not MulMode.HI:
                result = algebra.multiply(shapes[0], shapes[1], bits)
            case Op.MAD if instruction.mode is not MulMode.HI:
                product = algebra.multiply(shapes[0], shapes[1], bits)
                result = algebra.add(product, shapes[2], 1, bits)
            case Op.SHL:
                result = self._shift_left(shapes, bits)
            case Op.SHR | Op.AND:
                result = self._cut(instruction, shapes)
            case Op.BFE if not instruction.type.is_signed:
                result = self._field(shapes, bits)
            case _:
                pass
        if result is None and instruction.op in fold.LOGIC:
            result = lane_bits.shape(algebra, instruction.op, shapes, bits)
        return result if result is not None else algebra.generic(shapes)

    def _select_shape(self, node: Operation, shapes: list[LaneShape], block: int) -> LaneShape:
        place = self._taken_by_all(node, shapes, block)
        if place is None:
            return self._choose(shapes[2], shapes[0], shapes[1])
        self.assumptions[node] = Chosen(place)
        return shapes[place]

    def _taken_by_all(self, node: Operation, shapes: list[LaneShape], block: int) -> int | None:
        """Return the operand of a select that all lanes are assumed to take, or None."""
        choice, place = self._may_choose(node), choices.find_varying_operand(shapes[0], shapes[1])
        if choice is None or place is None or isinstance(shapes[2], Affine):
            return None
        test, inverse = choice
        bits, compare = test.instruction.type.bits, test.instruction.compare
        a, b = (self._lookup(source, block, bits) for source in test.sources[:2])
        if a is None or b is None or compare is None:
            return None
        holds = (place == 0) != inverse
        return place if choices.relation(compare, (a, b), holds=holds) else None

    def _shift_left(self, shapes: list[LaneShape], bits: int) -> LaneShape | None:
        count = scalar_of(shapes[1])
        if count is None:
            return None
        if count >= bits:
            return self._algebra.constant(0, bits)
        return self._algebra.scale(shapes[0], 1 << count, bits)

    def _cut(self, instruction: Instruction, shapes: list[LaneShape]) -> LaneShape | None:
        """Return the shape of ``x >> k`` or ``x & (2^k - 1)`` if the base's low k bits are 0."""
        a, operand = shapes[0], scalar_of(shapes[1])
        if not isinstance(a, Affine) or operand is None:
            return None
        bits = instruction.type.bits
        shift = instruction.op is Op.SHR
        if not shift and operand & (operand + 1):
            low_zeros = operand & -operand
            if a.uniform:  # clearing low bits leaves the aligned base
                return self._algebra.uniform(align=low_zeros)
            low, high = self._algebra.extent(a)
            if low >= 0 and high < min(a.align, low_zeros):  # only these bits differ between lanes
                return self._algebra.uniform(align=low_zeros)
            return None
        size = 1 << operand if shift and operand < bits else operand + 1
        low, high = self._algebra.extent(a)
        if a.align < size or (shift and (low < 0 or high >= a.align)):
            return None
        uncut = self._algebra.above_base(a)
        rows = tuple(tuple(v >> operand if shift else v & operand for v in row) for row in uncut)
        result = self._algebra.from_lanes(rows, bits)
        if not shift:  # no bit of the base remains
            return result
        if not isinstance(result, Affine):
            return None  # the shifted base must still be added
        assert result.constant is not None
        offsets = [offset + result.constant for offset in result.offsets]
        return self._algebra.affine(offsets, result.stride, None, a.align // size, bits)

    def _field(self, shapes: list[LaneShape], bits: int) -> LaneShape | None:
        """Return the shape of a bit field within the base's zero bits, independent of it."""
        a, position, length = shapes[0], scalar_of(shapes[1]), scalar_of(shapes[2])
        if not isinstance(a, Affine) or position is None or length is None:
            return None
        position, length = field_count(position, bits), field_count(length, bits)
        end = position + length
        if end > bits or a.align < 1 << end:
            return None
        below = (1 << end) - 1
        rows = tuple(
            tuple((v & below) >> position for v in row) for row in self._algebra.above_base(a)
        )
        return self._algebra.from_lanes(rows, bits)

    def _wide_product(self, node: Operation, shapes: list[LaneShape]) -> LaneShape:
        instruction = node.instruction
        is_signed, bits = instruction.type.is_signed, instruction.type.bits
        a, b = shapes[:2]
        source = node.sources[0]
        if scalar_of(a) is not None:
            a, b, source = b, a, node.sources[1]
        factor = scalar_of(b)
        if factor is None:
            product = self._algebra.generic([a, b])
        else:
            wide = self._extend_shape(node, a, 2 * bits, Extended(source, instruction.type))
            factor = to_signed(factor, bits) if is_signed else factor
            product = self._algebra.scale(wide, factor, 2 * bits)
        if instruction.op is Op.MAD:
            product = self._algebra.add(product, shapes[2], 1, 2 * bits)
        return product

    def _convert(self, node: Operation, shape: LaneShape, register_bits: int) -> LaneShape:
        instruction = node.instruction
        target, source = instruction.type, instruction.source_type
        assert source is not None
        if not (target.is_integer and source.is_integer) or instruction.saturate:
            return self._fill(self._algebra.generic([shape]), node, register_bits)
        if target.bits <= source.bits:
            return self._fill(self._algebra.truncate(shape, target.bits), node, register_bits)
        wide = self._extend_shape(node, shape, target.bits, Extended(node.sources[0], source))
        return self._fill(wide, node, register_bits)

    def _extend_shape(
        self, node: Operation, shape: LaneShape, bits: int, assumption: Extended
    ) -> LaneShape:
        kind, may_assume = assumption.kind, self._may_restart(node)
        wide, assumes = self._widen(shape, kind.bits, bits, kind.is_signed, may_assume=may_assume)
        if assumes:
            self.assumptions[node] = assumption
        return wide

    def _widen(
        self,
        shape: LaneShape,
        source: int,
        target: int,
        is_signed: bool,
        *,
        may_assume: bool = False,
    ) -> tuple[LaneShape, bool]:
        algebra = self._algebra
        rows = algebra.lanes(shape, source)
        if rows is not None:
            wide = tuple(
                tuple(to_signed(value, source) if is_signed else value for value in row)
                for row in rows
            )
            return algebra.from_lanes(wide, target), False
        if isinstance(shape, Vector):
            return replace(shape, linear=None, without_wrap=None), False
        if isinstance(shape, Affine) and (shape.uniform or algebra.fits(shape)):
            return shape, False
        if shape.stride == 0:
            return PerVector(0), False
        low, high = algebra.extent(shape)
        # A lane may wrap around twice, which a test of the first and last lane cannot detect.
        if high - low >= 1 << source:
            return Vector(), False
        if may_assume:
            return shape, True
        return Vector(without_wrap=PerVector(shape.stride)), False

    def _fill(self, shape: LaneShape, node: Operation, register_bits: int) -> LaneShape:
        """Return the shape of a result in a register wider or narrower than its type."""
        type_ = fold.result_type(node.instruction)
        if type_.bits > register_bits:
            return self._algebra.truncate(shape, register_bits)
        if type_.bits < register_bits:
            return self.widen(shape, type_.bits, register_bits, signed=type_.is_signed)
        return shape

    def _choose(self, condition: LaneShape, new: LaneShape, old: LaneShape) -> LaneShape:
        if isinstance(condition, Affine) and condition.uniform:
            return self._algebra.join(new, old)
        if isinstance(condition, Vector) or condition.stride:
            return Vector()
        if isinstance(new, Vector) or isinstance(old, Vector) or new.stride != old.stride:
            return Vector()
        return PerVector(new.stride)


def _select(a: int, b: int, chooser: int) -> int:
    return a if chooser & 1 else b
