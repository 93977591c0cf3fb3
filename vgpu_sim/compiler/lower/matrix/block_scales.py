"""Products with block scales: the selected scales of a warp, and MMA and MMA_SCALE for each block.

A lane's registers with scales have four codes each. The scale of row r of A is held by lane 2 * i +
r / 8 of quad r % 8, and that of column c of B by lane i of quad c, where i is the selector
"thread-id" of the instruction. "byte-id" is the place of the first code (PTX ISA, "Block Scaling
for mma.sync"). MMA_SCALE reads the codes that selectors of zero name.
"""

from collections.abc import Sequence as Many
from typing import Final

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.matrix.fragments import QUAD, Lanes, Shape
from vgpu_sim.compiler.lower.matrix.products import Product
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.isa import DataType, Literal, MatrixShape, Op, Operand, Register, Rounding
from vgpu_sim.records import dataclass

D = DataType
SCALES: Final = {"ue8m0": D.UE8M0, "ue4m3": D.E4M3}
_CODE_BITS: Final = 8
_ROWS, _COLUMNS, _BITS = 16, 8, 8
_RESULTS: Final = 4
_BIAS, _FRACTION_BITS = 127, 23  # of binary32


@dataclass(frozen=True, slots=True)
class Selected:
    """A register with scale codes and the selectors that name a lane and a byte of it."""

    codes: Operand
    byte: Operand
    thread: Operand


@dataclass(frozen=True, slots=True)
class Block:
    """The registers of A and B that have a block of K with one scale.

    Two registers of A, and one of B, are the elements of one step of depth.
    """

    a: tuple[Operand, ...]
    b: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class ScaledProduct:
    """A product of blocks of elements with a scale for each row or column of a block.

    ``a`` and ``b`` are E4M3 or E5M2, four elements in a register, or both are E2M1, eight in a
    register. ``power`` is the exponent of the power of two by which each product of elements is
    multiplied too.
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
        sums = [sum_ for block in blocks for sum_ in self._sums(builder, block)]
        words = _selected_words(builder, *scales)
        results = [builder.scratch_register(32) for _ in range(_RESULTS)]
        builder.emit(
            Op.MMA_SCALE,
            type=D.F32,
            source_type=SCALES[self.scale],
            vector=len(blocks),
            dsts=tuple(results),
            srcs=(*sums, *words, *c),
        )
        return results

    def _sums(self, builder: Builder, block: Block) -> list[Register]:
        """Return the sums of the products of a block's elements."""
        zeros = [Literal(0)] * _RESULTS
        if self.a == "e2m1":
            return self._sums_of_nibbles(builder, block, zeros)
        depth = QUAD * len(block.b) * 32 // _BITS
        product = Product(Shape(_ROWS, _COLUMNS, depth, _BITS), self.a, self.b, D.F32, D.F32)
        sums = product.multiply(builder, block.a, block.b, zeros)
        if not self.power:
            return sums
        sequence, power = Sequence(builder), Literal((_BIAS + self.power) << _FRACTION_BITS)
        return [sequence.emit(Op.FMUL, D.F32, n, power, rounding=Rounding.RN) for n in sums]

    def _sums_of_nibbles(
        self, builder: Builder, block: Block, zeros: Many[Operand]
    ) -> list[Register]:
        sums, totals = zeros, list[Register]()
        for step, column in enumerate(block.b):
            totals = [builder.scratch_register(32) for _ in range(_RESULTS)]
            builder.emit(
                Op.MMA,
                type=D.F32,
                source_type=D.E2M1,
                matrix=MatrixShape.M16N8K32,
                dsts=tuple(totals),
                srcs=(*block.a[2 * step : 2 * step + 2], column, *sums),
            )
            sums = totals
        return totals


def _selected_words(builder: Builder, a: Selected, b: Selected) -> tuple[Operand, Operand]:
    """Return the words of A and B whose codes selectors of zero name."""
    sequence, zero = Sequence(builder), Literal(0)
    left, right = a.codes, b.codes
    lanes = None if a.thread == b.thread == zero else Lanes(builder)
    if lanes is not None and a.thread != zero:
        odd = sequence.emit(Op.AND, D.B32, lanes.index_in_quad(), Literal(1))
        begin = _times(sequence, a.thread, 2, mask=1)
        place = sequence.emit(Op.ADD, D.U32, odd, begin)
        left = lanes.value_in_quad(left, place, D.B32)
    if lanes is not None and b.thread != zero:
        thread = _times(sequence, b.thread, 1, mask=QUAD - 1)
        source_lane = thread.bits if isinstance(thread, Literal) else thread
        right = lanes.value_in_quad(right, source_lane, D.B32)
    return _from_byte(sequence, left, a.byte), _from_byte(sequence, right, b.byte)


def _from_byte(sequence: Sequence, word: Operand, byte: Operand) -> Operand:
    if byte == Literal(0):
        return word
    return sequence.emit(Op.SHR, D.U32, word, _times(sequence, byte, _CODE_BITS, mask=QUAD - 1))


def _times(sequence: Sequence, selector: Operand, factor: int, *, mask: int) -> Literal | Register:
    """Return a selector of 16 bits times a power of two; bits beyond ``mask`` are ignored."""
    if isinstance(selector, Literal):
        return Literal((selector.bits & mask) * factor)
    assert isinstance(selector, Register)
    wide = sequence.convert(selector, D.U16, D.U32)
    masked = sequence.emit(Op.AND, D.B32, wide, Literal(mask))
    return sequence.emit(Op.SHL, D.B32, masked, Literal(factor.bit_length() - 1))
