"""Lowers setp, set, slct, testp and isspacep."""

from typing import Any, Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import BINARY, BITS, UNARY, WORDS, Form, Lower, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES, UNSIGNED
from vgpu_sim.isa import (
    BoolOp,
    Compare,
    DataType,
    Literal,
    Op,
    Operand,
    Predicate,
    Space,
    SpecialRegister,
    Symbol,
)

_UNSIGNED_SPELLINGS = {
    "lo": Compare.LT,
    "ls": Compare.LE,
    "hi": Compare.GT,
    "hs": Compare.GE,
}
_FLOAT_ONLY = frozenset(["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"])


_ONE = {DataType.F32: 0x3F80_0000, DataType.F16: 0x3C00, DataType.BF16: 0x3F80}
_SHORT = (DataType.U16, DataType.S16)
_INFINITY = {DataType.F32: 0x7F80_0000, DataType.F64: 0x7FF0_0000_0000_0000}


def _comparison(word: str, type_: DataType) -> Compare:
    """Return the comparison that a modifier names, checked against the type (PTX ISA, "setp")."""
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
    """Lower setp. It may have a second destination, and a predicate with which the result is
    combined.
    """
    type_ = one_word.type_of(form, match)
    fields = _fields(match, type_)
    first, a, b, *third = context.operands
    srcs = [values.source(context, a, type_), values.source(context, b, type_)]
    srcs += [values.predicate_source(context, operand) for operand in third]
    dsts = values.predicate_pair(context, first)
    context.builder.emit(Op.SETP, type=type_, dsts=dsts, srcs=tuple(srcs), **fields)


def _fields(match: Match, type_: DataType) -> dict[str, Any]:
    """Return the modifiers of SETP, checked against the type of the numbers compared."""
    if "ftz" in match and type_ not in (DataType.F32, DataType.F16):
        raise Invalid(".ftz applies to .f32, .f16 and .f16x2 only")
    return {
        "compare": _comparison(match["cmp"], type_),
        "combine": BoolOp[match["bool"].upper()] if "bool" in match else BoolOp.NONE,
        "ftz": "ftz" in match,
    }


def setp_packed(context: Context, form: Form, match: Match) -> None:
    """Lower setp of packed numbers. The destination p gets the result for the lower halves, and q
    gets that for the upper halves.
    """
    p, q = values.predicate_pair(context, context.operands[0])
    _compare_halves(context, match, one_word.type_of(form, match), (p, q))


def _compare_halves(
    context: Context, match: Match, type_: DataType, to: tuple[Predicate | None, ...]
) -> None:
    """Compare the halves of packed operands a and b into one predicate each; None is skipped."""
    builder, fields = context.builder, _fields(match, type_.element)
    _, a, b, *third = context.operands
    srcs: list[Operand] = [values.source(context, operand, type_) for operand in (a, b)]
    combined = tuple(values.predicate_source(context, operand) for operand in third)
    upper: list[Operand] = []
    for source in srcs:
        upper.append(builder.scratch_register(32))
        builder.emit(Op.SHR, type=DataType.U32, dsts=(upper[-1],), srcs=(source, Literal(16)))
    # The first result may be the combining predicate, so its write waits for the second comparison.
    low_result = builder.scratch_predicate()
    for destination, halves in ((low_result, srcs), (to[1], upper)):
        if destination is not None:
            dsts, operands = (destination, None), (*halves, *combined)
            builder.emit(Op.SETP, type=type_.element, dsts=dsts, srcs=operands, **fields)
    if to[0] is not None:
        builder.emit(Op.MOV, type=DataType.PRED, dsts=(to[0],), srcs=(low_result,))


def set_(context: Context, form: Form, match: Match) -> None:
    """Lower set. If the comparison does not hold, the result is zero. If it holds, the result is
    1.0 for a float destination type, and has all bits set for an integer one.
    """
    to_type, type_ = DATA_TYPES[match["setdest"]], DATA_TYPES[match["atype"]]
    half = type_ in (DataType.F16, DataType.BF16)
    if (to_type is DataType.F32 and half) or (to_type in _SHORT and not half):
        raise Invalid(f"set .{match['setdest']} cannot compare operands of type .{match['atype']}")
    first, a, b, *third = context.operands
    srcs = [values.source(context, a, type_), values.source(context, b, type_)]
    srcs += [values.predicate_source(context, operand) for operand in third]
    builder, holds = context.builder, context.builder.scratch_predicate()
    fields = _fields(match, type_)
    builder.emit(Op.SETP, type=type_, dsts=(holds, None), srcs=tuple(srcs), **fields)
    to = values.destination(context, first, to_type)
    yes = Literal(_ONE.get(to_type, (1 << to_type.bits) - 1))
    builder.emit(Op.SELP, type=to_type, dsts=(to,), srcs=(yes, Literal(0), holds))


def set_packed(context: Context, form: Form, match: Match) -> None:
    """Lower set of packed numbers. Each half of the destination gets the result for the
    corresponding halves of the operands.
    """
    to_type, type_ = DATA_TYPES[match["packdest"]], DATA_TYPES[match["atype"]]
    if to_type.is_float and to_type is not type_:
        raise Invalid(f"set .{match['packdest']} cannot compare operands of type .{match['atype']}")
    builder = context.builder
    holds = (builder.scratch_predicate(), builder.scratch_predicate())
    _compare_halves(context, match, type_, holds)
    to = values.destination(context, context.operands[0], to_type)
    true_pattern = _ONE.get(to_type.element, 0xFFFF)
    low, high = builder.scratch_register(32), builder.scratch_register(32)
    for half, place, flag in ((low, 0, holds[0]), (high, 16, holds[1])):
        yes = Literal(true_pattern << place)
        builder.emit(Op.SELP, type=DataType.B32, dsts=(half,), srcs=(yes, Literal(0), flag))
    builder.emit(Op.OR, type=DataType.B32, dsts=(to,), srcs=(low, high))


def slct(context: Context, form: Form, match: Match) -> None:
    """Lower ``slct d, a, b, c``: a where c >= 0, else b."""
    type_, of = DATA_TYPES[match["dtype"]], one_word.type_of(form, match)
    first, a, b, c = context.operands
    holds = context.builder.scratch_predicate()
    value = values.source(context, c, of)
    context.builder.emit(
        Op.SETP,
        type=of,
        dsts=(holds, None),
        srcs=(value, Literal(0)),
        compare=Compare.GE,
        ftz="ftz" in match,
    )
    srcs = (values.source(context, a, type_), values.source(context, b, type_), holds)
    to = values.destination(context, first, type_)
    context.builder.emit(Op.SELP, type=type_, dsts=(to,), srcs=srcs)


def testp(context: Context, form: Form, match: Match) -> None:
    """Lower testp; zeros count as normal numbers."""
    type_, tested_property = one_word.type_of(form, match), match["property"]
    first, operand = context.operands
    builder, bits = context.builder, type_.bits
    value = values.source(context, operand, type_)
    to = values.predicate_destination(context, first) or builder.unused_predicate()
    if tested_property in ("number", "notanumber"):
        how = Compare.NUM if tested_property == "number" else Compare.NAN
        builder.emit(Op.SETP, type=type_, dsts=(to, None), srcs=(value, value), compare=how)
        return
    # On patterns without their sign, all numbers are below infinity, and all NaNs above.
    word, infinity = UNSIGNED[bits], Literal(_INFINITY[type_])
    pattern, less = builder.scratch_register(bits), builder.scratch_register(bits)
    cleared = Literal((1 << (bits - 1)) - 1)
    builder.emit(Op.AND, type=word, dsts=(pattern,), srcs=(value, cleared))
    if tested_property in ("finite", "infinite"):
        how = Compare.LT if tested_property == "finite" else Compare.EQ
        builder.emit(Op.SETP, type=word, dsts=(to, None), srcs=(pattern, infinity), compare=how)
        return
    subnormal, complement = builder.scratch_predicate(), builder.scratch_predicate()
    builder.emit(Op.SUB, type=word, dsts=(less,), srcs=(pattern, Literal(1)))
    lowest_bit = Literal(infinity.bits & -infinity.bits)  # the lowest bit of the exponent
    dsts = (to, None) if tested_property == "subnormal" else (subnormal, complement)
    builder.emit(
        Op.SETP, type=word, dsts=dsts, srcs=(less, Literal(lowest_bit.bits - 1)), compare=Compare.LT
    )
    if tested_property == "normal":
        builder.emit(
            Op.SETP,
            type=word,
            dsts=(to, None),
            srcs=(pattern, infinity, complement),
            compare=Compare.LT,
            combine=BoolOp.AND,
        )


def isspacep(context: Context, form: Form, match: Match) -> None:
    """Lower isspacep, which returns whether an address is in a state space.

    - An address in the window of shared or local memory is in that space.
    - An address in a constant variable is in the constant space.
    - An address in the image of the kernel's parameters is in the parameter space.
    - Every other address is in the global space.
    """
    first, value = context.operands
    source = values.source(context, value, DataType.B64)
    builder = context.builder
    to = values.predicate_destination(context, first) or builder.unused_predicate()
    match match["inside"].partition("::")[0]:
        case "shared":
            _in_window(context, Space.SHARED, source, to, Compare.EQ)
        case "local":
            _in_window(context, Space.LOCAL, source, to, Compare.EQ)
        case "param":
            _in_parameters(context, source, to)
        case space:
            builder.emit(Op.MOV, type=DataType.PRED, dsts=(to,), srcs=(Literal(0),))
            _in_constants(context, source, to)
            if space == "global":
                inverse = builder.inverse_predicate()
                builder.emit(Op.NOT, type=DataType.PRED, dsts=(inverse,), srcs=(to,))
                _in_window(context, Space.SHARED, source, to, Compare.NE, inverse)
                _in_window(context, Space.LOCAL, source, to, Compare.NE, to)


def _in_window(
    context: Context,
    space: Space,
    source: Operand,
    to: Predicate,
    how: Compare,
    also: Predicate | None = None,
) -> None:
    """Compare the upper half of an address with that of a space's window."""
    builder = context.builder
    upper, own = builder.scratch_register(64), builder.scratch_register(32)
    if space is Space.LOCAL:
        builder.emit(Op.LOCAL_WINDOW, dsts=(own,))
    else:
        builder.emit(Op.S2R, dsts=(own,), sreg=SpecialRegister.SHARED_WINDOW)
    builder.emit(Op.SHR, type=DataType.U64, dsts=(upper,), srcs=(source, Literal(32)))
    builder.emit(
        Op.SETP,
        type=DataType.U32,
        dsts=(to, None),
        srcs=(upper, own) if also is None else (upper, own, also),
        compare=how,
        combine=BoolOp.NONE if also is None else BoolOp.AND,
    )


def _in_constants(context: Context, source: Operand, to: Predicate) -> None:
    """Set ``to`` additionally where an address is in one of the module's constant variables."""
    builder = context.builder
    for variable in context.symbols.variables.values():
        if variable.space is not Space.CONST:
            continue
        distance = builder.scratch_register(64)
        srcs = (source, Symbol(variable.name))
        builder.emit(Op.SUB, type=DataType.U64, dsts=(distance,), srcs=srcs)
        builder.emit(
            Op.SETP,
            type=DataType.U64,
            dsts=(to, None),
            srcs=(distance, Literal(variable.size), to),
            compare=Compare.LT,
            combine=BoolOp.OR,
        )


def _in_parameters(context: Context, source: Operand, to: Predicate) -> None:
    """Set a predicate to whether an address is within the image of the kernel's parameters."""
    builder = context.builder
    distance = builder.scratch_register(64)
    context.uses_parameter_image = True
    begin = Symbol(context.parameter_image)
    builder.emit(Op.SUB, type=DataType.U64, dsts=(distance,), srcs=(source, begin))
    size = max((p.offset + p.size for p in context.parameters.values()), default=0)
    builder.emit(
        Op.SETP,
        type=DataType.U64,
        dsts=(to, None),
        srcs=(distance, Literal(size)),
        compare=Compare.LT,
    )


def cnot(context: Context, form: Form, match: Match) -> None:
    """Lower cnot: 1 where the operand is zero, else 0."""
    type_ = one_word.type_of(form, match)
    first, value = context.operands
    source = values.source(context, value, type_)
    to = values.destination(context, first, type_)
    builder = context.builder
    zero = builder.inverse_predicate()
    srcs = (source, Literal(0))
    builder.emit(Op.SETP, type=type_, dsts=(zero, None), srcs=srcs, compare=Compare.EQ)
    builder.emit(Op.SELP, type=type_, dsts=(to,), srcs=(Literal(1), Literal(0), zero))


_COMBINED = "a negated c is computed by NOT first"
_PAIR, _PAIRED = "p|q, a, b", "p|q, a, b, {!}c"
_TWICE = "for each half, the upper ones after SHR; then MOV"
_SELECTED, _HALVES = "SETP, SELP", "SHR of both, SETP and SELP of each half, OR"


def _set(types: str, lower: Lower, sources: tuple[str, ...], note: str) -> tuple[Form, ...]:
    return (
        Form(f"set.cmp{{.ftz}}.{types}", BINARY, Op.SETP, lower, sources, note),
        Form(f"set.cmp.bool{{.ftz}}.{types}", "d, a, b, {!}c", Op.SETP, lower, sources, note),
    )


FORMS: Final = (
    Form("setp.cmp{.ftz}.type", _PAIR, Op.SETP, setp, (*WORDS, "f16", "bf16")),
    Form("setp.cmp.bool{.ftz}.type", _PAIRED, Op.SETP, setp, (*WORDS, "f16", "bf16"), _COMBINED),
    Form("setp.cmp{.ftz}.type", _PAIR, Op.SETP, setp_packed, ("f16x2", "bf16x2"), _TWICE),
    Form("setp.cmp.bool{.ftz}.type", _PAIRED, Op.SETP, setp_packed, ("f16x2", "bf16x2"), _TWICE),
    *_set("setdest.atype", set_, (*WORDS, "f16", "bf16"), _SELECTED),
    *_set("packdest.atype", set_packed, ("f16x2", "bf16x2"), _HALVES),
    Form("slct.dtype.s32", "d, a, b, c", Op.SETP, slct, WORDS, _SELECTED),
    Form("slct{.ftz}.dtype.f32", "d, a, b, c", Op.SETP, slct, WORDS, _SELECTED),
    Form("testp.property.type", "p, a", Op.SETP, testp, ("f32", "f64"), "on patterns: AND, SUB"),
    Form("cnot.type", UNARY, Op.SETP, cnot, BITS, "then SELP"),
    Form(
        "isspacep.inside",
        "p, a",
        Op.SETP,
        isspacep,
        isa="after S2R and SHR; SUB and SETP for each `.const` variable",
    ),
)
