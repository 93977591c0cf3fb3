"""The transfer rules, by opcode, for values that are linear sums of shared values."""

from collections.abc import Callable, Container, Sequence

from vgpu_sim.exec.jit.analysis.assumptions import OfGroup, Summed
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value
from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.exec.jit.shapes import linear_algebra
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Algebra, LaneShape, Vector, scalar_of
from vgpu_sim.exec.jit.shapes.linear import Linear
from vgpu_sim.isa import DataType, MulMode, Op

_FOLLOWED = frozenset((Op.ADD, Op.SUB, Op.MUL, Op.MAD, Op.SHL, Op.CVT))


class Sums:
    """The linear sums that operations compute.

    Only operations with a result in ``traced`` are considered. If such a sum is extended to 64
    bits, the analysis may have to assume that no lane wraps around. It does so only where
    ``may_restart`` is true, and adds the assumption to ``assumptions``.
    """

    def __init__(
        self,
        algebra: Algebra,
        traced: Container[Value | None],
        may_restart: Callable[[Operation], bool],
        assumptions: dict[Operation, OfGroup],
    ) -> None:
        self._algebra = algebra
        self._traced = traced
        self._may_restart = may_restart
        self._assumptions = assumptions

    def of(self, node: Operation, shapes: list[LaneShape], widths: Sequence[int]) -> Linear | None:
        """Return the linear sum that ``node`` computes, or None if it computes no such sum."""
        instruction, result = node.instruction, node.results[0]
        type_ = fold.result_type(instruction)
        if result not in self._traced or result is None or type_.bits != result.bits:
            return None
        if not type_.is_integer or instruction.saturate or instruction.op not in _FOLLOWED:
            return None
        if any(isinstance(s, Vector) and s.lanes is None and s.linear is None for s in shapes):
            return None
        operands = [
            self._sum_of(source, shape, bits)
            for source, shape, bits in zip(node.sources, shapes, widths, strict=True)
        ]
        match instruction.op:
            case Op.ADD | Op.SUB:
                sign = 1 if instruction.op is Op.ADD else -1
                return linear_algebra.add(operands[0], operands[1], sign)
            case Op.MUL | Op.MAD if instruction.mode is MulMode.WIDE:
                a, b = operands[:2]
                if scalar_of(shapes[0]) is not None:
                    a, b = b, a
                factor = None if b is None or b.terms or len(set(b.own)) > 1 else b.own[0]
                if factor is None:
                    return None
                if not instruction.type.is_signed:
                    factor &= (1 << instruction.type.bits) - 1
                product = linear_algebra.scale(self._wide(node, a, instruction.type), factor)
                return product if len(operands) < 3 else linear_algebra.add(product, operands[2])
            case Op.MUL | Op.MAD if instruction.mode is MulMode.LO:
                product = linear_algebra.multiply(operands[0], operands[1])
                return product if len(operands) < 3 else linear_algebra.add(product, operands[2])
            case Op.SHL:
                count = scalar_of(shapes[1])
                within = count is not None and count < type_.bits
                return linear_algebra.scale(operands[0], 1 << count) if within and count else None
            case Op.CVT:
                source = instruction.source_type
                assert source is not None
                return self._wide(node, operands[0], source) if source.is_integer else None
            case _:
                return None

    def _wide(self, node: Operation, narrow: Linear | None, type_: DataType) -> Linear | None:
        wide = linear_algebra.widen(narrow, 64, is_signed=type_.is_signed)
        if wide is None or type_.bits != 32 or not self._may_restart(node):
            return None
        self._assumptions[node] = Summed(wide, type_.is_signed)
        return wide

    def _sum_of(self, source: Source, shape: LaneShape, bits: int) -> Linear | None:
        algebra = self._algebra
        if isinstance(shape, Vector) and shape.linear is not None:
            return shape.linear if shape.linear.bits == bits else None
        rows = algebra.lanes(shape, bits)
        if rows is not None:
            return linear_algebra.from_constants(
                bits, tuple(number for row in rows for number in row)
            )
        if not isinstance(shape, Affine) or not isinstance(source, Value) or source.bits != bits:
            return None
        away = tuple(number for row in algebra.above_base(shape) for number in row)
        return linear_algebra.affine(source, away)
