"""Moves: bit patterns are copied unchanged."""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import choice, flag
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import FLOATS, INTEGERS, OpSpec, Role
from vgpu_sim.isa.types import DataType, SpecialRegister

_V = Role.VALUE


def _special_errors(instruction: Instruction, function: Function) -> Iterator[str]:
    register = instruction.sreg
    if register is None:
        return
    if instruction.type.bits != register.bits:
        yield f"{register.name} has {register.bits} bits, not {instruction.type.bits}"
    if instruction.volatile != register.is_clock:
        yield f"S2R of {register.name} is {'' if register.is_clock else 'not '}VOLATILE"


ROWS: Final = (
    OpSpec(
        Op.MOV,
        "move",
        "d = a. Bit patterns are copied unchanged, including NaNs.",
        "mov, cvta",
        (DataType.PRED, *INTEGERS, *FLOATS),
        (_V,),
        (_V,),
    ),
    OpSpec(
        Op.S2R,
        "read special register",
        "d = the special register, which has 32 bits or 64. A register that changes while a kernel"
        " runs is VOLATILE: each S2R reads it again, and lanes that read it together get the same"
        " value.",
        "Special Registers",
        (DataType.B32, DataType.U32, DataType.B64, DataType.U64),
        (_V,),
        modifiers=(
            choice("sreg", SpecialRegister, 24, 8, spoken=False),
            flag("volatile", "VOLATILE", 32),
        ),
        check=_special_errors,
    ),
    OpSpec(
        Op.SELP,
        "select",
        "d = c ? a : b. Bit patterns are copied unchanged.",
        "selp",
        (*INTEGERS, *FLOATS),
        (_V,),
        (_V, _V, Role.PREDICATE),
    ),
)
