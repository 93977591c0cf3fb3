"""ldmatrix and stmatrix of elements of 4 to 8 bits, of which each occupies a byte of a register.

A lane has four elements in a register. PTX ISA shows them in figures; here they are those of
CuTe's layouts for these instructions (``SM100_U8x8_LDSM_T``, ``SM100_U8x4_STSM_T``). With g and t
as in ``fragments``, byte j of a register of a transposed matrix is in column g + 8 (j / 2), and
in row 4t + 2r + j % 2 of m16n16, where r is the register, or row 2t + j % 2 of m16n8.
"""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import space_of, whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.matrix import fragments
from vgpu_sim.compiler.lower.matrix.fragments import EDGE, Lanes
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, MulMode, Op, Operand, Register, Space
from vgpu_sim.records import dataclass

D = DataType
_BYTES: Final = 4  # of a register
_WIDTHS: Final = {"b4x16_p64": 4, "b6x16_p32": 6}


@dataclass(frozen=True, slots=True)
class _Bytes:
    """The bytes of memory that a lane accesses, in rows whose addresses come from several lanes."""

    context: Context
    where: Operand
    space: Space
    sequence: Sequence
    lanes: Lanes
    g: Register
    t: Register

    @classmethod
    def at(cls, context: Context, match: Match, where: tree.Operand) -> "_Bytes":
        own = "own" in match
        space = Space.SHARED if own else space_of(context, where, Space.GENERIC)
        address = whole_address(context, where, space)
        lanes = Lanes(context.builder)
        sequence = Sequence(context.builder)
        return cls(
            context, address, space, sequence, lanes, lanes.quad_index(), lanes.index_in_quad()
        )

    @property
    def kind(self) -> DataType:
        return D.U32 if self.space is Space.SHARED else D.U64

    def place_transposed(self, factor: int, first: int, byte: int) -> tuple[Register, Register]:
        """Return the address of the row ``first`` + ``factor`` t + j % 2, and the column."""
        lane = self.lanes.plus(self.lanes.times(self.t, factor), first + byte % 2)
        return self.row(lane), self.lanes.plus(self.g, EDGE * (byte // 2))

    def row(self, lane: Register) -> Register:
        """Return the address that a lane gives."""
        return self.lanes.value_of_lane(self.where, lane, self.kind)

    def load(self, row: Register, column: Register, width: int) -> Register:
        """Return an element of ``width`` bits, of a row without gaps between elements."""
        emit = self.sequence.emit
        if width == fragments.BITS["u8"]:
            return self._byte(row, column)
        bit = emit(Op.MUL, D.U32, column, Literal(width), mode=MulMode.LO)
        place = emit(Op.SHR, D.U32, bit, Literal(3))
        word = self._byte(row, place)
        if width == _WIDTHS["b6x16_p32"]:  # may extend to the next byte of the row's twelve
            above = self._byte(row, self.lanes.plus(place, 1))
            word = emit(Op.OR, D.B32, word, emit(Op.SHL, D.B32, above, Literal(8)))
        word = emit(Op.SHR, D.U32, word, emit(Op.AND, D.B32, bit, Literal(7)))
        return emit(Op.AND, D.B32, word, Literal((1 << width) - 1))

    def place(self, row: Register, column: Register) -> Register:
        """Return the address of a byte of a row."""
        offset = self.sequence.convert(column, D.U32, D.U64) if self.kind is D.U64 else column
        return self.sequence.emit(Op.ADD, self.kind, row, offset)

    def _byte(self, row: Register, column: Register) -> Register:
        builder = self.context.builder
        to = builder.scratch_register(32)
        place = self.place(row, column)
        builder.emit(Op.LD, type=D.U8, dsts=(to,), srcs=(place,), space=self.space)
        return to

    def join(self, parts: list[Register]) -> Register:
        """Return a register with four bytes, the first in the lowest bits."""
        word = parts[0]
        for n, part in enumerate(parts[1:], start=1):
            moved = self.sequence.emit(Op.SHL, D.B32, part, Literal(8 * n))
            word = self.sequence.emit(Op.OR, D.B32, word, moved)
        return word


def _count(match: Match) -> int:
    return int(match["matrices"][1:])


def load_square(context: Context, form: Form, match: Match) -> None:
    """Lower ``ldmatrix.m16n16``: one or two matrices, in two registers each."""
    data, where = context.operands
    count, width = _count(match), _WIDTHS.get(match.get("narrow") or "", 8)
    if count > 2:
        raise Invalid("ldmatrix.m16n16 loads one or two matrices (.x1, .x2)")
    to = fragments.destinations(context, data, 2 * count, D.B32)
    rows = _Bytes.at(context, match, where)
    words = []
    for register in range(2 * count):
        first = 16 * (register // 2) + 2 * (register % 2)
        places = [rows.place_transposed(4, first, byte) for byte in range(_BYTES)]
        words.append(rows.join([rows.load(*place, width) for place in places]))
    fragments.assign(rows.sequence, to, words, D.B32)


def load_rows(context: Context, form: Form, match: Match) -> None:
    """Lower ``ldmatrix.m8n16`` of elements of 4 or 6 bits at generic addresses."""
    data, where = context.operands
    count = _count(match)
    to = fragments.destinations(context, data, count, D.B32)
    rows = _Bytes.at(context, match, where)
    first = rows.lanes.times(rows.t, _BYTES)
    words = []
    for matrix in range(count):
        row = rows.row(rows.lanes.plus(rows.g, EDGE * matrix))
        columns = [rows.lanes.plus(first, byte) for byte in range(_BYTES)]
        width = _WIDTHS[match["narrow"]]
        words.append(rows.join([rows.load(row, column, width) for column in columns]))
    fragments.assign(rows.sequence, to, words, D.B32)


def store(context: Context, form: Form, match: Match) -> None:
    """Lower ``stmatrix.m16n8.trans``: matrices of 8 rows of 16 bytes, in a register each."""
    where, data = context.operands
    count = _count(match)
    words = [values.source(context, part, D.B32) for part in fragments.elements(data, count)]
    rows = _Bytes.at(context, match, where)
    for matrix, word in enumerate(words):
        for byte in range(_BYTES):
            place = rows.place(*rows.place_transposed(2, EDGE * matrix, byte))
            part = rows.sequence.emit(Op.SHR, D.U32, word, Literal(8 * byte))
            context.builder.emit(Op.ST, type=D.B8, srcs=(place, part), space=rows.space)


_NOTE = "of bytes, after SHFL for the rows' addresses"

FORMS: Final = (
    Form("ldmatrix.sync.aligned.m16n16.matrices.trans{.own}.b8", "r, [a]", Op.LD, load_square,
         isa=_NOTE),
    Form("ldmatrix.sync.aligned.m16n16.matrices.trans{.own}.b8x16.narrow", "r, [a]", Op.LD,
         load_square, isa=f"{_NOTE}; shifts and AND"),
    Form("ldmatrix.sync.aligned.m8n16.matrices.b8x16.narrow", "r, [a]", Op.LD, load_rows,
         isa=f"{_NOTE}; shifts and AND"),
    Form("stmatrix.sync.aligned.m16n8.matrices.trans{.own}.b8", "[a], r", Op.ST, store,
         isa=_NOTE),
)  # fmt: skip
