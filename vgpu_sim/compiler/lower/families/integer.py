"""Lowers integer arithmetic and logic."""

import functools
from typing import Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import (
    BINARY,
    BITS,
    INTEGERS,
    SIGNED,
    TERNARY,
    UNARY,
    Form,
    Match,
)
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES, UNTYPED
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, MulMode, Op, Operand, Predicate, Register

_CARRIED = ("u32", "s32", "u64", "s64")
_SATURATED = ("u32", "s32")
_SHORT = "of factors cut to 24 bits by SHL and, for `.lo`, SHR"
_CARRYLESS = "of every fourth bit, sixteen times; AND, XOR, OR; for `.hi` BREV before and after"
_EVERY_FOURTH = tuple(0x1111_1111_1111_1111 << place for place in range(4))
_WIDENED = {
    DataType.U16: DataType.U32,
    DataType.S16: DataType.S32,
    DataType.U32: DataType.U64,
    DataType.S32: DataType.S64,
}


def product(context: Context, form: Form, match: Match) -> None:
    """Lower integer mul and mad with ``.lo``, ``.hi`` or ``.wide``."""
    type_ = one_word.type_of(form, match)
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


def shift(context: Context, form: Form, match: Match) -> None:
    """Lower shl and shr. The shift count has 32 bits, whatever the type."""
    type_ = one_word.type_of(form, match)
    to, value, count = context.operands
    srcs = (
        values.source(context, value, type_),
        values.source(context, count, DataType.U32),
    )
    dst = values.destination(context, to, type_)
    context.builder.emit(form.op, type=type_, dsts=(dst,), srcs=srcs)


def add_with_carry(context: Context, form: Form, match: Match) -> None:
    """Lower add, addc, sub and subc with the carry flag, which is a predicate of the function."""
    type_ = UNTYPED[one_word.type_of(form, match).bits]
    first, a, b = context.operands
    srcs = (values.source(context, a, type_), values.source(context, b, type_))
    _emit_carried(context, form, match, type_, first, srcs)


def mad_with_carry(context: Context, form: Form, match: Match) -> None:
    """Lower mad and madc with the carry flag. Only the addition uses the flag."""
    type_ = one_word.type_of(form, match)
    first, *source_operands = context.operands
    a, b, c = (values.source(context, operand, type_) for operand in source_operands)
    part = context.builder.scratch_register(type_.bits)
    mode = MulMode[match["half"].upper()]
    context.builder.emit(Op.MUL, type=type_, dsts=(part,), srcs=(a, b), mode=mode)
    _emit_carried(context, form, match, UNTYPED[type_.bits], first, (part, c))


def _emit_carried(
    context: Context,
    form: Form,
    match: Match,
    type_: DataType,
    first: tree.Operand,
    srcs: tuple[Operand, Operand],
) -> None:
    carry = context.carry_predicate()
    builder = context.builder
    carry_in: Predicate | Literal = carry if form.opcode.endswith("c") else Literal(0)
    out = carry if "cc" in match else None
    to = values.destination(context, first, type_)
    if form.op is Op.ADDC:
        builder.emit(form.op, type=type_, dsts=(to, out), srcs=(*srcs, carry_in))
        return
    # The flag is the carry out of `a + ~b + 1`, as on GPUs: set where nothing is borrowed. PTX ISA
    # says "borrow", which chains of `sub.cc` and `subc` cannot distinguish; `addc` after `sub.cc`
    # can.
    borrow = builder.new_predicate()
    if carry_in is carry:
        builder.emit(Op.NOT, type=DataType.PRED, dsts=(borrow,), srcs=(carry,))
        carry_in = borrow
    borrow_out = borrow if out is not None else None
    builder.emit(form.op, type=type_, dsts=(to, borrow_out), srcs=(*srcs, carry_in))
    if out is not None:
        builder.emit(Op.NOT, type=DataType.PRED, dsts=(carry,), srcs=(borrow,))


def add_saturating(context: Context, form: Form, match: Match) -> None:
    """Lower add.sat and sub.sat."""
    type_ = one_word.type_of(form, match)
    first, a, b = context.operands
    srcs = (values.source(context, a, type_), values.source(context, b, type_))
    to = values.destination(context, first, type_)
    context.builder.emit(form.op, type=type_, dsts=(to,), srcs=srcs)


def mad_saturating(context: Context, form: Form, match: Match) -> None:
    """Lower mad.hi.sat.s32 and mad24.hi.sat.s32. Only the addition saturates."""
    first, a, b, c = context.operands
    factors = [values.source(context, operand, DataType.S32) for operand in (a, b)]
    addend = values.source(context, c, DataType.S32)
    part = _high_product(context, factors, DataType.S32, short=form.opcode == "mad24")
    to = values.destination(context, first, DataType.S32)
    context.builder.emit(Op.ADD_SAT, type=DataType.S32, dsts=(to,), srcs=(part, addend))


def short_product(context: Context, form: Form, match: Match) -> None:
    """Lower mul24 and mad24, whose factors have 24 bits and whose product has 48."""
    type_ = one_word.type_of(form, match)
    first, a, b, *addends = context.operands
    factors = [values.source(context, operand, type_) for operand in (a, b)]
    addend = [values.source(context, operand, type_) for operand in addends]
    builder = context.builder
    to = values.destination(context, first, type_)
    if match["half"] == "hi":
        part = _high_product(context, factors, type_, short=True)
    else:
        part = builder.scratch_register(32)
        for place, factor in enumerate(_shifted_up(context, factors)):
            builder.emit(Op.SHR, type=type_, dsts=(factor,), srcs=(factor, Literal(8)))
            factors[place] = factor
        builder.emit(Op.MUL, type=type_, dsts=(part,), srcs=tuple(factors), mode=MulMode.LO)
    if addend:
        builder.emit(Op.ADD, type=type_, dsts=(to,), srcs=(part, *addend))
    else:
        builder.emit(Op.MOV, type=type_, dsts=(to,), srcs=(part,))


def _high_product(
    context: Context, factors: list[Operand], type_: DataType, *, short: bool
) -> Register:
    """Return the high half of a product, or bits 16 to 47 of a product of 24-bit factors."""
    part = context.builder.scratch_register(32)
    if short:  # 8 more bits below in each factor: 16 more below in the product
        factors = list(_shifted_up(context, factors))
    context.builder.emit(Op.MUL, type=type_, dsts=(part,), srcs=tuple(factors), mode=MulMode.HI)
    return part


def _shifted_up(context: Context, factors: list[Operand]) -> list[Register]:
    shifted = []
    for factor in factors:
        upper = context.builder.scratch_register(32)
        srcs = (factor, Literal(8))
        context.builder.emit(Op.SHL, type=DataType.B32, dsts=(upper,), srcs=srcs)
        shifted.append(upper)
    return shifted


def difference(context: Context, form: Form, match: Match) -> None:
    """Lower sad, which returns c + |a - b|.

    The absolute difference is computed as the greater of a and b minus the smaller.
    """
    type_ = one_word.type_of(form, match)
    first, a, b, c = context.operands
    pair = (values.source(context, a, type_), values.source(context, b, type_))
    addend = values.source(context, c, type_)
    builder = context.builder
    greater, smaller = builder.scratch_register(type_.bits), builder.scratch_register(type_.bits)
    builder.emit(Op.MAX, type=type_, dsts=(greater,), srcs=pair)
    builder.emit(Op.MIN, type=type_, dsts=(smaller,), srcs=pair)
    builder.emit(Op.SUB, type=type_, dsts=(greater,), srcs=(greater, smaller))
    to = values.destination(context, first, type_)
    builder.emit(Op.ADD, type=type_, dsts=(to,), srcs=(addend, greater))


def extremum_relu(context: Context, form: Form, match: Match) -> None:
    """Lower min.relu and max.relu, which make negative results 0."""
    first, a, b = context.operands
    srcs = (values.source(context, a, DataType.S32), values.source(context, b, DataType.S32))
    to = values.destination(context, first, DataType.S32)
    builder = context.builder
    part = builder.scratch_register(32)
    builder.emit(form.op, type=DataType.S32, dsts=(part,), srcs=srcs)
    builder.emit(Op.MAX, type=DataType.S32, dsts=(to,), srcs=(part, Literal(0)))


def dot(context: Context, form: Form, match: Match) -> None:
    """Lower dp4a and dp2a."""
    type_, byte_type = DATA_TYPES[match["dtype"]], DATA_TYPES[match["atype"]]
    first, *source_operands = context.operands
    srcs = tuple(values.source(context, operand, DataType.B32) for operand in source_operands)
    to = values.destination(context, first, DataType.B32)
    mode = MulMode[match["half"].upper()] if "half" in match else MulMode.NONE
    context.builder.emit(
        form.op, type=type_, source_type=byte_type, dsts=(to,), srcs=srcs, mode=mode
    )


def carryless(context: Context, form: Form, match: Match) -> None:
    """Lower clmad, a multiply-add without carries.

    The factors are masked so that only every fourth bit is kept, and multiplied as usual. Every
    fourth bit of the product is then the parity of at most sixteen ones. A sum of up to fifteen
    ones cannot carry into the next such bit. Only the sum for the topmost bit can reach sixteen,
    and its carry leaves the product.
    """
    first, a, b, c = context.operands
    factors = [values.source(context, operand, DataType.U64) for operand in (a, b)]
    addend = values.source(context, c, DataType.U64)
    sequence, word = Sequence(context.builder), DataType.B64
    # The low half of the product of the reversed factors is the high half, reversed.
    if match["half"] == "hi":
        factors = [sequence.emit(Op.BREV, word, factor) for factor in factors]
    x, y = (
        [sequence.emit(Op.AND, word, factor, Literal(mask)) for mask in _EVERY_FOURTH]
        for factor in factors
    )
    parts = []
    for place, mask in enumerate(_EVERY_FOURTH):
        products = [
            sequence.emit(Op.MUL, DataType.U64, x[i], y[(place - i) % 4], mode=MulMode.LO)
            for i in range(4)
        ]
        part = functools.reduce(lambda p, q: sequence.emit(Op.XOR, word, p, q), products)
        parts.append(sequence.emit(Op.AND, word, part, Literal(mask)))
    product = functools.reduce(lambda p, q: sequence.emit(Op.OR, word, p, q), parts)
    if match["half"] == "hi":  # of 127 bits, reversed, the last is the lowest
        product = sequence.emit(Op.BREV, word, product)
        product = sequence.emit(Op.SHR, word, product, Literal(1))
    to = values.destination(context, first, DataType.U64)
    sequence.emit_to(to, Op.XOR, word, product, addend)


FORMS: Final = (
    one_word.row("add.type", BINARY, Op.ADD, INTEGERS),
    one_word.row("sub.type", BINARY, Op.SUB, INTEGERS),
    Form("mul.half.type", BINARY, Op.MUL, product, INTEGERS),
    Form("mul.wide.type", BINARY, Op.MUL, product, ("u16", "u32", "s16", "s32")),
    Form("mad.half.type", TERNARY, Op.MAD, product, INTEGERS),
    Form("mad.wide.type", TERNARY, Op.MAD, product, ("u16", "u32", "s16", "s32")),
    one_word.row("neg.type", UNARY, Op.NEG, SIGNED),
    one_word.row("abs.type", UNARY, Op.ABS, SIGNED),
    one_word.row("min.type", BINARY, Op.MIN, INTEGERS),
    one_word.row("max.type", BINARY, Op.MAX, INTEGERS),
    one_word.row("div.type", BINARY, Op.DIV, INTEGERS),
    one_word.row("rem.type", BINARY, Op.REM, INTEGERS),
    Form("shl.type", BINARY, Op.SHL, shift, BITS, "the count has 32 bits"),
    Form(
        "shr.type",
        BINARY,
        Op.SHR,
        shift,
        (*BITS, *INTEGERS),
        "arithmetic for signed types; the count has 32 bits",
    ),
    one_word.row("and.type", BINARY, Op.AND, ("pred", *BITS)),
    one_word.row("or.type", BINARY, Op.OR, ("pred", *BITS)),
    one_word.row("xor.type", BINARY, Op.XOR, ("pred", *BITS)),
    one_word.row("not.type", UNARY, Op.NOT, ("pred", *BITS)),
    Form("add.cc.type", BINARY, Op.ADDC, add_with_carry, _CARRIED),
    Form("addc{.cc}.type", BINARY, Op.ADDC, add_with_carry, _CARRIED),
    Form("sub.cc.type", BINARY, Op.SUBC, add_with_carry, _CARRIED),
    Form("subc{.cc}.type", BINARY, Op.SUBC, add_with_carry, _CARRIED),
    Form("mad.half.cc.type", TERNARY, Op.ADDC, mad_with_carry, _CARRIED, "after MUL"),
    Form("madc.half{.cc}.type", TERNARY, Op.ADDC, mad_with_carry, _CARRIED, "after MUL"),
    Form("add.sat.type", BINARY, Op.ADD_SAT, add_saturating, _SATURATED),
    Form("sub.sat.type", BINARY, Op.SUB_SAT, add_saturating, _SATURATED),
    Form("mad.hi.sat.s32", TERNARY, Op.ADD_SAT, mad_saturating, isa="after MUL"),
    Form("mul24.half.type", BINARY, Op.MUL, short_product, _SATURATED, _SHORT),
    Form("mad24.half.type", TERNARY, Op.MUL, short_product, _SATURATED, f"{_SHORT}; then ADD"),
    Form("mad24.hi.sat.s32", TERNARY, Op.ADD_SAT, mad_saturating, isa="after SHL and MUL"),
    Form("sad.type", TERNARY, Op.SUB, difference, INTEGERS, "of MAX and MIN; then ADD"),
    Form("min.relu.s32", BINARY, Op.MIN, extremum_relu, isa="then MAX with 0"),
    Form("max.relu.s32", BINARY, Op.MAX, extremum_relu, isa="then MAX with 0"),
    Form("clmad.half.u64", TERNARY, Op.MUL, carryless, isa=_CARRYLESS),
    Form("dp4a.dtype.atype", TERNARY, Op.DP4A, dot, _SATURATED),
    Form("dp2a.half.dtype.atype", TERNARY, Op.DP2A, dot, _SATURATED),
)
