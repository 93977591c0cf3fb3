"""Operands of instructions: registers, constants, special registers, predicates.

Registers must be as wide as the instruction's type, except where PTX allows them to be wider
(PTX ISA, "Operand Size Exceeding Instruction-Type Size": ld, st, cvt): ``wider=True``.
"""

import struct

from vgpu_sim.compiler.lower import special
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.ptx import grammar, tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Predicate, Register


def destination(
    context: Context, operand: tree.Operand, type_: DataType, *, wider: bool = False
) -> Register:
    """Return the register to which an instruction writes a result of ``type_``.

    ``operand`` names the register. With ``wider``, the register may have more bits than the type.

    Raises:
        Invalid: the operand is not a register, or the register's width does not match the type.
    """
    if isinstance(operand, tree.Name):
        register = _named_register(context, operand)
        if isinstance(register, Register):
            _check_width(context, operand, register, type_, wider)
            return register
        raise Invalid(f"{operand.text!r} is a predicate and cannot hold a number", operand)
    if isinstance(operand, tree.Sink):
        return context.builder.scratch_register(max(type_.bits, 16))
    raise Invalid("the destination is not a register")


def source(
    context: Context, operand: tree.Operand, type_: DataType, *, wider: bool = False
) -> Operand:
    """Return the value of an operand that is read as ``type_``.

    With ``wider``, a register may have more bits than the type.

    Raises:
        Invalid: the operand does not match the type.
        Unsupported: the operand is a special register that the ISA cannot read, or of a kind that
            is not supported here.
    """
    match operand:
        case tree.Integer():
            return integer_literal(operand, type_)
        case tree.Float():
            return float_literal(operand, type_)
        case tree.Name() if grammar.is_special(operand.text):
            return special.read(context, operand, type_)
        case tree.Name():
            register = _named_register(context, operand)
            if isinstance(register, Predicate):
                raise Invalid(f"{operand.text!r} is a predicate, not a number", operand)
            _check_width(context, operand, register, type_, wider)
            return register
        case tree.Not(inner):
            raise Invalid("'!' applies to predicates only", _at(inner))
        case _:
            description = _DESCRIPTIONS.get(type(operand), "this")
            raise Unsupported(f"{description} as an operand")


_DESCRIPTIONS: dict[type, str] = {
    tree.Offset: "an address",
    tree.Element: "an array element",
    tree.Vector: "a vector",
    tree.Negated: "a negated register",
    tree.Pair: "a pair",
    tree.Sink: "'_'",
}


def _at(operand: tree.Operand) -> tree.Name | None:
    return operand if isinstance(operand, tree.Name) else None


def _named_register(context: Context, name: tree.Name) -> Register | Predicate:
    register = context.register(name)
    if register is None:
        if grammar.is_special(name.text):
            raise Invalid(f"{name.text!r} is read-only", name)
        known = (
            context.scope.find(name.text) is not None
            or context.find_shared(name.text) is not None
            or name.text in context.locals
            or name.text in context.symbols.variables
            or name.text in context.parameters
        )
        reason = "is not a register" if known else "is not declared"
        raise Invalid(f"{name.text!r} {reason}", name)
    return register


def _check_width(
    context: Context, name: tree.Name, register: Register, type_: DataType, wider: bool
) -> None:
    bits, type_bits = context.bits(register), type_.bits
    if bits == type_bits or (wider and bits > type_bits):
        return
    raise Invalid(
        f"{name.text!r} has {bits} bits, but .{type_.name.lower()} needs"
        f" {'at least ' if wider else ''}{type_bits}",
        name,
    )


def integer_literal(constant: tree.Integer, type_: DataType) -> Literal:
    """Return an integer constant, truncated to the width of ``type_``.

    Raises:
        Unsupported: the type is floating-point. PTX does not write floating-point constants as
            integers.
    """
    if type_ is DataType.PRED:
        return Literal(int(constant.value != 0))
    if type_.is_float and type_.element is type_:  # packed operands are untyped bits
        raise Unsupported(f"an integer constant as a .{type_.name.lower()} operand")
    return Literal(constant.value & ((1 << type_.bits) - 1))


def float_literal(constant: tree.Float, type_: DataType) -> Literal:
    """Return a floating-point constant's bits in ``type_``.

    A ``0f`` constant keeps its 32 bits. Every other constant is a double; if ``type_`` is
    ``.f32``, it is rounded to that type (PTX ISA, "Floating-Point Constants"). If ``type_`` is
    untyped bits, such as ``.b64``, it must have the constant's width.

    Raises:
        Unsupported: the constant's width is not the type's.
    """
    exact = constant.width or 64
    if type_.bits == exact and type_.element is type_ and (type_.is_float or type_.is_untyped):
        return Literal(constant.bits)
    if type_ is DataType.F32:
        return Literal(_double_to_single(constant.bits))
    raise Unsupported(
        f"a floating-point constant of {exact} bits as a .{type_.name.lower()} operand"
    )


def _double_to_single(bits: int) -> int:
    value = struct.unpack("<d", struct.pack("<Q", bits))[0]
    try:
        packed = struct.pack("<f", value)
    except OverflowError:  # beyond the largest finite single: rounds to infinity
        packed = struct.pack("<f", float("-inf") if value < 0 else float("inf"))
    return int.from_bytes(packed, "little")


def predicate_destination(context: Context, operand: tree.Operand) -> Predicate | None:
    """Return the predicate register to which a result is written; None for ``_``.

    Raises:
        Invalid: the operand is not a predicate register.
    """
    if isinstance(operand, tree.Sink):
        return None
    return _predicate(context, operand)


def predicate_source(context: Context, operand: tree.Operand) -> Predicate | Literal:
    """Return the predicate that an instruction reads as ``operand``.

    For ``!p``, emit the inversion of ``p`` and return the scratch predicate that holds it.

    Raises:
        Invalid: the operand is not a predicate.
    """
    match operand:
        case tree.Integer():
            return integer_literal(operand, DataType.PRED)
        case tree.Not(inner):
            plain = _predicate(context, inner)
            inverse = context.builder.inverse_predicate()
            context.builder.emit(Op.NOT, type=DataType.PRED, dsts=(inverse,), srcs=(plain,))
            return inverse
        case tree.Name() if grammar.is_special(operand.text):
            value = special.read(context, operand, DataType.PRED)
            if not isinstance(value, Literal | Predicate):
                raise Invalid(f"{operand.text!r} is not a predicate", operand)
            return value
        case _:
            return _predicate(context, operand)


def _predicate(context: Context, operand: tree.Operand) -> Predicate:
    if isinstance(operand, tree.Name) and not grammar.is_special(operand.text):
        register = _named_register(context, operand)
        if isinstance(register, Predicate):
            return register
        raise Invalid(f"{operand.text!r} is not a predicate", operand)
    raise Invalid("expected a predicate")


def predicate_pair(context: Context, operand: tree.Operand) -> tuple[Predicate, Predicate | None]:
    """Return the two destinations that an operand ``p|q``, ``p`` or ``_|q`` names.

    For ``_``, the destination is a scratch predicate. For a single ``p``, the second destination
    is None.

    Raises:
        Invalid: a destination is not a predicate.
        Unsupported: both destinations are the same predicate, whose value PTX leaves undefined.
    """
    first, second = operand, None
    if isinstance(operand, tree.Pair):
        first, second = operand.first, operand.second
    q = None if second is None else predicate_destination(context, second)
    p = predicate_destination(context, first)
    if p is not None and p == q:
        raise Unsupported("using one predicate for both destinations")
    return p or context.builder.unused_predicate(), q
