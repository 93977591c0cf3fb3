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
)
from vgpu_sim.isa.opcodes import Op

_FAMILIES = (control, move, integer, float_family, compare, convert, memory)

TABLE: Final = {row.op: row for row in chain.from_iterable(f.ROWS for f in _FAMILIES)}
EFFECTS: Final[dict[Op, Effects]] = {op: row.effects for op, row in TABLE.items()}
