"""Lowers mov, cvta and selp."""

from typing import Final

from vgpu_sim.compiler.lower import hints, one_word, special, values
from vgpu_sim.compiler.lower.addresses import WINDOWS, symbol_of, whole_parameter_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import cluster_addresses
from vgpu_sim.compiler.lower.forms import UNARY, WORDS, Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.scopes import HALVES, RegisterClass
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES, UNSIGNED
from vgpu_sim.compiler.ptx import grammar, tree
from vgpu_sim.isa import (
    DataType,
    Literal,
    Op,
    Operand,
    Register,
    Space,
    SpecialRegister,
    Symbol,
)


def mov(context: Context, form: Form, match: Match) -> None:
    """Lower mov of registers, constants, special registers and addresses, and mov that packs or
    unpacks a vector.
    """
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
        srcs = (_address(context, *symbol, type_),)
    elif _reads_special(context, first, value, type_):
        return
    else:
        srcs = (values.source(context, value, type_),)
    to = values.destination(context, first, type_)
    context.builder.emit(Op.MOV, type=type_, dsts=(to,), srcs=srcs)


def _address(context: Context, symbol: Operand, space: Space, type_: DataType) -> Operand:
    """Return the address of a variable; as 32 bits, the low half of a parameter's address."""
    if type_.bits == 64 or (space in WINDOWS and type_.bits == 32):
        if space is Space.SHARED:
            return cluster_addresses.with_own_rank(context, symbol, UNSIGNED[type_.bits])
        return symbol
    if space is not Space.PARAM or type_.bits != 32:
        raise Invalid(f"an address has 64 bits and cannot be moved as .{type_.name.lower()}")
    whole = context.builder.scratch_register(64)
    low = context.builder.scratch_register(32)
    context.builder.emit(Op.MOV, type=DataType.U64, dsts=(whole,), srcs=(symbol,))
    context.builder.emit(
        Op.CVT, type=DataType.U32, source_type=DataType.U64, dsts=(low,), srcs=(whole,)
    )
    return low


def _reads_special(
    context: Context, first: tree.Operand, value: tree.Operand, type_: DataType
) -> bool:
    """Lower ``mov.u32 d, %sreg`` to one instruction; return False for anything else."""
    if not isinstance(value, tree.Name) or not grammar.is_special(value.text) or type_.is_float:
        return False
    register = special.find(value).register
    if register is None or register.bits != type_.bits:
        return False
    special.s2r(context, register, values.destination(context, first, type_))
    return True


def mov_elements(context: Context, form: Form, match: Match) -> None:
    """Lower ``mov.v4.u32 d, a``, which reads all components of a special register.

    A mov of a vector of registers does not occur here, because ``compiler.expansion`` has
    already expanded it.
    """
    type_, count = one_word.type_of(form, match), int(match["elements"][1:])
    first, value = context.operands
    if not isinstance(first, tree.Vector) or len(first.elements) != count:
        raise Invalid(f"expected a vector of {count} elements")
    if count != 4 or type_.bits != 32 or type_.is_float:
        raise Invalid("mov of a whole special register must be .v4 with a 32-bit integer type")
    if not isinstance(value, tree.Name) or not grammar.SPECIAL_REGISTERS.get(value.text):
        raise Invalid("mov of a vector needs a special register with four components as source")
    for element, component in zip(first.elements, "xyzw", strict=True):
        if isinstance(element, tree.Sink):
            continue
        name = tree.Name(value.text, value.line, value.column, component)
        to = values.destination(context, element, type_)
        source = special.read(context, name, type_)
        context.builder.emit(Op.MOV, type=type_, dsts=(to,), srcs=(source,))


def mov_halves(context: Context, form: Form, match: Match) -> None:
    """Lower mov.b128. A 128-bit register is two 64-bit registers, so packing and unpacking are
    moves too.
    """
    first, value = context.operands
    if not (isinstance(first, tree.Vector) and isinstance(value, tree.Vector)):
        raise Invalid(
            "the operands of mov.b128 must be 128-bit registers or vectors of two 64-bit elements"
        )
    wide = [_is_wide(operand) for operand in (first, value)]
    if len(first.elements) != 2 or not any(wide):
        raise Invalid("mov.b128 must pack or unpack two 64-bit elements")
    _copy_elements(context, first, value, DataType.B64)


def _is_wide(vector: tree.Vector) -> bool:
    first = vector.elements[0] if vector.elements else None
    return isinstance(first, tree.Name) and first.component == HALVES[0]


def _copy_elements(
    context: Context, first: tree.Vector, value: tree.Vector, type_: DataType
) -> None:
    """Copy a vector, reading all elements before any is written."""
    if len(value.elements) != len(first.elements):
        raise Invalid(f"expected a vector of {len(first.elements)} elements")
    sources = [values.source(context, element, type_) for element in value.elements]
    to = [
        None if isinstance(e, tree.Sink) else values.destination(context, e, type_)
        for e in first.elements
    ]
    written = [register for register in to if register is not None]
    if len(set(written)) != len(written):
        raise Unsupported("using one register for two elements of a vector")
    builder = context.builder
    for place, source in enumerate(sources):
        if source in to[:place]:
            sources[place] = builder.scratch_register(type_.bits)
            builder.emit(Op.MOV, type=type_, dsts=(sources[place],), srcs=(source,))
    for register, source in zip(to, sources, strict=True):
        if register is not None and register != source:
            builder.emit(Op.MOV, type=type_, dsts=(register,), srcs=(source,))


def _piece_bits(context: Context, vector: tree.Vector, type_: DataType) -> int:
    count = len(vector.elements)
    bits = type_.bits // count if count in (2, 4) else 0
    if not type_.is_untyped or bits < 8:
        raise Invalid("a vector in mov must have 2 or 4 elements of at least 8 bits, and a .b type")
    if bits == 8:
        for element in vector.elements:
            _check_byte(context, element)
    return bits


def _check_byte(context: Context, element: tree.Operand) -> None:
    """Check that an element of 8 bits is declared so: ISA registers have 16."""
    if isinstance(element, tree.Name):
        binding = context.scope.find(element.text)
        if binding is None or not isinstance(binding[1], RegisterClass) or not binding[1].is_byte:
            raise Invalid(f"{element.text!r} is not an 8-bit register", element)


def _pack(context: Context, first: tree.Operand, vector: tree.Vector, type_: DataType) -> None:
    """Lower ``mov.b64 d, {a, b}``: d = b << 32 | a, with the first element lowest."""
    bits = _piece_bits(context, vector, type_)
    piece, builder = DATA_TYPES[f"b{bits}"], context.builder
    total = builder.scratch_register(type_.bits)
    to = values.destination(context, first, type_)
    for index, element in enumerate(vector.elements):
        value = values.source(context, element, piece, wider=bits == 8)
        part = builder.scratch_register(type_.bits) if index else total
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
    bits = _piece_bits(context, vector, type_)
    piece, builder = DATA_TYPES[f"b{bits}"], context.builder
    whole = values.source(context, value, type_)
    for index, element in enumerate(vector.elements):
        if isinstance(element, tree.Sink):
            continue
        to = values.destination(context, element, piece, wider=bits == 8)
        part: Operand = whole
        if index:
            part = builder.scratch_register(type_.bits)
            amount = Literal(index * bits)
            builder.emit(Op.SHR, type=UNSIGNED[type_.bits], dsts=(part,), srcs=(whole, amount))
        builder.emit(
            Op.CVT, type=UNSIGNED[bits], source_type=UNSIGNED[type_.bits], dsts=(to,), srcs=(part,)
        )


def cvta(context: Context, form: Form, match: Match) -> None:
    """Lower cvta. A global address is also a generic address; an address of shared or local memory
    is converted by adding or subtracting the start of its window.
    """
    first, value = context.operands
    symbol, window = symbol_of(context, value), match["window"].partition("::")[0].upper()
    source: Operand
    if symbol is None:
        source = values.source(context, value, DataType.B64)
        if Space[window] is Space.PARAM and "to" not in match:
            source = whole_parameter_address(context, source)
    elif "to" in match:
        raise Invalid("the source of cvta.to must be a register")
    else:
        source, space = symbol
        if space is not Space[window]:
            raise Invalid(f"the variable is not in .{match['window']} space")
        if space is Space.SHARED:
            source = cluster_addresses.with_own_rank(context, source, DataType.U64)
    to = values.destination(context, first, DataType.B64)
    if Space[window] in WINDOWS:
        op = Op.SUB if "to" in match else Op.ADD
        base = _window(context, Space[window])
        if isinstance(source, Symbol):
            address = context.builder.scratch_register(64)
            context.builder.emit(Op.MOV, type=DataType.B64, dsts=(address,), srcs=(source,))
            source = address
        context.builder.emit(op, type=DataType.U64, dsts=(to,), srcs=(source, base))
        return
    context.builder.emit(Op.MOV, type=DataType.B64, dsts=(to,), srcs=(source,))


def _window(context: Context, space: Space) -> Register:
    """Return the generic address where shared or local memory begins."""
    builder = context.builder
    window = builder.scratch_register(64)
    if space is Space.LOCAL:
        upper = builder.scratch_register(32)
        builder.emit(Op.LOCAL_WINDOW, dsts=(upper,))
    else:
        upper = special.s2r(context, SpecialRegister.SHARED_WINDOW)
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


_CVTA_NOTE = (
    "address unchanged; `.shared`, `.local`: S2R or LOCAL_WINDOW, CVT, SHL, then ADD or (`.to`) SUB"
)

FORMS: Final = (
    Form(
        "mov.type",
        UNARY,
        Op.MOV,
        mov,
        ("pred", *WORDS),
        "S2R for special registers; CVT, SHL, SHR and OR for vectors",
    ),
    Form(
        "mov.elements.type",
        UNARY,
        Op.MOV,
        mov_elements,
        WORDS,
        "S2R of each component; vectors of registers are one MOV each",
    ),
    Form("mov.b128", UNARY, Op.MOV, mov_halves, isa="of both halves"),
    Form("cvta.window.u64", UNARY, Op.MOV, cvta, isa=_CVTA_NOTE),
    Form("cvta.to.window.u64", UNARY, Op.MOV, cvta, isa=_CVTA_NOTE),
    *hints.POLICIES,
    *cluster_addresses.FORMS,
    Form("selp.type", "d, a, b, p", Op.SELP, selp, WORDS),
)
