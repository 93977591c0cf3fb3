"""How many bits an instruction reads of each source operand."""

from vgpu_sim.exec.jit.numbers import fold
from vgpu_sim.isa import Instruction, Op
from vgpu_sim.isa.rules import operand_bits, source_roles
from vgpu_sim.isa.spec import Role
from vgpu_sim.isa.table import TABLE

_MIXED = frozenset(
    op for op, row in TABLE.items() if any(role is not Role.VALUE for role in row.srcs)
)
"""The opcodes whose operands differ in width from the instruction's type."""


def operand_widths(instruction: Instruction) -> tuple[int, ...]:
    """Return the number of bits that an instruction reads of each source operand."""
    bits = instruction.type.bits
    match instruction.op:
        case Op.CVT:
            assert instruction.source_type is not None
            return (instruction.source_type.bits,)
        case Op.CVT_RS:
            return (32, 32)
        case Op.MUL | Op.MAD:
            last = fold.result_type(instruction).bits
            return (bits, bits, last)[: len(instruction.srcs)]
        case Op.SHL | Op.SHR | Op.MAPA:
            return (bits, 32)
        case Op.SELP:
            return (bits, bits, 1)
        case Op.SETP:
            return (bits, bits, 1)[: len(instruction.srcs)]
        case Op.BAR_SYNC | Op.BAR_ARRIVE:
            return (32, 32)
        case Op.LD | Op.ST | Op.ATOM | Op.RED:
            return (64, *[bits] * (len(instruction.srcs) - 1))[: len(instruction.srcs)]
        case Op.LD_ZFILL:
            return (64, 32)
        case op if op in _MIXED:
            roles = source_roles(instruction, TABLE[op])
            return tuple(operand_bits(role, instruction) for role in roles)
        case _:
            return (bits,) * len(instruction.srcs)
