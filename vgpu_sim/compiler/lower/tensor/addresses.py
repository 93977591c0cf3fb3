"""Addresses of tensor memory: PTX that tests them, and the traps for what it finds."""

from collections.abc import Mapping, Sequence as Many
from typing import Final

from vgpu_sim.compiler.lower import special
from vgpu_sim.compiler.lower.addresses import whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.forms import Match
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.symbols.types import UNTYPED
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.compute.tensor_memory import (
    TENSOR_ALLOCATED,
    TENSOR_COLUMNS,
    TENSOR_FIRST_BYTE,
    TENSOR_LANE_BYTES,
)
from vgpu_sim.isa import (
    Compare,
    DataType,
    Guard,
    Literal,
    Op,
    Operand,
    Register,
    Space,
    SpecialRegister,
    TrapCause,
)

D = DataType
MEMORY, OPERAND, SATURATION = 1, 2, 3
"""The codes that PTX of this folder returns in %code; 0 where nothing is wrong."""
CAUSES: Final = {MEMORY: TrapCause.TENSOR_MEMORY, OPERAND: TrapCause.TENSOR_OPERAND}
SATURATION_CAUSES: Final = {**CAUSES, SATURATION: TrapCause.TENSOR_SATURATION}


def begin(context: Context, match: Match) -> None:
    """Note that the kernel has tensor memory.

    Raises:
        Invalid: other instructions of the kernel are of another number of blocks.
    """
    program, group = context.program, match.get("group")
    program.tensor_memory = True
    if group is not None and program.tensor_group not in ("", group):
        raise Invalid(f"a kernel has tcgen05 of .{program.tensor_group} and .{group}")
    program.tensor_group = group or program.tensor_group


def is_pair(match: Match) -> bool:
    """Return whether an instruction is of two blocks."""
    return match.get("group") == "cta_group::2"


def keep(context: Context, value: Operand, bits: int = 32) -> Register:
    """Return a register with a value, which code of the compiler's own does not overwrite."""
    register = context.builder.new_register(bits)
    with context.builder.use_guard(None):
        context.builder.emit(Op.MOV, type=UNTYPED[bits], dsts=(register,), srcs=(value,))
    return register


def tensor_address(context: Context, operand: tree.Operand) -> Register:
    """Return a register with an address operand ``[...]`` of tensor memory."""
    with context.builder.use_guard(None):
        return keep(context, whole_address(context, operand, Space.SHARED))


def shared_size(context: Context) -> Register:
    """Emit the size of the block's shared memory in bytes, which descriptors must not exceed."""
    dynamic = special.s2r(context, SpecialRegister.DYNAMIC_SHARED)
    size = Literal(context.memory.size)
    return Sequence(context.builder).emit(Op.ADD, D.U32, dynamic, size)


_OWN: Final = f"mov.b32 %t3, {TENSOR_ALLOCATED}; ld.volatile.shared.b32 %t3, [%t3];"
"""PTX that loads the columns that the block has allocated into %t3."""
BOTH_BLOCKS: Final = "mov.b32 %t3, %both;"
"""PTX for the columns that both blocks of a pair have allocated, after ``pair_test``."""
PAIR_REGISTERS: Final = ".reg .b32 %even, %odd, %both;"


def pair_test() -> str:
    """Return PTX that jumps to ILLEGAL if the block is not one of a pair, and stores the addresses
    of the words of allocations in %even and %odd, and what both have allocated in %both.
    """
    return f"""
      mov.b32 %t0, %cluster_ctarank; or.b32 %t1, %t0, 1; mov.b32 %t2, %cluster_nctarank;
      setp.ge.u32 %out, %t1, %t2; @%out bra ILLEGAL;
      and.b32 %t0, %t0, 0xfffffffe; mov.b32 %both, {TENSOR_ALLOCATED};
      mapa.shared::cluster.u32 %even, %both, %t0; mapa.shared::cluster.u32 %odd, %both, %t1;
      ld.volatile.shared::cluster.b32 %both, [%even];
      ld.volatile.shared::cluster.b32 %t0, [%odd]; and.b32 %both, %both, %t0;
    """


def columns_test(address: str, columns: str, allocated: str = _OWN) -> str:
    """Return PTX that jumps to OUTSIDE unless all of ``columns`` columns from an address on are
    allocated. It uses the registers %t0 to %t3 and %out. ``allocated`` is PTX that stores the
    allocated columns in %t3.
    """
    return f"""
      and.b32 %t0, {address}, 0xffff; add.u32 %t1, %t0, {columns};
      setp.gt.u32 %out, %t1, {TENSOR_COLUMNS}; @%out bra OUTSIDE;
      sub.u32 %t1, %t1, 1; shr.u32 %t0, %t0, 5; shr.u32 %t1, %t1, 5;
      mov.b32 %t2, 2; shl.b32 %t2, %t2, %t1; mov.b32 %t3, 1; shl.b32 %t3, %t3, %t0;
      sub.u32 %t2, %t2, %t3;
      {allocated}
      and.b32 %t3, %t3, %t2; setp.ne.u32 %out, %t3, %t2; @%out bra OUTSIDE;
    """


TESTED: Final = ".reg .b32 %t<4>; .reg .pred %out;"
OUTSIDE: Final = f"bra DONE; OUTSIDE: mov.b32 %code, {MEMORY}; DONE:"
ILLEGAL: Final = f"bra DONE; ILLEGAL: mov.b32 %code, {OPERAND}; DONE:"
BOTH: Final = f"""
  bra DONE; OUTSIDE: mov.b32 %code, {MEMORY}; bra DONE; ILLEGAL: mov.b32 %code, {OPERAND}; DONE:
"""


def place_of(
    context: Context, address: Operand, warp: Operand, columns: int, lanes: int
) -> Register:
    """Emit the test of an access of a warp to ``lanes`` lanes from an address on; return the
    address of the first lane and column in shared memory.
    """
    body = f"""
      mov.b32 %code, 0; mov.b32 %place, 0;
      {columns_test("%address", str(columns))}
      shr.u32 %t0, %address, 16; and.b32 %t1, %warp, 3; shl.b32 %t1, %t1, 5;
      sub.u32 %t2, %t0, %t1; setp.gt.u32 %out, %t2, {32 - lanes}; @%out bra OUTSIDE;
      and.b32 %t1, %t2, {min(lanes, 16) - 1}; setp.ne.u32 %out, %t1, 0; @%out bra OUTSIDE;
      and.b32 %t1, %address, 0xffff; shl.b32 %t1, %t1, 2;
      mad.lo.u32 %place, %t0, {TENSOR_LANE_BYTES}, %t1;
      add.u32 %place, %place, {TENSOR_FIRST_BYTE};
      {OUTSIDE}
    """
    code = library.function(
        f"tessera.tensor.place.{columns}.{lanes}",
        "b32 %address, b32 %warp",
        TESTED,
        body,
        "b32 %code, b32 %place",
    )
    place = context.builder.new_register(32)
    run(context, code, [address, warp], [place])
    return place


def run(
    context: Context,
    code: tree.Function,
    actuals: Many[Operand],
    results: Many[Register] = (),
    *,
    shared: bool = False,
    causes: Mapping[int, TrapCause] = CAUSES,
) -> None:
    """Emit code of which the first result is %code, then traps for what it found.

    With ``shared``, all places share one body. The guard is as before.
    """
    builder, guard = context.builder, context.builder.guard
    fault_code = keep(context, Literal(0))
    (library.call if shared else library.emit)(context, code, actuals, [fault_code, *results])
    trap(context, fault_code, causes)
    builder.guard = guard


def trap(context: Context, fault_code: Register, causes: Mapping[int, TrapCause] = CAUSES) -> None:
    """Emit traps for the codes that a register may hold, without a guard."""
    builder = context.builder
    for number, cause in causes.items():
        wrong = builder.scratch_predicate()
        with builder.use_guard(None):
            builder.emit(
                Op.SETP,
                type=D.U32,
                dsts=(wrong, None),
                srcs=(fault_code, Literal(number)),
                compare=Compare.EQ,
            )
        with builder.use_guard(Guard(wrong, False)):
            builder.emit(Op.TRAP, cause=cause)
