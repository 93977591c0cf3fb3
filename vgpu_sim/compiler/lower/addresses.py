"""Addresses (PTX ISA, "Addresses as Operands"), whatever family takes them."""

from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.findings import Invalid, Unsupported
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register, Space, Symbol

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1


def split(operand: tree.Operand) -> tuple[tree.Operand, int]:
    """Return base and addend of ``base + addend``."""
    if isinstance(operand, tree.Offset):
        return operand.base, operand.addend
    return operand, 0


def symbol_of(context: Context, operand: tree.Operand) -> tuple[Symbol, Space] | None:
    """Return the module variable that an operand names, with its space; None for other operands.

    Raises:
        Unsupported: for names that have an address in PTX but none here yet.
    """
    base, addend = split(operand)
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
    base, displacement = split(operand.parts[0])
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
