"""Lowers clusterlaunchcontrol, by which a running cluster takes over one that has not started (PTX
ISA 9.7.15).

The response is four words: the index of the first block of the cancelled cluster in x, y and z, and
whether there is one. It is complete when the instruction has executed.
"""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.copies.bulk import COMPLETES, MULTICAST_REGISTERS, for_each_block
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Compare, DataType, Literal, Op, Operand, Register, Space

_ALL: Final = "multicast::cluster::all"
_BYTES: Final = 16
_AXES: Final = ("x", "y", "z")
_HIGH: Final = 32
_REGISTERS: Final = ".reg .b64 %i, %n, %m; .reg .b32 %x, %y, %z, %w; .reg .pred %p;"
_INDEX: Final = """
  sub.u64 %i, %taken, 1; mov.u32 %w, %nctaid.x; cvt.u64.u32 %n, %w;
  rem.u64 %m, %i, %n; cvt.u32.u64 %x, %m; div.u64 %i, %i, %n;
  mov.u32 %w, %nctaid.y; cvt.u64.u32 %n, %w;
  rem.u64 %m, %i, %n; cvt.u32.u64 %y, %m; div.u64 %i, %i, %n; cvt.u32.u64 %z, %i;
  setp.ne.u64 %p, %taken, 0; selp.b32 %w, 1, 0, %p;
  selp.b32 %x, %x, 0, %p; selp.b32 %y, %y, 0, %p; selp.b32 %z, %z, 0, %p;
"""
_RESPOND: Final = f"""
  st.volatile.shared.v4.b32 [%to], {{%x, %y, %z, %w}};
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], {_BYTES};
"""


def try_cancel(context: Context, form: Form, match: Match) -> None:
    """Lower clusterlaunchcontrol.try_cancel: CANCEL, a store, and the completion of its bytes."""
    target, bar = context.operands
    cancelled = context.builder.scratch_register(64)
    context.builder.emit(Op.CANCEL, type=DataType.U64, dsts=(cancelled,))
    to_all = _ALL in match
    body, registers = _RESPOND, _REGISTERS
    if to_all:
        registers += f"{MULTICAST_REGISTERS} .reg .b16 %mask;"
        body = f"mov.b16 %mask, 0xffff; {for_each_block(body, ('%to', '%bar'))}"
    name = f"tessera.try_cancel{'.all' * to_all}"
    parameters = "b64 %taken, b32 %to, b32 %bar"
    code = library.function(name, parameters, registers, _INDEX + body)
    places = [whole_address(context, operand, Space.SHARED) for operand in (target, bar)]
    library.emit(context, code, [cancelled, *places])


def is_canceled(context: Context, form: Form, match: Match) -> None:
    """Lower clusterlaunchcontrol.query_cancel.is_canceled: whether the last word is not 0."""
    first, response = context.operands
    _, high = _halves(context, response)
    to = values.predicate_destination(context, first) or context.builder.unused_predicate()
    last = _shifted(context, high)
    context.builder.emit(
        Op.SETP, type=DataType.U64, dsts=(to, None), srcs=(last, Literal(0)), compare=Compare.NE
    )


def first_block(context: Context, form: Form, match: Match) -> None:
    """Lower clusterlaunchcontrol.query_cancel.get_first_ctaid, for all axes or one."""
    first, response = context.operands
    low, high = _halves(context, response)
    axis = match.get("axis")
    if axis is not None:
        destinations: dict[int, tree.Operand] = {_AXES.index(axis[-1]): first}
    else:
        if not isinstance(first, tree.Vector) or len(first.elements) != len(_AXES) + 1:
            raise Invalid("expected a vector of 4 registers")
        destinations = dict(enumerate(first.elements[: len(_AXES)]))
    for place, operand in destinations.items():
        if isinstance(operand, tree.Sink):
            continue
        to = values.destination(context, operand, DataType.B32)
        word = (low, _shifted(context, low), high)[place]
        context.builder.emit(
            Op.CVT, type=DataType.U32, source_type=DataType.U64, dsts=(to,), srcs=(word,)
        )


def _halves(context: Context, operand: tree.Operand) -> tuple[Operand, Operand]:
    """Return the low and the high 64 bits of a response."""
    if not isinstance(operand, tree.Vector) or len(operand.elements) != 2:
        raise Invalid("the response must be a 128-bit register")
    low, high = (values.source(context, half, DataType.B64) for half in operand.elements)
    return low, high


def _shifted(context: Context, half: Operand) -> Register:
    to = context.builder.scratch_register(64)
    srcs = (half, Literal(_HIGH))
    context.builder.emit(Op.SHR, type=DataType.U64, dsts=(to,), srcs=srcs)
    return to


FORMS: Final = (
    Form(f"clusterlaunchcontrol.try_cancel.async{{.own}}.{COMPLETES}{{.{_ALL}}}.b128", "[d], [bar]",
         Op.CANCEL, try_cancel, isa="CANCEL, ST.VOLATILE, then RED.TX"),
    Form("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", "p, a", Op.SETP, is_canceled,
         isa="SHR, SETP"),
    Form("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128", "d, a",
         Op.CVT, first_block, isa="SHR and CVT"),
    Form("clusterlaunchcontrol.query_cancel.axis.b32.b128", "d, a", Op.CVT, first_block,
         isa="SHR and CVT"),
)  # fmt: skip
