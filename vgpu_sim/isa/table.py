"""One row per opcode, from all families: what it takes and, in words, what it does."""

from itertools import chain
from typing import Final

from vgpu_sim.isa.effects import Effects
from vgpu_sim.isa.families import (
    compare,
    control,
    convert,
    float as float_family,
    integer,
    memory,
    move,
    sync,
)
from vgpu_sim.isa.instruction import Instruction
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.types import Space

_FAMILIES = (control, move, integer, float_family, compare, convert, memory, sync)

TABLE: Final = {row.op: row for row in chain.from_iterable(f.ROWS for f in _FAMILIES)}
EFFECTS: Final[dict[Op, Effects]] = {op: row.effects for op, row in TABLE.items()}


def reads_memory(instruction: Instruction) -> bool:
    """Return whether it reads what others may write; the parameter block nobody writes."""
    return EFFECTS[instruction.op].reads and instruction.space is not Space.PARAM


def is_visible(instruction: Instruction) -> bool:
    """Return whether others can tell that it ran: it may not be left out or run twice."""
    return EFFECTS[instruction.op].visible or instruction.volatile
