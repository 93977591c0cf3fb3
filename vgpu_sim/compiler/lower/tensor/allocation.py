"""tcgen05.alloc, dealloc and relinquish_alloc_permit: one lane of the warp updates the word that
records what is allocated.
"""

from typing import Final

from vgpu_sim.compiler.lower import special, values
from vgpu_sim.compiler.lower.addresses import whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.tensor.addresses import ILLEGAL, MEMORY, begin, keep, run
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.compute.tensor_memory import (
    TENSOR_ALLOCATED,
    TENSOR_COLUMNS,
    TENSOR_RELINQUISHED,
    TENSOR_UNIT_COLUMNS,
)
from vgpu_sim.isa import DataType, Literal, Op, Operand, Space, SpecialRegister

_UNITS: Final = TENSOR_COLUMNS // TENSOR_UNIT_COLUMNS
_REGISTERS: Final = """
  .reg .b32 %units, %bits, %pos, %old, %new, %seen, %t, %at; .reg .pred %p;
"""
_SIZE: Final = f"""
  mov.b32 %code, 0; setp.ne.u32 %p, %lane, 0; @%p bra DONE;
  popc.b32 %t, %columns; setp.ne.u32 %p, %t, 1; @%p bra ILLEGAL;
  setp.lt.u32 %p, %columns, {TENSOR_UNIT_COLUMNS}; @%p bra ILLEGAL;
  setp.gt.u32 %p, %columns, {TENSOR_COLUMNS}; @%p bra ILLEGAL;
  shr.u32 %units, %columns, 5; mov.b32 %bits, 1; shl.b32 %bits, %bits, %units;
  sub.u32 %bits, %bits, 1; mov.b32 %at, {TENSOR_ALLOCATED};
"""


def _take() -> tree.Function:
    """Return PTX that waits for the columns, if they are not free, and stores their address."""
    body = f"""
      {_SIZE}
      mov.b32 %t, {TENSOR_RELINQUISHED}; ld.volatile.shared.b32 %t, [%t];
      setp.ne.u32 %p, %t, 0; @%p bra ILLEGAL;
    AGAIN:
      ld.volatile.shared.b32 %old, [%at];
      mov.b32 %pos, 0;
    NEXT:
      shl.b32 %new, %bits, %pos; and.b32 %t, %new, %old;
      setp.eq.u32 %p, %t, 0; @%p bra FOUND;
      add.u32 %pos, %pos, %units; setp.lt.u32 %p, %pos, {_UNITS}; @%p bra NEXT;
      bra AGAIN;
    FOUND:
      or.b32 %new, %new, %old; add.u32 %t, %pos, {_UNITS}; mov.b32 %seen, 1;
      shl.b32 %seen, %seen, %t; or.b32 %new, %new, %seen;
      atom.shared.cas.b32 %seen, [%at], %old, %new; setp.ne.u32 %p, %seen, %old; @%p bra AGAIN;
      shl.b32 %pos, %pos, 5; st.volatile.shared.b32 [%to], %pos;
      {ILLEGAL}
    """
    given = "b32 %lane, b32 %to, b32 %columns"
    return library.function("tessera.tensor.alloc", given, _REGISTERS, body, "b32 %code")


def _free() -> tree.Function:
    """Return PTX that frees an allocation, whose address and size must be those of ``alloc``."""
    body = f"""
      {_SIZE}
      and.b32 %pos, %address, 31; setp.ne.u32 %p, %pos, 0; @%p bra OUTSIDE;
      shr.u32 %pos, %address, 5; add.u32 %t, %pos, %units;
      setp.gt.u32 %p, %t, {_UNITS}; @%p bra OUTSIDE;
    AGAIN:
      ld.volatile.shared.b32 %old, [%at];
      shl.b32 %new, %bits, %pos; and.b32 %seen, %old, %new;
      setp.ne.u32 %p, %seen, %new; @%p bra OUTSIDE;
      shr.u32 %seen, %old, 16; and.b32 %seen, %seen, %new; mov.b32 %t, 1; shl.b32 %t, %t, %pos;
      setp.ne.u32 %p, %seen, %t; @%p bra OUTSIDE;
      shl.b32 %seen, %t, %units; setp.ge.u32 %p, %seen, {1 << _UNITS}; @%p bra WHOLE;
      and.b32 %seen, %seen, %old; setp.eq.u32 %p, %seen, 0; @%p bra WHOLE;
      shl.b32 %seen, %seen, 16; and.b32 %seen, %seen, %old;
      setp.eq.u32 %p, %seen, 0; @%p bra OUTSIDE;
    WHOLE:
      shl.b32 %t, %t, 16; or.b32 %new, %new, %t; not.b32 %new, %new; and.b32 %new, %new, %old;
      atom.shared.cas.b32 %seen, [%at], %old, %new; setp.ne.u32 %p, %seen, %old; @%p bra AGAIN;
      bra DONE; OUTSIDE: mov.b32 %code, {MEMORY};
      {ILLEGAL}
    """
    given = "b32 %lane, b32 %address, b32 %columns"
    return library.function("tessera.tensor.dealloc", given, _REGISTERS, body, "b32 %code")


def _lane(context: Context) -> Operand:
    return special.s2r(context, SpecialRegister.LANEID)


def allocate(context: Context, form: Form, match: Match) -> None:
    """Lower alloc."""
    begin(context, match)
    where, columns = context.operands
    to = whole_address(context, where, Space.SHARED if "own" in match else Space.GENERIC)
    if "own" not in match:
        to = Sequence(context.builder).convert(to, DataType.U64, DataType.U32)
    size = values.source(context, columns, DataType.U32)
    run(context, _take(), [_lane(context), to, size])


def deallocate(context: Context, form: Form, match: Match) -> None:
    """Lower dealloc."""
    begin(context, match)
    address, columns = (values.source(context, one, DataType.U32) for one in context.operands)
    run(context, _free(), [_lane(context), address, columns])


def relinquish(context: Context, form: Form, match: Match) -> None:
    """Lower relinquish_alloc_permit, after which the block may not allocate."""
    begin(context, match)
    to = keep(context, Literal(TENSOR_RELINQUISHED))
    context.builder.emit(
        Op.ST, type=DataType.B32, srcs=(to, Literal(1)), space=Space.SHARED, volatile=True
    )


_UPDATE: Final = "LD and ATOM.CAS of the word of allocations; TRAP"
FORMS: Final = (
    Form("tcgen05.alloc.group.sync.aligned.own.b32", "[d], n", Op.ATOM, allocate, isa=_UPDATE),
    Form("tcgen05.alloc.group.sync.aligned.b32", "[d], n", Op.ATOM, allocate, isa=_UPDATE),
    Form("tcgen05.dealloc.group.sync.aligned.b32", "a, n", Op.ATOM, deallocate, isa=_UPDATE),
    Form("tcgen05.relinquish_alloc_permit.group.sync.aligned", "", Op.ST, relinquish),
)
