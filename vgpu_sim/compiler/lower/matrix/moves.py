"""ldmatrix, stmatrix and movmatrix: matrices of eight rows of 16 bytes between memory and lanes.

A lane has two adjacent elements of a row in one register. Each row's address comes from its own
lane.
"""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import space_of, whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.matrix import fragments
from vgpu_sim.compiler.lower.matrix.fragments import EDGE, Lanes
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register, Space

D = DataType


class _Rows:
    """The addresses of a lane's elements, in matrices whose row addresses come from several
    lanes.
    """

    def __init__(self, context: Context, match: Match, where: Operand, space: Space) -> None:
        self.sequence, self._where, self._space = Sequence(context.builder), where, space
        self._lanes = lanes = Lanes(context.builder)
        self._type = D.U32 if self._space is Space.SHARED else D.U64
        self._builder = context.builder
        g, t = lanes.quad_index(), lanes.index_in_quad()
        self._first = g
        inside = lanes.times(t, 4)
        if "trans" in match:
            self._first, inside = lanes.times(t, 2), lanes.times(g, 2)
        self._inside = inside
        if self._type is D.U64:
            self._inside = self.sequence.convert(inside, D.U32, D.U64)

    def place(self, matrix: int, odd: int = 0) -> Register:
        """Return the address of a lane's word in a matrix, or of one of its two halves if
        transposed.
        """
        lane = self._lanes.plus(self._first, EDGE * matrix + odd)
        row = self._lanes.value_of_lane(self._where, lane, self._type)
        return self.sequence.emit(Op.ADD, self._type, row, self._inside)

    def load(self, to: Register, type_: DataType, place: Register) -> None:
        self._builder.emit(Op.LD, type=type_, dsts=(to,), srcs=(place,), space=self._space)

    def store(self, place: Register, type_: DataType, value: Operand) -> None:
        self._builder.emit(Op.ST, type=type_, srcs=(place, value), space=self._space)


def _space(context: Context, match: Match, where: tree.Operand) -> Space:
    return Space.SHARED if "own" in match else space_of(context, where, Space.GENERIC)


def _count(match: Match) -> int:
    return next(int(word[1]) for word in ("x1", "x2", "x4") if match.get("matrices") == word)


def load(context: Context, form: Form, match: Match) -> None:
    """Lower ``ldmatrix r, [p]``."""
    data, where = context.operands
    count = _count(match)
    to = fragments.destinations(context, data, count, D.B32)
    space = _space(context, match, where)
    if space is Space.SHARED:
        row = whole_address(context, where, space)
        context.builder.emit(
            Op.LDMATRIX,
            dsts=to,
            srcs=(row,),
            space=space,
            vector=count,
            transposed="trans" in match,
        )
        return
    rows = _Rows(context, match, whole_address(context, where, space), space)
    words = []
    for matrix in range(count):
        word = context.builder.scratch_register(32)
        if "trans" in match:
            rows.load(word, D.U16, rows.place(matrix))
            upper = context.builder.scratch_register(32)
            rows.load(upper, D.U16, rows.place(matrix, 1))
            word = _join_halves(rows.sequence, word, upper)
        else:
            rows.load(word, D.B32, rows.place(matrix))
        words.append(word)
    fragments.assign(rows.sequence, to, words, D.B32)


def load_narrow(context: Context, form: Form, match: Match) -> None:
    """Lower ``ldmatrix.m8n16 r, [p]`` of rows whose 16 elements have 4 or 6 bits.

    They are packed at the beginning of a row of 16 bytes; a lane gets four, each in a byte.
    """
    data, where = context.operands
    count = _count(match)
    to = fragments.destinations(context, data, count, D.B32)
    builder, sequence = context.builder, Sequence(context.builder)
    space = Space.SHARED
    row = whole_address(context, where, space)
    words = tuple(builder.scratch_register(32) for _ in range(count))
    builder.emit(Op.LDMATRIX, dsts=words, srcs=(row,), space=space, vector=count)
    lanes = Lanes(builder)
    spread = _spread_nibbles if match["narrow"] == "b4x16_p64" else _spread_sixths
    fragments.assign(sequence, to, [spread(sequence, lanes, word) for word in words], D.B32)


def _spread_nibbles(sequence: Sequence, lanes: Lanes, word: Register) -> Register:
    """Return a lane's four elements of 4 bits: half of the word of another lane of its quad."""
    t = lanes.index_in_quad()
    source = sequence.emit(Op.SHR, D.U32, t, Literal(1))
    odd = lanes.times(sequence.emit(Op.AND, D.B32, t, Literal(1)), 16)
    bits = sequence.emit(Op.SHR, D.U32, lanes.value_in_quad(word, source, D.B32), odd)
    return _spread(sequence, bits, 4)


def _spread_sixths(sequence: Sequence, lanes: Lanes, word: Register) -> Register:
    """Return a lane's four elements of 6 bits: 24 bits of the words of two lanes of its quad."""
    t = lanes.index_in_quad()
    first = sequence.emit(Op.ADD, D.U32, t, lanes.times(t, 2))  # in bytes
    source = sequence.emit(Op.SHR, D.U32, first, Literal(2))
    shift = lanes.times(sequence.emit(Op.AND, D.B32, first, Literal(3)), 8)
    low, high = (lanes.value_in_quad(word, lane, D.B32) for lane in (source, lanes.plus(source, 1)))
    complement = sequence.emit(Op.SUB, D.U32, Literal(32), shift)  # by 32, a shift makes zero
    bits = sequence.emit(
        Op.OR,
        D.B32,
        sequence.emit(Op.SHR, D.U32, low, shift),
        sequence.emit(Op.SHL, D.B32, high, complement),
    )
    return _spread(sequence, bits, 6)


def _spread(sequence: Sequence, bits: Register, width: int) -> Register:
    """Return four adjacent elements of ``width`` bits, each in the lower bits of a byte."""
    parts = [
        sequence.emit(
            Op.AND,
            D.B32,
            sequence.emit(Op.SHL, D.B32, bits, Literal((8 - width) * n)),
            Literal(((1 << width) - 1) << (8 * n)),
        )
        for n in range(4)
    ]
    joined = parts[0]
    for part in parts[1:]:
        joined = sequence.emit(Op.OR, D.B32, joined, part)
    return joined


def store(context: Context, form: Form, match: Match) -> None:
    """Lower ``stmatrix [p], r``."""
    where, data = context.operands
    count = _count(match)
    words = fragments.sources(context, data, count, D.B32)
    space = _space(context, match, where)
    rows = _Rows(context, match, whole_address(context, where, space), space)
    places = [rows.place(m, odd) for m in range(count) for odd in range(1 + ("trans" in match))]
    if "trans" not in match:
        for place, word in zip(places, words, strict=True):
            rows.store(place, D.B32, word)
        return
    for word, low, high in zip(words, places[::2], places[1::2], strict=True):
        rows.store(low, D.B16, word)
        rows.store(high, D.B16, rows.sequence.emit(Op.SHR, D.U32, word, Literal(16)))


def transpose(context: Context, form: Form, match: Match) -> None:
    """Lower ``movmatrix d, a``: transpose the matrix."""
    d, a = context.operands
    value = values.source(context, a, D.B32)
    to = values.destination(context, d, D.B32)
    sequence, lanes = Sequence(context.builder), Lanes(context.builder)
    g = lanes.quad_index()
    pair = sequence.emit(Op.SHR, D.U32, g, Literal(1))
    first = sequence.emit(Op.ADD, D.U32, lanes.times(lanes.index_in_quad(), EDGE), pair)
    odd = sequence.emit(Op.AND, D.B32, g, Literal(1))
    shift = lanes.times(odd, 16)
    halves = []
    for lane in (first, lanes.plus(first, EDGE // 2)):
        word = sequence.emit(Op.SHR, D.U32, lanes.value_of_lane(value, lane), shift)
        halves.append(sequence.emit(Op.AND, D.B32, word, Literal(0xFFFF)))
    sequence.emit_to(to, Op.MOV, D.B32, _join_halves(sequence, *halves))


def _join_halves(sequence: Sequence, low: Register, high: Register) -> Register:
    return sequence.emit(Op.OR, D.B32, low, sequence.emit(Op.SHL, D.B32, high, Literal(16)))


FORMS: Final = (
    Form("ldmatrix.sync.aligned.m8n8.matrices{.trans}.own.b16", "r, [a]", Op.LDMATRIX, load),
    Form(
        "ldmatrix.sync.aligned.m8n16.matrices.own.b8x16.narrow",
        "r, [a]",
        Op.LDMATRIX,
        load_narrow,
        isa="LDMATRIX; SHFL, shifts, AND and OR of each",
    ),
    Form(
        "ldmatrix.sync.aligned.m8n8.matrices{.trans}.b16",
        "r, [a]",
        Op.LD,
        load,
        isa="after SHFL for the rows' addresses",
    ),
    Form(
        "stmatrix.sync.aligned.m8n8.matrices{.trans}{.own}.b16",
        "[a], r",
        Op.ST,
        store,
        isa="after SHFL for the rows' addresses",
    ),
    Form("movmatrix.sync.aligned.m8n8.trans.b16", "d, a", Op.SHFL, transpose, isa="twice"),
)
