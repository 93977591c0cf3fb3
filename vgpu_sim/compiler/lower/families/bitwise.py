"""Lowers instructions on bits: bit fields, counts, searches, funnel shifts, prmt and lop3."""

from collections.abc import Sequence
from typing import Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import BINARY, TERNARY, UNARY, Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Compare, DataType, Literal, Op, Operand, Permute

_WORDS = ("u32", "s32", "u64", "s64")
_UNTYPED = ("b32", "b64")
_VALUES = {Op.BFE: 1, Op.BFI: 2}  # operands of the instruction's type; the others are counts


def field(context: Context, form: Form, match: Match) -> None:
    """Lower bfe and bfi. Their position and length operands have 32 bits, whatever the type."""
    type_ = one_word.type_of(form, match)
    first, *source_operands = context.operands
    kinds = [type_] * _VALUES[form.op] + [DataType.U32] * 2
    srcs = tuple(
        values.source(context, a, kind) for a, kind in zip(source_operands, kinds, strict=True)
    )
    to = values.destination(context, first, type_)
    context.builder.emit(form.op, type=type_, dsts=(to,), srcs=srcs)


def count(context: Context, form: Form, match: Match) -> None:
    """Lower popc, clz and bfind. Their result has 32 bits, whatever the type."""
    type_ = one_word.type_of(form, match)
    first, value = context.operands
    srcs = (values.source(context, value, type_),)
    to = values.destination(context, first, DataType.U32)
    amount = "shiftamt" in match
    context.builder.emit(form.op, type=type_, dsts=(to,), srcs=srcs, shift_amount=amount)


def wrapping(context: Context, form: Form, match: Match) -> None:
    """Lower bmsk, szext and shf, with ``.wrap`` or ``.clamp``."""
    type_ = one_word.type_of(form, match)
    first, *source_operands = context.operands
    srcs = tuple(values.source(context, operand, type_) for operand in source_operands)
    to = values.destination(context, first, type_)
    context.builder.emit(form.op, type=type_, dsts=(to,), srcs=srcs, wrap=match["over"] == "wrap")


def permute(context: Context, form: Form, match: Match) -> None:
    """Lower prmt, whose mode (such as ``.f4e``) is written after the type."""
    first, *source_operands = context.operands
    srcs = tuple(values.source(context, operand, DataType.B32) for operand in source_operands)
    to = values.destination(context, first, DataType.B32)
    mode = Permute[match["permute"].upper()] if "permute" in match else Permute.NONE
    context.builder.emit(Op.PRMT, type=DataType.B32, dsts=(to,), srcs=srcs, permute=mode)


def logic(context: Context, form: Form, match: Match) -> None:
    """Lower ``lop3 d, a, b, c, table``."""
    first, *inputs, table = context.operands
    srcs = _logic_sources(context, inputs, table)
    if isinstance(first, tree.Sink):
        return
    to = values.destination(context, first, DataType.B32)
    context.builder.emit(Op.LOP3, type=DataType.B32, dsts=(to,), srcs=srcs)


def logic_and_predicate(context: Context, form: Form, match: Match) -> None:
    """Lower ``lop3.and`` and ``lop3.or``, with operands ``d|p, a, b, c, table, q``.

    The predicate p is (d != 0) AND q, or (d != 0) OR q.
    """
    first, *inputs, table, chooser = context.operands
    if not isinstance(first, tree.Pair):
        raise Invalid("lop3 with .and or .or needs the destination pair d|p")
    srcs = _logic_sources(context, inputs, table)
    to = values.destination(context, first.first, DataType.B32)
    builder = context.builder
    predicate = values.predicate_destination(context, first.second) or builder.unused_predicate()
    minus = False
    if isinstance(chooser, tree.Not):  # then the negation of what is computed, by De Morgan
        chooser, minus = chooser.operand, True
    chosen = values.predicate_source(context, chooser)
    is_nonzero, zero = builder.inverse_predicate(), Literal(0)
    compare = Compare.EQ if minus else Compare.NE
    builder.emit(Op.LOP3, type=DataType.B32, dsts=(to,), srcs=srcs)
    builder.emit(
        Op.SETP, type=DataType.U32, dsts=(is_nonzero, None), srcs=(to, zero), compare=compare
    )
    combine = Op.AND if (match["combine"] == "and") != minus else Op.OR
    builder.emit(combine, type=DataType.PRED, dsts=(predicate,), srcs=(is_nonzero, chosen))
    if minus:
        builder.emit(Op.NOT, type=DataType.PRED, dsts=(predicate,), srcs=(predicate,))


def _logic_sources(
    context: Context, inputs: Sequence[tree.Operand], table: tree.Operand
) -> tuple[Operand, ...]:
    if not isinstance(table, tree.Integer) or not 0 <= table.value <= 255:
        raise Invalid("the table of lop3 must be a constant from 0 to 255")
    read = (values.source(context, operand, DataType.B32) for operand in inputs)
    return (*read, Literal(table.value))


FORMS: Final = (
    Form("bfe.type", TERNARY, Op.BFE, field, _WORDS, "position and length have 32 bits"),
    Form("bfi.type", "f, a, b, c, d", Op.BFI, field, _UNTYPED, "position and length have 32 bits"),
    Form("bmsk.over.b32", BINARY, Op.BMSK, wrapping),
    Form("szext.over.type", BINARY, Op.SZEXT, wrapping, ("u32", "s32")),
    Form("bfind{.shiftamt}.type", UNARY, Op.BFIND, count, _WORDS, "the result has 32 bits"),
    one_word.row("fns.b32", "d, mask, base, offset", Op.FNS),
    Form("popc.type", UNARY, Op.POPC, count, _UNTYPED, "the result has 32 bits"),
    Form("clz.type", UNARY, Op.CLZ, count, _UNTYPED, "the result has 32 bits"),
    one_word.row("brev.type", UNARY, Op.BREV, _UNTYPED),
    Form("shf.l.over.b32", TERNARY, Op.SHF_L, wrapping),
    Form("shf.r.over.b32", TERNARY, Op.SHF_R, wrapping),
    Form("prmt.b32{.permute}", TERNARY, Op.PRMT, permute),
    Form("lop3.b32", "d, a, b, c, lut", Op.LOP3, logic),
    Form(
        "lop3.combine.b32",
        "d|p, a, b, c, lut, q",
        Op.LOP3,
        logic_and_predicate,
        isa="then SETP, and AND or OR of predicates",
    ),
)
