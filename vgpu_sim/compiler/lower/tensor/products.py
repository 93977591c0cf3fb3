"""tcgen05.mma: PTX that tests the operands, then TMMA."""

from functools import partial
from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.matrix import fragments
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.tensor import instruction_descriptors
from vgpu_sim.compiler.lower.tensor.addresses import (
    BOTH,
    BOTH_BLOCKS,
    PAIR_REGISTERS,
    TESTED,
    begin,
    columns_test,
    is_pair,
    keep,
    pair_test,
    run,
    shared_size,
    tensor_address,
    trap,
)
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import (
    DataType,
    Literal,
    Op,
    Operand,
    Register,
    TrapCause,
)

D = DataType
KINDS: Final = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
_MASK_WORDS: Final = 4  # of each block
_ADDS, _IN_TENSOR, _SCALES_SHIFT, _PAIR, _STATIONARY, _POWER_SHIFT = 8, 16, 5, 128, 256, 12
_BLOCKS: Final[dict[str, dict[str | None, int]]] = {
    "mxf8f6f4": {None: 1, "scale_vec::1X": 1, "block32": 1},
    "mxf4": {None: 1, "scale_vec::2X": 1, "block32": 1},
    "mxf4nvf4": {"scale_vec::2X": 1, "block32": 1, "scale_vec::4X": 2, "block16": 2},
}
"""For each kind, the elements of a scale by the modifier: 64 >> n."""
_MOST_SHIFT: Final = 15


def descriptor_test(high: str) -> str:
    """Return PTX that jumps to ILLEGAL unless a descriptor of shared memory is legal."""
    return f"""
      and.b32 %t0, {high}, 0x1ff1c000; setp.ne.u32 %out, %t0, 0x4000; @%out bra ILLEGAL;
      shr.u32 %t0, {high}, 29; mov.b32 %t1, 0x57; shr.u32 %t1, %t1, %t0; and.b32 %t1, %t1, 1;
      setp.eq.u32 %out, %t1, 0; @%out bra ILLEGAL;
    """


def _lane_test(address: str, *, scales: bool = False) -> str:
    """Return PTX that jumps to OUTSIDE unless an address names a lane at which a matrix may begin:
    lane 0, or 16 if a matrix has 64 rows.
    """
    legal = "mov.b32 %t1, 0;" if scales else "selp.b32 %t1, 16, 0, %small;"
    return f"""
      shr.u32 %t0, {address}, 16; {legal} not.b32 %t1, %t1; and.b32 %t0, %t0, %t1;
      setp.ne.u32 %out, %t0, 0; @%out bra OUTSIDE;
    """


def _tests(kind: str, block: int, *, in_tensor: bool, way: str) -> tree.Function:
    """Return PTX that tests the operands of a product."""
    pair = way == instruction_descriptors.PAIR
    test = partial(columns_test, allocated=BOTH_BLOCKS) if pair else columns_test
    a_test = descriptor_test("%a_high")
    if in_tensor:
        a_test = _lane_test("%a_low") + test("%a_low", "8")
    scale_test = ""
    if kind in _BLOCKS:
        scale_test = f"""
          {_lane_test("%sa", scales=True)} {test("%sa", "4")}
          {_lane_test("%sb", scales=True)}
          add.u32 %wide, %n, 31; shr.u32 %wide, %wide, 5; {test("%sb", "%wide")}
        """
    body = f"""
      mov.b32 %code, 0;
      {pair_test() if pair else ""}
      {instruction_descriptors.tests(kind, block, in_tensor=in_tensor, way=way)}
      {descriptor_test("%b_high")}
      {_lane_test("%d")} {test("%d", "%width")}
      {a_test}
      {scale_test}
      {BOTH}
    """
    given = "b32 %d, b32 %a_low, b32 %a_high, b32 %b_high, b32 %idesc, b32 %sa, b32 %sb"
    name = f"tessera.tensor.mma.{kind}.{block}.{in_tensor}.{way}"
    registers = f"{TESTED} .reg .b32 %n, %f, %wide, %width; .reg .pred %small;"
    registers += PAIR_REGISTERS if pair else ""
    return library.function(name, given, registers, body, "b32 %code")


def halves(context: Context, whole: Operand) -> tuple[Register, Register]:
    """Return the two words of a descriptor."""
    sequence = Sequence(context.builder)
    high = sequence.emit(Op.SHR, D.U64, whole, Literal(32))
    low, high = (sequence.convert(part, D.U64, D.U32) for part in (whole, high))
    return keep(context, low), keep(context, high)


def _shift(given: list[tree.Operand], kind: str) -> int:
    if not given:
        return 0
    (operand,) = given
    if kind not in ("f16", "tf32"):
        raise Invalid("scale-input-d exists only for .kind::f16 and .kind::tf32")
    if not isinstance(operand, tree.Integer) or not 0 <= operand.value <= _MOST_SHIFT:
        raise Invalid("scale-input-d must be a constant from 0 to 15")
    return operand.value


def _way(match: Match) -> str:
    if "ws" in match:
        if is_pair(match):
            raise Invalid(".ws is a product of one block")
        return instruction_descriptors.STATIONARY
    return instruction_descriptors.PAIR if is_pair(match) else instruction_descriptors.ONE


def _flags(way: str, block: int, shift: int, *, in_tensor: bool) -> int:
    found = block << _SCALES_SHIFT | shift << _POWER_SHIFT | _IN_TENSOR * in_tensor
    found |= _PAIR * (way == instruction_descriptors.PAIR)
    return found | _STATIONARY * (way == instruction_descriptors.STATIONARY)


def _multiply(context: Context, form: Form, match: Match) -> None:
    """Lower mma."""
    begin(context, match)
    d, a, b, idesc, *rest = context.operands
    word = match.get("product") or match["scaled"]
    kind = word.removeprefix("kind::")
    way = _way(match)
    block = 0
    scales: list[Operand] = [Literal(0), Literal(0)]
    guard, builder = context.builder.guard, context.builder
    builder.guard = None
    if kind in _BLOCKS:
        found = _BLOCKS[kind].get(match.get("scales"))
        if found is None:
            raise Invalid(f".kind::{kind} does not take .{match.get('scales') or 'block_scale'}")
        block = found
        scales = [tensor_address(context, rest.pop(0)) for _ in range(2)]
    most = 2 * _MASK_WORDS
    last: list[Operand] = [*scales, *[Literal(0)] * (most - 2)]
    if isinstance(rest[0], tree.Vector):
        count = most if is_pair(match) else _MASK_WORDS
        parts = fragments.sources(context, rest.pop(0), count, D.B32)
        last[:count] = [keep(context, part) for part in parts]
    added = values.predicate_source(context, rest.pop(0))
    shift, in_tensor = _shift(rest, kind), isinstance(a, tree.Memory)
    adds = keep(context, Sequence(builder).emit(Op.SELP, D.B32, Literal(_ADDS), Literal(0), added))
    to = tensor_address(context, d)
    left: tuple[Operand, Operand]
    if in_tensor:
        left = tensor_address(context, a), Literal(0)
    else:
        left = halves(context, values.source(context, a, D.B64))
    right = halves(context, values.source(context, b, D.B64))
    description = keep(context, values.source(context, idesc, D.B32))
    tested = [to, *left, right[1], description, *scales]
    builder.guard = guard
    run(context, _tests(kind, block, in_tensor=in_tensor, way=way), tested, shared=True)
    builder.guard = None
    size = shared_size(context)
    known = Literal(KINDS.index(kind) | _flags(way, block, shift, in_tensor=in_tensor))
    flags = Sequence(builder).emit(Op.OR, D.B32, adds, known)
    failed = keep(context, Literal(0))
    builder.guard = guard
    builder.emit(
        Op.TMMA,
        type=D.B32,
        dsts=(failed,),
        srcs=(to, *left, *right, description, flags, size, *last),
        vector=4,
    )
    trap(context, failed, {1: TrapCause.TENSOR_OPERAND})


_NOTE: Final = "TMMA, after tests of the operands; TRAP"
_DENSE: Final = "tcgen05.mma.group.product{.collector}"
_STATIONARY_FORM: Final = "tcgen05.mma.ws.group.product{.buffer}"
_SCALED: Final = "tcgen05.mma.group.scaled.block_scale{.scales}{.collector}"


FORMS: Final = (
    *(
        Form(_DENSE, f"[d], a, b, i{more}, {{!}}p{last}", Op.TMMA, _multiply, isa=_NOTE)
        for more, last in (("", ""), ("", ", n"), (", m", ", n"))
    ),
    Form(_STATIONARY_FORM, "[d], a, b, i, {!}p", Op.TMMA, _multiply, isa=_NOTE),
    Form(_SCALED, "[d], a, b, i, [s], [t], {!}p", Op.TMMA, _multiply, isa=_NOTE),
)
