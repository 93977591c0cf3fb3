"""setp and isspacep."""

from typing import Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.findings import Invalid
from vgpu_sim.compiler.lower.forms import WORDS, Form, Match
from vgpu_sim.isa import BoolOp, Compare, DataType, Literal, Op, SpecialRegister

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


def isspacep(context: Context, form: Form, match: Match) -> None:
    """Lower isspacep: in the shared window is shared, all else is global."""
    first, value = context.operands
    source = values.source(context, value, DataType.B64)
    builder = context.builder
    upper, own = builder.scratch(64), builder.scratch(32)
    builder.emit(Op.S2R, dsts=(own,), sreg=SpecialRegister.SHARED_WINDOW)
    builder.emit(Op.SHR, type=DataType.U64, dsts=(upper,), srcs=(source, Literal(32)))
    to = values.predicate_destination(context, first) or builder.unused_predicate()
    compare = Compare.EQ if match["inside"] == "shared" else Compare.NE
    builder.emit(Op.SETP, type=DataType.U32, dsts=(to, None), srcs=(upper, own), compare=compare)


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
    Form("isspacep.inside", "p, a", Op.SETP, isspacep, isa="after S2R and SHR"),
)
