"""ld and st, and the addresses they take (PTX ISA, "Addresses as Operands")."""

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.arithmetic import type_of
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register, Space, Symbol

MAX_VECTOR_BYTES = 16

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1


def _split(operand: tree.Operand) -> tuple[tree.Operand, int]:
    """Split ``base + addend``."""
    if isinstance(operand, tree.Offset):
        return operand.base, operand.addend
    return operand, 0


def symbol_of(context: Context, operand: tree.Operand) -> tuple[Symbol, Space] | None:
    """Return the module variable that an operand names, with its space; None for other operands.

    Raises:
        Unsupported: for names that have an address in PTX but none here yet.
    """
    base, addend = _split(operand)
    if not isinstance(base, tree.Name) or context.scope.find(base.text) is not None:
        return None
    symbols = context.symbols
    if base.text in context.parameters:
        raise Unsupported(f"the address of parameter {base.text!r}", base)
    variable = symbols.variables.get(base.text)
    if variable is not None:
        return Symbol(base.text, addend), variable.space
    refused = symbols.refused.get(base.text)
    if refused is not None:
        raise Unsupported(refused.what, base)
    if base.text in symbols.functions:
        raise Unsupported(f"the address of function {base.text!r}", base)
    if context.scope.find_label(base.text) is not None:
        raise Unsupported(f"the address of label {base.text!r}", base)
    return None


def address(context: Context, operand: tree.Operand, space: Space) -> tuple[Operand, int]:
    """Return base and displacement in bytes of a ``[...]`` operand.

    Raises:
        Invalid: when it is no address, or its displacement does not fit 32 bits.
    """
    if not isinstance(operand, tree.Memory) or len(operand.parts) != 1:
        raise Invalid("expected an address in brackets")
    symbol = symbol_of(context, operand.parts[0])
    if symbol is not None:
        if space not in (Space.GENERIC, symbol[1]):
            raise Invalid(f"{symbol[0].name!r} is not in .{space.name.lower()} space")
        return symbol[0], 0
    base, displacement = _split(operand.parts[0])
    if isinstance(base, tree.Integer):
        return Literal(base.value & 0xFFFF_FFFF_FFFF_FFFF), displacement
    if not _INT32_MIN <= displacement <= _INT32_MAX:
        raise Invalid(f"address offset {displacement} does not fit 32 bits")
    return _base_register(context, base), displacement


def _base_register(context: Context, base: tree.Operand) -> Register:
    """Return a 64-bit register with the address; a 32-bit one is zero-extended, as PTX says."""
    register = context.register(base) if isinstance(base, tree.Name) else None
    if not isinstance(register, Register):
        shown = base.text if isinstance(base, tree.Name) else "this"
        raise Invalid(f"{shown!r} is not an address")
    bits = context.bits(register)
    if bits == 64:
        return register
    wide = context.builder.scratch(64)
    context.builder.emit(
        Op.CVT,
        type=DataType.U64,
        source_type=DataType.U32 if bits == 32 else DataType.U16,
        dsts=(wide,),
        srcs=(register,),
    )
    return wide


def _elements(operand: tree.Operand, match: Match) -> tuple[tree.Operand, ...]:
    """Return the data operands: the elements of a vector, or the one operand."""
    count = int(match["vec"][1:]) if "vec" in match else 1
    if isinstance(operand, tree.Vector):
        if len(operand.elements) != count:
            raise Invalid(f"expected {count} elements, found {len(operand.elements)}")
        return operand.elements
    if count != 1:
        raise Invalid(f"expected a vector of {count} elements")
    return (operand,)


def _space(match: Match) -> Space:
    word = match.get("space") or match.get("global")
    return Space[word.upper()] if word else Space.GENERIC


def load(context: Context, form: Form, match: Match) -> None:
    """Lower ld of global, constant and generic memory; cache hints change no result."""
    type_, space = type_of(form, match), _space(match)
    data, where, *_ = context.operands
    base, displacement = address(context, where, space)
    _load(context, match, data, type_, space, (base,), displacement)


def load_parameter(context: Context, form: Form, match: Match) -> None:
    """Lower ld.param of a kernel parameter: it stays symbolic, as an offset into the block."""
    type_ = type_of(form, match)
    data, where = context.operands
    if not isinstance(where, tree.Memory) or len(where.parts) != 1:
        raise Invalid("expected an address in brackets")
    base, addend = _split(where.parts[0])
    if not isinstance(base, tree.Name):
        raise Invalid("expected the name of a parameter")
    parameter = context.parameters.get(base.text)
    if parameter is None or context.scope.find(base.text) is not None:
        if context.register(base) is not None:
            raise Unsupported("ld.param through a register", base)
        raise Invalid(f"{base.text!r} is not a parameter", base)
    count = len(_elements(data, match))
    if addend < 0 or addend + count * type_.bytes > parameter.size:
        raise Invalid(f"outside of parameter {base.text!r} ({parameter.size} bytes)", base)
    _load(context, match, data, type_, Space.PARAM, (), parameter.offset + addend)


def _load(
    context: Context,
    match: Match,
    data: tree.Operand,
    type_: DataType,
    space: Space,
    srcs: tuple[Operand, ...],
    displacement: int,
) -> None:
    elements = _elements(data, match)
    _check_vector(elements, type_)
    alone = len(elements) == 1
    dsts = tuple(
        None
        if isinstance(element, tree.Sink) and not alone
        else values.destination(context, element, type_, wider=True)
        for element in elements
    )
    written = [register for register in dsts if register is not None]
    if len(set(written)) != len(written):
        raise Invalid("two elements of the vector are the same register")
    if not written:
        dsts = (values.destination(context, elements[0], type_), *dsts[1:])
    context.builder.emit(
        Op.LD,
        type=type_,
        dsts=dsts,
        srcs=srcs,
        space=space,
        vector=len(elements),
        displacement=displacement,
        volatile="volatile" in match,
        read_only="nc" in match,
    )


def _check_vector(elements: tuple[tree.Operand, ...], type_: DataType) -> None:
    if len(elements) * type_.bytes > MAX_VECTOR_BYTES:
        raise Unsupported(f"an access of more than {MAX_VECTOR_BYTES} bytes")


def store(context: Context, form: Form, match: Match) -> None:
    """Lower st to global and generic memory; cache hints change no result."""
    type_, space = type_of(form, match), _space(match)
    where, data, *_ = context.operands
    elements = _elements(data, match)
    _check_vector(elements, type_)
    base, displacement = address(context, where, space)
    srcs = tuple(values.source(context, element, type_, wider=True) for element in elements)
    context.builder.emit(
        Op.ST,
        type=type_,
        srcs=(base, *srcs),
        space=space,
        vector=len(elements),
        displacement=displacement,
        volatile="volatile" in match,
    )
