"""tcgen05.ld and st: registers of a warp, and the words of its quarter of the lanes.

With t the index of a thread in its warp, register i of a shape of 16 lanes is at row t / 4 + 8 *
(i % 2), or for 16x64b at t / 4 + 8 * (t % 2); PTX ISA has a figure of each shape.
"""

from collections.abc import Callable
from typing import Final

from vgpu_sim.compiler.lower import special, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.matrix import fragments
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.tensor.addresses import begin, keep, place_of, tensor_address
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.compute.tensor_memory import TENSOR_LANE_BYTES
from vgpu_sim.isa import DataType, Literal, MulMode, Op, Operand, Register, Space, SpecialRegister
from vgpu_sim.records import dataclass

D = DataType
_MOST_REGISTERS: Final = 128
_LOWER: Final = 8 * TENSOR_LANE_BYTES  # eight lanes further


@dataclass(frozen=True, slots=True)
class _Shape:
    """A shape: the lanes, the columns and registers of ``.x1``, and the place of a register.

    ``place`` returns the column of a register and whether it is eight lanes further, and
    ``spread`` emits the lane and the column of a thread.
    """

    lanes: int
    columns: int
    registers: int
    place: Callable[[int], tuple[int, bool]]
    spread: Callable[[Sequence, Operand], tuple[Operand, Operand]]


def _thread(sequence: Sequence, lane: Operand) -> tuple[Operand, Operand]:
    return lane, Literal(0)


def _half(sequence: Sequence, lane: Operand) -> tuple[Operand, Operand]:
    return sequence.emit(Op.AND, D.B32, lane, Literal(15)), Literal(0)


def _field(sequence: Sequence, lane: Operand, first: int, bits: int) -> Register:
    return sequence.emit(Op.BFE, D.U32, lane, Literal(first), Literal(bits))


def _quads(sequence: Sequence, lane: Operand, each: int) -> tuple[Operand, Operand]:
    column = _field(sequence, lane, 0, 2)
    if each > 1:
        column = sequence.emit(Op.SHL, D.B32, column, Literal(1))
    return _field(sequence, lane, 2, 3), column


def _pairs(sequence: Sequence, lane: Operand) -> tuple[Operand, Operand]:
    lower = sequence.emit(Op.SHL, D.B32, _field(sequence, lane, 0, 1), Literal(3))
    row = sequence.emit(Op.ADD, D.U32, _field(sequence, lane, 2, 3), lower)
    return row, _field(sequence, lane, 1, 1)


_SHAPES: Final = {
    "32x32b": _Shape(32, 1, 1, lambda i: (i, False), _thread),
    "16x32bx2": _Shape(16, 1, 1, lambda i: (i, False), _half),
    "16x64b": _Shape(16, 2, 1, lambda i: (2 * i, False), _pairs),
    "16x128b": _Shape(
        16, 4, 2, lambda i: (i // 2 * 4, i % 2 == 1), lambda s, lane: _quads(s, lane, 1)
    ),
    "16x256b": _Shape(
        16,
        8,
        4,
        lambda i: (i // 4 * 8 + i % 2, i // 2 % 2 == 1),
        lambda s, lane: _quads(s, lane, 2),
    ),
}


@dataclass(frozen=True, slots=True)
class _Access:
    """The thread's address, and for each register its displacement; ``packed`` if a register is
    the lower halves of two columns.
    """

    address: Register
    displacements: tuple[int, ...]
    packed: bool


def _access(context: Context, match: Match, where: tree.Operand, *offset: tree.Operand) -> _Access:
    begin(context, match)
    shape = _SHAPES[match.get("lanes") or "16x32bx2"]
    count, packed = int(match["count"][1:]), "pack::16b" in match or "unpack::16b" in match
    registers = count * shape.registers
    if registers > _MOST_REGISTERS:
        raise Invalid(f".{match['count']} of .{match['lanes']} has more than 128 registers")
    each = 2 if packed else 1
    columns = count * shape.columns * each
    with context.builder.use_guard(None):
        warp = keep(context, special.warp_id(context))
    address = tensor_address(context, where)
    place = place_of(context, address, warp, columns, shape.lanes)
    if offset:
        place = _second_half(context, address, warp, columns, place, offset[0])
    with context.builder.use_guard(None):
        sequence = Sequence(context.builder)
        lane, column = shape.spread(sequence, special.s2r(context, SpecialRegister.LANEID))
        low = MulMode.LO
        at = sequence.emit(Op.MAD, D.U32, lane, Literal(TENSOR_LANE_BYTES), place, mode=low)
        at = sequence.emit(Op.MAD, D.U32, column, Literal(4 * each), at, mode=low)
    places = (shape.place(i) for i in range(registers))
    displacements = tuple(4 * each * column + _LOWER * lower for column, lower in places)
    return _Access(keep(context, at), displacements, packed)


def _second_half(
    context: Context,
    address: Register,
    warp: Register,
    columns: int,
    place: Register,
    offset: tree.Operand,
) -> Register:
    """Return the place of the thread's half: the upper lanes access columns further on."""
    if not isinstance(offset, tree.Integer):
        raise Invalid("expected an integer constant")
    step = offset.value & 0xFFFF_FFFF
    builder = context.builder
    with builder.use_guard(None):
        further = Sequence(builder).emit(Op.ADD, D.U32, address, Literal(step))
        further = keep(context, further)
    upper_place = place_of(context, further, warp, columns, 16)
    with builder.use_guard(None):
        sequence = Sequence(builder)
        lane = special.s2r(context, SpecialRegister.LANEID)
        upper = sequence.emit(Op.SHR, D.U32, lane, Literal(4))
        distance = sequence.emit(Op.SUB, D.U32, upper_place, place)
        at = sequence.emit(Op.MAD, D.U32, upper, distance, place, mode=MulMode.LO)
        return keep(context, at)


def load(context: Context, form: Form, match: Match) -> None:
    """Lower ld."""
    data, where, *offset = context.operands
    access = _access(context, match, where, *offset)
    to = fragments.destinations(context, data, len(access.displacements), D.B32)
    builder = context.builder

    def read(register: Register, displacement: int) -> None:
        builder.emit(
            Op.LD,
            type=D.B32,
            dsts=(register,),
            srcs=(access.address,),
            space=Space.SHARED,
            displacement=displacement,
        )

    for register, displacement in zip(to, access.displacements, strict=True):
        read(register, displacement)
        if access.packed:
            sequence, upper = Sequence(builder), builder.scratch_register(32)
            read(upper, displacement + 4)
            low = sequence.emit(Op.AND, D.B32, register, Literal(0xFFFF))
            high = sequence.emit(Op.SHL, D.B32, upper, Literal(16))
            sequence.emit_to(register, Op.OR, D.B32, low, high)


def store(context: Context, form: Form, match: Match) -> None:
    """Lower st."""
    where, *offset, data = context.operands
    access = _access(context, match, where, *offset)
    builder = context.builder

    def write(value: Operand, displacement: int) -> None:
        builder.emit(
            Op.ST,
            type=D.B32,
            srcs=(access.address, value),
            space=Space.SHARED,
            displacement=displacement,
        )

    parts = fragments.elements(data, len(access.displacements))
    for part, displacement in zip(parts, access.displacements, strict=True):
        value = values.source(context, part, D.B32)
        if not access.packed:
            write(value, displacement)
            continue
        sequence = Sequence(builder)
        write(sequence.emit(Op.AND, D.B32, value, Literal(0xFFFF)), displacement)
        write(sequence.emit(Op.SHR, D.U32, value, Literal(16)), displacement + 4)


_LOADS: Final = "LD of the words, after tests of the address; TRAP"
_STORES: Final = "ST of the words, after tests of the address; TRAP"
_HEAD, _TAIL = "sync.aligned", ".count{.%s::16b}.b32"
FORMS: Final = (
    Form(f"tcgen05.ld.{_HEAD}.lanes{_TAIL % 'pack'}", "r, [t]", Op.LD, load, isa=_LOADS),
    Form(f"tcgen05.ld.{_HEAD}.16x32bx2{_TAIL % 'pack'}", "r, [t], n", Op.LD, load, isa=_LOADS),
    Form(f"tcgen05.st.{_HEAD}.lanes{_TAIL % 'unpack'}", "[t], r", Op.ST, store, isa=_STORES),
    Form(f"tcgen05.st.{_HEAD}.16x32bx2{_TAIL % 'unpack'}", "[t], n, r", Op.ST, store, isa=_STORES),
)
