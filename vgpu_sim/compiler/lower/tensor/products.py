"""tcgen05.mma: PTX that tests the operands, then TMMA."""

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
    TESTED,
    begin,
    columns_test,
    keep,
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
_MASK_WORDS: Final = 4
_ADDS, _IN_TENSOR = 1, 2
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


def _tests(kind: str, block: int, *, in_tensor: bool) -> tree.Function:
    """Return PTX that tests the operands of a product."""
    scaled = kind in _BLOCKS
    a_test = descriptor_test("%a_high")
    if in_tensor:
        a_test = _lane_test("%a_low") + columns_test("%a_low", "8")
    scale_test = ""
    if scaled:
        scale_test = f"""
          {_lane_test("%sa", scales=True)} {columns_test("%sa", "4")}
          {_lane_test("%sb", scales=True)}
          add.u32 %wide, %n, 31; shr.u32 %wide, %wide, 5; {columns_test("%sb", "%wide")}
        """
    body = f"""
      mov.b32 %code, 0;
      {instruction_descriptors.tests(kind, block, in_tensor=in_tensor)}
      {descriptor_test("%b_high")}
      {_lane_test("%d")} {columns_test("%d", "%n")}
      {a_test}
      {scale_test}
      {BOTH}
    """
    given = "b32 %d, b32 %a_low, b32 %a_high, b32 %b_high, b32 %idesc, b32 %sa, b32 %sb"
    name = f"tessera.tensor.mma.{kind}.{block}.{in_tensor}"
    registers = f"{TESTED} .reg .b32 %n, %f, %wide; .reg .pred %small;"
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


def _multiply(context: Context, form: Form, match: Match) -> None:
    """Lower mma."""
    begin(context, match)
    d, a, b, idesc, *rest = context.operands
    word = match.get("product") or match["scaled"]
    kind = word.removeprefix("kind::")
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
    mask: list[Operand] = [Literal(0)] * _MASK_WORDS
    if isinstance(rest[0], tree.Vector):
        parts = fragments.sources(context, rest.pop(0), _MASK_WORDS, D.B32)
        mask = [keep(context, part) for part in parts]
    added = values.predicate_source(context, rest.pop(0))
    adds = keep(context, Sequence(builder).emit(Op.SELP, D.B32, Literal(_ADDS), Literal(0), added))
    shift = _shift(rest, kind)
    in_tensor = isinstance(a, tree.Memory)
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
    run(context, _tests(kind, block, in_tensor=in_tensor), tested, shared=True)
    builder.guard = None
    size = shared_size(context)
    flags = Sequence(builder).emit(Op.OR, D.B32, adds, Literal(_IN_TENSOR * in_tensor | block << 2))
    failed = keep(context, Literal(0))
    builder.guard = guard
    builder.emit(
        Op.TMMA,
        type=D.B32,
        dsts=(failed,),
        srcs=(
            *(Literal(KINDS.index(kind)), to, *left, *right, description, flags, *scales),
            *(Literal(shift), size, *mask),
        ),
        vector=4,
    )
    trap(context, failed, {1: TrapCause.TENSOR_OPERAND})


_NOTE: Final = "TMMA, after tests of the operands; TRAP"
_DENSE: Final = "tcgen05.mma.group.product{.collector}"
_SCALED: Final = "tcgen05.mma.group.scaled.block_scale{.scales}{.collector}"


FORMS: Final = (
    *(
        Form(_DENSE, f"[d], a, b, i{more}, {{!}}p{last}", Op.TMMA, _multiply, isa=_NOTE)
        for more, last in (("", ""), ("", ", n"), (", m", ", n"))
    ),
    Form(_SCALED, "[d], a, b, i, [s], [t], {!}p", Op.TMMA, _multiply, isa=_NOTE),
)
