"""Moves: bit patterns are copied unchanged."""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.layout import choice, flag
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import FLOATS, INTEGERS, OpSpec, Role
from vgpu_sim.isa.types import DataType, SpecialRegister

CLUSTER_RANK_SHIFT: Final = 24
CLUSTER_RANK_BITS: Final = 0xFF << CLUSTER_RANK_SHIFT
"""The bits of an address of shared memory that name a block of the cluster."""
FIRST_RANK_FIELD: Final = 2
"""These bits for the block with rank 0. The number is even, so that clearing the lowest of the bits
in an address of a block of a pair gives that of the even block, as on hardware.
"""
MAX_MAPPED_RANK: Final = 63
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
    OpSpec(
        Op.MAPA,
        "map an address of shared memory to a block of the cluster",
        "d = the address at which all blocks of the cluster access the byte of shared memory that"
        " block b (its rank in the cluster) has at address a. a is an address of shared memory, for"
        " U64 a generic one. If the cluster has one block, d is a without bits 24 to 31; otherwise"
        " bits 24 to 31 of d are 2 + b, or 65 if b is more than 63. An access of shared memory at"
        " an address with other bits 24 to 31 than 0 is one of that block's memory, until the last"
        " block of the cluster has ended; if the cluster has no such block, the context ends with"
        " CUDA_ERROR_ILLEGAL_ADDRESS (700).",
        "mapa",
        (DataType.U32, DataType.U64),
        (_V,),
        (_V, Role.COUNT),
    ),
)
