"""The operands of ``mov``: registers, constants, special registers, addresses, packed vectors."""

from vgpu_sim.compiler.legality.scopes import Place, Register, Scope, Special, Symbol
from vgpu_sim.compiler.legality.types import Type, find_type
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree


def check(scope: Scope, words: tuple[str, ...], operands: tuple[tree.Operand, ...]) -> None:
    """Check the operands of a ``mov`` against its type.

    Raises:
        Invalid: it violates a rule of PTX.
    """
    type_ = find_type(words[-1])
    if len(operands) != 2 or type_ is None:
        raise Invalid("mov needs 2 operands")
    if len(words) > 1:
        _check_count(scope, int(words[0][1:]), operands)
        return
    to, value = operands
    if isinstance(to, tree.Vector):
        _check_parts(scope, type_, to, written=True)
        if not isinstance(value, tree.Vector):
            _check_value(scope, type_, value)
        return
    if not isinstance(to, tree.Name):
        raise Invalid("the destination is not a register")
    _check_register(type_, _whole(scope.register(to), to), to)
    if isinstance(value, tree.Vector):
        _check_parts(scope, type_, value, written=False)
    else:
        _check_value(scope, type_, value)


def _check_count(scope: Scope, count: int, operands: tuple[tree.Operand, ...]) -> None:
    """Check that the operands of ``.v2`` and ``.v4`` are vectors of that length.

    A special register has a length of its own.
    """
    for operand in operands:
        length = count
        if isinstance(operand, tree.Vector):
            length = len(operand.elements)
        elif isinstance(operand, tree.Name) and isinstance(
            register := scope.look_up(operand), Register
        ):
            length = register.count
        if length != count:
            raise Invalid(f"expected a vector of {count} elements")


def _whole(register: Register, name: tree.Name) -> Register:
    """Return the type of a vector that is named without a component; it is untyped bits."""
    if register.count == 1 or name.component:
        return register
    bits = register.count * register.type.bits
    return Register(Type("bits", bits, f"v{register.count}.{register.type.name}"))


def _check_register(type_: Type, register: Register, name: tree.Name) -> None:
    if type_.takes(register.type):
        return
    own = register.type
    if own.kind != "pred" and own.bits != type_.bits:
        message = f"{name.text!r} has {own.bits} bits, but .{type_.name} needs {type_.bits}"
        raise Invalid(message, name)
    raise Invalid(
        f"{name.text!r} is of type .{own.name}, which cannot be used as .{type_.name}", name
    )


def _check_parts(scope: Scope, type_: Type, vector: tree.Vector, *, written: bool) -> None:
    """Check that the parts of a packed value have their share of its bits."""
    parts = vector.elements
    if type_.kind != "bits" or len(parts) not in (2, 4) or type_.bits % len(parts):
        raise Invalid(f".{type_.name} cannot be packed from or unpacked to {len(parts)} parts")
    share = Type("bits", type_.bits // len(parts), f"b{type_.bits // len(parts)}")
    for part in parts:
        match part:
            case tree.Name():
                _check_register(share, scope.register(part), part)
            case tree.Sink() if written:
                pass
            case tree.Integer() | tree.Float() if not written and share.takes_constant(part):
                pass
            case _:
                raise Invalid(f"this operand cannot be a part of .{type_.name}")
    if all(isinstance(part, tree.Sink) for part in parts):
        raise Invalid("at least one element of the vector must not be '_'")


def _check_value(scope: Scope, type_: Type, value: tree.Operand) -> None:
    match value:
        case tree.Integer() | tree.Float():
            if not type_.takes_constant(value):
                raise Invalid(f"this constant cannot be read as .{type_.name}")
        case tree.Not(tree.Name() as inner) if type_.kind == "pred":
            _check_register(type_, scope.register(inner), inner)
        case tree.Name() | tree.Offset():
            base = value.base if isinstance(value, tree.Offset) else value
            _check_named(scope, type_, base, plain=base is value)
        case tree.Element(base):
            scope.array(value)
            _check_named(scope, type_, base, plain=True)
        case _:
            raise Invalid(f"this operand cannot be read as .{type_.name}")


def _check_named(scope: Scope, type_: Type, name: tree.Name, *, plain: bool) -> None:
    match scope.look_up(name):
        case Register() as register if plain:
            _check_register(type_, _whole(register, name), name)
        case Register(own) if own.kind in ("integer", "bits"):
            _check_register(type_, Register(own), name)
        case Special(bits, once) if plain:
            numbers = type_.kind in ("integer", "bits") and type_.bits <= bits
            if bits == 1 and type_.kind == "pred":
                return
            if not numbers or (bits == 64 and type_.bits not in (64, *once)):
                raise Invalid(f"{name.text!r} cannot be read as .{type_.name}", name)
        case Place() | Symbol():
            if type_.kind not in ("integer", "bits") or type_.bits < 32:
                raise Invalid(f"the address of {name.text!r} cannot be read as .{type_.name}", name)
        case _:
            raise Invalid(f"{name.text!r} cannot have an offset here", name)
