"""tcgen05.mma: PTX that tests the operands, then TMMA."""

from collections.abc import Callable, Sequence as Many
from dataclasses import replace
from functools import partial
from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.matrix import fragments
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.tensor import instruction_descriptors
from vgpu_sim.compiler.lower.tensor.addresses import (
    BOTH,
    BOTH_BLOCKS,
    CAUSES,
    PAIR_REGISTERS,
    SATURATION,
    SATURATION_CAUSES,
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
from vgpu_sim.records import dataclass

D = DataType
KINDS: Final = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
_MASK_WORDS: Final = 4  # of each block
_ADDS, _IN_TENSOR, _SCALES_SHIFT, _PAIR, _STATIONARY, _POWER_SHIFT = 8, 16, 5, 128, 256, 12
_SPARSE, _SHIFTED, _ZEROED = 512, 1024, 2048
_BLOCKS: Final[dict[str, dict[str | None, int]]] = {
    "mxf8f6f4": {None: 1, "scale_vec::1X": 1, "block32": 1},
    "mxf4": {None: 1, "scale_vec::2X": 1, "block32": 1},
    "mxf4nvf4": {"scale_vec::2X": 1, "block32": 1, "scale_vec::4X": 2, "block16": 2},
}
"""For each kind, the elements of a scale by the modifier: 64 >> n."""
_MOST_SHIFT: Final = 15


@dataclass(frozen=True, slots=True)
class _Variant:
    """What the code for a product depends on. ``block`` states the elements of a scale, as in
    ``_BLOCKS``; ``zeroed``: columns of B are zeros.
    """

    kind: str
    block: int
    way: str
    in_tensor: bool
    sparse: bool
    shifted: bool
    zeroed: bool

    @property
    def name(self) -> str:
        flags = (self.in_tensor, self.sparse, self.shifted, self.zeroed)
        bits = "".join(str(int(flag)) for flag in flags)
        return f"tessera.tensor.mma.{self.kind}.{self.block}.{self.way}.{bits}"

    @property
    def flags(self) -> int:
        """The flags of TMMA that are known when the kernel is compiled, except the power of two."""
        bits = KINDS.index(self.kind) | self.block << _SCALES_SHIFT | _IN_TENSOR * self.in_tensor
        bits |= _PAIR * (self.way == instruction_descriptors.PAIR)
        bits |= _STATIONARY * (self.way == instruction_descriptors.STATIONARY)
        return bits | _SPARSE * self.sparse | _SHIFTED * self.shifted | _ZEROED * self.zeroed


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


def _tests(variant: _Variant) -> tree.Function:
    """Return PTX that tests the operands of a product, and returns the flags of its metadata."""
    kind, pair = variant.kind, variant.way == instruction_descriptors.PAIR
    test = partial(columns_test, allocated=BOTH_BLOCKS) if pair else columns_test
    a_test = descriptor_test("%a_high")
    if variant.in_tensor:
        a_test = _lane_test("%a_low") + test("%a_low", "8")
    scale_test = ""
    if kind in _BLOCKS:
        scale_test = f"""
          {_lane_test("%sa", scales=True)} {test("%sa", "4")}
          {_lane_test("%sb", scales=True)}
          add.u32 %wide, %n, 31; shr.u32 %wide, %wide, 5; {test("%sb", "%wide")}
        """
    legal = instruction_descriptors.tests(
        kind,
        variant.block,
        in_tensor=variant.in_tensor,
        arrangement=variant.way,
        sparse=variant.sparse,
        shifted=variant.shifted,
    )
    body = f"""
      mov.b32 %code, 0; mov.b32 %places, 0;
      {_SATURATION_TEST if kind == "i8" else ""}
      {pair_test() if pair else ""}
      {legal}
      {descriptor_test("%b_high")}
      {_lane_test("%d")} {test("%d", "%width")}
      {a_test}
      {scale_test}
      {_metadata_test(kind, test) if variant.sparse else ""}
      {_ZEROS_TEST if variant.zeroed else ""}
      {BOTH}
      {_SATURATED if kind == "i8" else ""}
    """
    parameters = "b32 %d, b32 %a_low, b32 %a_high, b32 %b_high, b32 %idesc, b32 %sa, b32 %sb"
    registers = f"{TESTED} .reg .b32 %n, %f, %wide, %width, %word; .reg .pred %small;"
    registers += PAIR_REGISTERS if pair else ""
    parameters += ", b32 %metadata, b32 %zeros_high"
    return library.function(variant.name, parameters, registers, body, "b32 %code, b32 %places")


_SATURATES: Final = 8
"""The bit of the instruction descriptor of .kind::i8 for which the PTX ISA states no arithmetic."""
_SATURATION_TEST: Final = f"""
  and.b32 %t0, %idesc, {_SATURATES}; setp.ne.u32 %out, %t0, 0; @%out bra SATURATED;
"""
_SATURATED: Final = f"bra TESTED; SATURATED: mov.b32 %code, {SATURATION}; TESTED:"

_ZEROS_TEST: Final = """
  and.b32 %t0, %zeros_high, 0xff000070; setp.ne.u32 %out, %t0, 0; @%out bra ILLEGAL;
"""
"""PTX that refuses reserved bits of a descriptor of zero columns, and a shift of B's columns."""


def _metadata_test(kind: str, test: Callable[[str, str], str]) -> str:
    """Return PTX that tests the address of metadata, and stores its place among the flags of TMMA
    in %places. B must not be contiguous along K with a swizzle of 32 bytes, which is less than a
    row.
    """
    column, words = "mov.b32 %word, %metadata;", "2"
    if kind in instruction_descriptors.SELECTS:
        column = """
          and.b32 %word, %metadata, 0xfffffffc; and.b32 %t0, %idesc, 3; or.b32 %word, %word, %t0;
        """
        words = "1"
    return f"""
      shr.u32 %t0, %b_high, 29; and.b32 %t1, %idesc, 0x10000; or.b32 %t0, %t0, %t1;
      setp.eq.u32 %out, %t0, 6; @%out bra ILLEGAL;
      {column} {_lane_test("%word")} {test("%word", words)}
      shr.u32 %places, %word, 16; shl.b32 %places, %places, 25;
      bfe.u32 %t0, %word, 0, 9; shl.b32 %t0, %t0, 16; or.b32 %places, %places, %t0;
    """


def halves(context: Context, whole: Operand) -> tuple[Register, Register]:
    """Return the two words of a descriptor."""
    sequence = Sequence(context.builder)
    high = sequence.emit(Op.SHR, D.U64, whole, Literal(32))
    low, high = (sequence.convert(part, D.U64, D.U32) for part in (whole, high))
    return keep(context, low), keep(context, high)


def _shift(scale_operands: list[tree.Operand], kind: str) -> int:
    if not scale_operands:
        return 0
    (operand,) = scale_operands
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


def _variant(match: Match, operands: Many[tree.Operand]) -> _Variant:
    """Return what the code depends on, without the mask of zero columns.

    Raises:
        Invalid: the modifiers do not go together.
    """
    word = match.get("product") or match["scaled"]
    kind = word.removeprefix("kind::")
    block, in_tensor = 0, isinstance(operands[1], tree.Memory)
    if kind in _BLOCKS:
        block_size = _BLOCKS[kind].get(match.get("scales"))
        if block_size is None:
            raise Invalid(f".kind::{kind} does not take .{match.get('scales') or 'block_scale'}")
        block = block_size
    shifted = "ashift" in match
    if shifted and not in_tensor:
        raise Invalid(".ashift exists only for A in tensor memory")
    if shifted and match.get("collector") in ("collector::a::use", "collector::a::fill"):
        raise Invalid(f".ashift does not take .{match['collector']}")
    return _Variant(kind, block, _way(match), in_tensor, "sp" in match, shifted, zeroed=False)


def _multiply(context: Context, form: Form, match: Match) -> None:
    """Lower mma."""
    begin(context, match)
    variant = _variant(match, context.operands)
    d, a, b, *remaining_operands = context.operands
    kind, nothing = variant.kind, Literal(0)
    guard, builder = context.builder.guard, context.builder
    builder.guard = None
    metadata: Operand = (
        tensor_address(context, remaining_operands.pop(0)) if variant.sparse else nothing
    )
    idesc = remaining_operands.pop(0)
    # A computed descriptor is tested when the kernel runs.
    if kind == "i8" and (context.constants.of(idesc) or 0) & _SATURATES:
        raise Unsupported(".kind::i8 with bit 3 (saturation) of the instruction descriptor")
    scales: list[Operand] = [nothing, nothing]
    if kind in _BLOCKS:
        scales = [tensor_address(context, remaining_operands.pop(0)) for _ in range(2)]
    mask_words = 2 * _MASK_WORDS
    last: list[Operand] = [*scales, *[nothing] * (mask_words - 2)]
    if isinstance(remaining_operands[0], tree.Vector):
        count = mask_words if is_pair(match) else _MASK_WORDS
        parts = fragments.sources(context, remaining_operands.pop(0), count, D.B32)
        last[:count] = [keep(context, part) for part in parts]
    added = values.predicate_source(context, remaining_operands.pop(0))
    zeros_high: Operand = nothing
    if variant.way == instruction_descriptors.STATIONARY and remaining_operands:
        last[:2] = halves(context, values.source(context, remaining_operands.pop(0), D.B64))
        variant, zeros_high = replace(variant, zeroed=True), last[1]
    shift = _shift(remaining_operands, kind)
    adds = keep(context, Sequence(builder).emit(Op.SELP, D.B32, Literal(_ADDS), nothing, added))
    to = tensor_address(context, d)
    left: tuple[Operand, Operand]
    if variant.in_tensor:
        left = tensor_address(context, a), nothing
    else:
        left = halves(context, values.source(context, a, D.B64))
    right = halves(context, values.source(context, b, D.B64))
    description = keep(context, values.source(context, idesc, D.B32))
    tested = [to, *left, right[1], description, *scales, metadata, zeros_high]
    places = builder.new_register(32)
    builder.guard = guard
    causes = SATURATION_CAUSES if kind == "i8" else CAUSES
    run(context, _tests(variant), tested, [places], shared=True, causes=causes)
    builder.guard = None
    size = shared_size(context)
    known = Literal(variant.flags | shift << _POWER_SHIFT)
    flags = Sequence(builder).emit(Op.OR, D.B32, adds, known)
    flags = Sequence(builder).emit(Op.OR, D.B32, flags, places)
    failed = keep(context, nothing)
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
_FACTORS: Final = (("", "[d], a, b, i"), ("sp.", "[d], a, b, [e], i"))


def _forms(sparse: str, first: str) -> tuple[Form, ...]:
    """Return the forms of dense products, or of sparse ones; ``first`` are their operands."""
    product = f"tcgen05.mma.{sparse}group.product{{.ashift}}{{.collector}}"
    stationary = f"tcgen05.mma.ws.{sparse}group.product{{.buffer}}"
    scaled = f"tcgen05.mma.{sparse}group.scaled.block_scale{{.scales}}{{.collector}}"
    operands = (
        *((product, f"{first}{extra}, {{!}}p{last}") for extra, last in _MASKS),
        *((stationary, f"{first}, {{!}}p{last}") for last in ("", ", z")),
        (scaled, f"{first}, [s], [t], {{!}}p"),
    )
    return tuple(
        Form(pattern, signature, Op.TMMA, _multiply, isa=_NOTE) for pattern, signature in operands
    )


_MASKS: Final = (("", ""), ("", ", n"), (", m", ", n"))
FORMS: Final = tuple(form for factors in _FACTORS for form in _forms(*factors))
