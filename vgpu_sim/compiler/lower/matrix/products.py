"""Products of matrices in a warp's registers: by MMA, or by shuffles and dot products of lanes.

F16, BF16, TF32 and formats of 8 bits use MMA instructions, whose arithmetic ``docs/isa.md``
defines; E4M3 by E5M2, and formats of 4 and 6 bits, as F16. Other types are computed element by
element, starting with c, in the order of depth: F64 rounds as the instruction specifies. A result
of 16 bits is rounded once more at the end. Integers are exact modulo 2^32; with ``.satfinite`` the
exact sum is clamped at the end.
"""

from collections.abc import Sequence as Many
from dataclasses import replace

from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.matrix.fragments import EDGE, QUAD, Lanes, Shape
from vgpu_sim.compiler.lower.matrix.narrow_floats import Halves
from vgpu_sim.compiler.lower.matrix.small_floats import FORMATS, SMALL
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.isa import DataType, Literal, MatrixShape, Op, Operand, Register, Rounding
from vgpu_sim.isa.families.matrix import SHAPES
from vgpu_sim.records import dataclass

D = DataType
_UPPER_NIBBLES = Literal(0xF0F0_F0F0)
_NIBBLE_SHIFT = 8  # products of nibbles at the top of bytes
NARROW = ("e4m3", "e5m2")
_FACTORS = {"f16": D.F16, "bf16": D.BF16, "tf32": D.TF32, "u8": D.U8, "s8": D.S8}
_FACTORS |= {"e4m3": D.E4M3, "e5m2": D.E5M2}


@dataclass(frozen=True, slots=True)
class Product:
    """The types of a matrix product: those of the factors, and that of the sum.

    ``total`` is F16, F32, F64 or S32. If the factors consist of single bits, ``logic`` is the
    operation that combines a bit of each factor.
    """

    shape: Shape
    a: str
    b: str
    total: DataType
    result: DataType
    clamp: bool = False
    rounding: Rounding = Rounding.RN
    logic: Op = Op.AND

    def multiply(
        self, builder: Builder, a: Many[Operand], b: Many[Operand], c: Many[Operand]
    ) -> list[Register]:
        """Emit instructions that multiply ``a`` by ``b`` and add ``c``; return the registers with
        the result.

        The registers are ordered by block of columns, and then by block of rows.
        """
        sequence = Sequence(builder)
        if self.a in FORMATS and (self.a != self.b or self.a in SMALL):
            return self._narrow(builder, a, b, c)
        shape = self._word_shape()
        if shape is not None:
            return self._words(builder, shape, a, b, unpack(sequence, c, self.total))
        lanes = Lanes(builder)
        factor_type = D.B64 if self.shape.bits == 64 else D.B32
        late = self.clamp or self.shape.bits == 4
        addends = unpack(sequence, c, self.total)
        totals: list[Operand] = [Literal(0)] * len(addends) if late else list(addends)
        columns = lanes.times(lanes.index_in_quad(), 2 * QUAD)
        row_blocks = self.shape.row_blocks
        for block in range(self.shape.depth_blocks):
            for place in range(QUAD):
                rows = [
                    self._parts(sequence, lanes.value_in_quad(value, place, factor_type), self.a)
                    for value in a[block * row_blocks : (block + 1) * row_blocks]
                ]
                column_lanes = [lanes.plus(columns, QUAD * odd + place) for odd in range(2)]
                for n in range(self.shape.column_blocks):
                    value = b[n * self.shape.depth_blocks + block]
                    column_values = [
                        lanes.value_of_lane(value, lane, factor_type) for lane in column_lanes
                    ]
                    pair = [
                        self._parts(sequence, column_value, self.b)
                        for column_value in column_values
                    ]
                    for r, row in enumerate(rows):
                        for odd, column in enumerate(pair):
                            to = 2 * (n * row_blocks + r) + odd
                            totals[to] = self._accumulate(sequence, totals[to], row, column)
        if late:
            totals = [self._at_last(sequence, *pair) for pair in zip(totals, addends, strict=True)]
        return pack(sequence, totals, self.result)

    def _narrow(
        self, builder: Builder, a: Many[Operand], b: Many[Operand], c: Many[Operand]
    ) -> list[Register]:
        """Multiply floats of 8 bits and fewer as halves, which represent all of them exactly."""
        sequence, size = Sequence(builder), self.shape
        halves = Halves(builder)
        x, y = halves.widen_all(a, self.a), halves.widen_all(b, self.b)
        wide = replace(self, shape=replace(size, depth=16, bits=16), a="f16", b="f16")
        wide = replace(wide, total=D.F32, result=D.F32)
        totals = unpack(sequence, c, self.total)
        for block in range(size.depth_blocks):
            rows = x[block * size.row_blocks : (block + 1) * size.row_blocks]
            left = [row[upper] for upper in range(2) for row in rows]
            columns = y[block :: size.depth_blocks]
            right = [half for column in columns for half in column]
            totals = list[Operand](wide.multiply(builder, left, right, totals))
        return pack(sequence, totals, self.result)

    def _word_shape(self) -> MatrixShape | None:
        """Return the shape of the MMA instructions for this product; None if MMA does not support
        it. Two of half the depth follow each other if there is none of the whole.
        """
        shapes = SHAPES.get(_FACTORS.get(self.a, D.F64), ())
        for depth in (self.shape.depth, self.shape.depth // 2):
            name = f"M{min(self.shape.rows, 2 * EDGE)}N{EDGE}K{depth}"
            if name in MatrixShape.__members__ and MatrixShape[name] in shapes:
                return MatrixShape[name]
        return None

    def _words(
        self,
        builder: Builder,
        shape: MatrixShape,
        a: Many[Operand],
        b: Many[Operand],
        c: Many[Operand],
    ) -> list[Register]:
        sequence, size = Sequence(builder), self.shape
        type_, factor = D.F32, _FACTORS[self.b]
        if self.total is D.S32:
            type_ = D.S32 if self.a == "s8" else D.U32
        together, results = shape.rows // EDGE, list[Register]()
        each = size.depth_blocks * shape.depth // size.depth
        for n in range(size.column_blocks):
            for first in range(0, size.row_blocks, together):
                begin = 2 * (n * size.row_blocks + first)
                addends = c[begin : begin + 2 * together]
                sums: Many[Operand] = [Literal(0)] * len(addends) if self.clamp else addends
                totals = list[Register]()
                for part in range(0, size.depth_blocks, each):
                    left = [
                        a[block * size.row_blocks + row]
                        for block in range(part, part + each)
                        for row in range(first, first + together)
                    ]
                    right = b[n * size.depth_blocks + part : n * size.depth_blocks + part + each]
                    totals = [builder.scratch_register(32) for _ in addends]
                    builder.emit(
                        Op.MMA,
                        type=type_,
                        source_type=factor,
                        matrix=shape,
                        dsts=tuple(totals),
                        srcs=(*left, *right, *sums),
                    )
                    sums = totals
                if self.clamp:
                    totals = [
                        sequence.emit(Op.ADD_SAT, D.S32, *pair)
                        for pair in zip(totals, addends, strict=True)
                    ]
                results += totals
        return pack(sequence, results, self.result) if self.result is D.F16 else results

    def _parts(self, sequence: Sequence, value: Register, kind: str) -> list[Register]:
        """Return the parts of a register that single steps use."""
        match kind:
            case "s4" | "u4":
                low = sequence.emit(Op.SHL, D.B32, value, Literal(4))
                return [sequence.emit(Op.AND, D.B32, word, _UPPER_NIBBLES) for word in (low, value)]
            case _:
                return [value]

    def _accumulate(
        self, sequence: Sequence, total: Operand, row: list[Register], column: list[Register]
    ) -> Operand:
        for x, y in zip(row, column, strict=True):
            if self.shape.bits == 1:
                combined = sequence.emit(self.logic, D.B32, x, y)
                total = sequence.emit(Op.ADD, D.U32, total, sequence.emit(Op.POPC, D.B32, combined))
            elif self.total is D.S32:
                signs = [D.S32 if kind[0] == "s" else D.U32 for kind in (self.a, self.b)]
                total = sequence.emit(Op.DP4A, signs[0], x, y, total, source_type=signs[1])
            else:
                type_ = D.F64 if self.total is D.F64 else D.F32
                total = sequence.emit(Op.FMA, type_, x, y, total, rounding=self.rounding)
        return total

    def _at_last(self, sequence: Sequence, total: Operand, addend: Operand) -> Operand:
        if self.shape.bits == 4:
            total = sequence.emit(Op.SHR, D.S32, total, Literal(_NIBBLE_SHIFT))
        return sequence.emit(Op.ADD_SAT if self.clamp else Op.ADD, D.S32, total, addend)


def single(sequence: Sequence, value: Operand, source: DataType) -> Register:
    """Return a number as binary32."""
    return sequence.emit(Op.CVT, D.F32, value, source_type=source)


def unpack(sequence: Sequence, registers: Many[Operand], type_: DataType) -> list[Operand]:
    """Return the elements of C; those of F16 as binary32."""
    if type_ is not D.F16:
        return list(registers)
    elements: list[Operand] = []
    for packed in registers:
        upper = sequence.emit(Op.SHR, D.U32, packed, Literal(16))
        elements += [single(sequence, half, D.F16) for half in (packed, upper)]
    return elements


def pack(sequence: Sequence, totals: Many[Operand], type_: DataType) -> list[Register]:
    """Return registers with the elements of D; those of F16 are rounded, two to a register."""
    if type_ is not D.F16:
        return [sequence.emit(Op.MOV, D.B64 if type_ is D.F64 else D.B32, n) for n in totals]
    halves = [
        sequence.convert(
            sequence.emit(Op.CVT, D.F16, n, source_type=D.F32, rounding=Rounding.RN), D.U16, D.U32
        )
        for n in totals
    ]
    return [
        sequence.emit(Op.OR, D.B32, low, sequence.emit(Op.SHL, D.B32, high, Literal(16)))
        for low, high in zip(halves[::2], halves[1::2], strict=True)
    ]
