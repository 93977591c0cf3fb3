"""Lowers floating-point arithmetic."""

from typing import Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import BINARY, TERNARY, UNARY, Form, Match
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES, UNTYPED
from vgpu_sim.isa import Compare, DataType, Literal, Op, Operand


def approximation(context: Context, form: Form, match: Match) -> None:
    """Lower an instruction whose opcode has only the form ``.approx``."""
    type_ = one_word.type_of(form, match)
    first, operand = context.operands
    value = values.source(context, operand, type_)
    to = values.destination(context, first, type_)
    context.builder.emit(form.op, type=type_, dsts=(to,), srcs=(value,), ftz="ftz" in match)


def _approximate(pattern: str, op: Op, isa: str = "", types: tuple[str, ...] = ()) -> Form:
    return Form(pattern, UNARY, op, approximation, types, isa)


def mixed_precision(context: Context, form: Form, match: Match) -> None:
    """Lower add, sub and fma of .f32 that also have operands of a smaller type.

    These operands are the factors of fma, and the first operand of add and sub. They are widened
    to .f32 exactly.
    """
    small = DATA_TYPES[match["atype"]]
    first, *operands = context.operands
    count = 2 if form.op is Op.FMA else 1
    srcs: list[Operand] = []
    for operand in operands[:count]:
        wide = context.builder.scratch_register(32)
        source = values.source(context, operand, small)
        context.builder.emit(
            Op.CVT, type=DataType.F32, source_type=small, dsts=(wide,), srcs=(source,)
        )
        srcs.append(wide)
    srcs += [values.source(context, operand, DataType.F32) for operand in operands[count:]]
    to = values.destination(context, first, DataType.F32)
    fields = one_word.float_fields(match)
    context.builder.emit(form.op, type=DataType.F32, dsts=(to,), srcs=tuple(srcs), **fields)


OUTSIDE: Final = 0x7FFF
"""The NaN that tensor copies store for 16-bit elements outside the tensor (``copies``)."""


def fma_outside(context: Context, form: Form, match: Match) -> None:
    """Lower ``fma.oob``: +0 in the parts of which an operand is the NaN of elements outside."""
    type_ = one_word.type_of(form, match)
    builder, sequence = context.builder, Sequence(context.builder)
    first, *operands = context.operands
    srcs = [values.source(context, operand, type_) for operand in operands]
    to = values.destination(context, first, type_)
    part = builder.scratch_register(type_.bits)
    fields = one_word.float_fields(match)
    builder.emit(Op.FMA, type=type_, dsts=(part,), srcs=tuple(srcs), **fields)
    word, all_bits = UNTYPED[type_.bits], Literal((1 << type_.bits) - 1)
    mask: Operand = all_bits
    for place in range(type_.bits // 16):
        field, outside_pattern = 0xFFFF << 16 * place, Literal(OUTSIDE << 16 * place)
        for source in srcs:
            cut = sequence.emit(Op.AND, word, source, Literal(field))
            outside = sequence.compare(Compare.EQ, word, cut, outside_pattern)
            other_bits = Literal(all_bits.bits & ~field)
            chosen = sequence.emit(Op.SELP, word, other_bits, all_bits, outside)
            mask = sequence.emit(Op.AND, word, mask, chosen)
    builder.emit(Op.AND, type=word, dsts=(to,), srcs=(part, mask))


def extremum_of_three(context: Context, form: Form, match: Match) -> None:
    """Lower min and max with three operands as two operations."""
    first, *operands = context.operands
    type_, ftz = DataType.F32, "ftz" in match
    srcs = [values.source(context, operand, type_) for operand in operands]
    if "abs" in match:
        for place, source in enumerate(srcs):
            srcs[place] = context.builder.scratch_register(32)
            context.builder.emit(Op.FABS, type=type_, dsts=(srcs[place],), srcs=(source,))
    fields = {"ftz": ftz, "nan": "NaN" in match}
    part, to = context.builder.scratch_register(32), values.destination(context, first, type_)
    context.builder.emit(form.op, type=type_, dsts=(part,), srcs=tuple(srcs[:2]), **fields)
    context.builder.emit(form.op, type=type_, dsts=(to,), srcs=(part, srcs[2]), **fields)


def copysign(context: Context, form: Form, match: Match) -> None:
    """Lower ``copysign d, a, b``: |b| with a's sign."""
    type_ = one_word.type_of(form, match)
    first, a, b = context.operands
    bits, builder = type_.bits, context.builder
    sign, magnitude = builder.scratch_register(bits), builder.scratch_register(bits)
    value = values.source(context, a, type_)
    builder.emit(Op.AND, type=UNTYPED[bits], dsts=(sign,), srcs=(value, Literal(1 << (bits - 1))))
    value = values.source(context, b, type_)
    builder.emit(Op.FABS, type=type_, dsts=(magnitude,), srcs=(value,))
    to = values.destination(context, first, type_)
    builder.emit(Op.OR, type=UNTYPED[bits], dsts=(to,), srcs=(magnitude, sign))


_HALF, _BFLOAT = ("f16", "f16x2"), ("bf16", "bf16x2")


def _sums(name: str, op: Op) -> tuple[Form, ...]:
    return (
        one_word.row(f"{name}{{.rnd}}{{.ftz}}{{.sat}}.f32", BINARY, op),
        one_word.row(f"{name}{{.rnd}}{{.ftz}}.f32x2", BINARY, op),
        one_word.row(f"{name}{{.rnd}}.f64", BINARY, op),
        one_word.row(f"{name}{{.rn}}{{.ftz}}{{.sat}}.type", BINARY, op, _HALF),
        one_word.row(f"{name}{{.rn}}.type", BINARY, op, _BFLOAT),
    )


def _mixed_form(pattern: str, operands: str, op: Op) -> Form:
    return Form(
        pattern, operands, op, mixed_precision, ("f16", "bf16"), "after CVT of each small operand"
    )


def _signs(name: str, op: Op) -> tuple[Form, ...]:
    return (
        one_word.row(f"{name}{{.ftz}}.f32", UNARY, op),
        one_word.row(f"{name}.f64", UNARY, op),
        one_word.row(f"{name}{{.ftz}}.type", UNARY, op, _HALF),
        one_word.row(f"{name}.type", UNARY, op, _BFLOAT),
    )


def _extrema(name: str, op: Op) -> tuple[Form, ...]:
    return (
        one_word.row(f"{name}{{.ftz}}{{.NaN}}.type", BINARY, op, ("f32", *_HALF)),
        one_word.row(f"{name}{{.ftz}}{{.NaN}}.xorsign.abs.type", BINARY, op, ("f32", *_HALF)),
        one_word.row(f"{name}{{.NaN}}.type", BINARY, op, _BFLOAT),
        one_word.row(f"{name}{{.NaN}}.xorsign.abs.type", BINARY, op, _BFLOAT),
        one_word.row(f"{name}.f64", BINARY, op),
        Form(f"{name}{{.ftz}}{{.NaN}}{{.abs}}.f32", TERNARY, op, extremum_of_three, isa=_THREE),
    )


def reciprocal(context: Context, form: Form, match: Match) -> None:
    """Lower rcp.rnd.ftz.f64. PTX does not specify what .ftz does to .f64; an H100 ignores it."""
    words = {slot: word for slot, word in match.words.items() if slot != "ftz"}
    one_word.lower(context, form, Match(words))


_OUTSIDE = "+0 where an operand is the NaN of tensor copies; AND, SETP, SELP"
_THREE = "twice; FABS of each operand first where `.abs` says so"

FORMS: Final = (
    *_sums("add", Op.FADD),
    *_sums("sub", Op.FSUB),
    *_sums("mul", Op.FMUL),
    _mixed_form("add{.rnd}{.sat}.f32.atype", BINARY, Op.FADD),
    _mixed_form("sub{.rnd}{.sat}.f32.atype", BINARY, Op.FSUB),
    one_word.row("fma.rnd{.ftz}{.sat}.f32", TERNARY, Op.FMA),
    one_word.row("fma.rnd{.ftz}.f32x2", TERNARY, Op.FMA),
    one_word.row("fma.rnd.f64", TERNARY, Op.FMA),
    one_word.row("fma.rn{.ftz}{.sat}.type", TERNARY, Op.FMA, _HALF),
    one_word.row("fma.rn{.ftz}.relu.type", TERNARY, Op.FMA, _HALF),
    one_word.row("fma.rn{.relu}.type", TERNARY, Op.FMA, _BFLOAT),
    Form("fma.rn{.relu}.oob.type", TERNARY, Op.FMA, fma_outside, (*_HALF, *_BFLOAT), _OUTSIDE),
    _mixed_form("fma.rnd{.sat}.f32.atype", TERNARY, Op.FMA),
    one_word.row("mad.rnd{.ftz}{.sat}.f32", TERNARY, Op.FMA),
    one_word.row("mad.rnd.f64", TERNARY, Op.FMA),
    *_signs("neg", Op.FNEG),
    *_signs("abs", Op.FABS),
    *_extrema("min", Op.FMIN),
    *_extrema("max", Op.FMAX),
    Form("copysign.type", BINARY, Op.FABS, copysign, ("f32", "f64"), "AND, FABS, OR"),
    one_word.row("div.approx{.ftz}.f32", BINARY, Op.FDIV, isa="rounded to nearest"),
    one_word.row("div.full{.ftz}.f32", BINARY, Op.FDIV, isa="rounded to nearest"),
    one_word.row("div.rnd{.ftz}.f32", BINARY, Op.FDIV),
    one_word.row("div.rnd.f64", BINARY, Op.FDIV),
    one_word.row("rcp.approx{.ftz}.f32", UNARY, Op.FRCP, isa="rounded to nearest"),
    one_word.row("rcp.rnd{.ftz}.f32", UNARY, Op.FRCP),
    one_word.row("rcp.rnd.f64", UNARY, Op.FRCP),
    Form("rcp.rnd.ftz.f64", UNARY, Op.FRCP, reciprocal, isa="`.ftz` has no effect"),
    one_word.row("sqrt.approx{.ftz}.f32", UNARY, Op.FSQRT, isa="rounded to nearest"),
    one_word.row("sqrt.rnd{.ftz}.f32", UNARY, Op.FSQRT),
    one_word.row("sqrt.rnd.f64", UNARY, Op.FSQRT),
    one_word.row("rcp.approx.ftz.f64", UNARY, Op.FRCP, isa="its upper half alone"),
    _approximate("rsqrt.approx{.ftz}.f32", Op.FRSQRT),
    _approximate("rsqrt.approx.f64", Op.FRSQRT),
    _approximate("rsqrt.approx.ftz.f64", Op.FRSQRT, isa="its upper half alone"),
    _approximate("ex2.approx{.ftz}.f32", Op.FEX2),
    _approximate("lg2.approx{.ftz}.f32", Op.FLG2),
    _approximate("sin.approx{.ftz}.f32", Op.FSIN),
    _approximate("cos.approx{.ftz}.f32", Op.FCOS),
    _approximate("tanh.approx.f32", Op.FTANH),
    _approximate("ex2.approx.type", Op.FEX2, types=_HALF),
    _approximate("ex2.approx.ftz.type", Op.FEX2, types=_BFLOAT),
    _approximate("tanh.approx.type", Op.FTANH, types=(*_HALF, *_BFLOAT)),
)
