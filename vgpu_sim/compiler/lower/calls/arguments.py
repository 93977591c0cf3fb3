"""Arguments and results of calls: registers, and variables in ``.param`` space."""

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.stack.program import Value
from vgpu_sim.compiler.lower.symbols import frames
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.frames import LocalVariable
from vgpu_sim.compiler.lower.symbols.scopes import RegisterClass
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES, REGISTER_BITS, UNTYPED
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Op, Operand, Register, Space

MAX_GRANULE_BYTES = 8


def find_param_variable(context: Context, operand: tree.Operand) -> LocalVariable | None:
    """Return the caller's ``.param`` variable that an operand names."""
    if not isinstance(operand, tree.Name):
        return None
    binding = context.scope.find(operand.text)
    return binding[1] if binding is not None and isinstance(binding[1], LocalVariable) else None


def check_size(formal: tree.Variable, variable: LocalVariable, actual: tree.Operand) -> None:
    """Check that a ``.param`` variable has the size of the formal parameter.

    Raises:
        Invalid: its size differs.
    """
    size, _ = frames.size_and_alignment(formal)
    if variable.size != size:
        at = actual if isinstance(actual, tree.Name) else None
        raise Invalid(
            f"parameter {formal.name!r} has {size} bytes, but the variable has {variable.size}", at
        )


def new_value(context: Context, formal: tree.Variable) -> Value:
    """Return a new variable or register for an argument or a result of a function.

    A variable is placed in the function's frame.
    """
    if formal.space is tree.Space.REG:
        return context.builder.new_register(_register_bits(formal))
    if formal.space is not tree.Space.PARAM:
        raise Invalid("a function's parameters must be in .reg or .param space", formal)
    return context.create_local(formal)


def _register_bits(formal: tree.Variable) -> int:
    bits = REGISTER_BITS.get(formal.type)
    if bits is None or formal.vector or formal.dimensions:
        raise Unsupported(
            f"a register parameter of type {formal.vector}{formal.type}",
            formal,
        )
    return bits


def declare(context: Context, formal: tree.Variable, value: Value) -> None:
    """Declare an argument or a result in its function; ``value`` is the place that holds it."""
    if isinstance(value, LocalVariable):
        context.scope.declare(formal.name, value, formal)
        return
    bits = context.builder.register_bits[value.index]
    context.scope.declare(formal.name, RegisterClass(bits), formal)
    context.scope.assigned[formal.name] = value


def evaluate_argument(context: Context, formal: tree.Variable, actual: tree.Operand) -> Value:
    """Evaluate an argument of a call; return a new register or variable that holds its value."""
    builder = context.builder
    variable = find_param_variable(context, actual)
    if variable is not None:
        if formal.space is tree.Space.REG:
            raise Invalid(f"the argument for {formal.name!r} must be a register or a constant")
        check_size(formal, variable, actual)
        own = context.new_local(variable.size, variable.align)
        copy(context, own, variable)
        return own
    type_ = _scalar_type(formal)
    source = values.source(context, actual, type_, wider=type_.bits == 8)
    if formal.space is tree.Space.REG:
        register = builder.new_register(_register_bits(formal))
        builder.emit(Op.MOV, type=_move_type(type_), dsts=(register,), srcs=(source,))
        return register
    variable = context.create_local(formal)
    _store(context, variable, 0, type_, source)
    return variable


def _scalar_type(formal: tree.Variable) -> DataType:
    """Return the type of a parameter that fits one register or constant."""
    type_ = DATA_TYPES.get(formal.type[1:])
    if type_ is None and formal.type in REGISTER_BITS:
        type_ = UNTYPED[REGISTER_BITS[formal.type]]
    if type_ is None or formal.dimensions or formal.vector:
        raise Invalid(f"the argument for {formal.name!r} must be a .param variable")
    return type_


def _move_type(type_: DataType) -> DataType:
    """Return the type with which a value is moved: 8 bits are in 16-bit registers."""
    return type_ if type_.bits > 8 else DataType.B16


def copy_result(
    context: Context, formal: tree.Variable, actual: tree.Operand, value: Value
) -> None:
    """Copy a result of a function to the operand of the call that receives it."""
    if isinstance(actual, tree.Sink):
        return
    builder = context.builder
    variable = find_param_variable(context, actual)
    if variable is not None:
        if isinstance(value, Register):
            raise Invalid(f"result {formal.name!r} must be written to a register")
        check_size(formal, variable, actual)
        copy(context, variable, value)
        return
    type_ = _scalar_type(formal)
    to = values.destination(context, actual, type_, wider=type_.bits == 8)
    if isinstance(value, Register):
        builder.emit(Op.MOV, type=_move_type(type_), dsts=(to,), srcs=(value,))
    else:
        _load(context, to, value, 0, type_)


def copy(context: Context, to: Value, source: Value) -> None:
    """Copy a whole argument or result from ``source`` to ``to``."""
    builder = context.builder
    if isinstance(to, Register) and isinstance(source, Register):
        type_ = UNTYPED[builder.register_bits[to.index]]
        builder.emit(Op.MOV, type=type_, dsts=(to,), srcs=(source,))
        return
    assert isinstance(to, LocalVariable)
    assert isinstance(source, LocalVariable)
    offset = 0
    step = min(to.align, source.align, MAX_GRANULE_BYTES)
    while offset < to.size:
        while offset + step > to.size:
            step //= 2
        type_ = UNTYPED[8 * step]
        between = builder.new_register(max(16, 8 * step))
        _load(context, between, source, offset, type_)
        _store(context, to, offset, type_, between)
        offset += step


def _load(
    context: Context, to: Register, variable: LocalVariable, offset: int, type_: DataType
) -> None:
    context.builder.emit(
        Op.LD, type=type_, dsts=(to,), srcs=(variable.symbol(offset),), space=Space.LOCAL
    )


def _store(
    context: Context, variable: LocalVariable, offset: int, type_: DataType, source: Operand
) -> None:
    context.builder.emit(
        Op.ST, type=type_, srcs=(variable.symbol(offset), source), space=Space.LOCAL
    )
