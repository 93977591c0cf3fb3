"""Lowers st.bulk (PTX ISA 9.7.10, "st.bulk"): zeros for a range of shared memory."""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import space_of, whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Op, Space

_STEP_BYTES: Final = 8
_MOST_BYTES: Final = 16 << 20  # PTX ISA's limit


def _code(space: Space) -> tree.Function:
    """Return the code of a loop of stores, which traps where PTX ISA leaves the size undefined."""
    bits, word = (32, "shared.") if space is Space.SHARED else (64, "")
    return library.function(
        f"tessera.bulk.zeros.{bits}",
        f"b{bits} %first, b64 %size",
        f".reg .b{bits} %to; .reg .b64 %rest; .reg .pred %p;",
        f"""
          and.b64 %rest, %size, {_STEP_BYTES - 1};
          setp.ne.u64 %p, %rest, 0;
          @%p trap;
          setp.gt.u64 %p, %size, {_MOST_BYTES};
          @%p trap;
          mov.b{bits} %to, %first; mov.b64 %rest, %size;
          setp.eq.u64 %p, %rest, 0;
          @%p bra DONE;
        NEXT:
          st.volatile.{word}u64 [%to], 0;
          add.u{bits} %to, %to, {_STEP_BYTES};
          sub.u64 %rest, %rest, {_STEP_BYTES};
          setp.ne.u64 %p, %rest, 0;
          @%p bra NEXT;
        DONE:
        """,
    )


def zeros(context: Context, form: Form, match: Match) -> None:
    """Lower st.bulk. The grammar permits only the initial value 0."""
    where, size, _ = context.operands
    own = "shared::cta" in match
    space = Space.SHARED if own else space_of(context, where, Space.GENERIC)
    actuals = [whole_address(context, where, space), values.source(context, size, DataType.U64)]
    library.emit(context, _code(space), actuals)


FORMS: Final = (
    Form("st.bulk{.weak}{.shared::cta}", "[a], size, value", Op.ST, zeros, isa="a loop of ST"),
)
