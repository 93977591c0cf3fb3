"""Integer, floating-point and logic instructions: one word each, operands in PTX's order."""

from typing import Any

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.findings import Invalid
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.types import DATA_TYPES
from vgpu_sim.isa import BoolOp, Compare, DataType, MulMode, Op, Rounding

ROUNDINGS = {rounding.name.lower(): rounding for rounding in Rounding}


def type_of(form: Form, match: Match) -> DataType:
    """Return the type of an instruction: its ``.type`` slot, or the type its pattern ends in."""
    word = match.get("type") or form.pattern.rsplit(".", 1)[1]
    return DATA_TYPES[word]


def float_fields(match: Match) -> dict[str, Any]:
    """Return ``rounding``, ``ftz`` and ``saturate`` as a match has them."""
    rounding = Rounding.NONE
    for slot in ("rnd", "irnd", "approx", "full"):
        if slot in match:
            rounding = ROUNDINGS[match[slot]]
    return {"rounding": rounding, "ftz": "ftz" in match, "saturate": "sat" in match}


def plain(context: Context, form: Form, match: Match) -> None:
    """Lower ``op d, a...`` where all operands have the instruction's type."""
    type_ = type_of(form, match)
    if type_ is DataType.PRED:
        _logic_of_predicates(context, form)
        return
    first, *rest = context.operands
    srcs = tuple(values.source(context, operand, type_) for operand in rest)
    to = values.destination(context, first, type_)
    fields = float_fields(match)
    context.builder.emit(form.op, type=type_, dsts=(to,), srcs=srcs, **fields)


def _logic_of_predicates(context: Context, form: Form) -> None:
    first, *rest = context.operands
    srcs = tuple(values.predicate_source(context, operand) for operand in rest)
    to = values.predicate_destination(context, first) or context.builder.unused_predicate()
    context.builder.emit(form.op, type=DataType.PRED, dsts=(to,), srcs=srcs)


def shift(context: Context, form: Form, match: Match) -> None:
    """Lower shl and shr, whose count is 32 bits wide whatever the type."""
    type_ = type_of(form, match)
    to, value, count = context.operands
    srcs = (
        values.source(context, value, type_),
        values.source(context, count, DataType.U32),
    )
    dst = values.destination(context, to, type_)
    context.builder.emit(form.op, type=type_, dsts=(dst,), srcs=srcs)


_WIDENED = {
    DataType.U16: DataType.U32,
    DataType.S16: DataType.S32,
    DataType.U32: DataType.U64,
    DataType.S32: DataType.S64,
}


def product(context: Context, form: Form, match: Match) -> None:
    """Lower integer mul and mad with ``.lo``, ``.hi`` or ``.wide``."""
    type_ = type_of(form, match)
    mode = MulMode.WIDE if "wide" in match else MulMode[match["half"].upper()]
    result = _WIDENED[type_] if mode is MulMode.WIDE else type_
    first, a, b, *addend = context.operands
    srcs = (
        values.source(context, a, type_),
        values.source(context, b, type_),
        *(values.source(context, c, result) for c in addend),
    )
    to = values.destination(context, first, result)
    context.builder.emit(form.op, type=type_, dsts=(to,), srcs=srcs, mode=mode)


_UNSIGNED_SPELLINGS = {
    "lo": Compare.LT,
    "ls": Compare.LE,
    "hi": Compare.GT,
    "hs": Compare.GE,
}
_FLOAT_ONLY = frozenset(["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"])


def _comparison(word: str, type_: DataType) -> Compare:
    """Return the comparison, checked against the type (PTX ISA, "setp")."""
    if word in ("eq", "ne"):
        return Compare[word.upper()]
    valid = not type_.is_untyped
    if word in _UNSIGNED_SPELLINGS:
        valid = type_.is_unsigned
    elif word in _FLOAT_ONLY:
        valid = type_.is_float
    if not valid:
        raise Invalid(f"comparison .{word} does not take .{type_.name.lower()}")
    return _UNSIGNED_SPELLINGS.get(word) or Compare[word.upper()]


def setp(context: Context, form: Form, match: Match) -> None:
    """Lower setp with its optional second destination and combining predicate."""
    type_ = type_of(form, match)
    compare = _comparison(match["cmp"], type_)
    if "ftz" in match and type_ is not DataType.F32:
        raise Invalid(".ftz applies to .f32 only")
    first, a, b, *third = context.operands
    srcs = [values.source(context, a, type_), values.source(context, b, type_)]
    srcs += [values.predicate_source(context, operand) for operand in third]
    context.builder.emit(
        Op.SETP,
        type=type_,
        dsts=values.predicate_pair(context, first),
        srcs=tuple(srcs),
        compare=compare,
        combine=BoolOp[match["bool"].upper()] if "bool" in match else BoolOp.NONE,
        ftz="ftz" in match,
    )
