"""Moves: patterns travel unchanged."""

from typing import Final

from vgpu_sim.isa.layout import choice
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import FLOATS, INTEGERS, OpSpec, Role
from vgpu_sim.isa.types import DataType, SpecialRegister

_V = Role.VALUE

ROWS: Final = (
    OpSpec(
        Op.MOV,
        "move",
        "d = a. Patterns travel unchanged, NaNs too.",
        "mov, cvta",
        (DataType.PRED, *INTEGERS, *FLOATS),
        (_V,),
        (_V,),
    ),
    OpSpec(
        Op.S2R,
        "read special register",
        "d = the 32-bit special register.",
        "Special Registers",
        (DataType.B32, DataType.U32),
        (_V,),
        modifiers=(choice("sreg", SpecialRegister, 24, 8, spoken=False),),
    ),
    OpSpec(
        Op.SELP,
        "select",
        "d = c ? a : b. Patterns travel unchanged.",
        "selp",
        (*INTEGERS, *FLOATS),
        (_V,),
        (_V, _V, Role.PREDICATE),
    ),
)
