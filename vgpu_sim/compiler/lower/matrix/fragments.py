"""The distribution of matrix elements over a warp's lanes (PTX ISA, "Matrix Fragments for mma").

With g = lane / 4 and t = lane % 4, a register of a factor holds elements of one row of A, or one
column of B, namely g of a block of eight; they are adjacent in depth, and those of t follow
those of t - 1. An accumulator has the columns 2t and 2t + 1 of row g of each block of eight by
eight.
"""

from collections.abc import Sequence as Many

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.builder import Builder
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register, ShuffleMode, SpecialRegister
from vgpu_sim.records import dataclass

D = DataType
EDGE = 8
QUAD = 4
BITS = {"b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}
BITS |= {"e3m2": 8, "e2m3": 8, "e2m1": 8}  # of the byte that holds one
BITS |= {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "f64": 64}
_ALL_LANES = Literal(0xFFFF_FFFF)
_ANY_LANE, _QUAD_LANE = Literal(0x1F), Literal(0x1C1F)  # the clamp and the segment mask of SHFL


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a matrix product, such as ``m16n8k16``, for elements of ``bits`` bits."""

    rows: int
    columns: int
    depth: int
    bits: int

    @property
    def each(self) -> int:
        """The number of elements of A or B that one register holds."""
        return max(1, 32 // self.bits)

    @property
    def row_blocks(self) -> int:
        return self.rows // EDGE

    @property
    def column_blocks(self) -> int:
        return self.columns // EDGE

    @property
    def depth_blocks(self) -> int:
        return self.depth // (QUAD * self.each)


def shape_of(name: str, type_: str) -> Shape:
    """Return the shape that a modifier such as ``m16n8k16`` names, for elements of ``type_``."""
    rows, columns_and_depth = name[1:].split("n")
    columns, depth = columns_and_depth.split("k")
    return Shape(int(rows), int(columns), int(depth), BITS[type_])


def elements(operand: tree.Operand, count: int) -> tuple[tree.Operand, ...]:
    """Return the operands that are the registers of a fragment.

    Raises:
        Invalid: the operand is no vector, which a single register is not either, or their number
            is not ``count``.
    """
    if not isinstance(operand, tree.Vector):
        raise Invalid(f"expected registers in braces: a vector of {count}")
    if len(operand.elements) != count:
        raise Invalid(f"expected a vector of {count} registers, found {len(operand.elements)}")
    return operand.elements


def sources(
    context: Context, operand: tree.Operand, count: int, type_: DataType
) -> tuple[Operand, ...]:
    """Return the operands from which a matrix instruction reads a fragment."""
    return tuple(values.source(context, part, type_) for part in elements(operand, count))


def single(context: Context, operand: tree.Operand, type_: DataType) -> Operand:
    """Return the operand that is one register, with or without braces."""
    (part,) = elements(operand, 1) if isinstance(operand, tree.Vector) else (operand,)
    return values.source(context, part, type_)


def destinations(
    context: Context, operand: tree.Operand, count: int, type_: DataType
) -> tuple[Register, ...]:
    """Return the registers to which a matrix instruction writes a fragment.

    Raises:
        Invalid: a register occurs twice.
    """
    registers = tuple(values.destination(context, part, type_) for part in elements(operand, count))
    if len(set(registers)) != len(registers):
        raise Invalid("the fragment contains the same register twice")
    return registers


def assign(sequence: Sequence, to: Many[Register], results: Many[Operand], type_: DataType) -> None:
    """Emit moves of results to their destinations.

    The results were computed in other registers, because a destination may also be an operand.
    """
    for register, value in zip(to, results, strict=True):
        sequence.emit_to(register, Op.MOV, type_, value)


class Lanes:
    """Emits instructions that compute numbers from the lane's index, or read values of other
    lanes.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._sequence = Sequence(builder)
        self.lane = builder.scratch_register(32)
        builder.emit(Op.S2R, dsts=(self.lane,), sreg=SpecialRegister.LANEID)

    def quad_index(self) -> Register:
        """Return a register with g, the index of a lane's quad (four consecutive lanes) in the
        warp.

        In a block of eight rows or columns, g is the lane's row or column.
        """
        return self._sequence.emit(Op.SHR, D.U32, self.lane, Literal(2))

    def index_in_quad(self) -> Register:
        """Return a register with t, a lane's position in its quad (four consecutive lanes)."""
        return self._sequence.emit(Op.AND, D.B32, self.lane, Literal(3))

    def times(self, number: Register, factor: int) -> Register:
        """Return a register with ``number`` times ``factor``, a power of two."""
        return self._sequence.emit(Op.SHL, D.B32, number, Literal(factor.bit_length() - 1))

    def plus(self, number: Register, addend: int) -> Register:
        """Return a register with ``number`` plus ``addend``."""
        if addend == 0:
            return number
        return self._sequence.emit(Op.ADD, D.U32, number, Literal(addend))

    def value_in_quad(self, value: Operand, place: int | Register, type_: DataType) -> Register:
        """Return a register with the value that another lane of the same quad holds.

        A quad is four consecutive lanes; ``place`` is the other lane's position in it.
        """
        lane = Literal(place) if isinstance(place, int) else place
        return self._shuffle(value, lane, _QUAD_LANE, type_)

    def value_of_lane(self, value: Operand, lane: Register, type_: DataType = D.B32) -> Register:
        """Return the value that the lane with number ``lane`` holds."""
        return self._shuffle(value, lane, _ANY_LANE, type_)

    def _shuffle(self, value: Operand, lane: Operand, how: Literal, type_: DataType) -> Register:
        sequence, result = self._sequence, self._builder.scratch_register(32)
        if type_.bits == 64:
            upper = sequence.emit(Op.SHR, D.U64, value, Literal(32))
            low, high = (
                self._shuffle(sequence.convert(half, D.U64, D.U32), lane, how, D.B32)
                for half in (value, upper)
            )
            raised = sequence.convert(high, D.U32, D.U64)
            raised = sequence.emit(Op.SHL, D.B64, raised, Literal(32))
            return sequence.emit(Op.OR, D.B64, raised, sequence.convert(low, D.U32, D.U64))
        self._builder.emit(
            Op.SHFL,
            dsts=(result, None),
            srcs=(value, lane, how, _ALL_LANES),
            shuffle=ShuffleMode.IDX,
        )
        return result
