"""The table of all opcodes: for each, a row with its operands, modifiers and semantics."""

from itertools import chain
from typing import Final

from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.families import (
    atomic,
    bitwise,
    compare,
    control,
    convert,
    copy,
    float as float_family,
    integer,
    matrix,
    memory,
    move,
    stack,
    sync,
    tensor,
    video,
    warp,
)
from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.module import Function
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.types import Space

_FAMILIES = (
    control,
    move,
    integer,
    float_family,
    compare,
    convert,
    memory,
    sync,
    bitwise,
    warp,
    atomic,
    video,
    copy,
    stack,
    matrix,
    tensor,
)

_ROWS = sorted(chain.from_iterable(f.ROWS for f in _FAMILIES), key=lambda row: row.op)
TABLE: Final = {row.op: row for row in _ROWS}
EFFECTS: Final[dict[Op, Effects]] = {op: row.effects for op, row in TABLE.items()}


def reads_memory(instruction: Instruction) -> bool:
    """True if the instruction reads memory that other threads may write.

    Parameters do not count, since they are never written.
    """
    return EFFECTS[instruction.op].reads and instruction.space is not Space.PARAM


def is_visible(instruction: Instruction) -> bool:
    """True if other threads can observe that the instruction executes.

    Such an instruction may be neither eliminated nor repeated.
    """
    return EFFECTS[instruction.op].visible or instruction.volatile


def polls(instruction: Instruction) -> bool:
    """True if a loop around the instruction may wait for another thread's write to memory."""
    effects = EFFECTS[instruction.op]
    return reads_memory(instruction) and (instruction.volatile or effects.orders)


def has_stack(function: Function) -> bool:
    """True if the function's calls keep frames in local memory, after ``Function.local_bytes``."""
    return any(instruction.op is Op.LOCAL_BYTES for instruction in function.code)
