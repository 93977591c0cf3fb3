"""Block scales of mma.sync: the lanes and bytes that hold them, and products that apply them.

A lane's registers with scales have four codes each. The scale of row r of A is held by lane 2 * i +
r / 8 of quad r % 8, and that of column c of B by lane i of quad c, where i is the selector
"thread-id" of the instruction. "byte-id" is the place of the first code (PTX ISA, "Block Scaling
for mma.sync").

A product with scales is computed block by block of K: the sum of the elements' products in
binary32, as MMA computes it from zero, times both scales, is added to a sum in binary64 that begins
with C. The last sum is rounded to binary32.
"""

from collections.abc import Iterator, Sequence as Many
from dataclasses import dataclass
from typing import Final

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.matrix.fragments import QUAD, Lanes, Shape
from vgpu_sim.compiler.lower.matrix.products import Product
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register, Rounding

D = DataType
SCALES: Final = {"ue8m0": D.UE8M0, "ue4m3": D.E4M3}
_CODE_BITS: Final = 8
_UNSIGNED: Final = Literal(0x7F)  # UE4M3 ignores the upper bit of its byte
_ROWS, _COLUMNS, _BITS = 16, 8, 8
_ROW_HALVES: Final = 2
_BIAS, _FRACTION_BITS = 1023, 52  # of binary64


@dataclass(frozen=True, slots=True)
class Selected:
    """A register with scale codes and the selectors that name a lane and a byte of it."""

    codes: Operand
    byte: Operand
    thread: Operand


@dataclass(frozen=True, slots=True)
class Block:
    """A block of K with one scale: registers of A and B, which are 8-bit floats."""

    a: tuple[Operand, ...]
    b: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class ScaledProduct:
    """A product of blocks of 8-bit floats with a scale for each row or column of a block.

    ``a`` and ``b`` are the formats of the elements. ``power`` is the exponent of the power of two
    by which each product of elements is multiplied too.
    """

    a: str
    b: str
    scale: str
    power: int = 0

    def multiply(
        self,
        builder: Builder,
        blocks: Many[Block],
        scales: tuple[Selected, Selected],
        c: Many[Operand],
    ) -> list[Register]:
        """Emit the product of ``blocks`` and its sum with ``c``; return a lane's four results.

        Block n has the codes from place n on behind those that ``scales`` select.
        """
        sequence = Sequence(builder)
        totals: list[Operand] = [
            sequence.emit(Op.CVT, D.F64, addend, source_type=D.F32) for addend in c
        ]
        left, right = self._words(builder, *scales)
        for place, block in enumerate(blocks):
            depth = QUAD * len(block.b) * 32 // _BITS
            size = Shape(_ROWS, _COLUMNS, depth, _BITS)
            inner = Product(size, self.a, self.b, D.F32, D.F32)
            sums = inner.multiply(builder, block.a, block.b, [Literal(0)] * len(totals))
            rows = [self._number(sequence, word, place) for word in left]
            columns = [self._number(sequence, word, place) for word in right]
            if self.power:
                power = Literal((_BIAS + self.power) << _FRACTION_BITS)
                rows = [self._multiply(sequence, row, power) for row in rows]
            for n, sum_ in enumerate(sums):
                half, odd = divmod(n, 2)
                scale = self._multiply(sequence, rows[half], columns[odd])
                wide = sequence.emit(Op.CVT, D.F64, sum_, source_type=D.F32)
                totals[n] = sequence.emit(
                    Op.FMA, D.F64, wide, scale, totals[n], rounding=Rounding.RN
                )
        return [
            sequence.emit(Op.CVT, D.F32, total, source_type=D.F64, rounding=Rounding.RN)
            for total in totals
        ]

    def _words(
        self, builder: Builder, a: Selected, b: Selected
    ) -> tuple[list[Operand], list[Operand]]:
        """Return the codes of a lane's two rows and of its two columns, the selected one first."""
        sequence, lanes = Sequence(builder), Lanes(builder)
        first = self._scaled(sequence, a.thread, _ROW_HALVES, mask=1)
        rows = []
        for half in range(_ROW_HALVES):
            place = self._add(sequence, first, half)
            held = place.bits if isinstance(place, Literal) else place
            rows.append(lanes.value_in_quad(a.codes, held, D.B32))
        begin = lanes.times(lanes.index_in_quad(), 2 * QUAD)
        thread = self._scaled(sequence, b.thread, 1, mask=QUAD - 1)
        begin = sequence.emit(Op.ADD, D.U32, begin, thread)
        columns = [lanes.value_of_lane(b.codes, lanes.plus(begin, QUAD * odd)) for odd in range(2)]
        return (
            list(self._from_byte(sequence, rows, a.byte)),
            list(self._from_byte(sequence, columns, b.byte)),
        )

    def _from_byte(
        self, sequence: Sequence, words: Many[Operand], byte: Operand
    ) -> Iterator[Operand]:
        shift = self._scaled(sequence, byte, _CODE_BITS, mask=3)
        for word in words:
            yield word if shift == Literal(0) else sequence.emit(Op.SHR, D.U32, word, shift)

    def _number(self, sequence: Sequence, word: Operand, place: int) -> Register:
        """Return the scale whose code is at a place of a word, as a number of 64 bits."""
        code = sequence.extract_bits(word, D.U32, _CODE_BITS * place, _CODE_BITS)
        exact = D.BF16
        if self.scale == "ue4m3":
            code, exact = sequence.emit(Op.AND, D.B32, code, _UNSIGNED), D.F16
        number = sequence.emit(Op.CVT, exact, code, source_type=SCALES[self.scale])
        return sequence.emit(Op.CVT, D.F64, number, source_type=exact)

    def _multiply(self, sequence: Sequence, a: Operand, b: Operand) -> Register:
        return sequence.emit(Op.FMUL, D.F64, a, b, rounding=Rounding.RN)

    def _scaled(self, sequence: Sequence, selector: Operand, factor: int, *, mask: int) -> Operand:
        """Return a selector of 16 bits times a power of two; bits beyond ``mask`` are ignored."""
        if isinstance(selector, Literal):
            return Literal((selector.bits & mask) * factor)
        wide = sequence.convert(selector, D.U16, D.U32)
        kept = sequence.emit(Op.AND, D.B32, wide, Literal(mask))
        return sequence.emit(Op.SHL, D.B32, kept, Literal(factor.bit_length() - 1))

    def _add(self, sequence: Sequence, a: Operand, b: int) -> Literal | Register:
        if isinstance(a, Literal):
            return Literal(a.bits + b)
        return sequence.emit(Op.ADD, D.U32, a, Literal(b))
