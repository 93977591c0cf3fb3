"""mma.m8n8k4 of halves: four products of 8 by 8 by 4, one for each pair of quads.

Lanes 4q to 4q + 3 and 16 lanes further hold the product q (PTX ISA, "Matrix Fragments for
mma.m8n8k4 with .f16 floating point type"). The sum is that of other products of halves: it starts
with c, and each step is one FMA in binary32, in the order of depth.
"""

from functools import partial
from itertools import product
from typing import Final

from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.matrix import fragments
from vgpu_sim.compiler.lower.matrix.fragments import Lanes
from vgpu_sim.compiler.lower.matrix.products import pack, single, unpack
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register, Rounding

D = DataType
_DEPTH, _ELEMENTS, _HALF = 4, 8, 16
_TYPES: Final = {"f16": D.F16, "f32": D.F32}
_NOTE: Final = "SHFL for the factors of other lanes; FMA in the order of k, starting with c"


class _Places:
    """Registers with the lanes and elements of factors, which depend on the lane."""

    def __init__(self, context: Context) -> None:
        self.lanes = Lanes(context.builder)
        self._sequence = Sequence(context.builder)
        self._quad = self.select_bits(3 << 2)

    def select_bits(self, mask: int) -> Register:
        """Return the bits of the lane's number that a mask selects."""
        return self._sequence.emit(Op.AND, D.B32, self.lanes.lane, Literal(mask))

    def source(self, upper: int | Register, place: int | Register) -> Register:
        """Return the lane of the same product with this place in its quad; ``upper`` is 0 or 16."""
        lane = self._quad
        for part in (upper, place):
            step = Literal(part) if isinstance(part, int) else part
            lane = self._sequence.emit(Op.ADD, D.U32, lane, step)
        return lane

    def element(
        self, words: tuple[Operand, ...], lane: Register, index: int | Register
    ) -> Register:
        """Return the half with this index of another lane's two words, as binary32."""
        sequence = self._sequence
        low, high = (
            sequence.convert(self.lanes.value_of_lane(word, lane), D.U32, D.U64) for word in words
        )
        joined_words = sequence.emit(
            Op.OR, D.B64, sequence.emit(Op.SHL, D.B64, high, Literal(32)), low
        )
        by: Operand = Literal(_HALF * index) if isinstance(index, int) else index
        if isinstance(index, Register):
            by = sequence.emit(Op.SHL, D.B32, index, Literal(_HALF.bit_length() - 1))
        half = sequence.convert(sequence.emit(Op.SHR, D.U64, joined_words, by), D.U64, D.U32)
        return single(sequence, half, D.F16)


def _multiply(
    context: Context, form: Form, match: Match, *, layouts: tuple[str, str], total: str
) -> None:
    """Lower ``mma.sync.aligned.m8n8k4`` of halves."""
    type_, count = _TYPES[total], _ELEMENTS // (2 if total == "f16" else 1)
    d, a, b, c = context.operands
    x, y = (fragments.sources(context, factor, 2, D.B32) for factor in (a, b))
    z = fragments.sources(context, c, count, D.B32)
    to = fragments.destinations(context, d, count, D.B32)
    sequence, places = Sequence(context.builder), _Places(context)
    wide = type_ is D.F32
    upper, own_row = places.select_bits(16), places.select_bits(1 if wide else 3)
    own_column = places.select_bits(2) if wide else None
    rows = [places.lanes.plus(own_row, 2 * n) for n in range(2 if wide else 1)]
    left: dict[tuple[int, int], Register] = {}
    right: dict[tuple[int, int], Register] = {}
    for k in range(_DEPTH):
        for n, row in enumerate(rows):
            lane, index = (row, k) if layouts[0] == "row" else (k, row)
            left[n, k] = places.element(x, places.source(upper, lane), index)
        for i in (0, 1, 4, 5) if wide else range(_ELEMENTS):
            column: int | Register = i % 4
            if own_column is not None:
                column = places.lanes.plus(own_column, i % 2)
            lane, index = (k, column) if layouts[1] == "row" else (column, k)
            right[i, k] = places.element(y, places.source(_HALF * (i // 4), lane), index)
    totals = unpack(sequence, z, type_)
    for i, k in product(range(_ELEMENTS), range(_DEPTH)):
        at_row, at_column = (i >> 1 & 1, i & 5) if wide else (0, i)
        left_factor, right_factor = left[at_row, k], right[at_column, k]
        totals[i] = sequence.emit(
            Op.FMA, D.F32, left_factor, right_factor, totals[i], rounding=Rounding.RN
        )
    fragments.assign(sequence, to, pack(sequence, totals, type_), D.B32)


FORMS: Final = tuple(
    Form(
        f"mma.sync.aligned.m8n8k4.{left}.{right}.{total}.f16.f16.{total}",
        "d, a, b, c",
        Op.FMA,
        partial(_multiply, layouts=(left, right), total=total),
        isa=_NOTE,
    )
    for left, right, total in product(("row", "col"), ("row", "col"), _TYPES)
)
