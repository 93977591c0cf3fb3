"""setp."""

from typing import Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.findings import Invalid
from vgpu_sim.compiler.lower.forms import WORDS, Form, Match
from vgpu_sim.isa import BoolOp, Compare, DataType, Op

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
    type_ = one_word.type_of(form, match)
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


FORMS: Final = (
    Form("setp.cmp{.ftz}.type", "p|q, a, b", Op.SETP, setp, WORDS),
    Form(
        "setp.cmp.bool{.ftz}.type",
        "p|q, a, b, {!}c",
        Op.SETP,
        setp,
        WORDS,
        "a negated c is computed by NOT first",
    ),
)
