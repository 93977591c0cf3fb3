"""tcgen05.cp: a loop of copies of 16 bytes from shared memory to tensor memory."""

from dataclasses import dataclass
from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.tensor.addresses import (
    BOTH,
    TESTED,
    begin,
    columns_test,
    keep,
    run,
    shared_size,
    tensor_address,
)
from vgpu_sim.compiler.lower.tensor.products import descriptor_test, halves
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.compute.tensor_memory import TENSOR_FIRST_BYTE, TENSOR_LANE_BYTES
from vgpu_sim.isa import DataType, Op


@dataclass(frozen=True, slots=True)
class _Shape:
    """``rows`` rows of ``chunks`` times 16 bytes. The quarters of tensor memory get those rows that
    begin at ``firsts``.
    """

    rows: int
    chunks: int
    firsts: tuple[int, ...]


_SHAPES: Final = {
    "128x256b": _Shape(128, 2, (0, 32, 64, 96)),
    "128x128b": _Shape(128, 1, (0, 32, 64, 96)),
    "64x128b.warpx2::02_13": _Shape(64, 1, (0, 32, 0, 32)),
    "64x128b.warpx2::01_23": _Shape(64, 1, (0, 0, 32, 32)),
    "32x128b.warpx4": _Shape(32, 1, (0, 0, 0, 0)),
}
_REGISTERS: Final = f"""{TESTED}
  .reg .b32 %start, %leading, %stride, %mode, %scale, %line, %mask, %pattern, %along, %right;
  .reg .b32 %lane, %row, %chunk, %at, %to, %quarter, %first, %v<4>; .reg .pred %p;
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


def _function(shape: _Shape) -> tree.Function:
    firsts = "".join(
        f"setp.eq.u32 %p, %quarter, {n}; selp.b32 %first, {first}, %first, %p;"
        for n, first in enumerate(shape.firsts)
    )
    body = f"""
      mov.b32 %code, 0;
      {descriptor_test("%high")}
      {columns_test("%address", str(4 * shape.chunks))}
      shr.u32 %t0, %address, 16; setp.ne.u32 %out, %t0, 0; @%out bra OUTSIDE;
      {_DECODE}
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
      ld.volatile.shared.v4.b32 {{%v0, %v1, %v2, %v3}}, [%at];
      st.volatile.shared.b32 [%to], %v0; st.volatile.shared.b32 [%to+4], %v1;
      st.volatile.shared.b32 [%to+8], %v2; st.volatile.shared.b32 [%to+12], %v3;
      add.u32 %to, %to, 16; add.u32 %chunk, %chunk, 1;
      setp.lt.u32 %p, %chunk, {shape.chunks}; @%p bra CHUNK;
      add.u32 %lane, %lane, 1; setp.lt.u32 %p, %lane, 128; @%p bra LANE;
      {BOTH}
    """
    given = "b32 %address, b32 %low, b32 %high, b32 %size"
    name = f"tessera.tensor.cp.{shape.rows}.{shape.chunks}.{shape.firsts[1]}"
    return library.function(name, given, _REGISTERS, body, "b32 %code")


def copy(context: Context, form: Form, match: Match, *, shape: str) -> None:
    """Lower cp."""
    begin(context, match)
    where, descriptor = context.operands
    builder, guard = context.builder, context.builder.guard
    builder.guard = None
    to = tensor_address(context, where)
    low, high = halves(context, values.source(context, descriptor, DataType.B64))
    given = [to, low, high, keep(context, shared_size(context))]
    builder.guard = guard
    run(context, _function(_SHAPES[shape]), given, shared=True)


def _form(shape: str) -> Form:
    def lower(context: Context, form: Form, match: Match) -> None:
        copy(context, form, match, shape=shape)

    note = "a loop of LD and ST of 16 bytes, after tests of the operands; TRAP"
    return Form(f"tcgen05.cp.group.{shape}", "[t], a", Op.ST, lower, isa=note)


FORMS: Final = tuple(map(_form, _SHAPES))
