"""Floats of 8 bits and fewer as halves: all their numbers are F16 numbers.

A lane's register has four elements, each in a byte, which are adjacent in depth. Of halves, a
register has two, so that the elements of two lanes become those of four.
"""

from collections.abc import Sequence as Many

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.matrix.fragments import Lanes
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register

D = DataType


class Halves:
    """Emits conversions of registers of a fragment from floats of 8 bits and fewer to halves."""

    def __init__(self, builder: Builder) -> None:
        self._sequence, self._lanes = Sequence(builder), Lanes(builder)
        place = self._lanes.index_in_quad()
        self._first = self._sequence.emit(Op.SHR, D.U32, place, Literal(1))
        self._second = self._lanes.plus(self._first, 2)
        odd = self._sequence.emit(Op.AND, D.B32, place, Literal(1))
        self._shift = self._lanes.times(odd, 16)

    def widen_all(self, registers: Many[Operand], kind: str) -> list[tuple[Register, Register]]:
        """Return for each register the registers of halves of the first and second eight."""
        if kind == "e2m1":  # in bits 2 to 5 of its byte
            registers = [self._sequence.emit(Op.SHR, D.U32, word, Literal(2)) for word in registers]
        return [
            (self._half(register, self._first, kind), self._half(register, self._second, kind))
            for register in registers
        ]

    def _half(self, register: Operand, lane: Register, kind: str) -> Register:
        emit = self._sequence.emit
        pair = emit(Op.SHR, D.U32, self._lanes.value_in_quad(register, lane, D.B32), self._shift)
        low, high = (
            self._sequence.convert(
                emit(Op.CVT, D.F16, byte, source_type=DATA_TYPES[kind]), D.U16, D.U32
            )
            for byte in (pair, emit(Op.SHR, D.U32, pair, Literal(8)))
        )
        return emit(Op.OR, D.B32, low, emit(Op.SHL, D.B32, high, Literal(16)))
