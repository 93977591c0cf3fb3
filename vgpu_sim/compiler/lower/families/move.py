"""mov, cvta and selp."""

from typing import Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.addresses import symbol_of
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.forms import UNARY, WORDS, Form, Match
from vgpu_sim.compiler.lower.types import DATA_TYPES, UNSIGNED
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import (
    DataType,
    Literal,
    Op,
    Operand,
    Register,
    Space,
    SpecialRegister,
)


def mov(context: Context, form: Form, match: Match) -> None:
    """Lower mov: registers, constants, special registers, addresses, vectors as bits."""
    type_ = one_word.type_of(form, match)
    first, value = context.operands
    if type_ is DataType.PRED:
        srcs: tuple[Operand, ...] = (values.predicate_source(context, value),)
        predicate = values.predicate_destination(context, first)
        predicate = predicate or context.builder.unused_predicate()
        context.builder.emit(Op.MOV, type=type_, dsts=(predicate,), srcs=srcs)
        return
    if isinstance(value, tree.Vector):
        _pack(context, first, value, type_)
        return
    if isinstance(first, tree.Vector):
        _unpack(context, first, value, type_)
        return
    symbol = symbol_of(context, value)
    if symbol is not None:
        if type_.bits != 64 and not (symbol[1] is Space.SHARED and type_.bits == 32):
            raise Invalid(f"an address has 64 bits, not .{type_.name.lower()}")
        srcs = (symbol[0],)
    elif _reads_special(context, first, value, type_):
        return
    else:
        srcs = (values.source(context, value, type_),)
    to = values.destination(context, first, type_)
    context.builder.emit(Op.MOV, type=type_, dsts=(to,), srcs=srcs)


def _reads_special(
    context: Context, first: tree.Operand, value: tree.Operand, type_: DataType
) -> bool:
    """Lower ``mov.u32 d, %sreg`` to one word; anything else is left to the caller."""
    if not isinstance(value, tree.Name) or type_.bits != 32 or type_.is_float:
        return False
    sreg = values.special_register(value)
    if sreg is None:
        return False
    to = values.destination(context, first, type_)
    context.builder.emit(Op.S2R, type=DataType.B32, dsts=(to,), sreg=sreg)
    return True


def _piece_bits(vector: tree.Vector, type_: DataType) -> int:
    count = len(vector.elements)
    if not type_.is_untyped or count not in (2, 4):
        raise Invalid("a vector in mov needs 2 or 4 elements and type .b32 or .b64")
    bits = type_.bits // count
    if bits < 16:
        raise Unsupported(f"a vector of {bits}-bit elements in mov")
    return bits


def _pack(context: Context, first: tree.Operand, vector: tree.Vector, type_: DataType) -> None:
    """Lower ``mov.b64 d, {a, b}``: d = b << 32 | a, with the first element lowest."""
    bits = _piece_bits(vector, type_)
    piece, builder = DATA_TYPES[f"b{bits}"], context.builder
    total = builder.scratch(type_.bits)
    to = values.destination(context, first, type_)
    for index, element in enumerate(vector.elements):
        value = values.source(context, element, piece)
        part = builder.scratch(type_.bits) if index else total
        builder.emit(
            Op.CVT,
            type=UNSIGNED[type_.bits],
            source_type=UNSIGNED[bits],
            dsts=(part,),
            srcs=(value,),
        )
        if index == 0:
            continue
        amount = Literal(index * bits)
        builder.emit(Op.SHL, type=type_, dsts=(part,), srcs=(part, amount))
        last = index == len(vector.elements) - 1
        builder.emit(Op.OR, type=type_, dsts=(to if last else total,), srcs=(total, part))


def _unpack(context: Context, vector: tree.Vector, value: tree.Operand, type_: DataType) -> None:
    """Lower ``mov.b64 {a, b}, s``: the first element takes the lowest bits."""
    bits = _piece_bits(vector, type_)
    piece, builder = DATA_TYPES[f"b{bits}"], context.builder
    whole = values.source(context, value, type_)
    for index, element in enumerate(vector.elements):
        if isinstance(element, tree.Sink):
            continue
        to = values.destination(context, element, piece)
        part: Operand = whole
        if index:
            part = builder.scratch(type_.bits)
            amount = Literal(index * bits)
            builder.emit(Op.SHR, type=UNSIGNED[type_.bits], dsts=(part,), srcs=(whole, amount))
        builder.emit(
            Op.CVT, type=UNSIGNED[bits], source_type=UNSIGNED[type_.bits], dsts=(to,), srcs=(part,)
        )


def cvta(context: Context, form: Form, match: Match) -> None:
    """Lower cvta: a global address is a generic one already, a shared one lies in the window."""
    first, value = context.operands
    symbol = symbol_of(context, value)
    source: Operand
    if symbol is None:
        source = values.source(context, value, DataType.B64)
    elif "to" in match:
        raise Invalid("cvta.to takes a register")
    else:
        source, space = symbol
        if space is not Space[match["window"].upper()]:
            raise Invalid(f"the variable is not in .{match['window']} space")
    to = values.destination(context, first, DataType.B64)
    if match["window"] == "shared":
        op = Op.SUB if "to" in match else Op.ADD
        window = _shared_window(context)
        context.builder.emit(op, type=DataType.U64, dsts=(to,), srcs=(source, window))
        return
    context.builder.emit(Op.MOV, type=DataType.B64, dsts=(to,), srcs=(source,))


def _shared_window(context: Context) -> Register:
    """Return the generic address of the block's shared memory."""
    builder = context.builder
    upper, window = builder.scratch(32), builder.scratch(64)
    builder.emit(Op.S2R, dsts=(upper,), sreg=SpecialRegister.SHARED_WINDOW)
    builder.emit(Op.CVT, type=DataType.U64, source_type=DataType.U32, dsts=(window,), srcs=(upper,))
    builder.emit(Op.SHL, type=DataType.B64, dsts=(window,), srcs=(window, Literal(32)))
    return window


def selp(context: Context, form: Form, match: Match) -> None:
    """Lower ``selp d, a, b, p``."""
    type_ = one_word.type_of(form, match)
    first, a, b, chooser = context.operands
    srcs = (
        values.source(context, a, type_),
        values.source(context, b, type_),
        values.predicate_source(context, chooser),
    )
    to = values.destination(context, first, type_)
    context.builder.emit(Op.SELP, type=type_, dsts=(to,), srcs=srcs)


_CVTA_NOTE = "address unchanged; `.shared`: S2R, CVT, SHL, then ADD or (`.to`) SUB"

FORMS: Final = (
    Form(
        "mov.type",
        UNARY,
        Op.MOV,
        mov,
        ("pred", *WORDS),
        "S2R for special registers; CVT, SHL, SHR and OR for vectors",
    ),
    Form("cvta.window.u64", UNARY, Op.MOV, cvta, isa=_CVTA_NOTE),
    Form("cvta.to.window.u64", UNARY, Op.MOV, cvta, isa=_CVTA_NOTE),
    Form("selp.type", "d, a, b, p", Op.SELP, selp, WORDS),
)
