"""tcgen05.cp and shift: loops of copies to tensor memory, from shared memory or the lane before."""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
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
)
from vgpu_sim.compiler.lower.tensor.products import descriptor_test, halves
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.compute.tensor_memory import TENSOR_FIRST_BYTE, TENSOR_LANE_BYTES
from vgpu_sim.isa import DataType, Op
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class _Shape:
    """``rows`` rows of ``chunks`` times 16 bytes. The quarters of tensor memory get those rows that
    begin at ``firsts``, in each ``step``-th lane.
    """

    rows: int
    chunks: int
    firsts: tuple[int, ...]
    step: int = 1


_SHAPES: Final = {
    "128x256b": _Shape(128, 2, (0, 32, 64, 96)),
    "4x256b": _Shape(4, 2, (0, 1, 2, 3), 32),
    "128x128b": _Shape(128, 1, (0, 32, 64, 96)),
    "64x128b.warpx2::02_13": _Shape(64, 1, (0, 32, 0, 32)),
    "64x128b.warpx2::01_23": _Shape(64, 1, (0, 0, 32, 32)),
    "32x128b.warpx4": _Shape(32, 1, (0, 0, 0, 0)),
}
_SPREAD_4: Final = "".join(
    f"bfe.u32 %t0, %v{n // 2}, {16 * (n % 2)}, 16; shl.b32 %at, %t0, 8; or.b32 %t0, %t0, %at;"
    " and.b32 %t0, %t0, 0x00ff00ff; shl.b32 %at, %t0, 4; or.b32 %t0, %t0, %at;"
    f" and.b32 %t0, %t0, 0x0f0f0f0f; shl.b32 %v{n}, %t0, 2;"
    for n in (3, 2, 1, 0)
)
_SPREAD_6: Final = "".join(
    f"{field} and.b32 %v{n}, %at, 0x3f;"
    + "".join(
        f" shl.b32 %t0, %at, {2 * k}; and.b32 %t0, %t0, {0x3F << 8 * k}; or.b32 %v{n}, %v{n}, %t0;"
        for k in (1, 2, 3)
    )
    for n, field in (
        (3, "shr.u32 %at, %v2, 8;"),
        (2, "shf.r.clamp.b32 %at, %v1, %v2, 16;"),
        (1, "shf.r.clamp.b32 %at, %v0, %v1, 24;"),
        (0, "mov.b32 %at, %v0;"),
    )
)
_FORMATS: Final = {"": "", ".b8x16.b4x16_p64": _SPREAD_4, ".b8x16.b6x16_p32": _SPREAD_6}
"""Code that widens the 16 elements of 16 bytes to a byte each, by their format in shared memory:
elements of 4 or 6 bits from the first bit on, and then padding. A byte has 4 bits in its middle, or
6 at its low end, as tcgen05.mma reads them.
"""
_REGISTERS: Final = f"""{TESTED}
  .reg .b32 %start, %leading, %stride, %mode, %scale, %line, %mask, %pattern, %along, %right;
  .reg .b32 %lane, %row, %chunk, %at, %to, %there, %quarter, %first, %v<4>; .reg .pred %p;
"""
_DECODE: Final = """
  bfe.u32 %start, %low, 0, 14; shl.b32 %start, %start, 4;
  bfe.u32 %leading, %low, 16, 14; shl.b32 %leading, %leading, 4;
  bfe.u32 %stride, %high, 0, 14; shl.b32 %stride, %stride, 4;
  shr.u32 %mode, %high, 29; mov.b32 %scale, 3;
  setp.eq.u32 %p, %mode, 4; selp.b32 %scale, 2, %scale, %p;
  setp.eq.u32 %p, %mode, 6; selp.b32 %scale, 1, %scale, %p;
  setp.eq.u32 %p, %mode, 0; selp.b32 %scale, 0, %scale, %p;
  selp.b32 %along, %leading, 16, %p;
  mov.b32 %line, 16; shl.b32 %line, %line, %scale; sub.u32 %mask, %line, 16;
  setp.eq.u32 %p, %mode, 1; selp.b32 %mask, 0x60, %mask, %p; selp.b32 %right, 2, 3, %p;
  bfe.u32 %pattern, %high, 17, 3; shl.b32 %pattern, %pattern, 7;
"""


_BLOCKS: Final = """
  mov.b32 %block, %cluster_ctarank; and.b32 %block, %block, 0xfffffffe; mov.b32 %moved, 0;
BLOCK:
"""
_NEXT_BLOCK: Final = """
  add.u32 %block, %block, 1; add.u32 %moved, %moved, 1;
  setp.lt.u32 %p, %moved, 2; @%p bra BLOCK;
"""
_PAIR: Final = f"{PAIR_REGISTERS} .reg .b32 %block, %moved;"


def _on_both(body: str, places: tuple[str, ...]) -> str:
    """Return PTX that executes ``body`` for both blocks of a pair, with the addresses of shared
    memory in ``places`` as its own.
    """
    maps = " ".join(f"mapa.shared::cluster.u32 {place}, {place}, %block;" for place in places)
    return f"{_BLOCKS} {body.replace('MAPS', maps)} {_NEXT_BLOCK}"


def _function(shape: _Shape, formats: str, *, pair: bool) -> tree.Function:
    firsts = "".join(
        f"setp.eq.u32 %p, %quarter, {n}; selp.b32 %first, {first}, %first, %p;"
        for n, first in enumerate(shape.firsts)
    )
    memory = "shared::cluster" if pair else "shared"
    loop = f"""
      mov.b32 %lane, 0;
    LANE:
      shr.u32 %quarter, %lane, 5; mov.b32 %first, 0;
      {firsts}
      and.b32 %row, %lane, 31; add.u32 %row, %row, %first;
      shl.b32 %to, %address, 2; mad.lo.u32 %to, %lane, {TENSOR_LANE_BYTES}, %to;
      add.u32 %to, %to, {TENSOR_FIRST_BYTE};
      mov.b32 %chunk, 0;
    CHUNK:
      and.b32 %at, %row, 7; mad.lo.u32 %at, %at, %line, %start;
      shr.u32 %t0, %row, 3; mad.lo.u32 %at, %t0, %stride, %at;
      mad.lo.u32 %at, %chunk, %along, %at;
      sub.u32 %t0, %at, %pattern; shr.u32 %t0, %t0, %right; and.b32 %t0, %t0, %mask;
      xor.b32 %at, %at, %t0;
      add.u32 %t0, %at, 16; setp.gt.u32 %p, %t0, %size; @%p bra ILLEGAL;
      mov.b32 %there, %to;
      MAPS
      ld.volatile.{memory}.v4.b32 {{%v0, %v1, %v2, %v3}}, [%at];
      {_FORMATS[formats]}
      st.volatile.{memory}.b32 [%there], %v0; st.volatile.{memory}.b32 [%there+4], %v1;
      st.volatile.{memory}.b32 [%there+8], %v2; st.volatile.{memory}.b32 [%there+12], %v3;
      add.u32 %to, %to, 16; add.u32 %chunk, %chunk, 1;
      setp.lt.u32 %p, %chunk, {shape.chunks}; @%p bra CHUNK;
      add.u32 %lane, %lane, {shape.step}; setp.lt.u32 %p, %lane, 128; @%p bra LANE;
    """
    columns = str(4 * shape.chunks)
    test = (
        columns_test("%address", columns, BOTH_BLOCKS)
        if pair
        else columns_test("%address", columns)
    )
    body = f"""
      mov.b32 %code, 0;
      {pair_test() if pair else ""}
      {descriptor_test("%high")}
      {test}
      shr.u32 %t0, %address, 16; setp.ne.u32 %out, %t0, 0; @%out bra OUTSIDE;
      {_DECODE}
      {_on_both(loop, ("%at", "%there")) if pair else loop.replace("MAPS", "")}
      {BOTH}
    """
    parameters = "b32 %address, b32 %low, b32 %high, b32 %size"
    name = (
        f"tessera.tensor.cp.{shape.rows}.{shape.chunks}.{shape.firsts[1]}{formats}{'.pair' * pair}"
    )
    return library.function(name, parameters, _REGISTERS + _PAIR * pair, body, "b32 %code")


def copy(context: Context, form: Form, match: Match, *, shape: str, formats: str) -> None:
    """Lower cp."""
    named = [word for word in match.words if word in formats.split(".")]
    if formats != "".join(f".{word}" for word in named):
        raise Invalid(f"the formats must be in the order {formats}")
    begin(context, match)
    where, descriptor = context.operands
    builder, guard = context.builder, context.builder.guard
    builder.guard = None
    to = tensor_address(context, where)
    low, high = halves(context, values.source(context, descriptor, DataType.B64))
    actuals = [to, low, high, keep(context, shared_size(context))]
    builder.guard = guard
    code = _function(_SHAPES[shape], formats, pair=is_pair(match))
    run(context, code, actuals, shared=True)


def _form(shape: str, formats: str) -> Form:
    def lower(context: Context, form: Form, match: Match) -> None:
        copy(context, form, match, shape=shape, formats=formats)

    note = "a loop of LD and ST of 16 bytes, after tests of the operands; TRAP"
    if formats:
        note = note.replace("and ST", "SHL, AND, OR and ST")
    name = f"tcgen05.cp.group.{shape}{formats}"
    return Form(name, "[t], a", Op.ST, lower, isa=note, any_order=True)


_SHIFTED_COLUMNS: Final = 8


def _shift_function(*, pair: bool) -> tree.Function:
    """Return PTX that copies 32 bytes of each of 31 lanes to the next one, the last lane first."""
    memory = "shared::cluster" if pair else "shared"
    loop = f"""
      mov.b32 %lane, 31;
    LANE:
      shl.b32 %at, %address, 2; and.b32 %at, %at, 0x3ffff; shr.u32 %to, %address, 16;
      add.u32 %to, %to, %lane; mad.lo.u32 %at, %to, {TENSOR_LANE_BYTES}, %at;
      add.u32 %at, %at, {TENSOR_FIRST_BYTE};
      MAPS
      mov.b32 %moved_bytes, 0;
    WORD:
      add.u32 %to, %at, %moved_bytes;
      ld.volatile.{memory}.b32 %v, [%to-{TENSOR_LANE_BYTES}];
      st.volatile.{memory}.b32 [%to], %v;
      add.u32 %moved_bytes, %moved_bytes, 4;
      setp.lt.u32 %p, %moved_bytes, {4 * _SHIFTED_COLUMNS}; @%p bra WORD;
      sub.u32 %lane, %lane, 1; setp.ne.u32 %p, %lane, 0; @%p bra LANE;
    """
    columns = str(_SHIFTED_COLUMNS)
    test = (
        columns_test("%address", columns, BOTH_BLOCKS)
        if pair
        else columns_test("%address", columns)
    )
    body = f"""
      mov.b32 %code, 0;
      {pair_test() if pair else ""}
      {test}
      and.b32 %t0, %address, 0xff9f0000; setp.ne.u32 %out, %t0, 0; @%out bra OUTSIDE;
      {_on_both(loop, ("%at",)) if pair else loop.replace("MAPS", "")}
      {BOTH}
    """
    registers = (
        f"{TESTED} {_PAIR * pair} .reg .b32 %lane, %at, %to, %v, %moved_bytes; .reg .pred %p;"
    )
    name = f"tessera.tensor.shift{'.pair' * pair}"
    return library.function(name, "b32 %address", registers, body, "b32 %code")


def _shift(context: Context, form: Form, match: Match) -> None:
    """Lower shift."""
    begin(context, match)
    guard, builder = context.builder.guard, context.builder
    builder.guard = None
    address = tensor_address(context, context.operands[0])
    builder.guard = guard
    run(context, _shift_function(pair=is_pair(match)), [address], shared=True)


_SHIFTS: Final = "a loop of LD and ST of 4 bytes, after tests of the address; TRAP"
FORMS: Final = (
    *(_form(shape, formats) for shape in _SHAPES for formats in _FORMATS),
    Form("tcgen05.shift.group.down", "[t]", Op.ST, _shift, isa=_SHIFTS, any_order=True),
)
