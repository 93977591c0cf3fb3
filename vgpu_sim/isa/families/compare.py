"""Comparison of two values. The second predicate of an instruction, if any, is encoded where other
families have modifiers.
"""

from typing import Final

from vgpu_sim.isa.layout import DST, choice, flag
from vgpu_sim.isa.opcodes import Op
from vgpu_sim.isa.spec import FLOATS, FLUSHED, INTEGERS, OpSpec, Role
from vgpu_sim.isa.types import BoolOp, Compare

_SECOND = 32
_TYPES = (*INTEGERS, *FLOATS)
_COMPARES = {c: _TYPES if c <= Compare.GE else FLOATS for c in Compare}

ROWS: Final = (
    OpSpec(
        Op.SETP,
        "compare",
        "p = (a compare b) combine c; q = !(a compare b) combine c. On NaN EQ, NE, LT, LE, GT and"
        " GE are false, their ...U forms true; NUM: neither is NaN; NAN: one is. p and q are"
        " different registers; q may be absent. FTZ flushes a and b.",
        "setp",
        _TYPES,
        (Role.PREDICATE, Role.INVERSE),
        (Role.VALUE, Role.VALUE, Role.COMBINED),
        (
            choice("compare", Compare, 24, 4, _COMPARES),
            choice("combine", BoolOp, 28, 2),
            flag("ftz", "FTZ", 30, FLUSHED),
        ),
        dst_places=(DST, _SECOND),
    ),
)
