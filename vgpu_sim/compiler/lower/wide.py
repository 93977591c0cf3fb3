"""Registers of 128 bits, each of which is two registers of 64 bits.

Instructions use both as a vector, or only the low one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.symbols.scopes import HALVES
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register, Space, Update
from vgpu_sim.isa.families.atomic import PAIR

# Instructions whose registers may be wider than the data (PTX ISA, "Operand Size Exceeding
# Instruction-Type Size"), and the operand with the data.
_RELAXED: Final = {"ld": 0, "ldu": 0, "st": 1}
_LOW = HALVES[0]


def split_operands(context: Context, instruction: tree.Instruction) -> list[tree.Name]:
    """Split each 128-bit register in ``context.operands`` into two 64-bit registers.

    Some instructions load only the low half of such a register. Return the registers for which
    this is so. ``write_high_halves`` writes their high halves.

    Raises:
        Invalid: an operand is a 128-bit register, but the instruction allows none there.
    """
    operands = list(instruction.operands)
    if ".b128" in instruction.modifiers:
        context.operands = tuple(_halves(o) if context.is_wide(o) else o for o in operands)
        return []
    data, whole = _RELAXED.get(instruction.opcode), list[tree.Name]()
    if data is not None and data < len(operands):
        operands[data] = _low(context, operands[data], whole)
    for operand in operands:
        if context.is_wide(operand):
            assert isinstance(operand, tree.Name)
            raise Invalid(
                f"{operand.text!r} is a 128-bit register, which is not allowed here", operand
            )
    context.operands = tuple(operands)
    return whole if data == 0 else []


def write_high_halves(context: Context, loaded: Sequence[tree.Name], match: Match) -> None:
    """Emit code that writes the high half of each register in ``loaded``.

    The high half is filled with copies of the low half's sign bit if the type is signed, and
    with zeros otherwise.
    """
    for name in loaded:
        low, high = (context.register(replace(name, component=half)) for half in HALVES)
        assert isinstance(low, Register)
        if match["type"].startswith("s"):
            srcs = (low, Literal(63))
            context.builder.emit(Op.SHR, type=DataType.S64, dsts=(high,), srcs=srcs)
        else:
            context.builder.emit(Op.MOV, type=DataType.B64, dsts=(high,), srcs=(Literal(0),))


def _halves(operand: tree.Operand) -> tree.Vector:
    assert isinstance(operand, tree.Name)
    return tree.Vector(tuple(replace(operand, component=half) for half in HALVES))


def _low(context: Context, operand: tree.Operand, whole: list[tree.Name]) -> tree.Operand:
    """Return the operand, or its elements, with low halves for registers of 128 bits."""
    if isinstance(operand, tree.Vector):
        return replace(
            operand, elements=tuple(_low(context, element, whole) for element in operand.elements)
        )
    if not context.is_wide(operand):
        return operand
    assert isinstance(operand, tree.Name)
    whole.append(operand)
    return replace(operand, component=_LOW)


def exchange(
    context: Context,
    update: Update,
    dsts: Sequence[Register],
    srcs: Sequence[Operand],
    space: Space,
) -> None:
    """Emit an update of 128 bits in one step."""
    context.builder.emit(
        Op.ATOM,
        type=DataType.B64,
        dsts=tuple(dsts),
        srcs=tuple(srcs),
        space=space,
        update=update,
        vector=PAIR,
    )


def store(context: Context, place: Operand, halves: Sequence[Operand], space: Space) -> None:
    """Store 128 bits in one step, by an exchange."""
    dropped = [context.builder.scratch_register(64) for _ in halves]
    exchange(context, Update.EXCH, dropped, (place, *halves), space)
