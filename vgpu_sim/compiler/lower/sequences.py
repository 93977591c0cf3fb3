"""Instructions that become several words: each result in a scratch register of its own."""

from typing import Any

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.isa import Compare, DataType, Literal, Op, Operand, Predicate, Register

_SIGNED_64, _UNSIGNED_64 = DataType.S64, DataType.U64


class Sequence:
    """Emits words of the current statement and gives their results."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def word(self, op: Op, type_: DataType, *srcs: Operand, **fields: Any) -> Register:
        """Return the result of a word, as wide as its type."""
        result = self._builder.scratch(max(type_.bits, 16))
        self._builder.emit(op, type=type_, dsts=(result,), srcs=srcs, **fields)
        return result

    def store(self, to: Register, op: Op, type_: DataType, *srcs: Operand, **fields: Any) -> None:
        """Emit a word whose result goes to ``to``."""
        self._builder.emit(op, type=type_, dsts=(to,), srcs=srcs, **fields)

    def test(self, how: Compare, type_: DataType, a: Operand, b: Operand) -> Predicate:
        """Return whether ``a how b``; the predicate holds until the next test."""
        result = self._builder.inverse_predicate()
        self._builder.emit(Op.SETP, type=type_, dsts=(result, None), srcs=(a, b), compare=how)
        return result

    def number(self, how: Compare, type_: DataType, a: Operand, b: Operand) -> Register:
        """Return 1 where ``a how b``, else 0, in a type as wide."""
        flag = self.test(how, type_, a, b)
        return self.word(Op.SELP, type_, Literal(1), Literal(0), flag)

    def converted(
        self, value: Operand, source: DataType, to: DataType, *, clamp: bool = False
    ) -> Register:
        """Return ``value`` as another integer type, cut or clamped to its range.

        A result of 8 or 16 bits is extended to 32 by its type.
        """
        result = self._builder.scratch(max(to.bits, 32))
        self._builder.emit(
            Op.CVT, type=to, source_type=source, dsts=(result,), srcs=(value,), saturate=clamp
        )
        return result

    def part(self, value: Operand, type_: DataType, first: int, bits: int) -> Operand:
        """Return ``bits`` of a 32-bit value from ``first`` on, extended by a 32-bit type."""
        if bits == 32:
            return value
        return self.word(Op.BFE, type_, value, Literal(first), Literal(bits))
