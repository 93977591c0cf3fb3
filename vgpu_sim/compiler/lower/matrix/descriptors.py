"""Matrix descriptors of wgmma: the addresses of a matrix's rows in shared memory.

A descriptor (PTX ISA, "Matrix Descriptor Format") states where a matrix begins, two strides, and
a swizzle mode. The matrix consists of rows of 16 bytes. Along its contiguous dimension, w rows of
16 bytes follow each other, with w = 1, 2, 4 or 8 by the mode (none, 32, 64 or 128 bytes); eight
such lines, each 16 * w bytes after the previous one, are an atom. The strides are the distances
between atoms. A swizzle permutes the rows of 16 bytes in a line: bits 4 to 6 of an address, as
many as the mode has, are combined by exclusive or with bits 7 to 9 of its distance from the
beginning of the pattern.
"""

from typing import Final

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.isa import Compare, DataType, Literal, MulMode, Op, Operand, Register, Space

D = DataType
_FIELD_BITS: Final = 14  # of an address or a stride, in units of 16 bytes
_UNIT_SHIFT: Final = 4
_BASE_FIRST, _BASE_BITS, _MODE_FIRST = 17, 3, 30  # bits of the descriptor's upper word
_LINE_SHIFT: Final = 7  # a swizzle's lines have 128 bytes
_SWIZZLE_SHIFT: Final = 3


class SharedMatrix:
    """A matrix in shared memory that a descriptor describes.

    ``across`` is true if the elements of one row of 16 bytes follow each other along M or N
    ("MN-major"), false if they do along K.
    """

    def __init__(self, builder: Builder, descriptor: Operand, lane: Register, across: bool) -> None:
        self._builder, self._sequence, self._across = builder, Sequence(builder), across
        emit = self._sequence.emit
        low = self._sequence.convert(descriptor, D.U64, D.U32)
        high = self._sequence.convert(emit(Op.SHR, D.U64, descriptor, Literal(32)), D.U64, D.U32)
        mode = emit(Op.SHR, D.U32, high, Literal(_MODE_FIRST))
        self._scale = emit(Op.AND, D.B32, emit(Op.SUB, D.U32, Literal(4), mode), Literal(3))
        line = emit(Op.SHL, D.B32, Literal(16), self._scale)
        self._mask = emit(Op.SUB, D.U32, line, Literal(16))
        base = self._sequence.extract_bits(high, D.U32, _BASE_FIRST, _BASE_BITS)
        self._base = emit(Op.SHL, D.B32, base, Literal(_LINE_SHIFT))
        start, leading, stride = (
            self._bytes(word, first) for word, first in ((low, 0), (low, 16), (high, 0))
        )
        plain = self._sequence.compare(Compare.EQ, D.U32, mode, Literal(0))
        # ``along`` is the distance of the two halves of K, ``beside`` that of atoms of M or N.
        if across:
            self._beside = emit(Op.SELP, D.B32, stride, leading, plain)
            self._along = emit(Op.SELP, D.B32, leading, stride, plain)
            self._near = emit(Op.SELP, D.B32, self._beside, Literal(16), plain)
        else:
            self._beside = self._near = stride
            self._along = emit(Op.SELP, D.B32, leading, Literal(16), plain)
        inside = emit(Op.AND, D.B32, lane, Literal(7))
        self._start = self._multiply_add(inside, line, start)
        self._first = emit(Op.AND, D.B32, emit(Op.SHR, D.U32, lane, Literal(3)), Literal(1))
        self._second = emit(Op.AND, D.B32, emit(Op.SHR, D.U32, lane, Literal(4)), Literal(1))

    def load(
        self, pair: Operand, *, rows_first: bool, count: int = 4, step: int = 0
    ) -> list[Register]:
        """Load the ``pair``-th sixteen rows of A or columns of B; return the fragment's registers.

        They are blocks of eight by eight elements of 16 bits, or as many bytes. With
        ``rows_first``, the registers of both blocks of rows precede those of the second half of K;
        otherwise both halves of K come first. ``count`` is 2 for the first eight columns alone.
        ``step`` is the number of steps of both halves along K to skip, of which sparse products
        have two.
        """
        beside, along = self._first, self._second
        if not rows_first:
            beside, along = along, beside
        if step:
            along = self._sequence.emit(Op.ADD, D.U32, along, Literal(2 * step))
        place = self._multiply_add(along, self._along, self._start)
        place = self._multiply_add(beside, self._near, place)
        place = self._sequence.emit(Op.ADD, D.U32, place, self._begin(pair))
        registers = tuple(self._builder.scratch_register(32) for _ in range(count))
        self._builder.emit(
            Op.LDMATRIX,
            dsts=registers,
            srcs=(self._swizzle(place),),
            space=Space.SHARED,
            vector=count,
            transposed=self._across,
        )
        return list(registers)

    def _begin(self, pair: Operand) -> Operand:
        """Return the distance of sixteen rows or columns from the first ones."""
        emit = self._sequence.emit
        if isinstance(pair, Literal):
            twice: Operand = Literal(2 * pair.bits)
        else:
            twice = emit(Op.SHL, D.B32, pair, Literal(1))
        if not self._across:
            return self._multiply(twice, self._beside)
        last = emit(Op.SHR, D.U32, self._mask, Literal(_UNIT_SHIFT))
        near = emit(Op.SHL, D.B32, emit(Op.AND, D.B32, twice, last), Literal(_UNIT_SHIFT))
        return self._multiply_add(emit(Op.SHR, D.U32, twice, self._scale), self._beside, near)

    def _swizzle(self, place: Register) -> Register:
        emit = self._sequence.emit
        distance = emit(Op.SUB, D.U32, place, self._base)
        moved = emit(Op.SHR, D.U32, distance, Literal(_SWIZZLE_SHIFT))
        return emit(Op.XOR, D.B32, place, emit(Op.AND, D.B32, moved, self._mask))

    def _bytes(self, word: Operand, first: int) -> Register:
        field = self._sequence.extract_bits(word, D.U32, first, _FIELD_BITS)
        return self._sequence.emit(Op.SHL, D.B32, field, Literal(_UNIT_SHIFT))

    def _multiply(self, a: Operand, b: Operand) -> Register:
        return self._sequence.emit(Op.MUL, D.U32, a, b, mode=MulMode.LO)

    def _multiply_add(self, a: Operand, b: Operand, c: Operand) -> Register:
        return self._sequence.emit(Op.MAD, D.U32, a, b, c, mode=MulMode.LO)
