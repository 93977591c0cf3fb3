"""Transfer functions of the value analysis: the shape of a result from those of the operands."""

from collections.abc import Callable, Sequence

from vgpu_sim.exec.jit import fold
from vgpu_sim.exec.jit.geometry import Geometry
from vgpu_sim.exec.jit.lane_shapes import Affine, Algebra, LaneShape, PerStrip, Vector, signed
from vgpu_sim.exec.jit.ssa import Merge, Operation, Source
from vgpu_sim.isa import BoolOp, Instruction, MulMode, Op, Space, SpecialRegister

Lookup = Callable[[Source, int, int], LaneShape | None]


def operand_widths(instruction: Instruction) -> tuple[int, ...]:
    """Return how many bits of each source an instruction reads."""
    bits = instruction.type.bits
    match instruction.op:
        case Op.CVT:
            assert instruction.source_type is not None
            return (instruction.source_type.bits,)
        case Op.MUL | Op.MAD:
            last = fold.result_type(instruction).bits
            return (bits, bits, last)[: len(instruction.srcs)]
        case Op.SHL | Op.SHR:
            return (bits, 32)
        case Op.SELP:
            return (bits, bits, 1)
        case Op.SETP:
            return (bits, bits, 1)[: len(instruction.srcs)]
        case Op.BAR_SYNC | Op.BAR_ARRIVE:
            return (32, 32)
        case Op.LD | Op.ST:
            return (64, *[bits] * (len(instruction.srcs) - 1))[: len(instruction.srcs)]
        case _:
            return (bits,) * len(instruction.srcs)


class Transfer:
    """Elements of results. ``checked`` collects widenings that need a test at run time."""

    def __init__(
        self,
        algebra: Algebra,
        geometry: Geometry,
        lookup: Lookup,
        may_restart: Callable[[Operation], bool],
    ) -> None:
        self._algebra = algebra
        self._lookup = lookup
        self._may_restart = may_restart
        self.checked: set[Operation] = set()
        self._special = self._special_elements(geometry)

    def merge(self, node: Merge, block: int) -> LaneShape | None:
        """Return the shape of ``condition ? new : old``."""
        bits = node.result.bits
        condition = self._lookup(node.condition.value, block, 1)
        new = self._lookup(node.new, block, bits)
        old = self._lookup(node.old, block, bits)
        if condition is None or new is None or old is None:
            return None
        return self._choose(condition, new, old)

    def operation(self, node: Operation, block: int) -> Sequence[LaneShape | None]:
        """Return the shapes of all results; None while an operand is undecided."""
        instruction = node.instruction
        widths = operand_widths(instruction)
        shapes = [
            self._lookup(source, block, bits)
            for source, bits in zip(node.sources, widths, strict=True)
        ]
        if any(shape is None for shape in shapes):
            return [None] * len(node.results)
        known = [shape for shape in shapes if shape is not None]
        if instruction.op is Op.SETP:
            return self._compare(node, known, widths)
        if instruction.op is Op.LD:
            uniform = self._algebra.uniform()
            loaded = uniform if instruction.space is Space.PARAM else self._algebra.generic(known)
            return [
                None if result is None else self._fill(loaded, node, result.bits)
                for result in node.results
            ]
        if not node.results or node.results[0] is None:
            return [None] * len(node.results)
        register_bits = node.results[0].bits
        return [self._single(node, known, widths, register_bits)]

    def widen(self, shape: LaneShape, source: int, target: int, *, signed: bool) -> LaneShape:
        """Sign- or zero-extend where that is exact at compile time; a vector elsewhere."""
        return self._widen(shape, source, target, signed)[0]

    def _single(
        self, node: Operation, shapes: list[LaneShape], widths: Sequence[int], bits: int
    ) -> LaneShape:
        instruction = node.instruction
        if instruction.op is Op.S2R:
            assert instruction.sreg is not None
            special = self._special.get(instruction.sreg, self._algebra.uniform())
            return self._fill(special, node, bits)
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
        if type_ is not instruction.type:
            return self._fill(self._wide_product(node, shapes), node, bits)
        return self._fill(self._same_width(instruction, shapes), node, bits)

    def _same_width(self, instruction: Instruction, shapes: list[LaneShape]) -> LaneShape:
        algebra, bits = self._algebra, instruction.type.bits
        result: LaneShape | None = None
        if instruction.op is Op.SELP:
            return self._choose(shapes[2], shapes[0], shapes[1])
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
            case Op.OR:
                result = self.disjoint_or(shapes, bits)
            case _:
                pass
        return result if result is not None else algebra.generic(shapes)

    def _shift_left(self, shapes: list[LaneShape], bits: int) -> LaneShape | None:
        count = _scalar(shapes[1])
        if count is None:
            return None
        if count >= bits:
            return self._algebra.constant(0, bits)
        return self._algebra.scale(shapes[0], 1 << count, bits)

    def _cut(self, instruction: Instruction, shapes: list[LaneShape]) -> LaneShape | None:
        """``x >> k`` and ``x & (2^k - 1)`` where the base's low k bits are zeros."""
        a, operand = shapes[0], _scalar(shapes[1])
        if not isinstance(a, Affine) or operand is None:
            return None
        bits = instruction.type.bits
        shift = instruction.op is Op.SHR
        if not shift and operand & (operand + 1):
            if a.uniform:  # clearing low bits leaves an aligned scalar
                return self._algebra.uniform(align=operand & -operand)
            return None
        size = 1 << operand if shift and operand < bits else operand + 1
        low, high = self._algebra.extent(a)
        if a.align < size or (shift and (low < 0 or high >= a.align)):
            return None
        lanes = range(self._algebra.width)
        uncut = [[offset + a.stride * lane for lane in lanes] for offset in a.offsets]
        rows = tuple(tuple(v >> operand if shift else v & operand for v in row) for row in uncut)
        result = self._algebra.from_lanes(rows, bits)
        if not shift:  # nothing of the base is left
            return result
        if not isinstance(result, Affine):
            return None  # the base, shifted, is still to be added
        assert result.constant is not None
        offsets = [offset + result.constant for offset in result.offsets]
        return self._algebra.affine(offsets, result.stride, None, a.align // size, bits)

    def disjoint_or(self, shapes: list[LaneShape], bits: int) -> LaneShape | None:
        """``x | y`` is ``x + y`` where y's lanes are known and fit below x's alignment."""
        for x, y in (shapes, shapes[::-1]):
            rows = self._algebra.lanes(y, bits)
            if (
                isinstance(x, Affine)
                and x.uniform
                and rows is not None
                and all(value < x.align for row in rows for value in row)
                and not isinstance(y, Vector)
            ):
                return self._algebra.add(x, y, 1, bits)
        return None

    def _wide_product(self, node: Operation, shapes: list[LaneShape]) -> LaneShape:
        instruction = node.instruction
        is_signed, bits = instruction.type.is_signed, instruction.type.bits
        a, b = shapes[:2]
        if _scalar(a) is not None:
            a, b = b, a
        factor = _scalar(b)
        if factor is None:
            product = self._algebra.generic([a, b])
        else:
            wide = self._checked_widening(node, a, bits, 2 * bits, is_signed)
            factor = signed(factor, bits) if is_signed else factor
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
        wide = self._checked_widening(node, shape, source.bits, target.bits, source.is_signed)
        return self._fill(wide, node, register_bits)

    def _checked_widening(
        self, node: Operation, shape: LaneShape, source: int, target: int, is_signed: bool
    ) -> LaneShape:
        wide, needs_check = self._widen(
            shape, source, target, is_signed, may_check=self._may_restart(node)
        )
        (self.checked.add if needs_check else self.checked.discard)(node)
        return wide

    def _widen(
        self,
        shape: LaneShape,
        source: int,
        target: int,
        is_signed: bool,
        *,
        may_check: bool = False,
    ) -> tuple[LaneShape, bool]:
        algebra = self._algebra
        rows = algebra.lanes(shape, source)
        if rows is not None:
            wide = tuple(
                tuple(signed(value, source) if is_signed else value for value in row)
                for row in rows
            )
            return algebra.from_lanes(wide, target), False
        if isinstance(shape, Vector):
            return shape, False
        if isinstance(shape, Affine):
            if shape.uniform or algebra.fits(shape):
                return shape, False
            if shape.stride == 0:
                return PerStrip(0), False
            return (shape, True) if may_check else (Vector(), False)
        if shape.stride == 0:
            return shape, False
        return (shape, True) if may_check else (Vector(), False)

    def _fill(self, shape: LaneShape, node: Operation, register_bits: int) -> LaneShape:
        """Return a result of the instruction's type in a register of another width."""
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
        return PerStrip(new.stride)

    def _compare(
        self, node: Operation, shapes: list[LaneShape], widths: Sequence[int]
    ) -> list[LaneShape | None]:
        generic = self._algebra.generic(shapes)
        results: list[LaneShape | None] = [generic] * len(node.results)
        function = fold.integer_function(node.instruction)
        if function is None or node.instruction.combine is not BoolOp.NONE:
            return results
        rows = self._algebra.evaluate(function, shapes, widths)
        if rows is None:
            return results
        inverse = tuple(tuple(1 - value for value in row) for row in rows)
        both = [self._algebra.from_lanes(lanes, 1) for lanes in (rows, inverse)]
        return list(both[: len(node.results)])

    def _special_elements(self, geometry: Geometry) -> dict[SpecialRegister, LaneShape]:
        algebra = self._algebra
        shapes: dict[SpecialRegister, LaneShape] = {}
        for place, axis in enumerate(geometry.axes()):
            shapes[SpecialRegister(place)] = algebra.from_axis(axis.rows, axis.align)
            size = algebra.constant(geometry.block[place], 32)
            shapes[SpecialRegister(SpecialRegister.NTID_X + place)] = size
        shapes[SpecialRegister.WARPSIZE] = algebra.constant(32, 32)
        lanes = range(geometry.width)
        lane_ids = tuple(
            tuple((strip * geometry.width + lane) % 32 for lane in lanes)
            for strip in range(geometry.strips)
        )
        if geometry.groups == 1 or geometry.span % 32 == 0:
            shapes[SpecialRegister.LANEID] = algebra.from_lanes(lane_ids, 32)
        elif 32 % geometry.span == 0:  # the group's first lane id is a multiple of its span
            shapes[SpecialRegister.LANEID] = algebra.from_axis(lane_ids, geometry.span)
        else:
            shapes[SpecialRegister.LANEID] = Vector()
        return shapes


def _select(a: int, b: int, chooser: int) -> int:
    return a if chooser & 1 else b


def _scalar(shape: LaneShape) -> int | None:
    if isinstance(shape, Affine) and shape.uniform:
        return shape.constant
    return None
