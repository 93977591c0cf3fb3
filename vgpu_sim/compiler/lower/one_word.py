"""Lowers PTX instructions that become one ISA instruction with the same order of operands.

All families share this module.
"""

from typing import Any

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.isa import DataType, Op, Rounding

ROUNDINGS = {rounding.name.lower(): rounding for rounding in Rounding}


def row(pattern: str, operands: str, op: Op, types: tuple[str, ...] = (), isa: str = "") -> Form:
    """Return a ``Form`` (a row of the binding) whose lowering function is ``lower`` of this
    module.
    """
    return Form(pattern, operands, op, lower, types, isa)


def type_of(form: Form, match: Match) -> DataType:
    """Return the type of an instruction.

    This is the modifier in the slot ``type``. If there is none, it is the type at the end of the
    form's pattern.
    """
    word = match.get("type") or form.pattern.rsplit(".", 1)[1]
    return DATA_TYPES[word]


def float_fields(match: Match) -> dict[str, Any]:
    """Return the ISA instruction's fields for rounding, flushing, clamping, NaNs and signs, as the
    modifiers in ``match`` specify them.
    """
    rounding = Rounding.NONE
    for slot in ("rnd", "irnd", "rn", "approx", "full"):
        if slot in match:
            rounding = ROUNDINGS[match[slot]]
    return {
        "rounding": rounding,
        "ftz": "ftz" in match,
        "saturate": "sat" in match,
        "relu": "relu" in match,
        "nan": "NaN" in match,
        "xorsign": "xorsign" in match,
    }


def lower(context: Context, form: Form, match: Match) -> None:
    """Lower ``op d, a...`` where all operands have the instruction's type."""
    type_ = type_of(form, match)
    if type_ is DataType.PRED:
        _logic_of_predicates(context, form)
        return
    first, *source_operands = context.operands
    srcs = tuple(values.source(context, operand, type_) for operand in source_operands)
    to = values.destination(context, first, type_)
    fields = float_fields(match)
    context.builder.emit(form.op, type=type_, dsts=(to,), srcs=srcs, **fields)


def _logic_of_predicates(context: Context, form: Form) -> None:
    first, *source_operands = context.operands
    srcs = tuple(values.predicate_source(context, operand) for operand in source_operands)
    to = values.predicate_destination(context, first) or context.builder.unused_predicate()
    context.builder.emit(form.op, type=DataType.PRED, dsts=(to,), srcs=srcs)
