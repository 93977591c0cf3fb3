"""Emits sequences of ISA instructions for one PTX instruction; each result is in a scratch
register.
"""

from typing import Any

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.isa import Compare, DataType, Literal, Op, Operand, Predicate, Register

_SIGNED_64, _UNSIGNED_64 = DataType.S64, DataType.U64


class Sequence:
    """Emits ISA instructions for the PTX statement that is being lowered.

    Most methods return the operand that holds the result.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def emit(self, op: Op, type_: DataType, *srcs: Operand, **fields: Any) -> Register:
        """Emit an instruction; return its result in a register as wide as ``type_``."""
        result = self._builder.scratch_register(max(type_.bits, 16))
        self._builder.emit(op, type=type_, dsts=(result,), srcs=srcs, **fields)
        return result

    def emit_to(self, to: Register, op: Op, type_: DataType, *srcs: Operand, **fields: Any) -> None:
        """Emit an instruction whose result is written to ``to``."""
        self._builder.emit(op, type=type_, dsts=(to,), srcs=srcs, **fields)

    def compare(self, how: Compare, type_: DataType, a: Operand, b: Operand) -> Predicate:
        """Emit the comparison ``how`` of ``a`` with ``b``; return the predicate that holds the
        result.

        The next comparison of the statement overwrites the predicate.
        """
        result = self._builder.inverse_predicate()
        self._builder.emit(Op.SETP, type=type_, dsts=(result, None), srcs=(a, b), compare=how)
        return result

    def compare_as_number(self, how: Compare, type_: DataType, a: Operand, b: Operand) -> Register:
        """Emit the comparison ``how`` of ``a`` with ``b``. Return a register that is 1 if the
        comparison holds, else 0. The register has the width of ``type_``.
        """
        flag = self.compare(how, type_, a, b)
        return self.emit(Op.SELP, type_, Literal(1), Literal(0), flag)

    def convert(
        self, value: Operand, source: DataType, to: DataType, *, clamp: bool = False
    ) -> Register:
        """Emit a conversion of ``value`` from integer type ``source`` to integer type ``to``.

        By default, the value is truncated. With ``clamp``, it is clamped to the range of ``to``.
        A result of 8 or 16 bits is extended to 32 bits, by its sign if ``to`` is signed.
        """
        result = self._builder.scratch_register(max(to.bits, 32))
        self._builder.emit(
            Op.CVT, type=to, source_type=source, dsts=(result,), srcs=(value,), saturate=clamp
        )
        return result

    def extract_bits(self, value: Operand, type_: DataType, first: int, bits: int) -> Operand:
        """Extract a field of a 32-bit value; return it extended to 32 bits.

        ``first`` is the number of the field's lowest bit, and ``bits`` is its width. ``type_`` is a
        32-bit type. The field is sign-extended if the type is signed, and zero-extended otherwise.
        """
        if bits == 32:
            return value
        return self.emit(Op.BFE, type_, value, Literal(first), Literal(bits))
