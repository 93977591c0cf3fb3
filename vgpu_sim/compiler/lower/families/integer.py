"""Integer arithmetic and logic."""

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
from vgpu_sim.isa import DataType, MulMode, Op

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
    """Lower shl and shr, whose count is 32 bits wide whatever the type."""
    type_ = one_word.type_of(form, match)
    to, value, count = context.operands
    srcs = (
        values.source(context, value, type_),
        values.source(context, count, DataType.U32),
    )
    dst = values.destination(context, to, type_)
    context.builder.emit(form.op, type=type_, dsts=(dst,), srcs=srcs)


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
)
