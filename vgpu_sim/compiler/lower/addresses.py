"""Lowers addresses (PTX ISA, "Addresses as Operands") for all families."""

from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.symbols import managed_variables
from vgpu_sim.compiler.lower.symbols.descriptors import descriptor_name
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.frames import LocalVariable
from vgpu_sim.compiler.lower.symbols.shared_memory import SharedVariable
from vgpu_sim.compiler.lower.symbols.types import UNSIGNED
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register, Space, Symbol

_SHARED_MASK = 0xFFFF_FFFF
_UPPER_HALF = 0xFFFF_FFFF_0000_0000
WINDOWS = (Space.SHARED, Space.LOCAL)
"""The state spaces with 32-bit addresses; their generic addresses are in a window."""

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1


def split(operand: tree.Operand) -> tuple[tree.Operand, int]:
    """Split an operand ``base + addend`` into base and addend."""
    if isinstance(operand, tree.Offset):
        return operand.base, operand.addend
    return operand, 0


def symbol_of(context: Context, operand: tree.Operand) -> tuple[Operand, Space] | None:
    """Return the address and space of the variable that an operand names.

    Return None for any other operand. The address of a managed variable is loaded to a register.

    Raises:
        Unsupported: PTX defines an address for the name, but this compiler does not support it.
    """
    base, addend = split(operand)
    if not isinstance(base, tree.Name):
        return None
    binding = context.scope.find(base.text)
    if binding is not None and isinstance(binding[1], LocalVariable):
        return binding[1].symbol(addend), Space.LOCAL
    if binding is None and base.text in context.locals:
        return context.locals[base.text].symbol(addend), Space.LOCAL
    shared = context.find_shared(base.text) if binding is None else binding[1]
    if isinstance(shared, SharedVariable):
        return Literal((shared.offset + addend) & _SHARED_MASK), Space.SHARED
    if binding is not None:
        return None
    symbols = context.symbols
    parameter = context.parameters.get(base.text)
    if parameter is not None:
        context.uses_parameter_image = True
        return Symbol(context.parameter_image, parameter.offset + addend), Space.PARAM
    variable = symbols.variables.get(base.text)
    if variable is not None:
        return _variable_address(context, base.text, addend), variable.space
    refused = symbols.refused.get(base.text)
    if refused is not None:
        raise Unsupported(f"{refused.what}", base)
    if base.text in symbols.functions or base.text in symbols.graph.functions:
        return _function_address(context, base, addend)
    if context.scope.find_label(base.text) is not None:
        raise Unsupported(f"taking the address of label {base.text!r}", base)
    return None


def _function_address(context: Context, name: tree.Name, addend: int) -> tuple[Operand, Space]:
    """Return the address of a function, or that of the descriptor of a kernel."""
    symbols = context.symbols
    function = symbols.graph.functions.get(name.text)
    if function is not None:
        return Literal(symbols.graph.address(function) + addend), Space.CONST
    descriptor = descriptor_name(name.text)
    if descriptor in symbols.variables:
        return Symbol(descriptor, addend), Space.GLOBAL
    raise Unsupported(f"taking the address of function {name.text!r}", name)


def _variable_address(context: Context, name: str, addend: int) -> Operand:
    """Return the address of a module variable, plus ``addend``; load that of a managed one. A
    variable of an opaque type stands for the handle that it holds.
    """
    pointer = managed_variables.pointer_name(name)
    if name in context.symbols.handles:
        pointer = name
    if pointer not in context.symbols.variables:
        return Symbol(name, addend)
    builder = context.builder
    address = builder.scratch_register(64)
    source = Symbol(pointer)
    builder.emit(Op.LD, type=DataType.B64, dsts=(address,), srcs=(source,), space=Space.GLOBAL)
    if addend:
        step = Literal(addend & 0xFFFF_FFFF_FFFF_FFFF)
        builder.emit(Op.ADD, type=DataType.U64, dsts=(address,), srcs=(address, step))
    return address


def space_of(
    context: Context,
    where: tree.Operand,
    stated_space: Space,
    windows: tuple[Space, ...] = (Space.SHARED,),
) -> Space:
    """Return the state space that an instruction accesses.

    ``stated_space`` is the space that the instruction states; it is GENERIC if the instruction
    states none. In that case, the operand ``where`` may name a variable. If the variable's space
    is one of ``windows``, return it. Otherwise return ``stated_space``.
    """
    if stated_space is Space.GENERIC and isinstance(where, tree.Memory) and len(where.parts) == 1:
        symbol = symbol_of(context, where.parts[0])
        if symbol is not None and symbol[1] in windows:
            return symbol[1]
    return stated_space


def base_and_displacement(
    context: Context, operand: tree.Operand, space: Space
) -> tuple[Operand, int]:
    """Return base and displacement in bytes of an address operand ``[...]``.

    Raises:
        Invalid: it is not an address, or its displacement does not fit 32 bits.
    """
    if isinstance(operand, tree.Element):  # not an array, or a bad index: reported later
        raise Unsupported("using an array element as this operand")
    if not isinstance(operand, tree.Memory) or len(operand.parts) != 1:
        raise Invalid("expected an address in brackets")
    symbol = symbol_of(context, operand.parts[0])
    if symbol is not None:
        if space not in (Space.GENERIC, symbol[1]):
            space_name = space.name.lower()
            raise Invalid(
                f"the variable is in .{symbol[1].name.lower()} space,"
                f" but the instruction names .{space_name}"
            )
        if space is Space.GENERIC and symbol[1] in WINDOWS:
            raise Unsupported(
                f"accessing a .{symbol[1].name.lower()} variable by name without its state space"
            )
        return symbol[0], 0
    base, displacement = split(operand.parts[0])
    if isinstance(base, tree.Integer):
        return Literal(base.value & 0xFFFF_FFFF_FFFF_FFFF), displacement
    if not _INT32_MIN <= displacement <= _INT32_MAX:
        raise Invalid(f"address offset {displacement} does not fit 32 bits")
    return _base_register(context, base, 32 if space in WINDOWS else 64), displacement


def whole_address(context: Context, operand: tree.Operand, space: Space) -> Operand:
    """Return the address of a ``[...]`` operand as one value, the sum of base and displacement.

    ISA instructions that have no displacement need such an address. Raises as
    ``base_and_displacement``.
    """
    base, displacement = base_and_displacement(context, operand, space)
    if displacement == 0:
        return base
    bits = 32 if space is Space.SHARED else 64
    if isinstance(base, Literal):
        return Literal(base.bits + displacement & (1 << bits) - 1)
    sum_ = context.builder.scratch_register(bits)
    step = Literal(displacement & (1 << bits) - 1)
    type_ = DataType.U32 if bits == 32 else DataType.U64
    context.builder.emit(Op.ADD, type=type_, dsts=(sum_,), srcs=(base, step))
    return sum_


def whole_parameter_address(context: Context, source: Operand) -> Operand:
    """Return the address of a parameter, of which ``source`` may have the low 32 bits alone.

    All addresses of a kernel's parameters have the same upper half, because the segment with a
    module's variables is a part of an aligned GiB.
    """
    if not context.has_short_addresses or context.leave is not None:
        return source
    context.uses_parameter_image = True
    builder = context.builder
    high, low, whole = (builder.scratch_register(64) for _ in range(3))
    image = Symbol(context.parameter_image)
    builder.emit(Op.MOV, type=DataType.B64, dsts=(high,), srcs=(image,))
    half = Literal(_UPPER_HALF)
    builder.emit(Op.AND, type=DataType.B64, dsts=(high,), srcs=(high, half))
    builder.emit(Op.AND, type=DataType.B64, dsts=(low,), srcs=(source, Literal(_SHARED_MASK)))
    builder.emit(Op.OR, type=DataType.B64, dsts=(whole,), srcs=(high, low))
    return whole


def _base_register(context: Context, base: tree.Operand, min_bits: int) -> Register:
    """Return a register of at least ``min_bits`` bits that holds the address, zero-extended if
    necessary.
    """
    register = context.register(base) if isinstance(base, tree.Name) else None
    if not isinstance(register, Register):
        if not isinstance(base, tree.Name):
            raise Invalid("'this' is not an address")
        known = register is not None or context.scope.find(base.text) is not None
        reason = "is not an address" if known else "is not declared"
        raise Invalid(f"{base.text!r} {reason}", base)
    bits = context.bits(register)
    if bits >= min_bits:
        return register
    wide = context.builder.scratch_register(min_bits)
    context.builder.emit(
        Op.CVT,
        type=UNSIGNED[min_bits],
        source_type=UNSIGNED[bits],
        dsts=(wide,),
        srcs=(register,),
    )
    return wide
