"""tcgen05.alloc, dealloc and relinquish_alloc_permit: one lane of the warp updates the word that
records what is allocated.

A pair of blocks allocates together: the first block that executes ``alloc`` takes columns that are
free in both, and leaves a message with their address, which the other block's ``alloc`` takes. A
word of the even block is the lock of both.
"""

from typing import Final

from vgpu_sim.compiler.lower import special, values
from vgpu_sim.compiler.lower.addresses import whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.tensor.addresses import (
    ILLEGAL,
    MEMORY,
    PAIR_REGISTERS,
    TESTED,
    begin,
    is_pair,
    keep,
    pair_test,
    run,
)
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.compute.tensor_memory import (
    TENSOR_ALLOCATED,
    TENSOR_COLUMNS,
    TENSOR_PAIR_LOCK,
    TENSOR_PAIR_MESSAGE,
    TENSOR_RELINQUISHED,
    TENSOR_UNIT_COLUMNS,
)
from vgpu_sim.isa import DataType, Literal, Op, Operand, Space, SpecialRegister

_LOCK: Final = TENSOR_PAIR_LOCK - TENSOR_ALLOCATED
_MESSAGE: Final = TENSOR_PAIR_MESSAGE - TENSOR_ALLOCATED
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
    parameters = "b32 %lane, b32 %to, b32 %columns"
    return library.function("tessera.tensor.alloc", parameters, _REGISTERS, body, "b32 %code")


_PAIR_REGISTERS: Final = f"""
  {_REGISTERS} {TESTED} {PAIR_REGISTERS} .reg .b32 %own, %found, %other;
"""


def _take_in_both() -> tree.Function:
    """Return PTX for ``alloc`` of a block of a pair.

    A message is the first unit plus 1, in bits 8 to 15 the number of units, and in bits 16 and 17 1
    plus the place of its block in the pair.
    """
    body = f"""
      {_SIZE}
      mov.b32 %t, {TENSOR_RELINQUISHED}; ld.volatile.shared.b32 %t, [%t];
      setp.ne.u32 %p, %t, 0; @%p bra ILLEGAL;
      {pair_test()}
      mov.b32 %own, %cluster_ctarank; and.b32 %own, %own, 1;
    LOCK:
      ld.volatile.shared::cluster.b32 %seen, [%even+{_LOCK}];
      setp.ne.u32 %p, %seen, 0; @%p bra LOCK;
      atom.shared::cluster.cas.b32 %seen, [%even+{_LOCK}], 0, 1;
      setp.ne.u32 %p, %seen, 0; @%p bra LOCK;
      ld.volatile.shared::cluster.b32 %found, [%even+{_MESSAGE}];
      setp.eq.u32 %p, %found, 0; @%p bra FIRST;
      shr.u32 %other, %found, 16; sub.u32 %other, %other, 1;
      setp.eq.u32 %p, %other, %own; @%p bra LATER;
      bfe.u32 %t, %found, 8, 8; mov.b32 %other, 0;
      st.volatile.shared::cluster.b32 [%even+{_MESSAGE}], %other;
      st.volatile.shared::cluster.b32 [%even+{_LOCK}], %other;
      setp.ne.u32 %p, %t, %units; @%p bra ILLEGAL;
      and.b32 %pos, %found, 0xff; sub.u32 %pos, %pos, 1; bra TAKEN;
    FIRST:
      ld.volatile.shared::cluster.b32 %old, [%even];
      ld.volatile.shared::cluster.b32 %t, [%odd]; or.b32 %old, %old, %t;
      mov.b32 %pos, 0;
    NEXT:
      shl.b32 %new, %bits, %pos; and.b32 %t, %new, %old;
      setp.eq.u32 %p, %t, 0; @%p bra FOUND;
      add.u32 %pos, %pos, %units; setp.lt.u32 %p, %pos, {_UNITS}; @%p bra NEXT;
    LATER:
      mov.b32 %other, 0; st.volatile.shared::cluster.b32 [%even+{_LOCK}], %other; bra LOCK;
    FOUND:
      add.u32 %t, %pos, {_UNITS}; mov.b32 %seen, 1;
      shl.b32 %seen, %seen, %t; or.b32 %new, %new, %seen;
      red.shared::cluster.or.b32 [%even], %new; red.shared::cluster.or.b32 [%odd], %new;
      add.u32 %found, %own, 1; shl.b32 %found, %found, 8; or.b32 %found, %found, %units;
      shl.b32 %found, %found, 8; add.u32 %t, %pos, 1; or.b32 %found, %found, %t;
      st.volatile.shared::cluster.b32 [%even+{_MESSAGE}], %found;
      mov.b32 %other, 0; st.volatile.shared::cluster.b32 [%even+{_LOCK}], %other;
    TAKEN:
      shl.b32 %pos, %pos, 5; st.volatile.shared.b32 [%to], %pos;
      {ILLEGAL}
    """
    parameters = "b32 %lane, b32 %to, b32 %columns"
    return library.function(
        "tessera.tensor.alloc.pair", parameters, _PAIR_REGISTERS, body, "b32 %code"
    )


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
    parameters = "b32 %lane, b32 %address, b32 %columns"
    return library.function("tessera.tensor.dealloc", parameters, _REGISTERS, body, "b32 %code")


def _lane(context: Context) -> Operand:
    return special.s2r(context, SpecialRegister.LANEID)


def _size(context: Context, columns: tree.Operand) -> Operand:
    """Return the number of columns, of which a constant must be a possible one."""
    if isinstance(columns, tree.Integer):
        count = columns.value
        if not TENSOR_UNIT_COLUMNS <= count <= TENSOR_COLUMNS or count & (count - 1):
            raise Invalid(
                f"{count} columns: a power of two from {TENSOR_UNIT_COLUMNS} to {TENSOR_COLUMNS}"
                " is needed"
            )
    return values.source(context, columns, DataType.U32)


def allocate(context: Context, form: Form, match: Match) -> None:
    """Lower alloc."""
    begin(context, match)
    where, columns = context.operands
    to = whole_address(context, where, Space.SHARED if "own" in match else Space.GENERIC)
    if "own" not in match:
        to = Sequence(context.builder).convert(to, DataType.U64, DataType.U32)
    size = _size(context, columns)
    code = _take_in_both() if is_pair(match) else _take()
    run(context, code, [_lane(context), to, size])


def deallocate(context: Context, form: Form, match: Match) -> None:
    """Lower dealloc."""
    begin(context, match)
    where, columns = context.operands
    address = values.source(context, where, DataType.U32)
    run(context, _free(), [_lane(context), address, _size(context, columns)])


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
